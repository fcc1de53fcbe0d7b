"""The steps of an archive's recovery and repair. :mod:`everlog.aeron.archive.repair.recovery` and
:mod:`everlog.aeron.archive.repair.plan` explain their order. A new plan finishes an interrupted step."""

from __future__ import annotations

from dataclasses import dataclass

from everlog.aeron.archive.folder.recordings import recording_of, segment_map
from everlog.aeron.archive.folder.steps import ArchiveStep
from everlog.aeron.archive.format.catalog import CATALOG_NAME, CatalogEntry
from everlog.aeron.archive.format.catalog_file import load_catalog
from everlog.aeron.archive.format.entry_checksums import kind_of, stale_kind_of
from everlog.aeron.archive.format.mark_place import MARK_NAME
from everlog.aeron.archive.repair.ends import TailFingerprint
from everlog.aeron.archive.writing.catalog_writer import MIN_CAPACITY, CatalogOptions, CatalogWriter
from everlog.aeron.family_options import Checksum
from everlog.aeron.frames.constants import NULL_POSITION
from everlog.aeron.mark_file import now_ms
from everlog.core.files.storage import ReadableFile
from everlog.core.files.writable import WritableStorage
from everlog.core.plan.backup import Backup, keep_file, pieces_of
from everlog.core.plan.changed import changed

WATCHED = (CATALOG_NAME, MARK_NAME)
"""Files that an archive has open while it runs."""


@dataclass(frozen=True, kw_only=True)
class OfflineStep(ArchiveStep):
    """A repair step that is also refused while a process has the catalog or the mark file open."""

    open_files = WATCHED


@dataclass(frozen=True, kw_only=True)
class TailStep(OfflineStep):
    """A step on one file whose contents ``fingerprint`` identifies."""

    fingerprint: TailFingerprint

    def compare(self) -> None:
        if not self.storage.exists(self.file):
            raise changed(self.file, "no file", f"{self.fingerprint.size} bytes")
        with self.storage.open(self.file) as file:
            self.compare_tail(file)

    def compare_tail(self, file: ReadableFile) -> None:
        """Raises :class:`FileChanged` if the file's end has changed since the step was planned."""
        if not self.fingerprint.is_there(file):
            found = f"{file.size()} bytes, or other contents from offset {self.fingerprint.offset} on"
            raise changed(self.file, found, f"{self.fingerprint.size} bytes")


@dataclass(frozen=True, kw_only=True)
class EraseTail(TailStep):
    """Zeroes a segment file from an offset on and makes the file ``length`` bytes long.

    The file is cut at the offset, which frees the blocks, and lengthened again: a crash in between leaves a short file,
    which planning again lengthens. The change is on disk before the catalog says that the recording ends there.
    """

    after_crash = "the old file, or a short one: planning again finds the same end and lengthens it"

    length: int

    def apply(self, backup: Backup | None) -> str:
        self.check()
        fingerprint = self.fingerprint
        with self.storage.open_writable(self.file) as file:
            self.compare_tail(file)
            if backup is not None and fingerprint.byte_count:
                end = fingerprint.offset + fingerprint.byte_count
                backup.save(f"{self.file}@{fingerprint.offset}", pieces_of(file, fingerprint.offset, end))
            if fingerprint.byte_count:
                file.truncate(fingerprint.offset)
            file.truncate(self.length)
            file.sync()
        if not fingerprint.byte_count:
            return f"lengthened {self.file} to {self.length} bytes"
        return f"erased {self.file} from offset {fingerprint.offset} on: {fingerprint.byte_count} bytes"


@dataclass(frozen=True, kw_only=True)
class MakeSegment(OfflineStep):
    """Creates a segment file of zeros. A crash leaves no file, or a short one, which planning again lengthens."""

    after_crash = "no file, or a short one: planning again lengthens it"

    length: int

    def compare(self) -> None:
        self.expect_none(self.file)

    def apply(self, backup: Backup | None) -> str:
        self.check()
        with self.storage.open_writable(self.file, create=True, exclusive=True, mode=0o644) as file:
            file.truncate(self.length)
            file.sync()
        self.storage.sync_folder()
        return f"created {self.file}: {self.length} bytes of zeros"


@dataclass(frozen=True, kw_only=True)
class RemoveFile(TailStep):
    """Deletes a file. ``needs_backup``: the file has intact contents, so without a backup it stays. A crash leaves the
    file or none."""

    after_crash = "the file, or none"

    needs_backup: bool = False

    def apply(self, backup: Backup | None) -> str:
        self.check()
        if self.needs_backup and backup is None:
            return f"left {self.file}: no backup to move it to"
        if self.fingerprint.byte_count:
            keep_file(backup, self.storage, self.file)
        self.storage.remove(self.file)
        self.storage.sync_folder()
        return f"deleted {self.file}"


