"""Writable files: the seam between everlog's writers and the disk.

A writer gets a :class:`WritableStorage`. :class:`LocalWritableStorage` is a local folder; tests substitute storages
that fail or lose what was not synced.

Locks are those that other programs see too (:mod:`everlog.core.files.locks`). They belong to the open file, which a
forked child shares: the child closes what its parent has open for writing, and closing a file releases its lock first.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import mmap
import os
import posixpath
import stat
import sys
import time
from collections.abc import Iterator
from typing import Any, Protocol

from everlog.core.files.locks import Lease, gets_lease, is_locked, set_lock
from everlog.core.files.mounts import file_system_of
from everlog.core.files.regular_files import EXPECTED, NotRegular, open_regular
from everlog.core.files.storage import LocalFile, LocalStorage, ReadableFile, Storage, open_patiently
from everlog.core.forking import OpenObjects
from everlog.errors import UsageError, WriteFailed

_IS_LINUX = sys.platform.startswith("linux")
DRAFT_PREFIX = ".everlog-"
"""Prefix of files that are not published yet; a crash may leave them."""
_RESERVING = frozenset({"ext2", "ext3", "ext4", "tmpfs", "xfs"})
"""File systems on which a reserved block can always be written. On others, storing to a mapped page may kill the
process."""
_HINTS = {
    errno.ENOSPC: "free space, then continue: nothing was left half written",
    errno.EDQUOT: "the user's quota is used up",
    errno.EFBIG: "raise the limit of file sizes (ulimit -f)",
    errno.EROFS: "the file system is mounted read-only",
    errno.EACCES: "this user needs write permission for the folder",
    errno.EPERM: "this user needs write permission for the folder",
}


class WritableFile(ReadableFile, Protocol):
    """A file open for reading and writing."""

    def write_at(self, offset: int, data: Any) -> None:
        """Write all of a bytes-like object. Raises :class:`WriteFailed`; part of it may then be in the file.

        A crash during the call leaves a part; a power cut before ``sync`` leaves any part, or zeros.
        """

    def truncate(self, size: int) -> None:
        """Cut the file, or extend it with zeros. Raises :class:`WriteFailed`."""

    def sync(self, *, times: bool = False) -> None:
        """Return when everything written is on disk, with ``times`` also the file's times. Raises :class:`WriteFailed`:
        the data must then count as lost."""

    def lock(self, *, wait: bool = True) -> bool:
        """Lock the whole file against other processes, and against other open files of this one; False if another
        holder has the lock and ``wait`` is false. Closing the file unlocks it."""

    def unlock(self) -> None:
        """Release the lock."""

    def mode(self) -> int:
        """The permission bits."""

    def hold(self) -> bool:
        """Mark the file as in use until it is closed or the process dies; False if it is held already. Independent of
        ``lock``, and seen by everlog only."""

    def is_current(self) -> bool:
        """Whether the file's name still refers to it: it was neither deleted nor replaced. Raises :class:`WriteFailed`
        if the check fails."""


class WritableStorage(Storage, Protocol):
    """A writable folder."""

    def open_writable(
        self, name: str, *, create: bool = False, exclusive: bool = False, mode: int = 0o640
    ) -> WritableFile:
        """Open for reading and writing. ``create`` makes a missing file, with exactly ``mode``; ``exclusive`` refuses
        an existing one. Raises :class:`WriteFailed`."""

    def publish(self, name: str, data: bytes, *, replace: bool, mode: int = 0o640, sync: bool = False) -> bool:
        """Make a file appear with its content at once: nobody sees it empty or in part, and after a crash it exists
        completely or not at all. False if it exists and ``replace`` is false. With ``sync`` it is on disk on return. A
        replacing file takes over owner and group, as far as this user may set them."""

    def rename(self, draft: str, name: str) -> None:
        """Atomically give a complete file its name, replacing any file of that name. Raises :class:`WriteFailed`; then
        nothing has changed."""

    def remove(self, name: str) -> bool:
        """Delete a file; False if it did not exist. Raises :class:`WriteFailed`."""

    def sync_folder(self, folder: str = "") -> None:
        """Return when created and deleted names are on disk, those directly in the store's folder or in ``folder``
        inside it. Raises :class:`WriteFailed`."""

    def make_folder(self, folder: str) -> None:
        """Create a folder directly in the store's; an existing one is left unchanged. On return its name is on disk.
        Raises :class:`WriteFailed`."""

    def is_open_elsewhere(self, name: str) -> bool | None:
        """Whether any process, including this one, has the file open; ``None`` if the system can't say."""

    def is_open_for_writing(self, name: str) -> bool | None:
        """Whether any process, including this one, has the file open for writing; ``None`` if the system can't say."""

    def may_be_written(self, name: str, quiet_s: float) -> bool:
        """Whether somebody may still be writing the file: it was modified within ``quiet_s``, and a process has it open
        for writing or the system can't say."""


