"""Follows a growing journal.

A poll reads the size of the current segment and checks whether a next one exists. If the segment grew, it walks the new
part; if there is a next segment, it lists the folder. An incomplete message at the end is left for a later poll:
writers append in order, and the file grows with what they write.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from everlog.core.columns import MAX_BATCH_BYTES
from everlog.core.files.storage import ReadableFile, Storage
from everlog.core.following import Cut, CutLimit, Follower, StreamExtent, cut_by_scan
from everlog.core.report import Fault
from everlog.core.splits import Split
from everlog.core.store import DEFAULT_SPLIT_BYTES
from everlog.errors import StoreUnavailable, UsageError
from everlog.jlog.format.addresses import MARKER_BITS
from everlog.jlog.format.faults import STREAM
from everlog.jlog.format.framing import Framing
from everlog.jlog.format.index import read_index
from everlog.jlog.format.metastore import read_metastore
from everlog.jlog.format.names import segment_name
from everlog.jlog.reading.growth import growing_segments, is_finished, is_locked
from everlog.jlog.reading.journal import SOURCES, Journal
from everlog.jlog.reading.recovery import SegmentData
from everlog.jlog.reading.segments import Segment, SegmentReader, list_segments
from everlog.jlog.store import JlogStore
from everlog.kernel.columns import RowSink

MARK_BYTES = 256
"""A tail mark holds this many bytes before the last message, and its header. Its payload is excluded, because it may be
seen while it is still being copied to the page."""
HEAD_BYTES = 64
"""A recreated segment starts differently, because its first message has another time."""
_ROWS = 65_536
LISTING_EVERY = 64
"""Maximum number of polls without listing the folder, since the first segments may have been deleted."""


@dataclass(slots=True)
class _Tail:
    """The current segment: the next message, ``marker``, starts at ``at``, found when the file had ``size`` bytes. The
    message before it starts at ``last``. ``mark`` holds the bytes up to and including its header, which change only if
    the segment is cut; ``head`` holds the first bytes of the segment."""

    log: int
    at: int = 0
    marker: int = 1
    size: int = -1
    framing: Framing | None = None
    last: int = 0
    mark: bytes = b""
    head: bytes = b""


class JournalFollower(Follower):
    """See :class:`Follower`. The only stream is ``journal``."""

    def __init__(self, storage: Storage, options: Mapping[str, Any]) -> None:
        self._storage = storage
        self._store = JlogStore.open(storage, options)
        if self._store.options.pre_commit:
            raise UsageError(
                "pre_commit",
                found="True",
                expected="False when following",
                hint="messages in the buffer have no final address",
            )
        self._tail: _Tail | None = None
        self._first: int | None = None
        self._polls_since_listing = 0
        self._is_rewritten = self._was_recreated = self._has_polled = False

    def poll(self) -> dict[str, StreamExtent]:
        self._storage.forget()
        tail = self._tail
        if tail is None or self._polls_since_listing >= LISTING_EVERY:
            return self._poll_listing()
        try:
            size = self._storage.size(segment_name(tail.log))
        except StoreUnavailable:  # deleted: cleaning may delete even the last segment
            return self._poll_listing()
        if self._storage.exists(segment_name(tail.log + 1)) and is_finished(self._storage, tail.log, size):
            return self._poll_listing()
        self._polls_since_listing += 1
        if size != tail.size:
            self._walk_new(tail)
        return self._extents(tail)

    def _poll_listing(self) -> dict[str, StreamExtent]:
        self._polls_since_listing = 0
        segments = list_segments(self._storage.entries())
        if not segments:
            # The metastore names the next segment.
            log = read_metastore(self._storage).storage_log or 0
            self._first, self._tail = log, _Tail(log)
            return self._extents(self._tail)
        self._first = segments[0].log
        written = self._growing_segment(segments)
        tail = self._tail
        if tail is None or tail.log != written.log:
            tail = self._tail = _Tail(written.log)
        if written.byte_count != tail.size:
            self._walk_new(tail)
        return self._extents(tail)

    def _growing_segment(self, segments: list[Segment]) -> Segment:
        """The first of the last segments that may still grow. Messages after it wait, because they would overtake those
        to come."""
        least = 0 if self._tail is None else self._tail.log
        return next(iter(growing_segments(self._storage, segments, least)), segments[-1])

    def _extents(self, tail: _Tail) -> dict[str, StreamExtent]:
        assert self._first is not None
        end = tail.log << MARKER_BITS | tail.marker
        self._has_polled = True
        found = StreamExtent(
            self._first << MARKER_BITS | 1, end, is_rewritten=self._is_rewritten, was_recreated=self._was_recreated
        )
        self._is_rewritten = self._was_recreated = False
        return {STREAM: found}

    def _walk_new(self, tail: _Tail) -> None:
        """Walk the new part of the current segment."""
        with self._storage.open(segment_name(tail.log)) as file:
            size = file.size()
            is_cut = size < tail.at or _mark(file, tail) != tail.mark
            if is_cut:
                self._was_recreated = file.read_at(0, len(tail.head)) != tail.head
                self._is_rewritten = size >= tail.at  # a repair cut it, and it has grown since
                tail.at, tail.marker = 0, 1
            if tail.framing is None or tail.at == 0:
                tail.framing = Journal.read(self._storage).framing_of(file, 0, size)
                self._start_from_index(tail, SegmentData(file, 0, size), size)
            sink = RowSink([("offset", "q", SOURCES["offset"])], _ROWS, MAX_BATCH_BYTES)
            reader = SegmentReader(
                file, tail.log, 0, size, tail.framing, sink, _ignore, marker=tail.marker, at=tail.at, is_live=True
            )
            # The first poll doesn't wait, because the journal may have no writer any more.
            reader.waits, reader.is_locked = self._has_polled, lambda: is_locked(self._storage, tail.log)
            for _ in itertools.chain(reader.fill(), (None,)):  # the last rows come without a yield
                if sink.row_count:
                    count, taken = sink.take()
                    tail.last = int(taken["offset"][0][count - 1])
            tail.at, tail.marker, tail.size, tail.framing = reader.at, reader.marker, size, reader.framing
            tail.mark, tail.head = _mark(file, tail), file.read_at(0, min(HEAD_BYTES, tail.at))

    def _start_from_index(self, tail: _Tail, data: SegmentData, size: int) -> None:
        """Start after the last message in the index if that is sound, else at the segment's beginning."""
        assert tail.framing is not None
        index = read_index(self._storage, tail.log, size, tail.framing.header_bytes)
        if index.is_sound and index.good:
            header = data.header(index.entries[index.good - 1], tail.framing)
            if header is not None and header.end <= size:
                tail.at, tail.marker, tail.last = header.end, index.good + 1, index.entries[index.good - 1]

    def cut(self, stream: str, start: int, end: int, limit: CutLimit) -> Cut:
        """Walks the given range and one more message; an index, if present, gives the start."""
        return cut_by_scan(self._store, Split(stream, start, end, 0), limit)

    def splits(self, stream: str, start: int, end: int, *, split_bytes: int = DEFAULT_SPLIT_BYTES) -> list[Split]:
        """Runs of segments."""
        return self._store.splits(stream, start=start, end=end, split_bytes=split_bytes)

    def restart(self, address: int, extent: StreamExtent) -> int:
        """If a repair cut the last segment, its remaining messages were already read; otherwise the journal was
        recreated."""
        return extent.end if address >> MARKER_BITS == extent.end >> MARKER_BITS else extent.first

    def byte_count(self, stream: str, start: int, end: int) -> int | None:
        """Unknown unless the range is empty: only an index, which may be missing, gives offsets within a segment."""
        return 0 if start >= end else None

    def record_count(self, stream: str, start: int, end: int) -> int | None:
        """Known within one segment, whose messages are numbered."""
        is_one = start >> MARKER_BITS == end >> MARKER_BITS
        return max(end - start, 0) if is_one or start >= end else None

    def parse_address(self, text: str) -> int:
        """Parse ``00000005:00000003``."""
        return int(self._store.parse_address(text))

    def format_address(self, address: int) -> str:
        """Format as ``00000005:00000003``."""
        return self._store.format_address(address)

    def close(self) -> None:
        """Close the store."""
        self._store.close()


def _mark(file: ReadableFile, tail: _Tail) -> bytes:
    """The bytes before the last message, and its header; empty if there is none."""
    if tail.framing is None or not tail.at:
        return b""
    begin = max(tail.last - MARK_BYTES, 0)
    return bytes(file.read_at(begin, tail.last + tail.framing.header_bytes - begin))


def _ignore(fault: Fault) -> None:
    """Readers report damage; following does not."""
