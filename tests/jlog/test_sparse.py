"""Holes in a journal's files, of a terabyte, cost no more than the data around them: they are asked for, not read."""

from __future__ import annotations

import contextlib
import io
import os
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from everlog.cli.app import run
from everlog.core.files.storage import LocalStorage
from everlog.core.following import CutLimit
from everlog.core.plan.backup import FolderBackup
from everlog.core.report import Fault
from everlog.core.store import Store
from everlog.jlog.following import JournalFollower
from everlog.jlog.format.addresses import Address
from everlog.jlog.repair.planning import plan_repair
from everlog.jlog.subscribing.subscriber import Subscriber
from everlog.jlog.subscribing.subscriptions import add_subscriber
from everlog.jlog.writing.writer import Writer
from everlog.stores import open_store
from everlog.testing.storage.memory import PAGE_BYTES, MemoryStorage

TERABYTE = 1 << 40
FAR = (512 << 30) + 7
MOST_BYTES, MOST_READS = 8 << 20, 4000
PLAIN, NULL = 0x663A7318, 0x15106A00


def message(number: int) -> bytes:
    return struct.pack("<IIII", PLAIN, 1_700_000_000 + number, 0, 5) + b"%05d" % number


MESSAGES = b"".join(map(message, range(3)))
SIZE = len(MESSAGES)
OFFSETS = (0, 21, 42)


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """Three segments of three messages, with indexes, a subscriber in the first and the last one, a buffer in use."""
    folder = tmp_path / "journal"
    folder.mkdir()
    for log in range(3):
        (folder / f"{log:08x}").write_bytes(MESSAGES)
        (folder / f"{log:08x}.idx").write_bytes(struct.pack("<3Q", *OFFSETS) + (bytes(8) if log < 2 else b""))
    (folder / "metastore").write_bytes(struct.pack("<IIII", 2, 60, 1, PLAIN))
    (folder / "cp.61").write_bytes(struct.pack("<II", 0, 1))
    (folder / "cp.62").write_bytes(struct.pack("<II", 2, 2))
    (folder / "pre_commit").write_bytes(struct.pack("<I", 21) + message(9) + bytes(100))
    return folder


class Reads:
    """Counts and bytes of reads; too many of them fail."""

    count = byte_count = 0

    def note(self, length: int) -> None:
        self.count += 1
        self.byte_count += length
        assert self.byte_count <= MOST_BYTES, "a hole is read"
        assert self.count <= MOST_READS, "a hole is read bit by bit"

    def clear(self) -> None:
        self.count = self.byte_count = 0


@pytest.fixture(autouse=True)
def reads(monkeypatch: pytest.MonkeyPatch) -> Reads:
    found = Reads()
    pread, preadv = os.pread, os.preadv

    def read(fd: int, length: int, offset: int) -> bytes:
        data = pread(fd, length, offset)
        found.note(len(data))
        return data

    def read_into(fd: int, buffers: list[memoryview], offset: int) -> int:
        count = preadv(fd, buffers, offset)
        found.note(count)
        return count

    monkeypatch.setattr(os, "pread", read)
    monkeypatch.setattr(os, "preadv", read_into)
    return found


def without_indexes(journal: Path) -> None:
    for log in range(3):
        (journal / f"{log:08x}.idx").unlink()


def tail(journal: Path) -> None:
    """A hole behind the last message."""
    without_indexes(journal)
    os.truncate(journal / "00000002", TERABYTE)


def tail_with_index(journal: Path) -> None:
    os.truncate(journal / "00000002", TERABYTE)


def middle(journal: Path) -> None:
    """A hole between messages of a finished segment."""
    without_indexes(journal)
    with open(journal / "00000001", "r+b") as file:
        file.seek(FAR)
        file.write(MESSAGES)


def byte_behind(journal: Path) -> None:
    """A hole, and a byte that is no message."""
    without_indexes(journal)
    with open(journal / "00000001", "r+b") as file:
        file.seek(FAR)
        file.write(b"x")


def nothing_but_holes(journal: Path) -> None:
    without_indexes(journal)
    for log in range(3):
        (journal / f"{log:08x}").write_bytes(b"")
        os.truncate(journal / f"{log:08x}", TERABYTE)


def lz4(journal: Path) -> None:
    """The same, in a journal whose metastore says that it is compressed."""
    nothing_but_holes(journal)
    (journal / "metastore").write_bytes(struct.pack("<IIII", 2, 60, 1, NULL + 1))


def old_version(journal: Path) -> None:
    """In a journal of 1.x, whose messages begin with zeros."""
    tail(journal)
    (journal / "metastore").write_bytes(struct.pack("<III", 2, 60, 1))


def long_file(name: str) -> Callable[[Path], None]:
    return lambda journal: os.truncate(journal / name, TERABYTE)


def data_and_index(journal: Path) -> None:
    os.truncate(journal / "00000000", TERABYTE)
    os.truncate(journal / "00000000.idx", TERABYTE)


SHAPES: dict[str, Callable[[Path], None]] = {
    "tail": tail,
    "tail with index": tail_with_index,
    "middle": middle,
    "byte behind": byte_behind,
    "nothing but holes": nothing_but_holes,
    "lz4": lz4,
    "old version": old_version,
    "index": long_file("00000002.idx"),
    "closed index": long_file("00000000.idx"),
    "data and index": data_and_index,
    "metastore": long_file("metastore"),
    "checkpoint": long_file("cp.61"),
    "pre-commit": long_file("pre_commit"),
}


