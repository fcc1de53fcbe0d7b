"""A storage whose reads fail on purpose: with EIO, or because another process cuts the files while they are read."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass

from everlog.core.files.storage import FileBase, ReadableFile, Storage
from everlog.errors import StoreUnavailable
from everlog.testing.storage.delegating import DelegatingStorage


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """Which reads fail. Reads are numbered from 0 over all files of a :class:`FaultyStorage`.

    Read number ``fail_read`` and all after it raise :class:`StoreUnavailable` (EIO). From read number ``cut_read`` on,
    no file has bytes at or after ``cut_offset``, as if another process had cut it there. ``size`` still returns the old
    length, as a reader knows it from before the cut.
    """

    fail_read: int | None = None
    cut_read: int | None = None
    cut_offset: int = 0


class FaultyStorage(DelegatingStorage):
    """Delegates to another storage, with faults. ``read_count`` is the number of reads so far; tests use it to choose
    where the next run fails."""

    def __init__(self, inner: Storage, faults: Faults | None = None) -> None:
        super().__init__(inner)
        self.read_count = 0
        self._faults = faults or Faults()

    def open(self, name: str) -> FaultyFile:
        """Open a file whose reads count and fail."""
        return FaultyFile(self._reads.open(name), self)

    def read_all(self, name: str) -> bytes:
        """Read a whole file, which counts as one read."""
        data = self._reads.read_all(name)
        return data[: self.allow(name, 0, len(data))]

    def allow(self, name: str, offset: int, length: int) -> int:
        """Count a read; return how many of its bytes are left. Raises :class:`StoreUnavailable` if it shall fail."""
        number = self.read_count
        self.read_count += 1
        faults = self._faults
        if faults.fail_read is not None and number >= faults.fail_read:
            raise StoreUnavailable(name, found=os.strerror(errno.EIO).lower(), expected="a readable file or folder")
        if faults.cut_read is not None and number >= faults.cut_read:
            return max(0, min(length, faults.cut_offset - offset))
        return length


class FaultyFile(FileBase):
    """A file of a :class:`FaultyStorage`."""

    def __init__(self, inner: ReadableFile, storage: FaultyStorage) -> None:
        self.name = inner.name
        self._inner = inner
        self._storage = storage

    def size(self) -> int:
        """Return the length before a cut."""
        return self._inner.size()

    def read_at(self, offset: int, length: int) -> bytes:
        """Return up to ``length`` bytes, fewer if the file is cut there."""
        return self._inner.read_at(offset, self._storage.allow(self.name, offset, length))

    def read_into(self, offset: int, buffer: memoryview) -> int:
        """Fill ``buffer``, or less of it if the file is cut there; return the number of bytes."""
        length = self._storage.allow(self.name, offset, len(buffer))
        return self._inner.read_into(offset, buffer[:length])

    def next_data(self, offset: int) -> int:
        """Return the inner file's next data offset."""
        return self._inner.next_data(offset)

    def close(self) -> None:
        """Close the inner file."""
        self._inner.close()
