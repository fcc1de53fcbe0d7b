"""Reads the index of a channel's first slice entry by entry, for the limits."""

from __future__ import annotations

from everlog.core.files.storage import Storage
from everlog.errors import CorruptData
from everlog.nats_streaming.format.layouts import FileVersion, IndexRecord
from everlog.nats_streaming.writing.channel_state import SliceTotals

ENTRIES_AT_ONCE = 512


class FirstEntries:
    """Caches a block of entries: dropping messages one by one reads the file every :data:`ENTRIES_AT_ONCE` times."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._number = 0
        self._begin = 0
        self._block = b""

    def entry(self, piece: SliceTotals, i: int) -> IndexRecord:
        """Return entry ``i``, counted from 0, of a slice. Raises :class:`CorruptData` if the index is shorter."""
        at = (i - self._begin) * IndexRecord.size
        if piece.number != self._number or not 0 <= at <= len(self._block) - IndexRecord.size:
            with self._storage.open(piece.idx) as file:
                offset = FileVersion.size + i * IndexRecord.size
                self._block = file.read_at(offset, ENTRIES_AT_ONCE * IndexRecord.size)
            self._number, self._begin, at = piece.number, i, 0
        if len(self._block) < IndexRecord.size:
            raise CorruptData(piece.idx, found=f"no entry {i}", expected=f"{piece.count} entries")
        return IndexRecord.unpack_from(self._block, at)
