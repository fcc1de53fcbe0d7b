"""A slice's index: whether it is good, and lookups in it.

Good means more than at the server's start: every record of it has a right checksum, sequences and offsets rise,
records do not overlap, and the last message is where and what it says. The last check is made with the checksum even
where checksums are not asked for, as the server does. Memory is bounded whatever the index's size."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from everlog.core.files.storage import ReadableFile
from everlog.kernel.crc32 import Crc32
from everlog.nats_streaming.format.blocks import BlockReader
from everlog.nats_streaming.format.layouts import SUPPORTED_VERSION, FileVersion, IndexRecord
from everlog.nats_streaming.reading.slices import Extent
from everlog.nats_streaming.reading.walk import IndexWalker
from everlog.nats_streaming.reading.walk_status import BAD_CRC, BREAK, MORE, OUT_OF_ORDER, TOO_LARGE, ZEROS

CHUNK_BYTES = 32 * 16_384
MAX_EXTENTS = 16_384
"""An index with more holes between its records than this is not used."""

_FIRST = FileVersion.size
_ENTRY = IndexRecord.size


@dataclass(frozen=True, slots=True)
class IndexProblem:
    """Why an index is not good: a fault's code, where in the index, and what is wrong."""

    code: str
    offset: int
    found: str
    expected: str


@dataclass(slots=True)
class IndexFold:
    """What an index says in sum. ``end`` is where its records end: at the file's end or at zero padding."""

    walker: IndexWalker
    extents: list[Extent]
    end: int
    problem: IndexProblem | None = None


def fold_index(file: ReadableFile, size: int, crc: Crc32 | None) -> IndexFold:
    """Go over an index of ``size`` bytes. The fold is of the records before the first problem."""
    fold = IndexFold(IndexWalker(None, crc), [], _FIRST)
    _fold_on(fold, file, size, 0, _FIRST)
    return fold


def grow_index(fold: IndexFold, file: ReadableFile, size: int) -> bool:
    """Go over what came since ``fold`` was made of the same index, or grown; one without a problem. False when it is
    another index now."""
    walker = fold.walker
    if size < fold.end:
        return False
    if walker.count:
        last = file.read_at(fold.end - _ENTRY, _ENTRY)
        if len(last) < _ENTRY:
            return False
        entry = IndexRecord.unpack_from(last)
        is_same = (entry.sequence, entry.offset, entry.length) == (
            walker.last_sequence,
            walker.last_offset,
            walker.last_size,
        )
        if not is_same or entry.timestamp > walker.max_timestamp:
            return False
    start = fold.extents.pop().start if fold.extents else _FIRST
    _fold_on(fold, file, size, fold.end, start)
    return True


def _fold_on(fold: IndexFold, file: ReadableFile, size: int, begin: int, start: int) -> None:
    """From offset ``begin`` on; the last extent begins at ``start``."""
    walker = fold.walker
    for data, base, at in _chunks(file, size, begin):
        if base == 0 and (problem := _version_problem(data)) is not None:
            fold.problem = problem
            break
        while True:
            status = walker.walk(data, at, len(data))
            fold.end = base + walker.at
            if status != BREAK:
                break
            at = walker.at
            if walker.next_offset > start:
                fold.extents.append(Extent(start, walker.next_offset))
            if len(fold.extents) >= MAX_EXTENTS:
                fold.problem = IndexProblem("index-damaged", fold.end, f"over {MAX_EXTENTS} holes", "fewer")
                return
            start = walker.next_offset = IndexRecord.unpack_from(data, at).offset
        if status != MORE:
            fold.problem = _problem(status, data, walker, fold.end)
            break
        left = size - fold.end
        if base + len(data) >= size and left:
            fold.problem = IndexProblem("index-damaged", fold.end, f"{left} bytes", f"a record of {_ENTRY} bytes")
    if walker.next_offset > start:
        fold.extents.append(Extent(start, walker.next_offset))


def _chunks(file: ReadableFile, size: int, begin: int) -> Iterator[tuple[bytes, int, int]]:
    """Data, its offset in the file, and where in it the records start."""
    base = begin
    if base == 0:
        base = min(size, _FIRST + CHUNK_BYTES)
        yield file.read_at(0, base), 0, min(_FIRST, base)
    while base < size:
        data = file.read_at(base, min(CHUNK_BYTES, size - base))
        if not data:
            return
        yield data, base, 0
        base += len(data)


def whole_bytes(size: int) -> int:
    """What of an index of ``size`` bytes is whole records, and the version word before them."""
    return size if size < _FIRST else _FIRST + (size - _FIRST) // _ENTRY * _ENTRY


def _version_problem(data: bytes) -> IndexProblem | None:
    if len(data) < _FIRST:
        return IndexProblem("short-version-word", 0, f"{len(data)} bytes", "a version word of 4 bytes")
    version = FileVersion.unpack_from(data).version
    if version != SUPPORTED_VERSION:
        return IndexProblem("file-version", 0, f"version {version}", "version 1")
    return None


def _problem(status: int, data: bytes, walker: IndexWalker, offset: int) -> IndexProblem | None:
    if status == ZEROS:
        return None
    entry = IndexRecord.unpack_from(data, walker.at)
    if status == BAD_CRC:
        return IndexProblem("index-damaged", offset, "a record whose checksum is wrong", f"0x{entry.crc:08x} as in it")
    if status == TOO_LARGE:
        return IndexProblem("index-damaged", offset, f"a record of {entry.length} bytes", "a size in bounds")
    assert status == OUT_OF_ORDER
    return IndexProblem(
        "index-damaged",
        offset,
        f"sequence {entry.sequence} at {entry.offset}",
        f"above {walker.last_sequence}, not before {walker.next_offset}",
    )


class IndexLookup:
    """Lookups in a good index of ``count`` records, by bisection."""

    def __init__(self, file: ReadableFile, count: int) -> None:
        self._blocks = BlockReader(file)
        self.count = count

    def entry(self, i: int) -> IndexRecord:
        """Record ``i``, from 0."""
        return IndexRecord.unpack_from(self._blocks.get(_FIRST + _ENTRY * i, _ENTRY))

    def at_sequence(self, sequence: int) -> int:
        """The first record whose sequence is not below ``sequence``; ``count`` where there is none."""
        return self._bisect(lambda entry: bool(entry.sequence < sequence))

    def between(self, first: int, end: int) -> Iterator[IndexRecord]:
        """The records with ``first <= sequence < end``."""
        for i in range(self.at_sequence(first), self.count):
            entry = self.entry(i)
            if entry.sequence >= end:
                return
            yield entry

    def behind(self, offset: int) -> int:
        """The first record that starts behind ``offset`` in the ``.dat`` file; ``count`` where there is none."""
        return self._bisect(lambda entry: bool(entry.offset <= offset))

    def _bisect(self, is_before: Callable[[IndexRecord], bool]) -> int:
        low, high = 0, self.count
        while low < high:
            middle = (low + high) // 2
            if is_before(self.entry(middle)):
                low = middle + 1
            else:
                high = middle
        return low
