"""A journal beside durable queues from PyPI: rates, and what each survives, tried out and not taken from their docs.

``pip`` puts them into ``~/.cache/everlog-bench``; where that fails the table has everlog alone. All are used as their
first examples do: one message at a time, default settings. What a finished append has behind it differs, see the
column: the figures are no race.
"""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.jlog_peer import cache_folder
from benchmarks.lines import Line, where

PACKAGES = ("persist-queue==1.1.0", "litequeue==0.9")
PAYLOAD = b"x" * 100
SECONDS, RUNS = 0.4, 3
KILLED_AFTER = 500
EACH_PROCESS = 300
PATIENCE_S = 30


class Queue(ABC):
    """One open queue. ``take`` removes the next message, or marks it done, durably; None when there is none."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @abstractmethod
    def append(self) -> None: ...

    @abstractmethod
    def take(self) -> object | None: ...

    def close(self) -> None:  # noqa: B027
        """Nothing, where the queue has no such call."""


class Journal(Queue):
    """A subscriber that makes a checkpoint after every message, as queues that remove a message do."""

    durability = "written"

    def __init__(self, folder: Path) -> None:
        from everlog.jlog import Subscriber, Writer, create

        super().__init__(folder)
        create(folder / "journal", exist_ok=True)
        self.writer = Writer(folder / "journal", durability=self.durability)
        self.subscriber = Subscriber(folder / "journal", "bench", create="beginning", checkpoint_every=1)
        self.messages = iter(self.subscriber)

    def append(self) -> None:
        self.writer.append(PAYLOAD)

    def take(self) -> object | None:
        return next(self.messages, None)

    def close(self) -> None:
        self.subscriber.close()
        self.writer.close()


class SyncedJournal(Journal):
    durability = "synced"


class PersistQueue(Queue):
    """``persistqueue``'s classes; ``kind`` names one."""

    kind = "Queue"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        package: Any = importlib.import_module("persistqueue")
        self.empty = package.Empty
        self.queue = self.make(getattr(package, self.kind))

    def make(self, cls: Callable[..., Any]) -> Any:
        return cls(str(self.folder / "queue"), autosave=True)

    def append(self) -> None:
        self.queue.put(PAYLOAD)

    def take(self) -> object | None:
        try:
            return self.queue.get(block=False)
        except self.empty:
            return None


class PersistSQLiteQueue(PersistQueue):
    kind = "SQLiteQueue"

    def make(self, cls: Callable[..., Any]) -> Any:
        return cls(str(self.folder / "queue"))

    def close(self) -> None:
        self.queue.close()


class PersistSQLiteAckQueue(PersistSQLiteQueue):
    kind = "SQLiteAckQueue"

    def take(self) -> object | None:
        item = super().take()
        if item is not None:
            self.queue.ack(item)
        return item


class LiteQueue(Queue):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        package: Any = importlib.import_module("litequeue")
        self.queue = package.LiteQueue(str(folder / "queue.sqlite"))
        self.text = PAYLOAD.decode()

    def append(self) -> None:
        self.queue.put(self.text)

    def take(self) -> object | None:
        message = self.queue.pop()
        if message is not None:
            self.queue.done(message.message_id)
        return message

    def close(self) -> None:
        self.queue.conn.close()


@dataclass(frozen=True, slots=True)
class Candidate:
    """``survives``: what a finished append survives by its design (fsync or none). ``readers``: who gets a message."""

    name: str
    make: Callable[[Path], Queue]
    survives: str
    readers: str


JOURNALS = (
    Candidate("everlog, written", Journal, "kill", "each subscriber"),
    Candidate("everlog, synced", SyncedJournal, "power cut", "each subscriber"),
)
QUEUES = (
    Candidate("persist-queue Queue", PersistQueue, "kill", "one"),
    Candidate("persist-queue SQLiteQueue", PersistSQLiteQueue, "power cut", "one"),
    Candidate("persist-queue SQLiteAckQueue", PersistSQLiteAckQueue, "power cut", "one"),
    Candidate("litequeue LiteQueue", LiteQueue, "kill", "one"),
)


