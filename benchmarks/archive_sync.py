"""Synced appends to a recording by many threads: one sync serves all that wait for it."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path

from benchmarks.lines import Line, paired_rates
from benchmarks.slow_sync import SYNC_S, SlowlySyncedStorage
from everlog.aeron.archive import Archive, ArchiveOptions

THREADS = 8
MESSAGES_A_THREAD = 300
PAYLOAD = b"x" * 96


def rate(folder: Path, number: Iterator[int], threads: int) -> float:
    """Synced appends per second of all threads together, to a new archive."""
    path = folder / str(next(number))
    path.mkdir()
    start = threading.Barrier(threads + 1)
    with Archive.create(SlowlySyncedStorage(path), ArchiveOptions(durability="synced")) as store:
        recorder = store.start_recording("aeron:ipc", 1001)

        def work() -> None:
            start.wait()
            for _ in range(MESSAGES_A_THREAD):
                recorder.append(PAYLOAD)

        workers = [threading.Thread(target=work) for _ in range(threads)]
        for worker in workers:
            worker.start()
        start.wait()
        begin = time.perf_counter()
        for worker in workers:
            worker.join()
        took = time.perf_counter() - begin
        if recorder.recorded_position != threads * MESSAGES_A_THREAD * 128:
            raise SystemExit(f"{recorder.recorded_position} bytes recorded")
    return threads * MESSAGES_A_THREAD / took


def lines() -> Iterator[Line | str]:
    """Eight threads against one."""
    with tempfile.TemporaryDirectory(prefix="everlog-bench-") as temporary:
        folder, number = Path(temporary), count()
        value, ratio = paired_rates(lambda: rate(folder, number, THREADS), lambda: rate(folder, number, 1))
        yield f"a sync takes {SYNC_S * 1000:g} ms; one thread: {value / ratio:.0f} appends/s"
        yield Line("archive-append-synced-8-threads", value / 1e3, "k/s", ">=4", ratio)
