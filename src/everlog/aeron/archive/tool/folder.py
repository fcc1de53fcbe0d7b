"""An archive's folder that is to be changed while no archive runs in it."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from everlog.aeron.archive.catalog import CATALOG_NAME, Catalog, CatalogEntry
from everlog.aeron.archive.catalog_writer import WRITABLE_MAJOR
from everlog.aeron.archive.store import MARK_NAME, ArchiveStore
from everlog.aeron.frames import align, version_text
from everlog.aeron.layouts import CatalogHeader, DescriptorHeader
from everlog.aeron.mark_file import ArchiveMark, read_archive_mark
from everlog.core.report import Severity
from everlog.core.storage import LocalStorage, Storage
from everlog.core.writable import WritableStorage, writable
from everlog.errors import CorruptData, EverlogError, StoreUnavailable, UnknownStream, UnsupportedVersion

FAMILY = ArchiveStore.family
LINK_NAME = "archive-mark.lnk"
"""Holds the path of the folder that the mark file is in, where that is another one."""
MAX_PATH_BYTES = 4096
MARK_HEAD_BYTES = 4096
"""So much of a mark file has its header and texts."""

Clock = Callable[[], int]
"""Milliseconds since 1970."""


def now_ms() -> int:
    """The system's time."""
    return time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True)
class ArchiveFolder:
    """What a plan is made from: the folder, the store over it, and its catalog, which is sound."""

    storage: WritableStorage
    store: ArchiveStore
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


def open_folder(storage: Storage, *, any_version: bool = False) -> ArchiveFolder:
    """Open for changes: the catalog is read whole.

    Raises :class:`CorruptData` for a catalog that is missing or damaged, for what may still be rescued would be
    overwritten; :class:`UnsupportedVersion` for one of a version before 3, without ``any_version``;
    :class:`StoreUnavailable` when an archive runs here; :class:`UsageError` for a folder that is not on this machine.
    """
    folder = writable(storage)
    refuse_running(folder)
    store = ArchiveStore.open(folder, {})
    catalog, fault = store.catalog, store.catalog_fault
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
    return ArchiveFolder(folder, store, catalog)


def mark_storage(storage: Storage) -> Storage:
    """Where the mark file is: the archive's folder, or the one that its link file names."""
    if not storage.exists(LINK_NAME):
        return storage
    with storage.open(LINK_NAME) as file:
        path = file.read_at(0, MAX_PATH_BYTES).decode("utf-8", "surrogateescape").strip()
    return LocalStorage(path)


def load_mark_head(storage: Storage) -> ArchiveMark | None:
    """The header and texts of the mark file; ``None`` where there is none. Raises :class:`CorruptData`,
    :class:`StoreUnavailable`."""
    place = mark_storage(storage)
    if not place.exists(MARK_NAME):
        return None
    with place.open(MARK_NAME) as file:
        return read_archive_mark(file.read_at(0, MARK_HEAD_BYTES), MARK_NAME)


@contextlib.contextmanager
def alone(storage: Storage) -> Iterator[None]:
    """Keeps other processes of everlog out of the folder: its writers and its tools hold the mark file. Where there is
    none, or it is elsewhere, nobody is kept out. Raises :class:`StoreUnavailable` while somebody else does."""
    folder = writable(storage)
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


def refuse_running(storage: WritableStorage, clock: Clock = now_ms) -> None:
    """Raises :class:`StoreUnavailable` when an archive said within ten seconds that it runs here, or a process has the
    catalog open, as one has that runs. An archive that starts at this very moment is not seen."""
    try:
        mark = load_mark_head(storage)
    except EverlogError:
        mark = None  # a damaged one keeps no archive from being changed; who has the catalog open does
    if mark is not None and mark.is_live(clock()):
        age_ms = clock() - mark.header.activity_timestamp
        raise StoreUnavailable(
            f"{storage.root}/{MARK_NAME}",
            found=f"an archive that was active {age_ms} ms ago (process {mark.header.pid})",
            expected="none while the folder is changed",
            hint="stop it first; one that was killed counts as running for 10 seconds",
        )
    if storage.exists(CATALOG_NAME) and storage.is_open_elsewhere(CATALOG_NAME):
        raise StoreUnavailable(
            f"{storage.root}/{CATALOG_NAME}",
            found="a process that has it open",
            expected="none while the folder is changed",
            hint="stop the archive and other tools first",
        )
