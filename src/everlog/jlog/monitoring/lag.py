"""Measures the lag of subscribers: messages, bytes, and the age of the oldest pending message.

Sizes come from the folder's listing and counts from the caller, so that no segment is read per subscriber. Only a
subscriber's own segment is examined, once for all at the same place: by its index if that is sound, else by one walk
for all subscribers in it. Results in a :class:`LagMemory` are reused.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from everlog.core.columns import MAX_BATCH_BYTES, MAX_BATCH_ROWS
from everlog.core.files.storage import ReadableFile
from everlog.errors import EverlogError
from everlog.jlog.format.checkpoints import Checkpoint
from everlog.jlog.format.framing import Framing
from everlog.jlog.format.index import SegmentIndex
from everlog.jlog.format.names import segment_name
from everlog.jlog.reading.journal import SOURCES, Journal
from everlog.jlog.reading.recovery import SegmentData
from everlog.jlog.reading.segments import Segment, SegmentReader
from everlog.kernel.columns import RowSink
from everlog.time_units import NS_PER_S, NS_PER_US

WALK_BUDGET_BYTES = 256 << 20
"""Bytes without a sound index that one measurement walks; beyond that lags are unknown."""


@dataclass(frozen=True, slots=True)
class Lag:
    """What a subscriber has not consumed. ``messages`` and ``byte_count`` (with headers, from the first pending message
    to the end of the last segment) are ``None`` if unknown. So is ``seconds``, the age of the oldest pending message, 0
    if there is none. ``oldest_ns`` is that message's time, ``None`` if there is none or it is unknown."""

    messages: int | None = None
    byte_count: int | None = None
    seconds: float | None = None
    oldest_ns: int | None = None

    def to_dict(self) -> dict[str, object]:
        """Plain values for ``ls`` and ``info``; ``lag`` is the older name of ``lag_messages``."""
        return {
            "lag": self.messages,
            "lag_messages": self.messages,
            "lag_bytes": self.byte_count,
            "lag_seconds": None if self.seconds is None else round(self.seconds, 3),
        }


@dataclass(frozen=True, slots=True)
class Place:
    """What is pending after a checkpoint in its own segment; ``messages`` is ``None`` if not counted."""

    byte_count: int
    messages: int | None
    oldest_ns: int | None


_NOTHING = Place(0, 0, None)


@dataclass(slots=True)
class LagMemory:
    """Results that the next measurement reuses for segments of unchanged size."""

    places: dict[tuple[int, int, int], Place] = field(default_factory=dict)
    firsts: dict[tuple[int, int], int | None] = field(default_factory=dict)

    def forget_others(self, segments: Iterable[Segment], checkpoints: Iterable[Checkpoint]) -> None:
        """Keep only results for these segments and checkpoints."""
        sizes = {segment.log: segment.byte_count for segment in segments}
        places = {(c.log, sizes.get(c.log), c.marker) for c in checkpoints if c.log is not None}
        self.places = {key: place for key, place in self.places.items() if key in places}
        self.firsts = {key: first for key, first in self.firsts.items() if sizes.get(key[0]) == key[1]}


def measure_lags(
    journal: Journal,
    checkpoints: Sequence[Checkpoint],
    now_ns: int,
    counts: Sequence[int | None] | None = None,
    *,
    budget: int | None = WALK_BUDGET_BYTES,
    memory: LagMemory | None = None,
) -> list[Lag]:
    """The lag of each checkpoint, in order. ``counts`` are the message counts of the journal's segments; without them
    messages are not counted. ``budget`` limits the bytes walked (``None``: unlimited). Never raises for damage.

    A checkpoint in a missing segment waits for all higher segments, as readers skip what is missing; one above the last
    segment waits for nothing.
    """
    memory = memory if memory is not None else LagMemory()
    memory.forget_others(journal.segments, checkpoints)
    meter = _Meter(journal, counts is not None, budget, memory)
    meter.observe(checkpoints)
    later = _sums_from(journal.segments, counts)
    return [meter.lag(checkpoint, later, now_ns) for checkpoint in checkpoints]


