"""Appends to a journal. Any number of writers, in any number of processes, may do so, including the C library's."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Any, NoReturn, Self, get_args

from everlog.core.files.durability import Durability
from everlog.core.files.writable import WritableFile, write_failed
from everlog.core.forking import OpenObjects
from everlog.core.group_commit import GroupCommit, Round
from everlog.core.options import check_type
from everlog.errors import Closed, EverlogError, UnsupportedVersion, UsageError, WriteFailed, WrongType
from everlog.jlog.format.addresses import Address
from everlog.jlog.format.compression import lz4_encoder
from everlog.jlog.format.framing import MAX_MESSAGE_BYTES, Framing, Provider
from everlog.jlog.options import DurabilityName
from everlog.jlog.writing.append import (
    AS_STORED,
    ENDED,
    FULL,
    MAX_TIME_US,
    MOVED,
    NOW,
    Appender,
    appender,
    check_length,
    microseconds_of,
)
from everlog.jlog.writing.buffer import (
    DEFAULT_BUFFER_BYTES,
    LOCK_TIMEOUT_S,
    MAX_BUFFER_BYTES,
    PreCommitBuffer,
    open_abandoned_buffer,
)
from everlog.jlog.writing.buffer_recovery import write_out
from everlog.jlog.writing.checkpoint_rewind import rewind_checkpoints
from everlog.jlog.writing.metastore_file import SAFE, MetastoreFile
from everlog.jlog.writing.opening import JournalPath, storage_of
from everlog.jlog.writing.tail import Tail, known_tail, recover_tail

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
        self._group = GroupCommit()
        self._segment: WritableFile | None = None
        self._appender: Appender | None = None
        self._fast_appender: Appender | None = (
            None  # the same, if appends need nothing else (no encoding, buffer or sync)
        )
        self._buffer: PreCommitBuffer | None = None
        self._is_closed = False
        self._failed_sync: EverlogError | None = None
        self._has_rewound = False  # checkpoints that are past the end
        self._pid = os.getpid()
        self._metastore = MetastoreFile(self._storage)
        try:
            values = self._metastore.read()
            chosen = Durability.SYNCED if values.safety == SAFE else Durability.WRITTEN
            self.durability = chosen if durability is None else Durability(durability)
            self._is_synced = self.durability is Durability.SYNCED
            self._framing = Framing(values.magic)
            self._encode = self._encoder()
            if self.durability is Durability.BUFFERED:
                self._open_buffer(buffer_bytes)
            else:
                self._rescue_buffer()
        except BaseException:
            if self._buffer is not None:
                with contextlib.suppress(EverlogError, OSError):
                    self._buffer.remove()
            self._release()
            raise
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

    def _open_buffer(self, buffer_bytes: int | None) -> None:
        buffer = PreCommitBuffer(self._storage, self._framing, self._metastore.mode, wait_s=LOCK_TIMEOUT_S)
        self._buffer = buffer
        self._flush_leftovers(buffer)
        buffer.begin(buffer_bytes or min(buffer.capacity, MAX_BUFFER_BYTES) or DEFAULT_BUFFER_BYTES)

    def _rescue_buffer(self) -> None:
        """Flush a dead writer's buffer; a live writer keeps its own."""
        buffer = open_abandoned_buffer(self._storage, self._framing, self._metastore.mode)
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
        self._end_full_segment()
        return count

    def _append_framed(self, buffer: PreCommitBuffer, data: bytes, count: int) -> None:
        current = self._at_end()  # the next writer's search starts here
        buffer.note_flush(current.log, current.end)
        while (status := current.append_framed(data, count)) > ENDED:
            self._prepare_retry(status)
            current = self._open_appender()
        if self._is_synced:
            self._group.settle(self._sync_segment)

    def _end_full_segment(self) -> None:
        """Call only after the buffer is marked as empty. This takes time, and if the process died here first, a C
        library writer would write the same messages again."""
        if self._appender is not None and self._appender.end >= self._appender.limit:
            self._end_segment()

    # Appending

    def append(self, payload: Any, timestamp_ns: int | None = None) -> Address | None:
        """Append one message: ``bytes`` or any object with a contiguous buffer, at most ``MAX_MESSAGE_BYTES``.

        ``timestamp_ns`` is its time, kept to the microsecond; by default now. Returns its address, or ``None`` while
        the message is in the buffer. If it raises, nothing was appended. Raises :class:`WriteFailed` (disk full, an I/O
        error; with ``synced`` the message may be present all the same), :class:`UsageError`, and :class:`WrongType` if
        the payload has no contiguous buffer.

        A process that is killed during the call leaves the whole message, or nothing that readers take for one.
        """
        plain = self._fast_appender
        try:
            if plain is not None and timestamp_ns is None:
                address = plain.append_inside(payload)
                if address is not None:
                    return address
            return self._append(payload, timestamp_ns)
        except (OSError, OverflowError, TypeError, BufferError) as error:
            self._reraise(error, payloads=(payload,))

    def _append(self, payload: Any, timestamp_ns: int | None) -> Address | None:
        timestamp_us = NOW if timestamp_ns is None else microseconds_of(timestamp_ns)
        length = AS_STORED
        if self._encode is not None:
            length = memoryview(payload).nbytes
            check_length(length)
            payload = self._encode(payload)
        joined: Round | None = None
        with self._lock:
            if self._buffer is not None and self._put_in_buffer(payload, timestamp_us, length):
                return None
            while True:
                current = self._appender or self._open_appender()
                status, last = current.append(payload, timestamp_us, length)
                if status <= ENDED:
                    break
                self._prepare_retry(status)
            if self._is_synced:
                joined = self._group.join()
            if status == ENDED:
                self._end_segment()
        if joined is not None:
            self._group.wait(joined, self._sync_segment)
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
                _check_messages(listed, times)
                for done, payload in enumerate(listed):
                    length = AS_STORED if lengths is None else lengths[done]
                    self._append_one(payload, NOW if times is None else times[done], length)
                return None
            last, joined = None, None
            with self._lock:
                while done < len(listed):
                    current = self._appender or self._open_appender()
                    try:
                        status, count, at = current.append_many(listed, done, times, lengths)
                    except BaseException:
                        done += current.kept
                        raise
                    done += count
                    if status > ENDED:
                        self._prepare_retry(status)
                        continue
                    last = Address(at)
                    if self._is_synced:
                        joined = self._group.join()
                    if status == ENDED:
                        self._end_segment()
            if joined is not None:
                self._group.wait(joined, self._sync_segment)
        except (OSError, OverflowError, TypeError, BufferError, EverlogError) as error:
            self._reraise(error, done, payloads=listed)
        return last

    def _encoded(self, payloads: list[Any]) -> tuple[list[Any], list[int]]:
        """The payloads as stored, and their own lengths."""
        assert self._encode is not None
        try:
            lengths = [memoryview(payload).nbytes for payload in payloads]
            check_length(max(lengths, default=0))
            return [self._encode(payload) for payload in payloads], lengths
        except (TypeError, BufferError) as error:
            self._reraise(error, payloads=payloads)

    def _append_one(self, payload: Any, timestamp_us: int, length: int) -> None:
        with self._lock:
            if self._put_in_buffer(payload, timestamp_us, length):
                return
            while (status := self._open_appender().append(payload, timestamp_us, length)[0]) > ENDED:
                self._prepare_retry(status)
            if status == ENDED:
                self._end_segment()

    def _put_in_buffer(self, payload: Any, timestamp_us: int, length: int) -> bool:
        """Whether the message is in the buffer now. One larger than the buffer goes to the journal, after the buffered
        messages."""
        assert self._buffer is not None
        self._check_open()
        if self._buffer.append(payload, timestamp_us, length):
            return True
        self._flush_buffer()
        return self._buffer.append(payload, timestamp_us, length)

    def _reraise(
        self,
        error: OSError | OverflowError | TypeError | BufferError | EverlogError,
        appended: int = 0,
        payloads: Iterable[Any] = (),
    ) -> NoReturn:
        """Raise the error as an :class:`EverlogError`. ``payloads`` are the messages of the call."""
        if isinstance(error, OverflowError):
            expected = f"at most {MAX_MESSAGE_BYTES} bytes, a time from 1970 to 2106"
            message = f"message or time out of range: {error}; expected {expected}"
            raise UsageError("message", found=str(error), expected=expected, message=message) from error
        if isinstance(error, TypeError | BufferError) and not isinstance(error, EverlogError):
            raise (_wrong_message(payloads) or error) from error
        if isinstance(error, OSError):
            failed = write_failed(str(error.filename or self._storage.root), error)
            failed.appended = appended
            raise failed from error
        if isinstance(error, WriteFailed):
            error.appended = appended
        raise error

    # Segments

    def _check_open(self) -> None:
        if self._is_closed:
            raise Closed("writer")
        if self._pid != os.getpid():
            self._after_fork()

    def _open_appender(self) -> Appender:
        """The appender on the current segment, opened if needed."""
        self._check_open()
        if self._appender is None:
            if not self._has_rewound:
                self._metastore.catch_up()
            log, self._segment = self._metastore.open_segment(sync=self._is_synced)
            tail = known_tail(self._storage, log, self._segment, self._framing)
            if not self._has_rewound:
                tail = rewind_checkpoints(self._storage, self._metastore, log, self._segment, self._framing, tail)
                self._has_rewound = True
            self._begin(log, self._segment, tail)
        assert self._appender is not None
        return self._appender

    def _at_end(self) -> Appender:
        """The appender, advanced past everything that others have written so far."""
        while True:
            current = self._open_appender()
            status, _, _ = current.append_many([], 0)
            if status <= ENDED:
                return current
            self._prepare_retry(status)

    def _begin(self, log: int, segment: WritableFile, tail: Tail) -> None:
        self._appender = appender(segment, self._metastore.file, log, self._framing.magic, tail.end, tail.marker)
        if self.durability is Durability.WRITTEN and self._encode is None:
            self._fast_appender = self._appender

    def _prepare_retry(self, status: int) -> None:
        """After an append that wrote nothing: make the next attempt possible."""
        current = self._open_appender()
        self._retire()
        if status == FULL:
            self._roll()
        elif status == MOVED:
            self._group.settle(self._sync_segment)
            self._leave_segment()
        else:
            assert self._segment is not None
            tail = recover_tail(self._storage, current.log, self._segment, self._framing)
            self._begin(current.log, self._segment, tail)

    def _end_segment(self) -> None:
        """After an append that filled the segment. The message is stored, so the next append retries whatever fails
        here, except a sync that a caller waits for."""
        try:
            self._roll()
        except EverlogError as error:
            if self._is_synced:
                raise
            _log.warning("%s: can't start the next segment yet: %s", self._storage.root, error)

    def _roll(self) -> None:
        """Sync the segment and move to the next one."""
        current = self._open_appender()
        self._group.settle(self._sync_segment)
        self._metastore.advance(current.log, sync=self._is_synced)
        self._leave_segment()

    def _retire(self) -> None:
        """Keep other threads out of the appender before its file is used otherwise or closed."""
        self._fast_appender = None
        if self._appender is not None:
            self._appender.retire()

    def _leave_segment(self) -> None:
        self._fast_appender = None
        # Not closed here, because a thread may be syncing it. It closes with its last reference.
        self._segment = None
        self._appender = None

    def _sync_segment(self) -> None:
        segment = self._segment
        try:
            if segment is not None:
                segment.sync()
        except EverlogError as error:
            if not self._is_synced:  # else the callers that wait get the error
                self._failed_sync = self._failed_sync or error
            raise

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
            self._group.settle(self._sync_segment)
            self._metastore.sync_names()
            failed = self._failed_sync
        if failed is not None:
            raise WriteFailed(
                failed.where,
                found=failed.found,
                expected=failed.expected,
                hint="an earlier sync failed: messages appended before it may be lost; append them with a new writer",
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
                self._end_full_segment()
        except OSError as error:
            self._reraise(error)

    # The end

    def close(self) -> None:
        """Flush, sync the segment, and close the files. A second call does nothing."""
        if self._is_closed:
            return
        with self._lock:
            if self._is_closed:
                return
            try:
                if self._pid == os.getpid():
                    self._flush_buffer()
                    self._group.settle(self._sync_segment)
                    if self._buffer is not None:
                        self._buffer.remove()
            finally:
                self._release()

    def _release(self) -> None:
        self._is_closed = True
        self._retire()
        self._close_files()

    def _close_files(self) -> None:
        for file in (self._segment, self._buffer, self._metastore):
            if file is not None:
                file.close()
        self._leave_segment()

    def _after_fork(self) -> None:
        """In a child process: reopen the files. The buffer stays with the parent."""
        if self._buffer is not None:
            raise UsageError(
                "writer",
                found="a buffered one from before the fork",
                expected="one opened in this process",
                message="a buffered writer can't be used after a fork; open one in the child process",
            )
        self._metastore = MetastoreFile(self._storage)
        self._group = GroupCommit()
        self._pid = os.getpid()

    def __enter__(self) -> Self:
        if self._is_closed:
            raise Closed("writer")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _check_messages(payloads: list[Any], times_us: list[int] | None) -> None:
    """Raise what appending each of them would."""
    for payload in payloads:
        view = memoryview(payload)
        if not view.c_contiguous:
            raise BufferError("memoryview: underlying buffer is not C-contiguous")
        check_length(view.nbytes)
    for time_us in times_us or ():
        if time_us > MAX_TIME_US:
            raise OverflowError(f"{time_us} microseconds since 1970")


def _wrong_message(payloads: Iterable[Any]) -> WrongType | None:
    """The error for the first payload that can't be a message; ``None`` if all can."""
    for payload in payloads:
        try:
            is_contiguous = memoryview(payload).c_contiguous
        except TypeError:
            return WrongType("message", found=type(payload).__name__, expected="bytes")
        if not is_contiguous:
            return WrongType("message", found="strided memory", expected="a contiguous buffer")
    return None


def _leave_to_parent(writer: Writer) -> None:
    writer._lock = threading.Lock()  # another thread may have held it
    # Locks belong to the open file: left open here, one would outlive a parent that is killed while it holds it.
    writer._close_files()


_writers = OpenObjects(_leave_to_parent)
