"""Threads and processes that share a journal, failed writes and failed syncs."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import everlog
from everlog.errors import (
    UsageError,
    WriteFailed,
    WrongType,
)
from everlog.jlog import Address, Writer, alter, create
from tests.jlog.writing.written_journals import read

pytestmark = pytest.mark.usefixtures("kernel")


# Threads, processes, faults


@pytest.mark.parametrize("durability", ["written", "synced", "buffered"])
def test_threads_share_a_writer(journal: Path, durability: str) -> None:
    with Writer(journal, durability=durability) as writer:

        def work(number: int) -> None:
            for i in range(200):
                writer.append(b"%d:%d" % (number, i))

        threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    found = [tuple(map(int, m.split(b":"))) for m in read(journal)]
    for number in range(6):
        assert [i for n, i in found if n == number] == list(range(200))


def test_a_forked_child_writes_with_its_own_lock(journal: Path) -> None:
    with Writer(journal) as writer:
        writer.append(b"parent")
        child = os.fork()
        if child == 0:
            try:
                for _ in range(500):
                    writer.append(b"child")
            finally:
                os._exit(0)
        for _ in range(500):
            writer.append(b"parent")
        assert os.waitpid(child, 0)[1] == 0
    found = read(journal)
    assert (found.count(b"parent"), found.count(b"child"), len(found)) == (501, 500, 1001)


LIMITED = """
import resource, signal, sys
from everlog.jlog import Writer
from everlog.jlog.writing import append
from everlog.jlog.writing import append_twin
from everlog.errors import WriteFailed
if sys.argv[2] == "twin":
    append.Appender = append_twin.Appender
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
with Writer(sys.argv[1]) as writer:
    writer.append(b"a" * 50)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, resource.RLIM_INFINITY))
    for call in (lambda: writer.append(b"b" * 90), lambda: writer.append_many([b"b" * 5, b"c" * 90])):
        try:
            call()
        except WriteFailed as error:
            print(error.found, "|", error.appended)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    print(writer.append(b"d"))
"""


def test_a_write_that_did_not_fit_leaves_nothing_in_the_way(journal: Path, kernel: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(journal), kernel], check=True, capture_output=True, text=True, timeout=60
    )
    said = os.strerror(errno.EFBIG).lower()
    assert done.stdout.splitlines() == [f"{said} | 0", f"{said} | 1", "00000000:00000003"]
    assert read(journal) == [b"a" * 50, b"b" * 5, b"d"]


def test_threads_that_wait_for_the_disk_share_a_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    create(tmp_path / "j")
    with Writer(tmp_path / "j", durability="synced") as writer:
        writer.append(b"opens the segment")
        segment = writer._segment.file
        assert segment is not None
        syncs = []
        real = type(segment).sync

        def slow(self: Any) -> None:
            syncs.append(1)
            time.sleep(0.005)
            real(self)

        monkeypatch.setattr(type(segment), "sync", slow)
        threads = [threading.Thread(target=lambda: [writer.append(b"x") for _ in range(10)]) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(syncs) < 40  # 80 appends
    assert len(read(tmp_path / "j")) == 81


def test_a_failed_sync_is_told_to_every_thread_that_waited_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(tmp_path / "j")
    errors, good = [], []
    with Writer(tmp_path / "j", durability="synced") as writer:
        writer.append(b"opens the segment")
        fails = True

        def sync() -> None:
            time.sleep(0.002)
            if fails:
                raise WriteFailed("00000000", found="input/output error")

        monkeypatch.setattr(type(writer._segment.file), "sync", lambda self: sync())

        def work() -> None:
            try:
                writer.append(b"x")
                good.append(1)
            except WriteFailed as error:
                errors.append(error)

        threads = [threading.Thread(target=work) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        fails = False
        writer.append(b"y")
    assert (len(errors), good) == (6, [])
    assert len({id(error) for error in errors}) == 6


def test_threads_that_append_in_all_ways_get_the_addresses_of_their_own_messages(journal: Path) -> None:
    """Plain appends go past the writer's own lock; the others, and going on to the next segment, don't."""
    given: dict[Address | None, bytes] = {}

    with Writer(journal) as writer:

        def work(number: int) -> None:
            for i in range(300):
                message = b"%d:%d" % (number, i)
                if number % 3 == 0:
                    given[writer.append(message)] = message
                elif number % 3 == 1:
                    given[writer.append(message, i)] = message
                else:
                    given[writer.append_many([b"first of two", message])] = message

        threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    with everlog.open_store(journal) as store:
        found = {r.address: r.payload for r in store.read("journal") if r.payload != b"first of two"}
    assert found == {str(address): message for address, message in given.items()}
    assert len(found) == 1800
    assert len(list(journal.glob("0000000?"))) > 5


LIMITED_BATCH = """
import resource, signal, sys
from everlog.jlog import Writer
from everlog.jlog.writing import append
from everlog.jlog.writing import append_twin
from everlog.errors import WriteFailed
if sys.argv[2] == "twin":
    append.Appender = append_twin.Appender
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
with Writer(sys.argv[1]) as writer:
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, resource.RLIM_INFINITY))
    try:
        writer.append_many([b"x" * 90_000] * 20)
    except WriteFailed as error:
        print(error.appended)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    print(writer.append(b"y"))
