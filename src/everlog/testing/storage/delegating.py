"""A storage that delegates all reads to another one: the base of the storages that count or fail."""

from __future__ import annotations

from collections.abc import Iterator

from everlog.core.files.storage import Entry, ReadableFile, Storage


class DelegatingStorage:
    """Delegates all reads to the inner storage."""

    def __init__(self, inner: Storage) -> None:
        self.root = inner.root
        self._reads = inner

    def entries(self, folder: str = "") -> Iterator[Entry]:
        """Yield the inner storage's entries."""
        return self._reads.entries(folder)

    def names(self, folder: str = "") -> list[str]:
        """Return the inner storage's names."""
        return self._reads.names(folder)

    def exists(self, name: str) -> bool:
        """Whether the inner storage has a file or folder of that name."""
        return self._reads.exists(name)

    def size(self, name: str) -> int:
        """Return the size of the inner storage's file."""
        return self._reads.size(name)

    def open(self, name: str) -> ReadableFile:
        """Open a file of the inner storage."""
        return self._reads.open(name)

    def read_all(self, name: str) -> bytes:
        """Return all bytes of the inner storage's file."""
        return self._reads.read_all(name)

    def forget(self) -> None:
        """Drop what the inner storage remembers."""
        self._reads.forget()
