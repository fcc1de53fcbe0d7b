"""Appends messages to a log shared with the driver and the subscribers.

A publisher claims space by moving the raw tail of the active term (term id in the upper half, bytes claimed in the
lower). It then writes the frame's length as a negative number, the rest of the header and the payload, and last the
true length with release order, which publishes the frame. It claims only while its position is below the limit, which
the driver sets so that publishers never overrun readers; one message may extend beyond it. If a message does not fit in
the rest of the term, the rest becomes padding and the next term becomes active. Concurrent publishers claim with an
atomic addition; an exclusive publisher knows the tail and only writes it.

A message longer than a frame's payload is claimed as a whole and written as fragments. Several short messages may be
claimed with one move of the tail. They are written from last to first, so that the first one's length, written last,
publishes all of them. A publisher that dies in between leaves a state that the driver's unblocker handles: a negative
length or zeros, followed by a frame. This twin claims them one by one; the resulting log is the same.

An exclusive appender is for one thread at a time; threads and processes may share concurrent ones.

Source: ConcurrentPublication, ExclusivePublication, Publication, BufferClaim, HeaderWriter, LogBufferDescriptor. This
is the readable twin of ``_publication.pyx``; ordering between processes needs that one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Final

from everlog.aeron.frames.constants import FLAG_BEGIN, FLAG_END, FRAME_ALIGNMENT, HEADER_LENGTH, TYPE_PADDING, align
from everlog.aeron.frames.framing_inputs import framed_length
from everlog.aeron.frames.position import wrap_int32
from everlog.aeron.layouts import DataHeader
from everlog.aeron.transport.client.appending.claim_twin import BufferClaim
from everlog.aeron.transport.client.appending.results import (
    ADMIN_ACTION,
    BACK_PRESSURED,
    CLOSED,
    MAX_POSITION_EXCEEDED,
    MAX_TURNS,
    NOT_CONNECTED,
    bad_claim,
    bad_offsets,
    bad_tail,
    check_rows,
    offset_width,
    open_claim,
    too_long,
    wrong_start,
)
from everlog.aeron.transport.client.log_shape import TERM_COUNT, Log, LogShape
from everlog.aeron.transport.format.layouts import LogMetaData
from everlog.aeron.transport.memory.terms_twin import rotate_log
from everlog.kernel.memory import Memory
from everlog.layout import Readable

_TAILS: Final = LogMetaData.field("tail_0").offset
_ACTIVE_TERM_COUNT: Final = LogMetaData.field("active_term_count").offset
_IS_CONNECTED: Final = LogMetaData.field("is_connected").offset
_FLAGS: Final = DataHeader.field("flags").offset
_TYPE: Final = DataHeader.field("type").offset
_TERM_OFFSET: Final = DataHeader.field("term_offset").offset
_TERM_ID: Final = DataHeader.field("term_id").offset
_RESERVED_VALUE: Final = DataHeader.field("reserved_value").offset


class Appender(ABC):
    """Base of both kinds: the log, its limit, and composed appends.

    ``limit`` has the driver's publisher limit at ``limit_offset``, int64. Raises :class:`CorruptData` if the log's
    metadata is invalid. Appends return the new position or a negative code of
    :mod:`everlog.aeron.transport.client.appending.results`. After :meth:`close`, which drops all memory, they return
    :data:`CLOSED`."""

    def __init__(self, log: Log, limit: Memory, limit_offset: int) -> None:
        self._shape = LogShape.of(log)
        self._terms: Sequence[Memory] = tuple(log.terms)
        self._metadata = log.metadata
        self._limit: Memory | None = limit
        self._limit_offset = limit_offset
        limit.get_i64_acquire(limit_offset)  # raises an error for a wrong offset
        if not all(memory.writable for memory in (*self._terms, self._metadata)):
            raise TypeError("this memory is read-only")
        self.session_id, self.stream_id = self._shape.session_id, self._shape.stream_id
        self.mtu_length = self._shape.mtu_length
        self.max_framed_length = self._shape.max_framed_length

    def close(self) -> None:
        """Drop the log. An open claim keeps it until its commit."""
        self._terms, self._limit = (), None
        self._metadata = Memory.allocate(0)

    @property
    def is_closed(self) -> bool:
        """Whether :meth:`close` was called."""
        return self._limit is None

    @property
    def is_connected(self) -> bool:
        """Whether the driver sees a subscriber."""
        return self._limit is not None and self._metadata.get_i32_acquire(_IS_CONNECTED) == 1

    @property
    def position(self) -> int:
        """Position after the last published message; :data:`CLOSED` after :meth:`close`."""
        return CLOSED if self._limit is None else self._tail_position()

    @property
    def position_limit(self) -> int:
        """Messages that begin below this position can be appended now."""
        return CLOSED if self._limit is None else self._limit.get_i64_acquire(self._limit_offset)

    @property
    def available_window(self) -> int:
        """Bytes up to the limit; negative if a message extends beyond it."""
        return CLOSED if self._limit is None else self.position_limit - self._tail_position()

    @property
    def term_buffer_length(self) -> int:
        """Length of a term in bytes."""
        return self._shape.term_length

    @property
    def position_bits_to_shift(self) -> int:
        """Shifting a position right by this number of bits gives its term count."""
        return self._shape.position_bits_to_shift

    @property
    def initial_term_id(self) -> int:
        """Id of the first term, int32."""
        return self._shape.initial_term_id

    @property
    def max_payload_length(self) -> int:
        """Longest message that fits in one frame, and longest claim."""
        return self._shape.max_payload_length

    @property
    def max_message_length(self) -> int:
        """Longest message, sent in fragments."""
        return self._shape.max_message_length

    @property
    def max_possible_position(self) -> int:
        """The position at which the term ids are used up."""
        return self._shape.max_possible_position

    def offer(self, data: Readable, reserved_value: int = 0) -> int:
        """Append one message, any contiguous bytes; each of its fragments gets the reserved value. Raises
        :class:`UsageError` if it is longer than :attr:`max_message_length`."""
        if self._limit is None:
            return CLOSED
        message = memoryview(data).cast("B")
        if len(message) > self.max_message_length:
            raise too_long(self.max_message_length)
        claimed = self._claim(len(message), framed_length(len(message), self.max_payload_length))
        if isinstance(claimed, int):
            return claimed
        term, offset, term_id, position = claimed
        flags, at = FLAG_BEGIN, 0
        while True:
            part = message[at : at + self.max_payload_length]
            at += len(part)
            self._put_header(term, offset, HEADER_LENGTH + len(part), term_id)
            term.write(offset + HEADER_LENGTH, part)
            if at == len(message):
                flags |= FLAG_END
            if flags != FLAG_BEGIN | FLAG_END:
                term.write(offset + _FLAGS, bytes([flags]))
            term.put_i64(offset + _RESERVED_VALUE, reserved_value)
            term.put_i32_release(offset, HEADER_LENGTH + len(part))
            if at == len(message):
                return position
            offset += align(HEADER_LENGTH + len(part))
            flags = 0

    def offer_parts(self, parts: Sequence[Readable], reserved_value: int = 0) -> int:
        """Append one message given in parts. Raises the errors of :meth:`offer`."""
        return self.offer(b"".join(parts), reserved_value)

    def offer_many(self, messages: Sequence[Readable], start: int = 0) -> int:
        """Append messages from index ``start`` on until one is refused; moves on to the next term by itself. Returns
        the number appended, or the code if none was. Raises the errors of :meth:`offer` if none was appended before."""
        if self._limit is None:
            return CLOSED
        if start < 0:
            raise wrong_start(start)
        return self._append_all(messages[start:])

    def append_columns(
        self,
        data: Readable,
        offsets: memoryview,
        first: int = 0,
        last: int | None = None,
        *,
        reserved_value: int = 0,
    ) -> int:
        """Append rows ``first`` up to ``last`` of a binary column as messages: row ``i`` is ``data`` from
        ``offsets[i]`` up to ``offsets[i + 1]``, int32 or int64. Returns and raises like :meth:`offer_many`. Releases
        the GIL."""
        if self._limit is None:
            return CLOSED
        ends = memoryview(offsets)
        offset_width(ends)
        last = check_rows(first, last, len(ends))
        rows = memoryview(data).cast("B")
        messages: list[Readable] = []
        for row in range(first, last):
            if not 0 <= ends[row] <= ends[row + 1] <= len(rows):
                if not messages:
                    raise bad_offsets(row)
                break
            messages.append(rows[ends[row] : ends[row + 1]])
        return self._append_all(messages, reserved_value)

    def _append_all(self, messages: Sequence[Readable], reserved_value: int = 0) -> int:
        for count, message in enumerate(messages):
            if count and len(message) > self.max_message_length:
                return count
            for _ in range(1 + MAX_TURNS):
                outcome = self.offer(message, reserved_value)
                if outcome != ADMIN_ACTION:
                    break
            if outcome < 0:
                return count or outcome
        return len(messages)

    def try_claim(self, length: int, claim: BufferClaim) -> int:
        """Claim space for a message of ``length`` bytes. Raises :class:`UsageError` if that is more than
        :attr:`max_payload_length`, or if ``claim`` is already open."""
        if claim.is_open:
            raise open_claim()
        if not 0 <= length <= self.max_payload_length:
            raise bad_claim(length, self.max_payload_length)
        if self._limit is None:
            return CLOSED
        claimed = self._claim(length, align(length + HEADER_LENGTH))
        if isinstance(claimed, int):
            return claimed
        term, offset, term_id, position = claimed
        self._put_header(term, offset, length + HEADER_LENGTH, term_id)
        claim._set(term, offset, length)
        return position

    @abstractmethod
    def _claim(self, length: int, framed: int) -> tuple[Memory, int, int, int] | int:
        """Claim ``framed`` bytes: term, term offset, term id and the position after them, or a code."""

    @abstractmethod
    def _tail_position(self) -> int:
        """The position after all claims."""

    def _refusal(self, position: int, length: int) -> int:
        """Why nothing can be appended at the limit."""
        if position + align(length + HEADER_LENGTH) >= self.max_possible_position:
            return MAX_POSITION_EXCEEDED
        return BACK_PRESSURED if self.is_connected else NOT_CONNECTED

    def _read_tail(self) -> tuple[int, int, int] | int:
        """The active term's index and id, and the bytes claimed in it; or a code while another publisher rotates the
        log."""
        count = self._metadata.get_i32_acquire(_ACTIVE_TERM_COUNT)
        if count < 0:
            raise bad_tail()
        tail = self._metadata.get_i64_acquire(_TAILS + 8 * (count % TERM_COUNT))
        if wrap_int32((tail >> 32) - self.initial_term_id) != count:
            return ADMIN_ACTION
        offset = min(tail & 0xFFFFFFFF, self.term_buffer_length)
        if offset % FRAME_ALIGNMENT:
            raise bad_tail()
        return count % TERM_COUNT, tail >> 32, offset

    def _position_of(self, term_id: int, offset: int) -> int:
        return wrap_int32(term_id - self.initial_term_id) * self.term_buffer_length + offset

    def _put_header(self, term: Memory, offset: int, length: int, term_id: int) -> None:
        """Write the header of an unfinished frame; its length is negative and is written before the rest."""
        header = self._shape.header
        first_word = (-length & 0xFFFFFFFF).to_bytes(4, "little") + header[4:_TERM_OFFSET]
        term.put_i64_release(offset, int.from_bytes(first_word, "little", signed=True))
        rest = bytearray(header[_TERM_OFFSET:_RESERVED_VALUE])
        rest[:4] = offset.to_bytes(4, "little")
        rest[_TERM_ID - _TERM_OFFSET :] = term_id.to_bytes(4, "little", signed=True)
        term.write(offset + _TERM_OFFSET, rest)

    def _put_padding(self, term: Memory, offset: int, length: int, term_id: int) -> None:
        self._put_header(term, offset, length, term_id)
        term.write(offset + _TYPE, TYPE_PADDING.to_bytes(2, "little"))
        term.put_i32_release(offset, length)


class ConcurrentAppender(Appender):
    """One of several publishers of a log, in this process or others."""

    def _claim(self, length: int, framed: int) -> tuple[Memory, int, int, int] | int:
        tail = self._read_tail()
        if isinstance(tail, int):
            return tail
        index, term_id, offset = tail
        if self._position_of(term_id, offset) >= self.position_limit:
            return self._refusal(self._position_of(term_id, offset), length)
        raw = self._metadata.get_and_add_i64(_TAILS + 8 * index, framed)
        term_id, offset = raw >> 32, raw & 0xFFFFFFFF
        term, rest = self._terms[index], self.term_buffer_length - offset
        count = wrap_int32(term_id - self.initial_term_id)
        if offset % FRAME_ALIGNMENT or count < 0:
            raise bad_tail()
        if framed <= rest:
            return term, offset, term_id, self._position_of(term_id, offset + framed)
        if rest > 0:
            self._put_padding(term, offset, rest, term_id)
        if (count + 1) * self.term_buffer_length >= self.max_possible_position:
            return MAX_POSITION_EXCEEDED
        rotate_log(self._metadata, count, term_id)
        return ADMIN_ACTION

    def _tail_position(self) -> int:
        count = self._metadata.get_i32_acquire(_ACTIVE_TERM_COUNT)
        tail = self._metadata.get_i64_acquire(_TAILS + 8 * (count % TERM_COUNT))
        return self._position_of(tail >> 32, min(tail & 0xFFFFFFFF, self.term_buffer_length))
