"""Processes and threads on one journal, on a real disk: forks, signals, a killed holder of locks, limits of the system;
each with both appenders."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from everlog.core.files.writable import LocalWritableStorage
from everlog.errors import EverlogError, WriteFailed
from everlog.jlog import Subscriber, Writer, create
from everlog.jlog.store import JlogStore
from everlog.jlog.writing import append, append_twin

NOBODY = 65534


@pytest.fixture(params=["compiled", "twin"], autouse=True)
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "twin":
        monkeypatch.setattr(append, "Appender", append_twin.Appender)
        monkeypatch.setattr(append, "BufferAppender", append_twin.BufferAppender)
    return str(request.param)


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    create(tmp_path / "j", segment_bytes=4096)
    return tmp_path / "j"


def read(journal: Path) -> list[bytes]:
    with JlogStore.open(LocalWritableStorage(journal), {}) as store:
        assert store.verify().ok
        return [record.payload for record in store.read("journal")]


def numbers(journal: Path) -> dict[int, list[int]]:
    """Of messages ``name:number``, the numbers for each name, as they lie in the journal."""
    found: dict[int, list[int]] = {}
    for message in read(journal):
        name, number = message.split(b":")
        found.setdefault(int(name), []).append(int(number))
    return found


def child(work: object) -> int:
    """Fork; the child does the work and ends, with 0 if nothing was raised."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            work()  # type: ignore[operator]
            code = 0
        finally:
            os._exit(code)
    return pid


@pytest.mark.parametrize("durability", ["written", "synced"])
def test_a_writer_used_in_parent_and_children_at_once_loses_nothing(journal: Path, durability: str) -> None:
    with Writer(journal, durability=durability) as writer:
        writer.append(b"9:0")

        def work(name: int) -> None:
            for number in range(100):
                writer.append(b"%d:%d" % (name, number))

        children = [child(lambda name=name: work(name)) for name in range(3)]
        work(3)
        assert [os.waitpid(pid, 0)[1] for pid in children] == [0, 0, 0]
        writer.append(b"9:1")
    assert numbers(journal) == {9: [0, 1]} | {name: list(range(100)) for name in range(4)}


def test_a_fork_while_other_threads_append_leaves_a_child_that_can_append(journal: Path) -> None:
    with Writer(journal) as writer:
        stop = threading.Event()

        def work() -> None:
            number = 0
            while not stop.is_set():
                writer.append(b"0:%d" % number)
                number += 1

        thread = threading.Thread(target=work)
        thread.start()
        children = [child(lambda name=name: writer.append(b"%d:0" % name)) for name in range(1, 16)]
        codes = [os.waitpid(pid, 0)[1] for pid in children]
        stop.set()
        thread.join()
    assert codes == [0] * 15
    found = numbers(journal)
    assert {name: found[name] for name in range(1, 16)} == {name: [0] for name in range(1, 16)}
    assert found[0] == list(range(len(found[0])))


def test_a_lock_does_not_outlive_its_holder_in_a_forked_child(journal: Path) -> None:
    def parent() -> None:
        writer = Writer(journal)
        writer.append(b"0:0")
        assert writer._segment.file is not None
        writer._segment.file.lock()  # as in the middle of an append
        sleeper = child(lambda: time.sleep(60))
        (journal.parent / "sleeper").write_text(str(sleeper))
        os.kill(os.getpid(), signal.SIGKILL)

    assert os.waitpid(child(parent), 0)[1] == signal.SIGKILL
    sleeper = int((journal.parent / "sleeper").read_text())
    try:
        done = threading.Event()

        def work() -> None:
            with Writer(journal) as writer:
                writer.append(b"0:1")
            done.set()

        threading.Thread(target=work, daemon=True).start()
        assert done.wait(10)
    finally:
        os.kill(sleeper, signal.SIGKILL)
    assert numbers(journal) == {0: [0, 1]}


