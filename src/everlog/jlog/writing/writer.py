"""Appends to a journal. Any number of writers, in any number of processes, may do so, including the C library's."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Any, Self, get_args

from everlog.core.files.durability import Durability
from everlog.core.forking import OpenObjects
from everlog.core.options import check_type
from everlog.errors import Closed, EverlogError, UnsupportedVersion, UsageError, WriteFailed
from everlog.jlog.format.addresses import Address
from everlog.jlog.format.compression import lz4_encoder
from everlog.jlog.format.framing import Framing, Provider
from everlog.jlog.options import DurabilityName
from everlog.jlog.writing.append import (
    AS_STORED,
    ENDED,
    NOW,
    check_length,
    microseconds_of,
)
from everlog.jlog.writing.append_errors import check_messages, raise_append_error
from everlog.jlog.writing.buffer import (
    DEFAULT_BUFFER_BYTES,
    LOCK_TIMEOUT_S,
    MAX_BUFFER_BYTES,
    PreCommitBuffer,
    open_abandoned_buffer,
)
from everlog.jlog.writing.buffer_recovery import write_out
from everlog.jlog.writing.current_segment import CurrentSegment
from everlog.jlog.writing.metastore_file import SAFE, MetastoreFile
from everlog.jlog.writing.opening import JournalPath, storage_of

_log = logging.getLogger("everlog.jlog")


class Writer:
    """Appends messages to a journal. Thread-safe, but not for use in signal handlers.

    ``durability`` is a value of :class:`Durability`. ``None`` means ``synced`` if the journal's safety is ``safe``,
    else ``written``. ``buffer_bytes`` is the buffer size for ``buffered``; ``None`` keeps the journal's buffer size, or
    1 MiB if it has none.

    Opening writes nothing, except messages that a dead writer left in the buffer: they go to the journal. Raises
    :class:`NotAStore`, :class:`CorruptData`, :class:`StoreUnavailable`, :class:`UnsupportedVersion` and
    :class:`UsageError`. Every use after :meth:`close` raises :class:`Closed`.
    """

    def __init__(
        self,
        journal: JournalPath,
        *,
        durability: Durability | DurabilityName | None = None,
        buffer_bytes: int | None = None,
    ) -> None:
        if durability is not None and durability not in get_args(DurabilityName):
            raise UsageError("durability", found=repr(durability), expected="'buffered', 'written' or 'synced'")
        if buffer_bytes is not None and durability != Durability.BUFFERED:
            raise UsageError(
                "buffer_bytes",
                found=f"durability {durability}",
                expected="durability 'buffered'",
                message="buffer_bytes needs durability='buffered'",
            )
        if buffer_bytes is not None:
            check_type("buffer_bytes", buffer_bytes, int, "an integer")
        if buffer_bytes is not None and not 1 <= buffer_bytes <= MAX_BUFFER_BYTES:
            raise UsageError("buffer_bytes", found=str(buffer_bytes), expected=f"from 1 to {MAX_BUFFER_BYTES}")
        self._storage = storage_of(journal)
        self._lock = threading.Lock()
        self._buffer: PreCommitBuffer | None = None
        self._buffering_pid = os.getpid()
        """The process that may use the buffer; 0 after close."""
        self._is_closed = False
        with contextlib.ExitStack() as undo:
            metastore = MetastoreFile(self._storage)
            undo.callback(metastore.close)
            values = metastore.read()
            chosen = Durability.SYNCED if values.safety == SAFE else Durability.WRITTEN
            self.durability = chosen if durability is None else Durability(durability)
            self._framing = Framing(values.magic)
            self._encode = self._encoder()
            self._segment = CurrentSegment(
                self._storage,
                metastore,
                self._framing,
                is_synced=self.durability is Durability.SYNCED,
                is_direct=self.durability is Durability.WRITTEN and self._encode is None,
            )
            undo.callback(self._release)
            undo.callback(self._remove_buffer)
            if self.durability is Durability.BUFFERED:
                self._open_buffer(metastore.mode, buffer_bytes)
            else:
                self._rescue_buffer(metastore.mode)
            undo.pop_all()
        _writers.add(self)

    def _encoder(self) -> Callable[[Any], bytes] | None:
        if self._framing.provider is Provider.UNKNOWN:
            raise UnsupportedVersion(
                self._storage.root,
                found=f"unknown compression provider in magic {self._framing.magic:#010x}",
                expected="0 (null) or 1 (LZ4)",
            )
        return lz4_encoder() if self._framing.provider is Provider.LZ4 else None

    # The buffer

    def _open_buffer(self, mode: int, buffer_bytes: int | None) -> None:
        buffer = PreCommitBuffer(self._storage, self._framing, mode, wait_s=LOCK_TIMEOUT_S)
        self._buffer = buffer
        self._flush_leftovers(buffer)
        buffer.begin(buffer_bytes or min(buffer.capacity, MAX_BUFFER_BYTES) or DEFAULT_BUFFER_BYTES)

    def _remove_buffer(self) -> None:
        """Undo :meth:`_open_buffer`."""
        if self._buffer is not None:
            with contextlib.suppress(EverlogError, OSError):
                self._buffer.remove()

    def _rescue_buffer(self, mode: int) -> None:
        """Flush a dead writer's buffer; a live writer keeps its own."""
        buffer = open_abandoned_buffer(self._storage, self._framing, mode)
        if buffer is not None:
            try:
                self._flush_leftovers(buffer)
            finally:
                buffer.close()

    def _flush_leftovers(self, buffer: PreCommitBuffer) -> None:
        count = self._write_out(buffer)
        if count:
            _log.warning("%s: flushed %d messages that a dead writer had left in pre_commit", self._storage.root, count)

    def _write_out(self, buffer: PreCommitBuffer) -> int:
        """Write those of the buffer's messages that are not in the journal yet."""
        count = write_out(
            self._storage, buffer, self._framing, lambda data, count: self._append_framed(buffer, data, count)
        )
        self._segment.end_if_full()
        return count

    def _append_framed(self, buffer: PreCommitBuffer, data: bytes, count: int) -> None:
        segment = self._segment
        current = segment.at_end()  # the next writer's search starts here
        buffer.note_flush(current.log, current.end)
        while (status := current.append_framed(data, count)) > ENDED:
            segment.prepare_retry(status)
            current = segment.open()
        segment.settle_if_synced()

    # Appending

    def append(self, payload: Any, timestamp_ns: int | None = None) -> Address | None:
        """Append one message: ``bytes`` or any object with a contiguous buffer, at most ``MAX_MESSAGE_BYTES``.

        ``timestamp_ns`` is its time, kept to the microsecond; by default now. Returns its address, or ``None`` while
        the message is in the buffer. If it raises, nothing was appended. Raises :class:`WriteFailed` (disk full, an I/O
        error; with ``synced`` the message may be present all the same), :class:`UsageError`, and :class:`WrongType` if
        the payload has no contiguous buffer.

        A process that is killed during the call leaves the whole message, or nothing that readers take for one.
        """
        direct = self._segment.direct
        try:
            if direct is not None and timestamp_ns is None:
                address = direct.append_inside(payload)
                if address is not None:
                    return address
            return self._append(payload, timestamp_ns)
        except (OSError, OverflowError, TypeError, BufferError) as error:
            raise_append_error(error, self._storage.root, (payload,))

    def _append(self, payload: Any, timestamp_ns: int | None) -> Address | None:
        timestamp_us = NOW if timestamp_ns is None else microseconds_of(timestamp_ns)
        length = AS_STORED
        if self._encode is not None:
            length = memoryview(payload).nbytes
            check_length(length)
            payload = self._encode(payload)
        segment = self._segment
        with self._lock:
            if self._buffer is not None and self._put_in_buffer(payload, timestamp_us, length):
                return None
            while True:
                current = segment.appender or segment.open()
                status, last = current.append(payload, timestamp_us, length)
                if status <= ENDED:
                    break
                segment.prepare_retry(status)
            joined = segment.join()
            if status == ENDED:
                segment.end()
        segment.wait(joined)
        return Address(last)

    def append_many(self, payloads: Iterable[Any], timestamps_ns: Sequence[int] | None = None) -> Address | None:
        """Append messages in order, with as few writes as possible. Returns the address of the last one, or ``None`` if
        there is none or they are in the buffer.

        If it raises, a prefix may have been appended, as after a crash; :class:`WriteFailed` reports its length as
        ``appended``. Invalid messages (:class:`WrongType`, :class:`UsageError`) are reported before anything is
        appended.
        """
        if self._is_closed:
            raise Closed("writer")
        listed = list(payloads)  # a copy: the caller's list may change during the call
        times = None if timestamps_ns is None else [microseconds_of(time_ns) for time_ns in timestamps_ns]
        if times is not None and len(times) != len(listed):
            raise UsageError(
                "timestamps_ns", found=str(len(times)), expected=f"{len(listed)} times, one for each message"
            )
        lengths: list[int] | None = None
        if self._encode is not None:
            listed, lengths = self._encoded(listed)
        done = 0
        try:
            if self._buffer is not None:
                check_messages(listed, times)
                for done, payload in enumerate(listed):
                    length = AS_STORED if lengths is None else lengths[done]
                    self._append_one(payload, NOW if times is None else times[done], length)
                return None
            last, joined = None, None
            segment = self._segment
            with self._lock:
                while done < len(listed):
                    current = segment.appender or segment.open()
                    try:
                        status, count, at = current.append_many(listed, done, times, lengths)
                    except BaseException:
                        done += current.kept
                        raise
                    done += count
                    if status > ENDED:
                        segment.prepare_retry(status)
                        continue
                    last = Address(at)
                    joined = segment.join()
                    if status == ENDED:
                        segment.end()
            segment.wait(joined)
        except (OSError, OverflowError, TypeError, BufferError, EverlogError) as error:
            raise_append_error(error, self._storage.root, listed, done)
        return last

    def _encoded(self, payloads: list[Any]) -> tuple[list[Any], list[int]]:
        """The payloads as stored, and their own lengths."""
        assert self._encode is not None
        try:
            lengths = [memoryview(payload).nbytes for payload in payloads]
            check_length(max(lengths, default=0))
            return [self._encode(payload) for payload in payloads], lengths
        except (TypeError, BufferError) as error:
            raise_append_error(error, self._storage.root, payloads)

    def _append_one(self, payload: Any, timestamp_us: int, length: int) -> None:
        with self._lock:
            if self._put_in_buffer(payload, timestamp_us, length):
                return
            while (status := self._segment.open().append(payload, timestamp_us, length)[0]) > ENDED:
                self._segment.prepare_retry(status)
            if status == ENDED:
                self._segment.end()

    def _put_in_buffer(self, payload: Any, timestamp_us: int, length: int) -> bool:
        """Whether the message is in the buffer now. One larger than the buffer goes to the journal, after the buffered
        messages."""
        assert self._buffer is not None
        if self._buffering_pid != os.getpid():
            self._check_open()
        if self._buffer.append(payload, timestamp_us, length):
            return True
        self._flush_buffer()
        return self._buffer.append(payload, timestamp_us, length)

    # Flushing

    def flush(self) -> None:
        """Write buffered messages to the journal, where readers see them. If it raises :class:`WriteFailed`, they stay
        in the buffer."""
        with self._lock:
            self._check_open()
            self._flush_buffer()

    def sync(self) -> None:
        """Return when everything appended, including buffered messages, is on disk. Raises :class:`WriteFailed`, then
        again on every later call: what a failed sync covered may be lost, and no later sync detects that."""
        with self._lock:
            self._check_open()
            self._flush_buffer()
            self._segment.settle()
            self._segment.sync_names()
            failed = self._segment.failed_sync
        if failed is not None:
            raise WriteFailed(
                failed.where,
                found=failed.found,
                expected=failed.expected,
                hint="an earlier sync failed: messages appended before it may be lost; append them with a new writer",
                message=failed.message,
            )

    def _flush_buffer(self) -> None:
        buffer = self._buffer
        if buffer is None or not buffer.used:
            return
        try:
            if buffer.is_flush_begun:
                self._write_out(buffer)
            else:
                self._append_framed(buffer, *buffer.read())
                buffer.empty()
                # Not before the buffer is marked as empty: this takes time, and if the process died here first, a C
                # library writer would write the same messages again.
                self._segment.end_if_full()
        except OSError as error:
            raise_append_error(error, self._storage.root)

    # The end

    def close(self) -> None:
        """Flush, sync the segment, and close the files. A second call does nothing."""
        if self._is_closed:
            return
        with self._lock:
            if self._is_closed:
                return
            try:
                if self._segment.pid == os.getpid():
                    self._flush_buffer()
                    self._segment.settle()
                    if self._buffer is not None:
                        self._buffer.remove()
            finally:
                self._release()

    def _release(self) -> None:
        self._is_closed = True
        self._buffering_pid = 0
        self._segment.close()
        if self._buffer is not None:
            self._buffer.close()

    def _check_open(self) -> None:
        if not self._is_closed and self._segment.pid == os.getpid():
            return
        if self._buffer is not None and not self._is_closed:
            raise UsageError(  # the buffer stays with the parent
                "writer",
                found="a buffered one from before the fork",
                expected="one opened in this process",
                message="a buffered writer can't be used after a fork; open one in the child process",
            )
        self._segment.check_open()

    def __enter__(self) -> Self:
        if self._is_closed:
            raise Closed("writer")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _leave_to_parent(writer: Writer) -> None:
    writer._lock = threading.Lock()  # another thread may have held it
    # Locks belong to the open file: left open here, one would outlive a parent that is killed while it holds it.
    writer._segment.close_files()
    if writer._buffer is not None:
        writer._buffer.close()


_writers = OpenObjects(_leave_to_parent)
