"""Segment files: ``<recording id>-<number>.rec``, each ``segment_file_length`` long, preallocated.

The meaning of the number depends on the catalog's version. Source: Archive.segmentFileName, Archive.segmentFileIndex of
Aeron 1.7 to 1.21, Archive.segmentFilePosition of 1.22, AeronArchive.segmentFileBasePosition.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from enum import Enum

from everlog.aeron.frames.constants import HEADER_LENGTH, MIN_TERM_LENGTH
from everlog.aeron.frames.position import segment_base
from everlog.core.files.storage import ReadableFile, Storage
from everlog.errors import FileChanged

SEGMENT_NAME = re.compile(r"(0|[1-9][0-9]{0,18})-(0|[1-9][0-9]{0,18})\.rec", re.ASCII)
RENAMED_SUFFIX = ".del"
"""Some releases of Aeron rename a segment file before they delete it: this is added to its name."""
MAX_POSITION = (1 << 63) - 1
SPARE_BYTES = HEADER_LENGTH
"""Aeron 1.7 and older made each file longer than the segment, by a frame's header of zeros."""


class Naming(Enum):
    """The meaning of the number in a segment file's name. A recording's first segment begins where the term of its
    start position does.

    ``INDEX``, catalogs 0.x: the file's index in the recording. ``START_SEGMENT``, 1.x: bytes; the index times the
    segment length, plus the start position rounded down to a multiple of the segment length (which need not be where
    the first segment begins). ``POSITION``, from 2.x on: the position at which the file begins.
    """

    INDEX = 0
    START_SEGMENT = 1
    POSITION = 2


def segment_name(recording_id: int, number: int) -> str:
    """Return a segment file's name; from catalog version 2 on, the number is the position at which the file begins."""
    return f"{recording_id}-{number}.rec"


def parse_segment_name(name: str) -> tuple[int, int] | None:
    """Return recording id and number, or ``None`` for any other file."""
    match = SEGMENT_NAME.fullmatch(name)
    if match is None:
        return None
    recording_id, number = int(match[1]), int(match[2])
    return None if max(recording_id, number) > MAX_POSITION else (recording_id, number)


def index_segments(names: list[str]) -> dict[int, list[int]]:
    """Map each recording id to the numbers of its files, in order."""
    index: dict[int, list[int]] = {}
    for name in names:
        parsed = parse_segment_name(name)
        if parsed is not None:
            index.setdefault(parsed[0], []).append(parsed[1])
    for numbers in index.values():
        numbers.sort()
    return index


def is_bytes(number: int) -> bool:
    """Whether a number other than 0 counts bytes: then it is a multiple of the shortest term. An index that high would
    need a recording of at least 4 GiB, or 8 TiB with segments of the usual length."""
    return number > 0 and number % MIN_TERM_LENGTH == 0


def naming_by_files(index: dict[int, list[int]], claimed: Naming = Naming.POSITION) -> Naming:
    """Return the naming that fits the files' numbers: ``claimed``, unless all of them contradict it."""
    seen = {is_bytes(number) for numbers in index.values() for number in numbers if number > 0}
    if seen == {False}:
        return Naming.INDEX
    return Naming.POSITION if claimed is Naming.INDEX and seen == {True} else claimed


@dataclass(frozen=True, slots=True)
class SegmentMap:
    """Maps a recording's positions to its segment files."""

    recording_id: int
    start_position: int
    term_length: int
    segment_length: int
    naming: Naming = Naming.POSITION

    def base(self, position: int) -> int:
        """Return the first position of the segment that holds ``position``."""
        return segment_base(self.start_position, position, self.term_length, self.segment_length)

    def number(self, base: int) -> int:
        """Return the number in the name of the file that begins at position ``base``."""
        if self.naming is Naming.POSITION:
            return base
        index = (base - self.base(self.start_position)) // self.segment_length
        if self.naming is Naming.INDEX:
            return index
        return index * self.segment_length + (self.start_position & -self.segment_length)

    def base_of(self, number: int) -> int | None:
        """Return the position at which the file with that number begins; ``None`` if no segment of the recording can
        have that number."""
        first = self.base(self.start_position)
        if self.naming is Naming.INDEX:
            return None if is_bytes(number) else first + number * self.segment_length
        base = number + first - self.number(first)
        return None if base < 0 or (base - first) % self.segment_length else base

    def name(self, base: int) -> str:
        """Return the name of the file that begins at position ``base``."""
        return segment_name(self.recording_id, self.number(base))

    def bases(self, numbers: list[int]) -> list[int]:
        """Return the positions at which files with these numbers begin, omitting impossible numbers."""
        return [base for base in map(self.base_of, numbers) if base is not None]

    def place(self, position: int) -> tuple[str, int]:
        """Return the file name and the offset in it of ``position``."""
        base = self.base(position)
        return self.name(base), position - base


