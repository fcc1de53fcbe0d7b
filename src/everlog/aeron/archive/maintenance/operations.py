"""What an open archive does to recordings that are there: they are cut, their oldest segments go or come back, they are
joined and removed. What is decided, and in which order it is done, is in
:mod:`everlog.aeron.archive.maintenance.maintenance`."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable

from everlog.aeron.archive.folder.boundaries import is_frame_boundary
from everlog.aeron.archive.folder.recordings import Recording
from everlog.aeron.archive.folder.scan import ScanContext
from everlog.aeron.archive.maintenance import maintenance, migration
from everlog.aeron.archive.maintenance.changes import Change
from everlog.aeron.archive.maintenance.recording_state import RecordingState, ReplayState, SegmentContent
from everlog.aeron.archive.maintenance.segment_changes import apply, inspect_segment
from everlog.aeron.archive.recording.events import Events
from everlog.aeron.archive.recording.options import ArchiveOptions
from everlog.aeron.archive.recording.replay import Replay
from everlog.aeron.archive.writing.catalog_writer import CatalogWriter
from everlog.aeron.archive.writing.recorder import Recorder
from everlog.core.files.storage import Storage
from everlog.core.files.writable import WritableStorage
from everlog.core.options import check_type


class Maintenance(ABC):
    """The part of :class:`~everlog.aeron.archive.archive.Archive` that is about recordings that are there.

    All methods raise :class:`UnknownStream`, :class:`~everlog.aeron.archive.recording.refusals.ArchiveError` with the
    reason (nothing was changed then), :class:`StoreUnavailable` when the folder is not the archive's own any more, and
    :class:`WriteFailed`: what was done until then stands, no frame that was to stay is touched, and the same again
    finishes it. They hold up recordings that start or stop meanwhile, not those that go on."""

    options: ArchiveOptions
    _storage: WritableStorage
    _catalog: CatalogWriter
    _events: Events
    _lock: threading.RLock
    _recorders: dict[int, Recorder]
    _replays: set[Replay]

    @property
    def _files(self) -> Storage:
        """What is read."""
        return self._storage

    @abstractmethod
    def _check(self) -> None:
        """Raises :class:`StoreUnavailable` when the folder is not the archive's own any more."""

    @abstractmethod
    def _context(self, recording: Recording) -> ScanContext:
        """How to read a recording as it is now."""

    def truncate_recording(self, recording_id: int, position: int) -> int:
        """Cut off everything behind ``position``, the end of a frame of a stopped recording; the count of files that
        were deleted. To its start: nothing is left of it but its entry in the catalog. Its replays are ended."""

        check_type("position", position, int, "a whole number")

        def decide(state: RecordingState) -> Change:
            context = self._context(state.recording)
            return maintenance.truncate(state, position, lambda at: is_frame_boundary(self._files, context, at))

        return self._do(decide, recording_id)

    def purge_recording(self, recording_id: int) -> int:
        """Delete a stopped recording that nobody replays; the count of files that were deleted. Its entry in the
        catalog stays, as deleted."""
        return self._do(maintenance.purge_recording, recording_id)

    def purge_position(
        self, recording_id: int, before_position: int | None = None, keep_bytes: int | None = None
    ) -> int:
        """The highest start position that ``purge_segments`` takes now, so that nothing from ``before_position`` on,
        and nothing of the last ``keep_bytes``, goes; the start position where nothing can go."""
        with self._lock:
            self._check()
            return maintenance.purge_position(self._state(recording_id), before_position, keep_bytes)

    def purge_segments(self, recording_id: int, new_start_position: int) -> int:
        """Let a recording start at the beginning of another segment, and delete the segments before; the count of
        files that were deleted."""
        check_type("position", new_start_position, int, "a whole number")
        return self._do(lambda state: maintenance.purge_segments(state, new_start_position), recording_id)

    def detach_segments(self, recording_id: int, new_start_position: int) -> None:
        """Let a recording start at the beginning of another segment; the files before it stay in the folder."""
        check_type("position", new_start_position, int, "a whole number")
        self._do(lambda state: maintenance.detach_segments(state, new_start_position), recording_id)

    def delete_detached_segments(self, recording_id: int) -> int:
        """Delete the files that lie before a recording's start; their count."""
        return self._do(maintenance.delete_detached_segments, recording_id)

    def attach_segments(self, recording_id: int) -> int:
        """Let a recording start where the files begin that lie right before its start, which are checked frame by
        frame; their count."""
        return self._do(lambda state: maintenance.attach_segments(state, self._inspect), recording_id)

    def migrate_segments(self, source_id: int, target_id: int) -> int:
        """Move all segments of a stopped recording to another one of the same stream that begins where it stops, or
        stops where it begins; the count of files that were moved."""

        def decide(source: RecordingState) -> Change:
            return migration.migrate_segments(source, self._state(target_id), self._inspect)

        return self._do(decide, source_id)

    def _do(self, decide: Callable[[RecordingState], Change], recording_id: int) -> int:
        with self._lock:
            self._check()
            change = decide(self._state(recording_id))
            self._carry_out(change)
        self._tell(change)  # without the lock: who listens may wait for a thread that waits for it
        return change.count

    def _carry_out(self, change: Change) -> None:
        for replay in [r for r in self._open_replays() if r.recording_id in change.ends_replays]:
            replay.close()
        apply(change, self._catalog, self._storage, self.options.catalog_file_sync_level or 0)

    def _tell(self, change: Change) -> None:
        for signal in change.signals:
            self._events.tell(signal)

    def segments_before(self, recording_id: int, position: int) -> list[tuple[int, int, str]]:
        """The recording's segment files that end at ``position`` or before: start and end position, and name."""
        with self._lock:
            self._check()
            state = self._state(recording_id)
        length = state.segments.segment_length
        bases = (base for base in state.bases if state.first_base <= base <= position - length)
        return [(max(base, state.start), base + length, state.name(base)) for base in bases]

    def _open_replays(self) -> set[Replay]:
        """Copied in one step: replays close in threads that don't have the lock."""
        return self._replays.copy()

    def _recording(self, recording_id: int) -> Recording:
        return self._catalog.recording(recording_id)

    def _state(self, recording_id: int) -> RecordingState:
        """Names are read anew: somebody may have brought files to be attached."""
        recording = self._recording(recording_id)
        recorder = self._recorders.get(recording_id)
        replays = [
            ReplayState(r.position, r.segment_base) for r in self._open_replays() if r.recording_id == recording_id
        ]
        recorded = None if recorder is None else recorder.recorded_position
        return RecordingState.of(recording, self._files.names(), recorded, replays)

    def _inspect(self, state: RecordingState, base: int) -> SegmentContent:
        return inspect_segment(self._files, state, base)