"""


def test_a_batch_that_fails_keeps_what_readers_may_have(journal: Path, kernel: str) -> None:
    """They take no lock: a message that is cut away again would give its number to another one."""
    alter(journal, segment_bytes=1 << 30)
    done = subprocess.run(
        [sys.executable, "-c", LIMITED_BATCH, str(journal), kernel],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout.splitlines() == ["11", "00000000:0000000c"]  # 11 of 90,016 bytes are below a million
    assert read(journal) == [*([b"x" * 90_000] * 11), b"y"]


def test_what_can_be_no_message_is_told_before_anything_of_its_batch_is_written(journal: Path) -> None:
    alter(journal, segment_bytes=1 << 30)
    with Writer(journal) as writer:
        for bad, error in ((None, WrongType), ("text", WrongType), (5, WrongType)):
            with pytest.raises(error):
                writer.append_many([*([b"y" * 90_000] * 9), bad])
        with pytest.raises(UsageError):
            writer.append_many([b"y" * 90_000] * 3, [1, 2, (1 << 32) * 10**9])
        assert read(journal) == []
        writer.append(b"z")
    assert read(journal) == [b"z"]


def test_a_list_that_changes_while_it_is_appended_does_no_harm(journal: Path) -> None:
    payloads = [b"x" * 100] * 20_000
    with Writer(journal) as writer:
        thread = threading.Thread(
            target=lambda: [payloads.clear() or payloads.extend([b"x" * 100] * 9) for _ in "ab" * 99]
        )
        thread.start()
        for _ in range(20):
            writer.append_many(payloads, [1] * len(payloads) if len(payloads) == 9 else None)
        thread.join()
    assert set(read(journal)) <= {b"x" * 100}


def test_an_interrupt_while_waiting_for_a_sync_leaves_the_writer_usable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(tmp_path / "j")
    with Writer(tmp_path / "j", durability="synced") as writer:
        writer.append(b"1")
        for place in ("_gather", "_lead"):
            with monkeypatch.context() as patched:
                patched.setattr(writer._segment._commit, place, lambda *rest: (_ for _ in ()).throw(KeyboardInterrupt))
                with pytest.raises(KeyboardInterrupt):
                    writer.append(b"2")
            done = threading.Thread(target=lambda: writer.append(b"3"))
            done.start()
            done.join(10)
            assert not done.is_alive()
        with monkeypatch.context() as patched:
            patched.setattr(type(writer._segment.file), "sync", lambda self: (_ for _ in ()).throw(KeyboardInterrupt))
            with pytest.raises(KeyboardInterrupt):
                writer.sync()
        writer.sync()


def test_a_sync_that_failed_is_told_by_every_later_one(journal: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system tells a failure once; a later sync that succeeds brings nothing of it to the disk."""
    writer = Writer(journal)
    writer.append(b"1")

    def fail(self: Any) -> None:
        raise WriteFailed("00000000", found="input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(type(writer._segment.file), "sync", fail)
        with pytest.raises(WriteFailed, match="input/output"):
            writer.sync()
    for _ in range(2):
        with pytest.raises(WriteFailed, match=r"input/output error.*an earlier sync failed"):
            writer.sync()
    writer.append(b"2")
    writer.close()
    assert read(journal) == [b"1", b"2"]
