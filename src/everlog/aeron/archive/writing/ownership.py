"""Ownership of an archive's folder. Only the owner of the mark file may write; it renews its activity time once a
second.

If a link file names another folder (Aeron's ``mark.file.dir``), the mark file is in that folder.

An everlog process also locks the file, and the system releases the lock when the process dies; Java programs only check
the file's times. The writes, in order:

=========================  ==========================================================================================
after                      a crash leaves
=========================  ==========================================================================================
a new file                 a folder that nobody owns
the activity time          the old owner's file, alive for the timeout
version 0                  a file that says an archive is starting
the new owner's header     the same
the version                the owner
an activity time of -1     a folder that nobody owns
=========================  ==========================================================================================

Source: ArchiveMarkFile, Agrona's MarkFile.
"""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass

from everlog.aeron.archive.format.catalog import NAMING
from everlog.aeron.archive.format.catalog_bytes import VERSION
from everlog.aeron.archive.format.mark_place import LINK_NAME, MARK_NAME, writable_mark_storage
from everlog.aeron.archive.writing.error_log import open_error_log
from everlog.aeron.frames.constants import version_text
from everlog.aeron.layouts import ArchiveMarkHeader, SbeMessageHeader
from everlog.aeron.mark_file import (
    ARCHIVE_SCHEMA_ID,
    ARCHIVE_TEMPLATE_ID,
    LIVENESS_TIMEOUT_MS,
    ArchiveMark,
    Clock,
    now_ms,
    read_archive_mark,
)
from everlog.aeron.transport.memory.error_log_writer import DistinctErrorLog
from everlog.core.files.writable import WritableFile, WritableStorage
from everlog.errors import Closed, CorruptData, EverlogError, StoreUnavailable

HEADER_LENGTH = 8 << 10
ERROR_LOG_BYTES = 1 << 20
FILE_BYTES = HEADER_LENGTH + ERROR_LOG_BYTES
SCHEMA_VERSION = 2
CLOSED = -1
"""Activity time after a clean close."""
SILENT_S = LIVENESS_TIMEOUT_MS / 4000
"""An owner that has not renewed its activity time for this long checks before a write whether it still is the owner."""
_HEADER_AT = SbeMessageHeader.size
_ACTIVITY_AT = _HEADER_AT + ArchiveMarkHeader.field("activity_timestamp").offset
_VERSION_AT = _HEADER_AT + ArchiveMarkHeader.field("version").offset


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceAddress:
    """How clients reach the service that owns the folder, as its mark file says: channels (empty if there is none),
    streams, the driver's folder, and the archive's id."""

    control_channel: str = ""
    control_stream_id: int = 0
    local_control_channel: str = ""
    local_control_stream_id: int = 0
    events_channel: str = ""
    events_stream_id: int = 0
    aeron_directory: str = ""
    archive_id: int = -1


class Ownership:
    """The right to write in an archive's folder, until ``release``. ``take`` makes one."""

    def __init__(self, storage: WritableStorage, file: WritableFile, header: bytes, clock_ms: Clock) -> None:
        self._storage = storage
        self._file = file
        self._header = header
        self._clock_ms = clock_ms
        self._beaten = time.monotonic()
        self._error_log: DistinctErrorLog | None = None
        self.lost: EverlogError | None = None

    @classmethod
    def take(
        cls,
        storage: WritableStorage,
        *,
        timeout_ms: int = LIVENESS_TIMEOUT_MS,
        address: ServiceAddress | None = None,
        clock_ms: Clock = now_ms,
    ) -> Ownership:
        """Become the owner. Raises :class:`StoreUnavailable` while another process owns the folder, which lasts for
        ``timeout_ms`` after the last activity of an owner that died. Raises :class:`WriteFailed`."""
        started = clock_ms()
        header = _encode(started, address or ServiceAddress())
        place = writable_mark_storage(storage)
        if not place.exists(MARK_NAME):
            place.publish(MARK_NAME, _new_file(header), replace=False, mode=0o644)
        file = place.open_writable(MARK_NAME)
        try:
            if not file.hold():
                message = f"{storage.root} is already open in another everlog process"
                raise _owned(
                    storage, "a process of everlog has it open", "no other owner", message, "stop that process"
                )
            mark = _read(file)
            if mark is not None:
                _check_stale(storage, mark, clock_ms(), timeout_ms)
            owner = cls(storage, file, header, clock_ms)
            try:
                owner._write_header()
            except BaseException:
                with contextlib.suppress(EverlogError):  # so that the next one need not wait for the timeout
                    file.write_at(_ACTIVITY_AT, _int64(CLOSED))
                raise
        except BaseException:
            file.close()
            raise
        return owner

    def _write_header(self) -> None:
        """Keep the error log if it is at the usual place; otherwise re-create the file."""
        file = self._file
        mark = _read(file)
        if mark is None or mark.header_offset != _HEADER_AT or mark.header.header_length != HEADER_LENGTH:
            file.truncate(0)
        if file.size() < FILE_BYTES:
            file.truncate(FILE_BYTES)
        file.write_at(_ACTIVITY_AT, _int64(self._clock_ms()))
        file.write_at(_VERSION_AT, bytes(4))
        activity_end = _ACTIVITY_AT + 8
        file.write_at(0, self._header[:_VERSION_AT])
        file.write_at(activity_end, self._header[activity_end:HEADER_LENGTH])
        file.write_at(_VERSION_AT, VERSION.to_bytes(4, "little"))
        file.sync()

    def beat(self) -> None:
        """Renew the activity time. Raises :class:`StoreUnavailable` if another owner took the folder because this one
        was silent for too long."""
        if self.lost is not None:
            raise self.lost
        if not self._file.is_current() or not _is_ours(self._file, self._header):
            message = f"{self._storage.root} has another owner: this archive was silent for too long"
            self.lost = StoreUnavailable(
                self._storage.root,
                found="another owner",
                expected="this archive as owner",
                hint="open it again",
                message=message,
            )
            raise self.lost
        begun = time.monotonic()
        self._file.write_at(_ACTIVITY_AT, _int64(self._clock_ms()))
        self._beaten = begun

    def check(self) -> None:
        """Raises :class:`Closed` after ``release``, :class:`StoreUnavailable` if another owner was found. After a long
        silence (a suspended process), renews the activity time first; raises :class:`WriteFailed` if that fails."""
        if self.lost is not None:
            raise self.lost
        if time.monotonic() - self._beaten > SILENT_S:
            self.beat()

    def record_error(self, error: BaseException) -> None:
        """Record an error in the mark file's log of distinct errors, with its count and times. One that does not fit
        there, or can't be written, is not recorded. Not thread-safe."""
        if self.lost is not None:
            return
        with contextlib.suppress(EverlogError):
            if self._error_log is None:
                self._error_log = open_error_log(self._file, HEADER_LENGTH, ERROR_LOG_BYTES)
            self._error_log.record(error, self._clock_ms())

    def leave(self) -> None:
        """Give up ownership in a forked child: the parent is the owner."""
        found, expected = "a forked child of the process that has it open", "that process"
        root, hint = self._storage.root, "open it in one of them"
        message = f"{root} is open in the parent of this process: this is a forked child"
        self.lost = StoreUnavailable(root, found=found, expected=expected, hint=hint, message=message)

    def release(self) -> None:
        """Release the folder; a second call does nothing. Errors are not raised: a stale mark file does no harm."""
        with contextlib.suppress(EverlogError):
            if self.lost is None and self._file.is_current() and _is_ours(self._file, self._header):
                self._file.write_at(_ACTIVITY_AT, _int64(CLOSED))
                self._file.sync()
        self.lost = self.lost or Closed("archive")
        self._file.close()


