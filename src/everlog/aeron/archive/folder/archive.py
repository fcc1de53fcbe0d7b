"""An archive's folder, read: the catalog, recordings with their segments, the mark file."""

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
    """A folder with ``archive.catalog``, ``archive-mark.dat`` and ``<id>-<position>.rec`` files, or what is left of
    them. ``checksum``: what lies over the frames' session ids; ``auto`` tries a few frames of each recording."""

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
        """Read the catalog and list the files again, as after a repair."""
        self._names: dict[int, list[int]] | None = None
        self._listed_names: set[str] = set()
        self._recordings: dict[int, Recording] | None = None
        self._naming: Naming | None = None
        self._catalog_bytes = CatalogBytes.read(self.storage)
        self._catalog_bytes.check_version()

    def refresh(self) -> None:
        """``reload``, if the catalog or the names of the files have changed. To reload for each part would cost the
        square of the number of parts."""
        if CatalogBytes.read(self.storage) != self._catalog_bytes or set(self.storage.names()) != self._listed_names:
            self.reload()
            self.segment_index()

    @property
    def catalog(self) -> Catalog | None:
        """The catalog as it was when the archive was opened; ``None`` where ``catalog_fault`` says why. Its entries are
        decoded on first use: there may be very many, and reading a split needs none of them."""
        return self._catalog_bytes.decoded[0]

    @property
    def catalog_fault(self) -> Fault | None:
        """Why there is no catalog."""
        return self._catalog_bytes.decoded[1]

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
                self.storage.root, found=f"no recording {stream!r}", expected="a recording id, as ls lists them"
            )
        return recording

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

    def scan_context(self, recording: Recording, *, checksum: ReadChecksum | None = None) -> ScanContext:
        """What a scan needs to know of a recording; finds out which checksum its frames have."""
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
        """What a recording's frames look like, and which checksum they have: ``checksum``, else as the options say.
        Where that is found out, those with the session id of the descriptor have none: an archive that is not
        configured for checksums extended the recording, maybe far from where frames are tried."""
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
        """The mark file as it is now; ``None`` when it is missing or its header can't be read."""
        try:
            return load_mark(self.storage)
        except (CorruptData, StoreUnavailable):
            return None

    def is_live(self) -> bool:
        """Whether an archive said within the last ten seconds that it runs here."""
        mark = self.mark()
        return mark is not None and mark.is_live(now_ms())


def load_mark(storage: Storage) -> ArchiveMark | None:
    """The mark file, through its link, too; ``None`` when there is none. Raises :class:`CorruptData`,
    :class:`StoreUnavailable`."""
    place = mark_storage(storage)
    if not place.exists(MARK_NAME):
        return None
    return read_archive_mark(place.read_all(MARK_NAME), MARK_NAME)


def is_archive(storage: Storage) -> bool:
    """Whether there is a catalog, a mark file or a segment file."""
    names = storage.names()
    return CATALOG_NAME in names or MARK_NAME in names or any(parse_segment_name(name) for name in names)
