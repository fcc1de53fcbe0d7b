"""Opens an archive's folder for changes while no archive runs in it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

from everlog.aeron.archive.folder.archive import ArchiveFolder
from everlog.aeron.archive.folder.liveness import refuse_running
from everlog.aeron.archive.format.catalog import CATALOG_NAME, Catalog, CatalogEntry
from everlog.aeron.archive.format.mark_place import MARK_NAME, mark_storage
from everlog.aeron.archive.writing.catalog_writer import WRITABLE_MAJOR
from everlog.aeron.frames.constants import align, version_text
from everlog.aeron.layouts import CatalogHeader, DescriptorHeader
from everlog.core.files.storage import Storage
from everlog.core.files.writable import WritableStorage, writable
from everlog.core.report import Severity
from everlog.errors import CorruptData, StoreUnavailable, UnknownStream, UnsupportedVersion


@dataclass(frozen=True, slots=True)
class CatalogedArchive:
    """What a plan is made from: the folder, the store over it, and its intact catalog."""

    storage: WritableStorage
    archive: ArchiveFolder
    catalog: Catalog

    @property
    def next_recording_id(self) -> int:
        """The id for the next recording. Old catalogs do not store it: it follows the last entry's."""
        entries = self.catalog.entries
        following = entries[-1].recording_id + 1 if entries else 0
        return following if self.catalog.is_old else max(self.catalog.header.next_recording_id, following)

    def entry(self, recording_id: int) -> CatalogEntry:
        """Return a recording's entry. Raises :class:`UnknownStream`."""
        for entry in self.catalog.entries:
            if entry.recording_id == recording_id:
                return entry
        found = f"no recording {recording_id}"
        raise UnknownStream(self.storage.root, found=found, expected="one that describe-all lists")

    def entries(self, recording_id: int | None) -> list[CatalogEntry]:
        """Return one recording's entry, or all. Raises :class:`UnknownStream`."""
        return self.catalog.entries if recording_id is None else [self.entry(recording_id)]

    def end_of_entries(self) -> int:
        """Return the offset at which the next entry would begin."""
        if not self.catalog.entries:
            return CatalogHeader.size
        last = self.catalog.entries[-1]
        return last.offset + align(DescriptorHeader.size + last.length, self.catalog.alignment)


def open_folder(storage: Storage, *, any_version: bool = False) -> CatalogedArchive:
    """Open a folder for changes, and read its catalog.

    Raises :class:`CorruptData` for a missing or damaged catalog, since a change could overwrite what may still be
    rescued; :class:`UnsupportedVersion` for a version before 3, unless ``any_version``; :class:`StoreUnavailable` if an
    archive runs here; :class:`UsageError` if the folder is not on this machine.
    """
    folder = writable(storage)
    refuse_running(folder)
    archive = ArchiveFolder(folder)
    catalog, fault = archive.catalog, archive.catalog_fault
    if catalog is None:
        assert fault is not None
        raise CorruptData(CATALOG_NAME, offset=fault.offset, found=fault.found, expected=fault.expected)
    if catalog.header.version >> 16 < WRITABLE_MAJOR and not any_version:
        found = f"version {version_text(catalog.header.version)}"
        hint = "nothing was changed; upgrade it: everlog archive DIR migrate"
        raise UnsupportedVersion(CATALOG_NAME, found=found, expected="3.x", hint=hint)
    damage = next((fault for fault in catalog.faults if fault.severity is Severity.FAULT), None)
    if damage is not None:
        hint = "nothing was changed; everlog verify lists all faults"
        raise CorruptData(CATALOG_NAME, offset=damage.offset, found=damage.found, expected=damage.expected, hint=hint)
    return CatalogedArchive(folder, archive, catalog)


@contextlib.contextmanager
def alone(storage: Storage) -> Iterator[None]:
    """Keep other everlog processes out of the folder by locking the mark file, as writers and tools do. Without a mark
    file nothing is locked. Raises :class:`StoreUnavailable` if another process holds it."""
    folder = writable(mark_storage(writable(storage)))
    if not folder.exists(MARK_NAME):
        yield
        return
    with folder.open_writable(MARK_NAME) as file:
        if not file.hold():
            raise StoreUnavailable(
                f"{folder.root}/{MARK_NAME}",
                found="held by another everlog process",
                expected="no writer while the folder is changed",
                hint="stop it first; nothing was changed",
                message=f"another everlog process writes to {folder.root}",
            )
        yield