class SegmentReader:
    """Reads a recording's bytes by position, across its segment files. Keeps one file open at a time."""

    def __init__(self, storage: Storage, segments: SegmentMap) -> None:
        self._storage = storage
        self.segments = segments
        self._base = -1
        self._file: ReadableFile | None = None
        self._bases: list[int] | None = None

    def read_into(self, position: int, buffer: memoryview) -> int:
        """Fill ``buffer`` from ``position`` on; return the byte count, which is lower if a file is missing or short."""
        done = 0
        while done < len(buffer):
            here = position + done
            base = self.segments.base(here)
            file = self._open(base)
            if file is None:
                break
            room = min(len(buffer) - done, base + self.segments.segment_length - here)
            count = file.read_into(here - base, buffer[done : done + room])
            done += count
            if count < room:
                break
        return done

    def read(self, position: int, length: int) -> bytes:
        """Return up to ``length`` bytes from ``position`` on."""
        buffer = bytearray(length)
        with memoryview(buffer) as view:
            return bytes(buffer[: self.read_into(position, view)])

    def sample(self, position: int, length: int) -> bytes:
        """Like ``read``, within one file. Raises :class:`FileChanged` if the file was cut while it was read."""
        base = self.segments.base(position)
        size = min(self.size(base) or 0, self.segments.segment_length)
        wanted = max(min(length, size - (position - base)), 0)
        data = self.read(position, wanted)
        if len(data) < wanted:
            name, offset = self.segments.place(position)
            raise FileChanged(name, offset=offset, found=f"{len(data)} bytes", expected=f"{wanted} bytes")
        return data

    def size(self, base: int) -> int | None:
        """Return the size of the segment's file in bytes, or ``None`` if it is missing."""
        file = self._open(base)
        return None if file is None else file.size()

    def next_data(self, position: int, limit: int) -> int:
        """Return the first position from ``position`` on, before ``limit``, that is not known to be in a hole: for a
        missing or short file, where its bytes end. Returns ``limit`` if everything is holes."""
        while position < limit:
            base = self.segments.base(position)
            file = self._open(base)
            data = position if file is None else base + file.next_data(position - base)
            if data < base + self.segments.segment_length:
                return min(data, limit)
            position = base + self.segments.segment_length
        return limit

    def next_base(self, base: int, limit: int) -> int:
        """Return the position before ``limit`` at which the next existing file after the one at ``base`` begins;
        otherwise the first segment start at or after ``limit``.

        A damaged stop position may be so far off that stepping segment by segment would never end. The folder is listed
        once, because files are added only at a recording's end.
        """
        length = self.segments.segment_length
        following = base + length
        if following < limit and self.size(following) is None:
            if self._bases is None:
                numbers = index_segments(self._storage.names()).get(self.segments.recording_id, [])
                self._bases = sorted(self.segments.bases(numbers))
            at = bisect_right(self._bases, base)
            end = base - (base - limit) // length * length
            following = self._bases[at] if at < len(self._bases) and self._bases[at] < limit else end
        return following

    def _open(self, base: int) -> ReadableFile | None:
        if base != self._base:
            self.close()
            name = self.segments.name(base)
            if not self._storage.exists(name):
                return None
            self._file = self._storage.open(name)
            self._base = base
        return self._file

    def close(self) -> None:
        """Close the open file, if any."""
        if self._file is not None:
            self._file.close()
        self._file, self._base = None, -1
