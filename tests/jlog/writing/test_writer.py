"""Writing: the same bytes as the C library, torn tails, the buffer, threads; each with both appenders."""

from __future__ import annotations

import contextlib
import os
import struct
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import everlog
from everlog.core.files.writable import LocalWritableStorage
from everlog.errors import (
    Closed,
    CorruptData,
    NotAStore,
    StoreExists,
    UsageError,
    WriteFailed,
    WrongType,
)
from everlog.jlog import Address, Writer, alter, create
from tests.jlog.writing.written_journals import GOLDEN, payload, read, unpack

pytestmark = pytest.mark.usefixtures("kernel")


def written_by_hand(path: Path, log: int, data: bytes) -> None:
    with open(path / f"{log:08x}", "ab") as file:
        file.write(data)


@pytest.mark.parametrize("case", ["basic", "lz4", "safety_safe", "safety_unsafe"])
def test_the_same_messages_give_the_bytes_that_the_c_library_wrote(
    case: str, tmp_path: Path, truth: Callable[[str], dict[str, Any]]
) -> None:
    said = truth(case)
    original = unpack(case, tmp_path)
    ours = tmp_path / "ours"
    compression = "lz4" if case == "lz4" else None
    create(ours, segment_bytes=said["metastore"]["unit_limit"], compression=compression)
    with Writer(ours) as writer:
        for i, m in enumerate(said["messages"]):
            seconds, microseconds = m["ts"]
            address = writer.append(payload(i, m["len"]), seconds * 10**9 + microseconds * 1000)
            assert address == Address.of(m["segment"], m["marker"])
    if case == "lz4":  # another LZ4 version may choose other matches; the decoded messages are the same
        assert read(ours) == read(original)
        return
    for log in range(said["metastore"]["storage_log"] + 1):
        assert (ours / f"{log:08x}").read_bytes() == (original / f"{log:08x}").read_bytes()
    assert (ours / "metastore").read_bytes()[:8] == (original / "metastore").read_bytes()[:8]


def test_append_many_ends_segments_where_single_appends_do(tmp_path: Path) -> None:
    messages = [payload(i, (10, 200, 0, 1, 333, 64)[i % 6]) for i in range(500)]
    times = [10**9 * i for i in range(500)]
    create(tmp_path / "one", segment_bytes=4096)
    create(tmp_path / "many", segment_bytes=4096)
    with Writer(tmp_path / "one") as writer:
        for message, time_ns in zip(messages, times, strict=True):
            last = writer.append(message, time_ns)
    with Writer(tmp_path / "many") as writer:
        assert writer.append_many(messages, times) == last
    names = sorted(os.listdir(tmp_path / "one"))
    assert names == sorted(os.listdir(tmp_path / "many"))
    assert len(names) > 10
    for name in names:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "many" / name).read_bytes()


def test_a_message_larger_than_the_segment_goes_whole_into_it(journal: Path) -> None:
    with Writer(journal) as writer:
        assert writer.append(b"a") == Address.of(0, 1)
        assert writer.append(b"b" * 600_000) == Address.of(0, 2)
        assert writer.append_many([b"c", b"d" * 700_000, b"e"]) == Address.of(2, 1)
    assert read(journal) == [b"a", b"b" * 600_000, b"c", b"d" * 700_000, b"e"]


def test_payloads_are_anything_with_a_buffer(journal: Path) -> None:
    with Writer(journal) as writer:
        writer.append(bytearray(b"one"))
        writer.append(memoryview(b"two words")[4:])
        writer.append_many([memoryview(b"three"), b"", bytearray(b"four")])
        with pytest.raises(WrongType, match=r"^message must be bytes, not str$"):
            writer.append("text")
        with pytest.raises(WrongType, match=r"^message must be bytes, not str$"):
            writer.append_many([b"good", "text"])
        writer.append(b"five")
    assert read(journal) == [b"one", b"words", b"three", b"", b"four", b"five"]


