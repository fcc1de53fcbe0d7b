"""The maintenance operations of an archive that provides its state and applies the changes itself.
:mod:`everlog.aeron.archive.maintenance.maintenance` decides what each one does, and in which order."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

from everlog.aeron.archive.folder.boundaries import is_frame_boundary
from everlog.aeron.archive.folder.recordings import Recording
from everlog.aeron.archive.folder.scan import ScanContext
from everlog.aeron.archive.maintenance import maintenance, migration
from everlog.aeron.archive.maintenance.changes import Change
from everlog.aeron.archive.maintenance.recording_state import RecordingState, SegmentContent
from everlog.aeron.archive.maintenance.segment_changes import inspect_segment
from everlog.core.files.storage import Storage
from everlog.core.options import check_type


@dataclass(frozen=True, kw_only=True)
class MaintainedFolder:
    """The archive under maintenance. ``state_of`` returns a recording's present state, ``context_of`` how to read it;
    ``check`` raises if the folder is no longer the archive's own; ``lock`` is held from the decision until the change
    is applied."""

    files: Storage
    state_of: Callable[[int], RecordingState]
    context_of: Callable[[Recording], ScanContext]
    check: Callable[[], None]
    lock: AbstractContextManager[object]


class Maintenance:
    """Truncates, purges, attaches, detaches, joins and deletes existing recordings: decides on a :class:`Change`, then
    calls ``apply`` with it. ``report`` gets each applied change, without the lock.

    All methods raise :class:`UnknownStream`, :class:`~everlog.aeron.archive.recording.refusals.ArchiveError` with the
    reason (nothing was changed then), :class:`StoreUnavailable` if the folder is no longer the archive's own, and
    :class:`WriteFailed`: the steps done until then stand, no frame that was to stay is touched, and repeating the call
    finishes it. The methods delay recordings that start or stop at the same time, not running ones."""

    def __init__(
        self,
        folder: MaintainedFolder,
        apply: Callable[[Change], None],
        report: Callable[[Change], None] = lambda change: None,
    ) -> None:
        self._folder = folder
        self._apply = apply
        self._report = report

    def truncate_recording(self, recording_id: int, position: int) -> int:
        """Cut off everything after ``position``, the end of a frame of a stopped recording, and end its replays. At the
        start position, only its catalog entry is left. Return the count of deleted files."""
        check_type("position", position, int, "a whole number")

        def decide(state: RecordingState) -> Change:
            context = self._folder.context_of(state.recording)
            return maintenance.truncate(state, position, lambda at: is_frame_boundary(self._folder.files, context, at))

        return self._do(decide, recording_id)

    def purge_recording(self, recording_id: int) -> int:
        """Delete a stopped recording that is not being replayed; its catalog entry stays, marked as deleted. Return the
        count of deleted files."""
        return self._do(maintenance.purge_recording, recording_id)

    def purge_position(
        self, recording_id: int, before_position: int | None = None, keep_bytes: int | None = None
    ) -> int:
        """Return the highest start position that ``purge_segments`` accepts now and that keeps everything from
        ``before_position`` on and the last ``keep_bytes``. If nothing can go, this is the current start position."""
        with self._folder.lock:
            self._folder.check()
            return maintenance.purge_position(self._folder.state_of(recording_id), before_position, keep_bytes)

    def purge_segments(self, recording_id: int, new_start_position: int) -> int:
        """Move a recording's start to the beginning of a later segment, and delete the segments before it. Return the
        count of deleted files."""
        check_type("position", new_start_position, int, "a whole number")
        return self._do(lambda state: maintenance.purge_segments(state, new_start_position), recording_id)

    def detach_segments(self, recording_id: int, new_start_position: int) -> None:
        """Move a recording's start to the beginning of a later segment; the files before it stay in the folder."""
        check_type("position", new_start_position, int, "a whole number")
        self._do(lambda state: maintenance.detach_segments(state, new_start_position), recording_id)

    def delete_detached_segments(self, recording_id: int) -> int:
        """Delete the segment files before a recording's start. Return their count."""
        return self._do(maintenance.delete_detached_segments, recording_id)

    def attach_segments(self, recording_id: int) -> int:
        """Attach the segment files that directly precede a recording's start, after checking them frame by frame.
        Return their count."""
        return self._do(lambda state: maintenance.attach_segments(state, self._inspect), recording_id)

    def migrate_segments(self, source_id: int, target_id: int) -> int:
        """Move all segments of a stopped recording to another recording of the same stream that begins where it stops,
        or stops where it begins. Return the count of moved files."""

        def decide(source: RecordingState) -> Change:
            return migration.migrate_segments(source, self._folder.state_of(target_id), self._inspect)

        return self._do(decide, source_id)

    def _do(self, decide: Callable[[RecordingState], Change], recording_id: int) -> int:
        with self._folder.lock:
            self._folder.check()
            change = decide(self._folder.state_of(recording_id))
            self._apply(change)
        self._report(change)  # without the lock: a listener may wait for a thread that waits for the lock
        return change.count

    def segments_before(self, recording_id: int, position: int) -> list[tuple[int, int, str]]:
        """Return start, end and name of each segment file of the recording that ends at or before ``position``."""
        with self._folder.lock:
            self._folder.check()
            state = self._folder.state_of(recording_id)
        length = state.segments.segment_length
        bases = (base for base in state.bases if state.first_base <= base <= position - length)
        return [(max(base, state.start), base + length, state.name(base)) for base in bases]

    def _inspect(self, state: RecordingState, base: int) -> SegmentContent:
        return inspect_segment(self._folder.files, state, base)
