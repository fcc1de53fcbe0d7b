"""Recovery of an archive that was killed: every recording that nobody stopped gets its end.

The plan changes nothing; applied, it goes on in this order, in which a crash at any point is finished by planning
again:

1. Behind each end, in its segment file: what a crash tore, or a power cut left behind a hole, becomes zeros. The file
   is cut and lengthened again; a crash between leaves a short file, and the same end.
   Behind a file that is full, the next one is made, if the owner died before it was: real archives take a recording
   without it for damaged.
2. Files that begin behind the end go: all zeros, as they were made for what was to come, or behind a hole. The one that
   begins at the end stays, for writing goes on there. The folder is synced.
3. The catalog says where each recording stops, and when: from then on the recording is one that was stopped. Before
   that it is active still, and planned again.

Where the original refuses to start (a last frame over a page's end), takes the end of a file of zeros for the stop
position, or trips over a negative length, this cuts at the last good frame. Source: Catalog.refreshAndFixDescriptor.
"""

from __future__ import annotations

from collections.abc import Iterator

from everlog.aeron.archive.folder.archive import ArchiveFolder
from everlog.aeron.archive.folder.recordings import Recording
from everlog.aeron.archive.format.catalog import CATALOG_NAME
from everlog.aeron.archive.repair.ends import EMPTY_PAGE, RecoveredEnd, recover_end
from everlog.aeron.archive.repair.steps import EraseTail, MakeSegment, RemoveFile, SetStops, Stop
from everlog.aeron.frames.constants import NULL_POSITION
from everlog.core.files.writable import WritableStorage, writable
from everlog.core.plan.plan import RepairPlan
from everlog.core.plan.step import NOTHING, RepairStep
from everlog.errors import CorruptData, UnsupportedVersion


def recover(storage: WritableStorage, *, checksum: str = "auto") -> list[str]:
    """Recover an archive whose folder the caller owns; what was done, a line for each step. Raises as
    ``plan_recovery``, and :class:`WriteFailed`: then it is to be done again."""
    return plan_recovery(ArchiveFolder(storage), checksum=checksum).apply()


def plan_recovery(archive: ArchiveFolder, *, checksum: str = "auto", is_owner: bool = True) -> RepairPlan:
    """Steps that give all active recordings their ends, nothing else; changes nothing. The store is to be opened anew
    once they are done. ``checksum``: of the frames, as in the store's options. ``is_owner``: whoever applies it has
    made sure that no archive runs here.

    Raises :class:`CorruptData` for an archive without a catalog, :class:`UnsupportedVersion` for a catalog before
    version 3, :class:`UsageError` for a folder that is not on this machine.
    """
    storage = writable(archive.storage)
    if archive.catalog is None:
        hint = "everlog repair makes one of what the files tell"
        raise CorruptData(CATALOG_NAME, found="no catalog", expected="a catalog", hint=hint)
    active = active_recordings(archive)
    if active and archive.catalog.is_old:
        found = f"version {archive.catalog.to_dict()['version']}"
        hint = "everlog archive DIR migrate makes it one"
        raise UnsupportedVersion(CATALOG_NAME, found=found, expected="3.x", hint=hint)
    ends = [recover_end(archive, recording, checksum) for recording in active if recording.entry is not None]
    steps = recovery_steps(storage, ends, is_owner=is_owner)
    return RepairPlan(archive.path, archive.family, tuple(steps))


def active_recordings(archive: ArchiveFolder) -> list[Recording]:
    """Those that nobody stopped, of the catalog or, where that is damaged, of files alone."""
    return [r for r in archive.recordings().values() if r.is_active and r.state in ("VALID", "UNKNOWN")]


def recovery_steps(storage: WritableStorage, ends: list[RecoveredEnd], *, is_owner: bool) -> list[RepairStep]:
    """The steps for these ends."""
    steps = [step for end in ends for step in file_steps(storage, end, is_owner=is_owner)]
    if ends:
        stops = tuple(Stop(end.recording_id, NULL_POSITION, end.stop_position) for end in ends)
        steps.append(
            SetStops(
                file=CATALOG_NAME,
                before=f"no stop position: {_listed(str(end.recording_id) for end in ends)}",
                after=f"stops by the frames: {_listed(f'{e.recording_id} at {e.stop_position}' for e in ends)}",
                storage=storage,
                is_owner=is_owner,
                stops=stops,
            )
        )
    return steps


def file_steps(
    storage: WritableStorage, end: RecoveredEnd, *, is_owner: bool, tail_loss: str | None = None
) -> Iterator[RepairStep]:
    """What is to be done with one recording's files. ``tail_loss``: other words for what is lost in the last one."""
    if end.tail is not None:
        yield EraseTail(
            file=end.tail.file,
            before=f"{end.tail.byte_count} bytes behind position {end.stop_position}: {end.torn}{_stays(end)}",
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
            before=f"no file where writing goes on, at position {end.stop_position}",
            after=f"{end.segment_length} bytes of zeros",
            storage=storage,
            is_owner=is_owner,
            length=end.segment_length,
        )
    # From the last one down: what is left after a crash has no gap, and ends where it did.
    for file in reversed(end.after):
        what = f"{file.byte_count} bytes of frames behind a hole" if file.byte_count else "a file of zeros"
        yield RemoveFile(
            file=file.file,
            before=f"{what}, behind the end at {end.stop_position}",
            after="no file",
            loses=_loss(end, file.byte_count) if file.byte_count else NOTHING,
            storage=storage,
            is_owner=is_owner,
            fingerprint=file,
        )


def _loss(end: RecoveredEnd, byte_count: int) -> str:
    if end.has_hole:
        return f"{byte_count} bytes behind a hole: a power cut took what was before them, so they were never synced"
    if end.torn == EMPTY_PAGE:
        return f"{byte_count} bytes that are no whole frame, unless its payload was zeros up to its end"
    return f"{byte_count} bytes that are no whole frame: nothing that was acknowledged"


def _stays(end: RecoveredEnd) -> str:
    if not end.damaged:
        return ""
    return f"; damaged frames before it, at {_listed(map(str, end.damaged))}, stay, for good ones follow"


def _listed(texts: Iterator[str]) -> str:
    """The first few of many."""
    found = list(texts)
    return ", ".join(found[:8]) + (f" and {len(found) - 8} more" if len(found) > 8 else "")
