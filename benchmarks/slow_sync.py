"""A local folder whose syncs are waits, so that a figure is about sharing syncs and not about the disk, and threads
that append to it."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

from benchmarks.lines import Line, paired_rates
from everlog.core.files.writable import LocalWritableStorage, WritableFile

SYNC_S = 0.001
THREADS = 8
MESSAGES_A_THREAD = 300

Rate = Callable[[Path, int], float]
"""Appends per second of so many threads to a new store at a path."""


class SlowlySynced:
    """A local file (with its descriptor, so that compiled loops take it) whose sync takes 1 ms and does nothing."""

    def __init__(self, file: WritableFile) -> None:
        self._file = file

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def __enter__(self) -> SlowlySynced:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def sync(self, *, times: bool = False) -> None:
        """Wait."""
        time.sleep(SYNC_S)


class SlowlySyncedStorage(LocalWritableStorage):
    """A local folder with such files."""

    def open_writable(self, name: str, **options: Any) -> Any:
        """See :class:`LocalWritableStorage`."""
        return SlowlySynced(super().open_writable(name, **options))


def seconds_of_threads(append: Callable[[], object], threads: int) -> float:
    """How long it takes until each thread has called ``append`` :data:`MESSAGES_A_THREAD` times."""
    start = threading.Barrier(threads + 1)

    def work() -> None:
        start.wait()
        for _ in range(MESSAGES_A_THREAD):
            append()

    workers = [threading.Thread(target=work) for _ in range(threads)]
    for worker in workers:
        worker.start()
    start.wait()
    begin = time.perf_counter()
    for worker in workers:
        worker.join()
    return time.perf_counter() - begin


def shared_sync_lines(name: str, rate: Rate) -> Iterator[Line | str]:
    """Eight threads against one, each run on a new store."""
    with tempfile.TemporaryDirectory(prefix="everlog-bench-") as temporary:
        number = count()

        def run(threads: int) -> float:
            return rate(Path(temporary) / str(next(number)), threads)

        value, ratio = paired_rates(lambda: run(THREADS), lambda: run(1))
        yield f"a sync takes {SYNC_S * 1000:g} ms; one thread: {value / ratio:.0f} appends/s"
        yield Line(name, value / 1e3, "k/s", ">=4", ratio)
