"""Decides what maintenance does to existing recordings, from the state of the catalog, the folder, the open recorders
and the replays. Nothing is read or written here.

The steps of a :class:`Change` are ordered so that a crash after any of them leaves sound recordings:

=====================  ==============================================================  =============================
operation              a crash in it leaves                                            finished by
=====================  ==============================================================  =============================
truncate               the new stop position without a time, maybe frames after it     opening the archive for
                                                                                       writing, or repeating it
purge a recording      a deleted recording with files                                  repeating it
detach, attach         the old or the new start                                        repeating it
delete detached        detached segments                                               repeating it
purge segments         detached segments                                               delete detached segments
migrate                see :mod:`everlog.aeron.archive.maintenance.migration`          repeating it
=====================  ==============================================================  =============================

Aeron truncates in the same order, stop position first, but then nothing marks the frames after it as removed: its own
``verify`` adds them to the recording again. And if the recording is extended over them and the archive is killed, an
old frame that happens to begin where the new ones end counts as one of them. In the opposite order, frames first, the
catalog would list positions that are gone. So everlog sets the stop position first and clears the stop time in the same
write; the stop time comes back when nothing is left after the stop position. Real archives never leave a stop position
without its time, and accept one.

Source: ArchiveConductor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from everlog.aeron.archive.maintenance.changes import Change, CutTo, Erase, Remove, SetStart, SetState, Settle, Step
from everlog.aeron.archive.maintenance.recording_state import (
    Inspect,
    RecordingState,
    SegmentContent,
    refuse,
    require_known,
    require_no_replay,
    require_settled,
    require_stopped,
)
from everlog.aeron.archive.recording.events import RecordingSignal, SignalEvent
from everlog.aeron.archive.recording.refusals import ErrorCode
from everlog.aeron.frames.constants import FRAME_ALIGNMENT, NULL_POSITION
from everlog.aeron.frames.position import term_id_of, term_offset_of
from everlog.errors import UsageError


@dataclass(frozen=True, slots=True)
class Extension:
    """The stream that would extend a recording: its join position and its parameters."""

    join_position: int
    initial_term_id: int
    term_buffer_length: int
    mtu_length: int


def check_extension(state: RecordingState, extension: Extension) -> int:
    """Return the position at which the stream continues the recording. Raises :class:`ArchiveError` if it can't."""
    require_known(state)
    recording, stop = state.recording, require_stopped(state)
    require_settled(recording, ErrorCode.INVALID_EXTENSION)
    numbers = (
        ("join position", extension.join_position, stop),
        ("initial term id", extension.initial_term_id, recording.initial_term_id),
        ("term length", extension.term_buffer_length, recording.term_buffer_length),
        ("MTU", extension.mtu_length, recording.mtu_length),
    )
    code = ErrorCode.INVALID_EXTENSION
    for what, number, expected in numbers:
        if number != expected:
            message = f"{state.where} can't be extended: the stream has {what} {number}, the recording {expected}"
            raise refuse(state.where, f"{what} {number}", str(expected), code=code, message=message)
    return stop


# Operations


def truncate(state: RecordingState, position: int, is_frame_boundary: Callable[[int], bool]) -> Change:
    """Return the change that cuts off everything after ``position``, the end of a frame. At the start position, it
    removes all files with the recording's id, detached ones too; at the stop position, anything after it.
    ``is_frame_boundary`` says whether a frame ends at a position. Raises :class:`ArchiveError`."""
    require_known(state)
    stop = require_stopped(state)
    _check_truncation(state, position, stop, is_frame_boundary)
    removed, erased = _removals_after(state, position)
    steps: list[Step] = [*removed, *erased]
    if position < stop:
        steps.insert(0, CutTo(state.recording_id, position))
    if position < stop or state.recording.truncation_pending:
        timestamp = state.recording.stop_timestamp
        steps.append(Settle(state.recording_id, position, timestamp))
    return Change(tuple(steps), len(removed), _deleted(state), ends_replays=(state.recording_id,))


