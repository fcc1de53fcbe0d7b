"""Replaying into columns, positions and payloads, beside the real Aeron Archive, whose subscriber polls fragments.

Both read pages that are in memory.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.archive_peer import MESSAGES, ArchivePeer
from benchmarks.archive_record import payloads_of
from benchmarks.lines import Line, paired_rates, where
from everlog.aeron import archive
from everlog.aeron.archive import Archive

COLUMNS = ("position", "payload")


def replay(store: Archive, recording_id: int, expected: int) -> float:
    """Messages a second."""
    begin = time.perf_counter()
    found = sum(batch.row_count for batch in store.replay(recording_id).batches(COLUMNS))
    took = time.perf_counter() - begin
    if found != expected:
        raise SystemExit(f"{found} messages of {expected}")
    return found / took


def lines() -> Iterator[Line | str]:
    """Large and small messages."""
    with tempfile.TemporaryDirectory(prefix="everlog-bench-") as temporary:
        folder = Path(temporary)
        yield f"both archives on {where(folder)}"
        with archive.create(folder / "everlog") as store, ArchivePeer(folder) as peer:
            for size, count in MESSAGES.items():
                payloads = payloads_of(size)
                with store.start_recording("aeron:ipc", 1001) as recorder:
                    for start in range(0, count, len(payloads)):
                        recorder.append_many(payloads[: count - start])
                value, ratio = paired_rates(
                    lambda i=recorder.recording_id, n=count: replay(store, i, n),  # type: ignore[misc]
                    lambda size=size: peer.replay(size).messages_per_second,  # type: ignore[misc]
                )
                yield Line(f"archive-replay-{size}B", value / 1e6, "M/s", ">=2", ratio)
