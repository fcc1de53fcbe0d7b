"""Scans the log or a snapshot: the archive scans the recording, and
:mod:`everlog.aeron.cluster.format.decode` decodes each batch of messages into columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from everlog.aeron.archive.folder.scan import Scan, ScanContext
from everlog.aeron.archive.format.segments import SegmentReader
from everlog.aeron.cluster.format.decode import Decoder
from everlog.aeron.frames import walk_twin as codes
from everlog.aeron.frames.columns import END_POSITION, POSITION
from everlog.aeron.frames.position import FOREVER
from everlog.core.batch import Batch
from everlog.core.columns import Column, ColumnData, ColumnType
from everlog.core.files.storage import Storage
from everlog.core.report import Fault
from everlog.core.store import LENGTH, PAYLOAD, TIMESTAMP_NS, FaultSink, ScanRequest
from everlog.kernel import columns as kernel
from everlog.kernel.sources import Bytes, Source, Value

LOG = "log"
KIND = Column("kind", ColumnType.UTF8, "session-message, session-open, session-close, timer, ...", nullable=False)
LEADERSHIP_TERM_ID = Column("leadership_term_id", ColumnType.INT64, "term in which the leader appended the message")
CLUSTER_SESSION_ID = Column("cluster_session_id", ColumnType.INT64, "session of the client or service that sent it")
FIELDS = Column("fields", ColumnType.UTF8, "the message's other fields, as JSON; bytes in base64", is_json=True)
COLUMNS = (
    TIMESTAMP_NS,
    LENGTH,
    PAYLOAD,
    POSITION,
    END_POSITION,
    KIND,
    LEADERSHIP_TERM_ID,
    CLUSTER_SESSION_ID,
    FIELDS,
)
"""``timestamp_ns`` is the cluster's time. ``length`` and ``payload`` are those of the client's payload in session
messages, and of the whole message in all others."""

_RAW: list[tuple[str, str, Source]] = [
    ("position", "q", Value(codes.POSITION)),
    ("end_position", "q", Value(codes.END_POSITION)),
    ("payload", "B", Bytes(0)),
]
_WALKED = ("position", "end_position")


@dataclass(frozen=True, slots=True)
class MessageContext:
    """What a scan of the log or a snapshot needs. ``unit_ns`` is the cluster's time unit in nanoseconds; messages from
    ``state_position`` on are a service's own state; ``prefix`` precedes the archive's file names in faults."""

    stream: str
    archive: ScanContext
    unit_ns: int
    state_position: int = FOREVER
    prefix: str = ""


def archive_faults(context: MessageContext, on_fault: FaultSink) -> FaultSink:
    """Make a sink that reports an archive's faults as faults of this stream."""

    def report(fault: Fault) -> None:
        on_fault(replace(fault, file=context.prefix + fault.file, stream=context.stream))

    return report


def walk_messages(storage: Storage, context: MessageContext, request: ScanRequest) -> Iterator[Batch]:
    """Yield decoded batches. ``storage`` is the archive's."""
    names = frozenset(column.name for column in request.columns)
    # If only positions are requested, the payload need not be read.
    needs_payload = not names <= set(_WALKED)
    sink = kernel.RowSink(_RAW if needs_payload else _RAW[:2], request.max_rows, request.max_bytes)
    decoder = Decoder(names.difference(_WALKED), context.unit_ns)
    first = 0 if request.start is None else max(request.start, 0)
    stop = FOREVER if request.end is None else request.end
    reader = SegmentReader(storage, context.archive.segments)
    scan = Scan(context.archive, reader, sink, archive_faults(context, request.on_fault), True, first, stop)
    try:
        for _ in scan.run():
            if sink.row_count:
                yield _decoded(sink, context, decoder, request, needs_payload)
    finally:
        reader.close()


def _decoded(
    sink: kernel.RowSink, context: MessageContext, decoder: Decoder, request: ScanRequest, needs_payload: bool
) -> Batch:
    count, taken = sink.take()
    positions = taken["position"][0]
    columns = dict(taken)
    if needs_payload:
        values, offsets, _, _ = taken["payload"]
        assert offsets is not None
        columns.update(decoder.decode(offsets, values, count, _state_row(positions, count, context.state_position)))
        for row in decoder.undecodable:
            request.on_fault(_undecodable(context, int(positions[row])))
    data = {column.name: ColumnData(column.type, *columns[column.name]) for column in request.columns}
    return Batch(request.columns, count, data)


def _state_row(positions: memoryview, count: int, state_position: int) -> int:
    """The first row that is a service's own state."""
    if count == 0 or positions[count - 1] < state_position:
        return count
    return next(row for row in range(count) if positions[row] >= state_position)


def _undecodable(context: MessageContext, position: int) -> Fault:
    name, offset = context.archive.segments.place(position)
    found, expected = "a malformed message", "a cluster message"
    loses, repair = "its fields; its bytes are returned undecoded", "a copy of the log from another node"
    return Fault(
        "message-undecodable",
        context.prefix + name,
        offset,
        found,
        expected,
        loses,
        repair,
        stream=context.stream,
        address=str(position),
    )


@dataclass(frozen=True, slots=True)
class RawMessage:
    """An undecoded message of a recording."""

    position: int
    end_position: int
    data: bytes


def raw_messages(
    storage: Storage, context: ScanContext, start: int = 0, *, on_fault: FaultSink, max_rows: int = 64
) -> Iterator[RawMessage]:
    """Yield a recording's messages from ``start`` on. Reads a few at a time, because callers need the first ones
    only."""
    sink = kernel.RowSink(_RAW, max_rows, 1 << 20)
    reader = SegmentReader(storage, context.segments)
    try:
        for _ in Scan(context, reader, sink, on_fault, True, start, FOREVER).run():
            count, taken = sink.take()
            positions, ends = taken["position"][0], taken["end_position"][0]
            data, offsets, _, _ = taken["payload"]
            assert offsets is not None
            for row in range(count):
                yield RawMessage(positions[row], ends[row], bytes(data[offsets[row] : offsets[row + 1]]))
    finally:
        reader.close()
