"""Recovers an archive that was killed: gives every active recording its stop position.

Planning changes nothing. Applying the plan works in this order; after a crash at any point, planning again finishes it:

1. In the segment file that holds each end, bytes that a crash tore, or that a power cut left after a hole, become
   zeros. The file is cut and lengthened again; a crash in between leaves a short file, and the same end.
   After a full file the next one is created if the owner died before it did: real archives treat a recording without it
   as damaged.
2. Files that begin after the end are removed: preallocated files of zeros, or files after a hole. The one that begins
   at the end stays, because writing continues there. The folder is synced.
3. The catalog gets each recording's stop position and stop time, which makes the recording a stopped one. Until then it
   is active and is planned again.

The original refuses to start on a last frame that crosses a page's end, uses the end of a file of zeros as stop
position, or fails on a negative length; this cuts at the last good frame. Source: Catalog.refreshAndFixDescriptor.
"""

from __future__ import annotations

from collections.abc import Iterator

from everlog.aeron.archive.folder.archive import ArchiveFolder
from everlog.aeron.archive.folder.recordings import Recording
from everlog.aeron.archive.format.catalog import CATALOG_NAME
from everlog.aeron.archive.repair.ends import EMPTY_PAGE, RecoveredEnd, recover_end
from everlog.aeron.archive.repair.steps import EraseTail, MakeSegment, RemoveFile, SetStops, Stop
from everlog.aeron.family_options import ReadChecksum
from everlog.aeron.frames.constants import NULL_POSITION
from everlog.core.files.writable import WritableStorage, writable
from everlog.core.plan.plan import RepairPlan
from everlog.core.plan.step import NOTHING, RepairStep
from everlog.errors import CorruptData, UnsupportedVersion


def recover(storage: WritableStorage, *, checksum: ReadChecksum = "auto") -> list[str]:
    """Recover an archive whose folder the caller owns; return one line for each step. Raises as ``plan_recovery``, and
    :class:`WriteFailed`: then recover again."""
    return plan_recovery(ArchiveFolder(storage), checksum=checksum).apply()


def plan_recovery(archive: ArchiveFolder, *, checksum: ReadChecksum = "auto", is_owner: bool = True) -> RepairPlan:
    """Plan the steps that stop all active recordings, and nothing else; changes nothing. Reopen the store once they are
    applied. ``checksum`` is that of the frames, as in the store's options. ``is_owner``: the caller has made sure that
    no archive runs here.

    Raises :class:`CorruptData` for an archive without a catalog, :class:`UnsupportedVersion` for a catalog before
    version 3, :class:`UsageError` for a folder that is not on this machine.
    """
    storage = writable(archive.storage)
    if archive.catalog is None:
        hint = "everlog repair rebuilds it from the segment files"
        raise CorruptData(CATALOG_NAME, found="no catalog", expected="a catalog", hint=hint)
    active = active_recordings(archive)
    if active and archive.catalog.is_old:
        found = f"version {archive.catalog.to_dict()['version']}"
        hint = "upgrade it: everlog archive DIR migrate"
        raise UnsupportedVersion(CATALOG_NAME, found=found, expected="3.x", hint=hint)
    ends = [recover_end(archive, recording, checksum) for recording in active if recording.entry is not None]
    steps = recovery_steps(storage, ends, is_owner=is_owner)
    return RepairPlan(archive.path, archive.family, tuple(steps))


def active_recordings(archive: ArchiveFolder) -> list[Recording]:
    """Return the recordings without a stop position: from the catalog or, if it is damaged, from files alone."""
    return [r for r in archive.recordings().values() if r.is_active and r.state in ("VALID", "UNKNOWN")]


def recovery_steps(storage: WritableStorage, ends: list[RecoveredEnd], *, is_owner: bool) -> list[RepairStep]:
    """Return the steps for these ends."""
    steps = [step for end in ends for step in file_steps(storage, end, is_owner=is_owner)]
    if ends:
        stops = tuple(Stop(end.recording_id, NULL_POSITION, end.stop_position) for end in ends)
        steps.append(
            SetStops(
                file=CATALOG_NAME,
                before=f"no stop position: {_listed(str(end.recording_id) for end in ends)}",
                after=f"stop positions: {_listed(f'{e.recording_id} at {e.stop_position}' for e in ends)}",
                storage=storage,
                is_owner=is_owner,
                stops=stops,
            )
        )
    return steps


def file_steps(
    storage: WritableStorage, end: RecoveredEnd, *, is_owner: bool, tail_loss: str | None = None
) -> Iterator[RepairStep]:
    """Yield the steps for one recording's files. ``tail_loss`` replaces the description of what the last one loses."""
    if end.tail is not None:
        yield EraseTail(
            file=end.tail.file,
            before=f"{end.tail.byte_count} bytes after position {end.stop_position}: {end.torn}{_stays(end)}",
            after=f"zeros from offset {end.tail.offset} on, {end.segment_length} bytes long",
            loses=tail_loss or _loss(end, end.tail.byte_count),
            storage=storage,
            is_owner=is_owner,
            fingerprint=end.tail,
            length=end.segment_length,
        )
    elif end.short is not None:
        yield EraseTail(
            file=end.short.file,
            before=f"{end.short.size} bytes",
            after=f"{end.segment_length} bytes, lengthened with zeros",
            storage=storage,
            is_owner=is_owner,
            fingerprint=end.short,
            length=end.segment_length,
        )
    elif end.missing is not None:
        yield MakeSegment(
            file=end.missing,
            before=f"no file for position {end.stop_position}, where writing continues",
            after=f"{end.segment_length} bytes of zeros",
            storage=storage,
            is_owner=is_owner,
            length=end.segment_length,
        )
    # From the last one down: after a crash the remaining files have no gap and the same end.
    for file in reversed(end.after):
        what = f"{file.byte_count} bytes of frames after a hole" if file.byte_count else "a file of zeros"
        yield RemoveFile(
            file=file.file,
            before=f"{what}, after the end at {end.stop_position}",
            after="no file",
            loses=_loss(end, file.byte_count) if file.byte_count else NOTHING,
            storage=storage,
            is_owner=is_owner,
            fingerprint=file,
        )


def _loss(end: RecoveredEnd, byte_count: int) -> str:
    if end.has_hole:
        return f"{byte_count} bytes after a hole that a power cut left; they were never synced"
    if end.torn == EMPTY_PAGE:
        return f"{byte_count} bytes of an incomplete frame, unless its payload really ended in zeros"
    return f"{byte_count} bytes of incomplete frames; nothing acknowledged is lost"


def _stays(end: RecoveredEnd) -> str:
    if not end.damaged:
        return ""
    return f"; damaged frames before it stay, because good ones follow: {_listed(map(str, end.damaged))}"


def _listed(texts: Iterator[str]) -> str:
    """Join the first few of many texts."""
    found = list(texts)
    return ", ".join(found[:8]) + (f" and {len(found) - 8} more" if len(found) > 8 else "")
