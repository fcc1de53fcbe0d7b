"""Messages into frames: the bytes that a recording holds from a position on.

A message up to ``mtu_length - 32`` bytes is one frame with both flags; a longer one is cut into frames of the MTU's
length, the last one shorter: the first has the begin flag, the last the end flag, and each has the message's reserved
value. A message lies within one term: where its frames do not fit in the rest of it, a padding frame takes the rest,
and the message begins the next term. Of a padding frame only the header is recorded: type 0, both flags, reserved value
0, the rest's length. A term that is filled exactly has none. Between a payload's end and the next multiple of 32 are
zeros. With a checksum, each data frame's session id gives way to the checksum of what is behind its header, up to the
aligned length; padding keeps its own.

Source: ExclusivePublication (appendUnfragmentedMessage, appendFragmentedMessage, handleEndOfLog), HeaderWriter,
RecordingWriter (onBlock, computeChecksum), TermBlockScanner. What is given is checked in
:mod:`everlog.aeron.frames.framing_inputs`.

This is the readable twin of ``_framer.pyx``.
"""

from __future__ import annotations

import os
import struct
import threading
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Final, Self

from everlog.aeron.frames.constants import (
    FLAG_BEGIN,
    FLAG_END,
    HEADER_LENGTH,
    PAGE_SIZE,
    TYPE_DATA,
    TYPE_PADDING,
    UNFRAGMENTED,
    align,
)
from everlog.aeron.frames.framing_inputs import (
    CHECKSUMS,
    FRAMED,
    SLOW_PATH,
    Framing,
    Integers,
    check_payloads,
    checked_reserved,
    column_range,
    contiguous,
    framed_length,
    payload_bytes,
)
from everlog.aeron.frames.position import term_id_of, term_offset_of
from everlog.aeron.layouts import DataHeader
from everlog.errors import UsageError
from everlog.kernel.crc32 import Crc32

_HEADER: Final = DataHeader.struct
_LENGTH: Final = struct.Struct("<i")
_SESSION_ID_AT: Final = DataHeader.field("session_id").offset


def longest_of(payloads: Sequence[Any]) -> int:
    """The length of the longest of them; 0 of none."""
    return max(map(len, payloads), default=0)


