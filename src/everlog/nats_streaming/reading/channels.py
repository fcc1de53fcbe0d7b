"""A channel: orders its slices, applies limits, and reads its messages into columns."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from everlog.core.batch import Batch
from everlog.core.columns import Column, ColumnData, ColumnType
from everlog.core.files.storage import ReadableFile, Storage
from everlog.core.report import Severity
from everlog.core.store import LENGTH, PAYLOAD, TIMESTAMP_NS, FaultSink, ScanRequest
from everlog.errors import StoreUnavailable
from everlog.kernel.columns import RowSink
from everlog.kernel.crc32 import Crc32
from everlog.kernel.sources import Bytes, Source, Value
from everlog.nats_streaming.format.limits import Limits
from everlog.nats_streaming.format.names import channel_bytes
from everlog.nats_streaming.reading import walk_twin as row
from everlog.nats_streaming.reading.decrypting import Decrypter, bytes_column, report_encrypted
from everlog.nats_streaming.reading.encryption import MasterKey
from everlog.nats_streaming.reading.index import IndexLookup
from everlog.nats_streaming.reading.retention import Entry, Kept, apply_limits
from everlog.nats_streaming.reading.slice_reader import SliceFile, SliceReader, fault_of
from everlog.nats_streaming.reading.slices import (
    MAX_RELISTINGS,
    ChannelFolder,
    Extent,
    Part,
    Patience,
    Slice,
    SliceState,
    arrange,
    is_gone,
    list_channel,
    slice_gone,
)
from everlog.nats_streaming.reading.small_files import Surveyed
from everlog.nats_streaming.reading.survey import Surveyor, no_damage
from everlog.nats_streaming.reading.walk import RecordWalker

SEQUENCE = Column("sequence", ColumnType.INT64, "the message's number in its channel, from 1", nullable=False)
SUBJECT = Column("subject", ColumnType.UTF8, "the channel's name, as stored in the message", nullable=False)
REPLY = Column("reply", ColumnType.UTF8, "the subject for replies; empty if the publisher gave none", nullable=False)
SLICE = Column("slice", ColumnType.INT32, "number of the slice that holds the message", nullable=False)
OFFSET = Column("offset", ColumnType.INT64, "byte offset of the record's header in the .dat file", nullable=False)

COLUMNS = (TIMESTAMP_NS, LENGTH, PAYLOAD, SEQUENCE, SUBJECT, REPLY, SLICE, OFFSET)

SOURCES: dict[str, Source] = {
    "timestamp_ns": Value(row.TIMESTAMP),
    "length": Value(row.LENGTH_OF_DATA),
    "payload": Bytes(row.DATA),
    "sequence": Value(row.SEQUENCE),
    "subject": Bytes(row.SUBJECT),
    "reply": Bytes(row.REPLY),
    "slice": Value(row.SLICE),
    "offset": Value(row.OFFSET),
}

_ENTRY_COLUMNS: list[tuple[str, str, Source]] = [
    ("sequence", "q", Value(row.SEQUENCE)),
    ("timestamp", "q", Value(row.TIMESTAMP)),
    ("size", "q", Value(row.SIZE)),
]
_ENTRY_ROWS = 16_384
MAX_CACHED_STATES = 100_000


@dataclass(slots=True)
class Reading:
    """The read settings and caches that all channels of a store share. ``states`` caches the states of unchanged
    slices; ``surveyed`` is the slice that was surveyed last, until its files are opened."""

    storage: Storage
    crc: Crc32
    check: bool
    limits: Limits
    now_ns: int
    include_bak: bool
    key: MasterKey | None
    states: dict[Slice, SliceState] = field(default_factory=dict)
    patience: Patience = field(default_factory=Patience)
    surveyed: Surveyed | None = None

    def open_files(self, state: SliceState) -> tuple[ReadableFile, ReadableFile | None]:
        """Open a slice's ``.dat`` file, and its index if it is good.

        Small files that the survey has just read whole are returned once; later scans read the disk again. Raises
        :class:`~everlog.errors.StoreUnavailable` if a file cannot be opened.
        """
        last = self.surveyed
        if last is not None and last.state is state:
            self.surveyed = None
        else:
            last = None
        file = (last and last.dat) or self.storage.open(state.slice.dat)
        try:
            return file, ((last and last.idx) or self.storage.open(state.slice.idx)) if state.indexed else None
        except BaseException:
            file.close()
            raise


class Plan(NamedTuple):
    """What a walk over a channel needs: its parts in sequence order, and the slices without any readable message."""

    parts: tuple[Part, ...]
    lost: tuple[SliceState, ...]


class Channel:
    """One channel of a store, with its folder as listed."""

    def __init__(self, reading: Reading, folder: ChannelFolder) -> None:
        self.reading = reading
        self.folder = folder
        self.name = folder.name
        self._channel = channel_bytes(folder.folder)
        self._kept: Kept | None = None
        self._states: list[SliceState] | None = None
        self._parts: list[Part] | None = None

    @property
    def states(self) -> list[SliceState]:
        """The slices in order of their numbers, then the indexes without a ``.dat`` file. ``.bak`` slices are included
        only if :attr:`Reading.include_bak` is set."""
        for _ in range(MAX_RELISTINGS):
            if self._states is not None:
                return self._states
            try:
                self._states = self._survey()
            except StoreUnavailable:
                before = [s.dat for s in self.folder.slices]
                self.folder = list_channel(self.reading.storage, self.folder.folder, self.reading.patience)
                if [s.dat for s in self.folder.slices] == before:
                    raise  # otherwise a server deleted slices in between
        if self._states is None:
            self._states = self._survey()
        return self._states

    def _survey(self) -> list[SliceState]:
        reading = self.reading
        surveyor = Surveyor(reading.storage, self.name, self._channel, reading.crc, reading.check)
        wanted = [s for s in self.folder.slices if reading.include_bak or not s.is_bak]
        states = [self._state(surveyor, s) for s in wanted]
        return states + [surveyor.missing(s) for s in self.folder.orphan_indexes if not s.is_bak]

    def _state(self, surveyor: Surveyor, piece: Slice) -> SliceState:
        known = self.reading.states.get(piece)
        if known is None:
            self.reading.surveyed = surveyor.survey(piece)
            known = self.reading.surveyed.state
            if len(self.reading.states) >= MAX_CACHED_STATES:
                self.reading.states.clear()
            self.reading.states[piece] = known
        return known

    @property
    def parts(self) -> list[Part]:
        """The sequences on disk as parts of slices, in sequence order. Where slices overlap, the part is of the one
        with the higher number; a ``.bak`` slice comes last."""
        if self._parts is None:
            self._parts = arrange(self.states)
        return self._parts

    @property
    def kept(self) -> Kept:
        """The messages that remain under the limits."""
        if self._kept is None:
            self._kept = apply_limits(self.parts, self.reading.limits, self.reading.now_ns, self.entries)
        return self._kept

    @property
    def last(self) -> int:
        """The last sequence on disk; 0 if the channel has no message."""
        return self.parts[-1].end - 1 if self.parts else 0

    def plan(self) -> Plan:
        """Return the parts within the limits, and the lost slices."""
        first = self.kept.first
        parts = tuple(p if p.first >= first else p._replace(first=first) for p in self.parts if p.end > first)
        return Plan(parts, tuple(s for s in self.states if not s.count))

    def entries(self, part: Part, first: int) -> Iterator[Entry]:
        """Yield sequence, timestamp and size of a part's messages from ``first`` on.

        They come from the index if it is good. So, as in the server, a message whose record is damaged still counts
        towards the limits.
        """
        begin = max(first, part.first)
        if part.state.indexed:
            yield from self._indexed_entries(part, begin)
            return
        walk = PlanWalk(self.reading, self.name, self._channel, RowSink(_ENTRY_COLUMNS, _ENTRY_ROWS, 1 << 62), None)
        for _ in walk.part(part, begin, part.end):
            yield from walk.take_entries()
        yield from walk.take_entries()

    def _indexed_entries(self, part: Part, first: int) -> Iterator[Entry]:
        storage, piece = self.reading.storage, part.state.slice
        try:
            index = storage.open(piece.idx)
        except StoreUnavailable:
            if not is_gone(storage, piece):
                raise
            return
        with index:
            for entry in IndexLookup(index, part.state.count).between(first, part.end):
                yield entry.sequence, entry.timestamp, entry.length

    def walk(self, request: ScanRequest, plan: Plan) -> Iterator[Batch]:
        """Yield the planned messages within the request's range, as batches of its columns."""
        decrypter = None
        columns = request.columns
        if self.reading.key is not None:
            decrypter = Decrypter(self.reading.key.for_channel(self._channel), self.name, columns, request.on_fault)
            names = {c.name for c in columns} | {"payload", "sequence", "slice", "offset"}
            columns = tuple(c for c in COLUMNS if c.name in names)
        sink = RowSink([(c.name, c.type.code, SOURCES[c.name]) for c in columns], request.max_rows, request.max_bytes)
        walk = PlanWalk(self.reading, self.name, self._channel, sink, request)
        is_first = decrypter is None and any(column.name == "payload" for column in columns)
        for _ in itertools.chain(walk.run(plan), (None,)):
            for batch in _finish(sink, columns, decrypter):
                if is_first:
                    is_first = False
                    report_encrypted(batch, self.name, self.folder.folder, request.on_fault)
                yield batch


