"""A storage that counts its calls: tests compare them with a bound, and an endless loop fails at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from everlog.core.files.storage import Entry, FileBase, ReadableFile, Storage
from everlog.testing.storage.delegating import DelegatingStorage


class TooManyCalls(AssertionError):
    """There were more calls than the limit allows."""


class CountingStorage(DelegatingStorage):
    """Counts the calls of another storage. ``calls`` counts them by kind; each entry of a listing counts, since it
    costs a system call. ``byte_count`` is the number of bytes read. Raises :class:`TooManyCalls` beyond ``limit`` calls
    in all."""

    def __init__(self, inner: Storage, limit: int | None = None) -> None:
        super().__init__(inner)
        self.calls: Counter[str] = Counter()
        self.byte_count = 0
        self.limit = limit

    @property
    def call_count(self) -> int:
        """The number of calls of all kinds."""
        return self.calls.total()

    def count(self, what: str) -> None:
        """Count one call. Raises :class:`TooManyCalls` beyond the limit."""
        self.calls[what] += 1
        if self.limit is not None and self.call_count > self.limit:
            raise TooManyCalls(f"over {self.limit} calls: {dict(self.calls)}")

    def entries(self, folder: str = "") -> Iterator[Entry]:
        """Count one call and each entry."""
        self.count("entries")
        for entry in super().entries(folder):
            self.count("entry")
            yield entry

    def names(self, folder: str = "") -> list[str]:
        """Count one call, since it is one system call."""
        self.count("names")
        return super().names(folder)

    def exists(self, name: str) -> bool:
        """Count one call."""
        self.count("exists")
        return super().exists(name)

    def size(self, name: str) -> int:
        """Count one call."""
        self.count("size")
        return super().size(name)

    def open(self, name: str) -> CountingFile:
        """Open a file whose calls count, too."""
        self.count("open")
        return CountingFile(super().open(name), self)

    def read_all(self, name: str) -> bytes:
        """Count one call and its bytes."""
        self.count("read_all")
        data = super().read_all(name)
        self.byte_count += len(data)
        return data


class CountingFile(FileBase):
    """A file of a :class:`CountingStorage`."""

    def __init__(self, inner: ReadableFile, storage: CountingStorage) -> None:
        self.name = inner.name
        self._inner = inner
        self._storage = storage

    def size(self) -> int:
        """Count one call."""
        self._storage.count("file size")
        return self._inner.size()

    def read_at(self, offset: int, length: int) -> bytes:
        """Count one call and its bytes."""
        self._storage.count("read")
        data = self._inner.read_at(offset, length)
        self._storage.byte_count += len(data)
        return data

    def read_into(self, offset: int, buffer: memoryview) -> int:
        """Count one call and its bytes."""
        self._storage.count("read")
        count = self._inner.read_into(offset, buffer)
        self._storage.byte_count += count
        return count

    def next_data(self, offset: int) -> int:
        """Count one call."""
        self._storage.count("next data")
        return self._inner.next_data(offset)

    def close(self) -> None:
        """Close the inner file."""
        self._inner.close()
