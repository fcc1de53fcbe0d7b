"""A folder in memory that loses what was not synced, for crash tests of writers.

It keeps no more than a strict reading of POSIX guarantees, which is less than most file systems keep:

* Written bytes are on disk after the file's ``sync``. Before that any part of them may be, in any order, in whole pages
  of 512 or 4096 bytes; missing parts of a lengthened file are zeros.
* A created, replaced or deleted name is on disk after ``sync_folder``. Before that each name may be in any state that
  it has had since the last ``sync_folder``, independently of other names. With ``ordered_names`` all names are as they
  were at one moment, as in file systems with a journal, where a rename is done or not. Syncing a file does not sync its
  name.
* The bytes of one page never come from two different moments.

``crash`` simulates a power cut, ``kill`` the death of every process that used the folder.
"""

from __future__ import annotations

import errno
import os
import posixpath
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from everlog.core.files.storage import Entry, FileBase
from everlog.core.files.writable import DRAFT_PREFIX, write_failed
from everlog.errors import NotAStore, StoreUnavailable
from everlog.testing.storage.unsynced import Change, Inode, is_in_place

SECONDS_FOR_A_LOCK = 30.0
"""A longer wait for a lock raises an error: in a test, the waiting thread holds the lock itself."""


class CrashingFile(FileBase):
    """An open file of a :class:`CrashingStorage`; see :class:`everlog.core.files.writable.WritableFile`."""

    def __init__(self, storage: CrashingStorage, inode: Inode, name: str, *, is_writable: bool) -> None:
        self.name = name
        self._storage = storage
        self._inode: Inode | None = inode
        self._is_writable = is_writable
        inode.open_count += 1

    def _open(self, *, to_write: bool = False) -> Inode:
        if self._inode is None or (to_write and not self._is_writable):
            raise write_failed(self.name, OSError(errno.EBADF, os.strerror(errno.EBADF)))
        return self._inode

    def size(self) -> int:
        """Return the size in bytes, as it is now."""
        return len(self._open().data)

    def read_at(self, offset: int, length: int) -> bytes:
        """Return up to ``length`` bytes from ``offset``."""
        with self._storage.changed:
            return bytes(self._open().data[offset : offset + length])

    def read_into(self, offset: int, buffer: memoryview) -> int:
        """Fill ``buffer``; return the number of bytes."""
        part = self.read_at(offset, len(buffer))
        buffer[: len(part)] = part
        return len(part)

    def write_at(self, offset: int, data: Any) -> None:
        """See :class:`WritableFile`. Readers may see half of a write, and a kill may leave half, but a change of one
        page in place is atomic."""
        written = memoryview(data).tobytes()
        is_watched = self._storage.after_each is not None
        half = len(written) // 2 if is_watched and not is_in_place(offset, len(written), self.size()) else 0
        edge = self._storage.edge_bytes
        half = max((offset + half) // edge * edge - offset, 0)
        if half:
            self._change((offset, written[:half]), "half a write")
        self._change((offset + half, written[half:]), "write")

    def truncate(self, size: int) -> None:
        """Cut the file, or extend it with zeros."""
        self._change((size, None), "truncate")

    def _change(self, change: Change, what: str) -> None:
        with self._storage.changed:
            self._open(to_write=True).change(change)
            self._storage.done(what)

    def sync(self, *, times: bool = False) -> None:
        """See :class:`WritableFile`. Syncs the content, not the name."""
        with self._storage.changed:
            self._open().sync()
            self._storage.done("sync")

    def lose_unsynced(self) -> None:
        """Behave as after a failed sync: the system marks the pages as clean, so that no later sync writes them."""
        with self._storage.changed:
            self._open().pending = []

    def lock(self, *, wait: bool = True) -> bool:
        """Lock the whole file; False if another open file has the lock and ``wait`` is false."""
        deadline = time.monotonic() + SECONDS_FOR_A_LOCK
        with self._storage.changed:
            inode = self._open()
            while inode.locked_by not in (None, self):
                if not wait:
                    return False
                if not self._storage.changed.wait(deadline - time.monotonic()):
                    raise write_failed(self.name, OSError(errno.EDEADLK, os.strerror(errno.EDEADLK)))
            inode.locked_by = self
        return True

    def unlock(self) -> None:
        """Release the lock."""
        with self._storage.changed:
            inode = self._open()
            if inode.locked_by is self:
                inode.locked_by = None
                self._storage.changed.notify_all()

    def mode(self) -> int:
        """Return the permission bits."""
        return self._open().mode

    def hold(self) -> bool:
        """Mark the file as in use until it is closed; False if it is held already."""
        with self._storage.changed:
            inode = self._open()
            if inode.held_by not in (None, self):
                return False
            inode.held_by = self
        return True

    def is_current(self) -> bool:
        """Whether the file's name still refers to this file."""
        return self._storage.is_named(self.name, self._open())

    def close(self) -> None:
        """Close the file and release its lock and its hold; a second call does nothing."""
        inode, self._inode = self._inode, None
        if inode is None:
            return
        with self._storage.changed:
            inode.open_count -= 1
            inode.locked_by = None if inode.locked_by is self else inode.locked_by
            inode.held_by = None if inode.held_by is self else inode.held_by
            self._storage.changed.notify_all()

    def __del__(self) -> None:
        self.close()


class CrashingStorage:
    """A folder, and folders in it; see :class:`everlog.core.files.writable.WritableStorage`. A folder exists once it
    was made or contains a file; the names of folders are on disk at once.

    ``after_each(what)`` is called after every change and every sync, and after half of each write; there a test can
    take a copy of what a crash at this moment leaves. The half ends at a multiple of ``edge_bytes``: systems copy
    written data in whole pages, so a killed process leaves a multiple of 4096 bytes. Safe for concurrent threads."""

    def __init__(
        self,
        files: Mapping[str, bytes] | None = None,
        *,
        root: str = "memory",
        after_each: Callable[[str], None] | None = None,
        edge_bytes: int = 1,
    ) -> None:
        self.root = root
        self.edge_bytes = edge_bytes
        self.after_each = after_each
        self.before_remove: Callable[[str], None] = lambda name: None
        self.changed = threading.Condition(threading.RLock())
        self._inodes = {name: Inode(data, 0o640) for name, data in (files or {}).items()}
        self._folders: set[str] = set()
        # Names that were created, replaced or deleted since the folder was synced, and the file they had before.
        # ``True`` marks the second name of a rename.
        self._renamed: list[tuple[str, Inode | None, bool]] = []

    def done(self, what: str) -> None:
        """Report a change to ``after_each``."""
        if self.after_each is not None:
            self.after_each(what)

    # Crashes

    def kill(self) -> CrashingStorage:
        """Return the folder as it is if every process that uses it is killed now: everything written is there, unsynced
        data stays unsynced, and no lock is held."""
        with self.changed:
            copies: dict[int, Inode] = {}

            def copy(inode: Inode) -> Inode:
                return copies.setdefault(id(inode), inode.copy())

            new = CrashingStorage(root=self.root, edge_bytes=self.edge_bytes)
            new._inodes = {name: copy(inode) for name, inode in self._inodes.items()}
            new._folders = set(self._folders)
            new._renamed = [(name, None if inode is None else copy(inode), two) for name, inode, two in self._renamed]
            return new

    def crash(self, seed: int, *, ordered_names: bool = False) -> CrashingStorage:
        """Return the folder as it is after a power cut now. The seed decides which unsynced data is lost, kept or torn;
        the same seed gives the same result."""
        rng = random.Random(seed)
        with self.changed:
            names: dict[str, Inode | None] = dict(self._inodes)
            if ordered_names:
                first = rng.randint(0, len(self._renamed))
                while first < len(self._renamed) and self._renamed[first][2]:
                    first += 1
                # The state before the first of these changes.
                names.update((name, inode) for name, inode, _ in reversed(self._renamed[first:]))
            else:
                for name in sorted({name for name, _, _ in self._renamed}):
                    past = [inode for changed, inode, _ in self._renamed if changed == name]
                    names[name] = rng.choice([*past, self._inodes.get(name)])
            new = CrashingStorage(root=f"{self.root}, power cut with seed {seed}", edge_bytes=self.edge_bytes)
            new._folders = set(self._folders)
            for name in sorted(names):
                inode = names[name]
                if inode is not None:
                    new._inodes[name] = Inode(inode.after_power_cut(rng), inode.mode)
            return new

    # Reading

    def entries(self, folder: str = "") -> Iterator[Entry]:
        """Yield the folder's entries."""
        for name in self.names(folder):
            inode = self._inodes.get(posixpath.join(folder, name))
            if inode is not None:
                yield Entry(name, True, False, len(inode.data), 0)
            else:
                yield Entry(name, False, True, 0, 0)

    def names(self, folder: str = "") -> list[str]:
        """Return the names in the folder, sorted."""
        with self.changed:
            if folder and not self._is_folder(folder):
                raise StoreUnavailable(folder, found=os.strerror(errno.ENOENT).lower(), expected="a folder")
            inside = f"{folder}/" if folder else ""
            everything = [*self._inodes, *self._folders]
            return sorted({name[len(inside) :].split("/")[0] for name in everything if name.startswith(inside)})

    def _is_folder(self, name: str) -> bool:
        return name in self._folders or any(file.startswith(f"{name}/") for file in self._inodes)

    def exists(self, name: str) -> bool:
        """Whether a file or folder has that name."""
        return not name or self._name(name) in self._inodes or self._is_folder(name)

    def size(self, name: str) -> int:
        """Return a file's size in bytes."""
        return len(self._find(name).data)

    def open(self, name: str) -> CrashingFile:
        """Open a file for reading."""
        with self.changed:
            return CrashingFile(self, self._find(name), name, is_writable=False)

    def read_all(self, name: str) -> bytes:
        """Return all bytes of a file."""
        with self.changed:
            return bytes(self._find(name).data)

    def forget(self) -> None:
        """Do nothing: this storage remembers nothing."""

    def _name(self, name: str) -> str:
        if name.startswith("/") or "\0" in name or ".." in name.split("/"):
            raise NotAStore(self.root, found=f"the name {name!r}", expected="a name inside the store's folder")
        return name

    def _find(self, name: str) -> Inode:
        inode = self._inodes.get(self._name(name))
        if inode is None:
            raise StoreUnavailable(name, found=os.strerror(errno.ENOENT).lower(), expected="a file")
        return inode

    def kept_length(self, name: str) -> int:
        """Return how many of the first bytes of a file a power cut certainly keeps, under this name."""
        with self.changed:
            inode = self._inodes.get(name)
            return 0 if inode is None or any(changed == name for changed, _, _ in self._renamed) else inode.kept_length

    def is_named(self, name: str, inode: Inode) -> bool:
        """Whether the name still belongs to that file."""
        return self._inodes.get(name) is inode

    # Writing

    def _set(self, name: str, inode: Inode | None, *, is_second: bool = False) -> None:
        self._renamed.append((name, self._inodes.get(name), is_second))
        if inode is None:
            self._inodes.pop(name, None)
        else:
            self._inodes[name] = inode

    def open_writable(
        self, name: str, *, create: bool = False, exclusive: bool = False, mode: int = 0o640
    ) -> CrashingFile:
        """Open for reading and writing; ``create`` makes a missing file, ``exclusive`` refuses an existing one."""
        with self.changed:
            inode = self._inodes.get(self._name(name))
            if inode is None and not create:
                raise write_failed(name, OSError(errno.ENOENT, os.strerror(errno.ENOENT)))
            if inode is not None and create and exclusive:
                raise write_failed(name, OSError(errno.EEXIST, os.strerror(errno.EEXIST)))
            if inode is None:
                inode = Inode(b"", mode)
                self._set(name, inode)
                self.done("create")
            return CrashingFile(self, inode, name, is_writable=True)

    def publish(self, name: str, data: bytes, *, replace: bool, mode: int = 0o640, sync: bool = False) -> bool:
        """See :class:`WritableStorage`. As on disk, a crash may leave the draft."""
        draft = f"{DRAFT_PREFIX}{os.urandom(4).hex()}"
        self._name(name)
        with self.changed:
            inode = Inode(b"", mode)
            self._set(draft, inode)
            self.done("create draft")
            inode.change((0, data))
            self.done("write draft")
            inode.sync()
            self.done("sync draft")
            if not replace and name in self._inodes:
                self._set(draft, None)
                return False
            self._set(name, inode)
            self.done("link")
            self._set(draft, None)
            self.done("remove draft")
        if sync:
            self.sync_folder(posixpath.dirname(name))
        return True

    def rename(self, draft: str, name: str) -> None:
        """Give a complete file its name, replacing any file of that name."""
        with self.changed:
            inode = self._inodes.get(self._name(draft))
            if inode is None:
                raise write_failed(draft, OSError(errno.ENOENT, os.strerror(errno.ENOENT)))
            self._set(self._name(name), inode)
            self._set(draft, None, is_second=True)
            self.done("rename")

    def remove(self, name: str) -> bool:
        """Delete a file; False if it did not exist. Calls ``before_remove`` with its name first."""
        self.before_remove(name)
        with self.changed:
            if self._name(name) not in self._inodes:
                return False
            self._set(name, None)
            self.done("remove")
        return True

    def sync_folder(self, folder: str = "") -> None:
        """Sync the names directly in the folder, not the files' content. A folder exists
        as soon as it contains a name."""
        with self.changed:
            self._renamed = [change for change in self._renamed if posixpath.dirname(change[0]) != folder]
            self.done("sync folder")

    def make_folder(self, folder: str) -> None:
        """Create a folder; its name is on disk at once."""
        with self.changed:
            self._folders.add(self._name(folder))
            self.done("make folder")

    def is_open_elsewhere(self, name: str) -> bool | None:
        """Whether the file is open in this storage."""
        inode = self._inodes.get(self._name(name))
        return None if inode is None else inode.open_count > 0

    def is_open_for_writing(self, name: str) -> bool | None:
        """Whether the file is open in this storage, for reading or writing."""
        return self.is_open_elsewhere(name)

    def may_be_written(self, name: str, quiet_s: float) -> bool:
        """Always false: writers here never write to a file that readers consider
        finished."""
        return False