class Framer:
    """Frames messages into a buffer of ``capacity`` bytes, more where a message could be longer. Not for several
    threads at once.

    ``start_position`` is where the buffer's first byte goes, ``length`` how many bytes are framed; ``position`` is
    behind the last frame, of padding too, of which only the header is in the buffer. Raises :class:`UsageError` as
    :class:`Framing`, and for a payload that is longer than ``max_message_length`` or no contiguous buffer, and a
    reserved value that is no int64.
    """

    def __init__(
        self,
        *,
        initial_term_id: int,
        term_length: int,
        mtu_length: int,
        session_id: int,
        stream_id: int,
        checksum: str = "none",
        capacity: int = 1 << 20,
    ) -> None:
        framing = Framing(
            initial_term_id=initial_term_id,
            term_length=term_length,
            mtu_length=mtu_length,
            session_id=session_id,
            stream_id=stream_id,
            checksum=checksum,
        )
        polynomial = CHECKSUMS[checksum]
        self.framing = framing
        self.capacity = framing.capacity(capacity)
        self.max_message_length = framing.max_message_length
        self.max_payload_length = framing.max_payload_length
        self.start_position = self.position = self.length = 0
        self._end = 0
        self._is_padded = False
        self._crc = None if polynomial is None else Crc32(polynomial)
        self._buffer = memoryview(bytearray(self.capacity))

    @property
    def is_full(self) -> bool:
        """Whether nothing more can be framed before :meth:`begin`: padding is the last frame, or the end is reached."""
        return self._is_padded or self.position == self._end

    def begin(self, position: int, end: int) -> None:
        """Empty the buffer: the next frame goes to ``position``, and none reaches past ``end``, a term's end. Raises
        :class:`UsageError`."""
        self.framing.check_range(position, end)
        self.start_position = self.position = position
        self.length = 0
        self._end = end
        self._is_padded = False

    def view(self) -> memoryview:
        """The bytes framed so far, read-only; valid until the next call of :meth:`begin`."""
        return self._buffer[: self.length].toreadonly()

    def frame(self, payload: Any, reserved_value: int = 0) -> bool:
        """One message. False when the buffer is to be emptied first: then nothing was done, but that padding was
        written if the message does not fit in the rest of the term."""
        return self._put(payload_bytes(payload, self.max_message_length), checked_reserved(reserved_value))

    def ends_in_doubt(self) -> bool:
        """Whether a reader could take the last frame for one that a crash tore, were nothing behind it: without a
        checksum, it reaches over the end of a page of its file, and a later page of it has nothing but zeros. The real
        archive refuses to start on such an end."""
        if self._crc is not None or self._is_padded:
            return False
        longest = align(self.framing.mtu_length)
        page = (self.position - min(longest, self.length)) // PAGE_SIZE * PAGE_SIZE + PAGE_SIZE
        while page < self.position:
            at = self.length - (self.position - page)
            if not any(self._buffer[at : min(at + PAGE_SIZE, self.length)]):
                return True
            page += PAGE_SIZE
        return False

    def pad(self) -> bool:
        """A padding frame that is only a header, which ends the doubt about the frame before it; false where there is
        no room for it, or the end is reached. Publishers leave such frames where they abort a claim."""
        if self.is_full or self.capacity - self.length < HEADER_LENGTH:
            return False
        self._put_frame(TYPE_PADDING, UNFRAGMENTED, HEADER_LENGTH, b"", 0)
        return True

    def frame_many(self, payloads: Sequence[Any], start: int, reserved_values: Any = None) -> int:
        """``payloads[start:]``, of a list or tuple, until the buffer is to be emptied: how many messages it took. Their
        reserved values are at the same places of ``reserved_values``, a list, a tuple or an int64 buffer.

        A message that can't be framed raises where it is the first; behind others it only ends the call.
        """
        check_payloads(payloads, start)
        reserved = Integers.of_reserved(reserved_values, len(payloads))
        at = start
        while at < len(payloads) and not self.is_full:
            try:
                payload = payload_bytes(payloads[at], self.max_message_length)
                value = checked_reserved(reserved[at])
            except UsageError:
                if at == start:
                    raise
                break
            if not self._put(payload, value):
                break
            at += 1
        return at - start

    def frame_column(self, data: Any, offsets: Any, start: int, stop: int, reserved_values: Any = None) -> int:
        """Messages ``start`` to ``stop`` of a column as Arrow lays out binary values, until the buffer is to be
        emptied: how many it took. Message ``i`` is ``data[offsets[i]:offsets[i + 1]]``; ``offsets`` is a buffer of
        int32 or int64. Else as :meth:`frame_many`; raises :class:`UsageError` for offsets that are outside of ``data``
        or go back, too."""
        column = contiguous(data, "data")
        places = Integers.of_offsets(offsets, start, stop)
        reserved = Integers.of_reserved(reserved_values, stop)
        at = start
        while at < stop and not self.is_full:
            try:
                first, last = column_range(places[at], places[at + 1], column.nbytes, at)
                payload = payload_bytes(column[first:last], self.max_message_length)
                value = checked_reserved(reserved[at])
            except UsageError:
                if at == start:
                    raise
                break
            if not self._put(payload, value):
                break
            at += 1
        return at - start

    def frame_block(self, block: Any) -> int:
        """Frames as they lie in a log buffer from ``position`` on, as many as there is room for: how many bytes of
        ``block`` it took. They are copied as they are, but for the checksum. A padding frame is there with all its
        bytes, or, as the last of the block, with only its header; it is the last that is taken.

        Raises :class:`CorruptData` with the offset of the first frame that does not belong at its position; then
        nothing was taken.
        """
        source = contiguous(block, "block")
        length, position, at = self.length, self.position, 0
        is_padded = self._is_padded
        while at < source.nbytes and not is_padded and position != self._end:
            if self.capacity - length < HEADER_LENGTH:
                break
            header = bytes(source[at : at + HEADER_LENGTH])
            if fault := self.framing.fault(header, position, at, source.nbytes - at):
                raise fault
            frame_length, _, _, kind, *_ = _HEADER.unpack_from(header)
            behind = align(frame_length)
            is_padded = kind == TYPE_PADDING
            kept = HEADER_LENGTH if is_padded else behind
            if self.capacity - length < kept:
                break
            self._buffer[length : length + kept] = header + source[at + HEADER_LENGTH : at + kept]
            if not is_padded:
                self._sign(length, behind)
            length += kept
            position += behind
            at = min(at + behind, source.nbytes)
        self.length, self.position, self._is_padded = length, position, is_padded
        return at

    def _put(self, payload: bytes, reserved_value: int) -> bool:
        if self.is_full:
            return False
        framed = framed_length(len(payload), self.max_payload_length)
        rest = self.framing.term_length - term_offset_of(self.position, self.framing.term_length)
        room = self.capacity - self.length
        if framed > rest:
            if room >= HEADER_LENGTH:
                self._put_frame(TYPE_PADDING, UNFRAGMENTED, rest, b"", 0)
                self.position += rest - HEADER_LENGTH
                self._is_padded = True
            return False
        if framed > room:
            return False
        flags = FLAG_BEGIN
        for begin in range(0, max(1, len(payload)), self.max_payload_length):
            part = payload[begin : begin + self.max_payload_length]
            if begin + len(part) == len(payload):
                flags |= FLAG_END
            self._put_frame(TYPE_DATA, flags, HEADER_LENGTH + len(part), part, reserved_value)
            flags = 0
        return True

    def _put_frame(self, kind: int, flags: int, length: int, payload: bytes, reserved_value: int) -> None:
        framing, at = self.framing, self.length
        term_offset = term_offset_of(self.position, framing.term_length)
        term_id = term_id_of(self.position, framing.initial_term_id, framing.term_length)
        header = _HEADER.pack(
            length, 0, flags, kind, term_offset, framing.session_id, framing.stream_id, term_id, reserved_value
        )
        behind = align(HEADER_LENGTH + len(payload))
        self._buffer[at : at + behind] = (header + payload).ljust(behind, b"\0")
        if kind == TYPE_DATA:
            self._sign(at, behind)
        self.length += behind
        self.position += behind

    def _sign(self, at: int, length: int) -> None:
        if self._crc is not None:
            checksum = self._crc.checksum(self._buffer, at + HEADER_LENGTH, at + length)
            struct.pack_into("<I", self._buffer, at + _SESSION_ID_AT, checksum)


