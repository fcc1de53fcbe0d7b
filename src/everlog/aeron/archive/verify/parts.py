"""Splits an archive's verification into parts: the folder, groups of recordings, and ranges of large recordings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from everlog.aeron.archive.folder.archive import ArchiveFolder
from everlog.aeron.archive.folder.splitting import split_recording
from everlog.aeron.archive.verify.archive import Verification
from everlog.aeron.frames.position import FOREVER
from everlog.core.report import Fault, Report, VerifyPart
from everlog.core.splits import Split
from everlog.errors import EverlogError

if TYPE_CHECKING:
    from everlog.aeron.archive.folder.recordings import Recording


@dataclass(frozen=True, slots=True)
class RecordingRange:
    """A recording's messages that begin at ``start <= position < end``; ``None`` means unbounded."""

    recording_id: int
    start: int | None = None
    end: int | None = None


@dataclass(frozen=True, slots=True)
class ArchivePart:
    """What one part checks. ``is_folder``: catalog, mark file, file names and orphaned files."""

    ranges: tuple[RecordingRange, ...]
    is_folder: bool = False


def plan_parts(archive: ArchiveFolder, split_bytes: int) -> list[VerifyPart]:
    """Plan the parts: the folder, then the recordings by id, small ones grouped and large ones split into ranges."""
    parts = [VerifyPart(0, ArchivePart((), is_folder=True))]
    group: list[RecordingRange] = []
    size = 0
    for recording in archive.recordings().values():
        splits = _splits(archive, recording, split_bytes)
        byte_count = sum(split.byte_count for split in splits)
        if len(splits) > 1:
            parts += _ranges(recording.recording_id, splits)
            continue
        if group and size + byte_count > split_bytes:
            parts.append(VerifyPart(size, ArchivePart(tuple(group))))
            group, size = [], 0
        group.append(RecordingRange(recording.recording_id))
        size += byte_count
    if group:
        parts.append(VerifyPart(size, ArchivePart(tuple(group))))
    return parts


def _splits(archive: ArchiveFolder, recording: Recording, split_bytes: int) -> list[Split]:
    if recording.is_deleted or archive.is_purged(recording):
        return []
    try:
        if recording.is_active and not archive.is_live():
            # Its end has to be searched for: the last segments may be zeros, and the end in an earlier one.
            split_bytes = FOREVER
        return split_recording(archive, recording, None, None, split_bytes)
    except EverlogError:
        return []  # the check reports why


def _ranges(recording_id: int, splits: list[Split]) -> Iterator[VerifyPart]:
    again = ArchivePart((RecordingRange(recording_id),))
    for number, split in enumerate(splits):
        start = split.start if number else None
        end = split.end if number < len(splits) - 1 else None
        yield VerifyPart(split.byte_count, ArchivePart((RecordingRange(recording_id, start, end),)), again)


def verify_part(archive: ArchiveFolder, part: VerifyPart) -> Report:
    """Check one part of ``plan_parts``. A recording that was deleted since then is skipped."""
    report = Report(archive.path, archive.family)
    check = Verification(archive, report, None)
    chosen: ArchivePart = part.context
    if chosen.is_folder:
        check.check_folder()
        check.check_orphans()
        return report
    check.list_segments([piece.recording_id for piece in chosen.ranges if piece.start is None])
    recordings = archive.recordings()
    for piece in chosen.ranges:
        recording = recordings.get(piece.recording_id)
        if recording is not None:
            check.check_recording(recording, piece.start, piece.end)
            if piece.end is not None:
                _check_lengths(archive, recording, piece.start or 0, piece.end, report)
    return report


def _check_lengths(archive: ArchiveFolder, recording: Recording, start: int, end: int, report: Report) -> None:
    """Report the first short segment of the part, so that the whole recording is checked again: which of the adjacent
    parts would find it depends on the frames."""
    segments = archive.segment_map(recording)
    for base in segments.bases(archive.segment_index().get(recording.recording_id, [])):
        if base >= end or base + segments.segment_length <= start:
            continue
        name = segments.name(base)
        try:
            size = archive.storage.size(name)
        except EverlogError:
            continue  # deleted since it was listed
        if size < segments.segment_length:
            found, expected = f"{size} bytes", f"{segments.segment_length} bytes"
            report.add(Fault("segment-short", name, size, found, expected, stream=str(recording.recording_id)))
            return
