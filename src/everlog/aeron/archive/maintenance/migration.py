"""Decides how all segments of one recording move to an adjoining recording. Nothing is read or written here.

The files are renamed one by one, beginning where the two recordings join. Before a file moves, the catalog stops
listing its positions for the source:

* The source comes first, so its segments go before the destination's: the source's end is left open, and its last
  segment is renamed first. A crash leaves a shorter source, and a destination with detached segments.
* The source comes last: both ends are left open. The source's start moves to its second segment, then its first one is
  renamed. A crash leaves a shorter source, maybe with one detached segment, and a longer destination.

Open ends are recovered from the files. The stop times stay in the catalog: they show that the recordings were stopped,
so no frame of theirs counts as torn.

In both cases the detached segments lie between the earlier recording's end and the later one's start. If they hold the
stream's frames, repeating the migration attaches them first and then continues. Source:
ArchiveConductor.migrateSegments.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from everlog.aeron.archive.format.segments import RENAMED_SUFFIX
from everlog.aeron.archive.maintenance.changes import Change, LeaveOpen, Remove, Rename, SetStart, SetStop, Step
from everlog.aeron.archive.maintenance.maintenance import attachable
from everlog.aeron.archive.maintenance.recording_state import (
    Inspect,
    RecordingState,
    refuse,
    require_known,
    require_no_replay,
    require_settled,
    require_stopped,
)
from everlog.aeron.archive.recording.events import RecordingSignal, SignalEvent
from everlog.aeron.archive.recording.refusals import ErrorCode
from everlog.aeron.frames.constants import NULL_POSITION

_SAME = (
    ("segment_file_length", "segments of {} bytes"),
    ("term_buffer_length", "terms of {} bytes"),
    ("initial_term_id", "initial term id {}"),
    ("stream_id", "stream id {}"),
    ("mtu_length", "an MTU of {} bytes"),
)


def migrate_segments(source: RecordingState, target: RecordingState, inspect: Inspect) -> Change:
    """Move all segments of ``source``, which is empty afterwards, to ``target``. Raises :class:`ArchiveError` if the
    streams' parameters differ, the source is being recorded or replayed, the recordings don't adjoin or adjoin inside a
    segment, or files are missing or in the way."""
    stop = _check(source, target)
    target_stop = None if target.recorded_position is not None else target.recording.stop_position
    steps: list[Step] = []
    if target_stop is not None and target_stop <= source.start and stop != target.start:
        source = _joined(target, source, target_stop, inspect, steps)
        is_first = False
    else:
        target = _joined(source, target, stop, inspect, steps)
        is_first = True
    moved = _segments(source, target, stop, inspect)
    trailing = _trailing(source, stop)
    if moved or trailing:
        _check_aligned(source, target, stop if is_first else source.start)
        move = _prepend if is_first else _append
        steps += move(source, target, stop, moved, trailing)
    deleted = sum(isinstance(step, Remove) for step in steps)
    signals = (SignalEvent(source.recording_id, NULL_POSITION, RecordingSignal.DELETE),) if moved or deleted else ()
    return Change(tuple(steps), len(moved), signals, in_order=True)


def _check(source: RecordingState, target: RecordingState) -> int:
    """Return the source's stop position."""
    if source.recording_id == target.recording_id:
        message = f"{source.where} can't be migrated to itself"
        raise refuse(source.where, "the same recording as destination", "another recording", message=message)
    for state in (source, target):
        require_known(state)
        require_settled(state.recording)
    stop = require_stopped(source, ErrorCode.GENERIC)
    require_no_replay(source)
    for name, text in _SAME:
        found, expected = getattr(source.recording, name), getattr(target.recording, name)
        if found != expected:
            message = f"{source.where} has {text.format(found)}, {target.where} {text.format(expected)}"
            raise refuse(source.where, text.format(found), text.format(expected), message=message)
    return stop


def _joined(
    earlier: RecordingState, later: RecordingState, join: int, inspect: Inspect, steps: list[Step]
) -> RecordingState:
    """Return ``later`` with its start where ``earlier`` stops, attaching what an interrupted migration has left."""
    if later.start == join:
        return later
    if later.start > join:
        for start, _ in attachable(later, inspect):
            if start == join:
                steps.append(SetStart(later.recording_id, join))
                return replace(later, recording=replace(later.recording, start_position=join))
            if start < join:
                break
    found = f"{earlier.where} from {earlier.start} to {join}, {later.where} from {later.start} on"
    message = f"the recordings don't adjoin: {found}"
    raise refuse(earlier.where, found, "recordings that adjoin", message=message)


def _segments(source: RecordingState, target: RecordingState, stop: int, inspect: Inspect) -> list[int]:
    """Return where the moving segments begin. A preallocated one after the stop position doesn't move."""
    length = source.segments.segment_length
    moved = list(range(source.first_base, stop, length)) if stop > source.start else []
    for base in moved:
        if base not in source.bases:
            message = f"{source.name(base)} is missing, so {source.where} can't be migrated"
            raise refuse(source.name(base), "no file", "a segment of the recording", message=message)
        is_there = base in target.bases
        if is_there and (base < target.start or inspect(target, base).first_offset is not None):
            message = f"{target.name(base)} is in the way: a segment would move there"
            raise refuse(target.name(base), "a file", "none", message=message)
    if stop in source.bases and inspect(source, stop).first_offset is not None:
        hint = f"if they aren't needed, truncate {source.where} to {stop} first"
        found = f"frames after the stop position of {source.where}"
        raise refuse(source.name(stop), found, "zeros", hint, message=f"{source.name(stop)} has {found}")
    return moved


def _trailing(source: RecordingState, stop: int) -> list[str]:
    """Return the file that begins at the stop position, if there is one: preallocated, or renamed to be deleted."""
    if stop in source.bases:
        return [source.name(stop)]
    renamed = source.name(stop) + RENAMED_SUFFIX
    return [renamed] if renamed in source.others and source.segments.base(stop) == stop else []


def _check_aligned(source: RecordingState, target: RecordingState, join: int) -> None:
    for state in (source, target):
        if state.segments.base(join) != join:
            message = f"{source.where} and {target.where} adjoin at {join}, inside a segment of {state.where}"
            expected = "recordings that adjoin at the beginning of a segment"
            raise refuse(source.where, f"a join at {join}", expected, message=message)


def _prepend(
    source: RecordingState, target: RecordingState, stop: int, moved: list[int], trailing: list[str]
) -> Iterator[Step]:
    """Move the source's segments before the destination's."""
    yield LeaveOpen(source.recording_id, stop)
    yield from map(Remove, trailing)
    for base in reversed(moved):
        yield Rename(source.name(base), target.name(base), ((source.recording_id, max(base, source.start)),))
    yield SetStart(target.recording_id, source.start)
    yield SetStop(source.recording_id, source.start)


def _append(
    source: RecordingState, target: RecordingState, stop: int, moved: list[int], trailing: list[str]
) -> Iterator[Step]:
    """Move the source's segments after the destination's."""
    source_id, target_id = source.recording_id, target.recording_id
    yield LeaveOpen(target_id, source.start)
    yield LeaveOpen(source_id, stop)
    yield from map(Remove, trailing)
    for base in moved[:-1]:
        following = base + source.segments.segment_length
        yield SetStart(source_id, following)
        yield Rename(source.name(base), target.name(base), ((target_id, following),))
    for base in moved[-1:]:
        yield Rename(source.name(base), target.name(base), ((target_id, stop), (source_id, None)))
    yield SetStop(target_id, stop)
    yield SetStart(source_id, source.start)
    yield SetStop(source_id, source.start)