def are_queues_there() -> bool:
    """Whether the packages can be imported, after an attempt to install them."""
    target = cache_folder() / "queues"
    if not target.exists():
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(target), *PACKAGES]
        if subprocess.run(pip, check=False).returncode:
            return False
    sys.path.append(str(target))
    return True


def rates(make: Callable[[Path], Queue]) -> tuple[float, float]:
    """Appends and takes per second, each for a while."""
    with tempfile.TemporaryDirectory(prefix="everlog-bench-") as folder:
        queue = make(Path(folder))
        try:
            return _rate(queue.append, None), _rate(queue.take, False)
        finally:
            queue.close()


def _rate(step: Callable[[], object], goes_on: bool | None) -> float:
    """Steps per second, until the time is up or (unless ``goes_on`` is None) there is nothing more to take."""
    count, begin = 0, time.perf_counter()
    while (took := time.perf_counter() - begin) < SECONDS:
        for _ in range(20):
            if step() is None and goes_on is not None:
                return count / (time.perf_counter() - begin)
            count += 1
    return count / took


def left(make: Callable[[Path], Queue], folder: Path) -> int:
    """How many messages a new process's queue gives. Raises what the queue raises."""
    queue = make(folder)
    try:
        count = 0
        while queue.take() is not None:
            count += 1
        return count
    finally:
        queue.close()


def _child(work: Callable[[], None]) -> int:
    """Run in a forked process that ends behind it; its id."""
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        signal.alarm(PATIENCE_S)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        work()
        status = 0
    finally:
        os._exit(status)


def two_processes(make: Callable[[Path], Queue]) -> str:
    """``yes`` when two processes that append at the same time lose nothing."""
    with tempfile.TemporaryDirectory(prefix="everlog-bench-") as temporary:
        folder = Path(temporary)
        make(folder).close()

        def work() -> None:
            queue = make(folder)
            for _ in range(EACH_PROCESS):
                queue.append()
            queue.close()

        children = [_child(work) for _ in range(2)]
        ends = [os.waitpid(child, 0)[1] for child in children]
        return _verdict(lambda: left(make, folder), 2 * EACH_PROCESS, any(ends))


def killed(make: Callable[[Path], Queue]) -> str:
    """``yes`` when a process is killed in the midst of appending, and all that it had appended is there."""
    with tempfile.TemporaryDirectory(prefix="everlog-bench-") as temporary:
        folder = Path(temporary)
        reader, writer = os.pipe()

        def work() -> None:
            queue = make(folder)
            while True:
                queue.append()
                os.write(writer, b".")

        child = _child(work)
        os.close(writer)
        appended = 0
        while appended < KILLED_AFTER and (got := os.read(reader, 1)):
            appended += len(got)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        while got := os.read(reader, 1 << 16):
            appended += len(got)
        os.close(reader)
        return _verdict(lambda: left(make, folder), appended, appended < KILLED_AFTER)


def _verdict(count: Callable[[], int], expected: int, has_failed: bool) -> str:
    """One more than expected was appended, but not yet told."""
    try:
        found = count()
    except Exception as error:
        return f"no ({type(error).__name__})"
    if found in (expected, expected + 1):
        return "yes"
    return f"no ({found} of {expected}{', an error' if has_failed else ''})"


def lines() -> Iterator[Line | str]:
    """The table: no line of it is ok or SHORT."""
    candidates = JOURNALS
    if are_queues_there():
        candidates += QUEUES
    else:
        yield f"{', '.join(PACKAGES)} could not be installed (offline?): everlog alone"
    yield f"one message of {len(PAYLOAD)} bytes at a time, k/s, on {where(Path(tempfile.gettempdir()))}"
    row = "{:<30} {:>9} {:>9}  {:<14} {:<16} {:<22} {}"
    yield row.format(
        "queue", "append", "take", "made to last", "message goes to", "2 processes append", "process killed"
    )
    for candidate in candidates:
        found = [rates(candidate.make) for _ in range(RUNS)]
        append, take = (sorted(pair[part] for pair in found)[RUNS // 2] / 1e3 for part in (0, 1))
        yield row.format(
            candidate.name,
            f"{append:.2f}",
            f"{take:.2f}",
            candidate.survives,
            candidate.readers,
            two_processes(candidate.make),
            killed(candidate.make),
        )
