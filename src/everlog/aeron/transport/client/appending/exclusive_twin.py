"""Appends as the only publisher of a log: like :mod:`everlog.aeron.transport.client.appending.publication_twin`, with a
tail that no other publisher moves. Source: ExclusivePublication."""

from __future__ import annotations

from typing import Final

from everlog.aeron.frames.constants import HEADER_LENGTH, TYPE_PADDING, align
from everlog.aeron.frames.position import wrap_int32
from everlog.aeron.layouts import DataHeader
from everlog.aeron.transport.client.appending.claim_twin import BufferClaim as BufferClaim
from everlog.aeron.transport.client.appending.publication_twin import Appender
from everlog.aeron.transport.client.appending.publication_twin import ConcurrentAppender as ConcurrentAppender
from everlog.aeron.transport.client.appending.results import (
    ADMIN_ACTION,
    CLOSED,
    MAX_POSITION_EXCEEDED,
    bad_block,
    bad_padding,
    bad_tail,
)
from everlog.aeron.transport.client.log_shape import TERM_COUNT, Log
from everlog.aeron.transport.format.layouts import LogMetaData
from everlog.kernel.memory import Memory
from everlog.layout import Readable

_TAILS: Final = LogMetaData.field("tail_0").offset
_ACTIVE_TERM_COUNT: Final = LogMetaData.field("active_term_count").offset


class ExclusiveAppender(Appender):
    """The only publisher of a log. For one thread at a time; a second one gets a ``UsageError``."""

    def __init__(self, log: Log, limit: Memory, limit_offset: int) -> None:
        super().__init__(log, limit, limit_offset)
        tail = self._read_tail()
        if isinstance(tail, int):
            raise bad_tail()
        self._index, self._term_id, self._offset = tail

    @property
    def term_id(self) -> int:
        """Id of the current term, int32."""
        return self._term_id

    @property
    def term_offset(self) -> int:
        """Offset in the current term."""
        return self._offset

    def append_padding(self, length: int) -> int:
        """Append padding: a header and ``length`` bytes. Raises :class:`UsageError` if ``length`` is more than
        :attr:`max_framed_length`."""
        if not 0 <= length <= self.max_framed_length:
            raise bad_padding(length, self.max_framed_length)
        if self._limit is None:
            return CLOSED
        claimed = self._claim(length, align(length + HEADER_LENGTH))
        if isinstance(claimed, int):
            return claimed
        term, offset, term_id, position = claimed
        self._put_padding(term, offset, length + HEADER_LENGTH, term_id)
        return position

    def append_block(self, block: Readable) -> int:
        """Append complete frames, for example of a recording. They must have this session and stream id, start at the
        current term id and term offset, and fit in the term. If the last frame is padding, its header is enough. Raises
        :class:`UsageError` for any other block."""
        if self._limit is None:
            return CLOSED
        if self._offset >= self.term_buffer_length:
            if self._begin + self.term_buffer_length >= self.max_possible_position:
                return MAX_POSITION_EXCEEDED
            self._next_term()
        if self._tail_position() >= self.position_limit:
            return self._refusal(self._tail_position(), len(block))
        frames = bytes(block)
        taken = self._block_length(frames)
        term, length = self._terms[self._index], int.from_bytes(frames[:4], "little")
        self._move_tail(self._offset + taken)
        term.put_i32_release(self._offset, -length)
        term.write(self._offset + 4, frames[4:])
        term.put_i32_release(self._offset, length)
        self._offset += taken
        return self._tail_position()

    def _block_length(self, frames: bytes) -> int:
        """Bytes that a block takes in the term."""
        at = 0
        while at < len(frames):
            if len(frames) - at < HEADER_LENGTH:
                raise bad_block(at)
            header = DataHeader.unpack_from(frames, at)
            taken = align(header.frame_length)
            place = (header.term_offset, header.term_id, header.session_id, header.stream_id)
            expected = (self._offset + at, self._term_id, self.session_id, self.stream_id)
            rest = self.term_buffer_length - self._offset - at
            if place != expected or header.frame_length < HEADER_LENGTH or taken > rest:
                raise bad_block(at)
            if taken > len(frames) - at and (header.type, len(frames) - at) != (TYPE_PADDING, HEADER_LENGTH):
                raise bad_block(at)
            at += taken
        if at == 0:
            raise bad_block(0)
        return at

    def _claim(self, length: int, framed: int) -> tuple[Memory, int, int, int] | int:
        if self._tail_position() >= self.position_limit:
            return self._refusal(self._tail_position(), length)
        term, offset, rest = self._terms[self._index], self._offset, self.term_buffer_length - self._offset
        self._move_tail(offset + framed)
        if framed <= rest:
            self._offset += framed
            return term, offset, self._term_id, self._tail_position()
        if rest > 0:
            self._put_padding(term, offset, rest, self._term_id)
        if self._begin + self.term_buffer_length >= self.max_possible_position:
            return MAX_POSITION_EXCEEDED
        self._next_term()
        return ADMIN_ACTION

    @property
    def _begin(self) -> int:
        return self._position_of(self._term_id, 0)

    def _tail_position(self) -> int:
        return self._position_of(self._term_id, self._offset)

    def _move_tail(self, offset: int) -> None:
        self._metadata.put_i64_release(_TAILS + 8 * self._index, self._term_id << 32 | offset)

    def _next_term(self) -> None:
        self._index = (self._index + 1) % TERM_COUNT
        self._term_id = wrap_int32(self._term_id + 1)
        self._offset = 0
        self._move_tail(0)
        count = wrap_int32(self._term_id - self.initial_term_id)
        self._metadata.put_i32_release(_ACTIVE_TERM_COUNT, count)
