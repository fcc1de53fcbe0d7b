"""What recordings an open archive has, and how far they are. Source: ArchiveConductor, Catalog.findLast."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod

from everlog.aeron.archive.folder.recordings import Recording
from everlog.aeron.archive.writing.catalog_writer import CatalogWriter
from everlog.aeron.archive.writing.recorder import Recorder


class Listing(ABC):
    """The part of :class:`~everlog.aeron.archive.archive.Archive` that only looks."""

    _catalog: CatalogWriter
    _lock: threading.RLock
    _recorders: dict[int, Recorder]

    @abstractmethod
    def _check(self) -> None:
        """Raises :class:`StoreUnavailable` when the folder is not the archive's own any more."""

    def recordings(
        self,
        *,
        channel_fragment: str = "",
        stream_id: int | None = None,
        from_recording_id: int = 0,
        count: int | None = None,
    ) -> list[Recording]:
        """Valid recordings by id, as they are now: from an id on, at most ``count``, those whose original channel has
        ``channel_fragment`` in it, and of a stream."""
        with self._lock:
            self._check()
            found: list[Recording] = []
            for recording_id in self._catalog.recording_ids():
                if count is not None and len(found) >= count:
                    break
                if recording_id >= from_recording_id:
                    recording = self._catalog.recording(recording_id)
                    if _matches(recording, channel_fragment, stream_id):
                        found.append(recording)
            return found

    def recording(self, recording_id: int) -> Recording:
        """One recording as it is now. Raises :class:`UnknownStream`."""
        with self._lock:
            self._check()
            return self._catalog.recording(recording_id)

    def find_last_matching_recording(
        self,
        channel_fragment: str,
        stream_id: int,
        *,
        session_id: int | None = None,
        min_recording_id: int = 0,
    ) -> Recording | None:
        """The valid recording with the highest id whose channel, stream and session fit."""
        with self._lock:
            self._check()
            for recording_id in reversed(self._catalog.recording_ids()):
                if recording_id < min_recording_id:
                    break
                recording = self._catalog.recording(recording_id)
                if session_id in (None, recording.session_id) and _matches(recording, channel_fragment, stream_id):
                    return recording
            return None

    def start_position(self, recording_id: int) -> int:
        """Where a recording starts."""
        return self.recording(recording_id).start_position

    def stop_position(self, recording_id: int) -> int | None:
        """Where it stops; ``None`` while it is active."""
        return self.recording(recording_id).stop_position

    def recorded_position(self, recording_id: int) -> int:
        """Behind the last message that is acknowledged; where it stops, if it is not active."""
        with self._lock:
            recorder = self._recorders.get(recording_id)
            if recorder is not None:
                return recorder.recorded_position
            recording = self.recording(recording_id)
            return recording.start_position if recording.stop_position is None else recording.stop_position


def _matches(recording: Recording, channel_fragment: str, stream_id: int | None) -> bool:
    if recording.state != "VALID" or stream_id not in (None, recording.stream_id):
        return False
    return (
        not channel_fragment or recording.entry is None or channel_fragment in recording.entry.texts["original_channel"]
    )