def write_failed(where: str, error: OSError) -> WriteFailed:
    """The error for an :class:`OSError` while writing."""
    if isinstance(error, NotRegular):
        return WriteFailed(where, found=error.strerror, expected=EXPECTED, message=error.sentence(where))
    found = (error.strerror or str(error)).lower()
    return WriteFailed(
        where,
        found=found,
        expected="a writable file",
        hint=_HINTS.get(error.errno or 0),
        message=f"can't write {where}: {found}",
    )


class LocalWritableFile(LocalFile):
    """A local file, written with ``pwrite``. Closed in forked children."""

    __slots__ = ("__weakref__", "_locker", "_path")

    def __init__(self, path: str, name: str, flags: int, mode: int) -> None:
        self.name = name
        self._path = path
        self._fd = -1
        self._locker = 0
        _files.add(self)
        try:
            self._fd = open_regular(path, os.O_RDWR | os.O_NOFOLLOW | flags, mode, opener=open_patiently)
        except OSError as error:
            self.close()
            if error.errno == errno.ELOOP:
                error = OSError(errno.ELOOP, "it is a symbolic link")
            raise write_failed(path, error) from error

    def fileno(self) -> int:
        """The descriptor, for compiled loops."""
        return self._fd

    @property
    def path(self) -> str:
        """The path that was opened, for compiled loops."""
        return self._path

    def write_at(self, offset: int, data: Any) -> None:
        """Write all of a bytes-like object with ``pwrite``. Raises :class:`WriteFailed`; a part may stay."""
        view = memoryview(data).cast("B")
        done = 0
        try:
            while done < len(view):
                done += os.pwrite(self._fd, view[done:], offset + done)
        except OSError as error:
            raise write_failed(self.name, error) from error

    def window(self, offset: int, length: int) -> mmap.mmap | None:
        """Map a part of the file, within its length and starting at a multiple of ``mmap.ALLOCATIONGRANULARITY``. Bytes
        stored there are written and survive the death of the process. Its blocks are reserved; ``None`` if they can't
        be, or if the file system does not honour reservations. Release the window before cutting the file."""
        try:
            if file_system_of(self._fd) not in _RESERVING:
                return None
            os.posix_fallocate(self._fd, offset, length)
            return mmap.mmap(self._fd, length, offset=offset)
        except (OSError, ValueError):  # a full disk, a quota: the next write reports it
            return None

    def truncate(self, size: int) -> None:
        """Cut the file, or extend it with zeros. Raises :class:`WriteFailed`."""
        try:
            os.ftruncate(self._fd, size)
        except OSError as error:
            raise write_failed(self.name, error) from error

    def sync(self, *, times: bool = False) -> None:
        """Call ``fdatasync``, with ``times`` ``fsync``. Raises :class:`WriteFailed`."""
        try:
            if _IS_LINUX:
                (os.fsync if times else os.fdatasync)(self._fd)
            else:
                fcntl.fcntl(self._fd, getattr(fcntl, "F_FULLFSYNC", 51))
        except OSError as error:
            raise write_failed(self.name, error) from error

    def lock(self, *, wait: bool = True) -> bool:
        """Lock the whole file; False if another holder has the lock and ``wait`` is false."""
        self._locker = os.getpid()
        return self._set_lock(fcntl.F_WRLCK, wait=wait)

    def unlock(self) -> None:
        """Release the lock."""
        self._set_lock(fcntl.F_UNLCK, wait=True)

    def _set_lock(self, kind: int, *, wait: bool) -> bool:
        try:
            return set_lock(self._fd, kind, wait=wait)
        except OSError as error:
            raise write_failed(self.name, error) from error

    def mode(self) -> int:
        """The permission bits."""
        return stat.S_IMODE(os.fstat(self._fd).st_mode)

    def hold(self) -> bool:
        """Mark the file as in use until it is closed; False if it is held already."""
        self._locker = os.getpid()
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno == errno.EWOULDBLOCK:
                return False
            raise write_failed(self.name, error) from error
        return True

    def is_current(self) -> bool:
        """Whether the file's name still refers to this file."""
        if self._fd < 0:
            return False
        try:
            return os.path.samestat(os.fstat(self._fd), os.stat(self._path, follow_symlinks=False))
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:  # such as a folder without permission: the file was not replaced
            raise write_failed(self._path, error) from error

    def close(self) -> None:
        """Release locks and close the descriptor. A second call does nothing."""
        if self._fd >= 0 and self._locker == os.getpid():
            # A child forked at this moment may still have the open file, and would keep the locks.
            with contextlib.suppress(WriteFailed, OSError):
                self._set_lock(fcntl.F_UNLCK, wait=True)
                fcntl.flock(self._fd, fcntl.LOCK_UN)
        super().close()


