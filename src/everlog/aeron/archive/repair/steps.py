"""The steps that recovery and repair of an archive are made of. :mod:`everlog.aeron.archive.repair.recovery` and
:mod:`everlog.aeron.archive.repair.plan` say in which order they go, and why. Each leaves, wherever it is stopped, what
planning again finds and finishes."""

from __future__ import annotations

from dataclasses import dataclass

from everlog.aeron.archive.folder.liveness import refuse_running
from everlog.aeron.archive.format.catalog import CATALOG_NAME, CatalogEntry
from everlog.aeron.archive.format.catalog_file import load_catalog
from everlog.aeron.archive.format.entry_checksums import kind_of, stale_kind_of
from everlog.aeron.archive.format.mark_place import MARK_NAME
from everlog.aeron.archive.repair.ends import TailFingerprint
from everlog.aeron.archive.writing.catalog_writer import MIN_CAPACITY, CatalogOptions, CatalogWriter
from everlog.aeron.frames.constants import NULL_POSITION
from everlog.aeron.mark_file import now_ms
from everlog.core.files.storage import ReadableFile
from everlog.core.files.writable import WritableStorage
from everlog.core.repair import Backup, RepairStep, keep_file, pieces_of
from everlog.errors import FileChanged

WATCHED = (CATALOG_NAME, MARK_NAME)
"""Files that an archive has open while it runs."""


def changed(name: str, found: str, expected: str) -> FileChanged:
    """A file that is not as it was when the step was planned."""
    return FileChanged(name, found=found, expected=f"{expected}, as when this was planned")


@dataclass(frozen=True, kw_only=True)
class ArchiveStep(RepairStep):
    """A step on an archive's folder. ``is_owner``: whoever applies it owns the folder, as an archive that is opened for
    writing does; else it is refused while an archive runs there."""

    storage: WritableStorage
    is_owner: bool = False

    def check(self) -> None:
        """See :class:`RepairStep`."""
        if not self.is_owner:
            refuse_running(self.storage, files=WATCHED)


@dataclass(frozen=True, kw_only=True)
class FileStep(ArchiveStep):
    """A step on one file, of which ``fingerprint`` says what it was like."""

    fingerprint: TailFingerprint

    def check(self) -> None:
        """See :class:`RepairStep`."""
        super().check()
        if not self.storage.exists(self.file):
            raise changed(self.file, "no file", f"{self.fingerprint.size} bytes")
        with self.storage.open(self.file) as file:
            self.compare(file)

    def compare(self, file: ReadableFile) -> None:
        """Raises :class:`FileChanged`."""
        if not self.fingerprint.is_there(file):
            found = f"{file.size()} bytes, or others from offset {self.fingerprint.offset} on"
            raise changed(self.file, found, f"{self.fingerprint.size} bytes")


@dataclass(frozen=True, kw_only=True)
class EraseTail(FileStep):
    """Makes zeros of a segment file's bytes from an offset on, and the file ``length`` bytes long.

    It is cut at the offset, which frees the blocks, and lengthened again: a crash between leaves a file that is too
    short, which planning again lengthens; it is on disk before the catalog says that the recording ends there.
    """

    length: int

    def apply(self, backup: Backup | None) -> str:
        """See :class:`RepairStep`."""
        self.check()
        fingerprint = self.fingerprint
        with self.storage.open_writable(self.file) as file:
            self.compare(file)
            if backup is not None and fingerprint.byte_count:
                end = fingerprint.offset + fingerprint.byte_count
                backup.save(f"{self.file}@{fingerprint.offset}", pieces_of(file, fingerprint.offset, end))
            if fingerprint.byte_count:
                file.truncate(fingerprint.offset)
            file.truncate(self.length)
            file.sync()
        if not fingerprint.byte_count:
            return f"made {self.file} {self.length} bytes long"
        return f"erased {self.file} from offset {fingerprint.offset} on: {fingerprint.byte_count} bytes"


@dataclass(frozen=True, kw_only=True)
class MakeSegment(ArchiveStep):
    """Makes a segment file of zeros. A crash leaves none, or one that is too short, which planning again lengthens."""

    length: int

    def check(self) -> None:
        """See :class:`RepairStep`."""
        super().check()
        if self.storage.exists(self.file):
            raise changed(self.file, "a file", "none")

    def apply(self, backup: Backup | None) -> str:
        """See :class:`RepairStep`."""
        self.check()
        with self.storage.open_writable(self.file, create=True, exclusive=True, mode=0o644) as file:
            file.truncate(self.length)
            file.sync()
        self.storage.sync_folder()
        return f"made {self.file}: {self.length} bytes of zeros"


