"""Whether a recording may be started or extended. Source: ArchiveConductor (startRecording, extendRecording,
isLowStorageSpace)."""

from __future__ import annotations

import os
from collections.abc import Callable

from everlog.aeron.archive.folder.recordings import Recording
from everlog.aeron.archive.recording.refusals import ArchiveError, ErrorCode
from everlog.aeron.archive.service.context import ServiceContext
from everlog.aeron.frames.constants import NULL_POSITION


def usable_space_of(folder: str) -> int:
    """The bytes that this process may still write to a folder's file system. Raises :class:`OSError`."""
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize


class Admission:
    """Refuses what must not be recorded. ``usable_space`` returns bytes; ``is_active`` tells whether a recording is
    being recorded, ``is_deleting`` whether files of a recording at or after a position are being deleted."""

    def __init__(
        self, context: ServiceContext, usable_space: Callable[[], int], is_active: Callable[[int], bool]
    ) -> None:
        self.is_deleting: Callable[[int, int], bool] = lambda recording_id, position: False
        self._archive = context.archive
        self._settings = context.settings
        self._usable_space = usable_space
        self._is_active = is_active

    def known(self, recording_id: int) -> Recording:
        """Return a valid recording. Raises :class:`ArchiveError` if there is none with this id."""
        with self._archive.lock:
            if recording_id in self._archive.catalog:
                recording = self._archive.catalog.recording(recording_id)
                if recording.state == "VALID":
                    return recording
        message = f"unknown recording id: {recording_id}"
        error = ArchiveError(f"recording {recording_id}", found="no such recording", message=message)
        raise error.coded(ErrorCode.UNKNOWN_RECORDING)

    def check_count(self, count: int, *, extends: bool) -> None:
        """Raises :class:`ArchiveError` if ``count`` subscriptions are as many as the settings allow."""
        limit = self._settings.max_concurrent_recordings
        if count >= limit:
            message = f"max concurrent recordings reached {'at ' if extends else ''}{limit}"
            error = ArchiveError("recordings", found=str(count), expected=f"fewer than {limit}", message=message)
            raise error.coded(ErrorCode.MAX_RECORDINGS)

    def check_space(self) -> None:
        """Raises :class:`ArchiveError` if the file system has too little space left for another recording."""
        threshold, usable = self._settings.low_storage_space_threshold, self._usable_space()
        if usable <= threshold:
            message = f"low storage threshold={threshold} <= usableSpace={usable}"
            error = ArchiveError("storage", found=str(usable), expected=f"more than {threshold}", message=message)
            raise error.coded(ErrorCode.STORAGE_SPACE)

    def check_stream(self, recording: Recording, stream_id: int) -> None:
        """Raises :class:`ArchiveError` if the recording is one of another stream id."""
        if stream_id != recording.stream_id:
            where, own = f"recording {recording.recording_id}", recording.stream_id
            message = f"cannot extend {where} with streamId={stream_id} for existing streamId={own}"
            error = ArchiveError(where, found=f"stream {stream_id}", expected=f"stream {own}", message=message)
            raise error.coded(ErrorCode.UNKNOWN_RECORDING)

    def check_extensible(self, recording: Recording, stream: str = "") -> None:
        """Raises :class:`ArchiveError` while the recording is active, or is being deleted at its end. ``stream`` is the
        stream that has come to extend it, for the text."""
        where = f"recording {recording.recording_id}"
        if self._is_active(recording.recording_id):
            message = f"cannot extend active {where}" + (stream and f" {stream}")
            error = ArchiveError(where, found="active", expected="stopped", message=message)
            raise error.coded(ErrorCode.ACTIVE_RECORDING)
        stop = NULL_POSITION if recording.stop_position is None else recording.stop_position
        if self.is_deleting(recording.recording_id, stop):
            message = f"cannot extend {where} due to an outstanding delete operation" + (stream and f": {stream}")
            raise ArchiveError(where, found="a deletion under way", message=message)
