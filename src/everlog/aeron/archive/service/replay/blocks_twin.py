"""Prepares a block of a recording for its replay: finds the whole frames, checks them, and gives them the ids of the
publication.

This is the specification of the compiled loop in ``_blocks.pyx``. Source: ReplaySession.replay; the checks of a frame's
place, type and length are ours.
"""

from __future__ import annotations

from typing import Final

from everlog.aeron.frames.constants import HEADER_LENGTH, TYPE_DATA, TYPE_PADDING, align
from everlog.aeron.layouts import DataHeader
from everlog.errors import UsageError
from everlog.kernel.crc32 import Crc32

NO_FRAME: Final = -1
DAMAGED: Final = -2
WRONG_CHECKSUM: Final = -3

_LENGTH = DataHeader.field("frame_length")
_SESSION = DataHeader.field("session_id")
_STREAM = DataHeader.field("stream_id")


class Preparer:
    """Prepares the blocks of one replay. ``session_id`` and ``stream_id`` are those of its publication, ``mtu_length``
    is the recording's. With ``crc``, the session id of each data frame must be the checksum of what follows its
    header."""

    def __init__(self, session_id: int, stream_id: int, mtu_length: int, term_length: int, crc: Crc32 | None) -> None:
        self._session = session_id.to_bytes(_SESSION.size, "little", signed=True)
        self._stream = stream_id.to_bytes(_STREAM.size, "little", signed=True)
        self._mtu_length = mtu_length
        self._term_length = term_length
        self._crc = crc

    def prepare(self, block: memoryview, read: int, limit: int, term_offset: int, term_id: int) -> tuple[int, int]:
        """Give the frames in the first ``read`` bytes of ``block``, which begin at ``term_offset`` of a term, the ids
        of the publication: whole data frames that begin before ``limit``. Returns their length, and why there are no
        more: the length of a padding frame that comes next; ``NO_FRAME`` for a length that no frame has; ``DAMAGED``
        for a frame of another place, or of a type or length that it can't have; ``WRONG_CHECKSUM``; 0 for the end of
        the bytes or the limit. Raises :class:`UsageError` for more bytes than the block has."""
        if read > len(block):
            raise unfit(read, len(block))
        at = 0
        while at < limit and at + HEADER_LENGTH <= read:
            header = DataHeader.unpack_from(block, at)
            length, taken = header.frame_length, align(header.frame_length)
            if length < HEADER_LENGTH:
                return at, NO_FRAME
            if (header.term_offset, header.term_id) != (term_offset + at, term_id) or (
                taken > self._term_length - term_offset - at
            ):
                return at, DAMAGED
            if header.type == TYPE_PADDING:
                return at, length
            if header.type != TYPE_DATA or length > self._mtu_length:
                return at, DAMAGED
            if at + taken > read:
                return at, 0
            if self._crc is not None:
                computed = self._crc.checksum(block[at + HEADER_LENGTH : at + taken])
                if computed != header.session_id & 0xFFFFFFFF:
                    return at, WRONG_CHECKSUM
            block[at + _SESSION.offset : at + _SESSION.end] = self._session
            block[at + _STREAM.offset : at + _STREAM.end] = self._stream
            at += taken
        return at, 0


def unfit(read: int, length: int) -> UsageError:
    """The error for more bytes than a block has."""
    return UsageError("block", found=f"{read} bytes read", expected=f"at most its {length} bytes")