def _removals_after(state: RecordingState, position: int) -> tuple[list[Remove], list[Erase]]:
    """Return the steps that remove everything after a position, the last file first."""
    base = state.segments.base(position)
    offset, kept = position - base, position > state.start
    files = [state.name(b) for b in reversed(state.bases) if not kept or b > base or (b == base and not offset)]
    if not kept:
        files += state.others
    erased = []
    if kept and offset and base in state.bases:
        erased.append(Erase(state.name(base), offset, state.segments.segment_length))
    return [Remove(name) for name in files], erased


def _check_truncation(
    state: RecordingState, position: int, stop: int, is_frame_boundary: Callable[[int], bool]
) -> None:
    hint = None
    if not state.start <= position <= stop:
        reason = f"it reaches from {state.start} to {stop}"
    elif position % FRAME_ALIGNMENT:
        reason = f"frames begin at multiples of {FRAME_ALIGNMENT}"
    elif position not in (state.start, stop) and not is_frame_boundary(position):
        reason = "that is inside a frame or after a damaged one"
        hint = "everlog read --frames lists the frames"
    else:
        return
    raise refuse(
        state.where,
        f"position {position}",
        f"the end of a frame from {state.start} to {stop}",
        hint,
        ErrorCode.INVALID_POSITION,
        f"{state.where} can't be truncated to position {position}: {reason}",
    )


def purge_recording(state: RecordingState) -> Change:
    """Delete a recording: mark it as deleted, then delete all its files. If it is already marked, delete the files that
    are left. Raises :class:`ArchiveError`."""
    files = [*map(state.name, state.bases), *state.others]
    steps: list[Step] = [Remove(name) for name in files]
    if not (state.recording.is_deleted and files):
        require_known(state)
        require_no_replay(state)
        require_stopped(state)
        steps.insert(0, SetState(state.recording_id, "DELETED"))
    return Change(tuple(steps), len(files), _deleted(state))


def detach_segments(state: RecordingState, new_start: int) -> Change:
    """Move the recording's start to ``new_start``, the beginning of a segment; the files before it stay. Raises
    :class:`ArchiveError`."""
    _check_detach(state, new_start)
    return Change((SetStart(state.recording_id, new_start),))


def purge_segments(state: RecordingState, new_start: int) -> Change:
    """Move the recording's start to ``new_start``, the beginning of a segment, and delete the files between the old
    start and the new one; files detached earlier stay. Raises :class:`ArchiveError`."""
    _check_detach(state, new_start)
    going = [base for base in state.bases if state.first_base <= base < new_start]
    steps: list[Step] = [SetStart(state.recording_id, new_start), *(Remove(state.name(base)) for base in going)]
    return Change(tuple(steps), len(going), _deleted(state))


def delete_detached_segments(state: RecordingState) -> Change:
    """Delete the files before the start position, the oldest first. Raises :class:`ArchiveError`."""
    require_known(state)
    steps = tuple(Remove(state.name(base)) for base in state.detached)
    return Change(steps, len(steps), _deleted(state))


def attach_segments(state: RecordingState, inspect: Inspect) -> Change:
    """Attach the segment files that directly precede the start position, and move the recording's start to the first
    of them. All or none: raises :class:`ArchiveError` if one of them holds anything but the stream's frames up to its
    end."""
    require_known(state)
    start, count = state.start, 0
    for start, count in attachable(state, inspect):  # noqa: B007 - the last ones are wanted
        pass
    steps = (SetStart(state.recording_id, start),) if count else ()
    return Change(steps, count)


def attachable(state: RecordingState, inspect: Inspect) -> Iterator[tuple[int, int]]:
    """Yield, for each segment that can be attached, the start position it would give, and the count so far. Raises
    :class:`ArchiveError`."""
    base = state.first_base
    if base != state.start:
        return  # the recording began in the middle of a segment
    length = state.segments.segment_length
    there, count = frozenset(state.detached), 0
    while base - length in there:
        base -= length
        first = _first_frame(state, base, inspect(state, base))
        count += 1
        yield base + first, count
        if first:
            return