def test_times_are_kept_to_the_microsecond_and_bounded_to_32_bits_of_seconds(journal: Path) -> None:
    with Writer(journal) as writer:
        before = time.time_ns()
        writer.append(b"now")
        after = time.time_ns()
        writer.append(b"then", 1_700_000_000_123_456_789)
        with pytest.raises(UsageError, match="2106"):
            writer.append(b"late", (1 << 32) * 10**9)
        with pytest.raises(UsageError):
            writer.append(b"early", -1)
        with pytest.raises(UsageError):
            writer.append_many([b"a", b"b"], [1])
    with everlog.open_store(journal) as store:
        times = [record.timestamp_ns for record in store.read("journal")]
    assert before // 1000 * 1000 <= times[0] <= after
    assert times[1:] == [1_700_000_000_123_456_000]


@pytest.mark.parametrize("cut", range(1, 36))
def test_a_torn_last_message_is_cut_before_the_next_append(journal: Path, make: Any, cut: int) -> None:
    whole = make.message(b"first") + make.message(b"second")
    torn = make.message(b"x" * 20)[:-cut]
    written_by_hand(journal, 0, whole + torn)
    with Writer(journal) as writer:
        assert writer.append(b"third") == Address.of(0, 3)
    assert read(journal) == [b"first", b"second", b"third"]
    assert (journal / "00000000").stat().st_size == len(whole) + 16 + 5
    assert not list(journal.glob("cut.*"))


def test_a_message_torn_by_another_writer_is_cut_while_this_one_is_open(journal: Path, make: Any) -> None:
    with Writer(journal) as writer:
        writer.append(b"mine")
        written_by_hand(journal, 0, make.message(b"theirs"))
        assert writer.append(b"mine again") == Address.of(0, 3)
        written_by_hand(journal, 0, make.message(b"torn")[:-1])
        assert writer.append(b"at last") == Address.of(0, 4)
    assert read(journal) == [b"mine", b"theirs", b"mine again", b"at last"]


def test_zeros_behind_the_last_message_are_cut(journal: Path, make: Any) -> None:
    written_by_hand(journal, 0, make.message(b"first") + bytes(512))
    with Writer(journal) as writer:
        writer.append(b"second")
    assert read(journal) == [b"first", b"second"]
    assert not list(journal.glob("cut.*"))


def test_bytes_that_no_torn_write_leaves_are_kept_aside(journal: Path, make: Any) -> None:
    whole = make.message(b"first")
    written_by_hand(journal, 0, whole + b"\xaa" * 50)
    with Writer(journal) as writer:
        writer.append(b"second")
    assert read(journal) == [b"first", b"second"]
    assert (journal / f"cut.00000000.{len(whole)}").read_bytes() == b"\xaa" * 50


@pytest.mark.parametrize("found", ["lz4", "null", "unknown", "legacy", "behind damage", "behind messages"])
def test_a_segment_whose_messages_are_stored_otherwise_than_the_metastore_says_is_not_cut(
    journal: Path, make: Any, found: str
) -> None:
    packed = make.stored(b"\x30abc", 3, magic=make.LZ4) * 3
    segment = {
        "lz4": packed,
        "null": make.stored(b"abc", 3) * 3,
        "unknown": make.stored(b"abc", 3, magic=make.NULL + 7) * 3,
        "legacy": make.message(b"abc", magic=0) * 6,
        "behind damage": b"\xaa" * 30 + packed,
        "behind messages": make.message(b"plain") + packed,
    }[found]
    if found == "legacy":
        (journal / "metastore").write_bytes(make.metastore(magic=make.LZ4))
    written_by_hand(journal, 0, segment)
    with Writer(journal) as writer:
        for _ in range(2):
            with pytest.raises(CorruptData, match="as the metastore says") as raised:
                writer.append(b"new")
            assert "everlog repair" in (raised.value.hint or "")
    assert (journal / "00000000").read_bytes() == segment
    assert not list(journal.glob("cut.*"))


def test_index_entries_behind_the_cut_go_too(journal: Path, make: Any) -> None:
    whole = make.message(b"first")
    written_by_hand(journal, 0, whole + make.message(b"torn")[:-1])
    (journal / "00000000.idx").write_bytes(make.index(0, len(whole)))
    with Writer(journal) as writer:
        writer.append(b"second")
    assert (journal / "00000000.idx").read_bytes() == make.index(0)
    assert read(journal) == [b"first", b"second"]


