"""Every write, sync, truncation, lock, open and removal fails once, and for a while: what was acknowledged is there,
what failed is not in the way, and work goes on when the disk is whole again."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from everlog.core.files.storage import Storage
from everlog.core.files.writable import LocalWritableStorage, WritableStorage
from everlog.core.report import Report
from everlog.errors import EverlogError, WriteFailed
from everlog.jlog import Writer, alter, create
from everlog.jlog.store import JlogStore
from everlog.jlog.writing import creation
from everlog.testing.storage.crashing import CrashingStorage
from everlog.testing.storage.faulty_writes import FaultyWrites, WriteFaults
from everlog.testing.storage.ledger import Ledger

SEGMENT_BYTES = 1024
Scenario = Callable[[WritableStorage, Ledger], None]


def read(storage: Storage) -> list[bytes]:
    with JlogStore.open(storage, {}) as store:
        return [record.payload for record in store.read("journal")]


def verify(storage: Storage) -> Report:
    with JlogStore.open(storage, {}) as store:
        return store.verify()


def payload(number: int, size: int = 100) -> bytes:
    return b"message %d." % number + b"." * size


def opened(ledger: Ledger, open_writer: Callable[[], Writer]) -> Writer:
    """A writer; an application tries again when that fails."""
    for _ in range(50):
        try:
            return open_writer()
        except EverlogError as error:
            ledger.errors.append(error)
    raise AssertionError("no writer can be opened any more")


def closed(ledger: Ledger, writer: Writer) -> None:
    try:
        writer.close()
    except EverlogError as error:
        ledger.errors.append(error)


def tried(ledger: Ledger, call: Callable[[], object]) -> None:
    try:
        call()
    except EverlogError as error:
        ledger.errors.append(error)


def appends(durability: str) -> Scenario:
    """Single appends and many at once, over several segments."""

    def scenario(storage: WritableStorage, ledger: Ledger) -> None:
        writer = opened(ledger, lambda: Writer(storage, durability=durability))
        for number in range(16):
            ledger.append(writer, payload(number))
        ledger.append_many(writer, [payload(number) for number in range(16, 40)])
        ledger.append(writer, payload(40, 3 * SEGMENT_BYTES))
        ledger.append(writer, payload(41))
        closed(ledger, writer)

    return scenario


def buffered(storage: WritableStorage, ledger: Ledger) -> None:
    """A buffer that fills up, is flushed, gets a message larger than itself, and is closed."""
    writer = opened(ledger, lambda: Writer(storage, durability="buffered", buffer_bytes=700))
    for number in range(12):
        ledger.append(writer, payload(number))
    tried(ledger, writer.flush)
    ledger.append_many(writer, [payload(number) for number in range(12, 24)])
    ledger.append(writer, payload(24, 800))
    ledger.append(writer, payload(25))
    tried(ledger, writer.sync)
    ledger.append(writer, payload(26))
    closed(ledger, writer)


def open_abandoned_buffer(storage: WritableStorage, ledger: Ledger) -> None:
    """Writing out what a dead writer left."""
    writer = opened(ledger, lambda: Writer(storage, durability="buffered", buffer_bytes=700))
    for number in range(5):
        ledger.append(writer, payload(number))
    writer._release()  # as when the process dies: nothing is flushed
    for durability in ("written", "synced"):
        writer = opened(ledger, lambda durability=durability: Writer(storage, durability=durability))
        ledger.append(writer, payload(5 if durability == "written" else 6))
        closed(ledger, writer)


def altering(storage: WritableStorage, ledger: Ledger) -> None:
    """Settings changed between appends, the buffer's size too."""
    writer = opened(ledger, lambda: Writer(storage, durability="buffered", buffer_bytes=700))
    for number in range(5):
        ledger.append(writer, payload(number))
    writer._release()
    tried(ledger, lambda: alter(storage, segment_bytes=500))
    tried(ledger, lambda: alter(storage, safety="safe", buffer_bytes=300))
    writer = opened(ledger, lambda: Writer(storage))
    for number in range(5, 15):
        ledger.append(writer, payload(number))
    closed(ledger, writer)


def two_writers(storage: WritableStorage, ledger: Ledger) -> None:
    """By turns, so that each finds the other's torn messages and new segments."""
    writers = [opened(ledger, lambda name=name: Writer(storage, durability=name)) for name in ("written", "synced")]
    for number in range(20):
        ledger.append(writers[number % 2], payload(number))
    for writer in writers:
        closed(ledger, writer)


