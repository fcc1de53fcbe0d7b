"""Segment files: ``<recording id>-<position of the first byte>.rec``, each ``segment_file_length`` long, preallocated.

Names are of version 2 and later, where positions are absolute. Source: Archive.segmentFileName,
AeronArchive.segmentFileBasePosition.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from everlog.aeron.position import segment_base
from everlog.core.storage import ReadableFile, Storage
from everlog.errors import FileChanged

SEGMENT_NAME = re.compile(r"(0|[1-9][0-9]{0,18})-(0|[1-9][0-9]{0,18})\.rec", re.ASCII)
MAX_POSITION = (1 << 63) - 1


def segment_name(recording_id: int, base: int) -> str:
    """The file that begins at position ``base``."""
    return f"{recording_id}-{base}.rec"


def parse_segment_name(name: str) -> tuple[int, int] | None:
    """Recording id and first position, or ``None`` for another file."""
    match = SEGMENT_NAME.fullmatch(name)
    if match is None:
        return None
    recording_id, base = int(match[1]), int(match[2])
    return None if max(recording_id, base) > MAX_POSITION else (recording_id, base)


def index_segments(names: list[str]) -> dict[int, list[int]]:
    """Recording id to the positions at which its files begin, in order."""
    index: dict[int, list[int]] = {}
    for name in names:
        parsed = parse_segment_name(name)
        if parsed is not None:
            index.setdefault(parsed[0], []).append(parsed[1])
    for bases in index.values():
        bases.sort()
    return index


@dataclass(frozen=True, slots=True)
class SegmentMap:
    """Where a recording's positions lie: its id, start and lengths."""

    recording_id: int
    start_position: int
    term_length: int
    segment_length: int

    def base(self, position: int) -> int:
        """The first position of the segment that holds ``position``."""
        return segment_base(self.start_position, position, self.term_length, self.segment_length)

    def place(self, position: int) -> tuple[str, int]:
        """File name and offset of ``position``."""
        base = self.base(position)
        return segment_name(self.recording_id, base), position - base


class SegmentReader:
    """A recording's bytes by position, across its segment files. One file is open at a time."""

    def __init__(self, storage: Storage, segments: SegmentMap) -> None:
        self._storage = storage
        self.segments = segments
        self._base = -1
        self._file: ReadableFile | None = None

    def read_into(self, position: int, buffer: memoryview) -> int:
        """Fill ``buffer`` from ``position`` on; fewer bytes than it holds where a file is missing or ends early."""
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
        """Up to ``length`` bytes from ``position`` on."""
        buffer = bytearray(length)
        with memoryview(buffer) as view:
            return bytes(buffer[: self.read_into(position, view)])

    def sample(self, position: int, length: int) -> bytes:
        """Like ``read``, within one file. Raises :class:`FileChanged` when the file was cut meanwhile."""
        base = self.segments.base(position)
        size = self.size(base) or 0
        wanted = max(min(length, size - (position - base)), 0)
        data = self.read(position, wanted)
        if len(data) < wanted:
            name, offset = self.segments.place(position)
            raise FileChanged(name, offset=offset, found=f"{len(data)} bytes", expected=f"{wanted} bytes")
        return data

    def size(self, base: int) -> int | None:
        """Bytes of the segment's file, or ``None`` where there is none."""
        file = self._open(base)
        return None if file is None else file.size()

    def _open(self, base: int) -> ReadableFile | None:
        if base != self._base:
            self.close()
            name = segment_name(self.segments.recording_id, base)
            if not self._storage.exists(name):
                return None
            self._file = self._storage.open(name)
            self._base = base
        return self._file

    def close(self) -> None:
        """Give the file back."""
        if self._file is not None:
            self._file.close()
        self._file, self._base = None, -1
