"""Writing to a journal: any number of writers, in any number of processes, the C library's among them."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Any, NoReturn, Self

from everlog.core.files.durability import Durability
from everlog.core.files.writable import WritableFile, write_failed
from everlog.core.forking import OpenObjects
from everlog.core.group_commit import GroupCommit, Round
from everlog.errors import EverlogError, UnsupportedVersion, UsageError, WriteFailed
from everlog.jlog.format.addresses import Address
from everlog.jlog.format.compression import lz4_encoder
from everlog.jlog.format.framing import MAX_MESSAGE_BYTES, Framing, Provider
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
    MAX_BUFFER_BYTES,
    SECONDS_FOR_THE_LOCK,
    PreCommitBuffer,
    left_buffer,
)
from everlog.jlog.writing.buffer_recovery import write_out
from everlog.jlog.writing.checkpoint_rewind import rewind_checkpoints
from everlog.jlog.writing.metastore_file import SAFE, MetastoreFile
from everlog.jlog.writing.opening import JournalPath, storage_of
from everlog.jlog.writing.tail import Tail, known_tail, settle

_log = logging.getLogger("everlog.jlog")


class Writer:
    """Appends messages to a journal. For many threads at once, but not for signal handlers.

    ``durability`` is one of :class:`Durability`, or ``None``: ``synced`` where the journal's safety is ``safe``, else
    ``written``. ``buffer_bytes`` is the size of the buffer of ``buffered``; ``None``: what the journal has, else 1 MiB.

    Opening writes nothing, but for what a writer that died left in the buffer, which goes to the journal. Raises
    :class:`NotAStore`, :class:`CorruptData`, :class:`StoreUnavailable`, :class:`UnsupportedVersion`,
    :class:`UsageError`.
    """

    def __init__(self, journal: JournalPath, *, durability: str | None = None, buffer_bytes: int | None = None) -> None:
        if durability is not None and durability not in list(Durability):
            raise UsageError("durability", found=repr(durability), expected=", ".join(Durability))
        if buffer_bytes is not None and durability != Durability.BUFFERED:
            raise UsageError("buffer_bytes", found=f"durability {durability}", expected="durability 'buffered'")
        if buffer_bytes is not None and not 1 <= buffer_bytes <= MAX_BUFFER_BYTES:
            raise UsageError("buffer_bytes", found=str(buffer_bytes), expected=f"1 to {MAX_BUFFER_BYTES}")
        self._storage = storage_of(journal)
        self._lock = threading.Lock()
        self._group = GroupCommit()
        self._segment: WritableFile | None = None
        self._appender: Appender | None = None
        self._plain: Appender | None = None  # the same, where an append is nothing but that
        self._buffer: PreCommitBuffer | None = None
        self._is_closed = False
        self._failed_sync: EverlogError | None = None
        self._has_looked = False  # for checkpoints past the end
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
                self._storage.root, found=f"magic {self._framing.magic:#010x}", expected="provider 0 (null) or 1 (LZ4)"
            )
        return lz4_encoder() if self._framing.provider is Provider.LZ4 else None

    # The buffer

    def _open_buffer(self, buffer_bytes: int | None) -> None:
        buffer = PreCommitBuffer(self._storage, self._framing, self._metastore.mode, wait_s=SECONDS_FOR_THE_LOCK)
        self._buffer = buffer
        self._take_over(buffer)
        buffer.begin(buffer_bytes or min(buffer.capacity, MAX_BUFFER_BYTES) or DEFAULT_BUFFER_BYTES)

    def _rescue_buffer(self) -> None:
        """Write out what a dead writer left in the buffer; one that lives keeps it."""
        buffer = left_buffer(self._storage, self._framing, self._metastore.mode)
        if buffer is not None:
            try:
                self._take_over(buffer)
            finally:
                buffer.close()

    def _take_over(self, buffer: PreCommitBuffer) -> None:
        count = self._write_out(buffer)
        if count:
            _log.warning("%s: wrote %d messages out that a writer had left in pre_commit", self._storage.root, count)

    def _write_out(self, buffer: PreCommitBuffer) -> int:
        """Write what of the buffer's messages is not in the journal yet."""
        count = write_out(
            self._storage, buffer, self._framing, lambda data, count: self._append_framed(buffer, data, count)
        )
        self._end_full_segment()
        return count

    def _append_framed(self, buffer: PreCommitBuffer, data: bytes, count: int) -> None:
        current = self._at_end()  # the next writer reads from there on: not what is there before
        buffer.note_flush(current.log, current.end)
        while (status := current.append_framed(data, count)) > ENDED:
            self._resolve(status)
            current = self._open_appender()
        if self._is_synced:
            self._group.settle(self._sync_segment)

    def _end_full_segment(self) -> None:
        """Only after the buffer says that nothing waits: this takes time, and a writer of the C library that came after
        this process died in it would write the same messages again."""
        if self._appender is not None and self._appender.end >= self._appender.limit:
            self._end_segment()

    # Appending

    def append(self, payload: Any, timestamp_ns: int | None = None) -> Address | None:
        """Append one message: ``bytes``, or anything with a contiguous buffer, at most ``MAX_MESSAGE_BYTES``.

        ``timestamp_ns`` is its time (microseconds are kept), by default now. Returns its address, or ``None`` while it
        is in the buffer. When it raises, nothing was appended: :class:`WriteFailed` (disk full, an I/O error; with
        ``synced`` the message may be there all the same), :class:`UsageError`.

        A process that is killed meanwhile leaves the message or nothing that a reader takes for one.
        """
        plain = self._plain
        try:
            if plain is not None and timestamp_ns is None:
                address = plain.append_inside(payload)
                if address is not None:
                    return address
            return self._append(payload, timestamp_ns)
        except (OSError, OverflowError) as error:
            self._refuse(error)

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
                self._resolve(status)
            if self._is_synced:
                joined = self._group.join()
            if status == ENDED:
                self._end_segment()
        if joined is not None:
            self._group.wait(joined, self._sync_segment)
        return Address(last)

    def append_many(self, payloads: Iterable[Any], timestamps_ns: Sequence[int] | None = None) -> Address | None:
        """Append messages, in order, with as few writes as can be; the address of the last, or ``None`` for no message,
        or where they are in the buffer.

        When it raises, the first ones may be there, as after a crash; the ``appended`` of :class:`WriteFailed` says how
        many. What can't be a message (:class:`TypeError`, :class:`UsageError`) is told before any is.
        """
        listed = list(payloads)  # one of our own: the caller's may change meanwhile
        times = None if timestamps_ns is None else [microseconds_of(time_ns) for time_ns in timestamps_ns]
        if times is not None and len(times) != len(listed):
            raise UsageError("timestamps_ns", found=f"{len(times)} times", expected=f"{len(listed)}, one a message")
        lengths: list[int] | None = None
        if self._encode is not None:
            lengths = [memoryview(payload).nbytes for payload in listed]
            check_length(max(lengths, default=0))
            listed = [self._encode(payload) for payload in listed]
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
                        self._resolve(status)
                        continue
                    last = Address(at)
                    if self._is_synced:
                        joined = self._group.join()
                    if status == ENDED:
                        self._end_segment()
            if joined is not None:
                self._group.wait(joined, self._sync_segment)
        except (OSError, OverflowError, EverlogError) as error:
            self._refuse(error, done)
        return last

    def _append_one(self, payload: Any, timestamp_us: int, length: int) -> None:
        with self._lock:
            if self._put_in_buffer(payload, timestamp_us, length):
                return
            while (status := self._open_appender().append(payload, timestamp_us, length)[0]) > ENDED:
                self._resolve(status)
            if status == ENDED:
                self._end_segment()

    def _put_in_buffer(self, payload: Any, timestamp_us: int, length: int) -> bool:
        """Whether the message is in the buffer now; one that is larger than it goes to the journal itself, behind what
        waits."""
        assert self._buffer is not None
        self._check_open()
        if self._buffer.append(payload, timestamp_us, length):
            return True
        self._flush_buffer()
        return self._buffer.append(payload, timestamp_us, length)

    def _refuse(self, error: OSError | OverflowError | EverlogError, appended: int = 0) -> NoReturn:
        """Raise it as an error of ours."""
        if isinstance(error, OverflowError):
            expected = f"at most {MAX_MESSAGE_BYTES} bytes, a time from 1970 to 2106"
            raise UsageError("message", found=str(error), expected=expected) from error
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
            raise UsageError("writer", found="a closed one", expected="an open one")
        if self._pid != os.getpid():
            self._after_fork()

    def _open_appender(self) -> Appender:
        """The appender on the segment that is written now, opened where it must be."""
        self._check_open()
        if self._appender is None:
            if not self._has_looked:
                self._metastore.catch_up()
            log, self._segment = self._metastore.open_segment(sync=self._is_synced)
            tail = known_tail(self._storage, log, self._segment, self._framing)
            if not self._has_looked:
                tail = rewind_checkpoints(self._storage, self._metastore, log, self._segment, self._framing, tail)
                self._has_looked = True
            self._begin(log, self._segment, tail)
        assert self._appender is not None
        return self._appender

    def _at_end(self) -> Appender:
        """The appender, behind what others wrote until this moment."""
        while True:
            current = self._open_appender()
            status, _, _ = current.append_many([], 0)
            if status <= ENDED:
                return current
            self._resolve(status)

    def _begin(self, log: int, segment: WritableFile, tail: Tail) -> None:
        self._appender = appender(segment, self._metastore.file, log, self._framing.magic, tail.end, tail.marker)
        if self.durability is Durability.WRITTEN and self._encode is None:
            self._plain = self._appender

    def _resolve(self, status: int) -> None:
        """After an append that wrote nothing: make it possible."""
        current = self._open_appender()
        self._retire()
        if status == FULL:
            self._roll()
        elif status == MOVED:
            self._group.settle(self._sync_segment)
            self._leave_segment()
        else:
            assert self._segment is not None
            tail = settle(self._storage, current.log, self._segment, self._framing)
            self._begin(current.log, self._segment, tail)

    def _end_segment(self) -> None:
        """After an append that finished the segment. The message is there, so that what fails now is tried again by the
        next append; but for a sync that somebody waits for."""
        try:
            self._roll()
        except EverlogError as error:
            if self._is_synced:
                raise
            _log.warning("%s: the next segment could not be begun yet: %s", self._storage.root, error)

    def _roll(self) -> None:
        """Sync the segment, and go on to the next one."""
        current = self._open_appender()
        self._group.settle(self._sync_segment)
        self._metastore.advance(current.log, sync=self._is_synced)
        self._leave_segment()

    def _retire(self) -> None:
        """Keep other threads out of the appender: its file is about to be used otherwise, or closed."""
        self._plain = None
        if self._appender is not None:
            self._appender.retire()

    def _leave_segment(self) -> None:
        self._plain = None
        # Not closed here: a thread may be syncing it. It closes when the last one lets go of it.
        self._segment = None
        self._appender = None

    def _sync_segment(self) -> None:
        segment = self._segment
        try:
            if segment is not None:
                segment.sync()
        except EverlogError as error:
            if not self._is_synced:  # else those whom it concerns are told
                self._failed_sync = self._failed_sync or error
            raise

    # Flushing

    def flush(self) -> None:
        """Write what waits in the buffer to the journal, where readers see it. Raises :class:`WriteFailed`; then it
        still waits."""
        with self._lock:
            self._check_open()
            self._flush_buffer()

    def sync(self) -> None:
        """Return when everything that was appended is on disk, what waits in the buffer too. Raises
        :class:`WriteFailed`, and from then on again: what an earlier sync failed for may be lost, and no later one
        tells."""
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
                hint="a sync failed before: what was appended until then may be lost; append it with a new writer",
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
            self._refuse(error)

    # The end

    def close(self) -> None:
        """Flush, sync the segment, give the files back. A second call does nothing."""
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
        """In a child process: open the files anew. The buffer stays the parent's."""
        if self._buffer is not None:
            raise UsageError(
                "writer", found="a buffered one, opened before the fork", expected="one opened in this process"
            )
        self._metastore = MetastoreFile(self._storage)
        self._group = GroupCommit()
        self._pid = os.getpid()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _check_messages(payloads: list[Any], times_us: list[int] | None) -> None:
    """Raise what appending one of them would."""
    for payload in payloads:
        view = memoryview(payload)
        if not view.c_contiguous:
            raise BufferError("memoryview: underlying buffer is not C-contiguous")
        check_length(view.nbytes)
    for time_us in times_us or ():
        if time_us > MAX_TIME_US:
            raise OverflowError(f"{time_us} microseconds since 1970")


def _leave_to_parent(writer: Writer) -> None:
    writer._lock = threading.Lock()  # another thread may have held it
    # Locks belong to the open file: left open here, one would outlive the parent that is killed while it has it.
    writer._close_files()


_writers = OpenObjects(_leave_to_parent)
