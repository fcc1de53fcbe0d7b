"""Examines a damaged segment for its repair: which stretches to cut out, and where checkpoints continue after them.

It walks the segment as reading does, so everything readable is kept.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from everlog.core.batch import Batch
from everlog.core.columns import MAX_BATCH_BYTES, MAX_BATCH_ROWS, ColumnData
from everlog.core.files.storage import FileBase, ReadableFile
from everlog.core.report import Fault
from everlog.errors import FileChanged
from everlog.jlog.format.compression import NEEDED, decompress, lz4_decoder
from everlog.jlog.format.framing import KNOWN, LEGACY, Framing, Provider
from everlog.jlog.format.index import SegmentIndex
from everlog.jlog.reading.journal import COLUMNS, MARKER, OFFSET, SOURCES
from everlog.jlog.reading.recovery import SegmentData, find_message
from everlog.jlog.reading.segments import SegmentReader, no_index
from everlog.kernel.columns import RowSink

ONE_MESSAGE = frozenset({"torn-record", "merged-records", "torn-header", "undecodable-payload"})
"""Damage that affects a single message; other stretches held an unknown number of messages."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """Bytes ``start <= offset < end`` of a segment that are no message; ``code`` is the fault's."""

    start: int
    end: int
    code: str

    def __str__(self) -> str:
        return f"{self.end - self.start} bytes at offset {self.start} ({self.code})"


@dataclass(frozen=True, slots=True)
class SegmentState:
    """The result of a walk over a segment: its whole messages, the damage between and after them, and whether any
    message has the header of version 1.x."""

    log: int
    size: int
    message_count: int
    stretches: tuple[Stretch, ...]
    has_legacy: bool

    @property
    def kept(self) -> list[tuple[int, int]]:
        """The byte ranges of whole messages."""
        found, at = [], 0
        for stretch in (*self.stretches, Stretch(self.size, self.size, "")):
            if stretch.start > at:
                found.append((at, stretch.start))
            at = max(at, stretch.end)
        return found

    @property
    def kept_bytes(self) -> int:
        """How many bytes are kept."""
        return sum(end - start for start, end in self.kept)

    @property
    def is_tail_only(self) -> bool:
        """Whether all damage follows the last message."""
        return all(start == 0 for start, _ in self.kept)

    @property
    def holds_unknown_only(self) -> bool:
        """Whether the segment has data without any message, not even a torn one: it may have another framing."""
        return self.message_count == 0 and any(stretch.code == "damaged-bytes" for stretch in self.stretches)


class KeptBytes(FileBase):
    """A view of a file that has only the kept parts."""

    def __init__(self, file: ReadableFile, kept: Iterable[tuple[int, int]]) -> None:
        self.name = file.name
        self._file = file
        self._starts: list[int] = []
        self._parts: list[tuple[int, int]] = []
        self._size = 0
        for start, end in kept:
            self._starts.append(self._size)
            self._parts.append((start, end))
            self._size += end - start

    def size(self) -> int:
        """Bytes that are kept."""
        return self._size

    def place_of(self, offset: int) -> int:
        """Return the offset in the view of a kept byte of the file."""
        at = bisect_right(self._parts, (offset, 1 << 62)) - 1
        return self._starts[at] + offset - self._parts[at][0]

    def read_at(self, offset: int, length: int) -> bytes:
        """Return up to ``length`` bytes from ``offset`` on."""
        pieces: list[bytes] = []
        at = bisect_right(self._starts, offset) - 1
        while length > 0 and 0 <= at < len(self._parts):
            start, end = self._parts[at]
            begin = start + offset - self._starts[at]
            piece = self._file.read_at(begin, min(length, end - begin))
            if not piece:
                break
            pieces.append(piece)
            offset, length, at = offset + len(piece), length - len(piece), at + 1
        return b"".join(pieces)

    def read_into(self, offset: int, buffer: memoryview) -> int:
        """Fill ``buffer``; return the byte count."""
        data = self.read_at(offset, len(buffer))
        buffer[: len(data)] = data
        return len(data)


class Listener(Protocol):
    """Receives a segment's messages and damage, in order."""

    def messages(self, markers: Sequence[int], offsets: Sequence[int]) -> None:
        """Receive whole messages."""

    def lost(self, *, is_counted: bool) -> None:
        """Receive damage; ``is_counted``: message numbers after it are still right."""


class Renumbering:
    """Computes where a segment's checkpoints continue after its damage is cut out, since checkpoints count messages.

    A checkpoint continues with the same message as before. If that is unknown, because a damaged stretch before it held
    an unknown number of messages, it continues directly after that stretch.
    """

    def __init__(self, markers: Iterable[int], index: SegmentIndex) -> None:
        self._offsets = {marker: index.offset_of(marker) for marker in markers}
        self._by_marker = _Counts(self._offsets)
        self._by_offset = _Counts(offset for offset in self._offsets.values() if offset is not None)
        self._sure_count: int | None = None

    def messages(self, markers: Sequence[int], offsets: Sequence[int]) -> None:
        """Count messages up to each checkpoint."""
        self._by_marker.add(markers)
        self._by_offset.add(offsets)

    def lost(self, *, is_counted: bool) -> None:
        """Note the first damage after which message numbers are uncertain."""
        if self._sure_count is None and not is_counted:
            self._sure_count = self._by_marker.total

    def place_of(self, marker: int) -> int:
        """Return the number of messages after which the checkpoint continues."""
        count, offset = self._by_marker.up_to(marker), self._offsets[marker]
        if offset is not None:
            return min(count, self._by_offset.up_to(offset))
        return count if self._sure_count is None else min(count, self._sure_count)

    def repeats(self, marker: int) -> int:
        """Return how many messages the subscriber may get again."""
        return self._by_marker.up_to(marker) - self.place_of(marker)


