"""Verifies an archive: catalog, mark file, segment files, and every frame of every recording.

It finds what ArchiveTool's ``verify`` finds, and also tails torn within a page, segments that are zeroed, missing or
left over, stop positions that contradict the frames, and incomplete messages. It changes nothing.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

from everlog.aeron.archive.folder.archive import ArchiveFolder
from everlog.aeron.archive.folder.recordings import Recording
from everlog.aeron.archive.folder.scan import Scan, ScanContext
from everlog.aeron.archive.format.catalog import CATALOG_NAME
from everlog.aeron.archive.format.segments import SPARE_BYTES, Naming, SegmentReader, parse_segment_name, segment_name
from everlog.aeron.archive.verify.catalog import REPAIR, check_catalog, check_mark
from everlog.aeron.archive.verify.tail import check_tail
from everlog.aeron.frames.constants import HEADER_LENGTH
from everlog.aeron.frames.position import FOREVER
from everlog.aeron.frames.walk import Walker
from everlog.aeron.layouts import DescriptorHeader, RecordingDescriptor
from everlog.core.files.storage import Entry
from everlog.core.report import Fault, Progress, Report, Severity
from everlog.errors import EverlogError, StoreUnavailable
from everlog.kernel import columns as kernel

STEP_ROWS = 1 << 20
_TRUNCATION = "a truncation was interrupted: truncate again, or open the archive for writing"


@dataclass(slots=True)
class Verification:
    """One verification run over one archive."""

    archive: ArchiveFolder
    report: Report
    progress: Progress | None
    files: dict[int, list[Entry]] = field(default_factory=dict)
    total_bytes: int = 0
    done_bytes: int = 0

    def run(self) -> None:
        """Check everything: the folder, each recording, then orphaned files."""
        self.check_folder()
        for recording in self.archive.recordings().values():
            self.check_recording(recording)
            self.done_bytes += sum(entry.size for entry in self.files.get(recording.recording_id, ()))
            self._report_progress(str(recording.recording_id))
        self.check_orphans()

    def check_folder(self) -> None:
        """Check file names, catalog and mark file."""
        self._list_files()
        check_catalog(self.archive, self.report)
        check_mark(self.archive, self.report)

    def check_recording(self, recording: Recording, start: int | None = None, end: int | None = None) -> None:
        """Check one recording, or the part of a large one whose messages begin at ``start <= position < end``. The
        first part also checks its files, the last one its end."""
        if start is None:
            self.report.stream_count += 1
        try:
            self._check_recording(recording, start, end)
        except EverlogError as error:
            self._unreadable(recording, error)

    def check_orphans(self) -> None:
        """Report files of unknown recordings."""
        for recording_id in sorted(self.files.keys() - self.archive.recordings().keys()):
            self._orphans(recording_id)

    def list_segments(self, recording_ids: Collection[int]) -> None:
        """List the segment files of some recordings, for one part of the check. Others are skipped, because there may
        be very many files and parts."""
        for recording_id in recording_ids:
            for number in self.archive.segment_index().get(recording_id, []):
                name = segment_name(recording_id, number)
                with suppress(StoreUnavailable), self.archive.storage.open(name) as file:
                    self.files.setdefault(recording_id, []).append(Entry(name, True, False, file.size(), 0))

    def _list_files(self) -> None:
        for entry in sorted(self.archive.storage.entries(), key=lambda e: (len(e.name), e.name)):
            parsed = parse_segment_name(entry.name)
            if parsed is not None and entry.is_file:
                self.files.setdefault(parsed[0], []).append(entry)
                self.total_bytes += entry.size
            elif entry.name.endswith(".rec"):
                self.report.add(
                    Fault(
                        "segment-name",
                        entry.name,
                        None,
                        "a name that no segment has",
                        "ID-POSITION.rec",
                        severity=Severity.NOTE,
                    )
                )

    def _report_progress(self, what: str) -> None:
        if self.progress is not None:
            self.progress(f"recording {what}", min(self.done_bytes, self.total_bytes), self.total_bytes)

    def _unreadable(self, recording: Recording, error: EverlogError) -> None:
        lost = "the unread part of the recording"
        found, expected = error.found or str(error), error.expected or "a readable file"
        where = error.where.removeprefix(self.archive.path).lstrip("/")
        self.report.add(
            Fault("unreadable", where, error.offset, found, expected, loses=lost, stream=str(recording.recording_id))
        )

    # Recordings

    def _check_recording(self, recording: Recording, start: int | None, end: int | None) -> None:
        stream = str(recording.recording_id)
        files = self.files.get(recording.recording_id, [])
        if self.archive.is_purged(recording):
            return
        if recording.is_deleted:
            for entry in files:
                repair = "everlog archive DIR delete-orphaned-segments"
                note = partial(Fault, stream=stream, severity=Severity.NOTE)
                self.report.add(
                    note("segment-orphaned", entry.name, None, "a file of a deleted recording", "none", repair=repair)
                )
            return
        context = self.archive.scan_context(recording)
        if start is None:
            self._check_files(recording, context, files)
        self._check_frames(recording, context, start, end)

    def _check_files(self, recording: Recording, context: ScanContext, files: list[Entry]) -> None:
        """Check sizes and positions of the segment files. Reading the frames finds missing files."""
        stream, segments = str(recording.recording_id), context.segments
        first = segments.base(recording.start_position)
        last = None if recording.stop_position is None else segments.base(max(recording.stop_position - 1, first))
        # Aeron 1.7 and older append a frame header of zeros to each segment.
        longest = segments.segment_length + (SPARE_BYTES if segments.naming is Naming.INDEX else 0)
        fault = partial(Fault, stream=stream)
        note = partial(Fault, stream=stream, severity=Severity.NOTE)
        for entry in files:
            parsed = parse_segment_name(entry.name)
            assert parsed is not None
            base = segments.base_of(parsed[1])
            self.report.segment_count += 1
            if base is None:
                found, lost, repair = f"position {parsed[1]}", "its contents", "rename or remove it"
                expected = f"{segments.number(first)} and a multiple of {segments.segment_length}"
                if segments.naming is Naming.INDEX:
                    expected = "the number of the segment, counted from 0"
                self.report.add(fault("segment-name", entry.name, None, found, expected, lost, repair))
            elif base < first:
                found, expected = "a file before the start position", f"no file before position {first}"
                repair = f"everlog archive DIR delete-detached-segments {stream}, or attach {stream}"
                self.report.add(note("segment-detached", entry.name, None, found, expected, "nothing", repair))
            elif last is not None and base > last:
                self._check_beyond_stop(recording, context, entry, base)
            elif entry.size > longest:
                found, expected = f"{entry.size} bytes", f"{segments.segment_length} bytes"
                self.report.add(note("segment-long", entry.name, segments.segment_length, found, expected))
            elif entry.size < segments.segment_length and (
                last is None or base + entry.size >= (recording.stop_position or 0)
            ):
                # Only unrecorded space is missing, but the real archive maps whole segments and would fail.
                found, expected = f"{entry.size} bytes", f"{segments.segment_length} bytes"
                pending = recording.truncation_pending
                repair, severity = _TRUNCATION if pending else REPAIR, _severity(pending)
                short = fault("segment-short", entry.name, entry.size, found, expected, "nothing", repair, severity)
                self.report.add(short)

    def _check_beyond_stop(self, recording: Recording, context: ScanContext, entry: Entry, base: int) -> None:
        """Check a file that begins after the stop position. A preallocated one is legitimate if the recording stopped
        at a segment's end."""
        stream = str(recording.recording_id)
        reader = SegmentReader(self.archive.storage, context.segments)
        has_frames = any(reader.read(base, HEADER_LENGTH))
        reader.close()
        if not has_frames and base == recording.stop_position:
            return
        found = "frames after the stop position" if has_frames else "zeros after the stop position"
        expected = f"no file after position {recording.stop_position}"
        lost = "the frames in it" if has_frames else "nothing"
        repair, pending = REPAIR, recording.truncation_pending
        if pending:
            lost, repair = "only what was being truncated", _TRUNCATION
        severity = _severity(pending)
        self.report.add(
            Fault("segment-beyond-stop", entry.name, 0, found, expected, lost, repair, severity, stream=stream)
        )

    def _check_frames(self, recording: Recording, context: ScanContext, start: int | None, end: int | None) -> None:
        reader = SegmentReader(self.archive.storage, context.segments)
        sink = kernel.RowSink([], STEP_ROWS, 1 << 62)
        faults: list[Fault] = []
        scan = Scan(context, reader, sink, faults.append, True, start or 0, FOREVER if end is None else end)
        try:
            for _ in scan.run():
                self.report.record_count += sink.row_count
                sink.reset()
            self.report.faults += faults
            first = recording.start_position if start is None else start
            scanned_to = scan.end_position if end is None else min(scan.end_position, end)
            self.report.byte_count += max(scanned_to - first, 0)
            if end is not None:
                return  # another part checks the recording's end
            if recording.is_active:
                self._check_active(recording, context, reader, scan.end_position, faults)
            else:
                self._check_stop(recording, context, reader)
        finally:
            reader.close()

    def _check_active(
        self, recording: Recording, context: ScanContext, reader: SegmentReader, end: int, reported: list[Fault]
    ) -> None:
        """Check the end of a recording without a stop position, unless an archive is writing it. ``reported``: the
        faults of its frames."""
        stream = str(recording.recording_id)
        if context.is_live:
            return
        entry = recording.entry
        if entry is not None:
            offset = entry.offset + DescriptorHeader.size + RecordingDescriptor.field("stop_position").offset
            found, expected = "no stop position, though no archive is running", f"{end}, by its frames"
            repair = "none needed: the archive sets it when it starts, and so does everlog repair"
            note = partial(Fault, stream=stream, severity=Severity.NOTE)
            self.report.add(note("recording-active", CATALOG_NAME, offset, found, expected, repair=repair))
        segments = context.segments
        for base in sorted(segments.bases(self.archive.segment_index().get(recording.recording_id, []))):
            # The file that holds the end is preallocated, as is the next one if the end is where it begins.
            if base <= end or reader.size(base) is None or any(reader.read(base, HEADER_LENGTH)):
                continue
            found = "zeros, after a segment that is not full"
            expected = f"no file after the end at {end}"
            lost = "nothing; but the real archive uses this file's end as stop position, and a replay fails"
            self.report.add(
                Fault(
                    "segment-empty", segments.name(base), 0, found, expected, loses=lost, repair=REPAIR, stream=stream
                )
            )
        fault = check_tail(context, reader, end)
        if fault is not None and not any(f.address == fault.address for f in reported):
            self.report.add(fault)

    def _check_stop(self, recording: Recording, context: ScanContext, reader: SegmentReader) -> None:
        """Report a frame at the stop position: the recording is longer than the catalog says."""
        stop = recording.stop_position
        assert stop is not None
        if not _has_frame(context, reader, stop):
            return
        name, offset = context.segments.place(stop)
        stream = str(recording.recording_id)
        found, expected = "a frame after the stop position", "zeros"
        lost, repair = "the frames from there on", REPAIR
        pending = recording.truncation_pending
        if pending:
            lost, repair = "only what was being truncated", _TRUNCATION
        self.report.add(
            Fault(
                "stop-position",
                name,
                offset,
                found,
                expected,
                loses=lost,
                repair=repair,
                severity=_severity(pending),
                stream=stream,
                address=str(stop),
            )
        )

    def _orphans(self, recording_id: int) -> None:
        """Report files of a recording that the catalog lacks; without an intact catalog, only files without frames."""
        catalog = self.archive.catalog
        for entry in self.files[recording_id]:
            self.report.segment_count += 1
            if catalog is None or catalog.is_damaged:
                self.report.add(
                    Fault(
                        "segment-orphaned", entry.name, None, "a file without frames", "frames", severity=Severity.NOTE
                    )
                )
                continue
            found, expected = "a file of an unknown recording", "a recording in the catalog"
            lost = "its contents, if it belongs here"
            repair = "restore the catalog from a copy, or move the file away"
            self.report.add(Fault("segment-orphaned", entry.name, None, found, expected, loses=lost, repair=repair))


def _severity(is_note: bool) -> Severity:
    return Severity.NOTE if is_note else Severity.FAULT


def _has_frame(context: ScanContext, reader: SegmentReader, position: int) -> bool:
    data = reader.read(position, HEADER_LENGTH)
    return Walker(context.geometry, False).find(data, 0, len(data), position) == 0


def verify(archive: ArchiveFolder, progress: Progress | None = None) -> Report:
    """Verify everything in the archive's folder."""
    report = Report(archive.path, archive.family)
    Verification(archive, report, progress).run()
    return report