_files = OpenObjects[LocalWritableFile](lambda file: file.close())


@contextlib.contextmanager
def locked(file: WritableFile) -> Iterator[None]:
    """Hold a file's lock for the duration of the block."""
    file.lock()
    try:
        yield
    finally:
        file.unlock()


class LocalWritableStorage(LocalStorage):
    """A writable local folder. Raises as :class:`LocalStorage` does. ``root`` is absolute, so ``chdir`` does not affect
    it."""

    def __init__(self, root: str | os.PathLike[str]) -> None:
        super().__init__(root)
        self.root = _absolute(self.root)

    def open_writable(
        self, name: str, *, create: bool = False, exclusive: bool = False, mode: int = 0o640
    ) -> LocalWritableFile:
        """Open for reading and writing; ``create`` makes a missing file, ``exclusive`` refuses an existing one."""
        path = self.path(name)
        flags = os.O_CREAT | (os.O_EXCL if exclusive else 0) if create else 0
        is_new = create and not os.path.exists(path)
        file = LocalWritableFile(path, name, flags, mode)
        if is_new:
            self._own(file, mode)
        return file

    def _own(self, file: LocalWritableFile, mode: int, replaced: str | None = None) -> None:
        """Give a new file its mode, whatever the umask is, and owner and group of the file it replaces. If root creates
        a file that replaces none, it goes to the folder's owner, so that the owner's processes can continue."""
        with contextlib.suppress(OSError):
            os.fchmod(file.fileno(), mode)
        with contextlib.suppress(OSError):
            is_root = os.geteuid() == 0
            if replaced is not None and os.path.lexists(replaced):
                like = os.stat(replaced, follow_symlinks=False)
                if is_root or like.st_gid != os.fstat(file.fileno()).st_gid:
                    os.fchown(file.fileno(), like.st_uid if is_root else -1, like.st_gid)
            elif is_root:
                folder = os.stat(self.root)
                os.fchown(file.fileno(), folder.st_uid, folder.st_gid)

    def publish(self, name: str, data: bytes, *, replace: bool, mode: int = 0o640, sync: bool = False) -> bool:
        """Write a draft, then link or rename it to ``name``; False if the name is taken and ``replace`` is false."""
        path, draft = self.path(name), self.path(f"{DRAFT_PREFIX}{os.getpid()}-{os.urandom(4).hex()}")
        try:
            with LocalWritableFile(draft, name, os.O_CREAT | os.O_EXCL, mode) as file:
                self._own(file, mode, path if replace else None)
                file.write_at(0, data)
                file.sync()  # always: after a power cut the name could exist without its content
            if replace:
                os.replace(draft, path)
            else:
                os.link(draft, path)
        except FileExistsError:
            return False
        except OSError as error:
            raise write_failed(path, error) from error
        finally:
            with contextlib.suppress(OSError):
                os.unlink(draft)
        if sync:
            self.sync_folder(posixpath.dirname(name))
        return True

    def rename(self, draft: str, name: str) -> None:
        """Atomically give a complete file its name, replacing any file of that name."""
        path = self.path(name)
        try:
            os.replace(self.path(draft), path)
        except OSError as error:
            raise write_failed(path, error) from error

    def remove(self, name: str) -> bool:
        """Delete a file; False if it did not exist."""
        path = self.path(name)
        try:
            os.unlink(path)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise write_failed(path, error) from error
        return True

    def sync_folder(self, folder: str = "") -> None:
        """Return when created and deleted names are on disk."""
        path = self.path(folder)
        try:
            _sync_names(path)
        except OSError as error:
            raise write_failed(path, error) from error

    def make_folder(self, folder: str) -> None:
        """Create a folder in the store's, with the permissions that the umask leaves."""
        make_folder(self.path(folder))

    def is_open_elsewhere(self, name: str) -> bool | None:
        """See :class:`WritableStorage`. A write lease is granted only if nobody else has the file open (Linux, the
        file's owner)."""
        is_free = gets_lease(self.path(name), Lease.WRITE)
        return None if is_free is None else not is_free

    def is_open_for_writing(self, name: str) -> bool | None:
        """See :class:`WritableStorage`. A read lease is granted only if nobody has the file open for writing (Linux,
        the file's owner)."""
        is_free = gets_lease(self.path(name), Lease.READ)
        return None if is_free is None else not is_free

    def is_locked(self, name: str) -> bool:
        """Whether the file is locked at this moment. Takes no lock and needs no write permission. False if the system
        can't say (not Linux)."""
        return is_locked(self.path(name))

    def may_be_written(self, name: str, quiet_s: float) -> bool:
        """See :class:`WritableStorage`. A read lease is granted only if nobody has the file open for writing."""
        path = self.path(name)
        try:
            age_s = time.time() - os.stat(path).st_mtime
        except OSError:
            return False
        return abs(age_s) < quiet_s and gets_lease(path, Lease.READ) is not True


