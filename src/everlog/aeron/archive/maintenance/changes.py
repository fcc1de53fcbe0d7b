"""A change to an archive's folder as plain data: what is done to the catalog and to segment files, in which order.

:mod:`everlog.aeron.archive.maintenance.maintenance` decides on one,
:mod:`everlog.aeron.archive.maintenance.segment_changes` does it."""

from __future__ import annotations

from dataclasses import dataclass

from everlog.aeron.archive.recording.events import SignalEvent

Ends = tuple[tuple[int, int | None], ...]
"""Recording ids and positions; ``None``: where the recording starts, for it is empty."""


@dataclass(frozen=True, slots=True)
class LeaveOpen:
    """The catalog no longer says where a stopped recording ends, only when it did: its files tell, whatever becomes of
    them. ``stop_position`` is where it ends now."""

    recording_id: int
    stop_position: int

    def __str__(self) -> str:
        return f"recording {self.recording_id}: stop position left open while its files change"


@dataclass(frozen=True, slots=True)
class CutTo:
    """The catalog says that a recording stops at a position, and nothing of when: what is behind it is to go. No other
    recording has a stop position without a time."""

    recording_id: int
    position: int

    def __str__(self) -> str:
        return f"recording {self.recording_id}: stops at {self.position}, what is behind it is to go"


@dataclass(frozen=True, slots=True)
class Settle:
    """The catalog says when a recording stopped: nothing is behind its stop position any more. ``stop_timestamp`` in
    milliseconds since 1970; ``None``: now."""

    recording_id: int
    position: int
    stop_timestamp: int | None

    def __str__(self) -> str:
        return f"recording {self.recording_id}: nothing is behind {self.position}"


@dataclass(frozen=True, slots=True)
class SetStop:
    """The catalog says where a recording stops that was left open."""

    recording_id: int
    position: int

    def __str__(self) -> str:
        return f"recording {self.recording_id}: stops at {self.position}"


@dataclass(frozen=True, slots=True)
class SetStart:
    """The catalog says where a recording starts."""

    recording_id: int
    position: int

    def __str__(self) -> str:
        return f"recording {self.recording_id}: starts at {self.position}"


@dataclass(frozen=True, slots=True)
class SetState:
    """The catalog says that a recording is ``VALID``, ``INVALID`` or ``DELETED``."""

    recording_id: int
    state: str

    def __str__(self) -> str:
        return f"recording {self.recording_id}: {self.state}"


@dataclass(frozen=True, slots=True)
class Erase:
    """A segment file becomes zeros from an offset on; the blocks behind it are given back."""

    file: str
    offset: int
    segment_length: int

    def __str__(self) -> str:
        return f"{self.file}: erased from offset {self.offset} on"


@dataclass(frozen=True, slots=True)
class Remove:
    """A file is deleted."""

    file: str

    def __str__(self) -> str:
        return f"{self.file}: deleted"


@dataclass(frozen=True, slots=True)
class Rename:
    """A segment file becomes one of another recording, in place of one without frames. ``ends``: where recordings then
    end that were left open."""

    source: str
    target: str
    ends: Ends = ()

    def __str__(self) -> str:
        return f"{self.source}: becomes {self.target}"


CatalogStep = CutTo | Settle | LeaveOpen | SetStop | SetStart | SetState
FileStep = Erase | Remove | Rename
Step = CatalogStep | FileStep


@dataclass(frozen=True, slots=True)
class Change:
    """Steps in order. Catalog steps are on disk before the files that follow change, and those before the catalog is
    changed again; ``in_order``: each file step is on disk before the next one, so that no file is missing between two
    that are there.

    ``count``: segment files that are deleted, attached or moved. ``ends_replays``: of which recordings replays are to
    be ended before the first step. ``signals`` are for those who listen, once it is done.
    """

    steps: tuple[Step, ...] = ()
    count: int = 0
    signals: tuple[SignalEvent, ...] = ()
    ends_replays: tuple[int, ...] = ()
    in_order: bool = False

    @property
    def lines(self) -> list[str]:
        """A line for each step."""
        return [str(step) for step in self.steps]
