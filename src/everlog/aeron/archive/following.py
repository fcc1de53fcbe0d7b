"""Follows the recordings of an archive while it writes them.

The catalog lists the recordings and the ends of the stopped ones. Each poll compares all its bytes with those of the
last poll, because the real archive changes it through a memory map, which does not update the file's times. The end of
an active recording is that of its last whole message, found by walking its frames: at first from the start of the last
term that has any, then from the end that the last poll found.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from everlog.aeron.archive.folder.end_marks import MARK_BYTES, EndMarks
from everlog.aeron.archive.folder.recordings import Recording
from everlog.aeron.archive.folder.scan import Scan, ScanContext
from everlog.aeron.archive.format.catalog import CATALOG_NAME
from everlog.aeron.archive.format.catalog_file import CATALOG_STEP_BYTES
from everlog.aeron.archive.format.segments import SegmentReader
from everlog.aeron.archive.store import ArchiveStore
from everlog.aeron.frames import walk_twin as codes
from everlog.aeron.frames.constants import HEADER_LENGTH
from everlog.aeron.frames.position import FOREVER, term_start
from everlog.aeron.positional_following import PositionalFollower
from everlog.core.files.storage import MAX_SMALL_FILE_BYTES, Storage
from everlog.core.following import Cut, CutLimit, StreamExtent
from everlog.core.report import Fault
from everlog.core.splits import Split
from everlog.core.store import DEFAULT_SPLIT_BYTES
from everlog.kernel.columns import RowSink
from everlog.kernel.sources import Value

MAX_SPLITS = 65_536
MAX_RELOADS = 4
MARK_HEADER_BYTES = 8
"""Bytes of a mark before the last message and of that message's header. The rest of a message may be read while it is
still being copied to the page."""
_ROWS = 16_384
_UNBOUNDED = 1 << 62


@dataclass(slots=True)
class _Tail:
    """An active recording: its scan context, the end and the start of its last whole message so far, and ``mark``, the
    bytes there and before. Only cutting the recording changes those bytes."""

    context: ScanContext
    end: int
    last: int
    mark: bytes = b""


class ArchiveFollower(PositionalFollower):
    """See :class:`Follower`. A poll costs a comparison of the catalog, and some 300 bytes read from each active
    recording without news."""

    def __init__(self, storage: Storage, options: Mapping[str, Any]) -> None:
        self._storage = storage
        self._store = ArchiveStore.open(storage, options)
        self._catalog: bytes | None = None  # the first poll reloads it: it may have changed since the store was opened
        self._tails: dict[int, _Tail] = {}
        self._contexts: dict[str, ScanContext] = {}
        self._stopped: dict[str, StreamExtent] | None = None
        self._active: list[Recording] = []
        self._rewritten: set[str] = set()
        self._anew: set[str] = set()
        self._born: dict[int, int | None] = {}
        self._end_marks = EndMarks(storage)

    @property
    def store(self) -> ArchiveStore:
        """The archive, with the catalog that was loaded last."""
        return self._store

    def _read_catalog(self) -> bytes | None:
        if not self._storage.exists(CATALOG_NAME):
            return None
        used = 0 if self._store.folder.catalog is None else self._store.folder.catalog.used
        with self._storage.open(CATALOG_NAME) as file:
            # Zeros follow the used part, very many in old archives; new entries begin there.
            return file.read_at(0, min(file.size(), MAX_SMALL_FILE_BYTES, used + CATALOG_STEP_BYTES))

    def poll(self) -> dict[str, StreamExtent]:
        self._storage.forget()
        catalog = self._read_catalog()
        # Without a catalog, the files show which recordings exist, and are listed at each poll.
        if catalog != self._catalog or catalog is None or self._store.folder.catalog is None:
            self._reload(catalog)
            self._contexts.clear()
            self._stopped = None
        if self._stopped is None:
            self._list()
        assert self._stopped is not None
        found = self._stopped | {str(r.recording_id): self._reach(r) for r in self._active}
        for name in found.keys() & (self._rewritten | self._anew):
            found[name] = replace(found[name], is_rewritten=name in self._rewritten, was_recreated=name in self._anew)
        self._rewritten.clear()
        self._anew.clear()
        return found

    def _reload(self, before: bytes | None) -> None:
        """Load the catalog. If it changed during the load, load it again: only bytes that were the same before and
        after are certain to be those loaded."""
        for _ in range(MAX_RELOADS):
            self._store.folder.reload()
            self._catalog = self._read_catalog()
            if _is_same(before, self._catalog):
                return
            before = self._catalog
        self._catalog = None

    def _list(self) -> None:
        """Read the stopped and active recordings from the loaded catalog."""
        folder = self._store.folder
        self._stopped, self._active = {}, []
        born = {r.recording_id: r.start_timestamp for r in folder.recordings().values() if r.entry is not None}
        self._anew |= {str(i) for i, time in born.items() if self._born.get(i, time) != time}
        self._born = born
        self._rewritten |= set(map(str, self._end_marks.poll(folder, folder.recordings().values())))
        for recording in folder.recordings().values():
            if (recording.is_deleted and not self._store.options.include_all) or folder.is_purged(recording):
                continue
            if recording.is_active:
                self._active.append(recording)
            else:
                assert recording.stop_position is not None
                self._stopped[str(recording.recording_id)] = StreamExtent(
                    recording.start_position, recording.stop_position
                )
                self._is_rewritten(recording)
        active = {recording.recording_id for recording in self._active}
        self._tails = {i: tail for i, tail in self._tails.items() if i in active}

    def _reach(self, recording: Recording) -> StreamExtent:
        """The extent of an active recording."""
        tail = self._tails.get(recording.recording_id)
        if tail is None or self._is_rewritten(recording) or tail.end < recording.start_position:
            context = self._store.folder.scan_context(recording, checksum="none")
            reader = SegmentReader(self._storage, context.segments)
            try:
                begin = self._last_message_start(recording, context, reader)
            finally:
                reader.close()
            tail = self._tails[recording.recording_id] = _Tail(context, begin, begin)
        elif tail.context.segments.start_position != recording.start_position:  # purged since the last poll
            segments = replace(tail.context.segments, start_position=recording.start_position)
            tail.context = replace(tail.context, segments=segments)
        if self._advance(tail) or not tail.mark:
            tail.mark = self._mark(tail)
        return StreamExtent(recording.start_position, tail.end)

    def _mark(self, tail: _Tail) -> bytes:
        """The bytes before the last message, in its segment, and those of its header."""
        begin = max(tail.last - MARK_BYTES, tail.context.segments.base(tail.last))
        reader = SegmentReader(self._storage, tail.context.segments)
        try:
            return reader.read(begin, tail.last - begin + min(MARK_HEADER_BYTES, tail.end - tail.last))
        finally:
            reader.close()

    def _is_rewritten(self, recording: Recording) -> bool:
        """Whether a recording that was active was cut before its last message and then extended. Recorded for this
        poll's result."""
        tail = self._tails.get(recording.recording_id)
        if tail is None or tail.last < recording.start_position or self._mark(tail) == tail.mark:
            return False
        if self._read_catalog() != self._catalog:  # purged at this moment: the next poll sees the new start
            return False
        self._rewritten.add(str(recording.recording_id))
        return True

    def _last_message_start(self, recording: Recording, context: ScanContext, reader: SegmentReader) -> int:
        """The start of the last term that has a frame: no message crosses a term's end."""
        segments = context.segments
        numbers = self._store.folder.segment_index().get(recording.recording_id, [])
        for base in sorted(segments.bases(numbers), reverse=True):
            position = base + segments.segment_length
            while position > max(base, recording.start_position):
                position = max(recording.start_position, term_start(position - 1, segments.term_length))
                if any(reader.read(position, HEADER_LENGTH)):
                    return position
        return recording.start_position

    def _advance(self, tail: _Tail) -> bool:
        """Move ``tail`` to the last whole message from ``tail.end`` on. Returns whether there is one."""
        segments = tail.context.segments
        end = before = tail.end
        while True:
            base = segments.base(end)
            limit = base + segments.segment_length
            reader = SegmentReader(self._storage, segments)
            try:
                # An active recording's segments are zeros from its end on.
                if not any(reader.read(end, 4)):
                    break
                # Live, whichever archive writes it: a torn end may be a write in progress.
                context = replace(tail.context, stop_position=None, last_base=base, is_live=True, frame_start=end)
                reached = _walk(context, reader, end, FOREVER, CutLimit())
            finally:
                reader.close()
            if reached.address > end:
                end, tail.last = reached.address, reached.last
            # Padding may fill the rest of a segment.
            if reached.frames_end < limit or not self._storage.exists(segments.name(limit)):
                break
            end = limit
        tail.end = end
        return end > before

    def cut(self, stream: str, start: int, end: int, limit: CutLimit) -> Cut:
        """See :meth:`Follower.cut`. Reads the frames' headers, and skips whole terms if only bytes are limited, because
        no message crosses a term's end. ``byte_count`` counts the log's bytes, with headers and padding."""
        context = self._context(stream)
        first, stop = start, end
        if limit.byte_count is not None:
            stop = min(end, start + max(limit.byte_count, 1))
            if limit.records is None:
                if stop == end:
                    return Cut(end, 0, end - start)
                first = max(start, term_start(stop, context.geometry.term_length))
        reader = SegmentReader(self._storage, context.segments)
        try:
            bounded = replace(context, stop_position=end, last_base=None, is_live=False, frame_start=first)
            found = _walk(bounded, reader, first, stop, limit)
            if found.count == 0 and first == start and stop < end:  # no message within the limit: take the next one
                found = _walk(bounded, reader, first, end, CutLimit(records=1))
        finally:
            reader.close()
        # Padding after the last message belongs to the part.
        is_all = stop == end and not found.is_full
        address = end if is_all else max(found.address, first)
        if address <= start:
            address = end
        return Cut(address, found.count, address - start)

    def splits(self, stream: str, start: int, end: int, *, split_bytes: int = DEFAULT_SPLIT_BYTES) -> list[Split]:
        """Splits of some terms each. A message belongs to the split in which it begins."""
        context = replace(
            self._context(stream), stop_position=end, last_base=None, is_live=False, frame_start=max(start, 0)
        )
        first = max(start, context.segments.start_position)
        length = context.segments.term_length
        step = max(split_bytes // length, 1, (end - first) // (length * MAX_SPLITS)) * length
        found = []
        while first < end:
            after = min(term_start(first, length) + step, end)
            found.append(Split(stream, first, after, after - first, context))
            first = after
        return found

    def _context(self, stream: str) -> ScanContext:
        """The scan context of a recording, with its checksum. Once frames have shown the checksum, it is valid until
        the recording stops or is extended, which changes the catalog."""
        context = self._contexts.get(stream)
        if context is None:
            recording = self._store.folder.recording(stream)
            context = self._contexts[stream] = self._store.folder.scan_context(recording)
        return context

    def is_complete(self, stream: str, address: int) -> bool:
        """See :meth:`Follower.is_complete`. The catalog keeps the end of a deleted recording."""
        if not stream.isdecimal():
            return False
        recording = self._store.folder.recordings().get(int(stream))
        return recording is not None and recording.stop_position is not None and address >= recording.stop_position

    def align(self, stream: str, address: int, extent: StreamExtent) -> int:
        """The position of the first message from ``address`` on, found from the start of its term."""
        if address <= extent.first or address >= extent.end:
            return min(max(address, extent.first), extent.end)
        context = replace(self._context(stream), stop_position=extent.end, last_base=None, is_live=False)
        reader = SegmentReader(self._storage, context.segments)
        sink = RowSink([("position", "q", Value(codes.POSITION))], 1, _UNBOUNDED)
        try:
            for _ in Scan(context, reader, sink, _pass, True, address, FOREVER).run():
                if sink.row_count:
                    return int(sink.take()[1]["position"][0][0])
        finally:
            reader.close()
        return extent.end

    def close(self) -> None:
        """Close the archive."""
        self._store.close()


def _is_same(one: bytes | None, other: bytes | None) -> bool:
    """Whether two readings of a catalog have the same entries; one may have more zeros after them."""
    if one is None or other is None:
        return one is other
    length = min(len(one), len(other))
    return one[:length] == other[:length] and not one[length:].strip(b"\0") and not other[length:].strip(b"\0")


@dataclass(frozen=True, slots=True)
class _Walked:
    """What a walk found: ``count`` messages, the last of which begins at ``last`` and ends at ``address`` (-1 if there
    is none). ``frames_end`` is the end of the last frame seen; ``is_full``: more messages follow than the limit allows.
    """

    address: int
    last: int
    frames_end: int
    count: int
    is_full: bool


def _walk(context: ScanContext, reader: SegmentReader, first: int, stop: int, limit: CutLimit) -> _Walked:
    """Walk the messages that begin at ``first <= position < stop``."""
    rows = _ROWS if limit.records is None else min(limit.records, _ROWS)
    columns = [("position", "q", Value(codes.POSITION)), ("end_position", "q", Value(codes.END_POSITION))]
    sink = RowSink(columns, rows, _UNBOUNDED)
    scan = Scan(context, reader, sink, _pass, True, first, stop)
    address, last, count = -1, -1, 0
    for _ in scan.run():
        rows_here = sink.row_count
        if rows_here:
            _, taken = sink.take()
            room = rows_here if limit.records is None else min(rows_here, limit.records - count)
            address, last = (int(taken[name][0][room - 1]) for name in ("end_position", "position"))
            count += room
        if limit.records is not None and count >= limit.records:
            return _Walked(address, last, scan.end_position, count, True)
    return _Walked(address, last, scan.end_position, count, False)


def _pass(fault: Fault) -> None:
    """Ignore damage: readers report it."""
