"""Synced appends to a journal by many threads: one sync serves all that wait for it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from benchmarks.lines import Line
from benchmarks.slow_sync import MESSAGES_A_THREAD, SlowlySyncedStorage, seconds_of_threads, shared_sync_lines
from everlog.jlog.writing.creation import create
from everlog.jlog.writing.writer import Writer

PAYLOAD = b"x" * 100


def rate(path: Path, threads: int) -> float:
    """Synced appends per second of all threads together, to a new journal."""
    create(path)
    with Writer(SlowlySyncedStorage(path), durability="synced") as writer:
        writer.append(PAYLOAD)
        took = seconds_of_threads(lambda: writer.append(PAYLOAD), threads)
    stored = (path / "00000000").stat().st_size // (16 + len(PAYLOAD))
    if stored != threads * MESSAGES_A_THREAD + 1:
        raise SystemExit(f"{stored} messages in the journal")
    return threads * MESSAGES_A_THREAD / took


def lines() -> Iterator[Line | str]:
    """Eight threads against one."""
    yield from shared_sync_lines("jlog-append-synced-8-threads", rate)
