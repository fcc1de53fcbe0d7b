"""The maintenance operations of a running archive. The folder's maintenance decides on a change
(:mod:`everlog.aeron.archive.maintenance.maintenance`); its first steps are applied at once, then OK is sent, and the
files go one a cycle. Source: ArchiveConductor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from everlog.aeron.archive.folder.boundaries import is_frame_boundary
from everlog.aeron.archive.format.segments import parse_segment_name
from everlog.aeron.archive.maintenance import maintenance, migration
from everlog.aeron.archive.maintenance.changes import Change, CutTo, Remove, Rename
from everlog.aeron.archive.maintenance.recording_state import RecordingState, ReplayState, SegmentContent
from everlog.aeron.archive.maintenance.segment_changes import Application, inspect_segment
from everlog.aeron.archive.recording.events import RecordingSignal
from everlog.aeron.archive.recording.refusals import ArchiveError, refusal
from everlog.aeron.archive.service.channels import parse_channel
from everlog.aeron.archive.service.context import RecordedPositions, ServiceContext
from everlog.aeron.archive.service.queries.queries import known_recording
from everlog.aeron.archive.service.requester import Requester, Session
from everlog.aeron.archive.service.upkeep import refusals
from everlog.aeron.archive.service.upkeep.deletion import NULL_ID, Deletion
from everlog.aeron.archive.service.upkeep.refusals import ReplayInProgress
from everlog.aeron.archive.writing.stream_parameters import stripped
from everlog.aeron.frames.constants import HEADER_LENGTH, NULL_POSITION
from everlog.errors import WriteFailed


class OpenReplays(Protocol):
    """What is being replayed."""

    def replays_of(self, recording_id: int) -> Sequence[ReplayInProgress]:
        """The replays of a recording."""

    def end_replays_of(self, recording_id: int) -> None:
        """Have the replays of a recording end."""


class Upkeep:
    """Truncates, purges, detaches, attaches and migrates. Each operation raises :class:`ArchiveError` with the
    original's code and text; operations that delete files answer themselves."""

    def __init__(
        self,
        context: ServiceContext,
        active: RecordedPositions,
        replays: OpenReplays,
        add_session: Callable[[Session], None],
    ) -> None:
        self._context = context
        self._active = active
        self._replays = replays
        self._add_session = add_session
        self._deletions: dict[int, Deletion] = {}

    def is_deleting(self, recording_id: int, position: int) -> bool:
        """Whether files at or behind a position of a recording are being deleted."""
        deletion = self._deletions.get(recording_id)
        return deletion is not None and deletion.highest >= position

    # Operations

    def truncate(self, requester: Requester, correlation_id: int, recording_id: int, position: int) -> None:
        """Cut off everything behind a position, and end the recording's replays."""
        state = self._state(recording_id)
        context = self._context.archive.replays.context(state.recording)

        def is_boundary(at: int) -> bool:
            return is_frame_boundary(self._context.archive.storage, context, at)

        try:
            change = maintenance.truncate(state, position, is_boundary)
        except ArchiveError as error:
            is_inside = state.start < position < (state.recording.stop_position or 0)
            is_frame_start = not is_inside or position % 32 != 0 or is_boundary(position)
            unreadable = None if is_frame_start else self._unreadable(state, position)
            because = refusals.truncation(state, position, is_frame_start=is_frame_start, unreadable=unreadable)
            raise because or error from error
        self._require_no_deletion(recording_id)
        self._replays.end_replays_of(recording_id)
        self._delete(requester, correlation_id, recording_id, change)

    def purge_recording(self, requester: Requester, correlation_id: int, recording_id: int) -> None:
        """Delete a recording."""
        state = self._state(recording_id)
        try:
            change = maintenance.purge_recording(state)
        except ArchiveError as error:
            raise refusals.purge(state) or error from error
        self._require_no_deletion(recording_id)
        self._delete(requester, correlation_id, recording_id, change)

    def detach_segments(self, requester: Requester, correlation_id: int, recording_id: int, position: int) -> int:
        """Move a recording's start; the files before it stay."""
        self._apply(self._detaching(recording_id, position, maintenance.detach_segments))
        return 0

    def delete_detached_segments(self, requester: Requester, correlation_id: int, recording_id: int) -> None:
        """Delete the files before a recording's start."""
        change = maintenance.delete_detached_segments(self._state(recording_id))
        self._require_no_deletion(recording_id)
        self._delete(requester, correlation_id, recording_id, change)

    def purge_segments(self, requester: Requester, correlation_id: int, recording_id: int, position: int) -> None:
        """Move a recording's start and delete the files before it."""
        change = self._detaching(recording_id, position, maintenance.purge_segments)
        self._require_no_deletion(recording_id)
        self._delete(requester, correlation_id, recording_id, change)

    def attach_segments(self, requester: Requester, correlation_id: int, recording_id: int) -> int:
        """Attach the files before a recording's start, unless such files are being deleted."""
        state = self._state(recording_id)
        self._require_no_deletion(recording_id)
        try:
            change = maintenance.attach_segments(state, self._inspect)
        except ArchiveError as error:
            raise refusals.attaching(state, self._inspect, self._context.archive.path) or error from error
        self._apply(change)
        return change.count

    def migrate_segments(self, requester: Requester, correlation_id: int, source_id: int, target_id: int) -> None:
        """Move the files of a recording to an adjoining one."""
        source, target = self._state(source_id), self._state(target_id)
        try:
            change = migration.migrate_segments(source, target, self._inspect)
        except ArchiveError as error:
            raise refusals.migration(source, target, self._context.archive.path) or error from error
        for recording_id in (source_id, target_id):
            self._require_no_deletion(recording_id)
        self._apply(change)
        requester.send_ok(correlation_id, change.count)
        if change.signals:
            self._signal(requester, correlation_id, source_id)

    def update_channel(self, requester: Requester, correlation_id: int, recording_id: int, channel: str) -> int | None:
        """Change a recording's channel in the catalog."""
        archive = self._context.archive
        if recording_id not in archive.catalog or archive.catalog.recording(recording_id).state != "VALID":
            requester.send_unknown_recording(correlation_id, recording_id)
            return None
        stripped_channel = stripped(parse_channel(channel))
        archive.check()
        with archive.lock:
            archive.catalog.replace_channels(recording_id, stripped_channel, channel)
        return 0

    # Parts

    def _state(self, recording_id: int) -> RecordingState:
        self._context.archive.check()
        recording = known_recording(self._context, recording_id)
        replays = [ReplayState(r.segment_base, r.segment_base) for r in self._replays.replays_of(recording_id)]
        recorded = self._active.recorded_position(recording_id)
        return RecordingState.of(recording, self._context.archive.storage.names(), recorded, replays)

    def _inspect(self, state: RecordingState, base: int) -> SegmentContent:
        return inspect_segment(self._context.archive.storage, state, base)

    def _detaching(self, recording_id: int, position: int, decide: Callable[[RecordingState, int], Change]) -> Change:
        state = self._state(recording_id)
        try:
            return decide(state, position)
        except ArchiveError as error:
            raise refusals.detaching(state, position, self._replays.replays_of(recording_id)) or error from error

    def _require_no_deletion(self, recording_id: int) -> None:
        if recording_id in self._deletions:
            text = f"another delete operation in progress for recording id: {recording_id}"
            raise refusal(f"recording {recording_id}", text)

    def _unreadable(self, state: RecordingState, position: int) -> str | None:
        """Why no frame header can be read at a position, in the original's words; ``None`` if one can be."""
        base, archive = state.segments.base(position), self._context.archive
        if position == base:
            return None
        if base not in state.bases:
            return f"{archive.path}/{state.name(base)}"
        with archive.storage.open(state.name(base)) as file:
            is_short = file.size() < position - base + HEADER_LENGTH
        return "failed to read fragment header" if is_short else None

    def _apply(self, change: Change) -> None:
        archive, level = self._context.archive, self._context.settings.catalog_file_sync_level
        run = Application(change, archive.catalog, archive.storage, level)
        with archive.lock:
            while not run.is_done:
                step = run.next_step
                try:
                    run.apply_next()
                except WriteFailed as error:
                    if not isinstance(step, Rename):
                        raise
                    self._context.on_error(error)  # it says why; the client gets the original's text
                    raise refusals.rename(archive.path, step.source, step.target) from error

    def _delete(self, requester: Requester, correlation_id: int, recording_id: int, change: Change) -> None:
        """Apply the steps before the first file goes, answer, and leave the files to a session."""
        archive, settings = self._context.archive, self._context.settings
        # Replays that begin later end at the new stop position.
        ending = self._replays.replays_of(recording_id) if change.ends_replays else []
        run = Application(change, archive.catalog, archive.storage, settings.catalog_file_sync_level)
        with archive.lock:
            while not run.is_done and not isinstance(run.next_step, Remove) and not self._waits(change, run):
                run.apply_next()
        requester.send_ok(correlation_id, change.count)
        if run.is_done:
            self._signal(requester, correlation_id, recording_id)
            return
        deletion = Deletion(
            recording_id,
            run,
            requester,
            correlation_id,
            folder=archive.path,
            highest=_highest(change, archive.catalog.recording(recording_id).segment_file_length),
            is_ready=lambda: not any(each is one for each in self._replays.replays_of(recording_id) for one in ending),
            check=archive.check,
            end=self._end,
            on_error=self._context.on_error,
        )
        self._deletions[recording_id] = deletion
        self._add_session(deletion)

    def _waits(self, change: Change, run: Application) -> bool:
        """Whether the next step must wait for replays to end: it changes what they read."""
        is_first = run.next_step is change.steps[0]
        return bool(change.ends_replays) and not is_first and bool(self._replays.replays_of(change.ends_replays[0]))

    def _end(self, deletion: Deletion) -> None:
        if self._deletions.get(deletion.recording_id) is deletion:
            del self._deletions[deletion.recording_id]

    def _signal(self, requester: Requester, correlation_id: int, recording_id: int) -> None:
        requester.send_signal(correlation_id, recording_id, NULL_ID, NULL_POSITION, RecordingSignal.DELETE)


def _highest(change: Change, segment_length: int) -> int:
    """The position from which on nothing stays, or the last one in the files that go."""
    names = [parse_segment_name(step.file) for step in change.steps if isinstance(step, Remove)]
    cuts = [step.position for step in change.steps if isinstance(step, CutTo)]
    return max([name[1] + segment_length - 1 for name in names if name is not None] + cuts, default=0)