@dataclass(frozen=True, slots=True)
class Stop:
    """A recording's current stop position, -1 for none, and the new one."""

    recording_id: int
    old: int
    new: int


@dataclass(frozen=True, kw_only=True)
class SetStops(OfflineStep):
    """Writes stop positions into the catalog, with the current time for recordings that had none, and the checksums of
    entries that have one.

    A crash leaves some recordings stopped and others active, which are planned again. ``is_later``: an earlier step
    rebuilds the catalog.
    """

    after_crash = "some recordings stopped, the others active: planning again stops them"

    stops: tuple[Stop, ...]
    is_later: bool = False

    def compare(self) -> None:
        if not self.is_later:
            self._entries()

    def _entries(self) -> dict[int, CatalogEntry]:
        """The entries to change. Raises :class:`FileChanged`."""
        catalog, _ = load_catalog(self.storage)
        entries = {} if catalog is None else {entry.recording_id: entry for entry in catalog.entries}
        for stop in self.stops:
            entry = entries.get(stop.recording_id)
            if entry is None or entry.stop_position != stop.old:
                found = "no recording" if entry is None else f"stop position {entry.stop_position}"
                raise changed(CATALOG_NAME, f"{found} {stop.recording_id}", str(stop.old))
        return {stop.recording_id: entries[stop.recording_id] for stop in self.stops}

    def apply(self, backup: Backup | None) -> str:
        self.check()
        entries = self._entries()
        keep_catalog(self.storage, backup)
        self._sync_ends(entries)
        now = now_ms()
        kinds = {i: kind_of(entry) or stale_kind_of(entry) or "none" for i, entry in entries.items()}
        for kind in sorted(set(kinds.values())):
            with open_catalog(self.storage, kind) as writer:
                for stop in self.stops:
                    if kinds[stop.recording_id] == kind:
                        writer.set_stop(stop.recording_id, stop.new, now if stop.old == NULL_POSITION else None)
        return f"set the stop positions of {len(self.stops)} recordings in {CATALOG_NAME}"

    def _sync_ends(self, entries: dict[int, CatalogEntry]) -> None:
        """Sync the files in which the recordings end. A killed owner may have left them unsynced, and after a power cut
        the catalog must not say that a recording has frames that the disk has lost."""
        names = set(self.storage.names())
        for stop in self.stops:
            segments = segment_map(recording_of(entries[stop.recording_id]))
            last = max(stop.new - 1, segments.start_position)
            for name in sorted({segments.name(segments.base(position)) for position in (last, stop.new)} & names):
                with self.storage.open_writable(name) as file:
                    file.sync()
        self.storage.sync_folder()


@dataclass(frozen=True, kw_only=True)
class RenewChecksums(OfflineStep):
    """Writes the checksums of entries in which nothing else is wrong. Each has four bytes: a crash leaves some
    updated."""

    after_crash = "some checksums updated: planning again updates the others"

    kinds: dict[int, Checksum]
    is_later: bool = False

    def compare(self) -> None:
        if not self.is_later:
            self._compare()

    def _compare(self) -> None:
        catalog, _ = load_catalog(self.storage)
        entries = {} if catalog is None else {entry.recording_id: entry for entry in catalog.entries}
        for recording_id in self.kinds:
            entry = entries.get(recording_id)
            if entry is None or kind_of(entry) is not None:
                found = "no entry" if entry is None else "a right checksum"
                raise changed(CATALOG_NAME, f"{found} for recording {recording_id}", "a wrong checksum")

    def apply(self, backup: Backup | None) -> str:
        self.check()
        self._compare()
        keep_catalog(self.storage, backup)
        for kind in sorted(set(self.kinds.values())):
            with open_catalog(self.storage, kind) as writer:
                for recording_id, own in self.kinds.items():
                    if own == kind:
                        writer.set_checksum(recording_id)
        return f"updated the checksums of {len(self.kinds)} entries in {CATALOG_NAME}"


def open_catalog(storage: WritableStorage, checksum: Checksum) -> CatalogWriter:
    """Open the catalog for writing, without lengthening it; changes are on disk once it is closed. ``checksum`` is the
    kind for changed entries."""
    capacity = max(storage.size(CATALOG_NAME), MIN_CAPACITY)
    return CatalogWriter.open(storage, CatalogOptions(capacity=capacity, checksum=checksum))


def keep_catalog(storage: WritableStorage, backup: Backup | None) -> None:
    """Copy the catalog into the backup, without the zeros at its end."""
    if backup is not None and storage.exists(CATALOG_NAME):
        with storage.open(CATALOG_NAME) as file:
            catalog, _ = load_catalog(storage)
            backup.save(CATALOG_NAME, pieces_of(file, 0, file.size() if catalog is None else catalog.used))
