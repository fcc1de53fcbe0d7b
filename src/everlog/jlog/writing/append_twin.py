"""Appends to one segment under its lock: the work done for each message.

Any number of writers append to the same segment: threads, processes, and the C library. Each append

1. locks the segment file, reads its size, and checks in the metastore whether the journal has moved to another segment.
After the limit was lowered, others may move on without writing to this segment, and readers are past it; 2. if the file
has grown since this writer's last append, follows the new messages header by header; 3. writes header and payload at
the end in one call and releases the lock.

A write that fails is truncated before the lock is released. A crash during the write leaves a torn message. The next
append finds it in step 2, writes nothing and returns ``UNKNOWN``; :mod:`everlog.jlog.writing.tail` then repairs the
end.

This is the readable twin of ``_append.pyx``. It also runs on storages that are not local folders.
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
"""``DONE``: written. ``ENDED``: written, and the segment is now full. The others wrote nothing. ``FULL``: the segment
is full; ``UNKNOWN``: the bytes after the last known message are not a message; ``MOVED``: the journal has moved to
another segment."""
MAX_TIME_US = (1 << 32) * 1_000_000 - 1
"""A header stores seconds in 32 bits."""
NOW = -1
"""Timestamp argument: use the time of the append."""
AS_STORED = -1
"""Length argument: the payload is stored uncompressed."""
MAGIC_BYTES = 4


def frame(framing: Framing, payload: Any, timestamp_us: int, length: int) -> tuple[bytes, bytes]:
    """Header and stored payload of a message. Raises :class:`OverflowError` if the time or a length does not fit."""
    body = memoryview(payload).tobytes()
    if max(length, len(body)) > MAX_MESSAGE_BYTES:
        raise OverflowError(f"{max(length, len(body))} bytes")
    time_us = time.time_ns() // 1000 if timestamp_us < 0 else timestamp_us
    if time_us > MAX_TIME_US:
        raise OverflowError(f"{time_us} microseconds since 1970")
    return framing.pack(time_us, len(body) if length < 0 else length, len(body)), body


class Appender:
    """Appends to segment ``log``, whose first ``end`` bytes are known to be whole messages, the last one numbered
    ``marker - 1``. Thread-safe.

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
        self._mutex = threading.Lock()  # a file lock does not exclude threads that share the open file
        self._is_retired = False
        self._refresh()

    def retire(self) -> None:
        """Returns once no thread is in :meth:`append_inside`; later calls of :meth:`append_inside` return ``None``."""
        with self._mutex:
            self._is_retired = True

    def append_inside(self, payload: Any) -> Address | None:
        """Append one ``bytes`` message if it does not end the segment, and return its address. Returns ``None``, with
        nothing written, if :meth:`append` is needed."""
        if type(payload) is not bytes:
            return None
        message = b"".join(frame(self._framing, payload, NOW, AS_STORED))
        with self._mutex, locked(self._segment):
            if self._is_retired or self._prepare() != DONE or self.end + len(message) >= self.limit:
                return None
            self._write(message, 1)
            return Address(self.last)

    def append(self, payload: Any, timestamp_us: int = NOW, length: int = AS_STORED) -> tuple[int, int]:
        """Append one message. ``length`` is its payload's length before compression. Returns the status, and the
        address if it was written."""
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
        """Append as many of ``payloads[start:]`` as fit into this segment. Returns the status, their number, and the
        address of the last one. Raises as :meth:`append` does; the ``kept`` whole messages, which readers may already
        have, then stay."""
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
        """Append ``count`` whole messages that are framed already."""
        with self._mutex, locked(self._segment):
            status = self._prepare()
            return status if status != DONE else self._write(data, count)

    def _prepare(self) -> int:
        """Under the lock: check that this segment can be written."""
        size = self._segment.size()
        if self._refresh() != self.log or not self._segment.is_current():  # a deleted file has no readers
            return MOVED
        if size != self.end and not self._follow(size):
            return UNKNOWN
        return FULL if self.end >= self.limit else DONE

    def _refresh(self) -> int:
        """Reload the limit; returns the current segment."""
        head = self._metastore.read_at(0, JlogMetastore.size)
        if len(head) != JlogMetastore.size:
            raise WriteFailed(self._metastore.name, found=f"the file has only {len(head)} bytes", expected="16 bytes")
        values = JlogMetastore.unpack_from(head)
        self.limit = max(1, values.unit_limit)
        return values.storage_log

    def _follow(self, size: int) -> bool:
        """Advance over whole messages of other writers, up to ``size``. Returns False if they end before ``size``."""
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
        """After a failed write: keep its whole messages, which readers may have, and truncate the rest. Returns how
        many were kept."""
        marker = self.marker
        try:
            size = self._segment.size()
            if size > self.end:
                self._follow(size)
                self._segment.truncate(self.end)
        except (OSError, EverlogError):
            pass  # the next append finds the torn message
        return self.marker - marker


class BufferAppender:
    """Appends to the pre-commit file, whose first field is followed by ``used`` bytes of messages. Not thread-safe.
    ``count`` is the number of messages appended since the buffer was empty.

    A message is written after the used bytes, and then added to them by one write of 8 bytes: the used size and the
    first message's magic, which is absent until then. A crash in between leaves the buffer unchanged, and an empty
    buffer never starts with a message. The compiled version maps the file and stores there.
    """

    def __init__(self, file: WritableFile, magic: int, used: int, capacity: int) -> None:
        self.used = used
        self.capacity = capacity
        self.count = 0
        self._file = file
        self._framing = Framing(magic)

    def append(self, payload: Any, timestamp_us: int = NOW, length: int = AS_STORED) -> bool:
        """Append one message. Returns False if it does not fit. Raises :class:`OSError` or :class:`WriteFailed`; the
        buffer is then unchanged."""
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
        """Mark the buffer as empty."""
        self._file.write_at(0, bytes(min(JlogPreCommit.size + MAGIC_BYTES, self._file.size())))
        self.used = 0
        self.count = 0

    def close(self) -> None:
        """Release the file. Nothing fits afterwards."""
        self.capacity = 0