@pytest.mark.parametrize("durability", ["written", "synced", "buffered"])
def test_eight_threads_on_one_writer_lose_nothing_and_each_keeps_its_order(journal: Path, durability: str) -> None:
    with Writer(journal, durability=durability) as writer:

        def work(name: int) -> None:
            for number in range(0, 96, 3):
                writer.append(b"%d:%d" % (name, number))
                writer.append_many([b"%d:%d" % (name, number + 1), b"%d:%d" % (name, number + 2)])

        threads = [threading.Thread(target=work, args=(name,)) for name in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert numbers(journal) == {name: list(range(96)) for name in range(8)}


# Signals


@pytest.fixture
def storm() -> Iterator[list[int]]:
    """A signal every half millisecond, whose handler counts."""
    count: list[int] = []
    before = signal.signal(signal.SIGALRM, lambda *_: count.append(1))
    signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
    yield count
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


HOLDER = """
import fcntl, sys, time
with open(sys.argv[1], "r+b") as file:
    fcntl.lockf(file, fcntl.LOCK_EX)
    print("locked", flush=True)
    time.sleep(0.3)
"""


def holder_of(path: Path) -> subprocess.Popen[bytes]:
    """Another process, which has a file's lock for a third of a second."""
    process = subprocess.Popen([sys.executable, "-c", HOLDER, str(path)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    return process


@pytest.mark.long
@pytest.mark.parametrize("durability", ["written", "synced", "buffered"])
def test_signals_do_not_disturb_appending(journal: Path, storm: list[int], durability: str) -> None:
    with Writer(journal, durability=durability) as writer:
        number = 0
        end = time.monotonic() + 0.3
        while time.monotonic() < end:
            writer.append(b"0:%d" % number)
            writer.append_many([b"1:%d" % number, b"2:%d" % number])
            number += 1
    assert len(storm) > 20
    assert numbers(journal) == {name: list(range(number)) for name in range(3)}


@pytest.mark.long
@pytest.mark.parametrize("file", ["00000000", "metastore"])
def test_signals_do_not_disturb_waiting_for_a_lock(journal: Path, storm: list[int], file: str) -> None:
    with Writer(journal) as writer:
        writer.append(b"0:0")
        with holder_of(journal / file):
            before = time.monotonic()
            if file == "metastore":
                with Writer(journal) as other:
                    other.append(b"0:1")
            else:
                writer.append(b"0:1")
            assert time.monotonic() - before > 0.1
        with holder_of(journal / "00000000"):
            writer.append_many([b"0:2", b"0:3"])
    assert len(storm) > 100
    assert numbers(journal) == {0: [0, 1, 2, 3]}


def test_a_handler_that_raises_ends_the_waiting_and_nothing_was_appended(journal: Path) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with Writer(journal) as writer:
            writer.append(b"0:0")
            for call in (lambda: writer.append(b"1:0"), lambda: writer.append_many([b"1:0", b"1:1"])):
                with holder_of(journal / "00000000"):
                    signal.setitimer(signal.ITIMER_REAL, 0.05)
                    with pytest.raises(KeyboardInterrupt):
                        call()
            writer.append(b"0:1")
    finally:
        signal.signal(signal.SIGALRM, before)
    assert numbers(journal) == {0: [0, 1]}


# What the system refuses


LIMITED = """
import os, resource, signal, sys
from everlog.jlog import Writer
from everlog.jlog.writing import append
from everlog.jlog.writing import append_twin
from everlog.errors import WriteFailed
if sys.argv[2] == "twin":
    append.Appender, append.BufferAppender = append_twin.Appender, append_twin.BufferAppender
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
written = Writer(sys.argv[1])
for number in range(3):
    written.append(b"0:%d" % number)
for limit in range(57, 57 + 40):
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    for call in (lambda: written.append(b"1:" + b"0" * 500), lambda: written.append_many([b"1:" + b"0" * 500, b"1:1"])):
        try:
            call()
            sys.exit("no error")
        except WriteFailed as error:
            print(error)
        assert os.path.getsize(sys.argv[1] + "/00000000") == 57
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
written.append(b"0:3")
buffered = Writer(sys.argv[1], durability="buffered", buffer_bytes=1000)
buffered.append(b"0:4")
resource.setrlimit(resource.RLIMIT_FSIZE, (80, resource.RLIM_INFINITY))
for _ in range(3):
    try:
        buffered.flush()
        sys.exit("no error")
    except WriteFailed as error:
        print(error)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
buffered.append(b"0:5")
buffered.close()
"""


def test_a_limit_of_file_sizes_leaves_no_part_of_a_message_and_work_goes_on_when_it_is_raised(
    journal: Path, kernel: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(journal), kernel], check=True, capture_output=True, text=True, timeout=60
    )
    lines = done.stdout.splitlines()
    assert len(lines) == 83
    assert all(os.strerror(errno.EFBIG).lower() in line and "ulimit -f" in line for line in lines)
    assert numbers(journal) == {0: [0, 1, 2, 3, 4, 5]}


def as_nobody(work: object) -> None:
    """In a child process without root's rights."""

    def drop() -> None:
        if os.geteuid() == 0:
            os.setgroups([])
            os.setegid(NOBODY)
            os.seteuid(NOBODY)
        work()  # type: ignore[operator]

    assert os.waitpid(child(drop), 0)[1] == 0


def open_to_all(path: Path) -> None:
    for folder in path.parents:
        if os.stat(folder).st_uid == os.geteuid() and str(folder) not in ("/", "/tmp"):
            os.chmod(folder, 0o755)


@pytest.mark.parametrize(("folder", "files"), [(0o555, 0o666), (0o777, 0o444), (0o777, 0o000)])
def test_without_the_right_to_write_there_is_a_clear_error_and_nothing_changes(
    journal: Path, folder: int, files: int
) -> None:
    with Writer(journal) as writer:
        writer.append(b"0:0")
    with Subscriber(journal, "a", create="beginning"):
        pass
    open_to_all(journal)
    before = {path.name: path.read_bytes() for path in journal.iterdir()}
    for path in journal.iterdir():
        path.chmod(files)
    journal.chmod(folder)

    def work() -> None:
        def open_and_roll() -> None:
            with Writer(journal) as writer:
                writer.append(b"1:" + b"0" * 5000)
                writer.append(b"1:1")

        for call in (open_and_roll, lambda: list(Subscriber(journal, "b", create="beginning"))):
            with pytest.raises(EverlogError, match=os.strerror(errno.EACCES).lower()):
                call()

    as_nobody(work)
    journal.chmod(0o755)
    for path in journal.iterdir():
        path.chmod(0o644)
    after = {path.name: path.read_bytes() for path in journal.iterdir()}
    after["00000000"] = after["00000000"][
        : len(before["00000000"])
    ]  # a folder that is read-only has files that are not
    assert after == before


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes files for others")
def test_what_root_writes_belongs_to_the_folders_owner_who_can_go_on(journal: Path) -> None:
    open_to_all(journal)
    for path in (journal, *journal.iterdir()):
        os.chown(path, NOBODY, NOBODY)
    with Writer(journal, durability="buffered", buffer_bytes=500) as writer:
        for number in range(20):
            writer.append(b"0:%d" % number + b" " * 400)
    with Subscriber(journal, "a", create="end"):
        pass

    def work() -> None:
        with Writer(journal, durability="buffered") as writer, Subscriber(journal, "a") as subscriber:
            for number in range(20, 40):
                writer.append(b"0:%d" % number + b" " * 400)
            subscriber.checkpoint()
            writer.flush()
            assert len(list(subscriber)) == 20

    as_nobody(work)
    assert [int(message.split()[0][2:]) for message in read(journal)] == list(range(40))
    assert {path.stat().st_uid for path in journal.iterdir()} == {NOBODY}


def test_a_full_file_system_is_a_clear_error_and_work_goes_on_when_there_is_room(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(disk)], capture_output=True, text=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.strip()}")
    try:
        create(disk / "j", segment_bytes=65536)
        (disk / "filler").write_bytes(bytes(100_000))
        kept: list[int] = []
        with Writer(disk / "j") as writer:

            def fill() -> None:
                for number in range(1000):
                    writer.append(b"0:%d" % number + b" " * 1000)
                    kept.append(number)

            with pytest.raises(WriteFailed, match=os.strerror(errno.ENOSPC).lower()):
                fill()
            with pytest.raises(WriteFailed, match="free space"):
                writer.append_many([b"1:%d" % number + b" " * 1000 for number in range(100)])
            with pytest.raises(WriteFailed):
                Writer(disk / "j", durability="buffered", buffer_bytes=100_000)
            (disk / "filler").unlink()
            writer.append(b"0:%d" % len(kept))
        assert numbers(disk / "j") == {0: [*kept, len(kept)]}
    finally:
        subprocess.run(["umount", str(disk)], check=True)
