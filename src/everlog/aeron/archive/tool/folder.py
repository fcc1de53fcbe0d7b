"""An archive's folder that is to be changed while no archive runs in it."""

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
    """What a plan is made from: the folder, the store over it, and its catalog, which is sound."""

    storage: WritableStorage
    archive: ArchiveFolder
    catalog: Catalog

    @property
    def next_recording_id(self) -> int:
        """The id that the next recording gets. Old catalogs have none: it is the one behind the last entry's."""
        entries = self.catalog.entries
        following = entries[-1].recording_id + 1 if entries else 0
        return following if self.catalog.is_old else max(self.catalog.header.next_recording_id, following)

    def entry(self, recording_id: int) -> CatalogEntry:
        """Raises :class:`UnknownStream`."""
        for entry in self.catalog.entries:
            if entry.recording_id == recording_id:
                return entry
        found = f"no recording {recording_id}"
        raise UnknownStream(self.storage.root, found=found, expected="one of the catalog's, as describe-all lists them")

    def entries(self, recording_id: int | None) -> list[CatalogEntry]:
        """One recording's entry, or all. Raises :class:`UnknownStream`."""
        return self.catalog.entries if recording_id is None else [self.entry(recording_id)]

    def end_of_entries(self) -> int:
        """Where the next entry would begin."""
        if not self.catalog.entries:
            return CatalogHeader.size
        last = self.catalog.entries[-1]
        return last.offset + align(DescriptorHeader.size + last.length, self.catalog.alignment)


def open_folder(storage: Storage, *, any_version: bool = False) -> CatalogedArchive:
    """Open for changes: the catalog is read whole.

    Raises :class:`CorruptData` for a catalog that is missing or damaged, for what may still be rescued would be
    overwritten; :class:`UnsupportedVersion` for one of a version before 3, without ``any_version``;
    :class:`StoreUnavailable` when an archive runs here; :class:`UsageError` for a folder that is not on this machine.
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
        hint = "everlog archive DIR migrate makes it one; nothing was changed"
        raise UnsupportedVersion(CATALOG_NAME, found=found, expected="3.x", hint=hint)
    damage = next((fault for fault in catalog.faults if fault.severity is Severity.FAULT), None)
    if damage is not None:
        hint = "everlog verify says all that is wrong; nothing was changed"
        raise CorruptData(CATALOG_NAME, offset=damage.offset, found=damage.found, expected=damage.expected, hint=hint)
    return CatalogedArchive(folder, archive, catalog)


@contextlib.contextmanager
def alone(storage: Storage) -> Iterator[None]:
    """Keeps other processes of everlog out of the folder: its writers and its tools hold the mark file. Where there is
    none, nobody is kept out. Raises :class:`StoreUnavailable` while somebody else does."""
    folder = writable(mark_storage(writable(storage)))
    if not folder.exists(MARK_NAME):
        yield
        return
    with folder.open_writable(MARK_NAME) as file:
        if not file.hold():
            raise StoreUnavailable(
                f"{folder.root}/{MARK_NAME}",
                found="a process of everlog that writes here",
                expected="none while the folder is changed",
                hint="stop it first; nothing was changed",
            )
        yield