SCENARIOS: dict[str, Scenario] = {
    "written": appends("written"),
    "synced": appends("synced"),
    "buffered": buffered,
    "left buffer": open_abandoned_buffer,
    "altering": altering,
    "two writers": two_writers,
}


def journal(make: Any) -> CrashingStorage:
    return CrashingStorage({"metastore": make.metastore(limit=SEGMENT_BYTES), "pre_commit": bytes(4)})


def check(storage: CrashingStorage, ledger: Ledger, context: str) -> None:
    """A new writer works, and a fresh reader finds what was acknowledged, whole and in order, and nothing else but what
    failed."""
    with Writer(storage) as writer:
        ledger.append(writer, b"after all of it")
    assert ledger.complaints(read(storage)) == [], context
    report = verify(storage)
    assert report.ok, f"{context}: {[str(fault) for fault in report.faults]}"
    assert [name for name in storage.names() if name.startswith((".everlog", "cut."))] == [], context


@pytest.mark.parametrize("count", [1, 4], ids=["once", "for a while"])
@pytest.mark.parametrize("name", SCENARIOS)
def test_whatever_fails_nothing_acknowledged_is_lost_and_nothing_is_in_the_way(
    name: str, count: int, make: Any
) -> None:
    scenario = SCENARIOS[name]
    fail_at, swallowed = 0, 0
    while True:
        inner, ledger = journal(make), Ledger()
        error = (errno.ENOSPC, errno.EIO)[fail_at % 2]
        part = (None, 0, 1, 17)[fail_at % 4]
        faults = WriteFaults(fail_at=fail_at, count=count, error=error, part_bytes=part)
        storage = FaultyWrites(inner, faults)
        scenario(storage, ledger)
        if not storage.failed:
            break
        context = f"{name}, operation {fail_at} ({', '.join(storage.failed)}) failed"
        assert len(ledger.errors) <= len(storage.failed), f"{context}: {ledger.errors}"
        for raised in ledger.errors:
            assert isinstance(raised, WriteFailed), f"{context}: {raised!r}"
            assert raised.found == os.strerror(error).lower(), f"{context}: {raised}"
        swallowed += not ledger.errors
        check(inner, ledger, context)
        fail_at += 1
    assert ledger.errors == []
    check(inner, ledger, name)
    assert fail_at > 30
    assert swallowed < fail_at / 2  # most faults reach the caller


@pytest.mark.parametrize("buffer_bytes", [0, 500])
def test_a_journal_that_could_not_be_made_leaves_nothing(
    buffer_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def faulty(root: str) -> FaultyWrites:
        return FaultyWrites(LocalWritableStorage(root), WriteFaults(fail_at=fail_at))

    files = 1 + bool(buffer_bytes)
    with monkeypatch.context() as patched:
        patched.setattr(creation, "LocalWritableStorage", faulty)
        for fail_at in range(files + 1):
            with pytest.raises(WriteFailed, match=os.strerror(errno.ENOSPC).lower()):
                create(tmp_path / "j", buffer_bytes=buffer_bytes)
            is_whole = fail_at == files  # only the folder's sync failed
            assert (tmp_path / "j").exists() == is_whole
    create(tmp_path / "j", exist_ok=True)
    with Writer(tmp_path / "j") as writer:
        writer.append(b"x")
    assert read(LocalWritableStorage(tmp_path / "j")) == [b"x"]


@pytest.mark.parametrize("used", [0x7FFFFFFF, 0xFFFFFFFF, 1005, 1000, 70, 61])
@pytest.mark.parametrize("durability", ["written", "buffered"])
def test_a_length_in_the_buffer_that_is_wrong_writes_the_whole_messages_and_nothing_else(
    used: int, durability: str, make: Any
) -> None:
    whole = make.message(b"one") + make.message(b"two") + make.message(b"three")
    storage = journal(make)
    data = used.to_bytes(4, "little") + whole + b"\xab" * (1000 - len(whole))
    storage.publish("pre_commit", data, replace=True)
    with Writer(storage, durability=durability) as writer:
        writer.append(b"next")
    assert read(storage) == [b"one", b"two", b"three", b"next"]
    assert storage.size("00000000") == len(whole) + 20
    assert storage.read_all("pre_commit")[:8] == bytes(8)
