"""A change to an archive's folder as plain data: ordered steps on the catalog and on segment files.

:mod:`everlog.aeron.archive.maintenance.maintenance` decides on a change,
:mod:`everlog.aeron.archive.maintenance.segment_changes` applies it."""

from __future__ import annotations

from dataclasses import dataclass

from everlog.aeron.archive.recording.events import SignalEvent

Ends = tuple[tuple[int, int | None], ...]
"""Recording ids and end positions; ``None``: the start position, because the recording is empty."""


@dataclass(frozen=True, slots=True)
class LeaveOpen:
    """Clear a stopped recording's stop position in the catalog and keep its stop time: after a crash, its files show
    where it ends. ``stop_position`` is where it ends now."""

    recording_id: int
    stop_position: int

    def __str__(self) -> str:
        return f"recording {self.recording_id}: stop position left open while its files change"


@dataclass(frozen=True, slots=True)
class CutTo:
    """Set a recording's stop position in the catalog and clear its stop time: everything after the position will be
    removed. Only recordings in this state have a stop position without a time."""

    recording_id: int
    position: int

    def __str__(self) -> str:
        return f"recording {self.recording_id}: stops at {self.position}; everything after it will be removed"


@dataclass(frozen=True, slots=True)
class Settle:
    """Set a recording's stop time again: nothing is left after its stop position. ``stop_timestamp`` in milliseconds
    since 1970; ``None``: now."""

    recording_id: int
    position: int
    stop_timestamp: int | None

    def __str__(self) -> str:
        return f"recording {self.recording_id}: nothing is left after {self.position}"


@dataclass(frozen=True, slots=True)
class SetStop:
    """Set the stop position of a recording whose end was left open."""

    recording_id: int
    position: int

    def __str__(self) -> str:
        return f"recording {self.recording_id}: stops at {self.position}"


@dataclass(frozen=True, slots=True)
class SetStart:
    """Set a recording's start position in the catalog."""

    recording_id: int
    position: int

    def __str__(self) -> str:
        return f"recording {self.recording_id}: starts at {self.position}"


@dataclass(frozen=True, slots=True)
class SetState:
    """Set a recording's state in the catalog: ``VALID``, ``INVALID`` or ``DELETED``."""

    recording_id: int
    state: str

    def __str__(self) -> str:
        return f"recording {self.recording_id}: {self.state}"


@dataclass(frozen=True, slots=True)
class Erase:
    """Zero a segment file from an offset on, and release its disk blocks."""

    file: str
    offset: int
    segment_length: int

    def __str__(self) -> str:
        return f"{self.file}: zeroed from offset {self.offset} on"


@dataclass(frozen=True, slots=True)
class Remove:
    """Delete a file."""

    file: str

    def __str__(self) -> str:
        return f"{self.file}: deleted"


@dataclass(frozen=True, slots=True)
class Rename:
    """Rename a segment file so that it belongs to another recording; it replaces a file without frames. ``ends``: where
    the recordings with open ends stop after the rename."""

    source: str
    target: str
    ends: Ends = ()

    def __str__(self) -> str:
        return f"{self.source}: renamed to {self.target}"


CatalogStep = CutTo | Settle | LeaveOpen | SetStop | SetStart | SetState
FileStep = Erase | Remove | Rename
Step = CatalogStep | FileStep


@dataclass(frozen=True, slots=True)
class Change:
    """Steps in order. Catalog steps reach the disk before the file steps that follow them, and file steps before the
    next catalog step. ``in_order``: each file step reaches the disk before the next one, so that a crash leaves no gap
    between files.

    ``count``: segment files that are deleted, attached or moved. ``ends_replays``: ids of the recordings whose replays
    end before the first step. ``signals`` are published to listeners after the last step.
    """

    steps: tuple[Step, ...] = ()
    count: int = 0
    signals: tuple[SignalEvent, ...] = ()
    ends_replays: tuple[int, ...] = ()
    in_order: bool = False

    @property
    def lines(self) -> list[str]:
        """One line per step."""
        return [str(step) for step in self.steps]
