"""A slice's index: checks whether it is good, and looks up records in it.

Good means more than for a starting server: every index record has a right checksum, sequences and offsets rise, records
do not overlap, and the last message in the ``.dat`` file matches its entry. As in the server, the last message's
checksum is compared even if checksums are off. Memory use does not depend on the index's size."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from everlog.core.files.storage import ReadableFile
from everlog.kernel.crc32 import Crc32
from everlog.nats_streaming.format.blocks import BlockReader
from everlog.nats_streaming.format.layouts import MAX_RECORD_BYTES, SUPPORTED_VERSION, FileVersion, IndexRecord
from everlog.nats_streaming.reading.slices import Extent
from everlog.nats_streaming.reading.walk import IndexWalker
from everlog.nats_streaming.reading.walk_status import BAD_CRC, BREAK, MORE, OUT_OF_ORDER, TOO_LARGE, ZEROS

CHUNK_BYTES = 32 * 16_384
MAX_EXTENTS = 16_384
"""An index with more holes between its records counts as damaged."""

_FIRST = FileVersion.size
_ENTRY = IndexRecord.size


@dataclass(frozen=True, slots=True)
class IndexProblem:
    """Why an index is not good: the fault's code, the offset in the index, and what was found and expected."""

    code: str
    offset: int
    found: str
    expected: str


@dataclass(slots=True)
class IndexFold:
    """The totals of an index. ``end`` is the offset where its records end: the file's end or the zero padding."""

    walker: IndexWalker
    extents: list[Extent]
    end: int
    problem: IndexProblem | None = None


def fold_index(file: ReadableFile, size: int, crc: Crc32 | None) -> IndexFold:
    """Fold an index of ``size`` bytes, up to its first problem."""
    fold = IndexFold(IndexWalker(None, crc), [], _FIRST)
    _fold_on(fold, file, size, 0, _FIRST)
    return fold


def grow_index(fold: IndexFold, file: ReadableFile, size: int) -> bool:
    """Extend ``fold``, which has no problem, by the entries that were appended to the same index. Returns false if the
    file is a different index now."""
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
    """Fold from offset ``begin`` on; the last extent starts at ``start``."""
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
                fold.problem = IndexProblem("index-damaged", fold.end, f"over {MAX_EXTENTS} holes", "fewer holes")
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
    """Yield data, its offset in the file, and the offset of the first record in it."""
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
    """Round an index's size down to the version word and whole records."""
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
        return IndexProblem("index-damaged", offset, "a record with another checksum", f"checksum 0x{entry.crc:08x}")
    if status == TOO_LARGE:
        expected = f"a size from 1 to {MAX_RECORD_BYTES} bytes"
        return IndexProblem("index-damaged", offset, f"a record of {entry.length} bytes", expected)
    assert status == OUT_OF_ORDER
    return IndexProblem(
        "index-damaged",
        offset,
        f"sequence {entry.sequence} at offset {entry.offset}",
        f"a sequence above {walker.last_sequence} at offset {walker.next_offset} or later",
    )


class IndexLookup:
    """Looks up records in a good index of ``count`` records, by bisection."""

    def __init__(self, file: ReadableFile, count: int) -> None:
        self._blocks = BlockReader(file)
        self.count = count

    def entry(self, i: int) -> IndexRecord:
        """Return record ``i``, counted from 0."""
        return IndexRecord.unpack_from(self._blocks.get(_FIRST + _ENTRY * i, _ENTRY))

    def at_sequence(self, sequence: int) -> int:
        """Return the number of the first record with ``sequence`` or a higher one; ``count`` if none has."""
        return self._bisect(lambda entry: bool(entry.sequence < sequence))

    def between(self, first: int, end: int) -> Iterator[IndexRecord]:
        """Yield the records with ``first <= sequence < end``."""
        for i in range(self.at_sequence(first), self.count):
            entry = self.entry(i)
            if entry.sequence >= end:
                return
            yield entry

    def after(self, offset: int) -> int:
        """Return the number of the first record that starts after ``offset`` in the ``.dat`` file; ``count`` if none
        does."""
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