def make_folder(path: str, mode: int = 0o777) -> None:
    """Create a folder and its missing parents; an existing one is left unchanged. On return their names are on disk,
    except in parents that may not be read. Raises :class:`WriteFailed`."""
    above = _absolute(path)
    made = []
    while not os.path.isdir(above):
        above = os.path.dirname(above)
        made.append(above)
    try:
        os.makedirs(path, mode, exist_ok=True)
        # Also if it existed: its creator may have been killed before syncing.
        for folder in made or [os.path.dirname(above)]:
            with contextlib.suppress(PermissionError):
                _sync_names(folder)
    except OSError as error:
        raise write_failed(path, error) from error
    except RecursionError:  # makedirs recurses once per folder
        raise write_failed(path[:80], OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))) from None
    except ValueError as error:  # a NUL byte, or a character that file names can't have
        message = f"{path!a} is not a path: {error}"
        raise WriteFailed(ascii(path), found=str(error), expected="a path", message=message) from error


def _sync_names(folder: str) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _absolute(path: str) -> str:
    """Make a path absolute without resolving ``..``, which after a symbolic link leads elsewhere."""
    if os.path.isabs(path):
        return path
    try:
        here = os.getcwd()
    except OSError as error:  # the process is in a folder that was deleted
        raise write_failed(path, error) from error
    whole = os.path.join(here, path)
    return whole if ".." in path.split("/") else os.path.normpath(whole)


def writable(storage: Storage) -> WritableStorage:
    """The same folder, for writing. Raises :class:`UsageError` if it is not local."""
    if hasattr(storage, "open_writable"):
        found: WritableStorage = storage  # type: ignore[assignment]
        return found
    if isinstance(storage, LocalStorage):
        return LocalWritableStorage(storage.root)
    message = f"{storage.root} is not a local folder; only local stores can be written"
    raise UsageError(storage.root, found="a remote store", expected="a local folder", message=message)
