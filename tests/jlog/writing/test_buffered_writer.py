"""Writers that buffer, and the buffers that dead writers left."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import everlog
from everlog.core.files.writable import LocalWritableFile, LocalWritableStorage
from everlog.errors import (
    CorruptData,
    StoreUnavailable,
    WriteFailed,
)
from everlog.jlog import Writer, alter, create
from tests.jlog.writing.written_journals import payload, read, unpack

pytestmark = pytest.mark.usefixtures("kernel")


# The buffer


def test_buffered_messages_are_seen_after_a_flush(journal: Path) -> None:
    with Writer(journal, durability="buffered", buffer_bytes=1024) as writer:
        assert writer.append(b"one") is None
        assert writer.append_many([b"two", b"three"]) is None
        assert read(journal) == []
        writer.flush()
        assert read(journal) == [b"one", b"two", b"three"]
        writer.append(b"four")
    assert read(journal) == [b"one", b"two", b"three", b"four"]
    assert (journal / "pre_commit").read_bytes()[:4] == bytes(4)


def test_a_message_larger_than_the_buffer_comes_behind_what_waits(journal: Path) -> None:
    messages = [b"a" * 100, b"b" * 100, b"c" * 100, b"big" * 1000, b"d" * 100]
    with Writer(journal, durability="buffered", buffer_bytes=1024) as writer:
        for message in messages:
            writer.append(message)
    assert read(journal) == messages


def test_a_full_buffer_is_written_out(journal: Path) -> None:
    messages = [payload(i, 100) for i in range(300)]
    with Writer(journal, durability="buffered", buffer_bytes=1000) as writer:
        for message in messages:
            writer.append(message)
        assert len(read(journal)) >= 290
    assert read(journal) == messages


KILLED_WRITER = """
import os, sys
from everlog.jlog import Writer
writer = Writer(sys.argv[1], durability="buffered", buffer_bytes=4000)
for i in range(int(sys.argv[2])):
    writer.append(b"message %d" % i)
