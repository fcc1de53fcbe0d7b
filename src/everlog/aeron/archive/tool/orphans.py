"""``delete-orphaned-segments``: removes segment files outside their recording's positions. Source:
ArchiveTool.deleteOrphanedSegmentFiles.

As in the original, files that begin before a recording's start position or after its stop position are removed. So are
all files of a deleted recording, which the original leaves after an interrupted deletion. Files of recordings that the
catalog does not have, and files with other names, stay, because their purpose is unknown.
"""

from __future__ import annotations

from dataclasses import dataclass

from everlog.aeron.archive.folder.archive import FAMILY
from everlog.aeron.archive.folder.recordings import recording_of
from everlog.aeron.archive.format.catalog import CatalogEntry
from everlog.aeron.archive.format.segments import parse_segment_name
from everlog.aeron.archive.tool.folder import CatalogedArchive, open_folder
from everlog.aeron.archive.tool.steps import RemoveFiles
from everlog.core.files.storage import Storage
from everlog.core.plan.plan import RepairPlan

FilesByRecording = dict[int, list[tuple[int, str, int]]]
"""Recording id to position, name and size of its segment files, by position."""


@dataclass(frozen=True, slots=True)
class Span:
    """The range in which a recording's segments may begin; ``last`` is ``None`` while it is active, both are ``None``
    if it was deleted."""

    first: int | None
    last: int | None

    def is_orphan(self, position: int) -> bool:
        """Whether a file that begins there is outside the recording."""
        return self.first is None or position < self.first or (self.last is not None and position > self.last)


def segment_files(storage: Storage) -> FilesByRecording:
    """Return all segment files in a folder."""
    found: FilesByRecording = {}
    for entry in storage.entries():
        parsed = parse_segment_name(entry.name)
        if parsed is not None and entry.is_file:
            found.setdefault(parsed[0], []).append((parsed[1], entry.name, entry.size))
    for files in found.values():
        files.sort()
    return found


def plan_delete_orphans(storage: Storage, recording_id: int | None = None) -> RepairPlan:
    """Plan to remove the files outside their recording's positions, of one recording or of all; one step for each.

    Raises :class:`UnknownStream`, and as :func:`~.folder.open_folder`.
    """
    folder = open_folder(storage)
    files = segment_files(folder.storage)
    steps = []
    for entry in folder.entries(recording_id):
        span = span_of(folder, entry)
        gone = tuple(
            (name, size) for position, name, size in files.get(entry.recording_id, []) if span.is_orphan(position)
        )
        if gone:
            steps.append(_remove(folder, entry, span, gone))
    return RepairPlan(folder.storage.root, FAMILY, tuple(steps))


def span_of(folder: CatalogedArchive, entry: CatalogEntry) -> Span:
    """Return where the segments of a recording may begin. If it stops at a segment's end, the next file may exist,
    because it is preallocated."""
    if entry.state == "DELETED":
        return Span(None, None)
    recording = recording_of(entry)
    segments = folder.archive.segment_map(recording)
    first = segments.base(recording.start_position)
    return Span(first, None if recording.stop_position is None else segments.base(recording.stop_position))


def _remove(
    folder: CatalogedArchive, entry: CatalogEntry, span: Span, files: tuple[tuple[str, int], ...]
) -> RemoveFiles:
    names = ", ".join(name for name, _ in files)
    why = "of a deleted recording"
    if span.first is not None:
        last = "the end, as it is active" if span.last is None else f"{span.last}"
        why = f"outside recording {entry.recording_id}, whose segments begin at {span.first} to {last}"
    return RemoveFiles(
        file=files[0][0],
        before=f"{len(files)} files {why}: {names}",
        after="no files",
        loses="their contents",
        storage=folder.storage,
        files=files,
    )
