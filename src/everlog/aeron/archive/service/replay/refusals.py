"""Why a replay is not started, in the original's words and its order of checks. Source: ArchiveConductor.startReplay,
ArchiveException."""

from __future__ import annotations

from dataclasses import dataclass

from everlog.aeron.archive.folder.recordings import Recording
from everlog.aeron.archive.recording.refusals import ArchiveError, ErrorCode, refusal
from everlog.aeron.frames.constants import FRAME_ALIGNMENT, NULL_POSITION

FOLLOW, STOP = -1, -2
"""Lengths: follow an active recording; stop at what is there."""
MAX_POSITION = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Range:
    """What is replayed: from ``position``, up to ``limit`` at most; ``stop`` is how far the recording is now."""

    position: int
    limit: int
    stop: int


def replayed_range(
    recording: Recording,
    position: int,
    length: int,
    *,
    limit: int | None,
    file_io_max_length: int,
    buffer_length: int,
) -> Range:
    """Check a request, and return what is replayed. ``limit`` is that of a counter or of an active recording. Raises
    :class:`ArchiveError`."""
    recording_id, where = recording.recording_id, f"recording {recording.recording_id}"
    stop = NULL_POSITION if recording.stop_position is None else recording.stop_position
    start = recording.start_position
    begin = start
    if position != NULL_POSITION:
        _check_position(where, recording_id, position, start, stop)
        begin = position
    mtu = recording.mtu_length
    if 0 < file_io_max_length < mtu:
        raise refusal(where, f"fileIoMaxLength={file_io_max_length} < mtuLength={mtu}")
    if buffer_length < mtu:
        raise refusal(where, f"replayBufferCapacity={buffer_length} < mtuLength={mtu}")
    if limit is not None:
        if begin > limit:
            raise _beyond(where, recording_id, begin, limit)
        stop, longest = limit, MAX_POSITION - begin
    else:
        longest = stop - begin
    if length == FOLLOW:
        chosen = longest
    elif length == STOP:
        chosen = stop - begin
        if chosen == 0:
            text = f"When replaying and stopping the replay length must be non-zero, recordingId={recording_id}"
            raise refusal(where, text, ErrorCode.EMPTY_RECORDING)
    else:
        chosen = min(length, longest)
    if chosen < 0:
        text = (
            f"replay length must be positive: replayLength={chosen}, length={length}, stopPosition={stop}, "
            f"replayPosition={begin} for recording {recording_id}"
        )
        raise refusal(where, text)
    return Range(begin, begin + chosen, stop)


def _check_position(where: str, recording_id: int, position: int, start: int, stop: int) -> None:
    if position % FRAME_ALIGNMENT:
        text = (
            f"requested replay start position={position} is not a multiple of FRAME_ALIGNMENT ({FRAME_ALIGNMENT}) "
            f"for recording {recording_id}"
        )
        raise refusal(where, text)
    if position < start:
        text = f"requested replay start position={position} is less than recording start position={start}"
        raise refusal(where, f"{text} for recording {recording_id}", ErrorCode.INVALID_POSITION)
    if stop != NULL_POSITION and position >= stop:
        raise _beyond(where, recording_id, position, stop)


def _beyond(where: str, recording_id: int, position: int, limit: int) -> ArchiveError:
    text = f"requested replay start position={position} must be less than the limit position={limit}"
    return refusal(where, f"{text} for recording {recording_id}", ErrorCode.INVALID_POSITION)
