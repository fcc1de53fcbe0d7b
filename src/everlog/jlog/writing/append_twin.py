"""Appending to one segment, under its lock: what a writer does for each message.

Many writers, of this process and others, the C library's too, append to the same segment. Each append

1. locks the segment's file, asks for its size, and looks at the metastore whether the journal has gone on to another
   segment: after the limit was lowered others may have done so without writing to this one, and readers are past it;
2. where the file has grown since this writer last saw it, follows what others wrote, header by header;
3. writes header and payload at the end, in one call, and gives the lock back.

A write that fails is cut away before the lock is given back. A crash in the middle of it leaves a torn message, which
the next append finds in step 2 and does not write behind: it answers ``UNKNOWN``, and :mod:`everlog.jlog.writing.tail`
decides.

This is the readable twin of ``_append.pyx``; it also runs on storages that are no local folder.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any

from everlog.core.files.writable import WritableFile, locked
from everlog.errors import EverlogError, WriteFailed
from everlog.jlog.format.addresses import Address
from everlog.jlog.format.framing import MAX_MESSAGE_BYTES, Framing
from everlog.jlog.format.layouts import JlogMetastore, JlogPreCommit

DONE, ENDED, FULL, UNKNOWN, MOVED = range(5)
"""``DONE``: written. ``ENDED``: written, and the segment is finished now. Nothing was written: ``FULL``: the segment is
finished; ``UNKNOWN``: what is behind the last known message is no message; ``MOVED``: the journal has gone on to
another segment."""
MAX_TIME_US = (1 << 32) * 1_000_000 - 1
"""Seconds have 32 bits."""
NOW = -1
"""As a timestamp: the time of the append."""
AS_STORED = -1
"""As a length: the payload is stored as it is."""
MAGIC_BYTES = 4


def frame(framing: Framing, payload: Any, timestamp_us: int, length: int) -> tuple[bytes, bytes]:
    """Header and stored payload of a message. Raises :class:`OverflowError` for a time or a length that it can't
    hold."""
    body = memoryview(payload).tobytes()
    if max(length, len(body)) > MAX_MESSAGE_BYTES:
        raise OverflowError(f"{max(length, len(body))} bytes")
    time_us = time.time_ns() // 1000 if timestamp_us < 0 else timestamp_us
    if time_us > MAX_TIME_US:
        raise OverflowError(f"{time_us} microseconds since 1970")
    return framing.pack(time_us, len(body) if length < 0 else length, len(body)), body


class Appender:
    """Appends to the segment ``log`` of which ``end`` bytes are known to be whole messages, the last of them numbered
    ``marker - 1``. Several threads may append.

    ``last`` is the address of the last message written. Calls raise :class:`OSError` or :class:`WriteFailed`, and
    :class:`OverflowError` for a payload or a time that is too large; then nothing was written.
    """

    def __init__(
        self, segment: WritableFile, metastore: WritableFile, log: int, magic: int, end: int, marker: int
    ) -> None:
        self.log = log
        self.end = end
        self.marker = marker
        self.last = 0
        self.limit = 0
        self.kept = 0
        self._segment = segment
        self._metastore = metastore
        self._framing = Framing(magic)
        self._mutex = threading.Lock()  # two threads that use one open file do not exclude each other by its lock
        self._is_retired = False
        self._refresh()

    def retire(self) -> None:
        """When it returns, no thread is in :meth:`append_inside`, and none gets anywhere there any more."""
        with self._mutex:
            self._is_retired = True

    def append_inside(self, payload: Any) -> Address | None:
        """One message, now, if it is ``bytes`` and nothing is to be done but to write it: its address. ``None`` where
        nothing was written: it would end the segment, or what :meth:`append` answers is needed."""
        if type(payload) is not bytes:
            return None
        message = b"".join(frame(self._framing, payload, NOW, AS_STORED))
        with self._mutex, locked(self._segment):
            if self._is_retired or self._prepare() != DONE or self.end + len(message) >= self.limit:
                return None
            self._write(message, 1)
            return Address(self.last)

    def append(self, payload: Any, timestamp_us: int = NOW, length: int = AS_STORED) -> tuple[int, int]:
        """One message; ``length`` is that of the payload before it was compressed. The status, and its address, if it
        was written."""
        message = b"".join(frame(self._framing, payload, timestamp_us, length))
        with self._mutex, locked(self._segment):
            status = self._prepare()
            if status == DONE:
                status = self._write(message, 1)
            return status, self.last

    def append_many(
        self,
        payloads: Sequence[Any],
        start: int,
        timestamps_us: Sequence[int] | None = None,
        lengths: Sequence[int] | None = None,
    ) -> tuple[int, int, int]:
        """``payloads[start:]``, as many as go into this segment; the status, how many were written, and the address of
        the last. Raises as :meth:`append`; but readers may have some of them already: those stay, ``kept`` of them."""
        self.kept = 0
        framed = []
        for at in range(start, len(payloads)):
            timestamp = NOW if timestamps_us is None else timestamps_us[at]
            length = AS_STORED if lengths is None else lengths[at]
            framed.append(b"".join(frame(self._framing, payloads[at], timestamp, length)))
        with self._mutex, locked(self._segment):
            status = self._prepare()
            if status != DONE:
                return status, 0, 0
            size, count = self.end, 0
            while count < len(framed) and size < self.limit:
                size += len(framed[count])
                count += 1
            status = self._write(b"".join(framed[:count]), count)
            return status, count, self.last

    def append_framed(self, data: Any, count: int) -> int:
        """``count`` whole messages, as they are to be on disk."""
        with self._mutex, locked(self._segment):
            status = self._prepare()
            return status if status != DONE else self._write(data, count)

    def _prepare(self) -> int:
        """Under the lock: whether this is the place to write to."""
        size = self._segment.size()
        if self._refresh() != self.log or not self._segment.is_current():  # of a deleted one nobody reads
            return MOVED
        if size != self.end and not self._follow(size):
            return UNKNOWN
        return FULL if self.end >= self.limit else DONE

    def _refresh(self) -> int:
        """The segment that is written now, and the limit."""
        head = self._metastore.read_at(0, JlogMetastore.size)
        if len(head) != JlogMetastore.size:
            raise WriteFailed(self._metastore.name, found=f"{len(head)} bytes", expected="16 bytes")
        values = JlogMetastore.unpack_from(head)
        self.limit = max(1, values.unit_limit)
        return values.storage_log

    def _follow(self, size: int) -> bool:
        """Go on over what others wrote, up to ``size``, as far as it is whole; False when that is not all."""
        while self.end < size:
            header = self._framing.parse(self._segment.read_at(self.end, self._framing.header_bytes), 0, self.end)
            if header is None or header.end > size:
                return False
            self.end, self.marker = header.end, self.marker + 1
        return self.end == size

    def _write(self, data: Any, count: int) -> int:
        try:
            self._segment.write_at(self.end, data)
        except (OSError, EverlogError):
            self.kept = self._keep_whole()
            raise
        self.end += memoryview(data).nbytes
        self.marker += count
        self.last = self.log << 32 | (self.marker - 1)
        return ENDED if self.end >= self.limit else DONE

    def _keep_whole(self) -> int:
        """After a write that failed: readers may have the messages that are whole. Cut what is behind them; how many
        there are."""
        marker = self.marker
        try:
            size = self._segment.size()
            if size > self.end:
                self._follow(size)
                self._segment.truncate(self.end)
        except (OSError, EverlogError):
            pass  # the next append finds what is torn
        return self.marker - marker


class BufferAppender:
    """Appends to the pre-commit file of which ``used`` bytes behind its first field are in use. Not for several threads
    at once. ``count`` are the messages that were appended since it was empty.

    The message is written behind what is in use, then it is made part of it, by one write of 8 bytes: those in use, and
    the first message's magic, which is not there before. A crash between leaves the buffer as it was; an empty one does
    not begin with a message. The compiled one maps the file and stores there.
    """

    def __init__(self, file: WritableFile, magic: int, used: int, capacity: int) -> None:
        self.used = used
        self.capacity = capacity
        self.count = 0
        self._file = file
        self._framing = Framing(magic)

    def append(self, payload: Any, timestamp_us: int = NOW, length: int = AS_STORED) -> bool:
        """One message; False when it does not fit behind what is in use. Raises :class:`OSError` or
        :class:`WriteFailed`; then the buffer is as it was."""
        head, body = frame(self._framing, payload, timestamp_us, length)
        if self.used + len(head) + len(body) > self.capacity:
            return False
        message = head + body
        hidden = 0 if self.used else MAGIC_BYTES
        self._file.write_at(JlogPreCommit.size + self.used + hidden, message[hidden:])
        used = self.used + len(message)
        self._file.write_at(0, JlogPreCommit.struct.pack(used) + self._framing.magic_bytes)
        self.used = used
        self.count += 1
        return True

    def clear(self) -> None:
        """Say that nothing is in use."""
        self._file.write_at(0, bytes(min(JlogPreCommit.size + MAGIC_BYTES, self._file.size())))
        self.used = 0
        self.count = 0

    def close(self) -> None:
        """Let go of the file; nothing fits any more."""
        self.capacity = 0
