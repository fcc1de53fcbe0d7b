"""Reads an image: the terms of a publication's log, from the subscriber's position on.

A frame is published once its length is positive; readers read the length first, with acquire order. The length after
the last frame is zero or negative. Readers skip padding. The subscriber's position is in a counter, written with
release order when a poll ends; the driver may reuse everything before it. The term at position ``p`` has index
``p / term length``, modulo 3.

The log is shared with other processes, so readers check every length against the rest of the term. A poll that begins
at an invalid frame length raises :class:`CorruptData`.

Source: Image, TermBlockScanner, FragmentAssembler. This is the readable twin of ``_image.pyx``; ordering between
processes needs that one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from everlog.aeron.frames.constants import (
    FLAG_BEGIN,
    FLAG_END,
    FRAME_ALIGNMENT,
    HEADER_LENGTH,
    MAX_MESSAGE_BYTES,
    TYPE_PADDING,
    UNFRAGMENTED,
    align,
)
from everlog.aeron.layouts import DataHeader
from everlog.aeron.transport.client.images.actions import (
    Action,
    bad_counter,
    bad_frame,
    bad_position,
    closed_image,
    release,
    too_long,
)
from everlog.aeron.transport.client.images.header_twin import Header
from everlog.aeron.transport.client.images.message_columns_twin import MessageColumns
from everlog.aeron.transport.client.log_shape import TERM_COUNT, Log, LogShape
from everlog.aeron.transport.format.layouts import LogMetaData
from everlog.aeron.transport.memory.terms_twin import scan_block
from everlog.kernel.memory import BlockSink, Memory

FOREVER: Final = 0x7FFFFFFFFFFFFFFF
MAX_BLOCK_LENGTH: Final = 1 << 30
_END_OF_STREAM: Final = LogMetaData.field("end_of_stream_position").offset
_TRANSPORTS: Final = LogMetaData.field("active_transport_count").offset
_REVOKED: Final = LogMetaData.field("is_publication_revoked").offset
_RESERVED_VALUE: Final = DataHeader.field("reserved_value").offset

Handler = Callable[[bytes, Header], object]
ControlledHandler = Callable[[bytes, Header], object]
BlockHandler = Callable[[memoryview, int, int], object]
RawBlockHandler = Callable[[int, memoryview, int, int], object]


class ImageReader:
    """Reads one publication of a subscription. ``position`` has its counter at ``position_offset``, int64. Raises
    :class:`CorruptData` for invalid log metadata or an invalid position.

    Handlers get ``handler(payload, header)`` and may keep both. A handler's error propagates; the position is then
    after the fragment that it got. After :meth:`close`, which drops all memory, polls return 0.
    """

    def __init__(self, log: Log, position: Memory, position_offset: int) -> None:
        shape = LogShape.of(log)
        self._log: Log | None = log
        if not position.writable:
            raise TypeError("this memory is read-only")
        self.join_position = position.get_i64_acquire(position_offset)
        self._counter, self._at = position, position_offset
        self.term_buffer_length = shape.term_length
        self.position_bits_to_shift = shape.position_bits_to_shift
        self.mtu_length, self.initial_term_id = shape.mtu_length, shape.initial_term_id
        self.session_id, self.stream_id = shape.session_id, shape.stream_id
        self._final = (0, 0, False)
        self._pending: list[bytes] = []
        self._pending_start = (0, 0)
        self._pending_next = -1

    def close(self) -> None:
        """Drop the log; keeps the last position and the state of the stream's end."""
        if self._log is not None:
            self._final = (self.position, self.end_of_stream_position, self.is_publication_revoked)
            self._log = None
        self._counter = Memory.allocate(0)
        self._pending_next = -1

    @property
    def is_closed(self) -> bool:
        """Whether :meth:`close` was called."""
        return self._log is None

    @property
    def position(self) -> int:
        """Position up to which it is read. Set it to skip ahead, at most to the end of the term; raises
        :class:`UsageError` beyond that."""
        return self._final[0] if self._log is None else self._counter.get_i64(self._at)

    @position.setter
    def position(self, value: int) -> None:
        if self._log is None:
            raise closed_image()
        self._check_position(value, self._read_position())
        self._move(value)

    @property
    def is_end_of_stream(self) -> bool:
        """Whether the publication has ended and everything was read."""
        return self.position >= self.end_of_stream_position

    @property
    def end_of_stream_position(self) -> int:
        """Position at which the stream ends; the largest number until it is known."""
        return self._final[1] if self._log is None else self._log.metadata.get_i64_acquire(_END_OF_STREAM)

    @property
    def active_transport_count(self) -> int:
        """Number of transports it is received through, if the subscription has several destinations."""
        return 0 if self._log is None else self._log.metadata.get_i32_acquire(_TRANSPORTS)

    @property
    def is_publication_revoked(self) -> bool:
        """Whether the publisher revoked the publication, without waiting for readers."""
        return self._final[2] if self._log is None else self._log.metadata.read(_REVOKED, 1) == b"\x01"

    def poll(self, handler: Handler, fragment_limit: int = 10) -> int:
        """Pass up to ``fragment_limit`` fragments of the current term to ``handler``; returns their number. Wrap the
        handler in a :class:`FragmentAssembler` to get whole messages."""
        return self._poll(handler, FOREVER, fragment_limit)

    def bounded_poll(self, handler: Handler, limit_position: int, fragment_limit: int = 10) -> int:
        """Like :meth:`poll`, only for fragments that begin below ``limit_position``."""
        return self._poll(handler, limit_position, fragment_limit)

    def controlled_poll(self, handler: ControlledHandler, fragment_limit: int = 10) -> int:
        """Like :meth:`poll`; the handler returns an :class:`Action` or ``None``, which controls the poll."""
        return self._poll(handler, FOREVER, fragment_limit, is_controlled=True)

    def bounded_controlled_poll(self, handler: ControlledHandler, limit_position: int, fragment_limit: int = 10) -> int:
        """Like :meth:`controlled_poll`, only for fragments that begin below ``limit_position``."""
        return self._poll(handler, limit_position, fragment_limit, is_controlled=True)

    def _poll(
        self, handler: ControlledHandler, limit_position: int, fragment_limit: int, *, is_controlled: bool = False
    ) -> int:
        if self._log is None:
            return 0
        first = position = self._read_position()
        limit = min(limit_position, self._term_end(position))
        read = 0
        try:
            while read < fragment_limit and position < limit and self._log is not None:
                frame = self._frame(self._log, position, first)
                if not frame:
                    break
                before, position = position, position + align(len(frame))
                if DataHeader.unpack_from(frame).type == TYPE_PADDING:
                    continue
                read += 1
                action = handler(frame[HEADER_LENGTH:], self._header(frame, position))
                if not is_controlled:
                    continue
                if action is Action.ABORT:
                    read, position = read - 1, before
                    break
                if action is Action.BREAK:
                    break
                if action is Action.COMMIT:
                    self._move(position)
        finally:
            if position > first:
                self._move(position)
        return read

    def controlled_peek(self, initial_position: int, handler: ControlledHandler, limit_position: int) -> int:
        """Pass fragments from ``initial_position`` on, below ``limit_position`` and within the term, to ``handler``
        without moving the position. Returns the position after the last whole message; ``ABORT`` stops before a
        fragment, ``BREAK`` after it. Raises :class:`UsageError` for a position before the image's own or beyond its
        term."""
        if self._log is None:
            return 0
        self._check_position(initial_position, self._read_position())
        position = result = initial_position
        limit = min(limit_position, self._term_end(position)) if position < limit_position else position
        while position < limit and self._log is not None:
            frame = self._frame(self._log, position, initial_position)
            if not frame:
                break
            position += align(len(frame))
            header = self._header(frame, position)
            if header.type == TYPE_PADDING:
                result = position
                continue
            action = handler(frame[HEADER_LENGTH:], header)
            if action is Action.ABORT:
                break
            if header.flags & FLAG_END:
                result = position
            if action is Action.BREAK:
                break
        return result

    def block_poll(self, handler: BlockHandler, block_length_limit: int) -> int:
        """Call ``handler(block, session_id, term_id)`` with at most ``block_length_limit`` bytes of raw frames; returns
        the number of bytes. Padding is a block of its own. The block is valid only while the handler runs."""
        return self._block_poll(lambda _, *found: handler(*found), block_length_limit)

    def raw_poll(self, handler: RawBlockHandler, block_length_limit: int) -> int:
        """Like :meth:`block_poll`: ``handler(file_offset, block, session_id, term_id)``, with the block's offset in the
        log buffer's file."""
        return self._block_poll(handler, block_length_limit)

    def _block_poll(self, handler: RawBlockHandler, block_length_limit: int) -> int:
        if self._log is None or block_length_limit < 0:
            return 0
        position = self._read_position()
        index, offset = divmod(position, self.term_buffer_length)
        term = self._log.terms[index % TERM_COUNT]
        length = scan_block(term, offset, offset + min(block_length_limit, MAX_BLOCK_LENGTH)) - offset
        if not length:
            self._frame(self._log, position, position)
            return 0
        term_id = DataHeader.unpack_from(term.read(offset, HEADER_LENGTH)).term_id
        block = term.slice(offset, length).view()
        try:
            handler(index % TERM_COUNT * self.term_buffer_length + offset, block, self.session_id, term_id)
        finally:
            release(block)
            self._move(position + length)
        return length

    def block_poll_into(self, sink: BlockSink, most: int) -> int:
        """Give a sink what is published, block by block, until it takes no more or ``most`` bytes are read; returns the
        number of bytes. The position moves after each block. A compiled sink runs without the GIL."""
        read = 0
        while read < most and self._log is not None:
            position = self._read_position()
            index, offset = divmod(position, self.term_buffer_length)
            block = self._log.terms[index % TERM_COUNT].slice(offset, self.term_buffer_length - offset).view()
            try:
                taken = sink.take(block, most - read)
            finally:
                release(block)
            if taken <= 0:
                break
            read += taken
            self._move(position + taken)
        return read

    def poll_columns(self, columns: MessageColumns) -> int:
        """Read whole messages into ``columns`` until none is left or it is full; returns their number. Fragments of an
        unfinished message are kept for the next call; any other kind of poll drops them. Raises :class:`CorruptData`
        for a message over 64 MiB."""
        columns._reset()
        columns.session_id = self.session_id
        if self._log is None:
            return 0
        position = first = self._read_position()
        try:
            while frame := self._frame(self._log, position, -1 if columns.row_count else position):
                if not self._take(columns, frame, position):
                    break
                position += align(len(frame))
        finally:
            if position > first:
                self._counter.put_i64_release(self._at, position)
        return columns.row_count

    def _take(self, columns: MessageColumns, frame: bytes, position: int) -> bool:
        """Read one more frame; returns false if the message that it ends does not fit."""
        header, payload = DataHeader.unpack_from(frame), frame[HEADER_LENGTH:]
        if header.type == TYPE_PADDING:
            return True
        if header.flags & UNFRAGMENTED == UNFRAGMENTED:
            if columns._has_room(len(payload)):
                columns._add(payload, position, header.reserved_value)
                return True
            return False
        if header.flags & FLAG_BEGIN:
            self._pending, self._pending_start = [], (position, header.reserved_value)
        elif position != self._pending_next:
            self._pending_next = -1
            return True
        length = sum(map(len, self._pending)) + len(payload)
        if length > MAX_MESSAGE_BYTES:
            self._pending_next = -1
            raise too_long(MAX_MESSAGE_BYTES)
        if header.flags & FLAG_END and not columns._has_room(length):
            return False
        self._pending.append(payload)
        self._pending_next = position + align(len(frame))
        if header.flags & FLAG_END:
            columns._add(b"".join(self._pending), *self._pending_start)
            self._pending_next = -1
        return True

    def _frame(self, log: Log, position: int, first: int) -> bytes:
        """The frame at a position, if any. A damaged one raises an error only at ``first``."""
        index, offset = divmod(position, self.term_buffer_length)
        term = log.terms[index % TERM_COUNT]
        length, rest = term.get_i32_acquire(offset), self.term_buffer_length - offset
        if length <= 0:
            return b""
        if length < HEADER_LENGTH or align(length) > rest:
            if position == first:
                raise bad_frame(offset, length, rest)
            return b""
        return term.read(offset, length)

    def _header(self, frame: bytes, position: int) -> Header:
        return Header(frame[:HEADER_LENGTH], position, self.initial_term_id, self.position_bits_to_shift)

    def _read_position(self) -> int:
        position = self._counter.get_i64(self._at)
        if position < 0 or position % FRAME_ALIGNMENT:
            raise bad_counter(position)
        return position

    def _term_end(self, position: int) -> int:
        return position // self.term_buffer_length * self.term_buffer_length + self.term_buffer_length

    def _check_position(self, value: int, current: int) -> None:
        if not current <= value <= self._term_end(current) or value % FRAME_ALIGNMENT:
            raise bad_position(value, current, self._term_end(current))

    def _move(self, position: int) -> None:
        if self._log is not None:
            self._counter.put_i64_release(self._at, position)
            self._pending_next = -1
