"""A storage around another one, which reads as that one does: what the faulty ones are made from."""

from __future__ import annotations

from collections.abc import Iterator

from everlog.core.files.storage import Entry, ReadableFile, Storage


class DelegatingStorage:
    """Gives what the inner storage gives."""

    def __init__(self, inner: Storage) -> None:
        self.root = inner.root
        self._reads = inner

    def entries(self, folder: str = "") -> Iterator[Entry]:
        """As the inner storage gives them."""
        return self._reads.entries(folder)

    def names(self, folder: str = "") -> list[str]:
        """As the inner storage gives them."""
        return self._reads.names(folder)

    def exists(self, name: str) -> bool:
        """As the inner storage says."""
        return self._reads.exists(name)

    def size(self, name: str) -> int:
        """As the inner storage says."""
        return self._reads.size(name)

    def open(self, name: str) -> ReadableFile:
        """A file of the inner storage."""
        return self._reads.open(name)

    def read_all(self, name: str) -> bytes:
        """As the inner storage gives it."""
        return self._reads.read_all(name)

    def forget(self) -> None:
        """As the inner storage does."""
        self._reads.forget()
