"""An Aeron Archive's folder as a store: each recording is a stream, its records are messages, their addresses
positions."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from everlog.aeron.archive.folder import splitting
from everlog.aeron.archive.folder.archive import FAMILY, ArchiveFolder, is_archive
from everlog.aeron.archive.folder.recordings import (
    RecordingDetails,
    invalid_note,
    recording_of,
)
from everlog.aeron.archive.folder.scan import Scan, ScanContext
from everlog.aeron.archive.folder.splitting import split_recording
from everlog.aeron.archive.format.catalog import CatalogEntry
from everlog.aeron.archive.format.segments import (
    SegmentReader,
)
from everlog.aeron.family_options import READ_CHECKSUMS, ReadChecksum
from everlog.aeron.frames.columns import COLUMNS, make_sink, take_batch
from everlog.aeron.frames.constants import NULL_POSITION
from everlog.aeron.frames.position import FOREVER
from everlog.aeron.frames.record_times import RecordTimes, check_source
from everlog.aeron.positional_store import PositionalStore
from everlog.core.batch import Batch
from everlog.core.columns import Column
from everlog.core.files.storage import Storage
from everlog.core.options import check_choice, fill
from everlog.core.plan.plan import RepairPlan
from everlog.core.report import Progress, Report, VerifyPart
from everlog.core.splits import Split, SplitTimes, from_firsts
from everlog.core.store import DEFAULT_SPLIT_BYTES, Level, ScanRequest, StreamInfo
from everlog.errors import UnknownStream

if TYPE_CHECKING:
    from everlog.sbe import Schema


@dataclass(frozen=True, kw_only=True)
class Options:
    """How to read an archive.

    ``checksum``: the kind of checksum that replaces the frames' session ids; ``auto`` detects it from a few frames of
    each recording. ``timestamp_from``: where a message's time is, because frames have none: ``reserved_value:ns``,
    ``:us`` or ``:ms``, or ``sbe:FIELD`` with an optional unit (see :mod:`everlog.sbe.times`); the latter needs
    ``sbe_schema``, the schema or its file. ``include_all``: also list recordings that are marked as deleted.
    """

    checksum: ReadChecksum = "auto"
    timestamp_from: str | None = None
    sbe_schema: str | Schema | None = None
    include_all: bool = False

    def __post_init__(self) -> None:
        check_choice("checksum", self.checksum, READ_CHECKSUMS)
        check_source(self.timestamp_from, self.sbe_schema)


class ArchiveStore(PositionalStore):
    """A folder with ``archive.catalog``, ``archive-mark.dat`` and ``<id>-<position>.rec`` files; some of them may be
    missing."""

    family = FAMILY
    options_class = Options

    def __init__(self, storage: Storage, options: Options) -> None:
        super().__init__(storage)
        self.options = options
        self.folder = ArchiveFolder(storage, options.checksum)
        self._times = RecordTimes(options.timestamp_from, options.sbe_schema)

    @classmethod
    def open(cls, storage: Storage, options: Mapping[str, Any]) -> Self:
        """Open the folder and read the catalog. Raises :class:`UnsupportedVersion` for a catalog of a version above
        3."""
        return cls(storage, fill(Options, options))

    @classmethod
    def detect(cls, storage: Storage) -> bool:
        """Whether the folder has a catalog, a mark file or a segment file."""
        return is_archive(storage)

    def streams(self, *, include_all: bool = False) -> list[StreamInfo]:
        """The recordings; those marked as deleted only with ``include_all``."""
        every = include_all or self.options.include_all
        if self.folder.catalog is None or self.folder.catalog.is_damaged:
            return [self.folder.stream_info(r) for r in self.folder.recordings().values() if every or not r.is_deleted]
        return [self._listed(entry) for entry in self.folder.catalog.entries if every or entry.state != "DELETED"]

    def _listed(self, entry: CatalogEntry) -> StreamInfo:
        """Return a recording's ``stream_info``. The details of a valid, stopped recording are made only when they are
        read, because an archive may have very many recordings."""
        start, stop = entry.start_position, entry.stop_position
        if entry.state != "VALID" or stop == NULL_POSITION:
            return self.folder.stream_info(recording_of(entry))
        first, count = (str(start), None) if stop > start else (None, 0)
        name = str(entry.recording_id)
        return StreamInfo(name, self.family, first, None, str(stop), count, stop - start, RecordingDetails(entry))

    # Scans

    def family_columns(self, level: Level = Level.RECORD) -> tuple[Column, ...]:
        """See :meth:`Store.family_columns`. Both levels have the same columns."""
        return COLUMNS

    def walk(self, stream: str, request: ScanRequest) -> Iterator[Batch]:
        """See :meth:`Store.walk`. Yields messages, or data frames, in position order."""
        context = request.split.context if request.split is not None else None
        if not isinstance(context, ScanContext):
            recording = self.folder.recording(stream)
            if recording.is_deleted and not self.options.include_all:
                raise UnknownStream(
                    self.path, found=f"recording {stream} is deleted", expected="include_all to read it"
                )
            if self.folder.is_purged(recording):
                return
            context = self.folder.scan_context(recording)
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
        """See :meth:`Store.splits`. A split is some segments, or some terms of a large segment. A message belongs to
        the split in which it begins."""
        return split_recording(self.folder, self.folder.recording(stream), start, end, split_bytes)

    def split_times(self, splits: list[Split]) -> list[SplitTimes]:
        """See :meth:`Store.split_times`. If the reserved value holds times, these are the times at the splits'
        starts."""
        if not self._times.factor:
            return super().split_times(splits)
        with contextlib.closing(SegmentReader(self.storage, splits[0].context.segments)) as reader:
            return from_firsts([splitting.time_of_first(reader, s.start or 0, self._times.factor) for s in splits])

    # State

    def is_gone(self, stream: str, address: int) -> bool:
        """See :meth:`Store.is_gone`. A recording's stop position says whether it was truncated."""
        if super().is_gone(stream, address):
            return True
        stop = self.folder.recording(stream).stop_position
        return stop is not None and stop <= address

    def info(self) -> dict[str, Any]:
        """Catalog header, mark file, distinct errors, and each recording's descriptor."""
        mark = self.folder.mark()
        return {
            "family": self.family,
            "catalog": None if self.folder.catalog is None else self.folder.catalog.to_dict(),
            "mark_file": None if mark is None else mark.to_dict(),
            "errors": [] if mark is None else [error.to_dict() for error in mark.errors],
            "recordings": [{"recording_id": r.recording_id, **r.details} for r in self.folder.recordings().values()],
        }

    def verify(self, progress: Progress | None = None) -> Report:
        """Check the catalog, the mark file, all segment files and every frame, in their current state."""
        from everlog.aeron.archive.verify.archive import verify

        self.folder.reload()
        return verify(self.folder, progress)

    def verify_parts(self, split_bytes: int = DEFAULT_SPLIT_BYTES) -> list[VerifyPart]:
        """See :meth:`Store.verify_parts`: the folder, groups of recordings, and groups of a recording's segments."""
        from everlog.aeron.archive.verify.parts import plan_parts

        return plan_parts(self.folder, split_bytes)

    def verify_part(self, part: VerifyPart) -> Report:
        """See :meth:`Store.verify_part`. Reloads the catalog if it has changed."""
        from everlog.aeron.archive.verify.parts import verify_part

        self.folder.refresh()
        return verify_part(self.folder, part)

    def plan_repair(self, progress: Progress | None = None) -> RepairPlan:
        from everlog.aeron.archive.repair.plan import plan_repair

        return plan_repair(self.folder, progress)
