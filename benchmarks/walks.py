"""Walking frames into columns, in memory, against memcpy of the same bytes in the same chunks.

The source is 256 MiB, larger than any cache, and both pass over all of it, so it is cold to both alike; the
destination is one set of column buffers (one block of memory for memcpy) that is used again for every chunk. A
chunk of memcpy is what a walk takes in until its columns are full. "Headers only" leaves the payload column out;
its peer is a plain pass that reads one word of every cache line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice

import numpy as np

from benchmarks.generate import (
    INITIAL_TERM_ID,
    STREAM_ID,
    TERM_BYTES,
    aeron_term,
    jlog_segment,
    nats_slice,
)
from benchmarks.lines import Line, median_seconds, paired
from everlog.aeron.frames import walk as aeron
from everlog.aeron.frames import walk_twin as aeron_status
from everlog.aeron.layouts import DataHeader
from everlog.core.columns import MAX_BATCH_BYTES, MAX_BATCH_ROWS
from everlog.jlog.reading import walk as jlog
from everlog.kernel.columns import RowSink
from everlog.kernel.crc32 import Crc32
from everlog.kernel.sources import Bytes, FieldOf, Source, Value
from everlog.nats_streaming.reading import walk as nats
from everlog.nats_streaming.reading import walk_status as nats_status
from everlog.nats_streaming.reading import walk_twin as nats_values

SOURCE_BYTES = 256 << 20

PAYLOAD: list[tuple[str, str, Source]] = [("payload", "B", Bytes(0))]
AERON: list[tuple[str, str, Source]] = [
    ("length", "q", Value(2)),
    ("position", "q", Value(0)),
    ("end_position", "q", Value(1)),
    ("session_id", "i", FieldOf(DataHeader.session_id)),
    ("stream_id", "i", FieldOf(DataHeader.stream_id)),
    ("term_id", "i", FieldOf(DataHeader.term_id)),
    ("term_offset", "i", FieldOf(DataHeader.term_offset)),
    ("flags", "h", Value(3)),
    ("reserved_value", "q", FieldOf(DataHeader.reserved_value)),
]


def memcpy(source: np.ndarray, chunk_bytes: int) -> Callable[[], None]:
    """Copies the source chunk by chunk to one destination."""
    view, target = memoryview(source), memoryview(bytearray(chunk_bytes))

    def work() -> None:
        for begin in range(0, len(view), chunk_bytes):
            part = view[begin : begin + chunk_bytes]
            target[: len(part)] = part

    return work


def plain_pass(source: np.ndarray) -> Callable[[], None]:
    """Reads one 64-bit word of every cache line."""
    words = source.view(np.int64)[::8]

    def work() -> None:
        words.sum()

    return work


def sink_of(columns: list[tuple[str, str, Source]]) -> RowSink:
    """A sink with the bounds that scans use."""
    return RowSink(columns, MAX_BATCH_ROWS, MAX_BATCH_BYTES)


def aeron_walk(source: np.ndarray, columns: list[tuple[str, str, Source]], expected: int) -> Callable[[], None]:
    """Whole messages of an Aeron recording."""
    sink = sink_of(columns)
    walker = aeron.Walker(aeron.Geometry(INITIAL_TERM_ID, TERM_BYTES, STREAM_ID, 1408, len(source)), True, None)

    def work() -> None:
        at = rows = 0
        walker.select(0, len(source), False)
        while True:
            status = walker.walk(source, at, len(source), 0, True, sink)
            rows += sink.row_count
            sink.reset()
            at = walker.at
            if status != aeron_status.FULL:
                break
        if rows != expected:
            raise SystemExit(f"walked {rows} of {expected} messages, status {status} at {at}")

    return work


def jlog_walk(source: np.ndarray, columns: list[tuple[str, str, Source]], expected: int) -> Callable[[], None]:
    """Messages of a plain journal."""
    sink = sink_of(columns)

    def work() -> None:
        at, marker, rows = 0, 1, 0
        while True:
            at, marker, status = jlog.walk_messages(
                source, at, len(source), True, 0, 0x663A7318, -1, 0, marker, 1, 1 << 62, -1, sink
            )
            rows += sink.row_count
            sink.reset()
            if status != jlog.FULL:
                break
        if rows != expected:
            raise SystemExit(f"walked {rows} of {expected} messages, status {status} at {at}")

    return work


def nats_walk(source: np.ndarray, columns: list[tuple[str, str, Source]], expected: int) -> Callable[[], None]:
    """Records of a slice, each checksum checked."""
    sink = sink_of(columns)

    def work() -> None:
        walker = nats.RecordWalker(sink, Crc32(), 1)
        at, rows = 4, 0
        while True:
            status = walker.walk(source, at, len(source), 0)
            rows += sink.row_count
            sink.reset()
            at = walker.at
            if status != nats_status.FULL:
                break
        if rows != expected:
            raise SystemExit(f"walked {rows} of {expected} messages, status {status} at {at}")

    return work


def aeron_lines() -> Iterator[Line]:
    """Aeron, three payload sizes, and headers only."""
    for name, payload_bytes, target in (("1KiB", 1024, 0.7), ("288B", 288, 0.7), ("32B", 32, 0.4)):
        frame_bytes = (32 + payload_bytes + 31) & ~31
        per_term = TERM_BYTES // frame_bytes
        source = np.concatenate([aeron_term(i, payload_bytes) for i in range(SOURCE_BYTES // TERM_BYTES)])
        rows = per_term * (SOURCE_BYTES // TERM_BYTES)
        chunk = min(MAX_BATCH_ROWS, MAX_BATCH_BYTES // payload_bytes) * frame_bytes
        took, ratio = paired(aeron_walk(source, AERON + PAYLOAD, rows), memcpy(source, chunk))
        yield Line(f"walk-aeron-{name}", SOURCE_BYTES / took / 1e9, "GB/s", f">={target}", ratio)
    took, ratio = paired(aeron_walk(source, AERON, rows), plain_pass(source))
    yield Line("walk-aeron-32B-headers", rows / took / 1e6, "M/s", ">=0.7", ratio, or_value_at_least=100)


def lines() -> Iterator[Line]:
    """All walks."""
    yield from aeron_lines()
    source = jlog_segment(1024, SOURCE_BYTES)
    columns: list[tuple[str, str, Source]] = [
        ("timestamp_ns", "q", Value(jlog.TIMESTAMP_NS)),
        ("log", "q", Value(jlog.LOG)),
        ("marker", "q", Value(jlog.MARKER)),
        ("offset", "q", Value(jlog.OFFSET)),
    ]
    rows = len(source) // 1040
    chunk = MAX_BATCH_BYTES // 1024 * 1040
    took, ratio = paired(jlog_walk(source, columns + PAYLOAD, rows), memcpy(source, chunk))
    yield Line("walk-jlog-1KiB", len(source) / took / 1e9, "GB/s", ">=0.7", ratio)

    count = SOURCE_BYTES // 1060
    payloads = np.random.default_rng(3).bytes(count * 1024)
    dat, _ = nats_slice(b"bench", islice((payloads[i : i + 1024] for i in range(0, len(payloads), 1024)), count))
    source = np.frombuffer(dat, dtype=np.uint8)
    columns = [
        ("timestamp_ns", "q", Value(nats_values.TIMESTAMP)),
        ("length", "q", Value(nats_values.LENGTH_OF_DATA)),
        ("sequence", "q", Value(nats_values.SEQUENCE)),
        ("slice", "i", Value(nats_values.SLICE)),
        ("offset", "q", Value(nats_values.OFFSET)),
        ("subject", "B", Bytes(nats_values.SUBJECT)),
        ("reply", "B", Bytes(nats_values.REPLY)),
    ]
    took = median_seconds(nats_walk(source, columns + PAYLOAD, count))
    yield Line("walk-nats-1KiB-crc", len(source) / took / 1e9, "GB/s", ">=1")
