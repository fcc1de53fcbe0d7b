"""Prepares a block of a recording for its replay: finds the whole frames, and gives them the ids of the publication.

This is the specification of the compiled loop in ``_blocks.pyx``. Source: ReplaySession.replay.
"""

from __future__ import annotations

from everlog.aeron.frames.constants import HEADER_LENGTH, TYPE_PADDING, align
from everlog.aeron.layouts import DataHeader

_LENGTH = DataHeader.field("frame_length")
_TYPE = DataHeader.field("type")
_SESSION = DataHeader.field("session_id")
_STREAM = DataHeader.field("stream_id")


def prepare_block(block: memoryview, read: int, limit: int, session_id: int, stream_id: int) -> tuple[int, int]:
    """Give the frames in the first ``read`` bytes of ``block`` the session and stream id of a publication: whole data
    frames that begin before ``limit``. Returns their length, and what follows: the length of a padding frame, 0 for
    none, -1 if there is no frame at all where one is expected."""
    session, stream = session_id.to_bytes(4, "little", signed=True), stream_id.to_bytes(4, "little", signed=True)
    at = 0
    while at < limit and at + HEADER_LENGTH <= read:
        length = int.from_bytes(block[at + _LENGTH.offset : at + _LENGTH.end], "little", signed=True)
        if length < HEADER_LENGTH:
            return at, -1
        if int.from_bytes(block[at + _TYPE.offset : at + _TYPE.end], "little") == TYPE_PADDING:
            return at, length
        if at + align(length) > read:
            return at, 0
        block[at + _SESSION.offset : at + _SESSION.end] = session
        block[at + _STREAM.offset : at + _STREAM.end] = stream
        at += align(length)
    return at, 0
