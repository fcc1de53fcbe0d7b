"""Following a journal that others write.

A look costs the size of the segment that is written and whether there is a next one; where it grew, a walk over what is
new, and where there is a next one, a list of the folder. A message at the end that is not whole yet is left to a later
look: writers append in order, and the file's size grows with what was written.
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
from everlog.jlog.reading.growth import is_left, is_locked, written_below
from everlog.jlog.reading.journal import SOURCES, Journal
from everlog.jlog.reading.recovery import SegmentData
from everlog.jlog.reading.segments import Segment, SegmentReader, list_segments
from everlog.jlog.store import JlogStore
from everlog.kernel.columns import RowSink

MARK_BYTES = 256
"""A mark has so much before the last message, and its header: the rest of a message may be seen while it is being
copied to the page."""
HEAD_BYTES = 64
"""A segment made anew begins otherwise: its first message has another time."""
_ROWS = 65_536
LISTING_EVERY = 64
"""So many looks at most go without a list of the folder: the first segments may have been deleted meanwhile."""


@dataclass(slots=True)
class _Tail:
    """The segment that is written: message ``marker`` begins at ``at``, when there is one; ``size`` is what the file
    had when that was found. The message before it begins at ``last``, and ``mark`` is what was there and before: nobody
    changes that, but who cuts the segment. ``head`` is what the segment begins with."""

    log: int
    at: int = 0
    marker: int = 1
    size: int = -1
    framing: Framing | None = None
    last: int = 0
    mark: bytes = b""
    head: bytes = b""


class JournalFollower(Follower):
    """See :class:`Follower`; the stream is ``journal``."""

    def __init__(self, storage: Storage, options: Mapping[str, Any]) -> None:
        self._storage = storage
        self._store = JlogStore.open(storage, options)
        if self._store.options.pre_commit:
            raise UsageError(
                "pre_commit",
                found="True",
                expected="False: what waits in the buffer has no lasting address yet",
            )
        self._tail: _Tail | None = None
        self._first: int | None = None
        self._unlisted = 0
        self._is_rewritten = self._is_anew = self._has_looked = False

    def poll(self) -> dict[str, StreamExtent]:
        """See :meth:`Follower.poll`."""
        self._storage.forget()
        tail = self._tail
        if tail is None or self._unlisted >= LISTING_EVERY:
            return self._listed()
        try:
            size = self._storage.size(segment_name(tail.log))
        except StoreUnavailable:  # deleted: who cleans a journal may delete the last segment, too
            return self._listed()
        if self._storage.exists(segment_name(tail.log + 1)) and is_left(self._storage, tail.log, size):
            return self._listed()
        self._unlisted += 1
        if size != tail.size:
            self._follow(tail)
        return self._reaches(tail)

    def _listed(self) -> dict[str, StreamExtent]:
        self._unlisted = 0
        segments = list_segments(self._storage.entries())
        if not segments:
            # The next segment is the one that the metastore names.
            log = read_metastore(self._storage).storage_log or 0
            self._first, self._tail = log, _Tail(log)
            return self._reaches(self._tail)
        self._first = segments[0].log
        written = self._written(segments)
        tail = self._tail
        if tail is None or tail.log != written.log:
            tail = self._tail = _Tail(written.log)
        if written.byte_count != tail.size:
            self._follow(tail)
        return self._reaches(tail)

    def _written(self, segments: list[Segment]) -> Segment:
        """The first of the last segments to which a writer may append; messages behind it wait, for they would be given
        before those that are still to come."""
        least = 0 if self._tail is None else self._tail.log
        return next(iter(written_below(self._storage, segments, least)), segments[-1])

    def _reaches(self, tail: _Tail) -> dict[str, StreamExtent]:
        assert self._first is not None
        end = tail.log << MARKER_BITS | tail.marker
        self._has_looked = True
        found = StreamExtent(
            self._first << MARKER_BITS | 1, end, is_rewritten=self._is_rewritten, was_recreated=self._is_anew
        )
        self._is_rewritten = self._is_anew = False
        return {STREAM: found}

    def _follow(self, tail: _Tail) -> None:
        """Walk over what is new of the segment that is written."""
        with self._storage.open(segment_name(tail.log)) as file:
            size = file.size()
            is_cut = size < tail.at or _mark(file, tail) != tail.mark
            if is_cut:
                self._is_anew = file.read_at(0, len(tail.head)) != tail.head
                self._is_rewritten = size >= tail.at  # a repair cut it, and it has grown since
                tail.at, tail.marker = 0, 1
            if tail.framing is None or tail.at == 0:
                tail.framing = Journal.read(self._storage).framing_of(file, 0, size)
                self._begin(tail, SegmentData(file, 0, size), size)
            sink = RowSink([("offset", "q", SOURCES["offset"])], _ROWS, MAX_BATCH_BYTES)
            reader = SegmentReader(
                file, tail.log, 0, size, tail.framing, sink, _pass, marker=tail.marker, at=tail.at, is_live=True
            )
            # The first look takes a journal as it is: nobody may write there any more.
            reader.waits, reader.is_locked = self._has_looked, lambda: is_locked(self._storage, tail.log)
            for _ in itertools.chain(reader.fill(), (None,)):  # the last rows come without a call to take them
                if sink.row_count:
                    count, taken = sink.take()
                    tail.last = int(taken["offset"][0][count - 1])
            tail.at, tail.marker, tail.size, tail.framing = reader.at, reader.marker, size, reader.framing
            tail.mark, tail.head = _mark(file, tail), file.read_at(0, min(HEAD_BYTES, tail.at))

    def _begin(self, tail: _Tail, data: SegmentData, size: int) -> None:
        """Behind the last message that the index has, if that is sound, else at the segment's beginning."""
        assert tail.framing is not None
        index = read_index(self._storage, tail.log, size, tail.framing.header_bytes)
        if index.is_sound and index.good:
            header = data.header(index.entries[index.good - 1], tail.framing)
            if header is not None and header.end <= size:
                tail.at, tail.marker, tail.last = header.end, index.good + 1, index.entries[index.good - 1]

    def cut(self, stream: str, start: int, end: int, limit: CutLimit) -> Cut:
        """By a walk over what is given, and one message more; an index, where there is one, tells where to begin."""
        return cut_by_scan(self._store, Split(stream, start, end, 0), limit)

    def splits(self, stream: str, start: int, end: int, *, split_bytes: int = DEFAULT_SPLIT_BYTES) -> list[Split]:
        """Runs of segments."""
        return self._store.splits(stream, start=start, end=end, split_bytes=split_bytes)

    def restart(self, address: int, extent: StreamExtent) -> int:
        """Where the last segment was cut by a repair, what is left of it was read; else the journal was made anew."""
        return extent.end if address >> MARKER_BITS == extent.end >> MARKER_BITS else extent.first

    def byte_count(self, stream: str, start: int, end: int) -> int | None:
        """Known within one segment only by its index, which may be missing: not told."""
        return 0 if start >= end else None

    def record_count(self, stream: str, start: int, end: int) -> int | None:
        """Within one segment messages are numbered."""
        is_one = start >> MARKER_BITS == end >> MARKER_BITS
        return max(end - start, 0) if is_one or start >= end else None

    def parse_address(self, text: str) -> int:
        """``00000005:00000003``."""
        return int(self._store.parse_address(text))

    def format_address(self, address: int) -> str:
        """``00000005:00000003``."""
        return self._store.format_address(address)

    def close(self) -> None:
        """Close the store."""
        self._store.close()


def _mark(file: ReadableFile, tail: _Tail) -> bytes:
    """What is at the last message's beginning and before it; nothing where there is none."""
    if tail.framing is None or not tail.at:
        return b""
    begin = max(tail.last - MARK_BYTES, 0)
    return bytes(file.read_at(begin, tail.last + tail.framing.header_bytes - begin))


def _pass(fault: Fault) -> None:
    """Damage is told by those who read."""
