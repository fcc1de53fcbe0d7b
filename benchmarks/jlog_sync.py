"""Synced appends by many threads: one sync serves all that wait for it.

The disk's sync is replaced by a wait of 1 ms, so that the figure is about sharing syncs and not about the disk.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path

from benchmarks.lines import Line, paired_rates
from benchmarks.slow_sync import SYNC_S, SlowlySyncedStorage
from everlog.jlog.creation import create
from everlog.jlog.writer import Writer

THREADS = 8
MESSAGES_A_THREAD = 300
PAYLOAD = b"x" * 100


def rate(folder: Path, number: Iterator[int], threads: int) -> float:
    """Synced appends per second of all threads together, on a new journal."""
    journal = folder / str(next(number))
    create(journal)
    start = threading.Barrier(threads + 1)

    def work() -> None:
        start.wait()
        for _ in range(MESSAGES_A_THREAD):
            writer.append(PAYLOAD)

    with Writer(SlowlySyncedStorage(journal), durability="synced") as writer:
        writer.append(PAYLOAD)
        workers = [threading.Thread(target=work) for _ in range(threads)]
        for worker in workers:
            worker.start()
        start.wait()
        begin = time.perf_counter()
        for worker in workers:
            worker.join()
        took = time.perf_counter() - begin
    stored = (journal / "00000000").stat().st_size // (16 + len(PAYLOAD))
    if stored != threads * MESSAGES_A_THREAD + 1:
        raise SystemExit(f"{stored} messages in the journal")
    return threads * MESSAGES_A_THREAD / took


def lines() -> Iterator[Line | str]:
    """Eight threads against one."""
    with tempfile.TemporaryDirectory(prefix="everlog-bench-") as temporary:
        folder, number = Path(temporary), count()
        value, ratio = paired_rates(lambda: rate(folder, number, THREADS), lambda: rate(folder, number, 1))
        yield f"a sync takes {SYNC_S * 1000:g} ms; one thread: {value / ratio:.0f} appends/s"
        yield Line("jlog-append-synced-8-threads", value / 1e3, "k/s", ">=4", ratio)