@dataclass(frozen=True, kw_only=True)
class RemoveFile(FileStep):
    """Deletes a file. ``needs_backup``: one with something intact in it, which stays where there is no backup to keep
    it. A crash leaves it or not."""

    needs_backup: bool = False

    def apply(self, backup: Backup | None) -> str:
        """See :class:`RepairStep`."""
        self.check()
        if self.needs_backup and backup is None:
            return f"left {self.file}: there is no backup to keep it"
        if self.fingerprint.byte_count:
            keep_file(backup, self.storage, self.file)
        self.storage.remove(self.file)
        self.storage.sync_folder()
        return f"deleted {self.file}"


@dataclass(frozen=True, slots=True)
class Stop:
    """A recording's stop position as it is, -1 for none, and as it is to be."""

    recording_id: int
    old: int
    new: int


@dataclass(frozen=True, kw_only=True)
class SetStops(ArchiveStep):
    """Writes stop positions into the catalog, with the time of now for recordings that had none, and the checksums of
    entries that have one.

    The last step: a crash in it leaves some recordings done and others active, which are planned again. ``is_later``:
    a step before it makes the catalog.
    """

    stops: tuple[Stop, ...]
    is_later: bool = False

    def check(self) -> None:
        """See :class:`RepairStep`."""
        super().check()
        if not self.is_later:
            self._entries()

    def _entries(self) -> dict[int, CatalogEntry]:
        """The entries to be changed. Raises :class:`FileChanged`."""
        catalog, _ = load_catalog(self.storage)
        entries = {} if catalog is None else {entry.recording_id: entry for entry in catalog.entries}
        for stop in self.stops:
            entry = entries.get(stop.recording_id)
            if entry is None or entry.stop_position != stop.old:
                found = "no recording" if entry is None else f"stop position {entry.stop_position}"
                raise changed(CATALOG_NAME, f"{found} {stop.recording_id}", str(stop.old))
        return {stop.recording_id: entries[stop.recording_id] for stop in self.stops}

    def apply(self, backup: Backup | None) -> str:
        """See :class:`RepairStep`."""
        super().check()
        entries = self._entries()
        keep_catalog(self.storage, backup)
        now = now_ms()
        kinds = {i: kind_of(entry) or stale_kind_of(entry) or "none" for i, entry in entries.items()}
        for kind in sorted(set(kinds.values())):
            with open_catalog(self.storage, kind) as writer:
                for stop in self.stops:
                    if kinds[stop.recording_id] == kind:
                        writer.set_stop(stop.recording_id, stop.new, now if stop.old == NULL_POSITION else None)
        return f"set the stop positions of {len(self.stops)} recordings in {CATALOG_NAME}"


@dataclass(frozen=True, kw_only=True)
class RenewChecksums(ArchiveStep):
    """Writes the checksums of entries that are right but for it. Each is four bytes: a crash leaves some renewed."""

    kinds: dict[int, str]
    is_later: bool = False

    def check(self) -> None:
        """See :class:`RepairStep`."""
        super().check()
        if not self.is_later:
            self._compare()

    def _compare(self) -> None:
        catalog, _ = load_catalog(self.storage)
        entries = {} if catalog is None else {entry.recording_id: entry for entry in catalog.entries}
        for recording_id in self.kinds:
            entry = entries.get(recording_id)
            if entry is None or kind_of(entry) is not None:
                found = "no such recording" if entry is None else "a right checksum"
                raise changed(CATALOG_NAME, f"{found}, {recording_id}", "a wrong one")

    def apply(self, backup: Backup | None) -> str:
        """See :class:`RepairStep`."""
        super().check()
        self._compare()
        keep_catalog(self.storage, backup)
        for kind in sorted(set(self.kinds.values())):
            with open_catalog(self.storage, kind) as writer:
                for recording_id, own in self.kinds.items():
                    if own == kind:
                        writer.set_checksum(recording_id)
        return f"renewed the checksums of {len(self.kinds)} entries in {CATALOG_NAME}"


def open_catalog(storage: WritableStorage, checksum: str) -> CatalogWriter:
    """The catalog as it is, not lengthened; what is changed is on disk when it is closed. ``checksum``: of entries that
    are changed."""
    capacity = max(storage.size(CATALOG_NAME), MIN_CAPACITY)
    return CatalogWriter.open(storage, CatalogOptions(capacity=capacity, checksum=checksum))


def keep_catalog(storage: WritableStorage, backup: Backup | None) -> None:
    """The catalog as it is into the backup, without the zeros at its end."""
    if backup is not None and storage.exists(CATALOG_NAME):
        with storage.open(CATALOG_NAME) as file:
            catalog, _ = load_catalog(storage)
            backup.save(CATALOG_NAME, pieces_of(file, 0, file.size() if catalog is None else catalog.used))
