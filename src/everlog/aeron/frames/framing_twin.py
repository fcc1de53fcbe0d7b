"""Turns messages into frames: the bytes that a recording holds from a position on.

A message of up to ``mtu_length - 32`` bytes is one frame with both flags. A longer one is cut into frames of the MTU's
length, except the last: the first has the begin flag, the last the end flag, and each has the message's reserved value.
A message lies within one term: if its frames do not fit into the rest of the term, a padding frame fills the rest and
the message begins the next term. Only the header of a padding frame is recorded: type 0, both flags, reserved value 0,
and the rest's length. A term that is filled exactly has no padding. The bytes from a payload's end to the next multiple
of 32 are zeros. With a checksum, each data frame's session id is replaced by the checksum of the bytes after its
header, up to the aligned length; padding frames keep their session id.

Source: ExclusivePublication (appendUnfragmentedMessage, appendFragmentedMessage, handleEndOfLog), HeaderWriter,
RecordingWriter (onBlock, computeChecksum), TermBlockScanner. :mod:`everlog.aeron.frames.framing_inputs` checks the
arguments.

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

from everlog.aeron.family_options import Checksum
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
from everlog.kernel.memory import BlockSink

BLOCK_BYTES: Final = 256 << 10
"""Most bytes of a log that are read before they are written: they are still in the processor's cache then."""
_HEADER: Final = DataHeader.struct
_LENGTH: Final = struct.Struct("<i")
_SESSION_ID_AT: Final = DataHeader.field("session_id").offset


def longest_of(payloads: Sequence[Any]) -> int:
    """The length of the longest payload, 0 if the sequence is empty."""
    return max(map(len, payloads), default=0)


