"""An Aeron Archive's folder as a store: each recording is a stream, its records are messages, their addresses
positions."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

from everlog.aeron.archive.folder import splitting
from everlog.aeron.archive.folder.recordings import (
    Recording,
    RecordingDetails,
    invalid_note,
    recording_from_files,
    recording_of,
)
from everlog.aeron.archive.folder.scan import Scan, ScanContext
from everlog.aeron.archive.format.catalog import CATALOG_NAME, Catalog, CatalogEntry
from everlog.aeron.archive.format.catalog_file import CatalogBytes
from everlog.aeron.archive.format.checksums import detect_checksum
from everlog.aeron.archive.format.mark_place import MARK_NAME, mark_storage
from everlog.aeron.archive.format.segments import (
    Naming,
    SegmentMap,
    SegmentReader,
    index_segments,
    naming_by_files,
    parse_segment_name,
    segment_name,
)
from everlog.aeron.frames.columns import COLUMNS, make_sink, take_batch
from everlog.aeron.frames.constants import HEADER_LENGTH, NULL_POSITION
from everlog.aeron.frames.position import FOREVER, term_start
from everlog.aeron.frames.record_times import RecordTimes, check_source
from everlog.aeron.frames.walk import Geometry
from everlog.aeron.mark_file import ArchiveMark, now_ms, read_archive_mark
from everlog.aeron.positional_store import MAX_DIGITS, PositionalStore
from everlog.core.batch import Batch
from everlog.core.columns import Column
from everlog.core.files.storage import Storage
from everlog.core.options import fill
from everlog.core.repair import RepairPlan
from everlog.core.report import Fault, Progress, Report, VerifyPart
from everlog.core.splits import Split, SplitTimes, from_firsts
from everlog.core.store import DEFAULT_SPLIT_BYTES, Level, ScanRequest, StreamInfo
from everlog.errors import CorruptData, StoreUnavailable, UnknownStream, UsageError
from everlog.kernel import columns as kernel

if TYPE_CHECKING:
    from everlog.sbe import Schema

CHECKSUMS = ("auto", "none", "crc32", "crc32c")


@dataclass(frozen=True, kw_only=True)
class Options:
    """How to read an archive.

    ``checksum``: what lies over the frames' session ids; ``auto`` tries a few frames of each recording.
    ``timestamp_from``: where a message's time is, ``reserved_value:ns``, ``:us`` or ``:ms``; frames have none of
    their own; or ``sbe:FIELD`` with an optional unit (see :mod:`everlog.sbe.times`), then ``sbe_schema`` is the schema
    or its file. ``include_all``: list recordings that are marked as deleted, too.
    """

    checksum: str = "auto"
    timestamp_from: str | None = None
    sbe_schema: str | Schema | None = None
    include_all: bool = False

    def __post_init__(self) -> None:
        if self.checksum not in CHECKSUMS:
            raise UsageError("checksum", found=repr(self.checksum), expected=", ".join(CHECKSUMS))
        check_source(self.timestamp_from, self.sbe_schema)


class ArchiveStore(PositionalStore):
    """A folder with ``archive.catalog``, ``archive-mark.dat`` and ``<id>-<position>.rec`` files, or what is left of
    them."""

    family = "aeron-archive"
    options_class = Options

    def __init__(self, storage: Storage, options: Options) -> None:
        super().__init__(storage)
        self.options = options
        self._times = RecordTimes(options.timestamp_from, options.sbe_schema)
        self.reload()

    def reload(self) -> None:
        """Read the catalog and list the files anew, as after a repair."""
        self._names: dict[int, list[int]] | None = None
        self._listed_names: set[str] = set()
        self._recordings: dict[int, Recording] | None = None
        self._naming: Naming | None = None
        self._catalog_bytes = CatalogBytes.read(self.storage)
        self._catalog_bytes.check_version()

    def _refresh(self) -> None:
        """``reload``, if the catalog or the names of the files have changed. To reload for each part would cost the
        square of the number of parts."""
        if CatalogBytes.read(self.storage) != self._catalog_bytes or set(self.storage.names()) != self._listed_names:
            self.reload()
            self.segment_index()

    @property
    def catalog(self) -> Catalog | None:
        """The catalog as it was when the archive was opened; ``None`` where ``catalog_fault`` says why. Its entries are
        made when they are asked for: who reads a split needs none, and there may be very many."""
        return self._catalog_bytes.decoded[0]

    @property
    def catalog_fault(self) -> Fault | None:
        """Why there is no catalog."""
        return self._catalog_bytes.decoded[1]

    @classmethod
    def open(cls, storage: Storage, options: Mapping[str, Any]) -> Self:
        """Reads the catalog. Raises :class:`UnsupportedVersion` for a catalog of a version above 3."""
        return cls(storage, fill(Options, options))

    @classmethod
    def detect(cls, storage: Storage) -> bool:
        """Whether there is a catalog, a mark file or a segment file."""
        names = storage.names()
        return CATALOG_NAME in names or MARK_NAME in names or any(parse_segment_name(name) for name in names)

    # Recordings

    def segment_index(self) -> dict[int, list[int]]:
        """Recording id to the numbers in its segment files' names, as of the first call."""
        if self._names is None:
            names = self.storage.names()
            self._names, self._listed_names = index_segments(names), set(names)
        return self._names

    @property
    def naming(self) -> Naming:
        """How segment files are named: by the catalog's version, unless that was damaged."""
        if self._naming is None:
            catalog = self.catalog
            is_sure = catalog is not None and not catalog.is_old
            claimed = Naming.POSITION if catalog is None else catalog.naming
            self._naming = claimed if is_sure else naming_by_files(self.segment_index(), claimed)
        return self._naming

    def segment_map(self, recording: Recording) -> SegmentMap:
        """Where a recording's positions lie."""
        return SegmentMap(
            recording.recording_id,
            recording.start_position,
            recording.term_buffer_length,
            recording.segment_file_length,
            self.naming,
        )

    def recordings(self) -> dict[int, Recording]:
        """All recordings by id: those of the catalog and, where that is missing or damaged, those that only files
        tell of."""
        if self._recordings is None:
            found = {}
            if self.catalog is not None:
                found = {entry.recording_id: recording_of(entry) for entry in self.catalog.entries}
            if self.catalog is None or self.catalog.is_damaged:
                index = self.segment_index()
                for recording_id in sorted(index.keys() - found.keys()):
                    recording = recording_from_files(self.storage, recording_id, index[recording_id], self.naming)
                    if recording is not None:
                        found[recording_id] = recording
            self._recordings = found if list(found) == sorted(found) else dict(sorted(found.items()))
        return self._recordings

    def is_purged(self, recording: Recording) -> bool:
        """Whether nothing of it is left, as is right when it was deleted: up to version 2 that was marked as INVALID
        what later versions mark as DELETED."""
        return recording.state in ("INVALID", "DELETED") and recording.recording_id not in self.segment_index()

    def recording(self, stream: str) -> Recording:
        """The recording of that name. Raises :class:`UnknownStream`."""
        is_number = stream.isascii() and stream.isdecimal() and len(stream) <= MAX_DIGITS
        recording = self.recordings().get(int(stream)) if is_number else None
        if recording is None or str(recording.recording_id) != stream:
            raise UnknownStream(
                self.path, found=f"no recording {stream!r}", expected="a recording id, as ls lists them"
            )
        return recording

    def streams(self, *, include_all: bool = False) -> list[StreamInfo]:
        """The recordings; those marked as deleted only with ``include_all``."""
        every = include_all or self.options.include_all
        if self.catalog is None or self.catalog.is_damaged:
            return [self.stream_info(r) for r in self.recordings().values() if every or not r.is_deleted]
        return [self._listed(entry) for entry in self.catalog.entries if every or entry.state != "DELETED"]

    def _listed(self, entry: CatalogEntry) -> StreamInfo:
        """As ``stream_info``. An archive may list very many recordings: of those that are valid and stopped no more is
        made than is looked at."""
        start, stop = entry.start_position, entry.stop_position
        if entry.state != "VALID" or stop == NULL_POSITION:
            return self.stream_info(recording_of(entry))
        first, count = (str(start), None) if stop > start else (None, 0)
        name = str(entry.recording_id)
        return StreamInfo(name, self.family, first, None, str(stop), count, stop - start, RecordingDetails(entry))

    def stream_info(self, recording: Recording) -> StreamInfo:
        """A recording as ``ls`` lists it. The end of an active one is found by looking at its last frames."""
        name, start, stop = str(recording.recording_id), recording.start_position, recording.stop_position
        if recording.state == "INVALID" and self.is_purged(recording):
            return StreamInfo(name, self.family, None, None, str(stop), 0, 0, recording.details)
        if stop is None:
            end = self.recorded_end(recording)
            first = str(start) if end > start else None
            return StreamInfo(name, self.family, first, None, None, None, end - start, recording.details)
        first = str(start) if stop > start and not recording.is_deleted else None
        count = 0 if stop == start else None
        return StreamInfo(name, self.family, first, None, str(stop), count, stop - start, recording.details)

    def recorded_end(self, recording: Recording) -> int:
        """How far an active recording has come, by the frames of its last term that has any."""
        context = self.scan_context(recording, checksum="none")
        with_reader = SegmentReader(self.storage, context.segments)
        position = self._last_term(recording, with_reader)
        sink = kernel.RowSink([], 1 << 62, 1 << 62)
        scan = Scan(context, with_reader, sink, lambda fault: None, False, position, FOREVER)
        for _ in scan.run():
            sink.reset()
        with_reader.close()
        return scan.end_position

    def _last_term(self, recording: Recording, reader: SegmentReader) -> int:
        """The position of the first frame of the last term that has one."""
        start, segments = recording.start_position, reader.segments
        bases = segments.bases(self.segment_index().get(recording.recording_id, []))
        for base in sorted(bases, reverse=True):
            end = base + min(reader.size(base) or 0, segments.segment_length)
            if reader.next_data(base, end) == end:
                continue  # allocated, and not written yet
            position = base + segments.segment_length
            while position > max(base, start):
                position = max(start, term_start(position - 1, segments.term_length))
                if any(reader.read(position, HEADER_LENGTH)):
                    return position
        return start

    # Scans

    def family_columns(self, level: Level = Level.RECORD) -> tuple[Column, ...]:
        """The same at both levels."""
        return COLUMNS

    def scan_context(self, recording: Recording, *, checksum: str | None = None) -> ScanContext:
        """What a scan needs to know of a recording; finds out which checksum its frames have."""
        segments = self.segment_map(recording)
        last_base, is_live = None, False
        if recording.is_active:
            bases = segments.bases(self.segment_index().get(recording.recording_id, []))
            last_base = max((b for b in bases if b >= segments.base(recording.start_position)), default=None)
            is_live = self.is_live()
        geometry, kind = self.geometry(recording, segments, checksum)
        return ScanContext(segments, geometry, recording.stop_position, last_base, kind, is_live)

    def geometry(self, recording: Recording, segments: SegmentMap, checksum: str | None = None) -> tuple[Geometry, str]:
        """What a recording's frames look like, and which checksum they have: ``checksum``, else as the options say.
        Where that is found out, those with the session id of the descriptor have none: an archive that is not
        configured for checksums extended the recording, maybe far from where frames are tried."""
        plain: tuple[int, ...] = ()
        kind = checksum or self.options.checksum
        if kind == "auto":
            kind, plain = self._detect(recording, segments)
            if kind != "none" and recording.session_id not in plain:
                plain = (*plain, recording.session_id)
        geometry = Geometry(
            recording.initial_term_id,
            recording.term_buffer_length,
            recording.stream_id,
            recording.mtu_length,
            -1 if recording.stop_position is None else recording.stop_position,
            plain,
        )
        return geometry, kind

    def _detect(self, recording: Recording, segments: SegmentMap) -> tuple[str, tuple[int, ...]]:
        numbers = self.segment_index().get(recording.recording_id, [])
        bases = [base for base in segments.bases(numbers) if base > recording.start_position]
        starts = {recording.start_position, *bases[:1], *bases[len(bases) // 2 :][:1], *bases[-1:]}
        reader = SegmentReader(self.storage, segments)
        try:
            return detect_checksum(reader, sorted(starts))
        finally:
            reader.close()

    def walk(self, stream: str, request: ScanRequest) -> Iterator[Batch]:
        """Messages (or data frames) in position order."""
        context = request.split.context if request.split is not None else None
        if not isinstance(context, ScanContext):
            recording = self.recording(stream)
            if recording.is_deleted and not self.options.include_all:
                raise UnknownStream(
                    self.path, found=f"recording {stream} is deleted", expected="include_all to read it"
                )
            if self.is_purged(recording):
                return
            context = self.scan_context(recording)
            if recording.state == "INVALID":
                request.on_fault(invalid_note(recording))
        times, needed = self._times, self._times.needed(request.columns)
        sink = make_sink(
            needed,
            checked=context.checksum != "none",
            timestamps=times.factor > 0,
            max_rows=request.max_rows,
            max_bytes=request.max_bytes,
        )
        first = 0 if request.start is None else max(request.start, 0)
        stop = FOREVER if request.end is None else request.end
        reader = SegmentReader(self.storage, context.segments)
        scan = Scan(context, reader, sink, request.on_fault, request.level is Level.RECORD, first, stop)
        try:
            for _ in scan.run():
                batch = take_batch(sink, needed, times.factor)
                if batch is not None:
                    yield times.fill(batch, request.columns)
        finally:
            reader.close()

    def splits(
        self, stream: str, *, start: int | None = None, end: int | None = None, split_bytes: int = DEFAULT_SPLIT_BYTES
    ) -> list[Split]:
        """Some segments each, or some terms of a large one. A message belongs to the split in which it begins."""
        recording = self.recording(stream)
        if self.is_purged(recording):
            return []
        context = self.scan_context(recording)
        first = recording.start_position if start is None else max(start, recording.start_position)
        stop = context.limit if end is None else min(end, context.limit)
        files = splitting.SegmentFiles(
            self.storage, context.segments, lambda: self.segment_index().get(recording.recording_id, [])
        )
        marks = splitting.cut(files, first, stop, split_bytes)
        edges = [first, *marks, stop] if first < stop else []
        found = [Split(stream, a, b, b - a, context) for a, b in itertools.pairwise(edges)]
        if found:
            found[-1] = replace(found[-1], end=end)
        return found

    def split_times(self, splits: list[Split]) -> list[SplitTimes]:
        """With times in the reserved value, those at the splits' starts."""
        if not self._times.factor:
            return super().split_times(splits)
        with contextlib.closing(SegmentReader(self.storage, splits[0].context.segments)) as reader:
            return from_firsts([splitting.time_of_first(reader, s.start or 0, self._times.factor) for s in splits])

    # State

    def mark(self) -> ArchiveMark | None:
        """The mark file, read anew; ``None`` when it is missing or not even its header can be read."""
        try:
            return load_mark(self.storage)
        except (CorruptData, StoreUnavailable):
            return None

    def is_live(self) -> bool:
        """Whether an archive said within the last ten seconds that it runs here."""
        mark = self.mark()
        return mark is not None and mark.is_live(now_ms())

    def info(self) -> dict[str, Any]:
        """Catalog header, mark file, distinct errors, and each recording's descriptor."""
        mark = self.mark()
        return {
            "family": self.family,
            "catalog": None if self.catalog is None else self.catalog.to_dict(),
            "mark_file": None if mark is None else mark.to_dict(),
            "errors": [] if mark is None else [error.to_dict() for error in mark.errors],
            "recordings": [{"recording_id": r.recording_id, **r.details} for r in self.recordings().values()],
        }

    def verify(self, progress: Progress | None = None) -> Report:
        """Check the catalog, the mark file, all segment files and every frame, as they are now."""
        from everlog.aeron.archive.verify.archive import verify

        self.reload()
        return verify(self, progress)

    def verify_parts(self, split_bytes: int = DEFAULT_SPLIT_BYTES) -> list[VerifyPart]:
        """The folder, and runs of recordings or of their segments."""
        from everlog.aeron.archive.verify.parts import plan_parts

        return plan_parts(self, split_bytes)

    def verify_part(self, part: VerifyPart) -> Report:
        """See :meth:`Store.verify_part`; of an archive as it is now."""
        from everlog.aeron.archive.verify.parts import verify_part

        self._refresh()
        return verify_part(self, part)

    def plan_repair(self, progress: Progress | None = None) -> RepairPlan:
        """See :func:`everlog.aeron.archive.repair.plan.plan_repair`."""
        from everlog.aeron.archive.repair.plan import plan_repair

        return plan_repair(self, progress)


def load_mark(storage: Storage) -> ArchiveMark | None:
    """The mark file, through its link, too; ``None`` when there is none. Raises :class:`CorruptData`,
    :class:`StoreUnavailable`."""
    place = mark_storage(storage)
    if not place.exists(MARK_NAME):
        return None
    return read_archive_mark(place.read_all(MARK_NAME), MARK_NAME)


__all__ = ["MARK_NAME", "ArchiveStore", "Options", "segment_name"]