def _sums_from(segments: Sequence[Segment], counts: Sequence[int | None] | None) -> tuple[list[int], list[int | None]]:
    """Bytes and messages of the segments from each one on."""
    sizes = [0]
    messages: list[int | None] = [None if counts is None else 0]
    for at in range(len(segments) - 1, -1, -1):
        sizes.append(sizes[-1] + segments[at].byte_count)
        count, more = None if counts is None else counts[at], messages[-1]
        messages.append(None if count is None or more is None else count + more)
    return sizes[::-1], messages[::-1]


class _Meter:
    def __init__(self, journal: Journal, counting: bool, budget: int | None, memory: LagMemory) -> None:
        self.journal = journal
        self.logs = [segment.log for segment in journal.segments]
        self.counting = counting
        self.budget = budget
        self.memory = memory
        self._firsts_from: dict[int, tuple[bool, int | None]] = {}

    def observe(self, checkpoints: Iterable[Checkpoint]) -> None:
        """Find the places of all checkpoints, segment by segment."""
        markers: dict[int, set[int]] = {}
        for checkpoint in checkpoints:
            if checkpoint.log is not None and checkpoint.marker is not None:
                markers.setdefault(checkpoint.log, set()).add(checkpoint.marker)
        for segment in self.journal.segments:
            wanted = [m for m in markers.get(segment.log, ()) if not self._is_remembered(segment, m)]
            if wanted:
                try:
                    self._find(segment, sorted(wanted))
                except EverlogError:  # unreadable or deleted: its places stay unknown
                    continue

    def lag(self, checkpoint: Checkpoint, later: tuple[list[int], list[int | None]], now_ns: int) -> Lag:
        """The lag of one checkpoint; see :func:`measure_lags`."""
        if checkpoint.log is None or checkpoint.marker is None:
            return Lag()
        at = bisect_left(self.logs, checkpoint.log)
        place: Place | None = _NOTHING
        if at < len(self.logs) and self.logs[at] == checkpoint.log:
            segment = self.journal.segments[at]
            place = self.memory.places.get((segment.log, segment.byte_count, checkpoint.marker))
            at += 1
        if place is None:
            return Lag()
        known, oldest_ns = (True, place.oldest_ns) if place.oldest_ns is not None else self._first_from(at)
        more = later[1][at]
        messages = None if more is None or place.messages is None else more + place.messages
        seconds = None
        if known:
            seconds = 0.0 if oldest_ns is None else max(0.0, (now_ns - oldest_ns) / NS_PER_S)
        return Lag(messages, later[0][at] + place.byte_count, seconds, oldest_ns)

    def _is_remembered(self, segment: Segment, marker: int) -> bool:
        place = self.memory.places.get((segment.log, segment.byte_count, marker))
        return place is not None and not (self.counting and place.messages is None)

    def _find(self, segment: Segment, markers: list[int]) -> None:
        """Places in one segment: by the index if possible, then one walk for the others."""
        places: dict[int, Place] = {}
        if segment.byte_count == 0:
            places = dict.fromkeys(markers, _NOTHING)
        else:
            with self.journal.storage.open(segment_name(segment.log)) as file:
                size = file.size()
                framing = self.journal.framing_of(file, 0, size)
                index = self.journal.index_of(Segment(segment.log, size), framing)
                data = SegmentData(file, 0, size)
                for marker in markers:
                    place = _place_by_index(data, framing, index, marker)
                    if place is not None:
                        places[marker] = place
                open_ones = [m for m in markers if m not in places or (self.counting and places[m].messages is None)]
                if open_ones and self._spend(size):
                    places |= _walk_for_places(file, segment.log, size, framing, index, open_ones)
        for marker, place in places.items():
            self.memory.places[segment.log, segment.byte_count, marker] = place

    def _first_from(self, at: int) -> tuple[bool, int | None]:
        """Whether it is known, and the time of the first message in the segments from ``at`` on."""
        segments, known = self.journal.segments, self._firsts_from
        found: tuple[bool, int | None] | None = None
        passed = []  # shared by all subscribers before these segments
        while found is None and at < len(segments):
            passed.append(at)
            found = known.get(at) or self._first_in(segments[at])
            at += 1
        found = found or (True, None)
        known.update(dict.fromkeys(passed, found))
        return found

    def _first_in(self, segment: Segment) -> tuple[bool, int | None] | None:
        """The same for one segment; ``None`` if it has no message."""
        if segment.byte_count == 0:
            return None
        key = segment.log, segment.byte_count
        if key not in self.memory.firsts:
            try:
                if not self._find_first(segment):
                    return False, None
            except EverlogError:
                return False, None
        first = self.memory.firsts[key]
        return None if first is None else (True, first)

    def _find_first(self, segment: Segment) -> bool:
        key = segment.log, segment.byte_count
        with self.journal.storage.open(segment_name(segment.log)) as file:
            size = file.size()
            framing = self.journal.framing_of(file, 0, size)
            header = SegmentData(file, 0, size).header(0, framing)
            if header is not None and header.end <= size:
                self.memory.firsts[key] = header.timestamp_us * NS_PER_US
                return True
            if not self._spend(size):
                return False
            index = self.journal.index_of(Segment(segment.log, size), framing)
            place = _walk_for_places(file, segment.log, size, framing, index, [0])[0]
        self.memory.firsts[key] = place.oldest_ns
        return True

    def _spend(self, size: int) -> bool:
        if self.budget is None:
            return True
        if size > self.budget:
            return False
        self.budget -= size
        return True