class Framer:
    """Frames messages into a buffer of ``capacity`` bytes, or more if a message could be longer. Not thread-safe.

    ``start_position`` is the position of the buffer's first byte, ``length`` the number of bytes framed, ``position``
    the position after the last frame; only the header of a padding frame is in the buffer. Raises :class:`UsageError`
    as :class:`Framing` does, and if a payload is longer than ``max_message_length`` or no contiguous buffer, or a
    reserved value is no int64.
    """

    def __init__(
        self,
        *,
        initial_term_id: int,
        term_length: int,
        mtu_length: int,
        session_id: int,
        stream_id: int,
        checksum: Checksum = "none",
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
        """Whether :meth:`begin` must be called before the next message: the last frame is padding, or the end is
        reached."""
        return self._is_padded or self.position == self._end

    def begin(self, position: int, end: int) -> None:
        """Empty the buffer. The next frame goes to ``position``, and no frame passes ``end``, a term's end. Raises
        :class:`UsageError`."""
        self.framing.check_range(position, end)
        self.start_position = self.position = position
        self.length = 0
        self._end = end
        self._is_padded = False

    def view(self) -> memoryview:
        """A read-only view of the bytes framed so far, valid until the next :meth:`begin`."""
        return self._buffer[: self.length].toreadonly()

    def frame(self, payload: Any, reserved_value: int = 0) -> bool:
        """Frame one message. Returns false if the buffer must be emptied first; the message is then not framed, but a
        padding frame is if the message does not fit into the rest of the term."""
        return self._put(payload_bytes(payload, self.max_message_length), checked_reserved(reserved_value))

    def ends_in_doubt(self) -> bool:
        """Return true if a reader could mistake the last frame for one torn by a crash.

        That is a frame without a checksum that spans several pages of its file, of which one after the first has only
        zeros. Aeron's archive refuses to start on a recording that ends with such a frame.
        """
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
        """Append a padding frame that is only a header, which removes the doubt about the frame before it. Returns
        false if it has no room or the end is reached. Publishers leave the same frames when they abort a claim."""
        if self.is_full or self.capacity - self.length < HEADER_LENGTH:
            return False
        self._put_frame(TYPE_PADDING, UNFRAGMENTED, HEADER_LENGTH, b"", 0)
        return True

    def frame_many(self, payloads: Sequence[Any], start: int, reserved_values: Any = None) -> int:
        """Frame ``payloads[start:]`` of a list or tuple until the buffer must be emptied. Returns how many were framed.
        Their reserved values have the same indices in ``reserved_values``, a list, a tuple or an int64 buffer.

        A message that can't be framed raises :class:`UsageError` if it is the first; after others it ends the call.
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
        """Frame the messages ``start`` to ``stop`` of a column in Arrow's binary layout until the buffer must be
        emptied. Returns how many were framed. Message ``i`` is ``data[offsets[i]:offsets[i + 1]]``; ``offsets`` is a
        buffer of int32 or int64. Otherwise like :meth:`frame_many`; also raises :class:`UsageError` if offsets lie
        outside ``data`` or decrease."""
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
        """Append the frames of a log buffer's block from ``position`` on, as many as fit. Returns how many bytes of
        ``block`` were used. Frames are copied unchanged, except for the checksum. A padding frame may have all its
        bytes, or only its header if it is the block's last; nothing after it is used.

        Raises :class:`CorruptData` with the offset of the first frame that does not match its position; then nothing
        is appended.
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
            after = align(frame_length)
            is_padded = kind == TYPE_PADDING
            kept = HEADER_LENGTH if is_padded else after
            if self.capacity - length < kept:
                break
            self._buffer[length : length + kept] = header + source[at + HEADER_LENGTH : at + kept]
            if not is_padded:
                self._sign(length, after)
            length += kept
            position += after
            at = min(at + after, source.nbytes)
        self.length, self.position, self._is_padded = length, position, is_padded
        return at

    def frames_at(self, block: memoryview, most: int) -> tuple[int, int]:
        """Find the published frames at the beginning of a log's block that continue this recording, up to ``most``
        bytes but at least one. Returns how many bytes are to be recorded, and how many are read of the log: of padding,
        which comes alone, only the header is recorded."""
        at, position = 0, self.position
        rest = self.framing.term_length - term_offset_of(position, self.framing.term_length)
        room = min(len(block), rest)
        while at < min(room, most):
            header = bytes(block[at : at + HEADER_LENGTH])
            frame_length, _, _, kind, *_ = _HEADER.unpack_from(header)
            after = align(frame_length)
            if frame_length < HEADER_LENGTH or after > room - at:
                break
            if self.framing.fault(header, position + at, at, room - at):
                break
            if kind == TYPE_PADDING:
                return (at, at) if at else (HEADER_LENGTH, after)
            if at and at + after > most:
                break
            at += after
        return at, at

    def signed(self, block: memoryview) -> memoryview:
        """Return whole frames with their checksums, if there are any: a copy in the empty buffer."""
        if self._crc is None:
            return block
        self._buffer[: len(block)] = block
        at = 0
        while at < len(block):
            after = align(_LENGTH.unpack_from(self._buffer, at)[0])
            self._sign(at, after)
            at += after
        return memoryview(self._buffer)[: len(block)]

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
        after = align(HEADER_LENGTH + len(payload))
        self._buffer[at : at + after] = (header + payload).ljust(after, b"\0")
        if kind == TYPE_DATA:
            self._sign(at, after)
        self.length += after
        self.position += after

    def _sign(self, at: int, length: int) -> None:
        if self._crc is not None:
            checksum = self._crc.checksum(self._buffer, at + HEADER_LENGTH, at + length)
            struct.pack_into("<I", self._buffer, at + _SESSION_ID_AT, checksum)


class Tail(BlockSink):
    """The end of a recording that threads share: the lock for its framer (a context manager), and fast paths for
    single messages and for the blocks of a log.

    ``fd`` is the open segment file, or -1 while the fast path is closed; the fast path also closes when :meth:`renew`
    has not been called in time. ``base`` and ``end`` are the positions of the segment's first byte and after its last.
    Everything before ``written`` is in the file, everything before ``acknowledged`` is as durable as configured.

    Frames within the window (:meth:`set_window`) are stored there, without a system call. Of other frames,
    ``writes_left`` are written to the file; the next one is left to the caller, which may move the window.
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
        self._block_times = 0, 0, 0

    def set_window(self, window: Any, base: int) -> None:
        """Store frames in ``window``, memory that maps the file from position ``base`` on, until another window
        replaces it; ``None`` removes it. Raises :class:`BufferError` if the memory can't be written."""
        self._window, self._window_base = memoryview(b"" if window is None else window).cast("B"), base

    def acquire(self) -> None:
        """Acquire the lock."""
        self._lock.acquire()

    def release(self) -> None:
        """Release the lock."""
        self._lock.release()

    def renew(self, seconds: float) -> None:
        """Keep the fast path open for ``seconds``. A process that was suspended for longer must check that it still may
        write."""
        self._until = time.monotonic() + seconds

    def __enter__(self) -> Self:
        self._lock.acquire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()

    def append(self, payload: Any, reserved_value: int = 0) -> int:
        """Frame one message and write it to the file. Returns the position after it, to which ``written`` and
        ``acknowledged`` have advanced. Acquires the lock if nobody holds it.

        Returns ``SLOW_PATH`` if nothing was done with the message: the fast path is closed, the lock is held, the
        buffer is not empty, or the message does not fit into the term (the buffer may then have padding). Returns
        ``FRAMED`` if the message is in the buffer, alone, and must be written from there: the write failed, the message
        fills the segment, it ends in doubt, or no write is left. The lock is then held. Raises as
        :meth:`Framer.frame`.
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
        """Copy the framed bytes into the window if they are one frame and lie in it. The length is written last: a
        process that dies before leaves no frame."""
        data = self._framer.view()
        if not 0 <= at <= len(self._window) - len(data) or align(_LENGTH.unpack_from(data)[0]) != len(data):
            return False
        self._window[at + _LENGTH.size : at + len(data)] = data[_LENGTH.size :]
        self._window[at : at + _LENGTH.size] = data[: _LENGTH.size]
        return True

    # Blocks of a log

    def take(self, block: memoryview, most: int) -> int:
        """Write the published frames at the beginning of ``block``, which is a part of a log's term, if they continue
        the recording; ``written`` and ``acknowledged`` advance. Returns how many bytes of the log are recorded: of
        padding, only the header is written. Returns 0 without a frame, and while the fast path is closed; and for what
        :meth:`Framer.frame_block` is needed: a frame that does not belong here, a write that failed, a full segment.

        The frames are written from where they are. A publisher that changes one after it published it damages the
        recording there. Callers hold the lock."""
        framer = self._framer
        if self.fd < 0 or framer.length or framer.is_full or time.monotonic() > self._until:
            return 0
        room = min(len(block), self.end - framer.position)
        length, taken = framer.frames_at(block[:room], min(most, framer.capacity, BLOCK_BYTES))
        if not length:
            return 0
        data = framer.signed(block[:length]) if taken == length else block[:length]
        begun_ns = time.monotonic_ns()
        try:
            if os.pwrite(self.fd, data, framer.position - self.base) != length:
                return 0
        except OSError:
            return 0
        duration_ns = time.monotonic_ns() - begun_ns
        total, total_ns, longest_ns = self._block_times
        self._block_times = total + length, total_ns + duration_ns, max(longest_ns, duration_ns)
        framer.position += taken
        framer.start_position = self.written = self.acknowledged = framer.position
        return taken

    def block_times(self) -> tuple[int, int, int]:
        """Return what :meth:`take` has written since the last call: bytes, nanoseconds, those of the longest write."""
        found, self._block_times = self._block_times, (0, 0, 0)
        return found
