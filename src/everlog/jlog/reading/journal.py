"""A journal's folder, and the walk over its messages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from everlog.core.batch import Batch
from everlog.core.columns import Column, ColumnData, ColumnType
from everlog.core.files.storage import LocalStorage, ReadableFile, Storage, is_missing
from everlog.core.report import Fault
from everlog.core.store import LENGTH, PAYLOAD, TIMESTAMP_NS, ScanRequest
from everlog.errors import StoreUnavailable
from everlog.jlog.format.addresses import MARKER_BITS
from everlog.jlog.format.compression import NEEDED, decompress, lz4_decoder
from everlog.jlog.format.faults import fault
from everlog.jlog.format.framing import PLAIN, Framing, Provider
from everlog.jlog.format.index import SegmentIndex, read_index
from everlog.jlog.format.layouts import JlogHeader
from everlog.jlog.format.metastore import Metastore, read_metastore
from everlog.jlog.format.names import MAX_LOG, PRE_COMMIT, parse_segment_name, segment_name
from everlog.jlog.format.pre_commit import START, PreCommit, read_pre_commit
from everlog.jlog.reading import walk
from everlog.jlog.reading.recovery import SegmentData, detect_framing
from everlog.jlog.reading.segments import NO_STOP, Piece, Segment, SegmentReader, list_segments
from everlog.kernel.columns import RowSink
from everlog.kernel.sources import Bytes, FieldOf, Source, Value

MAX_RELISTINGS = 2

LOG = Column("log", ColumnType.INT64, "number of the segment", nullable=False)
MARKER = Column("marker", ColumnType.INT64, "number of the message in its segment, from 1", nullable=False)
OFFSET = Column(
    "offset", ColumnType.INT64, "of the message's header in its segment (with pre_commit: in that file)", nullable=False
)
COLUMNS = (TIMESTAMP_NS, LENGTH, PAYLOAD, LOG, MARKER, OFFSET)

SOURCES: dict[str, Source] = {
    "timestamp_ns": Value(walk.TIMESTAMP_NS),
    "length": FieldOf(JlogHeader.length),  # type: ignore[arg-type]
    "payload": Bytes(0),
    "log": Value(walk.LOG),
    "marker": Value(walk.MARKER),
    "offset": Value(walk.OFFSET),
}


@dataclass(slots=True)
class Journal:
    """The contents of a folder. ``preferred`` is the framing named by the metastore, or ``None``."""

    storage: Storage
    metastore: Metastore
    segments: list[Segment]

    @classmethod
    def read(cls, storage: Storage) -> Journal:
        """List the folder and read the metastore. A listing is not atomic: one with a gap is repeated, because segments
        may have been deleted during it."""
        segments = list_segments(storage.entries())
        for _ in range(MAX_RELISTINGS):
            if not segments or segments[-1].log - segments[0].log == len(segments) - 1:
                break
            segments = list_segments(storage.entries())
        return cls(storage, read_metastore(storage), segments)

    @classmethod
    def read_part(cls, storage: Storage, logs: Sequence[int], following: int | None) -> Journal:
        """As :meth:`read`, for a scan of the segments ``logs`` alone, in order. Only they are read, and one later
        segment if any exists; ``following`` is where one was. A remote store is listed anyway, in one request."""
        if not isinstance(storage, LocalStorage):
            return cls.read(storage)
        segments = []
        for log in logs:
            try:
                segments.append(Segment(log, storage.size(segment_name(log))))
            except StoreUnavailable as error:
                if not is_missing(error):
                    raise
        metastore = read_metastore(storage)
        later = _later_segment(storage, logs[-1], following, metastore)
        return cls(storage, metastore, segments if later is None else [*segments, Segment(later, 0)])

    @property
    def preferred(self) -> Framing | None:
        """The framing named by the metastore."""
        return None if self.metastore.magic is None else Framing(self.metastore.magic)

    @property
    def last_log(self) -> int | None:
        """The highest existing segment."""
        return self.segments[-1].log if self.segments else None

    def is_closed(self, segment: Segment) -> bool:
        """Whether a segment is finished: not the last one."""
        return segment.log != self.last_log

    def is_gone(self, log: int) -> bool:
        """Whether a listed segment no longer exists: readers delete segments that no subscriber needs."""
        return not self.storage.exists(segment_name(log))

    def pre_commit(self) -> PreCommit | None:
        """The state of the pre-commit buffer."""
        return read_pre_commit(self.storage)

    def framing_of(self, file: ReadableFile, start: int, end: int) -> Framing:
        """The framing of a file's first message. If that is damaged: the metastore's, else that of the first segment
        that shows one, else plain."""
        preferred = self.preferred
        found = detect_framing(SegmentData(file, start, end), start, preferred)
        return found or preferred or self._framing_of_others(file.name)

    def _framing_of_others(self, name: str) -> Framing:
        for segment in self.segments[:8]:
            if segment_name(segment.log) == name or not segment.byte_count:
                continue
            try:
                with self.storage.open(segment_name(segment.log)) as file:
                    found = detect_framing(SegmentData(file, 0, file.size()), 0, None)
            except StoreUnavailable:
                continue
            if found is not None:
                return found
        return PLAIN

    def index_of(self, segment: Segment, framing: Framing) -> SegmentIndex:
        """The index of a segment."""
        return read_index(self.storage, segment.log, segment.byte_count, framing.header_bytes)


def _later_segment(storage: Storage, log: int, following: int | None, metastore: Metastore) -> int | None:
    """Any segment after ``log``. All names are listed only if it is neither ``following`` nor the next number."""
    for found in (following, min(log + 1, MAX_LOG)):
        if found is not None and found > log and storage.exists(segment_name(found)):
            return found
    if metastore.storage_log is not None and metastore.storage_log <= log:
        return None
    last = max((log for log in map(parse_segment_name, storage.names()) if log is not None), default=log)
    return last if last > log else None


class Walk:
    """One scan: reads segments, and the pre-commit buffer if requested, into batches of the requested columns."""

    def __init__(self, journal: Journal, request: ScanRequest, *, pre_commit: bool) -> None:
        self.journal = journal
        self.request = request
        self.pre_commit = pre_commit
        self._start = request.start or 0
        self._wanted = frozenset(column.name for column in request.columns)
        self._is_lz4 = False
        self._sink = self._new_sink(self._wanted)
        self._by_log = {segment.log: segment for segment in journal.segments}

    def batches(self, logs: Iterable[int], previous: int | None, piece: Piece | None = None) -> Iterator[Batch]:
        """Walk the segments ``logs``; ``previous`` is the segment before them, if any. With ``piece``, ``logs`` is one
        segment and only that piece is read."""
        for log in logs:
            if previous is not None and log > previous + 1:
                yield from self._take()
                self.request.on_fault(missing_segments(previous, log))
            previous = log
            if log in self._by_log:
                yield from self._segment(self._by_log[log], piece)
            else:  # it existed when the scan was planned
                yield from self._take()
                self.request.on_fault(segment_gone(log))
        if self.pre_commit and self.journal.last_log is None:
            yield from self._buffer(self.journal.metastore.storage_log or 0, 1)
        yield from self._take()

    def _segment(self, segment: Segment, piece: Piece | None) -> Iterator[Batch]:
        if segment.byte_count == 0 and self.journal.is_closed(segment):
            yield from self._take()
            self.request.on_fault(empty_closed_segment(segment.log))
            return
        try:
            file = self.journal.storage.open(segment_name(segment.log))
        except StoreUnavailable:
            if not self.journal.is_gone(segment.log):
                raise
            yield from self._take()
            self.request.on_fault(segment_gone(segment.log))
            return
        with file:
            reader = self._reader(file, segment.log, 0, file.size())
            reader.load_index = lambda: self.journal.index_of(segment, reader.framing)
            if piece is not None:
                _bound(reader, piece)
            yield from self._fill(reader)
        is_last = segment.log == self.journal.last_log and (piece is None or piece.end is None)
        if self.pre_commit and is_last:
            yield from self._buffer(segment.log, reader.marker)

    def _buffer(self, log: int, marker: int) -> Iterator[Batch]:
        state = self.journal.pre_commit()
        if state is None or not state.readable:
            return
        with self.journal.storage.open(PRE_COMMIT) as file:
            reader = self._reader(file, log, START, min(state.end, file.size()))
            reader.marker = marker
            yield from self._fill(reader)

    def _reader(self, file: ReadableFile, log: int, start: int, end: int) -> SegmentReader:
        framing = self.journal.framing_of(file, start, end)
        reader = SegmentReader(file, log, start, end, framing, self._sink, self.request.on_fault)
        base, end_address = log << MARKER_BITS, self.request.end  # addresses are unsigned 64 bits
        reader.first = min(NO_STOP, max(1, self._start - base))
        reader.stop = NO_STOP if end_address is None else min(NO_STOP, max(0, end_address - base))
        return reader

    def _fill(self, reader: SegmentReader) -> Iterator[Batch]:
        provider = reader.framing.provider
        if provider is Provider.UNKNOWN and "payload" in self._wanted:
            yield from self._take()
            self.request.on_fault(unknown_compression(reader))
            return
        is_lz4 = provider is Provider.LZ4 and "payload" in self._wanted
        if is_lz4 != self._is_lz4:
            yield from self._take()
            self._is_lz4 = is_lz4
            self._sink = self._new_sink(self._wanted.union(NEEDED) if is_lz4 else self._wanted)
        reader.sink = self._sink
        for _ in reader.fill():
            yield from self._take()

    def _new_sink(self, names: frozenset[str]) -> RowSink:
        columns = [(c.name, c.type.code, SOURCES[c.name]) for c in COLUMNS if c.name in names]
        return RowSink(columns, self.request.max_rows, self.request.max_bytes)

    def _take(self) -> Iterator[Batch]:
        if not self._sink.row_count:
            return
        count, taken = self._sink.take()
        schema = tuple(column for column in COLUMNS if column.name in taken)
        data = {c.name: ColumnData(c.type, *taken[c.name]) for c in schema}
        if self._is_lz4:
            batch = Batch(schema, count, data)
            yield from decompress(
                batch, self.request.columns, lz4_decoder(), self.request.max_bytes, self.request.on_fault
            )
        else:
            yield Batch(self.request.columns, count, data)


def _bound(reader: SegmentReader, piece: Piece) -> None:
    """Limit the reader to a piece of its segment."""
    reader.at, reader.marker = piece.start, piece.marker
    if piece.end is not None:
        # If the segment was cut since, reading reports what is missing.
        reader.end, reader.is_piece = piece.end, True


def missing_segments(previous: int, following: int) -> Fault:
    """Segments between two existing ones are missing."""
    first, last = previous + 1, following - 1
    return fault(
        "missing-segments",
        segment_name(first),
        None,
        f"no segment {first:08x}" if first == last else f"no segments {first:08x} to {last:08x}",
        f"{following - previous - 1} between {previous:08x} and {following:08x}",
        loses="their messages; the C library's readers skip them",
        repair="none: the messages are gone",
        address=f"{first:08x}:{1:08x}",
    )


def segment_gone(log: int) -> Fault:
    """A segment existed when the journal was listed, but not when it was read."""
    return fault(
        "segment-gone-while-read",
        segment_name(log),
        None,
        "no such file",
        "the segment, which was listed before",
        loses="its messages; if a C library reader deleted it, every subscriber had consumed them",
        repair="none: a subscriber before the messages would have kept them",
        address=f"{log:08x}:{1:08x}",
    )


def empty_closed_segment(log: int) -> Fault:
    """A finished segment has no bytes."""
    return fault(
        "empty-closed-segment",
        segment_name(log),
        0,
        "0 bytes",
        "messages, since another segment follows",
        loses="the messages it held; the C library's readers delete the file",
        repair="delete the segment and its index",
        address=f"{log:08x}:{1:08x}",
    )


def magic_differs(reader: SegmentReader, preferred: Framing) -> Fault:
    """A segment's messages have a framing other than the metastore's."""
    return fault(
        "magic-differs",
        reader.file.name,
        reader.start,
        f"messages with magic {reader.framing.magic:#010x}",
        f"{preferred.magic:#010x}, as the metastore says",
        loses="nothing here; the C library reads none of its messages",
        repair=f"set the metastore's magic to {reader.framing.magic:#010x}",
    )


def unknown_compression(reader: SegmentReader) -> Fault:
    """A segment's payloads can't be decoded."""
    return fault(
        "unknown-compression",
        reader.file.name,
        reader.start,
        f"magic {reader.framing.magic:#010x}",
        "provider 0 (null) or 1 (LZ4)",
        loses="all payloads of the segment",
        repair="none here",
    )
