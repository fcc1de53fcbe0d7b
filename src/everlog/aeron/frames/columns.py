"""The columns of scans of Aeron frames, and the sources of their values."""

from __future__ import annotations

from everlog.aeron.frames import walk_twin as codes
from everlog.aeron.layouts import DataHeader
from everlog.core.batch import Batch
from everlog.core.columns import Column, ColumnData, ColumnType
from everlog.core.store import LENGTH, PAYLOAD, TIMESTAMP_NS
from everlog.kernel import derived
from everlog.kernel.columns import RowSink
from everlog.kernel.sources import Bytes, FieldOf, Null, Source, Value

TIMESTAMP_UNITS = {"reserved_value:ns": 1, "reserved_value:us": 1_000, "reserved_value:ms": 1_000_000}
"""Frame fields that may hold a publisher's time, and the nanoseconds in its unit."""

POSITION = Column("position", ColumnType.INT64, "of the first frame's first byte", nullable=False)
END_POSITION = Column("end_position", ColumnType.INT64, "after the last frame, padded to 32 bytes", nullable=False)
SESSION_ID = Column("session_id", ColumnType.INT32, "null if overwritten by a checksum")
STREAM_ID = Column("stream_id", ColumnType.INT32, "chosen by the publisher", nullable=False)
TERM_ID = Column("term_id", ColumnType.INT32, "of the first frame", nullable=False)
TERM_OFFSET = Column("term_offset", ColumnType.INT32, "of the first frame", nullable=False)
FLAGS = Column(
    "flags", ColumnType.INT16, "of the first and last frame combined: 192 for a whole message", nullable=False
)
RESERVED_VALUE = Column("reserved_value", ColumnType.INT64, "of the first frame, set by the publisher", nullable=False)

COLUMNS = (
    TIMESTAMP_NS,
    LENGTH,
    PAYLOAD,
    POSITION,
    END_POSITION,
    SESSION_ID,
    STREAM_ID,
    TERM_ID,
    TERM_OFFSET,
    FLAGS,
    RESERVED_VALUE,
)

_SOURCES: dict[str, Source] = {
    "timestamp_ns": Null(),
    "length": Value(codes.LENGTH),
    "payload": Bytes(0),
    "position": Value(codes.POSITION),
    "end_position": Value(codes.END_POSITION),
    "session_id": FieldOf(DataHeader.session_id),  # type: ignore[arg-type]
    "stream_id": FieldOf(DataHeader.stream_id),  # type: ignore[arg-type]
    "term_id": FieldOf(DataHeader.term_id),  # type: ignore[arg-type]
    "term_offset": FieldOf(DataHeader.term_offset),  # type: ignore[arg-type]
    "flags": Value(codes.FLAGS),
    "reserved_value": FieldOf(DataHeader.reserved_value),  # type: ignore[arg-type]
}


def make_sink(
    columns: tuple[Column, ...], *, checked: bool, timestamps: bool, max_rows: int, max_bytes: int
) -> RowSink:
    """Make a sink for these columns. ``checked``: checksums overwrite the session ids; ``timestamps``: the reserved
    value is a time."""
    sources = dict(_SOURCES)
    if checked:
        sources["session_id"] = Null()
    if timestamps:
        sources["timestamp_ns"] = FieldOf(DataHeader.field("reserved_value"))
    return RowSink([(c.name, c.type.code, sources[c.name]) for c in columns], max_rows, max_bytes)


def take_batch(sink: RowSink, columns: tuple[Column, ...], timestamp_factor: int) -> Batch | None:
    """Take the sink's rows as a batch, or ``None`` if it is empty. ``timestamp_factor``: nanoseconds in a unit of the
    reserved value."""
    if sink.row_count == 0:
        return None
    count, taken = sink.take()
    data = {c.name: ColumnData(c.type, *taken[c.name]) for c in columns}
    times = data.get("timestamp_ns")
    if times is not None and timestamp_factor > 1:
        times.values = derived.multiply(times.values, timestamp_factor, count)
    return Batch(columns, count, data)
