"""What is done to recordings that are there: decided here, from what the catalog, the folder and the open recorders and
replays say. Nothing is read or written.

The steps of a :class:`Change` are in an order in which a crash behind any of them leaves sound recordings:

=====================  ==============================================================  =============================
operation              a crash in it leaves                                            finished by
=====================  ==============================================================  =============================
truncate               the new stop position without a time, maybe frames behind it    opening the archive for
                                                                                       writing, or the same again
purge a recording      a deleted recording with files                                  the same again
detach, attach         the old or the new start                                        the same again
delete detached        detached segments                                               the same again
purge segments         detached segments                                               delete detached segments
migrate                see :mod:`everlog.aeron.archive.maintenance.migration`                      the same again
=====================  ==============================================================  =============================

The original truncates in the same order, stop position first, and nothing tells then that frames behind it are to go:
its own ``verify`` takes them for the recording again, and when the recording is extended over them and the archive is
killed, an old frame that happens to begin where the new ones end is taken for one of them. The other way round, frames
first, the catalog would promise what is gone. So the stop position comes first, and with it, in one write, the time of
the stop is taken away; it comes back when nothing is behind the stop position any more. Real archives never leave a
stop position without its time, and do not mind it.

Source: ArchiveConductor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from everlog.aeron.archive.maintenance.changes import Change, CutTo, Erase, Remove, SetStart, SetState, Settle, Step
from everlog.aeron.archive.maintenance.recording_state import (
    DELETE_SUFFIX,
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
    """The stream that would go on with a recording: where it joins, and what its frames are like."""

    join_position: int
    initial_term_id: int
    term_buffer_length: int
    mtu_length: int


def check_extension(state: RecordingState, extension: Extension) -> int:
    """Where the stream goes on with the recording. Raises :class:`ArchiveError` where it can't."""
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
            raise refuse(state.where, f"{what} {number}", f"{expected}, as the recording has it", code=code)
    return stop


# Operations


def truncate(state: RecordingState, position: int, is_frame_boundary: Callable[[int], bool]) -> Change:
    """Cut off everything behind ``position``, the end of a frame. To the start: all files go, detached ones too. To the
    stop position: what lies behind it, if there is something. ``is_frame_boundary`` tells whether a frame ends at a
    position. Raises :class:`ArchiveError`."""
    require_known(state)
    stop = require_stopped(state)
    _check_truncation(state, position, stop, is_frame_boundary)
    removed, erased = _behind(state, position)
    steps: list[Step] = [*removed, *erased]
    if position < stop:
        steps.insert(0, CutTo(state.recording_id, position))
    if position < stop or state.recording.truncation_pending:
        timestamp = state.recording.stop_timestamp
        steps.append(Settle(state.recording_id, position, timestamp))
    return Change(tuple(steps), len(removed), _deleted(state), ends_replays=(state.recording_id,))


def _behind(state: RecordingState, position: int) -> tuple[list[Remove], list[Erase]]:
    """What takes away all that is behind a position, the last file first."""
    base = state.segments.base(position)
    offset, kept = position - base, position > state.start
    files = [state.name(b) for b in reversed(state.bases) if not kept or b > base or (b == base and not offset)]
    if not kept:
        files += [name for name in state.others if name.endswith(DELETE_SUFFIX)]
    erased = []
    if kept and offset and base in state.bases:
        erased.append(Erase(state.name(base), offset, state.segments.segment_length))
    return [Remove(name) for name in files], erased


def _check_truncation(
    state: RecordingState, position: int, stop: int, is_frame_boundary: Callable[[int], bool]
) -> None:
    expected = f"the end of a frame from {state.start} to {stop}"
    found = f"position {position}"
    if not state.start <= position <= stop:
        raise refuse(state.where, found, expected, code=ErrorCode.INVALID_POSITION)
    if position % FRAME_ALIGNMENT:
        hint = f"frames begin at multiples of {FRAME_ALIGNMENT}"
        raise refuse(state.where, found, expected, hint, ErrorCode.INVALID_POSITION)
    if position not in (state.start, stop) and not is_frame_boundary(position):
        hint = "inside of a frame, or behind a damaged one; everlog read --frames lists them"
        raise refuse(state.where, found, expected, hint, ErrorCode.INVALID_POSITION)


def purge_recording(state: RecordingState) -> Change:
    """Delete a recording: it is marked as deleted, then all its files go. Of one that is marked so already the files
    that are left. Raises :class:`ArchiveError`."""
    files = [*map(state.name, state.bases), *state.others]
    steps: list[Step] = [Remove(name) for name in files]
    if not (state.recording.is_deleted and files):
        require_known(state)
        require_no_replay(state)
        require_stopped(state)
        steps.insert(0, SetState(state.recording_id, "DELETED"))
    return Change(tuple(steps), len(files), _deleted(state))


