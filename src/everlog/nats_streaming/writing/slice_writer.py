"""Writes the last slice of a channel: ``msgs.N.dat`` first, then ``msgs.N.idx``.

============================  =========================================================================================
a crash after                 leaves
============================  =========================================================================================
``.dat`` was created          a slice without records; the next writer continues in it
``.idx`` was created          the same
a part of the data            a torn record: the next writer cuts it off. The original refuses to start on it only if
                              it has to rebuild the index
the data                      whole records without index records: the next writer indexes them; the original ignores
                              them and gives their sequences again
a part of the index           a torn index: the original, too, rebuilds it from the ``.dat`` file
the index                     everything, unless the power fails
the sync                      everything
============================  =========================================================================================

With ``sync`` the data is on disk before the index is written, so that an index record on disk always has its message.
Tests: ``tests/nats_streaming/writing/test_crash.py``. Source: ``stores/filestore.go`` (flush)."""

from __future__ import annotations

import contextlib

from everlog.core.files.writable import WritableFile, WritableStorage
from everlog.errors import CorruptData, WriteFailed
from everlog.nats_streaming.format.encoding import VERSION_WORD
from everlog.nats_streaming.format.layouts import FileVersion
from everlog.nats_streaming.format.names import slice_file
from everlog.nats_streaming.writing.channel_state import SliceTotals


def create_slice(storage: WritableStorage, folder: str, number: int) -> SliceTotals:
    """Create the two files of a slice, in place of files without records. Their names are not synced. Raises
    :class:`WriteFailed`, and :class:`CorruptData` if a file with records has the name."""
    dat, idx = (f"{folder}/{slice_file(number, kind)}" for kind in ("dat", "idx"))
    if storage.exists(dat) and (size := storage.size(dat)) > FileVersion.size:
        raise CorruptData(dat, found=f"{size} bytes", expected="no slice of this number")
    for name in (dat, idx):
        # The version word comes with the name: neither reader nor server accepts a slice without.
        storage.publish(name, VERSION_WORD, replace=True)
    return SliceTotals(number, dat, idx, len(VERSION_WORD), len(VERSION_WORD))


class SliceWriter:
    """Appends to an existing slice whose records end at ``totals.dat_end`` and ``totals.idx_end``, and advances these.

    After a failed write both files are cut to where they were; if that fails too, or after a failed sync, ``is_broken``
    is true and nothing can be written anymore."""

    def __init__(self, storage: WritableStorage, totals: SliceTotals) -> None:
        self.totals = totals
        self.is_broken = False
        self._is_dirty = False
        with contextlib.ExitStack() as undo:
            self._dat: WritableFile = undo.enter_context(contextlib.closing(storage.open_writable(totals.dat)))
            self._idx: WritableFile = storage.open_writable(totals.idx)
            undo.pop_all()

    def write(self, data: bytes | bytearray, index: bytes | bytearray, *, sync: bool) -> None:
        """Append whole records and their index records; with ``sync`` they are on disk on return. Raises
        :class:`WriteFailed`; then they are not stored."""
        totals = self.totals
        try:
            self._is_dirty = True
            self._dat.write_at(totals.dat_end, data)
            if sync:
                self._sync(self._dat)
            self._idx.write_at(totals.idx_end, index)
            if sync:
                self._sync(self._idx)
        except BaseException:
            self._cut()
            raise
        totals.dat_end += len(data)
        totals.idx_end += len(index)
        self._is_dirty = not sync

    def sync(self) -> None:
        """Return when all that was written is on disk. Raises :class:`WriteFailed`."""
        if self._is_dirty:
            self._sync(self._dat)
            self._sync(self._idx)
            self._is_dirty = False

    def _sync(self, file: WritableFile) -> None:
        try:
            file.sync()
        except BaseException:
            self.is_broken = True  # the system may have dropped earlier data, too, and reports that only once
            raise

    def _cut(self) -> None:
        """Cut off what a failed write has left, the index first: it must not be ahead of the data."""
        try:
            self._idx.truncate(self.totals.idx_end)
            self._dat.truncate(self.totals.dat_end)
        except WriteFailed:
            self.is_broken = True

    def close(self) -> None:
        """Close both files without syncing."""
        self._dat.close()
        self._idx.close()
