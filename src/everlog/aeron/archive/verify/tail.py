"""Checks whether the last frame of a recording whose archive was killed was written completely.

A frame's header is written first. If the payload ends in zeros, a crash may have interrupted the write inside a page;
nothing else on disk can show that. A checksum shows it by itself, and a frame that reaches into an empty page is
rejected earlier.
"""

from __future__ import annotations

from everlog.aeron.archive.folder.scan import ScanContext
from everlog.aeron.archive.format.segments import SegmentReader
from everlog.aeron.frames.constants import HEADER_LENGTH, TYPE_DATA, align
from everlog.aeron.frames.position import term_start
from everlog.aeron.layouts import DataHeader
from everlog.core.report import Fault

SUSPECT_BYTES = 64
"""Fewest zeros at the end of a last frame that are reported: what a processor writes at once."""


def check_tail(context: ScanContext, reader: SegmentReader, end: int) -> Fault | None:
    """Return a fault if the frame that ends at ``end`` looks cut off."""
    position = _last_frame(context, reader, end)
    if position is None or context.checksum != "none":
        return None
    data = reader.read(position, end - position)
    header = DataHeader.unpack_from(data)
    if header.type != TYPE_DATA:
        return None
    payload = data[HEADER_LENGTH : header.frame_length]
    zeros = len(payload) - len(payload.rstrip(b"\0"))
    if zeros < SUSPECT_BYTES:
        return None
    name, offset = context.segments.place(position)
    return Fault(
        "torn-frame",
        name,
        offset,
        f"a last frame whose last {zeros} bytes are zeros",
        "payload, unless it really ends in zeros",
        "what a crash may have cut off; the frame is read unchanged",
        "none: compare it with its source, or truncate the recording there",
        stream=context.stream,
        address=str(position),
    )


def _last_frame(context: ScanContext, reader: SegmentReader, end: int) -> int | None:
    """The position of the frame that ends at ``end``, found by walking the frames from the start of its term."""
    start = context.segments.start_position
    if end <= start:
        return None
    position = max(start, term_start(end - 1, context.geometry.term_length))
    data = reader.read(position, end - position)
    at, last = 0, None
    while at + HEADER_LENGTH <= len(data):
        header = DataHeader.unpack_from(data, at)
        if header.frame_length < HEADER_LENGTH:
            return None
        last = at
        at += align(header.frame_length)
    return position + last if last is not None and position + at == end else None