def _finish(sink: RowSink, columns: tuple[Column, ...], decrypter: Decrypter | None) -> Iterator[Batch]:
    if sink.row_count == 0:
        return
    count, taken = sink.take()
    data = {c.name: ColumnData(c.type, *taken[c.name]) for c in columns}
    for column in columns:
        if column.type is ColumnType.UTF8:
            data[column.name] = _as_utf8(data[column.name], count)
    batch = Batch(columns, count, data)
    if decrypter is not None:
        batch = decrypter.batch(batch)
    if batch.row_count:
        yield batch


def _as_utf8(data: ColumnData, count: int) -> ColumnData:
    """Replace invalid UTF-8, which Arrow does not allow."""
    raw = bytes(data.values)
    if raw.isascii():
        return data
    assert data.offsets is not None
    ends = data.offsets[: count + 1].tolist()
    texts = [raw[a:b].decode("utf-8", "replace").encode() for a, b in itertools.pairwise(ends)]
    return bytes_column(ColumnType.UTF8, texts)


class PlanWalk:
    """One pass over a plan, into ``sink``. ``request`` gives the range and receives the faults; without it, only
    :meth:`part` is used and faults are dropped."""

    def __init__(
        self, reading: Reading, stream: str, channel: bytes, sink: RowSink, request: ScanRequest | None
    ) -> None:
        self._reading = reading
        self._stream = stream
        self._channel = channel
        self._sink = sink
        self._start = 0 if request is None or request.start is None else request.start
        self._end: int | None = None if request is None else request.end
        self._on_fault: FaultSink | None = None if request is None else request.on_fault
        self._reported: set[tuple[str, int]] = set()

    def run(self, plan: Plan) -> Iterator[None]:
        """Walk all parts; yield whenever the sink is full."""
        for state in plan.lost:
            self._report_state(state)
            if state.extents:
                # Only reports faults: the empty range adds nothing to the sink.
                for _ in self._records(state, 0, 0):
                    pass
        for part in plan.parts:
            first = max(part.first, self._start)
            end = part.end if self._end is None else min(part.end, self._end)
            if first < end:
                self._report_state(part.state)
                yield from self._records(part.state, first, end)

    def part(self, part: Part, first: int, end: int) -> Iterator[None]:
        """Walk one part's messages with ``first <= sequence < end``."""
        return self._records(part.state, first, end)

    def take_entries(self) -> Iterator[Entry]:
        """Return the rows so far as entries. The sink's columns must be those of an entry."""
        count, taken = self._sink.take()
        columns = [taken[name][0][:count].tolist() for name in ("sequence", "timestamp", "size")]
        return zip(*columns, strict=True)

    def _records(self, state: SliceState, first: int, end: int) -> Iterator[None]:
        reading, piece = self._reading, state.slice
        if piece.dat_size is None:
            return
        walker = RecordWalker(self._sink, reading.crc if reading.check else None, piece.number)
        walker.first_sequence = first
        try:
            file, index = reading.open_files(state)
        except StoreUnavailable:
            if not is_gone(reading.storage, piece):
                raise
            if self._on_fault is not None:
                if self._sink.row_count:
                    yield  # hand out the preceding messages before reporting the fault
                self._on_fault(slice_gone(state, self._stream))
            return
        with file:
            if index is None:
                yield from self._walk_extents(file, None, state, walker, state.extents, end)
                return
            with index:
                lookup = IndexLookup(index, state.count)
                yield from self._walk_extents(file, lookup, state, walker, _clip(state, lookup, first, end), end)

    def _walk_extents(
        self,
        file: ReadableFile,
        lookup: IndexLookup | None,
        state: SliceState,
        walker: RecordWalker,
        extents: tuple[Extent, ...],
        end: int,
    ) -> Iterator[None]:
        def damage(code: str, start: int, stop: int, found: str, expected: str, sequence: int) -> None:
            lost = sequence or max(state.first - 1, 1)
            self._report(state, code, start, stop, found, expected, lost)

        sink = no_damage if self._on_fault is None else damage
        reader = SliceReader(SliceFile(file, state.data_end, self._channel, self._reading.crc), lookup, sink)
        for extent in extents:
            walker.below_sequence = min(extent.below, end)
            yield from reader.run(walker, extent.start, extent.end)

    def _report_state(self, state: SliceState) -> None:
        for fault in state.faults:
            if self._on_fault is None or fault.severity is not Severity.FAULT or (fault.file, -1) in self._reported:
                continue
            if state.count or state.last == 0 or self._concerns(state.first, state.last):
                self._reported.add((fault.file, -1))
                self._on_fault(fault)

    def _report(
        self, state: SliceState, code: str, start: int, stop: int, found: str, expected: str, sequence: int
    ) -> None:
        name = state.slice.dat
        if (name, start) in self._reported or not self._concerns(sequence, sequence):
            return
        fault = fault_of(name, self._stream, code, start, stop, found, expected, sequence)
        if fault.severity is Severity.FAULT and self._on_fault is not None:
            self._reported.add((name, start))
            self._on_fault(fault)

    def _concerns(self, first: int, last: int) -> bool:
        """Whether sequences ``first`` to ``last`` overlap the requested range."""
        return last >= self._start and (self._end is None or first < self._end)


def _clip(state: SliceState, lookup: IndexLookup, first: int, end: int) -> tuple[Extent, ...]:
    """The extents between two sequences."""
    if first <= state.first and end > state.last:
        return state.extents
    low, high = 4, state.data_end
    if first > state.first:
        i = lookup.at_sequence(first)
        low = lookup.entry(i).offset if i < lookup.count else high
    if end <= state.last:
        high = lookup.entry(lookup.at_sequence(end)).offset
    clipped = (Extent(max(e.start, low), min(e.end, high), e.below) for e in state.extents)
    return tuple(e for e in clipped if e.start < e.end)


def open_channel(reading: Reading, folder: str) -> Channel:
    """List a channel's folder and return the channel. Raises :class:`~everlog.errors.StoreUnavailable`."""
    return Channel(reading, list_channel(reading.storage, folder, reading.patience))
