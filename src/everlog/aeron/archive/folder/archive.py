"""Reads an archive's folder: the catalog, the recordings and their segments, the mark file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from everlog.aeron.archive.folder.recordings import (
    Recording,
    recording_from_files,
    recording_of,
)
from everlog.aeron.archive.folder.scan import Scan, ScanContext
from everlog.aeron.archive.format.catalog import CATALOG_NAME, Catalog
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
)
from everlog.aeron.family_options import Checksum, ReadChecksum
from everlog.aeron.frames.constants import HEADER_LENGTH
from everlog.aeron.frames.position import FOREVER, term_start
from everlog.aeron.frames.walk import Geometry
from everlog.aeron.mark_file import ArchiveMark, now_ms, read_archive_mark
from everlog.aeron.positional_store import MAX_DIGITS
from everlog.core.files.storage import Storage
from everlog.core.report import Fault
from everlog.core.store import StreamInfo
from everlog.errors import CorruptData, StoreUnavailable, UnknownStream
from everlog.kernel import columns as kernel

if TYPE_CHECKING:
    pass

FAMILY = "aeron-archive"


class ArchiveFolder:
    """A folder with ``archive.catalog``, ``archive-mark.dat`` and ``<id>-<position>.rec`` files, some of which may be
    missing. ``checksum``: the kind of checksum that replaces the frames' session ids; ``auto`` detects it from a few
    frames of each recording."""

    family = FAMILY

    def __init__(self, storage: Storage, checksum: ReadChecksum = "auto") -> None:
        self.storage = storage
        self.checksum = checksum
        self.reload()

    @property
    def path(self) -> str:
        """The folder."""
        return self.storage.root

    def reload(self) -> None:
        """Read the catalog and list the files again, for example after a repair."""
        self._names: dict[int, list[int]] | None = None
        self._listed_names: set[str] = set()
        self._recordings: dict[int, Recording] | None = None
        self._naming: Naming | None = None
        self._catalog_bytes = CatalogBytes.read(self.storage)
        self._catalog_bytes.check_version()

    def refresh(self) -> None:
        """Reload if the catalog or the files' names have changed. Unconditional reloads, one for each of many parts,
        would take quadratic time."""
        if CatalogBytes.read(self.storage) != self._catalog_bytes or set(self.storage.names()) != self._listed_names:
            self.reload()
            self.segment_index()

    @property
    def catalog(self) -> Catalog | None:
        """The catalog as of the last load, or ``None`` for the reason in ``catalog_fault``. Its entries are decoded on
        first use: there may be very many, and reading a split needs none of them."""
        return self._catalog_bytes.decoded[0]

    @property
    def catalog_fault(self) -> Fault | None:
        """Why the catalog can't be read; ``None`` if it can."""
        return self._catalog_bytes.decoded[1]

    # Recordings

    def segment_index(self) -> dict[int, list[int]]:
        """Return, by recording id, the numbers in its segment files' names. The folder is listed at the first call."""
        if self._names is None:
            names = self.storage.names()
            self._names, self._listed_names = index_segments(names), set(names)
        return self._names

    @property
    def naming(self) -> Naming:
        """How segment files are named. The catalog's version decides, or, if it may be damaged, the files' names."""
        if self._naming is None:
            catalog = self.catalog
            is_sure = catalog is not None and not catalog.is_old
            claimed = Naming.POSITION if catalog is None else catalog.naming
            self._naming = claimed if is_sure else naming_by_files(self.segment_index(), claimed)
        return self._naming

    def segment_map(self, recording: Recording) -> SegmentMap:
        """Return the map from a recording's positions to its segment files."""
        return SegmentMap(
            recording.recording_id,
            recording.start_position,
            recording.term_buffer_length,
            recording.segment_file_length,
            self.naming,
        )

    def recordings(self) -> dict[int, Recording]:
        """Return all recordings by id: those of the catalog and, if it is missing or damaged, those found only by their
        segment files."""
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
        """Whether a recording was deleted together with all its files. Archives up to version 2 mark deleted recordings
        as INVALID, later versions as DELETED."""
        return recording.state in ("INVALID", "DELETED") and recording.recording_id not in self.segment_index()

    def recording(self, stream: str) -> Recording:
        """Return the recording whose id is ``stream``. Raises :class:`UnknownStream` if none has it."""
        is_number = stream.isascii() and stream.isdecimal() and len(stream) <= MAX_DIGITS
        recording = self.recordings().get(int(stream)) if is_number else None
        if recording is None or str(recording.recording_id) != stream:
            raise UnknownStream(
                self.storage.root, found=f"no recording {stream!r}", expected="a recording id, as ls lists them"
            )
        return recording

    def stream_info(self, recording: Recording) -> StreamInfo:
        """Describe a recording as ``ls`` lists it. The end of an active one is found by reading its last frames."""
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
        """Return the end of an active recording, found by walking the frames of its last term that has any."""
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
        """Return the position of the first frame of the last term that has one."""
        start, segments = recording.start_position, reader.segments
        bases = segments.bases(self.segment_index().get(recording.recording_id, []))
        for base in sorted(bases, reverse=True):
            end = base + min(reader.size(base) or 0, segments.segment_length)
            if reader.next_data(base, end) == end:
                continue  # allocated, but not written yet
            position = base + segments.segment_length
            while position > max(base, start):
                position = max(start, term_start(position - 1, segments.term_length))
                if any(reader.read(position, HEADER_LENGTH)):
                    return position
        return start

    def scan_context(self, recording: Recording, *, checksum: ReadChecksum | None = None) -> ScanContext:
        """Return what a scan needs to know about a recording; detects the checksum of its frames."""
        segments = self.segment_map(recording)
        last_base, is_live = None, False
        if recording.is_active:
            bases = segments.bases(self.segment_index().get(recording.recording_id, []))
            last_base = max((b for b in bases if b >= segments.base(recording.start_position)), default=None)
            is_live = self.is_live()
        geometry, kind = self.geometry(recording, segments, checksum)
        return ScanContext(segments, geometry, recording.stop_position, last_base, kind, is_live)

    def geometry(
        self, recording: Recording, segments: SegmentMap, checksum: ReadChecksum | None = None
    ) -> tuple[Geometry, Checksum]:
        """Return the geometry of a recording's frames and their kind of checksum: ``checksum``, else as in the options.
        If the kind is detected, frames with the descriptor's session id count as having no checksum: an archive without
        checksums may have extended the recording, far from the frames that detection reads."""
        given = checksum or self.checksum
        kind, plain = self._detect(recording, segments) if given == "auto" else (given, ())
        if given == "auto" and kind != "none" and recording.session_id not in plain:
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

    def _detect(self, recording: Recording, segments: SegmentMap) -> tuple[Checksum, tuple[int, ...]]:
        numbers = self.segment_index().get(recording.recording_id, [])
        bases = [base for base in segments.bases(numbers) if base > recording.start_position]
        starts = {recording.start_position, *bases[:1], *bases[len(bases) // 2 :][:1], *bases[-1:]}
        reader = SegmentReader(self.storage, segments)
        try:
            return detect_checksum(reader, sorted(starts))
        finally:
            reader.close()

    def mark(self) -> ArchiveMark | None:
        """Read the mark file; ``None`` if it is missing or its header can't be read."""
        try:
            return load_mark(self.storage)
        except (CorruptData, StoreUnavailable):
            return None

    def is_live(self) -> bool:
        """Whether the mark file has a heartbeat of the last ten seconds, so that an archive runs here."""
        mark = self.mark()
        return mark is not None and mark.is_live(now_ms())


def load_mark(storage: Storage) -> ArchiveMark | None:
    """Read the mark file, or the one that its link file points to; ``None`` if it does not exist. Raises
    :class:`CorruptData` or :class:`StoreUnavailable` if it can't be read."""
    place = mark_storage(storage)
    if not place.exists(MARK_NAME):
        return None
    return read_archive_mark(place.read_all(MARK_NAME), MARK_NAME)


def is_archive(storage: Storage) -> bool:
    """Whether a folder has a catalog, a mark file or a segment file."""
    names = storage.names()
    return CATALOG_NAME in names or MARK_NAME in names or any(parse_segment_name(name) for name in names)
