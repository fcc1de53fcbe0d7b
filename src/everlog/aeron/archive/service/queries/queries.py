"""Positions of recordings, lists of them, and the last one that matches. Source: ArchiveConductor, Catalog.findLast."""

from __future__ import annotations

from everlog.aeron.archive.folder.recordings import Recording
from everlog.aeron.archive.format.catalog import CatalogEntry
from everlog.aeron.archive.recording.refusals import ArchiveError, ErrorCode
from everlog.aeron.archive.service.context import RecordedPositions, ServiceContext
from everlog.aeron.archive.service.queries.listing import RecordingAnswer, RecordingListing
from everlog.aeron.archive.service.requester import Requester, Session
from everlog.aeron.frames.constants import NULL_POSITION


def known_recording(context: ServiceContext, recording_id: int) -> Recording:
    """Return a valid recording. Raises :class:`ArchiveError`."""
    catalog = context.archive.catalog
    if recording_id in catalog:
        recording = catalog.recording(recording_id)
        if recording.state == "VALID":
            return recording
    raise unknown_recording(recording_id)


def unknown_recording(recording_id: int) -> ArchiveError:
    """The refusal of an id that no valid recording has."""
    message = f"unknown recording id: {recording_id}"
    error = ArchiveError("recording", found=str(recording_id), expected="a recording's id", message=message)
    return error.coded(ErrorCode.UNKNOWN_RECORDING)


class Queries:
    """Answers about the recordings of the catalog, and of ``active`` ones."""

    def __init__(self, context: ServiceContext, active: RecordedPositions) -> None:
        self._context = context
        self._active = active

    def start_position(self, recording_id: int) -> int:
        """Return the position at which a recording starts. Raises :class:`ArchiveError`."""
        return known_recording(self._context, recording_id).start_position

    def stop_position(self, recording_id: int) -> int:
        """Return the position at which a recording stops; -1 while it is active. Raises :class:`ArchiveError`."""
        stop = known_recording(self._context, recording_id).stop_position
        return NULL_POSITION if stop is None else stop

    def recording_position(self, recording_id: int) -> int:
        """Return the recorded position of an active recording; -1 if it is not active. Raises :class:`ArchiveError`."""
        known_recording(self._context, recording_id)
        position = self._active.recorded_position(recording_id)
        return NULL_POSITION if position is None else position

    def max_recorded_position(self, recording_id: int) -> int:
        """Return the recorded position of an active recording, the stop position of another one. Raises
        :class:`ArchiveError`."""
        recording = known_recording(self._context, recording_id)
        position = self._active.recorded_position(recording_id)
        if position is None:
            position = recording.stop_position
        return NULL_POSITION if position is None else position

    def find_last_matching(self, min_recording_id: int, session_id: int, stream_id: int, fragment: str) -> int:
        """Return the highest id of the valid recordings from ``min_recording_id`` on with this session and stream, and
        ``fragment`` in their channel; -1 if there is none. Raises :class:`ArchiveError`."""
        if min_recording_id < 0:
            message = f"minRecordingId={min_recording_id} < 0"
            error = ArchiveError("minRecordingId", found=str(min_recording_id), expected="0 or more", message=message)
            raise error.coded(ErrorCode.UNKNOWN_RECORDING)
        catalog = self._context.archive.catalog
        for recording_id in catalog.ids_backwards(min_recording_id):
            recording = catalog.recording(recording_id)
            is_meant = (recording.session_id, recording.stream_id, recording.state) == (session_id, stream_id, "VALID")
            if is_meant and fragment in catalog.entry(recording_id).texts["original_channel"]:
                return recording_id
        return -1

    def list_recordings(
        self, requester: Requester, correlation_id: int, from_recording_id: int, count: int
    ) -> Session | None:
        """Begin a list of recordings from an id on."""
        return RecordingListing(self._context.archive.catalog, requester, correlation_id, from_recording_id, count)

    def list_recordings_for_uri(
        self,
        requester: Requester,
        correlation_id: int,
        from_recording_id: int,
        count: int,
        stream_id: int,
        fragment: str,
    ) -> Session | None:
        """Begin a list of the recordings of a stream with ``fragment`` in their channel."""

        def accepts(entry: CatalogEntry) -> bool:
            return entry.values[_STREAM_ID] == stream_id and fragment in entry.texts["original_channel"]

        catalog = self._context.archive.catalog
        return RecordingListing(catalog, requester, correlation_id, from_recording_id, count, accepts)

    def list_recording(self, requester: Requester, correlation_id: int, recording_id: int) -> Session | None:
        """Begin the list of one recording; answers RECORDING_UNKNOWN if there is none."""
        try:
            known_recording(self._context, recording_id)
        except ArchiveError:
            requester.send_unknown_recording(correlation_id, recording_id)
            return None
        return RecordingAnswer(self._context.archive.catalog, requester, correlation_id, recording_id)


_STREAM_ID = 12
"""Place of the stream id among an entry's values."""
