"""Divides a journal into splits: runs of segments, and pieces of a large segment if its index agrees with the data.

A piece is bounded by offsets, not message numbers, so every message is in exactly one piece, whatever the index says.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, replace

from everlog.core.files.storage import ReadableFile
from everlog.core.splits import Split, SplitTimes, from_firsts
from everlog.errors import EverlogError
from everlog.jlog.format.addresses import MARKER_BITS
from everlog.jlog.format.faults import STREAM
from everlog.jlog.format.framing import KNOWN, LEGACY, Framing, Header
from everlog.jlog.format.layouts import JlogCompressedHeader, JlogIndexEntry
from everlog.jlog.format.names import index_name, segment_name
from everlog.jlog.reading.journal import Journal
from everlog.jlog.reading.segments import Piece, Segment

MIN_PIECE_BYTES = 1 << 16
"""Minimum size of a piece."""
MAX_PIECES = 4096
"""Maximum number of pieces of a segment: planning looks each one up in the index."""

ENTRY = JlogIndexEntry.size


@dataclass(frozen=True, slots=True)
class SplitContext:
    """What a scan of a split needs: ``logs`` are its segments; ``previous`` and ``following`` are those before and
    after them, if any. With ``piece``, ``logs`` is one segment, of which the piece is read."""

    previous: int | None
    logs: tuple[int, ...]
    piece: Piece | None = None
    following: int | None = None


def plan_splits(journal: Journal, start: int | None, end: int | None, split_bytes: int) -> Iterator[Split]:
    """Splits of about ``split_bytes`` that cover the messages ``start <= address < end``."""
    segments = journal.segments
    first: int | None = None  # start of the run not yielded yet
    past_end = byte_count = 0
    for at, segment in enumerate(segments):
        low = segment.log << MARKER_BITS
        if segment.log < (start or 0) >> MARKER_BITS or (end is not None and low >= end):
            continue
        if first is not None and byte_count + segment.byte_count > split_bytes:
            yield _split(segments, first, at, start, end)
            first = None
        if segment.byte_count > max(split_bytes, MIN_PIECE_BYTES):
            pieces = cut_segment(journal, segment, max(split_bytes, MIN_PIECE_BYTES))
            if len(pieces) > 1:
                yield from _of_pieces(segments, at, pieces, start, end)
                continue
        if first is None:
            first, byte_count = at, 0
        byte_count += segment.byte_count
        past_end = at + 1
    if first is not None:
        yield _split(segments, first, past_end, start, end)


def _context(segments: list[Segment], first: int, past_end: int, piece: Piece | None = None) -> SplitContext:
    return SplitContext(
        segments[first - 1].log if first else None,
        tuple(segment.log for segment in segments[first:past_end]),
        piece,
        segments[past_end].log if past_end < len(segments) else None,
    )


def _split(segments: list[Segment], first: int, past_end: int, start: int | None, end: int | None) -> Split:
    low = segments[first].log << MARKER_BITS
    high = (segments[past_end - 1].log + 1) << MARKER_BITS
    return Split(
        STREAM,
        low if start is None else max(low, start),
        high if end is None else min(high, end),
        sum(segment.byte_count for segment in segments[first:past_end]),
        _context(segments, first, past_end),
    )


def _of_pieces(
    segments: list[Segment], at: int, pieces: list[Piece], start: int | None, end: int | None
) -> Iterator[Split]:
    segment = segments[at]
    base = segment.log << MARKER_BITS
    high = (segment.log + 1) << MARKER_BITS
    for number, piece in enumerate(pieces):
        low = base if number == 0 else base + piece.marker
        following = base + pieces[number + 1].marker if number < len(pieces) - 1 else high
        # By the index's numbers, with one message more on each side in case they are off.
        if (start is not None and following + 1 < start) or (end is not None and low > end):
            continue
        size = (segment.byte_count if piece.end is None else piece.end) - piece.start
        context = _context(segments, at, at + 1, piece)
        yield Split(
            STREAM,
            base if start is None else max(base, start),
            high if end is None else min(high, end),
            size,
            context if number == 0 else replace(context, previous=None),
        )


def cut_segment(journal: Journal, segment: Segment, piece_bytes: int) -> list[Piece]:
    """Pieces of about ``piece_bytes``. A segment without an index that agrees with the data is one piece, because only
    reading it finds its messages."""
    count = min(max(round(segment.byte_count / piece_bytes), 2), MAX_PIECES)
    whole = [Piece(0, 1, None)]
    try:
        if not journal.storage.exists(index_name(segment.log)):
            return whole
        with (
            journal.storage.open(segment_name(segment.log)) as data,
            journal.storage.open(index_name(segment.log)) as index,
        ):
            framing = journal.framing_of(data, 0, segment.byte_count)
            lookup = _Lookup(index, segment.byte_count, data, framing)
            marks = [(0, 1)]
            for k in range(1, count):
                offset = segment.byte_count * k // count
                if offset > lookup.last:
                    break
                mark = lookup.message_near(offset)
                if mark is not None and mark[0] > marks[-1][0] and mark[1] > marks[-1][1]:
                    marks.append(mark)
    except EverlogError:
        return whole
    ends: list[int | None] = [offset for offset, _ in marks[1:]]
    return [Piece(offset, marker, end) for (offset, marker), end in zip(marks, [*ends, None], strict=True)]


class _Lookup:
    """Finds messages by bisecting an index on disk. ``last`` is where its last message starts."""

    def __init__(self, index: ReadableFile, data_bytes: int, data: ReadableFile, framing: Framing) -> None:
        self._index = index
        self._data = data
        self._framing = framing
        # At most as many entries as the data has room for, without the closing 0 or other zeros at the end.
        most = min(index.size() // ENTRY, data_bytes // framing.header_bytes + 1)
        self._count = bisect_left(range(most), True, lo=min(most, 1), key=lambda number: not self._entry(number))
        self.last = self._entry(self._count - 1) if self._count else 0

    def message_near(self, offset: int) -> tuple[int, int] | None:
        """Offset and number of the first message at or after ``offset``, if the index has it and the previous message
        ends there."""
        number = bisect_left(range(self._count), offset, key=self._entry)
        if number < 1 or number >= self._count:
            return None
        before, there = self._entry(number - 1), self._entry(number)
        if there < offset or before >= offset:
            return None
        header = self._header(before)
        if header is None or header.end != there or self._header(there) is None:
            return None
        return there, number + 1

    def _entry(self, number: int) -> int:
        raw = self._index.read_at(number * ENTRY, ENTRY)
        return int(JlogIndexEntry.unpack_from(raw).offset) if len(raw) == ENTRY else 0

    def _header(self, offset: int) -> Header | None:
        return self._framing.parse(self._data.read_at(offset, self._framing.header_bytes), 0, offset)


def split_times(journal: Journal, splits: list[Split]) -> list[SplitTimes]:
    """The time in the header of each split's first message. The start of a split after a gap is unknown, so that a scan
    of any time range reports the gap."""
    times = from_firsts([_time_at_start(journal, split) for split in splits])
    for number, split in enumerate(splits):
        context: SplitContext = split.context
        if context.previous is not None and context.logs[0] > context.previous + 1:
            times[number] = SplitTimes(None, times[number].last_ns)
    return times


def _time_at_start(journal: Journal, split: Split) -> int | None:
    context: SplitContext = split.context
    offset = 0 if context.piece is None else context.piece.start
    try:
        with journal.storage.open(segment_name(context.logs[0])) as file:
            head = file.read_at(offset, JlogCompressedHeader.size)
    except EverlogError:
        return None
    preferred = journal.preferred
    # Zeros look like a header of 1.x: try that only if the metastore names it.
    others = [framing for framing in KNOWN if framing not in (LEGACY, preferred)]
    for framing in others if preferred is None else [preferred, *others]:
        header = framing.parse(head, 0, offset)
        if header is not None:
            return header.timestamp_us * 1000
    return None
