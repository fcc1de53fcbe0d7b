"""The pre-commit buffer beside others that open, look at or replace its file at the same moment."""

from __future__ import annotations

import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import everlog
from everlog.core.files.writable import LocalWritableFile, LocalWritableStorage
from everlog.errors import CorruptData, FileChanged, UsageError
from everlog.jlog import Writer, alter, create
from everlog.jlog.format.layouts import FLUSH_NOTE_MAGIC, JlogFlushNote
from everlog.jlog.format.pre_commit import read_flush_note
from everlog.jlog.repair.planning import plan_repair
from everlog.jlog.store import JlogStore
from everlog.jlog.writing.buffer import PreCommitBuffer
from everlog.testing.storage.crashing import CrashingFile, CrashingStorage


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """An empty one with a buffer."""
    create(tmp_path / "j", buffer_bytes=4096)
    return tmp_path / "j"


def read(path: Path) -> list[bytes]:
    with everlog.open_store(path) as store:
        return [record.payload for record in store.read("journal")]


def used(path: Path) -> int:
    return int.from_bytes((path / "pre_commit").read_bytes()[:4], "little")


class Between(LocalWritableStorage):
    """Somebody else comes at one moment: after the buffer was ``asked`` for, or ``opened``."""

    def __init__(self, root: Path, moment: str, other: Callable[[], Any]) -> None:
        super().__init__(root)
        self.moment = moment
        self.other = other
        self.results: list[Any] = []

    def come(self, moment: str, name: str) -> None:
        if moment == self.moment and name == "pre_commit" and not self.results:
            self.results.append("on its way")
            self.results.append(self.other())

    def is_open_elsewhere(self, name: str) -> bool | None:
        found = super().is_open_elsewhere(name)
        self.come("asked", name)
        return found

    def open_writable(self, name: str, **options: Any) -> LocalWritableFile:
        file = super().open_writable(name, **options)
        self.come("opened", name)
        return file


def test_a_buffered_writer_that_opens_while_the_buffer_is_resized_keeps_its_messages(journal: Path) -> None:
    def open_and_append() -> Writer:
        writer = Writer(journal, durability="buffered")
        writer.append(b"acknowledged")
        return writer

    storage = Between(journal, "asked", open_and_append)
    with pytest.raises(UsageError, match="a writer has it open"):
        alter(storage, buffer_bytes=8192)
    assert used(journal) == 28, "the writer's buffer is the journal's"
    storage.results[1].close()
    assert read(journal) == [b"acknowledged"]


def test_what_a_writer_left_while_the_buffer_is_resized_stays(journal: Path, make: Any) -> None:
    left = make.message(b"left by one that died")

    def open_append_and_die() -> None:
        (journal / "pre_commit").write_bytes(len(left).to_bytes(4, "little") + left + bytes(4096 - len(left)))

    with pytest.raises(UsageError, match="a writer uses it"):
        alter(Between(journal, "asked", open_append_and_die), buffer_bytes=8192)
    alter(journal, buffer_bytes=8192)
    assert read(journal) == [b"left by one that died"]


def test_a_buffered_writer_leaves_a_file_that_was_replaced_while_it_waited_for_its_lock(journal: Path) -> None:
    def replace() -> None:
        LocalWritableStorage(journal).publish("pre_commit", bytes(4 + 8192), replace=True)

    with Writer(Between(journal, "opened", replace), durability="buffered") as writer:
        writer.append(b"acknowledged")
        assert used(journal) == 28
        assert (journal / "pre_commit").stat().st_size == 4 + 8192
    assert read(journal) == [b"acknowledged"]


def test_a_buffer_made_while_one_is_to_be_made_is_not_replaced(tmp_path: Path) -> None:
    create(tmp_path / "j")
    writers: list[Writer] = []

    class Made(LocalWritableStorage):
        def publish(self, name: str, data: bytes, **options: Any) -> bool:
            if name == "pre_commit" and not writers:
                writers.append(Writer(tmp_path / "j", durability="buffered", buffer_bytes=1000))
                writers[0].append(b"acknowledged")
            return super().publish(name, data, **options)

    with pytest.raises(UsageError, match="writer"):
        alter(Made(tmp_path / "j"), buffer_bytes=8192)
    assert used(tmp_path / "j") == 28
    writers[0].close()
    assert read(tmp_path / "j") == [b"acknowledged"]


