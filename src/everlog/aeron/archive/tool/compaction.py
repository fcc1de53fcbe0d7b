"""``compact``: removes invalid and deleted recordings and their files. Source: ArchiveTool.compact.

**Order, and what a crash leaves.** The original removes the files first and then briefly has no catalog. Here:

======================================  ===========================================================================
after                                   a crash leaves
======================================  ===========================================================================
an invalid recording is marked deleted  a deleted recording with files, which is no fault
a recording's files are removed         some of its files or none, which is no fault
the catalog is replaced                 the result
======================================  ===========================================================================

Compacting again continues from any of these.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass

from everlog.aeron.archive.folder.archive import FAMILY
from everlog.aeron.archive.format.catalog import CATALOG_NAME, Catalog, CatalogEntry
from everlog.aeron.archive.format.catalog_bytes import encode_header
from everlog.aeron.archive.tool.folder import CatalogedArchive, open_folder
from everlog.aeron.archive.tool.orphans import FilesByRecording, segment_files
from everlog.aeron.archive.tool.states import set_state
from everlog.aeron.archive.tool.steps import RemoveFiles, ReplaceFile, WriteBytes
from everlog.aeron.frames.constants import align
from everlog.aeron.layouts import DescriptorHeader
from everlog.core.files.storage import Storage
from everlog.core.plan.plan import RepairPlan
from everlog.core.plan.step import RepairStep


@dataclass(frozen=True, slots=True)
class Compaction:
    """A compacted catalog: its bytes, the dropped entries, and their size as the original counts it."""

    data: bytes
    dropped: tuple[CatalogEntry, ...]
    reclaimed_bytes: int


def compacted(catalog: Catalog, next_recording_id: int) -> Compaction:
    """Return the catalog with its valid entries only, without spare capacity."""
    parts = [encode_header(next_recording_id, catalog.header.version, catalog.alignment)]
    dropped, reclaimed = [], 0
    for entry in catalog.entries:
        data = entry.head + entry.body
        if entry.state == "VALID":
            parts.append(data.ljust(align(len(data), catalog.alignment), b"\0"))
        else:
            dropped.append(entry)
            reclaimed += DescriptorHeader.size + entry.length
    return Compaction(b"".join(parts), tuple(dropped), reclaimed)


def plan_compact(storage: Storage) -> tuple[RepairPlan, Compaction]:
    """Plan to remove every ``INVALID`` or ``DELETED`` recording and its files; empty if the catalog is compact already.
    Raises as :func:`~.folder.open_folder`."""
    folder = open_folder(storage)
    result = compacted(folder.catalog, folder.next_recording_id)
    files = segment_files(folder.storage)
    data = folder.storage.read_all(CATALOG_NAME)
    if data == result.data:
        return RepairPlan(folder.storage.root, FAMILY, ()), result
    marks = [set_state(folder.storage, entry, "DELETED") for entry in result.dropped if entry.state == "INVALID"]
    steps: list[RepairStep] = [
        *marks,
        *_removals(folder, result, files),
        ReplaceFile(
            file=CATALOG_NAME,
            before=f"{len(folder.catalog.entries)} entries, {len(data)} bytes",
            after=f"{len(folder.catalog.entries) - len(result.dropped)} entries, {len(result.data)} bytes",
            loses=_lost(result.dropped),
            storage=folder.storage,
            states=_states(data, marks),
            new=result.data,
        ),
    ]
    return RepairPlan(folder.storage.root, FAMILY, tuple(steps)), result


def _removals(folder: CatalogedArchive, result: Compaction, files: FilesByRecording) -> list[RemoveFiles]:
    steps = []
    for entry in result.dropped:
        own = files.get(entry.recording_id, [])
        if own:
            step = RemoveFiles(
                file=own[0][1],
                before=f"{len(own)} files of recording {entry.recording_id}, {entry.state}",
                after="no files",
                loses="their contents",
                storage=folder.storage,
                files=tuple((name, size) for _, name, size in own),
            )
            steps.append(step)
    return steps


def _states(data: bytes, marks: list[WriteBytes]) -> tuple[tuple[int, int], ...]:
    """The state of the catalog now, and once the entries are marked."""
    marked = bytearray(data)
    for mark in marks:
        marked[mark.offset : mark.offset + len(mark.new)] = mark.new
    return (len(data), zlib.crc32(data)), (len(marked), zlib.crc32(marked))


def _lost(dropped: tuple[CatalogEntry, ...]) -> str:
    if not dropped:
        return "nothing"
    return "the catalog entries of " + ", ".join(f"{entry.recording_id} ({entry.state})" for entry in dropped)
