"""Why the original refuses an operation, in its order of checks and in its words.

The folder's own maintenance decides whether an operation is done; where it refuses, these say why to the client.
Source: ArchiveConductor.isValidTruncate, isValidPurge, isValidDetach, attachSegments, migrateSegments.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from everlog.aeron.archive.folder.recordings import Recording
from everlog.aeron.archive.maintenance.recording_state import Inspect, RecordingState
from everlog.aeron.archive.recording.refusals import ArchiveError, ErrorCode, refusal
from everlog.aeron.frames.constants import FRAME_ALIGNMENT, NULL_POSITION
from everlog.aeron.frames.position import term_id_of


class ReplayInProgress(Protocol):
    """A replay as the original's texts tell of it."""

    @property
    def state_name(self) -> str:
        """The name of its state."""

    @property
    def session_id(self) -> int:
        """The session id of its publication."""

    @property
    def stream_id(self) -> int:
        """The stream it replays to."""

    @property
    def channel(self) -> str:
        """The channel it replays to."""

    @property
    def segment_base(self) -> int:
        """The beginning of the segment that it reads."""


def truncation(
    state: RecordingState, position: int, *, is_frame_start: bool, unreadable: str | None = None
) -> ArchiveError | None:
    """Why a recording is not truncated to a position. ``unreadable``: why no frame header can be read there."""
    stop = state.recording.stop_position
    if stop is None or state.recorded_position is not None:
        return refusal(state.where, "cannot truncate active recording", ErrorCode.ACTIVE_RECORDING)
    if not state.start <= position <= stop or position % FRAME_ALIGNMENT:
        text = f"invalid position {position}: start={state.start} stop={stop} alignment={FRAME_ALIGNMENT}"
        return refusal(state.where, text, ErrorCode.INVALID_POSITION)
    if not is_frame_start:
        return refusal(state.where, unreadable or f"{position} position not aligned to a data header")
    return None


def purge(state: RecordingState) -> ArchiveError | None:
    """Why a recording is not purged."""
    if state.replays:
        text = f"cannot purge recording with active replay {state.recording_id}"
        return refusal(state.where, text, ErrorCode.ACTIVE_RECORDING)
    if state.recording.stop_position is None or state.recorded_position is not None:
        text = f"cannot purge active recording {state.recording_id}"
        return refusal(state.where, text, ErrorCode.ACTIVE_RECORDING)
    return None


def detaching(state: RecordingState, position: int, replays: Iterable[ReplayInProgress]) -> ArchiveError | None:
    """Why a recording's start is not moved to a position."""
    segments = state.segments
    lowest = state.first_base + segments.segment_length
    if position != segments.base(position):
        return refusal(state.where, f"invalid segment start: newStartPosition={position}")
    if position < lowest:
        return refusal(state.where, f"invalid detach: newStartPosition={position} lowerBound={lowest}")
    end = state.recorded_position if state.recorded_position is not None else state.recording.stop_position
    if end is None:
        return refusal(state.where, f"recording {state.recording_id} is still active")
    highest = segments.base(end)
    if position > highest:
        return refusal(state.where, f"invalid detach: in use, newStartPosition={position} upperBound={highest}")
    before = [replay for replay in replays if replay.segment_base < position]
    if before:
        first = min(before, key=lambda replay: replay.segment_base)
        text = (
            f"invalid detach: replay in progress -  state={first.state_name} newStartPosition={position} "
            f"upperBound={first.segment_base} sessionId={first.session_id} streamId={first.stream_id} "
            f"channel={first.channel}"
        )
        return refusal(state.where, text)
    return None


def attaching(state: RecordingState, inspect: Inspect, folder: str) -> ArchiveError | None:
    """Why the segments before a recording's start are not attached."""
    recording = state.recording
    length, term_length = recording.segment_file_length, recording.term_buffer_length
    base = state.start - length
    while base >= 0 and base in state.detached:
        content = inspect(state, base)
        if content.size != length:
            return refusal(state.where, f"fileLength={content.size} not equal to segmentLength={length}")
        if content.first_offset is None or content.header is None:
            return refusal(state.where, f"fragment not found in first term of segment {folder}/{state.name(base)}")
        expected = term_id_of(base, recording.initial_term_id, term_length)
        if content.header.term_id != expected:
            text = f"term id does not match: actual={content.header.term_id} expected={expected}"
            return refusal(state.where, text)
        if content.header.stream_id != recording.stream_id:
            text = f"stream id does not match: actual={content.header.stream_id} expected={recording.stream_id}"
            return refusal(state.where, text)
        if content.fault is not None:
            return None  # the original does not look at the frames behind the first one
        base -= length
    return None


_SAME = (
    ("SegmentFileLength", "segment_file_length"),
    ("TermBufferLength", "term_buffer_length"),
    ("InitialTermId", "initial_term_id"),
    ("StreamId", "stream_id"),
    ("MtuLength", "mtu_length"),
)


def migration(source: RecordingState, target: RecordingState, folder: str) -> ArchiveError | None:
    """Why the segments of a recording are not moved to another one."""
    where = source.where
    if source.recording.stop_position is None or source.recorded_position is not None:
        return refusal(where, f"recording {source.recording_id} is still active")
    for name, field in _SAME:
        found, expected = getattr(source.recording, field), getattr(target.recording, field)
        if found != expected:
            return refusal(where, f"invalid migrate: src{name}={found} dst{name}={expected}")
    stop = source.recording.stop_position
    if stop == target.start:
        join = stop
    elif source.start == target.recording.stop_position:
        join = source.start
    else:
        ends = f"srcStartPosition={source.start} srcStopPosition={stop} dstStartPosition={target.start}"
        text = f"invalid migrate: src and dst are not contiguous {ends} dstStopPosition={_stop(target.recording)}"
        return refusal(where, text)
    for label, state in (("src", source), ("dst", target)):
        if state.segments.base(join) != join:
            text = (
                f"invalid migrate: join position is not on segment boundary of {label} recording seamPosition={join} "
                f"startPosition={state.start} stopPosition={_stop(state.recording)} "
                f"termBufferLength={state.recording.term_buffer_length} "
                f"segmentFileLength={state.recording.segment_file_length}"
            )
            return refusal(where, text)
    for base in range(source.first_base, stop, source.segments.segment_length):
        if base not in source.bases:
            return refusal(where, f"missing src segment file {folder}/{source.name(base)}")
        if base in target.bases:
            return refusal(where, f"preexisting dst segment file {folder}/{target.name(base)}")
    return None


def rename(folder: str, source: str, target: str) -> ArchiveError:
    """A segment that could not be moved to another recording."""
    return refusal(target, f"failed to rename {folder}/{source} to {folder}/{target}")


def _stop(recording: Recording) -> int:
    return NULL_POSITION if recording.stop_position is None else recording.stop_position