def test_damage_in_the_middle_is_left_and_written_behind(journal: Path, make: Any) -> None:
    data = make.message(b"first") + b"\xaa" * 30 + make.message(b"third")
    written_by_hand(journal, 0, data)
    with Writer(journal) as writer:
        writer.append(b"fourth")
    assert (journal / "00000000").read_bytes()[: len(data)] == data


def test_a_sound_index_saves_the_walk_and_a_wrong_one_does_no_harm(journal: Path, make: Any) -> None:
    data = make.message(b"first") + make.message(b"second")
    written_by_hand(journal, 0, data)
    (journal / "00000000.idx").write_bytes(make.index(0, 21))
    with Writer(journal) as writer:
        assert writer.append(b"third") == Address.of(0, 3)
    (journal / "00000000.idx").write_bytes(make.index(0, 7, 9))
    with Writer(journal) as writer:
        assert writer.append(b"fourth") == Address.of(0, 4)


def test_a_writer_follows_when_another_went_on_to_the_next_segment(journal: Path) -> None:
    with Writer(journal) as one, Writer(journal) as two:
        one.append(b"1")
        two.append_many([b"x" * 1000] * 5)
        assert one.append(b"2") == Address.of(1, 1)
        assert two.append(b"3") == Address.of(1, 2)


def test_a_raised_limit_does_not_make_an_idle_writer_append_to_a_finished_segment(journal: Path) -> None:
    with Writer(journal) as idle, Writer(journal) as busy:
        idle.append(b"1")
        busy.append_many([b"x" * 1000] * 5)
        alter(journal, segment_bytes=1 << 20)
        assert idle.append(b"2") == Address.of(1, 1)


def test_a_lowered_limit_reaches_an_open_writer(tmp_path: Path) -> None:
    create(tmp_path / "j")
    with Writer(tmp_path / "j") as writer:
        writer.append(b"1")
        alter(tmp_path / "j", segment_bytes=1)
        assert [writer.append(b"x") for _ in range(2)] == [Address.of(1, 1), Address.of(2, 1)]


def test_a_writer_does_not_write_to_a_segment_that_another_left_after_the_limit_was_lowered(journal: Path) -> None:
    with Writer(journal) as idle, Writer(journal) as other:
        idle.append(b"last in its segment")
        alter(journal, segment_bytes=1)
        assert other.append(b"went on without a byte there") == Address.of(1, 1)
        assert idle.append(b"3") == Address.of(2, 1)


def test_an_empty_segment_left_by_a_crash_while_going_on_is_taken(journal: Path) -> None:
    with Writer(journal) as writer:
        writer.append(b"1")
        (journal / "00000001").touch()
        writer.append_many([b"x" * 5000, b"2"])
    assert read(journal) == [b"1", b"x" * 5000, b"2"]


def test_a_metastore_behind_the_segments_is_brought_up_to_them(journal: Path, make: Any) -> None:
    written_by_hand(journal, 0, make.message(b"1"))
    written_by_hand(journal, 1, make.message(b"2"))
    with Writer(journal) as writer:
        assert writer.append(b"3") == Address.of(1, 2)
    assert (journal / "metastore").read_bytes()[:4] == b"\x01\0\0\0"


def test_opening_a_writer_and_closing_it_changes_no_byte(tmp_path: Path) -> None:
    path = unpack("basic", tmp_path)
    before = {p.name: p.read_bytes() for p in path.iterdir()}
    Writer(path).close()
    assert {p.name: p.read_bytes() for p in path.iterdir()} == before


# Opening and making


def test_a_journal_is_made_as_the_c_library_makes_it(tmp_path: Path) -> None:
    original = unpack("empty_init", tmp_path)
    create(tmp_path / "ours", segment_bytes=4096)
    assert {p.name: p.read_bytes() for p in (tmp_path / "ours").iterdir()} == {
        p.name: p.read_bytes() for p in original.iterdir()
    }
    assert oct((tmp_path / "ours").stat().st_mode & 0o777) == "0o750"
    assert oct((tmp_path / "ours" / "metastore").stat().st_mode & 0o777) == "0o640"