def command(*arguments: str) -> Callable[[Path], None]:
    """A command line; its exit code does not matter."""

    def work(journal: Path) -> None:
        out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
            run([argument.replace("PATH", str(journal)) for argument in arguments])

    return work


def follow(journal: Path) -> None:
    """What a live query asks."""
    follower = JournalFollower(LocalStorage(journal), {})
    extent = follower.poll()["journal"]
    follower.cut("journal", extent.first, extent.end, CutLimit(records=5))
    follower.splits("journal", extent.first, extent.end)


def repair(journal: Path) -> None:
    """Planned, and done with a backup."""
    plan_repair(LocalStorage(journal)).apply(backup=FolderBackup(journal.with_name("backup")))


WORKS: dict[str, Callable[[Path], None]] = {
    "ls --count": command("ls", "--count", "PATH"),
    "info": command("info", "PATH"),
    "read": command("read", "PATH", "--pre-commit"),
    "verify": command("verify", "PATH"),
    "metrics": command("metrics", "--once", "PATH"),
    "jlogctl data": command("jlogctl", "data", "-i", "-d", "-j", "PATH"),
    "jlogctl subscriber": command("jlogctl", "subscriber", "-p", "b", "-j", "PATH"),
    "jlogtail": command("jlogtail", "-n", "2", "--no-follow", "PATH"),
    "follow": follow,
    "repair": repair,
}


@pytest.mark.parametrize("shape", SHAPES)
def test_a_hole_of_a_terabyte_is_never_read(shape: str, journal: Path, reads: Reads) -> None:
    SHAPES[shape](journal)
    for work in WORKS.values():
        reads.clear()
        work(journal)


@pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape not in ("lz4", "old version", "metastore")])
def test_nor_by_those_who_write_and_subscribe(shape: str, journal: Path) -> None:
    SHAPES[shape](journal)
    with Subscriber(journal, "a", on_fault=lambda _: None) as subscriber:
        list(subscriber)
    add_subscriber(journal, "new", at="end")
    with Writer(journal) as writer:
        writer.append(b"new")
    with Writer(journal, durability="buffered") as writer:
        writer.append(b"newer")


def read_all(store: Store) -> tuple[list[bytes], list[Fault]]:
    found: list[Fault] = []
    return [record.payload for record in store.read("journal", on_fault=found.append)], found


def test_messages_behind_a_hole_are_read_and_the_hole_is_told_once(journal: Path) -> None:
    middle(journal)
    payloads, faults = read_all(open_store(journal))
    assert payloads == [b"00000", b"00001", b"00002"] * 4
    assert [(fault.code, fault.file, fault.offset, fault.found) for fault in faults] == [
        ("zero-bytes", "00000001", SIZE, f"{FAR - SIZE} zero bytes")
    ]


def test_a_header_whose_first_byte_is_the_last_one_of_a_page_of_zeros_is_found() -> None:
    def stored(number: int) -> bytes:  # the magic's first byte is 0, so that the page is taken for a hole
        return struct.pack("<IIIII", NULL, 1_700_000_000 + number, 0, 5, 5) + b"%05d" % number

    head = stored(0) + stored(1)
    data = head + bytes(2 * PAGE_BYTES - 1 - len(head)) + stored(2) + stored(3)
    files = {"metastore": struct.pack("<IIII", 0, 1 << 20, 1, NULL), "00000000": data}
    with MemoryStorage(files).open("00000000") as file:
        assert file.next_data(PAGE_BYTES) == 2 * PAGE_BYTES
    payloads, faults = read_all(open_store(MemoryStorage(files)))
    assert payloads == [b"00000", b"00001", b"00002", b"00003"]
    assert [(fault.code, fault.offset) for fault in faults] == [("zero-bytes", len(head))]


def test_an_append_cuts_a_hole_and_goes_on_behind_the_last_message(journal: Path) -> None:
    tail(journal)
    (journal / "metastore").write_bytes(struct.pack("<IIII", 2, 1 << 20, 1, PLAIN))
    with Writer(journal) as writer:
        assert writer.append(b"abc") == Address.of(2, 5)  # behind the one that waited in the buffer
    assert (journal / "00000002").stat().st_size == SIZE + 21 + 19


def test_a_repair_cuts_a_hole_and_its_backup_is_one(journal: Path) -> None:
    tail(journal)
    (journal / "pre_commit").unlink()
    plan_repair(LocalStorage(journal)).apply(backup=FolderBackup(journal.with_name("backup")))
    assert (journal / "00000002").read_bytes() == MESSAGES
    kept = (journal.with_name("backup") / f"00000002@{SIZE}").stat()
    assert kept.st_size == TERABYTE - SIZE
    assert kept.st_blocks * 512 < 1 << 20


def test_an_index_is_read_no_further_than_to_an_entry_that_can_not_be(journal: Path, reads: Reads) -> None:
    data_and_index(journal)
    store = open_store(journal)
    reads.clear()
    assert [segment["index"] for segment in store.info()["segments"]] == ["damaged", "closed", "open"]
    assert reads.byte_count < 1 << 20


def test_a_search_behind_damage_reads_what_is_near_first(journal: Path, reads: Reads) -> None:
    without_indexes(journal)
    piece = message(1) + message(2) + b"x" * 30
    (journal / "00000001").write_bytes(piece * 400 + message(3))
    store = open_store(journal)
    reads.clear()
    _, faults = read_all(store)
    assert len(faults) == 400
    assert reads.byte_count < 400 * (12 << 10)