def _first_frame(state: RecordingState, base: int, content: SegmentContent) -> int:
    """Return the offset of a file's first frame. Raises :class:`ArchiveError` if the file isn't the recording's."""
    recording, name = state.recording, state.name(base)
    length, term_length = recording.segment_file_length, recording.term_buffer_length
    if content.size != length:
        message = f"{name} has {content.size} bytes; segments of {state.where} have {length}"
        raise refuse(name, f"{content.size} bytes", f"a segment of {length} bytes", message=message)
    first, header = content.first_offset, content.header
    if first is None or header is None:
        found = "no frame in the first term"
        raise refuse(name, found, "frames of the recording", message=f"{name} has {found}")
    numbers = (
        ("stream id", header.stream_id, recording.stream_id),
        ("term id", header.term_id, term_id_of(base + first, recording.initial_term_id, term_length)),
        ("term offset", header.term_offset, term_offset_of(base + first, term_length)),
    )
    for what, number, expected in numbers:
        if number != expected:
            message = f"{name} has {what} {number} in its first frame; {state.where} has {expected} there"
            raise refuse(name, f"{what} {number} in the first frame", str(expected), message=message)
    if content.fault is not None:
        fault = content.fault
        message = f"{name} is damaged at offset {fault.offset}: {fault.found}; expected {fault.expected}"
        hint = f"{fault.code}; only segments with whole frames up to their end can be attached"
        raise refuse(name, fault.found, fault.expected, hint, message=message)
    return first


def _check_detach(state: RecordingState, new_start: int) -> None:
    require_known(state)
    segments, found = state.segments, f"start position {new_start}"
    lowest, highest = state.first_base + segments.segment_length, _highest_start(state, with_replays=False)
    expected = f"the beginning of a segment from {lowest} to {highest}"
    message = f"{state.where} can't start at {new_start}: give {expected}"
    if highest < lowest:
        expected = "a recording of more than one segment"
        message = f"{state.where} can't start at {new_start}: it has only one segment"
    if new_start < 0 or new_start != segments.base(new_start):
        length, first = segments.segment_length, state.first_base
        beginnings = f"segments of {length} bytes begin at {first}, {first + length}, ..."
        raise refuse(state.where, found, expected, beginnings, message=message)
    if not lowest <= new_start <= highest:
        hint = None
        if new_start == state.start and state.detached:
            hint = "it starts there already; delete-detached-segments deletes the files before it"
        raise refuse(state.where, found, expected, hint, message=message)
    replayed = min((r.segment_base for r in state.replays if r.segment_base < new_start), default=None)
    if replayed is not None:
        message = f"{state.where} can't start at {new_start}: the segment at {replayed} is being replayed"
        raise refuse(state.where, found, f"at most {replayed}", "stop the replay first", message=message)


def _highest_start(state: RecordingState, *, with_replays: bool) -> int:
    """Return the beginning of the segment that holds the end, or of the first segment that is replayed."""
    end = state.recorded_position
    if end is None:
        end = require_stopped(state)
    bases = [state.segments.base(end)]
    if with_replays:
        bases += [replay.segment_base for replay in state.replays]
    return min(bases)


def purge_position(state: RecordingState, before_position: int | None = None, keep_bytes: int | None = None) -> int:
    """Return the highest start position that a purge may give the recording. Everything from ``before_position`` on,
    the last ``keep_bytes`` and all that is being replayed stay. If nothing can go, this is the current start position.
    Raises :class:`ArchiveError`, and :class:`UsageError` if neither limit is given or one is negative."""
    require_known(state)
    given = [value for value in (before_position, keep_bytes) if value is not None]
    if not given or min(given) < 0:
        raise UsageError(
            "before_position, keep_bytes",
            found=", ".join(map(str, given)) or "neither",
            expected="0 or more",
            message="give before_position or keep_bytes, 0 or more",
        )
    end = require_stopped(state) if state.recorded_position is None else state.recorded_position
    limits = [_highest_start(state, with_replays=True)]
    if before_position is not None:
        limits.append(before_position)
    if keep_bytes is not None:
        limits.append(end - keep_bytes)
    limit, segments = min(limits), state.segments
    if limit < state.first_base + segments.segment_length:
        return state.start
    return segments.base(limit)


def _deleted(state: RecordingState) -> tuple[SignalEvent, ...]:
    return (SignalEvent(state.recording_id, NULL_POSITION, RecordingSignal.DELETE),)
