"""Finds a node's archive: in a given folder, as ``archive`` in or next to the cluster's folder, or in that folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

from everlog.aeron.archive.folder.archive import is_archive
from everlog.core.files.storage import Entry, LocalStorage, ReadableFile, Storage
from everlog.errors import EverlogError

ARCHIVE_NAME = "archive"


class SubStorage:
    """A sub-folder of a storage, as a storage. Every method passes its call on to the parent."""

    def __init__(self, parent: Storage, folder: str) -> None:
        self.root = f"{parent.root}/{folder}"
        self._parent = parent
        self._folder = folder

    def _name(self, name: str) -> str:
        return f"{self._folder}/{name}" if name else self._folder

    def entries(self, folder: str = "") -> Iterator[Entry]:
        """List the entries of a folder."""
        return self._parent.entries(self._name(folder))

    def names(self, folder: str = "") -> list[str]:
        """List the names in a folder."""
        return self._parent.names(self._name(folder))

    def exists(self, name: str) -> bool:
        """Whether a file or folder exists."""
        return self._parent.exists(self._name(name))

    def size(self, name: str) -> int:
        """Return a file's size in bytes."""
        return self._parent.size(self._name(name))

    def open(self, name: str) -> ReadableFile:
        """Open a file for reading."""
        return self._parent.open(self._name(name))

    def read_all(self, name: str) -> bytes:
        """Read a whole file."""
        return self._parent.read_all(self._name(name))

    def forget(self) -> None:
        """Drop the parent's caches."""
        self._parent.forget()


@dataclass(frozen=True, slots=True)
class ArchivePlace:
    """The archive's storage, and the prefix that its file names get when seen from the cluster's folder."""

    storage: Storage
    prefix: str


def find_archive(storage: Storage, archive_dir: str | None = None) -> ArchivePlace | None:
    """Find the node's archive; ``None`` if there is none. Raises :class:`StoreUnavailable` or :class:`NotAStore` if
    ``archive_dir`` is given and not a folder."""
    if archive_dir is not None:
        found = _open(archive_dir)
        is_local = os.path.isdir(archive_dir)
        return ArchivePlace(found, (os.path.relpath(archive_dir, storage.root) if is_local else archive_dir) + "/")
    if storage.exists(ARCHIVE_NAME):
        inside = SubStorage(storage, ARCHIVE_NAME)
        if _is_archive(inside):
            return ArchivePlace(inside, ARCHIVE_NAME + "/")
    path = _sibling(storage.root)
    if path is not None:
        try:
            found = _open(path)
            if _is_archive(found):
                return ArchivePlace(found, f"../{ARCHIVE_NAME}/")
        except EverlogError:
            pass
    return ArchivePlace(storage, "") if _is_archive(storage) else None


def _sibling(root: str) -> str | None:
    """The path of ``archive`` in the parent folder of ``root``, after following symbolic links, as ``..`` does."""
    if "://" in root and not os.path.exists(root):
        folder, slash, _ = root.rstrip("/").rpartition("/")
        return f"{folder}/{ARCHIVE_NAME}" if slash else None
    return os.path.join(os.path.dirname(os.path.realpath(root)), ARCHIVE_NAME)


def _open(path: str) -> Storage:
    if "://" in path and not os.path.exists(path):
        from everlog.core.files.remote import RemoteStorage

        return RemoteStorage(path)
    return LocalStorage(path)


def _is_archive(storage: Storage) -> bool:
    try:
        return is_archive(storage)
    except EverlogError:
        return False
