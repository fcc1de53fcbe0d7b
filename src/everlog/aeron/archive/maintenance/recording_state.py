"""The state of a recording that maintenance decides on, as plain data, and the refusals that all operations share.
Source: ArchiveConductor."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from everlog.aeron.archive.folder.recordings import Recording
from everlog.aeron.archive.format.segments import RENAMED_SUFFIX, SegmentMap, parse_segment_name, segment_name
from everlog.aeron.archive.recording.refusals import ArchiveError, ErrorCode
from everlog.aeron.layouts import DataHeader
from everlog.core.report import Fault


@dataclass(frozen=True, slots=True)
class ReplayState:
    """An open replay: its position, and the beginning of the segment that it reads."""

    position: int
    segment_base: int


@dataclass(frozen=True, slots=True)
class RecordingState:
    """A recording with its files and replays.

    ``bases`` are the sorted positions where its segment files begin. ``others`` are files with its id whose names no
    segment of it can have. ``recorded_position`` is its end while it is being recorded, else ``None``.
    """

    recording: Recording
    bases: tuple[int, ...] = ()
    others: tuple[str, ...] = ()
    recorded_position: int | None = None
    replays: tuple[ReplayState, ...] = ()

    @classmethod
    def of(
        cls,
        recording: Recording,
        names: Iterable[str],
        recorded_position: int | None = None,
        replays: Iterable[ReplayState] = (),
    ) -> RecordingState:
        """Build the state from a recording of a catalog of version 2 or later and the names of the folder's files."""
        prefix = f"{recording.recording_id}-"
        segments = segments_of(recording)
        bases, others = [], []
        for name in names:
            if not name.startswith(prefix):
                continue
            parsed = parse_segment_name(name)
            if parsed is not None and segments.base_of(parsed[1]) is not None:
                bases.append(parsed[1])
            elif parsed is not None or name.endswith(f".rec{RENAMED_SUFFIX}"):
                others.append(name)
        return cls(recording, tuple(sorted(bases)), tuple(sorted(others)), recorded_position, tuple(replays))

    @property
    def recording_id(self) -> int:
        """The recording's id."""
        return self.recording.recording_id

    @property
    def start(self) -> int:
        """The start position."""
        return self.recording.start_position

    @property
    def where(self) -> str:
        """The recording's name in errors."""
        return f"recording {self.recording_id}"

    @property
    def segments(self) -> SegmentMap:
        """Maps positions to segment files."""
        return segments_of(self.recording)

    @property
    def first_base(self) -> int:
        """The beginning of the segment that holds the start position."""
        return self.segments.base(self.start)

    @property
    def detached(self) -> tuple[int, ...]:
        """The beginnings of the segments before the start position."""
        first = self.first_base
        return tuple(base for base in self.bases if base < first)

    def name(self, base: int) -> str:
        """Return the name of the segment file that begins at a position."""
        return segment_name(self.recording_id, base)


def segments_of(recording: Recording) -> SegmentMap:
    """Return the map from a recording's positions to its segment files, in an archive of version 2 or later."""
    return SegmentMap(
        recording.recording_id,
        recording.start_position,
        recording.term_buffer_length,
        recording.segment_file_length,
    )


@dataclass(frozen=True, slots=True)
class SegmentContent:
    """The content of a segment file: its size; the first frame's offset and header, ``None`` if the first term is all
    zeros; and the first fault among the frames."""

    size: int
    first_offset: int | None = None
    header: DataHeader | None = None
    fault: Fault | None = None


Inspect = Callable[[RecordingState, int], SegmentContent]
"""Inspects the recording's segment file that begins at a position."""


# Refusals


def refuse(
    where: str,
    found: str,
    expected: str,
    hint: str | None = None,
    code: ErrorCode = ErrorCode.GENERIC,
    message: str | None = None,
) -> ArchiveError:
    """Return the :class:`ArchiveError` of a refused operation, with an error code of Aeron's protocol."""
    return ArchiveError(where, found=found, expected=expected, hint=hint, message=message).coded(code)


def require_known(state: RecordingState) -> None:
    """Raises :class:`ArchiveError` if the recording is not valid: archives treat it as unknown."""
    if state.recording.state != "VALID":
        found = state.recording.state
        hint = f"everlog archive DIR mark-valid {state.recording_id} makes it valid" if found == "INVALID" else None
        message = f"{state.where} is {found}"
        raise refuse(state.where, f"state {found}", "state VALID", hint, ErrorCode.UNKNOWN_RECORDING, message)


def require_stopped(state: RecordingState, code: ErrorCode = ErrorCode.ACTIVE_RECORDING) -> int:
    """Return the stop position. Raises :class:`ArchiveError` if the recording has none yet."""
    stop = state.recording.stop_position
    if state.recorded_position is not None:
        message = f"{state.where} is active"
        raise refuse(state.where, "an active recording", "a stopped recording", "stop it first", code, message)
    if stop is None:
        hint = "its archive was killed or a change was interrupted: opening the archive for writing restores it"
        message = f"{state.where} has no stop position"
        raise refuse(state.where, "no stop position", "a stopped recording", hint, code, message)
    return stop


def require_settled(recording: Recording, code: ErrorCode = ErrorCode.GENERIC) -> None:
    """Raises :class:`ArchiveError` if an interrupted truncation may have left frames after the stop position: new
    frames must not overwrite them, and no other recording may take them over."""
    if recording.truncation_pending:
        where, hint = f"recording {recording.recording_id}", f"truncate it to {recording.stop_position} again"
        message = f"the truncation of {where} was interrupted"
        raise refuse(where, "an unfinished truncation", "nothing after the stop position", hint, code, message)


def require_no_replay(state: RecordingState) -> None:
    """Raises :class:`ArchiveError` if the recording is being replayed."""
    if state.replays:
        found = f"{len(state.replays)} active replays"
        message = f"{state.where} is being replayed"
        raise refuse(state.where, found, "none", "stop its replays first", ErrorCode.ACTIVE_RECORDING, message)