os._exit(1)
"""


def test_what_a_killed_writer_left_in_the_buffer_is_written_by_the_next(journal: Path) -> None:
    subprocess.run([sys.executable, "-c", KILLED_WRITER, str(journal), "20"], check=False, timeout=60)
    assert read(journal) == []
    with Writer(journal) as writer:
        assert read(journal) == [b"message %d" % i for i in range(20)]
        writer.append(b"next")
    assert len(read(journal)) == 21


def test_a_buffer_that_was_written_out_before_the_kill_is_not_written_again(journal: Path) -> None:
    writer = Writer(journal, durability="buffered", buffer_bytes=4000)
    for i in range(5):
        writer.append(b"message %d" % i)
    before = (journal / "pre_commit").read_bytes()
    noted = bytearray(before)
    noted[-16:] = struct.pack("<IIQ", 0x464C5645, 0, 0)  # as it is while the flush is under way
    writer.close()
    for torn in (0, 1, 40, len((journal / "00000000").read_bytes())):
        data = (journal / "00000000").read_bytes()
        (journal / "pre_commit").write_bytes(noted)
        os.truncate(journal / "00000000", len(data) - torn)
        with Writer(journal):
            assert read(journal) == [b"message %d" % i for i in range(5)]


def test_a_left_buffer_of_the_c_library_is_written_out(tmp_path: Path, truth: Any) -> None:
    path = unpack("precommit_unflushed", tmp_path)
    waiting = truth("precommit_unflushed")["pre_commit"]["messages"]
    assert waiting
    before = len(read(path))
    Writer(path).close()
    assert len(read(path)) == before + len(waiting)


@pytest.mark.parametrize("used", [0x7FFFFFFF, 0xFFFFFFFF, 5000, 17, 1])
def test_a_corrupt_length_in_the_buffer_writes_nothing_that_is_no_message(journal: Path, used: int, make: Any) -> None:
    (journal / "pre_commit").write_bytes(struct.pack("<I", used) + b"\xab" * 1000)
    with pytest.raises(CorruptData, match="in use are not messages") as raised:
        Writer(journal)
    assert "everlog repair" in (raised.value.hint or "")
    with everlog.open_store(journal) as store:
        store.plan_repair().apply()
    with Writer(journal) as writer:
        writer.append(b"good")
    assert read(journal) == [b"good"]
    assert (journal / "00000000").stat().st_size == 20


@pytest.mark.long
def test_the_buffer_of_a_living_writer_is_left_alone(journal: Path) -> None:
    with Writer(journal, durability="buffered", buffer_bytes=1024) as buffered:
        buffered.append(b"waiting")
        with Writer(journal) as plain:
            plain.append(b"plain")
            assert read(journal) == [b"plain"]
            with pytest.raises(StoreUnavailable, match="another writer"):
                Writer(journal, durability="buffered")
        assert read(journal) == [b"plain"]
    assert read(journal) == [b"plain", b"waiting"]


@pytest.mark.parametrize("buffer_bytes", [0, 4096])
def test_a_buffer_that_a_process_without_a_lock_has_open_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, buffer_bytes: int
) -> None:
    """As a writer of the C library has it."""
    monkeypatch.setattr("everlog.jlog.writing.writer.LOCK_TIMEOUT_S", 0.05)
    create(tmp_path / "j")
    (tmp_path / "j" / "pre_commit").write_bytes(bytes(4 + buffer_bytes))
    with open(tmp_path / "j" / "pre_commit", "r+b"), monkeypatch.context() as patched:
        if not sys.platform.startswith("linux"):  # which alone tells
            patched.setattr(LocalWritableStorage, "is_open_elsewhere", lambda self, name: name == "pre_commit")
        with pytest.raises(StoreUnavailable):
            Writer(tmp_path / "j", durability="buffered")
    Writer(tmp_path / "j", durability="buffered").close()


def test_a_buffer_of_ones_own_is_taken_away_again_and_the_journals_stays(journal: Path) -> None:
    with Writer(journal, durability="buffered", buffer_bytes=5000) as writer:
        writer.append(b"one")
        assert (journal / "pre_commit").stat().st_size > 5000
    assert (journal / "pre_commit").read_bytes() == bytes(4)
    alter(journal, buffer_bytes=2000)
    with Writer(journal, durability="buffered") as writer:
        writer.append(b"two")
    assert (journal / "pre_commit").stat().st_size == 2004
    assert read(journal) == [b"one", b"two"]


def test_a_buffered_writer_that_could_not_be_opened_leaves_no_buffer(
    journal: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = (journal / "pre_commit").stat().st_size if (journal / "pre_commit").exists() else 4

    def fill_half(file: LocalWritableFile, offset: int, data: Any) -> None:
        write_at(file, offset, data[:1000])
        if len(data) > 1000:
            raise WriteFailed(file.name, found="no space left on device", expected="a file that can be written")

    write_at = LocalWritableFile.write_at
    with monkeypatch.context() as patched:
        patched.setattr(LocalWritableFile, "write_at", fill_half)
        with pytest.raises(WriteFailed, match="no space"):
            Writer(journal, durability="buffered")
    assert (journal / "pre_commit").stat().st_size == before


@pytest.mark.parametrize("many", [False, True])
def test_a_segment_that_was_deleted_but_for_another_link_to_it_is_made_anew(journal: Path, many: bool) -> None:
    """A snapshot by hard links, as cp -al makes it."""
    with Writer(journal) as writer:
        writer.append(b"first")
        os.link(journal / "00000000", journal.parent / "snapshot")
        writer.append(b"second")
        assert (journal / "00000000").samefile(journal.parent / "snapshot")
        assert read(journal) == [b"first", b"second"]
        (journal / "00000000").unlink()
        time.sleep(0.05)  # the compiled appender looks for its name once in a few milliseconds
        if many:
            writer.append_many([b"there"])
        else:
            writer.append(b"there")
    assert read(journal) == [b"there"]