class _Counts:
    """Counts, for each of some bounds, how many of the rising numbers given in parts do not exceed it."""

    def __init__(self, bounds: Iterable[int]) -> None:
        self.total = 0
        self._open = sorted(set(bounds), reverse=True)
        self._passed: dict[int, int] = {}

    def add(self, numbers: Sequence[int]) -> None:
        """Add the next part, which must not be empty."""
        while self._open and self._open[-1] < numbers[-1]:
            bound = self._open.pop()
            self._passed[bound] = self.total + bisect_right(numbers, bound)
        self.total += len(numbers)

    def up_to(self, bound: int) -> int:
        """Return how many numbers did not exceed ``bound``, one of the bounds."""
        return self._passed.get(bound, self.total)


class _Scan:
    """One walk; see :func:`scan`."""

    def __init__(self, log: int, size: int, index: SegmentIndex, listener: Listener | None) -> None:
        self.log, self.size, self.index, self.listener = log, size, index, listener
        self.count = 0
        self.stretches: list[Stretch] = []
        self.open: list[tuple[int, str]] = []

    def on_fault(self, fault: Fault) -> None:
        if fault.code == "segment-cut-while-read" or fault.offset is None:
            raise FileChanged(fault.file, offset=fault.offset, found=fault.found, expected=fault.expected)
        self.open.append((fault.offset, fault.code))

    def close(self, end: int) -> None:
        """Close open damage at the start of the next message or at the end of the data."""
        if not self.open:
            return
        is_counted = self.index.marker_at(end) is not None or all(code in ONE_MESSAGE for _, code in self.open)
        for (start, code), stop in zip(self.open, [*(at for at, _ in self.open[1:]), end], strict=True):
            self.stretches.append(Stretch(start, stop, code))
        self.open.clear()
        if self.listener is not None:
            self.listener.lost(is_counted=is_counted)

    def take(self, reader: SegmentReader) -> None:
        count, taken = reader.sink.take()
        if not count:
            return
        schema = tuple(c for c in COLUMNS if c.name in taken)
        batch = Batch(schema, count, {c.name: ColumnData(c.type, *taken[c.name]) for c in schema})
        self.close(batch.column("offset").values[0])
        if reader.framing.provider is Provider.LZ4:
            self._decode(batch, reader)
        else:
            self._report(batch)

    def _decode(self, batch: Batch, reader: SegmentReader) -> None:
        data = SegmentData(reader.file, 0, self.size)
        undecodable: list[Fault] = []
        for part in decompress(batch, (MARKER, OFFSET), lz4_decoder(), MAX_BATCH_BYTES, undecodable.append):
            self._report(part)
        for fault in undecodable:
            assert fault.offset is not None
            header = data.header(fault.offset, reader.framing)
            assert header is not None
            self.stretches.append(Stretch(fault.offset, header.end, fault.code))

    def _report(self, batch: Batch) -> None:
        self.count += batch.row_count
        if self.listener is not None:
            rows = batch.row_count
            self.listener.messages(batch.column("marker").values[:rows], batch.column("offset").values[:rows])


def scan(
    file: ReadableFile,
    log: int,
    framing: Framing,
    index: SegmentIndex | None = None,
    listener: Listener | None = None,
) -> SegmentState:
    """Walk over a segment that no process writes. Raises :class:`FileChanged` if it is cut during the walk."""
    size = file.size()
    index = index or no_index()
    walk = _Scan(log, size, index, listener)
    is_lz4 = framing.provider is Provider.LZ4
    wanted = NEEDED if is_lz4 else ("marker", "offset")
    sink = RowSink(
        [(c.name, c.type.code, SOURCES[c.name]) for c in COLUMNS if c.name in wanted], MAX_BATCH_ROWS, MAX_BATCH_BYTES
    )
    changes: list[Fault] = []
    reader = SegmentReader(file, log, 0, size, framing, sink, walk.on_fault, changes.append, lambda: index)
    for _ in reader.fill():
        walk.take(reader)
    walk.take(reader)
    walk.close(size)
    has_legacy = size > 0 and (framing == LEGACY or bool(changes))
    stretches = tuple(sorted(walk.stretches, key=lambda stretch: stretch.start))
    return SegmentState(log, size, walk.count, stretches, has_legacy)


def stays_readable(file: ReadableFile, state: SegmentState, framing: Framing) -> bool:
    """Whether the kept parts read as before: the same number of messages, and no damage."""
    after = scan(KeptBytes(file, state.kept), state.log, framing)
    return after.message_count == state.message_count and not after.stretches


def holds_other_messages(file: ReadableFile, state: SegmentState, framing: Framing) -> bool:
    """Whether a damaged stretch has messages of another framing, as after a program wrote plain messages to a
    compressed journal: everlog does not read them there, but must not cut them out."""
    others = [other for other in KNOWN if other != LEGACY and other.provider is not framing.provider]
    return any(
        find_message(SegmentData(file, stretch.start, stretch.end), stretch.start, other, no_index()) is not None
        for stretch in state.stretches
        for other in others
    )
