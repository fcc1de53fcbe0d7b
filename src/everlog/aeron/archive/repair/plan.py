"""Plans an archive's repair: a step for each repairable fault that :mod:`everlog.aeron.archive.verify.archive` finds.

**What a repair never does.** It keeps every message that can be read, except those after a hole at the end of a
recording that was never stopped (:mod:`everlog.aeron.archive.repair.ends`). It leaves damage in the middle of a
recording alone, because nothing can repair it. It reports, and does not touch, recordings marked as invalid and files
that may still be needed (detached, of unknown recordings, or with other names): other commands change those.

**Running archives.** A repair is refused while an archive runs in the folder.

**Order, and what a crash leaves.**

1. Drafts of an interrupted repair and a damaged mark file are removed; an archive creates a new mark file.
2. The catalog is rebuilt, if it is missing or damaged: it is replaced atomically.
3. Files of active recordings are recovered (:mod:`everlog.aeron.archive.repair.recovery`), and short files lengthened.
4. Stop positions are set for active recordings, for those whose frames continue after it, and those that end in zeros.
5. Files after a stop position are removed. The position is set first: otherwise one in zeros would lose its file.
6. Checksums of catalog entries are updated.

Completed steps are not planned again, so a new plan after a crash continues the repair.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

from everlog.aeron.archive.folder.archive import ArchiveFolder
from everlog.aeron.archive.folder.liveness import refuse_running
from everlog.aeron.archive.folder.recordings import Recording
from everlog.aeron.archive.format.catalog import CATALOG_NAME
from everlog.aeron.archive.format.entry_checksums import kind_of, stale_kind_of
from everlog.aeron.archive.format.mark_place import MARK_NAME, mark_storage
from everlog.aeron.archive.format.segments import SegmentMap, SegmentReader, parse_segment_name
from everlog.aeron.archive.repair.catalog import rebuild_catalog
from everlog.aeron.archive.repair.ends import (
    CUT_OFF,
    RecoveredEnd,
    TailFingerprint,
    fingerprint_of,
    recover_end,
    recovery_geometry,
    walk_segment,
)
from everlog.aeron.archive.repair.recovery import active_recordings, file_steps
from everlog.aeron.archive.repair.steps import WATCHED, EraseTail, RemoveFile, RenewChecksums, SetStops, Stop
from everlog.aeron.archive.verify.archive import verify
from everlog.aeron.frames.constants import NULL_POSITION
from everlog.core.files.writable import DRAFT_PREFIX, writable
from everlog.core.plan.plan import RepairPlan
from everlog.core.plan.step import NOTHING, RepairStep
from everlog.core.report import Fault, Progress, Severity

_CATALOG_CODES = frozenset(
    {"catalog-missing", "catalog-header", "catalog-entry", "catalog-end", "catalog-descriptor", "catalog-strings"}
)


def plan_repair(archive: ArchiveFolder, progress: Progress | None = None) -> RepairPlan:
    """Verify the archive and plan its repair; changes nothing. An archive with a catalog before version 3 must be
    migrated first: the plan repairs none of its faults.

    Raises :class:`StoreUnavailable` while an archive runs in the folder, :class:`UsageError` if the folder is not on
    this machine.
    """
    return _Planner(archive, progress).plan()


class _Planner:
    """Builds one plan. ``mended`` holds the numbers of the faults that its steps repair."""

    def __init__(self, archive: ArchiveFolder, progress: Progress | None) -> None:
        self.storage = writable(archive.storage)
        refuse_running(self.storage, files=WATCHED)
        self.archive = ArchiveFolder(self.storage, archive.checksum)
        self.report = verify(self.archive, progress)
        self.mended: set[int] = set()
        self._by_stream: dict[str | None, list[tuple[int, Fault]]] = {}
        for number, fault in enumerate(self.report.faults):
            self._by_stream.setdefault(fault.stream, []).append((number, fault))
        self.stops: dict[int, Stop] = {}
        self.last_steps: list[RepairStep] = []
        self.lengthened: set[str] = set()
        catalog = self.archive.catalog
        self.is_old = catalog is not None and catalog.is_old
        hard = [fault for fault in self.report.faults if fault.severity is Severity.FAULT]
        self.is_rebuilt = not self.is_old and any(f.code in _CATALOG_CODES and f.file == CATALOG_NAME for f in hard)

    def plan(self) -> RepairPlan:
        """Compute the steps that repair what was found."""
        steps: list[RepairStep] = []
        if not self.is_old:
            steps += [*self._drafts(), *self._mark_file()]
            if self.is_rebuilt:
                self._mend(codes=_CATALOG_CODES, file=CATALOG_NAME)
                steps.append(rebuild_catalog(self.storage, self.archive))
            for recording in active_recordings(self.archive):
                steps += self._active(recording)
            for recording in self.archive.recordings().values():
                if recording.state == "VALID" and not recording.is_active:
                    steps += self._stopped(recording)
            steps += [*self._set_stops(), *self.last_steps, *self._checksums()]
        return RepairPlan(self.archive.path, self.archive.family, tuple(steps), self._unrepaired())

    def _unrepaired(self) -> tuple[Fault, ...]:
        found = []
        for number, fault in enumerate(self.report.faults):
            if self.is_rebuilt and fault.code == "segment-orphaned" and fault.severity is Severity.NOTE:
                # With an intact catalog this is a fault, no longer a note.
                repair = "everlog archive DIR delete-orphaned-segments"
                found.append(replace(fault, severity=Severity.FAULT, repair=repair))
            elif fault.severity is Severity.FAULT and number not in self.mended:
                found.append(fault)
        return tuple(found)

    def _mend(
        self,
        *,
        codes: Collection[str] | None = None,
        file: str | None = None,
        stream: str | None = None,
        segments: SegmentMap | None = None,
        start: int | None = None,
    ) -> None:
        """Count faults as repaired: those with these codes, of this file and stream, at or after a position."""
        every = enumerate(self.report.faults)
        for number, fault in every if stream is None else self._by_stream.get(stream, []):
            if codes is not None and fault.code not in codes:
                continue
            if file is not None and fault.file != file:
                continue
            if segments is not None and start is not None:
                position = _position_of(fault, segments)
                if position is None or position < start:
                    continue
            self.mended.add(number)

    def _drafts(self) -> Iterator[RepairStep]:
        for name in sorted(self.storage.names()):
            if name.startswith(DRAFT_PREFIX):
                yield self._remove(name, "a draft of an interrupted change")

    def _remove(
        self,
        name: str,
        before: str,
        loses: str = NOTHING,
        *,
        found: TailFingerprint | None = None,
        needs_backup: bool = False,
    ) -> RemoveFile:
        return RemoveFile(
            file=name,
            before=before,
            after="no file",
            loses=loses,
            storage=self.storage,
            fingerprint=found or fingerprint_of(self.storage, name, 0),
            needs_backup=needs_backup,
        )

    def _mark_file(self) -> Iterator[RepairStep]:
        faults = [f for f in self.report.faults if f.code == "mark-file" and f.severity is Severity.FAULT]
        # A mark file that a link leads to is in another folder: it stays.
        if faults and self.storage.exists(MARK_NAME) and mark_storage(self.storage) is self.storage:
            self._mend(codes={"mark-file"})
            before = f"a damaged mark file: {faults[0].found}"
            yield self._remove(MARK_NAME, before, "the owner's state and its error log; an archive creates a new file")

    # Recordings

    def _active(self, recording: Recording) -> Iterator[RepairStep]:
        end = recover_end(self.archive, recording)
        segments, stream = self.archive.segment_map(recording), str(recording.recording_id)
        self.stops[recording.recording_id] = Stop(recording.recording_id, NULL_POSITION, end.stop_position)
        self._mend(stream=stream, segments=segments, start=end.stop_position)
        yield from file_steps(self.storage, end, is_owner=False)
        done = {fingerprint.file for fingerprint in (end.tail, end.short, *end.after) if fingerprint is not None}
        yield from self._lengthen(recording, segments, done)

    def _lengthen(self, recording: Recording, segments: SegmentMap, done: Collection[str] = ()) -> Iterator[RepairStep]:
        """Lengthen short files that lack only unrecorded space: otherwise zeros would complete half a frame."""
        first, stream = segments.base(recording.start_position), str(recording.recording_id)
        short = [fault for _, fault in self._by_stream.get(stream, []) if fault.code == "segment-short"]
        lossy = {fault.file for fault in short if fault.loses != NOTHING}
        for base in segments.bases(self.archive.segment_index().get(recording.recording_id, [])):
            name = segments.name(base)
            size = self.storage.size(name)
            if base < first or name in done or name in lossy or size >= segments.segment_length:
                continue
            self._mend(codes={"segment-short"}, file=name, stream=stream)
            self.lengthened.add(name)
            yield EraseTail(
                file=name,
                before=f"{size} bytes",
                after=f"{segments.segment_length} bytes, lengthened with zeros",
                storage=self.storage,
                fingerprint=fingerprint_of(self.storage, name, size),
                length=segments.segment_length,
            )

    def _stopped(self, recording: Recording) -> Iterator[RepairStep]:
        stream = str(recording.recording_id)
        codes = {fault.code for _, fault in self._by_stream.get(stream, [])}
        segments = self.archive.segment_map(recording)
        if "segment-short" in codes:
            yield from self._lengthen(recording, segments)
        if not codes & {"stop-position", "segment-beyond-stop", "unset-frame", "segment-short"}:
            return
        stop = recording.stop_position
        assert stop is not None, "a stopped recording has a stop position"
        if recording.truncation_pending:
            return  # the next writer that opens the archive finishes the truncation
        following = self._end_of_chain(recording, segments, stop)
        if following > stop:
            self._mend(codes={"stop-position", "segment-beyond-stop"}, stream=stream)
        elif codes & {"unset-frame", "segment-short"}:
            end = recover_end(self.archive, recording)
            if self._has_nothing_after(end, segments, stop):
                following = end.stop_position
                self._mend(codes={"unset-frame", "segment-short"}, stream=stream, segments=segments, start=following)
                if end.tail is not None or (end.short is not None and end.short.file not in self.lengthened):
                    loss = f"{end.tail.byte_count} bytes of a frame whose end is lost" if end.tail else None
                    yield from file_steps(self.storage, replace(end, after=()), is_owner=False, tail_loss=loss)
        if following != stop:
            self.stops[recording.recording_id] = Stop(recording.recording_id, stop, following)
        # If files are missing, surplus ones may be the same files under wrong names.
        may_keep_aside = "segment-missing" not in codes
        self.last_steps += self._files_after(recording, segments, following, may_keep_aside=may_keep_aside)

    def _end_of_chain(self, recording: Recording, segments: SegmentMap, stop: int) -> int:
        """Where the good frames that continue at a stop position end; the stop position if there are none."""
        geometry, kind = recovery_geometry(self.archive, recording, segments, "auto")
        reader = SegmentReader(self.storage, segments)
        begin = max(segments.base(stop), recording.start_position)
        try:
            while reader.size(segments.base(begin)) is not None:
                limit = segments.base(begin) + segments.segment_length
                walked = walk_segment(reader, geometry, kind, begin, limit)
                bad = min((position for position in walked.damaged if position >= stop), default=walked.end)
                if bad < limit or walked.end < limit:
                    return max(bad, stop)
                begin = limit
        finally:
            reader.close()
        return max(begin, stop)

    def _has_nothing_after(self, end: RecoveredEnd, segments: SegmentMap, stop: int) -> bool:
        """Whether all files up to the stop position exist and only zeros, or a frame cut off by its file's end, follow
        the last frame."""
        last, base = segments.base(max(stop - 1, 0)), segments.base(end.stop_position)
        bases = range(base, last + 1, segments.segment_length)
        # A damaged stop position may be terabytes away, so stop at the first missing file.
        if end.stop_position >= stop or not all(self.storage.exists(segments.name(other)) for other in bases):
            return False
        names = {segments.name(other) for other in bases}
        is_unknown = end.tail is None or (end.torn == CUT_OFF and base == last)
        return is_unknown and not any(f.byte_count for f in end.after if f.file in names)

    def _files_after(
        self, recording: Recording, segments: SegmentMap, stop: int, *, may_keep_aside: bool
    ) -> Iterator[RepairStep]:
        """Remove files that begin after a stop position, from the last one down; one of zeros that begins there
        stays."""
        first = segments.base(recording.start_position)
        last = segments.base(max(stop - 1, first))
        for base in sorted(segments.bases(self.archive.segment_index().get(recording.recording_id, [])), reverse=True):
            name = segments.name(base)
            if base <= last or base < first:
                continue
            found = fingerprint_of(self.storage, name, 0)
            if (base == stop and not found.byte_count) or (found.byte_count and not may_keep_aside):
                continue
            self._mend(codes={"segment-beyond-stop"}, file=name, stream=str(recording.recording_id))
            if found.byte_count:
                before, loses = (
                    "frames after the stop position, not contiguous with it",
                    "the frames, which are backed up",
                )
                yield self._remove(name, before, loses, found=found, needs_backup=True)
            else:
                yield self._remove(name, f"zeros after the stop position {stop}", found=found)

    # Catalog

    def _set_stops(self) -> Iterator[RepairStep]:
        if not self.stops:
            return
        stops = [self.stops[number] for number in sorted(self.stops)]
        texts = [f"{s.recording_id}: {'none' if s.old == NULL_POSITION else s.old}" for s in stops]
        gone = [f"{s.new} to {s.old} of recording {s.recording_id}" for s in stops if s.new < s.old]
        yield SetStops(
            file=CATALOG_NAME,
            before=f"stop positions {_listed(texts)}",
            after=f"stop positions by the frames {_listed([f'{s.recording_id}: {s.new}' for s in stops])}",
            loses=f"positions {_listed(gone)}, which are not on disk" if gone else NOTHING,
            storage=self.storage,
            stops=tuple(stops),
            is_later=self.is_rebuilt,
        )

    def _checksums(self) -> Iterator[RepairStep]:
        """Update checksums that are certainly stale, and wrong ones of entries that no other fault contradicts."""
        catalog = self.archive.catalog
        wrong = [entry for entry in catalog.entries if kind_of(entry) is None] if catalog is not None else []
        if catalog is None or not wrong:
            return
        kinds = {}
        used = next((k for k in map(kind_of, catalog.entries) if k not in (None, "none")), None)
        hard = [f for f in self.report.faults if f.severity is Severity.FAULT and f.code != "catalog-checksum"]
        contradicted = {fault.stream for fault in hard}
        for entry in wrong:
            stream, stale = str(entry.recording_id), stale_kind_of(entry)
            kind = stale or (None if stream in contradicted else used)
            if kind is not None:
                self._mend(codes={"catalog-checksum"}, stream=stream)
                if entry.recording_id not in self.stops or stale is None:
                    kinds[entry.recording_id] = kind
        if kinds:
            yield RenewChecksums(
                file=CATALOG_NAME,
                before=f"entries with a wrong checksum: {_listed(map(str, kinds))}",
                after="right checksums",
                storage=self.storage,
                kinds=kinds,
                is_later=self.is_rebuilt,
            )


def _position_of(fault: Fault, segments: SegmentMap) -> int | None:
    """The position of a fault in the recording."""
    parsed = parse_segment_name(fault.file)
    base = None if parsed is None else segments.base_of(parsed[1])
    return None if base is None else base + (fault.offset or 0)


def _listed(texts: Collection[str] | Iterator[str]) -> str:
    """Join the first few of many texts."""
    found = list(texts)
    return ", ".join(found[:8]) + (f" and {len(found) - 8} more" if len(found) > 8 else "")