def test_a_repair_does_not_write_over_a_buffer_that_was_replaced_meanwhile(
    make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = (52).to_bytes(4, "little") + make.message(b"w" * 20) + bytes(60)
    storage = CrashingStorage({"metastore": make.metastore(), "00000000": b"", "pre_commit": old})
    (step,) = plan_repair(storage).steps
    lock = CrashingFile.lock

    def replace_and_lock(file: CrashingFile, *, wait: bool = True) -> bool:
        if file.name == "pre_commit":
            storage.publish("pre_commit", old + b"new", replace=True)
        return lock(file, wait=wait)

    monkeypatch.setattr(CrashingFile, "lock", replace_and_lock)
    with pytest.raises(FileChanged):
        step.apply(None)
    assert storage.read_all("pre_commit") == old + b"new"


class Looked(LocalWritableStorage):
    """Others have the buffer open, each time that somebody asks, for the first few times."""

    def __init__(self, root: Path, times: int) -> None:
        super().__init__(root)
        self.times = times

    def is_open_elsewhere(self, name: str) -> bool | None:
        if name != "pre_commit" or self.times == 0:
            return super().is_open_elsewhere(name)
        self.times -= 1
        return True


def leave(journal: Path, message: bytes) -> None:
    """What a writer that was killed left."""
    (journal / "pre_commit").write_bytes(len(message).to_bytes(4, "little") + message + bytes(4096 - len(message)))


@pytest.mark.parametrize("durability", ["written", "synced", "buffered"])
def test_a_left_buffer_is_written_out_though_others_look_at_it_at_the_same_moment(
    journal: Path, make: Any, durability: str
) -> None:
    leave(journal, make.message(b"left by one that died"))
    Writer(Looked(journal, 3), durability=durability).close()
    assert read(journal) == [b"left by one that died"]


def test_a_left_buffer_is_written_out_though_another_had_its_lock_for_a_moment(
    journal: Path, make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave(journal, make.message(b"left by one that died"))
    lock = LocalWritableFile.lock
    refused: list[str] = []

    def lock_at_the_second_time(file: LocalWritableFile, *, wait: bool = True) -> bool:
        if file.name == "pre_commit" and not refused:
            refused.append(file.name)
            return False
        return lock(file, wait=wait)

    monkeypatch.setattr(LocalWritableFile, "lock", lock_at_the_second_time)
    Writer(journal, durability="written").close()
    assert refused
    assert read(journal) == [b"left by one that died"]


def test_a_writer_does_not_wait_for_ever_for_a_buffer_whose_writer_lives(journal: Path, make: Any) -> None:
    leave(journal, make.message(b"of one that lives"))
    with Writer(Looked(journal, -1), durability="written") as writer:
        writer.append(b"mine")
    assert read(journal) == [b"mine"]
    assert used(journal) > 0


def test_messages_behind_a_half_one_in_a_left_buffer_are_written_and_the_half_one_is_kept_aside(
    journal: Path, make: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """A writer of the C library was killed between its two copies, and another one went on behind."""
    whole = [make.message(letter * 30, time=1_700_000_000 + at) for at, letter in enumerate((b"a", b"b", b"c"))]
    for length in (10, 5000):
        half = make.message(bytes(length), time=1_700_000_000)[:16]
        leave(journal, whole[0] + half + whole[1] + whole[2])
        Writer(journal).close()
    assert read(journal) == [b"a" * 30, b"b" * 30, b"c" * 30] * 2
    assert used(journal) == 0
    assert (journal / "cut.pre_commit.50").read_bytes() == make.message(bytes(10))[:16]
    assert (journal / "cut.pre_commit.50.2").read_bytes() == half
    assert "saved in cut.pre_commit.50.2" in caplog.text


def test_a_half_message_at_the_end_of_a_left_buffer_is_left_out(
    journal: Path, make: Any, caplog: pytest.LogCaptureFixture
) -> None:
    leave(journal, make.message(b"whole") + make.message(b"half")[:-1])
    Writer(journal).close()
    assert read(journal) == [b"whole"]
    assert not list(journal.glob("cut.*"))
    assert "that are not a message (torn-record)" not in caplog.text
    assert "that are not a message (torn)" in caplog.text


@pytest.mark.parametrize("durability", ["written", "buffered"])
def test_a_left_buffer_whose_messages_are_stored_otherwise_than_the_metastore_says_is_refused(
    journal: Path, make: Any, durability: str
) -> None:
    for left in (
        make.stored(b"compressed", 10, magic=make.NULL) * 3,
        b"\xaa" * 20 + make.stored(b"compressed", 10, magic=make.NULL) * 3,
        make.stored(b"unknown", 7, magic=make.NULL + 9),
    ):
        leave(journal, left)
        before = (journal / "pre_commit").read_bytes()
        with pytest.raises(CorruptData, match="messages with magic 0x15106a0"):
            Writer(journal, durability=durability)
        assert (journal / "pre_commit").read_bytes() == before
    assert not list(journal.glob("cut.*"))


def test_a_left_buffer_without_a_message_is_refused(journal: Path) -> None:
    leave(journal, b"\xaa" * 50)
    with pytest.raises(CorruptData, match="the 50 bytes in use are not messages"):
        Writer(journal)
    assert used(journal) == 50


def test_a_left_buffer_of_zeros_as_a_power_cut_leaves_it_is_emptied(journal: Path) -> None:
    leave(journal, bytes(50))
    Writer(journal).close()
    assert (used(journal), read(journal)) == (0, [])


def flush_and_die(journal: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The journal as a buffered writer leaves it that is killed in a flush, behind its last write."""
    left = journal.parent / "left"
    with Writer(journal, durability="buffered") as writer, monkeypatch.context() as patched:
        writer.append_many([b"buffered 1", b"buffered 2"])
        patched.setattr(PreCommitBuffer, "empty", lambda buffer: shutil.copytree(journal, left))
        writer.flush()
    return left


def test_a_flush_is_noted_behind_what_the_segment_has_though_its_writer_appended_nothing_before(
    journal: Path, make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = make.message(b"there before") * 20
    (journal / "00000000").write_bytes(there)
    left = flush_and_die(journal, monkeypatch)
    note = read_flush_note(LocalWritableStorage(left))
    assert note is not None
    assert (note.log, note.offset) == (0, len(there))
    Writer(left).close()
    assert read(left) == [b"there before"] * 20 + [b"buffered 1", b"buffered 2"]


@pytest.mark.parametrize("is_noted_early", [False, True])
def test_a_killed_flush_behind_damage_is_written_once(
    journal: Path, make: Any, monkeypatch: pytest.MonkeyPatch, is_noted_early: bool
) -> None:
    torn = make.message(b"torn" * 25)[:40]
    (journal / "00000000").write_bytes(make.message(b"first") + torn + make.message(b"second", time=1_700_000_001) * 2)
    left = flush_and_die(journal, monkeypatch)
    if is_noted_early:  # as older versions noted it
        buffer = (left / "pre_commit").read_bytes()
        at = len(buffer) - JlogFlushNote.size
        note = JlogFlushNote.pack(magic=FLUSH_NOTE_MAGIC, log=0, offset=0)
        (left / "pre_commit").write_bytes(buffer[:at] + note)
    Writer(left).close()
    with everlog.open_store(left) as store:
        there = [record.payload for record in store.read("journal", on_fault=lambda fault: None)]
    assert there == [b"first", b"second", b"second", b"buffered 1", b"buffered 2"]


@pytest.mark.parametrize("is_flushed", [False, True])
@pytest.mark.parametrize("quoting", [0, 1, 2])
def test_what_quotes_a_later_message_in_a_left_buffer_is_written_once_and_whole(
    journal: Path, make: Any, monkeypatch: pytest.MonkeyPatch, quoting: int, is_flushed: bool
) -> None:
    """As of a machine whose clock is ahead: behind a torn message it would be one of the journal's."""
    left = journal.parent / "left"
    payloads = [b"buffered"] * 3
    payloads[quoting] = make.message(b"quoted", time=1_900_000_002)
    with Writer(journal, durability="buffered") as writer, monkeypatch.context() as patched:
        for number, payload in enumerate(payloads):
            writer.append(payload, (1_900_000_000 + number) * 10**9)
        if is_flushed:
            patched.setattr(PreCommitBuffer, "empty", lambda buffer: shutil.copytree(journal, left))
            writer.flush()
        else:
            shutil.copytree(journal, left)
            writer.flush()
    expected = (journal / "00000000").read_bytes()
    assert len(expected) == sum(16 + len(payload) for payload in payloads)
    Writer(left).close()
    assert (left / "00000000").read_bytes() == expected
    assert used(left) == 0
    assert not list(left.glob("cut.*"))


@pytest.mark.parametrize("quoting", [0, 1, 2])
def test_what_quotes_a_later_message_in_a_left_buffer_is_read_whole_and_no_damage(
    journal: Path, make: Any, quoting: int
) -> None:
    payloads = [b"buffered"] * 3
    payloads[quoting] = make.message(b"quoted", time=1_900_000_002)
    leave(journal, b"".join(make.message(p, time=1_900_000_000 + number) for number, p in enumerate(payloads)))
    with everlog.open_store(journal, pre_commit=True) as store:
        assert [record.payload for record in store.read("journal")] == payloads
        assert "pre-commit-damaged" not in [fault.code for fault in store.verify().faults]
    assert not [step for step in plan_repair(LocalWritableStorage(journal)).steps if step.file == "pre_commit"]


@pytest.mark.parametrize("size", [482, 483, 490, 498, 499])
def test_what_a_flush_left_in_the_buffer_is_not_taken_for_a_message_without_a_mark(size: int) -> None:
    """A flush puts zeros over the first message's mark; where its length led to the end of the buffer, it looked like
    a whole message of JLog 1.x."""
    pytest.importorskip("lz4")
    lz4 = struct.pack("<IIII", 0, 300, 1, 0x15106A01)
    storage = CrashingStorage({"metastore": lz4, "pre_commit": bytes(4)})
    with Writer(storage, durability="buffered", buffer_bytes=500) as writer:
        writer.append(b"0." + b"." * size)
        writer.flush()
        with JlogStore.open(storage, {}) as store:
            assert [fault.code for fault in store.verify().faults] == ["index-missing"]
