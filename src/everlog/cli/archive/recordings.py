"""The parts that ArchiveTool's verbs share: opening the archive, and printing its mark file and descriptors."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar, Unpack

import click

from everlog.aeron.archive.folder.archive import load_mark
from everlog.aeron.archive.folder.recordings import recording_of
from everlog.aeron.archive.format.catalog import Catalog, CatalogEntry
from everlog.aeron.archive.format.mark_place import MARK_NAME, mark_storage
from everlog.aeron.archive.store import ArchiveStore
from everlog.aeron.layouts import ArchiveMarkHeader, DescriptorHeader, RecordingDescriptor
from everlog.aeron.mark_file import ARCHIVE_SCHEMA_ID, ARCHIVE_TEMPLATE_ID, ArchiveMark
from everlog.cli.aeron_text import Name, clock_text, sbe_text
from everlog.cli.faults import FaultPrinter
from everlog.cli.text import printable
from everlog.core.files.storage import Storage
from everlog.errors import CorruptData, NotAStore, StoreUnavailable, UsageError
from everlog.stores import StoreOptions, storage_of

F = TypeVar("F", bound=Callable[..., Any])
NOT_DONE = 1
SCHEMA_ID, SCHEMA_VERSION, MARK_SCHEMA_VERSION = 101, 14, 2
DESCRIPTOR_HEADER_ID, DESCRIPTOR_ID = 21, 22


def json_option(command: F) -> F:
    """Decorator that adds ``--json``."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON, one object a line.")(command)


def open_archive(folder: str, **options: Unpack[StoreOptions]) -> ArchiveStore:
    """Open the archive in a folder. Raises :class:`NotAStore`."""
    return ArchiveStore.open(local_archive(folder), options)


def local_archive(folder: str) -> Storage:
    """The storage of an archive's folder. Raises :class:`NotAStore`."""
    storage = storage_of(folder)
    if not ArchiveStore.detect(storage):
        text = f"no Aeron archive here: {folder} has neither a catalog nor segment files"
        raise NotAStore(folder, found="neither a catalog nor segment files", message=text)
    return storage


def require_catalog(store: ArchiveStore, faults: FaultPrinter) -> Catalog:
    """The catalog, after reporting its faults. Raises :class:`CorruptData` if it can't be read."""
    if store.folder.catalog is None:
        fault = store.folder.catalog_fault
        assert fault is not None
        raise CorruptData(f"{store.path}/{fault.file}", offset=fault.offset, found=fault.found, expected=fault.expected)
    for fault in store.folder.catalog.faults:
        faults(fault)
    return store.folder.catalog


def require_mark(store: ArchiveStore) -> ArchiveMark:
    """The mark file. Raises :class:`StoreUnavailable` without one."""
    mark = load_mark(store.storage)
    if mark is None:
        path = f"{store.path}/{MARK_NAME}"
        raise StoreUnavailable(path, found="no mark file", message=f"no mark file: {path}")
    return mark


def entry_of(catalog: Catalog, recording_id: int) -> CatalogEntry:
    """A recording's catalog entry. Raises :class:`UsageError` for an unknown recording."""
    for entry in catalog.entries:
        if entry.recording_id == recording_id:
            return entry
    text = f"no recording {recording_id} in the catalog"
    raise UsageError("RECORDING", found=str(recording_id), message=text, hint="describe-all lists the recordings")


def mark_lines(store: ArchiveStore, mark: ArchiveMark) -> list[str]:
    """The mark file's path, times and content, as ArchiveTool prints them."""
    header = mark.header
    fields = {**header.as_dict(), **mark.texts}
    version = mark.schema_version if mark.header_offset else MARK_SCHEMA_VERSION
    lengths = ArchiveMarkHeader.size, ArchiveMarkHeader.size
    ids = ARCHIVE_TEMPLATE_ID, ARCHIVE_SCHEMA_ID
    place = os.path.join(mark_storage(store.storage).root, MARK_NAME)
    return [
        f"INFO: mark file exists: {printable(os.path.abspath(place))}",
        clock_text(header.start_timestamp, header.activity_timestamp),
        sbe_text("MarkFileHeader", *ids, (version, MARK_SCHEMA_VERSION), lengths, fields),
    ]


def descriptor_text(entry: CatalogEntry) -> str:
    """A recording's descriptor, as ArchiveTool prints it."""
    values = RecordingDescriptor(entry.values).as_dict()
    version, length = (SCHEMA_VERSION, SCHEMA_VERSION), (RecordingDescriptor.size, RecordingDescriptor.size)
    fields = {**values, **entry.texts}
    return sbe_text("RecordingDescriptor", DESCRIPTOR_ID, SCHEMA_ID, version, length, fields)


def descriptor_header_text(entry: CatalogEntry) -> str:
    """The header of a recording's entry, as ArchiveTool prints it. Its last byte is reserved."""
    reserved = int.from_bytes(entry.data[entry.offset + DescriptorHeader.size - 1 :][:1], "little", signed=True)
    fields = {"length": entry.length, "state": Name(entry.state), "checksum": entry.checksum, "reserved": reserved}
    version, length = (SCHEMA_VERSION, SCHEMA_VERSION), (DescriptorHeader.size, DescriptorHeader.size)
    return sbe_text("RecordingDescriptorHeader", DESCRIPTOR_HEADER_ID, SCHEMA_ID, version, length, fields)


def entry_json(entry: CatalogEntry) -> dict[str, Any]:
    """A recording's entry as an object for JSON."""
    return {"recording_id": entry.recording_id, **recording_of(entry).details, "checksum": entry.checksum}
