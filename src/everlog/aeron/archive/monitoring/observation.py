"""An archive's state at one moment, as metrics and checks need it."""

from __future__ import annotations

from collections import Counter as Tally
from dataclasses import dataclass

from everlog.aeron.archive.folder.archive import ArchiveFolder
from everlog.aeron.archive.folder.recordings import Recording
from everlog.aeron.archive.format.segments import parse_segment_name
from everlog.aeron.mark_file import ArchiveMark
from everlog.aeron.transport.format.cnc_file import CNC_NAME
from everlog.aeron.transport.format.counters import Counter
from everlog.aeron.transport.monitoring.observation import live_counters
from everlog.core.files.storage import LocalStorage, Storage
from everlog.core.report import Fault, Severity
from everlog.errors import EverlogError

RECORDING_POSITION = "archive-recording-position"
STATES = ("valid", "invalid", "deleted", "unknown")
"""States of recordings; ``unknown``: the catalog lacks it, only its segment files are there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveObservation:
    """What an archive's folder and its driver say. ``states`` counts the recordings by state, ``active`` those without
    stop position. ``recorded_bytes`` are those between start and end of all recordings that are not deleted.
    ``counters`` are those of this archive in its driver; ``None`` if no live driver of it can be read."""

    states: dict[str, int]
    active: int
    recorded_bytes: int
    segment_count: int
    segment_bytes: int
    catalog_fault: Fault | None
    catalog_faults: tuple[Fault, ...]
    counters: tuple[Counter, ...] | None

    @property
    def is_catalog_damaged(self) -> bool:
        """Whether the catalog is missing, can't be read, or has a fault."""
        return self.catalog_fault is not None or bool(self.catalog_faults)


def observe_archive(storage: Storage, mark: ArchiveMark | None, now_ms: int) -> ArchiveObservation:
    """Read the catalog and list the segment files. Without a position from the driver, the end of an active recording
    is found by walking the frames of its last term. Raises :class:`UnsupportedVersion`, :class:`LimitExceeded`,
    :class:`StoreUnavailable`."""
    folder = ArchiveFolder(storage)
    recordings = folder.recordings().values()
    counters = archive_counters(mark, now_ms)
    positions = {} if counters is None else recording_positions(counters)
    sizes = [entry.size for entry in storage.entries() if entry.is_file and parse_segment_name(entry.name)]
    states = Tally(recording.state.lower() for recording in recordings)
    catalog = folder.catalog
    faults = [] if catalog is None else [fault for fault in catalog.faults if fault.severity is Severity.FAULT]
    kept = [recording for recording in recordings if not recording.is_deleted]
    return ArchiveObservation(
        states={state: states[state] for state in STATES},
        active=sum(recording.is_active for recording in kept),
        recorded_bytes=sum(_recorded(folder, recording, positions) for recording in kept),
        segment_count=len(sizes),
        segment_bytes=sum(sizes),
        catalog_fault=folder.catalog_fault,
        catalog_faults=tuple(faults),
        counters=counters,
    )


def _recorded(folder: ArchiveFolder, recording: Recording, positions: dict[int, int]) -> int:
    """Bytes of a recording; 0 if its files can't be read."""
    end = recording.stop_position
    if end is None:
        end = positions.get(recording.recording_id)
    try:
        end = folder.recorded_end(recording) if end is None else end
    except EverlogError:
        return 0
    return max(end - recording.start_position, 0)


def archive_counters(mark: ArchiveMark | None, now_ms: int) -> tuple[Counter, ...] | None:
    """The counters of a running archive in the driver that its mark file names; ``None`` if either does not run, or the
    driver's folder is not on this machine."""
    if mark is None or not mark.is_live(now_ms) or not driver_folder(mark):
        return None
    try:
        counters = live_counters(LocalStorage(driver_folder(mark)), now_ms)
    except EverlogError:
        return None
    if counters is None:
        return None
    archive_id = mark.header.archive_id
    return tuple(counter for counter in counters if counter.key_fields.get("archive_id") == archive_id)


def recording_positions(counters: tuple[Counter, ...]) -> dict[int, int]:
    """Positions of the active recordings, by recording id."""
    return {int(c.key_fields["recording_id"]): c.value for c in counters if c.type_name == RECORDING_POSITION}


def driver_folder(mark: ArchiveMark) -> str:
    """The folder of the archive's driver, as its mark file names it; empty if it names none."""
    return mark.texts.get("aeron_directory", "")


def has_driver_files(mark: ArchiveMark) -> bool:
    """Whether the driver's folder has a ``cnc.dat`` that this process can see."""
    try:
        return bool(driver_folder(mark)) and LocalStorage(driver_folder(mark)).exists(CNC_NAME)
    except EverlogError:
        return False