class Tail:
    """A recording's end, which threads share: the lock under which its framer is used (a context manager), and a short
    way for single messages.

    ``fd`` is the open segment file, -1 where the short way is closed, as it also is when :meth:`renew` was not called
    for long; ``base`` and ``end`` are the positions of its first byte and behind its last one. All before ``written``
    is in the file, all before ``acknowledged`` is as safe as was asked for.

    Frames that lie in the window (:meth:`set_window`) are stored there, without a call of the system. Of others
    ``writes_left`` are written to the file; then the next one is left to the caller, who may move the window.
    """

    def __init__(self, framer: Framer) -> None:
        self._framer = framer
        self._lock = threading.Lock()
        self.fd = -1
        self._until = 0.0
        self.base = self.end = 0
        self.written = self.acknowledged = framer.position
        self.writes_left = 0
        self._window = memoryview(b"")
        self._window_base = 0

    def set_window(self, window: Any, base: int) -> None:
        """Store frames in memory that is the file from position ``base`` on, until another window takes its place;
        ``None``: in none. Raises :class:`BufferError` for memory that can't be written."""
        self._window, self._window_base = memoryview(b"" if window is None else window).cast("B"), base

    def acquire(self) -> None:
        """Take the lock."""
        self._lock.acquire()

    def release(self) -> None:
        """Give it back."""
        self._lock.release()

    def renew(self, seconds: float) -> None:
        """The short way is open for so long: who was stopped for longer is to ask whether it still may write."""
        self._until = time.monotonic() + seconds

    def __enter__(self) -> Self:
        self._lock.acquire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()

    def append(self, payload: Any, reserved_value: int = 0) -> int:
        """Frame one message and write it to the file: the position behind it, to which ``written`` and
        ``acknowledged`` have moved. Takes the lock for that, unless somebody else has it.

        ``SLOW_PATH`` where nothing was done with the message: the way is closed, the lock is taken, the buffer is not
        empty, or the message does not fit in the term (then padding may be in the buffer). ``FRAMED``: it is in the
        buffer, alone, and is to be written from there, for the write failed, it fills the segment, it ends in doubt, or
        no write is left; the lock is held then. Raises as :meth:`Framer.frame`.
        """
        if self.fd < 0 or time.monotonic() > self._until or not self._lock.acquire(blocking=False):
            return SLOW_PATH
        position = SLOW_PATH
        try:
            position = self._put(payload, reserved_value)
        finally:
            if position != FRAMED:
                self._lock.release()
        return position

    def _put(self, payload: Any, reserved_value: int) -> int:
        framer = self._framer
        at = framer.position - self.base
        if self.fd < 0 or framer.length or framer.is_full or not framer.frame(payload, reserved_value):
            return SLOW_PATH
        if framer.position == self.end or framer.ends_in_doubt():
            return FRAMED
        if not self._store(at + self.base - self._window_base):
            if self.writes_left <= 0:
                return FRAMED
            self.writes_left -= 1
            try:
                done = os.pwrite(self.fd, framer.view(), at)
            except OSError:
                return FRAMED
            if done != framer.length:
                return FRAMED
        framer.start_position = self.written = self.acknowledged = framer.position
        framer.length = 0
        return self.written

    def _store(self, at: int) -> bool:
        """Put what is framed into the window, if it is one frame and lies there. Its length comes last: a process that
        dies before leaves no frame."""
        data = self._framer.view()
        if not 0 <= at <= len(self._window) - len(data) or align(_LENGTH.unpack_from(data)[0]) != len(data):
            return False
        self._window[at + _LENGTH.size : at + len(data)] = data[_LENGTH.size :]
        self._window[at : at + _LENGTH.size] = data[: _LENGTH.size]
        return True
