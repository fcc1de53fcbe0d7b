"""What decisions on a recording need to know of it, and what they have in common: plain data, refusals. Source:
ArchiveConductor."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from everlog.aeron.archive.folder.recordings import Recording
from everlog.aeron.archive.format.segments import SegmentMap, parse_segment_name, segment_name
from everlog.aeron.archive.recording.refusals import ArchiveError, ErrorCode
from everlog.aeron.layouts import DataHeader
from everlog.core.report import Fault

DELETE_SUFFIX = ".rec.del"
"""Some releases of Aeron rename a segment before they delete it."""


@dataclass(frozen=True, slots=True)
class ReplayState:
    """A replay that is open: where it is, and where the segment that it reads begins."""

    position: int
    segment_base: int


@dataclass(frozen=True, slots=True)
class RecordingState:
    """What decisions need to know of a recording. ``bases``: where its segment files begin, sorted; ``others``: files
    with its id and a name that no segment of it can have. ``recorded_position``: how far it has come, while it is
    recorded; else ``None``."""

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
        """Of a catalog from version 2 on, and the names in the folder."""
        prefix = f"{recording.recording_id}-"
        segments = segments_of(recording)
        bases, others = [], []
        for name in names:
            if not name.startswith(prefix):
                continue
            parsed = parse_segment_name(name)
            if parsed is not None and segments.base_of(parsed[1]) is not None:
                bases.append(parsed[1])
            elif parsed is not None or name.endswith(DELETE_SUFFIX):
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
        """For errors."""
        return f"recording {self.recording_id}"

    @property
    def segments(self) -> SegmentMap:
        """Where its positions lie."""
        return segments_of(self.recording)

    @property
    def first_base(self) -> int:
        """Where the segment begins that holds the start position."""
        return self.segments.base(self.start)

    @property
    def detached(self) -> tuple[int, ...]:
        """Where the segments begin that lie before the start position."""
        first = self.first_base
        return tuple(base for base in self.bases if base < first)

    def name(self, base: int) -> str:
        """The segment file that begins at a position."""
        return segment_name(self.recording_id, base)


def segments_of(recording: Recording) -> SegmentMap:
    """Where a recording's positions lie, in an archive of version 2 or later."""
    return SegmentMap(
        recording.recording_id,
        recording.start_position,
        recording.term_buffer_length,
        recording.segment_file_length,
    )


@dataclass(frozen=True, slots=True)
class SegmentContent:
    """What is in a segment file: its size, the offset of the first frame and its header, ``None`` where all of the
    first term is zeros, and the first fault of the frames behind it."""

    size: int
    first_offset: int | None = None
    header: DataHeader | None = None
    fault: Fault | None = None


Inspect = Callable[[RecordingState, int], SegmentContent]
"""Looks at the recording's segment file that begins at a position."""


# What is refused


def refuse(
    where: str, found: str, expected: str, hint: str | None = None, code: ErrorCode = ErrorCode.GENERIC
) -> ArchiveError:
    """The error."""
    return ArchiveError(where, found=found, expected=expected, hint=hint).coded(code)


def require_known(state: RecordingState) -> None:
    """Raises :class:`ArchiveError` for a recording that is not valid: an archive does not know it."""
    if state.recording.state != "VALID":
        hint = "mark-valid makes it one" if state.recording.state == "INVALID" else None
        raise refuse(
            state.where, f"state {state.recording.state}", "a valid recording", hint, ErrorCode.UNKNOWN_RECORDING
        )


def require_stopped(state: RecordingState, code: ErrorCode = ErrorCode.ACTIVE_RECORDING) -> int:
    """The stop position. Raises :class:`ArchiveError` while there is none."""
    stop = state.recording.stop_position
    if state.recorded_position is not None:
        raise refuse(state.where, "an active recording", "a stopped one", "stop it first", code)
    if stop is None:
        hint = "its archive was killed, or a change broke off: open the archive anew, which finds where it stops"
        raise refuse(state.where, "no stop position", "a stopped recording", hint, code)
    return stop


def require_settled(recording: Recording, code: ErrorCode = ErrorCode.GENERIC) -> None:
    """Raises :class:`ArchiveError` while what a truncation has cut off may still be behind the stop position: new
    frames must not be written over it, nor other recordings get it."""
    if recording.truncation_pending:
        found, hint = "a truncation that broke off", f"truncate it to {recording.stop_position} again"
        where = f"recording {recording.recording_id}"
        raise refuse(where, found, "nothing behind the stop position", hint, code)


def require_no_replay(state: RecordingState) -> None:
    """Raises :class:`ArchiveError` while it is replayed."""
    if state.replays:
        found = f"{len(state.replays)} active replays"
        raise refuse(state.where, found, "none", "stop them first", ErrorCode.ACTIVE_RECORDING)
