"""Backups: where the bytes go that a plan removes or overwrites."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from typing import Protocol

from everlog.core.files.storage import LocalStorage, ReadableFile, Storage
from everlog.core.files.writable import LocalWritableStorage, make_folder
from everlog.core.files.zeros import nonzero_blocks
from everlog.errors import FileChanged, WriteFailed

COPY_BYTES = 1 << 20
"""Files are copied in pieces of this size."""
_ZEROS = bytes(COPY_BYTES)


class Backup(Protocol):
    """Keeps the bytes that a plan removes or overwrites."""

    def save(self, name: str, pieces: Iterable[bytes]) -> None:
        """Store bytes under a name; they are on disk on return. Raises :class:`WriteFailed`."""


class FolderBackup:
    """A backup in a folder of its own, created with the first bytes. A name that exists gets a number appended:
    nothing is overwritten."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        self._storage: LocalWritableStorage | None = None

    @classmethod
    def beside(cls, store: str | os.PathLike[str]) -> FolderBackup:
        """Back up to ``<store>.repair-<time, UTC>``, next to the store's folder."""
        return cls(f"{os.path.abspath(store)}.repair-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}")

    @property
    def is_made(self) -> bool:
        """Whether anything was stored, so that the folder exists."""
        return self._storage is not None

    def save(self, name: str, pieces: Iterable[bytes]) -> None:
        """Store bytes under a name; they are on disk on return. Raises :class:`WriteFailed`."""
        storage = self._open()
        with storage.open_writable(_free_name(storage, name), create=True, exclusive=True, mode=0o600) as file:
            at = 0
            for piece in pieces:
                if piece is not _ZEROS and piece.count(0) < len(piece):  # zeros stay holes
                    file.write_at(at, piece)
                at += len(piece)
            if file.size() < at:
                file.truncate(at)
            file.sync()
        storage.sync_folder()

    def save_part(self, name: str, file: ReadableFile, start: int, end: int) -> None:
        """Store a part of a file as :meth:`save` does; holes are not read and stay holes. Also raises
        :class:`FileChanged` if the file is shorter than ``end``."""
        storage = self._open()
        with storage.open_writable(_free_name(storage, name), create=True, exclusive=True, mode=0o600) as kept:
            for at, block in nonzero_blocks(file, start, end):
                kept.write_at(at - start, block)
            if kept.size() < end - start:
                kept.truncate(end - start)
            kept.sync()
        storage.sync_folder()
        if (size := file.size()) < end:
            raise FileChanged(file.name, offset=size, found=f"{size} bytes", expected=f"{end}")

    def link(self, storage: Storage, name: str) -> bool:
        """Store a file by a hard link, which takes no space. Only for a file that is then removed or replaced: a write
        into it would change the backup, too. The name is on disk on return. Returns false if that is impossible:
        across file systems, or if the name exists."""
        if not isinstance(storage, LocalStorage):
            return False
        kept = self._open()
        try:
            os.link(storage.path(name), kept.path(name), follow_symlinks=False)
        except OSError:
            return False
        kept.sync_folder()
        return True

    def _open(self) -> LocalWritableStorage:
        if self._storage is None:
            try:
                make_folder(self.path, 0o700)
            except WriteFailed as error:
                raise WriteFailed(
                    self.path,
                    found=error.found,
                    expected="a folder for the backup",
                    hint="choose another folder, or no backup",
                    message=f"can't create the backup folder {self.path}: {error.found}",
                ) from error
            self._storage = LocalWritableStorage(self.path)
        return self._storage


def _free_name(storage: Storage, name: str) -> str:
    free, number = name, 1
    while storage.exists(free):
        number += 1
        free = f"{name}.{number}"
    return free


def keep_file(backup: Backup | None, storage: Storage, name: str) -> None:
    """Back up a whole file that is about to be removed or replaced, under its name: by a hard link if possible, else by
    a copy. Raises :class:`WriteFailed`, :class:`StoreUnavailable`."""
    if backup is None or (isinstance(backup, FolderBackup) and backup.link(storage, name)):
        return
    with storage.open(name) as file:
        backup.save(name, pieces_of(file))


def keep_part(backup: Backup, file: ReadableFile, name: str, start: int, end: int) -> None:
    """Back up a part of a file under a name. Raises :class:`WriteFailed`, and :class:`FileChanged` if the file is
    shorter than ``end``."""
    if isinstance(backup, FolderBackup):
        backup.save_part(name, file, start, end)
    else:
        backup.save(name, pieces_of(file, start, end))


def pieces_of(file: ReadableFile, start: int = 0, end: int | None = None) -> Iterator[bytes]:
    """Yield a file's bytes from ``start`` on in pieces of ``COPY_BYTES``; holes are not read. Raises
    :class:`FileChanged` if the file is shorter than ``end``."""
    size = file.size() if end is None else end
    next_data = start
    for at in range(start, size, COPY_BYTES):
        length = min(COPY_BYTES, size - at)
        if at >= next_data:
            next_data = file.next_data(at)
        if at + length <= next_data:
            yield _ZEROS[:length]
            continue
        data = file.read_at(at, length)
        if len(data) < length:
            raise FileChanged(file.name, offset=at, found=f"{len(data)} bytes", expected=f"{length}")
        yield data
