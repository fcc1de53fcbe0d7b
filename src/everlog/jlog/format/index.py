"""Indexes: the offset of each message of a segment. Used where they are good, never needed: the data decides.

Readers make them, writers never touch them, so a segment may have none, or one that ends before the data does. A final
0 behind other entries says that the segment is finished.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from dataclasses import dataclass, field

from everlog.core.files.storage import ReadableFile, Storage
from everlog.errors import EverlogError
from everlog.jlog.format.layouts import JlogHeader, JlogIndexEntry
from everlog.jlog.format.names import index_name

ENTRY = JlogIndexEntry.size
FIRST_BLOCK_ENTRIES, BLOCK_ENTRIES = 1 << 12, 1 << 17


@dataclass(slots=True)
class SegmentIndex:
    """An index as it was found. ``entries`` are offsets without the closing 0, as many as the data could need and two
    more, but not many behind one that can't be; ``good`` of them rise from 0 and are inside the data. ``byte_count`` is
    -1 when there is none."""

    log: int
    data_bytes: int
    byte_count: int = -1
    closed: bool = False
    entries: array[int] = field(default_factory=lambda: array("Q"))
    good: int = 0

    @property
    def state(self) -> str:
        """``missing``, ``damaged``, ``closed`` or ``open``."""
        if self.byte_count < 0:
            return "missing"
        if self.byte_count % ENTRY or self.good < len(self.entries):
            return "damaged"
        return "closed" if self.closed else "open"

    @property
    def is_sound(self) -> bool:
        """Whether every entry is plausible by itself."""
        return self.state in ("closed", "open")

    def marker_at(self, offset: int) -> int | None:
        """The number of the message at an offset, or ``None`` when no plausible entry says so."""
        at = bisect_left(self.entries, offset, 0, self.good)
        return at + 1 if at < self.good and self.entries[at] == offset else None

    def offset_of(self, marker: int) -> int | None:
        """Where message ``marker`` is said to be, by a plausible entry."""
        return self.entries[marker - 1] if 1 <= marker <= self.good else None


def read_index(storage: Storage, log: int, data_bytes: int, header_bytes: int = JlogHeader.size) -> SegmentIndex:
    """The index of a segment with ``data_bytes`` bytes of data. Never raises for damage; one that can't be read is like
    none."""
    index = SegmentIndex(log, data_bytes)
    name = index_name(log)
    most = data_bytes // header_bytes + 3
    try:
        if not storage.exists(name):
            return index
        with storage.open(name) as file:
            index.byte_count = file.size()
            is_whole = _read_entries(index, file, min(index.byte_count // ENTRY, most), header_bytes)
    except EverlogError:
        return SegmentIndex(log, data_bytes, index.byte_count)
    entries = index.entries
    if is_whole and index.byte_count <= most * ENTRY and len(entries) > 1 and entries[-1] == 0:
        entries.pop()
        index.closed = True
    return index


def _read_entries(index: SegmentIndex, file: ReadableFile, count: int, header_bytes: int) -> bool:
    """Entries block by block, up to the first that does not rise by at least a header, or leaves no room for one, and
    the rest of its block: sizes of files are not believed. Whether these are all ``count``."""
    before = -header_bytes
    at, wanted = 0, FIRST_BLOCK_ENTRIES
    while at < count:
        wanted = min(wanted, count - at)
        raw = file.read_at(at * ENTRY, wanted * ENTRY)
        block = array("Q", raw[: len(raw) // ENTRY * ENTRY])
        index.entries.extend(block)
        for number, offset in enumerate(block):
            is_first = before < 0
            if offset < before + header_bytes or offset + header_bytes > index.data_bytes or (is_first and offset):
                index.good = at + number
                return at + len(block) >= count
            before = offset
        at = index.good = at + len(block)
        if len(block) < wanted:  # cut meanwhile
            break
        wanted = min(2 * wanted, BLOCK_ENTRIES)
    return True
