"""Moving all segments of one recording to another that it adjoins: decided here, nothing is read or written.

The files are renamed one by one, from the place where the two join, and at every moment a recording that has lost files
says so already:

Ends that are left open are found by the files. That the recordings were stopped still shows in the time of the stop, so
nothing of them is taken for torn.

* The source comes first, its segments go before the destination's: the source's end is left open, and its last
  segment is renamed first. A crash leaves a shorter source, and a destination with detached segments.
* The source comes last: the ends of both are left open. The source's start moves behind its first segment, which
  then is renamed. A crash leaves a shorter source, maybe with one detached segment, and a longer destination.

In both cases the detached segments lie between the earlier recording's end and the later one's start. Where they do,
and hold the stream's frames, migrating again attaches them first, and goes on. Source:
ArchiveConductor.migrateSegments.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

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
    """Move all segments of ``source``, which then is empty, to ``target``. Raises :class:`ArchiveError` for streams
    with other parameters, a source that is recorded or replayed, recordings that do not adjoin, or do so in the middle
    of a segment, and for files that are missing or in the way."""
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
    if moved or stop in source.bases:
        _check_aligned(source, target, stop if is_first else source.start)
        steps += _before(source, target, stop, moved) if is_first else _behind(source, target, stop, moved)
    deleted = sum(isinstance(step, Remove) for step in steps)
    signals = (SignalEvent(source.recording_id, NULL_POSITION, RecordingSignal.DELETE),) if moved or deleted else ()
    return Change(tuple(steps), len(moved), signals, in_order=True)


def _check(source: RecordingState, target: RecordingState) -> int:
    """The source's stop position."""
    if source.recording_id == target.recording_id:
        raise refuse(source.where, "the same recording as destination", "another one")
    for state in (source, target):
        require_known(state)
        require_settled(state.recording)
    stop = require_stopped(source, ErrorCode.GENERIC)
    require_no_replay(source)
    for name, text in _SAME:
        found, expected = getattr(source.recording, name), getattr(target.recording, name)
        if found != expected:
            raise refuse(source.where, text.format(found), f"{text.format(expected)}, as {target.where} has it")
    return stop


def _joined(
    earlier: RecordingState, later: RecordingState, join: int, inspect: Inspect, steps: list[Step]
) -> RecordingState:
    """``later``, made to start where ``earlier`` stops by attaching what a migration that broke off has left."""
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
    raise refuse(earlier.where, found, "recordings that adjoin")


def _segments(source: RecordingState, target: RecordingState, stop: int, inspect: Inspect) -> list[int]:
    """Where the segments begin that move. One behind the stop position that is preallocated does not."""
    length = source.segments.segment_length
    moved = list(range(source.first_base, stop, length)) if stop > source.start else []
    for base in moved:
        if base not in source.bases:
            raise refuse(source.name(base), "no file", "a segment of the recording that is to move")
        is_there = base in target.bases
        if is_there and (base < target.start or inspect(target, base).first_offset is not None):
            raise refuse(target.name(base), "a file", "none: a segment is to move there")
    if stop in source.bases and stop not in moved and inspect(source, stop).first_offset is not None:
        hint = f"truncate it to {stop} first, if nothing of them is wanted"
        raise refuse(source.name(stop), "frames behind the stop position", "zeros", hint)
    return moved


def _check_aligned(source: RecordingState, target: RecordingState, join: int) -> None:
    for state in (source, target):
        if state.segments.base(join) != join:
            found = f"they adjoin at {join}, inside of a segment of {state.where}"
            raise refuse(source.where, found, "recordings that adjoin where segments do")


def _before(source: RecordingState, target: RecordingState, stop: int, moved: list[int]) -> Iterator[Step]:
    """The source's segments go before those of the destination."""
    yield LeaveOpen(source.recording_id, stop)
    if stop in source.bases:
        yield Remove(source.name(stop))
    for base in reversed(moved):
        yield Rename(source.name(base), target.name(base), ((source.recording_id, max(base, source.start)),))
    yield SetStart(target.recording_id, source.start)
    yield SetStop(source.recording_id, source.start)


def _behind(source: RecordingState, target: RecordingState, stop: int, moved: list[int]) -> Iterator[Step]:
    """The source's segments go behind those of the destination."""
    source_id, target_id = source.recording_id, target.recording_id
    yield LeaveOpen(target_id, source.start)
    yield LeaveOpen(source_id, stop)
    if stop in source.bases and stop not in moved:
        yield Remove(source.name(stop))
    for base in moved[:-1]:
        following = base + source.segments.segment_length
        yield SetStart(source_id, following)
        yield Rename(source.name(base), target.name(base), ((target_id, following),))
    for base in moved[-1:]:
        yield Rename(source.name(base), target.name(base), ((target_id, stop), (source_id, None)))
    yield SetStop(target_id, stop)
    yield SetStart(source_id, source.start)
    yield SetStop(source_id, source.start)
