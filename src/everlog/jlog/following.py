"""Following a journal that others write.

A look costs the size of the segment that is written and whether there is a next one; where it grew, a walk over what is
new, and where there is a next one, a list of the folder. A message at the end that is not whole yet is left to a later
look: writers append in order, and the file's size grows with what was written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from everlog.core.columns import MAX_BATCH_BYTES
from everlog.core.following import Cut, CutLimit, Follower, Reach, cut_by_scan
from everlog.core.report import Fault
from everlog.core.storage import LocalStorage, Storage
from everlog.core.store import DEFAULT_SPLIT_BYTES, Split
from everlog.core.writable import LocalWritableStorage
from everlog.errors import StoreUnavailable, UsageError
from everlog.jlog.addresses import MARKER_BITS
from everlog.jlog.faults import STREAM
from everlog.jlog.framing import Framing
from everlog.jlog.index import read_index
from everlog.jlog.journal import SOURCES, Journal
from everlog.jlog.metastore import read_metastore
from everlog.jlog.names import segment_name
from everlog.jlog.recovery import SegmentData
from everlog.jlog.segments import Segment, SegmentReader, list_segments
from everlog.jlog.store import JlogStore
from everlog.kernel.columns import RowSink

_ROWS = 65_536
QUIET_S = 60.0
"""A segment that nobody wrote for so long is finished, once another follows."""
MAX_WRITTEN = 16
"""So many of the last segments may still be written."""
LISTING_EVERY = 64
"""So many looks at most go without a list of the folder: the first segments may have been deleted meanwhile."""


@dataclass(slots=True)
class _Tail:
    """The segment that is written: message ``marker`` begins at ``at``, when there is one; ``size`` is what the file
    had when that was found."""

    log: int
    at: int = 0
    marker: int = 1
    size: int = -1
    framing: Framing | None = None


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

    def look(self) -> dict[str, Reach]:
        """See :meth:`Follower.look`."""
        tail = self._tail
        if tail is None or self._unlisted >= LISTING_EVERY:
            return self._listed()
        try:
            size = self._storage.size(segment_name(tail.log))
        except StoreUnavailable:  # deleted: who cleans a journal may delete the last segment, too
            return self._listed()
        if self._storage.exists(segment_name(tail.log + 1)) and self._is_left(tail.log, size):
            return self._listed()
        self._unlisted += 1
        if size != tail.size:
            self._follow(tail)
        return self._reaches(tail)

    def _listed(self) -> dict[str, Reach]:
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
        at = len(segments) - 1
        for earlier in range(at - 1, max(at - MAX_WRITTEN, -1), -1):
            if self._tail is not None and segments[earlier].log < self._tail.log:
                break
            if not self._is_left(segments[earlier].log, segments[earlier].byte_count):
                at = earlier
        return segments[at]

    def _is_left(self, log: int, size: int) -> bool:
        """Whether nobody appends any more to a segment that is followed by another one. At the limit nobody does. Below
        it a writer of the C library may: of two that finish segments at the same time, one can skip a number, and the
        other goes on in the segment with that one. An empty segment behind it may be of a writer that died before the
        metastore said so."""
        metastore = read_metastore(self._storage)
        following = segment_name(log + 1)
        if (metastore.storage_log or 0) <= log and self._storage.exists(following):
            try:
                if not self._storage.size(following):
                    return False
            except StoreUnavailable:
                return False
        if metastore.unit_limit is not None and size >= metastore.unit_limit:
            return True
        # Asks the system who has the file open; writes nothing.
        is_local = isinstance(self._storage, LocalStorage)
        return not (is_local and LocalWritableStorage(self._storage.root).may_be_written(segment_name(log), QUIET_S))

    def _reaches(self, tail: _Tail) -> dict[str, Reach]:
        assert self._first is not None
        return {STREAM: Reach(self._first << MARKER_BITS | 1, tail.log << MARKER_BITS | tail.marker)}

    def _follow(self, tail: _Tail) -> None:
        """Walk over what is new of the segment that is written."""
        with self._storage.open(segment_name(tail.log)) as file:
            size = file.size()
            if size < tail.at:  # a repair cut it
                tail.at, tail.marker = 0, 1
            if tail.framing is None or tail.at == 0:
                tail.framing = Journal.read(self._storage).framing_of(file, 0, size)
                self._begin(tail, SegmentData(file, 0, size), size)
            sink = RowSink([("marker", "q", SOURCES["marker"])], _ROWS, MAX_BATCH_BYTES)
            reader = SegmentReader(
                file, tail.log, 0, size, tail.framing, sink, _pass, marker=tail.marker, at=tail.at, is_live=True
            )
            for _ in reader.fill():
                sink.reset()
        tail.at, tail.marker, tail.size, tail.framing = reader.at, reader.marker, size, reader.framing

    def _begin(self, tail: _Tail, data: SegmentData, size: int) -> None:
        """Behind the last message that the index has, if that is sound, else at the segment's beginning."""
        assert tail.framing is not None
        index = read_index(self._storage, tail.log, size, tail.framing.header_bytes)
        if index.is_sound and index.good:
            header = data.header(index.entries[index.good - 1], tail.framing)
            if header is not None and header.end <= size:
                tail.at, tail.marker = header.end, index.good + 1

    def cut(self, stream: str, start: int, end: int, limit: CutLimit) -> Cut:
        """By a walk over what is given, and one message more; an index, where there is one, tells where to begin."""
        return cut_by_scan(self._store, Split(stream, start, end, 0), limit)

    def splits(self, stream: str, start: int, end: int, *, split_bytes: int = DEFAULT_SPLIT_BYTES) -> list[Split]:
        """Runs of segments."""
        return self._store.splits(stream, start=start, end=end, split_bytes=split_bytes)

    def restart(self, address: int, reach: Reach) -> int:
        """Where the last segment was cut by a repair, what is left of it was read; else the journal was made anew."""
        return reach.end if address >> MARKER_BITS == reach.end >> MARKER_BITS else reach.first

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


def _pass(fault: Fault) -> None:
    """Damage is told by those who read."""
