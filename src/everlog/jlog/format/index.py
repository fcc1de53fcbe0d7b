"""Indexes: the offset of each message of a segment. Used if sound, never required: the data decides.

Readers create indexes and writers never touch them, so a segment may have none, or one that ends before the data does.
A final 0 after other entries marks the segment as finished.
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
    """An index as found. ``entries`` are the offsets without the closing 0, at most two more than the data can have,
    and few after an implausible one. The first ``good`` of them increase from 0 and are inside the data. ``byte_count``
    is -1 if the file is missing."""

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
        """Whether every entry is plausible."""
        return self.state in ("closed", "open")

    def marker_at(self, offset: int) -> int | None:
        """The number of the message at an offset, or ``None`` if no plausible entry has it."""
        at = bisect_left(self.entries, offset, 0, self.good)
        return at + 1 if at < self.good and self.entries[at] == offset else None

    def offset_of(self, marker: int) -> int | None:
        """The offset of message ``marker`` by a plausible entry, or ``None``."""
        return self.entries[marker - 1] if 1 <= marker <= self.good else None


def read_index(storage: Storage, log: int, data_bytes: int, header_bytes: int = JlogHeader.size) -> SegmentIndex:
    """The index of a segment with ``data_bytes`` bytes of data. Never raises for damage; an unreadable one counts as
    missing."""
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
    """Read entries block by block, up to the first implausible one (less than a header above the previous, or no room
    for a header) and the rest of its block, because file sizes are not trusted. Returns whether these are all ``count``
    entries."""
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
        if len(block) < wanted:  # the file was cut
            break
        wanted = min(2 * wanted, BLOCK_ENTRIES)
    return True
