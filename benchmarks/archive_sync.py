"""Synced appends to a recording by many threads: one sync serves all that wait for it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from benchmarks.lines import Line
from benchmarks.slow_sync import MESSAGES_A_THREAD, SlowlySyncedStorage, seconds_of_threads, shared_sync_lines
from everlog.aeron.archive import Archive, ArchiveOptions

PAYLOAD = b"x" * 96


def rate(path: Path, threads: int) -> float:
    """Synced appends per second of all threads together, to a new archive."""
    path.mkdir()
    with Archive.create(SlowlySyncedStorage(path), ArchiveOptions(durability="synced")) as store:
        recorder = store.start_recording("aeron:ipc", 1001)
        took = seconds_of_threads(lambda: recorder.append(PAYLOAD), threads)
        if recorder.recorded_position != threads * MESSAGES_A_THREAD * 128:
            raise SystemExit(f"{recorder.recorded_position} bytes recorded")
    return threads * MESSAGES_A_THREAD / took


def lines() -> Iterator[Line | str]:
    """Eight threads against one."""
    yield from shared_sync_lines("archive-append-synced-8-threads", rate)
