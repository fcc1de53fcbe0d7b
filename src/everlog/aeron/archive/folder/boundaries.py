"""Checks that a frame begins at a position, by walking there from the start of its term."""

from __future__ import annotations

from dataclasses import replace

from everlog.aeron.archive.folder.scan import Scan, ScanContext
from everlog.aeron.archive.format.segments import SegmentReader
from everlog.core.files.storage import Storage
from everlog.core.report import Fault
from everlog.kernel.columns import RowSink

_UNBOUNDED = 1 << 62


def is_frame_boundary(storage: Storage, context: ScanContext, position: int) -> bool:
    """Whether ``position`` is the start of a recording or the end of a readable frame."""
    start = context.segments.start_position
    if position <= start:
        return position == start
    faults: list[Fault] = []
    reader = SegmentReader(storage, context.segments)
    sink = RowSink([], _UNBOUNDED, _UNBOUNDED)
    until = replace(context, stop_position=position, last_base=None, is_live=False)
    # Start at position - 1, so that the walk begins in the term of the frame before.
    scan = Scan(until, reader, sink, faults.append, False, position - 1, position)
    try:
        for _ in scan.run():
            sink.reset()
    finally:
        reader.close()
    return scan.end_position == position and not any(fault.code == "stop-position" for fault in faults)