def _encode(started_ms: int, address: ServiceAddress) -> bytes:
    block = ArchiveMarkHeader.pack(
        version=VERSION,
        activity_timestamp=started_ms,
        start_timestamp=started_ms,
        pid=os.getpid(),
        control_stream_id=address.control_stream_id,
        local_control_stream_id=address.local_control_stream_id,
        events_stream_id=address.events_stream_id,
        header_length=HEADER_LENGTH,
        error_buffer_length=ERROR_LOG_BYTES,
        archive_id=address.archive_id,
    )
    parts = [
        SbeMessageHeader.pack(
            block_length=ArchiveMarkHeader.size,
            template_id=ARCHIVE_TEMPLATE_ID,
            schema_id=ARCHIVE_SCHEMA_ID,
            version=SCHEMA_VERSION,
        ),
        block,
    ]
    channels = address.control_channel, address.local_control_channel, address.events_channel
    for text in (*channels, address.aeron_directory):
        encoded = text.encode("ascii", "replace")
        parts += [len(encoded).to_bytes(4, "little"), encoded]
    return b"".join(parts).ljust(HEADER_LENGTH, b"\0")


def _new_file(header: bytes) -> bytes:
    """Return a new file without an owner; its maker takes it like any other."""
    return (header[:_ACTIVITY_AT] + _int64(CLOSED) + header[_ACTIVITY_AT + 8 :]).ljust(FILE_BYTES, b"\0")


def _read(file: WritableFile) -> ArchiveMark | None:
    try:
        return read_archive_mark(file.read_at(0, FILE_BYTES), MARK_NAME)
    except CorruptData:
        return None


def _is_ours(file: WritableFile, header: bytes) -> bool:
    """Whether process and start time are those of a header."""
    first = ArchiveMarkHeader.field("start_timestamp").offset + _HEADER_AT
    end = ArchiveMarkHeader.field("pid").end + _HEADER_AT
    return file.read_at(first, end - first) == header[first:end]


def _check_stale(storage: WritableStorage, mark: ArchiveMark, now: int, timeout_ms: int) -> None:
    version = mark.header.version
    if version and version >> 16 not in NAMING:
        found = f"a mark file of version {version_text(version)}"
        message = f"{storage.root} has {found}; everlog knows 0.x to 3.x"
        raise StoreUnavailable(storage.root, found=found, expected="0.x to 3.x", message=message)
    # A time in the future means an owner that is just starting, or a clock that was set back.
    silent_ms = now - mark.header.activity_timestamp
    if mark.header.activity_timestamp != CLOSED and silent_ms < timeout_ms:
        found = f"process {mark.header.pid}, active {max(silent_ms, 0) / 1000:.1f} s ago"
        expected = f"no owner, or one that was silent for {timeout_ms / 1000:g} s"
        hint = f"stop that process; if it was killed, wait until it has been silent for {timeout_ms / 1000:g} s"
        raise _owned(storage, found, expected, f"{storage.root} is owned by {found}", hint)


def _owned(storage: WritableStorage, found: str, expected: str, message: str, hint: str) -> StoreUnavailable:
    if storage.exists(LINK_NAME):
        hint += f"; in a copy of its folder, remove {LINK_NAME}, which points to its mark file"
    return StoreUnavailable(storage.root, found=found, expected=expected, hint=hint, message=message)


def _int64(value: int) -> bytes:
    return value.to_bytes(8, "little", signed=True)