def test_what_exists_is_not_made_again(tmp_path: Path) -> None:
    create(tmp_path / "j", segment_bytes=5000)
    with pytest.raises(StoreExists):
        create(tmp_path / "j")
    create(tmp_path / "j", exist_ok=True)
    assert (tmp_path / "j" / "metastore").read_bytes()[4:8] == struct.pack("<I", 5000)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").touch()
    with pytest.raises(StoreExists):
        create(tmp_path / "other", exist_ok=True)
    (tmp_path / "empty").mkdir()
    create(tmp_path / "empty", exist_ok=True)
    Writer(tmp_path / "empty").close()


@pytest.mark.parametrize(
    "wrong",
    [
        {"segment_bytes": 0},
        {"segment_bytes": 1 << 32},
        {"safety": "very"},
        {"compression": "zip"},
        {"buffer_bytes": -1},
        {"buffer_bytes": 2 << 30},
    ],
)
def test_wrong_settings_make_nothing(tmp_path: Path, wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        create(tmp_path / "j", **wrong)
    assert not (tmp_path / "j").exists()


def test_settings_are_altered_one_by_one(journal: Path) -> None:
    alter(journal, safety="safe")
    assert struct.unpack("<III", (journal / "metastore").read_bytes()[:12]) == (0, 4096, 2)
    alter(journal, segment_bytes=9999)
    assert struct.unpack("<III", (journal / "metastore").read_bytes()[:12]) == (0, 9999, 2)
    with pytest.raises(UsageError):
        alter(journal, segment_bytes=0)
    alter(journal, buffer_bytes=100)
    assert (journal / "pre_commit").read_bytes() == bytes(104)
    with Writer(journal, durability="buffered") as writer:
        writer.append(b"x")
        with pytest.raises(UsageError, match="writer"):
            alter(journal, buffer_bytes=0)
    alter(journal, buffer_bytes=0)
    assert (journal / "pre_commit").read_bytes() == bytes(4)
    assert read(journal) == [b"x"]


def test_the_journals_safety_chooses_the_durability(tmp_path: Path) -> None:
    for safety, durability in (("unsafe", "written"), ("almost_safe", "written"), ("safe", "synced")):
        create(tmp_path / safety, safety=safety)
        with Writer(tmp_path / safety) as writer:
            assert writer.durability == durability


@pytest.mark.parametrize("case", ["e_meta_missing", "e_meta_zero", "e_meta_empty", "e_legacy_12byte"])
def test_a_damaged_metastore_is_refused_and_left(case: str, tmp_path: Path) -> None:
    with tarfile.open(GOLDEN / case / "before.tar.gz") as tar:
        tar.extractall(tmp_path, filter="data")
    before = {p.name: p.read_bytes() for p in (tmp_path / "log").iterdir()}
    with pytest.raises((NotAStore, CorruptData), match="everlog repair"):
        Writer(tmp_path / "log")
    assert {p.name: p.read_bytes() for p in (tmp_path / "log").iterdir()} == before


def test_wrong_options_and_a_closed_writer_are_refused(journal: Path) -> None:
    with pytest.raises(UsageError):
        Writer(journal, durability="certain")
    with pytest.raises(UsageError):
        Writer(journal, buffer_bytes=100)
    with pytest.raises(UsageError):
        Writer(journal, durability="buffered", buffer_bytes=0)
    with pytest.raises(NotAStore):
        Writer(journal.parent)
    writer = Writer(journal)
    writer.append(b"x")
    writer.close()
    writer.close()
    for call in (
        lambda: writer.append(b"y"),
        lambda: writer.append_many([]),
        writer.flush,
        writer.sync,
        writer.__enter__,
    ):
        with pytest.raises(Closed, match=r"^writer is closed$"):
            call()


def test_a_null_compressed_journal_keeps_empty_messages_empty(tmp_path: Path) -> None:
    create(tmp_path / "j", compression="null")
    with Writer(tmp_path / "j") as writer:
        writer.append_many([b"one", b"", b"three"])
    assert read(tmp_path / "j") == [b"one", b"", b"three"]
    assert (tmp_path / "j" / "00000000").stat().st_size == 3 * 20 + 8


def test_a_segment_that_is_a_link_out_of_the_folder_is_not_written(journal: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").write_bytes(b"")
    (journal / "00000000").symlink_to(tmp_path / "outside")
    with Writer(journal) as writer, pytest.raises(WriteFailed, match="symbolic link"):
        writer.append(b"x")
    assert (tmp_path / "outside").read_bytes() == b""


def test_names_outside_the_folder_are_refused(journal: Path) -> None:
    storage = LocalWritableStorage(journal)
    for name in ("../x", "/etc/x", "a/../../x", "a\0b"):
        with pytest.raises(NotAStore):
            storage.open_writable(name, create=True)
        with pytest.raises(NotAStore):
            storage.publish(name, b"", replace=False)
        with pytest.raises(NotAStore):
            storage.remove(name)


def test_a_torn_message_that_may_hold_others_is_kept_aside_before_it_is_cut(journal: Path, make: Any) -> None:
    whole = make.message(b"first", 9)
    torn = make.message(make.message(b"inner", 1) + b"t" * 50, 10)[:-20]
    written_by_hand(journal, 0, whole + torn)
    with Writer(journal) as writer:
        writer.append(b"second")
    assert read(journal) == [b"first", b"second"]
    assert (journal / f"cut.00000000.{len(whole)}").read_bytes() == torn


def test_addresses_of_the_highest_segments_are_right(journal: Path) -> None:
    (journal / "metastore").write_bytes(struct.pack("<IIII", 0xFFFFFFF0, 4096, 1, 0x663A7318))
    with Writer(journal) as writer:
        assert str(writer.append(b"1")) == "fffffff0:00000001"
        assert str(writer.append(b"2", 5)) == "fffffff0:00000002"
        assert str(writer.append_many([b"3", b"4"])) == "fffffff0:00000004"


def test_a_segment_that_was_deleted_is_made_anew(journal: Path) -> None:
    """The original's clean deletes the one that is written, too, where there is no subscriber."""
    with Writer(journal) as writer:
        writer.append(b"gone")
        (journal / "00000000").unlink()
        writer.append(b"there")
    assert read(journal) == [b"there"]


@pytest.mark.parametrize(
    ("messages", "times", "error"),
    [
        ([b"one", 5, b"three"], None, WrongType),
        ([b"one", memoryview(b"every other")[::2]], None, WrongType),
        ([b"one", b"two"], [0, 10**19], UsageError),
    ],
)
@pytest.mark.parametrize("compression", ["none", "lz4"])
def test_many_messages_one_of_which_is_none_leave_a_buffer_as_it_was(
    tmp_path: Path, messages: list[Any], times: list[int] | None, error: type[Exception], compression: str
) -> None:
    create(tmp_path / "c", compression=compression)
    with Writer(tmp_path / "c", durability="buffered") as writer, pytest.raises(error):
        writer.append_many(messages, times)
    assert read(tmp_path / "c") == []


@pytest.mark.parametrize("many", [False, True])
def test_so_is_one_in_whose_place_is_another(journal: Path, many: bool) -> None:
    """Made anew by another writer, while the old one is kept in a snapshot."""
    with Writer(journal) as writer:
        writer.append(b"first")
        os.link(journal / "00000000", journal.parent / "snapshot")
        (journal / "00000000").unlink()
        with Writer(journal) as other:
            other.append(b"other")
        time.sleep(0.05)
        if many:
            writer.append_many([b"there"])
        else:
            writer.append(b"there")
    assert read(journal) == [b"other", b"there"]


def test_a_journal_of_another_user_is_told_from_none(journal: Path) -> None:
    program = (
        "import os, sys\n"
        "from everlog.jlog import Writer, Subscriber\n"
        "from everlog.errors import NotAStore, StoreUnavailable\n"
        "if os.geteuid() == 0:\n    os.setgroups([]); os.setegid(65534); os.seteuid(65534)\n"
        "else:\n    os.chmod(sys.argv[1], 0)\n"
        "for make in (lambda: Writer(sys.argv[1]), lambda: Subscriber(sys.argv[1], 's')):\n"
        "    try:\n        make()\n"
        "    except StoreUnavailable as error:\n        print(error.found)\n"
    )
    for folder in [journal.parent, *journal.parent.parents][:3]:
        with contextlib.suppress(OSError):
            folder.chmod(folder.stat().st_mode | 0o011)
    done = subprocess.run(
        [sys.executable, "-c", program, str(journal)], check=True, capture_output=True, text=True, timeout=60
    )
    journal.chmod(0o750)
    assert done.stdout.splitlines() == ["permission denied"] * 2
