"""Opening and listing stores with very many streams."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import everlog
from benchmarks.generate import many_recordings, nats_slice, nats_store
from benchmarks.lines import Line, median_seconds

RECORDINGS = 100_000
CHANNELS, MESSAGES = 1_000, 100
MANY_CHANNELS = 20_000


def count_streams(path: Path, expected: int) -> None:
    """Open, list, close."""
    with everlog.open_store(path) as store:
        found = len(store.streams())
    if found != expected:
        raise SystemExit(f"{path}: {found} streams, expected {expected}")


def read_streams(path: Path, expected: int) -> None:
    """Open, and read every stream with all columns."""
    with everlog.open_store(path) as store:
        found = sum(batch.row_count for name in store.stream_names() for batch in store.scan(name))
    if found != expected:
        raise SystemExit(f"{path}: {found} records, expected {expected}")


def lines() -> Iterator[Line]:
    """An archive of 100,000 recordings; 1,000 channels of 100 messages (the original server took 6.0 s to recover
    them); 20,000 channels of one message, read.
    """
    with tempfile.TemporaryDirectory(prefix="everlog-bench-") as folder:
        archive = many_recordings(Path(folder) / "archive", RECORDINGS)
        yield Line("list-100k-recordings", median_seconds(lambda: count_streams(archive, RECORDINGS)), "s", "<=1")
        channels = {}
        for number in range(CHANNELS):
            name = f"channel.{number}"
            channels[name] = nats_slice(name.encode(), (b"%064d" % i for i in range(MESSAGES)))
        store = nats_store(Path(folder) / "channels", channels)
        yield Line("list-1000-channels", median_seconds(lambda: count_streams(store, CHANNELS)), "s", "<=1")
        channels = {
            name: nats_slice(name.encode(), iter([b"once"])) for name in map("c{:05}".format, range(MANY_CHANNELS))
        }
        store = nats_store(Path(folder) / "many", channels)
        yield Line("read-20000-channels", median_seconds(lambda: read_streams(store, MANY_CHANNELS)), "s", "<=3")