def detach_segments(state: RecordingState, new_start: int) -> Change:
    """Let the recording start at ``new_start``, where a segment begins; the files before it stay. Raises
    :class:`ArchiveError`."""
    _check_detach(state, new_start)
    return Change((SetStart(state.recording_id, new_start),))


def purge_segments(state: RecordingState, new_start: int) -> Change:
    """Let the recording start at ``new_start``, where a segment begins, and delete the files between the old start and
    the new one; those that were detached before stay. Raises :class:`ArchiveError`."""
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
    """Let the recording start where the files begin that lie right before its start position, one after another. All
    or none: raises :class:`ArchiveError` where one of them holds anything but the stream's frames up to its end."""
    require_known(state)
    start, count = state.start, 0
    for start, count in attachable(state, inspect):  # noqa: B007 - the last ones are wanted
        pass
    steps = (SetStart(state.recording_id, start),) if count else ()
    return Change(steps, count)


def attachable(state: RecordingState, inspect: Inspect) -> Iterator[tuple[int, int]]:
    """The start position with one segment more, and how many those are; one after another. Raises
    :class:`ArchiveError`."""
    base = state.first_base
    if base != state.start:
        return  # it was recorded from the middle of a segment on
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
    """The offset of the first frame in a file. Raises :class:`ArchiveError` for one that is not the recording's."""
    recording, name = state.recording, state.name(base)
    length, term_length = recording.segment_file_length, recording.term_buffer_length
    if content.size != length:
        raise refuse(name, f"{content.size} bytes", f"a segment of {length} bytes")
    first, header = content.first_offset, content.header
    if first is None or header is None:
        raise refuse(name, "no frame in the first term", "frames of the recording")
    numbers = (
        ("stream id", header.stream_id, recording.stream_id),
        ("term id", header.term_id, term_id_of(base + first, recording.initial_term_id, term_length)),
        ("term offset", header.term_offset, term_offset_of(base + first, term_length)),
    )
    for what, number, expected in numbers:
        if number != expected:
            raise refuse(name, f"{what} {number} in the first frame", f"{expected}: a segment of {state.where}")
    if content.fault is not None:
        found = f"{content.fault.found} ({content.fault.code} at offset {content.fault.offset})"
        raise refuse(name, found, f"{content.fault.expected}: whole frames up to the segment's end")
    return first


def _check_detach(state: RecordingState, new_start: int) -> None:
    require_known(state)
    segments, found = state.segments, f"start position {new_start}"
    lowest, highest = state.first_base + segments.segment_length, _highest_start(state, with_replays=False)
    expected = f"the beginning of a segment from {lowest} to {highest}"
    if highest < lowest:
        expected = "a recording of more than one segment"
    if new_start < 0 or new_start != segments.base(new_start):
        raise refuse(state.where, found, expected, f"segments have {segments.segment_length} bytes")
    if not lowest <= new_start <= highest:
        hint = None
        if new_start == state.start and state.detached:
            hint = "it starts there; delete-detached-segments deletes what lies before"
        raise refuse(state.where, found, expected, hint)
    replayed = min((r.segment_base for r in state.replays if r.segment_base < new_start), default=None)
    if replayed is not None:
        raise refuse(state.where, found, f"at most {replayed}, which is being replayed", "stop the replay first")


def _highest_start(state: RecordingState, *, with_replays: bool) -> int:
    """Where the segment begins that holds the end, or the first that is replayed."""
    end = state.recorded_position
    if end is None:
        end = require_stopped(state)
    bases = [state.segments.base(end)]
    if with_replays:
        bases += [replay.segment_base for replay in state.replays]
    return min(bases)


def purge_position(state: RecordingState, before_position: int | None = None, keep_bytes: int | None = None) -> int:
    """The highest start position that a purge may give the recording: nothing from ``before_position`` on goes, the
    last ``keep_bytes`` stay, and what is replayed; with both, both stay. The start position where nothing can go.
    Raises :class:`ArchiveError`, :class:`UsageError` for neither of them, or a negative one."""
    require_known(state)
    given = [value for value in (before_position, keep_bytes) if value is not None]
    if not given or min(given) < 0:
        expected = "one of them at least, 0 or more"
        raise UsageError(
            "before_position, keep_bytes", found=", ".join(map(str, given)) or "neither", expected=expected
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