def _place_by_index(data: SegmentData, framing: Framing, index: SegmentIndex, marker: int) -> Place | None:
    """The place after message ``marker`` if the index has it and the data agrees; ``None`` if only a walk can find
    it."""
    is_complete = False
    if index.is_sound and index.good:
        last = data.header(index.entries[index.good - 1], framing)
        is_complete = last is not None and last.end == data.end
    if is_complete and marker >= index.good:
        return _NOTHING
    start = 0
    if marker:
        at = index.offset_of(marker) if index.is_sound else None
        done = None if at is None else data.header(at, framing)
        if done is None or index.offset_of(marker + 1) not in (None, done.end):
            return None
        start = done.end
    if start == data.end:
        return _NOTHING
    first = data.header(start, framing)
    if first is None or first.end > data.end:
        return None
    return Place(data.end - start, index.good - marker if is_complete else None, first.timestamp_us * NS_PER_US)


def _walk_for_places(
    file: ReadableFile, log: int, size: int, framing: Framing, index: SegmentIndex, markers: Sequence[int]
) -> dict[int, Place]:
    """The places after several messages, in ascending order, by walking the segment from the first of them on."""
    columns = [(name, "q", SOURCES[name]) for name in ("marker", "offset", "timestamp_ns")]
    sink = RowSink(columns, MAX_BATCH_ROWS, MAX_BATCH_BYTES)
    reader = SegmentReader(file, log, 0, size, framing, sink, lambda _: None)
    reader.load_index = lambda: index
    reader.first = max(1, min(markers[0], index.good))
    firsts: list[tuple[int, int, int]] = []
    total = 0

    def take() -> None:
        nonlocal total
        rows, taken = sink.take()
        found, offsets, times = (taken[name][0] for name in ("marker", "offset", "timestamp_ns"))
        while rows and len(firsts) < len(markers) and markers[len(firsts)] < found[rows - 1]:
            at = bisect_right(found, markers[len(firsts)], 0, rows)
            firsts.append((offsets[at], total + at, times[at]))
        total += rows

    for _ in reader.fill():
        take()
    take()
    places = [Place(size - offset, total - before, time_ns) for offset, before, time_ns in firsts]
    return dict.fromkeys(markers, _NOTHING) | dict(zip(markers, places, strict=False))
