"""Files that are written: the seam between everlog's writers and the disk.

A writer is handed a :class:`WritableStorage`. :class:`LocalWritableStorage` is the local folder; tests put a twin in
its place that fails, or forgets what was not synced.

Locks are those that other programs see too (:mod:`everlog.core.files.locks`). They belong to the open file, which a
forked child has too: it closes what its parent has open for writing, and whoever closes a file gives its lock back
first.
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
"""Files that are not published yet; a crash may leave them."""
_RESERVING = frozenset({"ext2", "ext3", "ext4", "tmpfs", "xfs"})
"""File systems on which a block that was reserved can always be written: where it can't, a store to a mapped page ends
the process."""
_HINTS = {
    errno.ENOSPC: "free space, then go on: nothing half written was left",
    errno.EDQUOT: "the user's quota is used up",
    errno.EFBIG: "raise the limit of file sizes (ulimit -f)",
    errno.EROFS: "the file system is mounted read-only",
    errno.EACCES: "who owns the folder? it must be writable for this user",
    errno.EPERM: "who owns the folder? it must be writable for this user",
}


class WritableFile(ReadableFile, Protocol):
    """A file open for reading and writing."""

    def write_at(self, offset: int, data: Any) -> None:
        """Write all of a bytes-like object. Raises :class:`WriteFailed`; a part of it may then be there.

        A crash in it leaves a part; a power cut, before ``sync``, any part or zeros.
        """

    def truncate(self, size: int) -> None:
        """Cut, or lengthen with zeros. Raises :class:`WriteFailed`."""

    def sync(self, *, times: bool = False) -> None:
        """Return when what was written is on disk, with ``times`` the file's times, too. Raises :class:`WriteFailed`:
        it must then be taken as lost."""

    def lock(self, *, wait: bool = True) -> bool:
        """Lock the whole file against other processes, and other open files of this one; False when somebody has it and
        ``wait`` is false. Closing gives it back."""

    def unlock(self) -> None:
        """Give the lock back."""

    def mode(self) -> int:
        """Permission bits."""

    def hold(self) -> bool:
        """Mark the file as in use, until it is closed or the process dies. Independent of ``lock``, and seen by everlog
        only. False when somebody holds it."""

    def is_current(self) -> bool:
        """Whether its name still is this file's: it was not deleted, nor another one put in its place. Raises
        :class:`WriteFailed` when that can't be told."""


class WritableStorage(Storage, Protocol):
    """A folder whose files are written."""

    def open_writable(
        self, name: str, *, create: bool = False, exclusive: bool = False, mode: int = 0o640
    ) -> WritableFile:
        """Open for reading and writing; ``create`` makes it where there is none, with exactly ``mode``; ``exclusive``
        refuses one that exists. Raises :class:`WriteFailed`."""

    def publish(self, name: str, data: bytes, *, replace: bool, mode: int = 0o640, sync: bool = False) -> bool:
        """Make a file appear with its content at once; never seen empty or in part, after a crash either it is there or
        it is not. False when there is one and ``replace`` is false. With ``sync`` it is on disk on return. One that
        takes another's place has its owner and group, as far as this user may give them."""

    def rename(self, draft: str, name: str) -> None:
        """Give a file that is complete its name, at once, in place of a file that has it. Raises :class:`WriteFailed`;
        then nothing has changed."""

    def remove(self, name: str) -> bool:
        """Delete a file; False when there was none. Raises :class:`WriteFailed`."""

    def sync_folder(self, folder: str = "") -> None:
        """Return when names that were made or deleted are on disk, those right in the folder or in one inside it.
        Raises :class:`WriteFailed`."""

    def is_open_elsewhere(self, name: str) -> bool | None:
        """Whether any process, this one included, has the file open; ``None`` where the system does not tell."""

    def may_be_written(self, name: str, quiet_s: float) -> bool:
        """Whether somebody may write on to the file: it was written within ``quiet_s``, and a process has it open for
        writing, or the system does not tell."""


def write_failed(where: str, error: OSError) -> WriteFailed:
    """The error for what the operating system said."""
    if isinstance(error, NotRegular):
        return WriteFailed(where, found=error.strerror, expected=EXPECTED)
    return WriteFailed(
        where,
        found=(error.strerror or str(error)).lower(),
        expected="a file that can be written",
        hint=_HINTS.get(error.errno or 0),
    )


class LocalWritableFile(LocalFile):
    """A local file, written with ``pwrite``. A forked child has it closed."""

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
                error = OSError(errno.ELOOP, "a symbolic link")
            raise write_failed(path, error) from error

    def fileno(self) -> int:
        """The descriptor, for compiled loops."""
        return self._fd

    @property
    def path(self) -> str:
        """As it was opened, for compiled loops."""
        return self._path

    def write_at(self, offset: int, data: Any) -> None:
        """See :class:`WritableFile`."""
        view = memoryview(data).cast("B")
        done = 0
        try:
            while done < len(view):
                done += os.pwrite(self._fd, view[done:], offset + done)
        except OSError as error:
            raise write_failed(self.name, error) from error

    def window(self, offset: int, length: int) -> mmap.mmap | None:
        """A part of the file, inside its length and from a multiple of ``mmap.ALLOCATIONGRANULARITY`` on, as memory:
        what is stored there is written, and survives the death of the process. Its blocks are reserved. ``None`` where
        they can't be, or where the file system does not hold to that. Who cuts the file lets go of the window first."""
        try:
            if file_system_of(self._fd) not in _RESERVING:
                return None
            os.posix_fallocate(self._fd, offset, length)
            return mmap.mmap(self._fd, length, offset=offset)
        except (OSError, ValueError):  # a full disk, a quota: the next write tells it
            return None

    def truncate(self, size: int) -> None:
        """See :class:`WritableFile`."""
        try:
            os.ftruncate(self._fd, size)
        except OSError as error:
            raise write_failed(self.name, error) from error

    def sync(self, *, times: bool = False) -> None:
        """See :class:`WritableFile`."""
        try:
            if _IS_LINUX:
                (os.fsync if times else os.fdatasync)(self._fd)
            else:
                fcntl.fcntl(self._fd, getattr(fcntl, "F_FULLFSYNC", 51))
        except OSError as error:
            raise write_failed(self.name, error) from error

    def lock(self, *, wait: bool = True) -> bool:
        """See :class:`WritableFile`."""
        self._locker = os.getpid()
        return self._set_lock(fcntl.F_WRLCK, wait=wait)

    def unlock(self) -> None:
        """See :class:`WritableFile`."""
        self._set_lock(fcntl.F_UNLCK, wait=True)

    def _set_lock(self, kind: int, *, wait: bool) -> bool:
        try:
            return set_lock(self._fd, kind, wait=wait)
        except OSError as error:
            raise write_failed(self.name, error) from error

    def mode(self) -> int:
        """See :class:`WritableFile`."""
        return stat.S_IMODE(os.fstat(self._fd).st_mode)

    def hold(self) -> bool:
        """See :class:`WritableFile`."""
        self._locker = os.getpid()
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno == errno.EWOULDBLOCK:
                return False
            raise write_failed(self.name, error) from error
        return True

    def is_current(self) -> bool:
        """See :class:`WritableFile`."""
        if self._fd < 0:
            return False
        try:
            return os.path.samestat(os.fstat(self._fd), os.stat(self._path, follow_symlinks=False))
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:  # such as a folder that may not be looked into for now: nobody took the file's place
            raise write_failed(self._path, error) from error

    def close(self) -> None:
        """Give locks and descriptor back; a second call does nothing."""
        if self._fd >= 0 and self._locker == os.getpid():
            # A child that was forked this moment may have the open file still, and would have the locks with it.
            with contextlib.suppress(WriteFailed, OSError):
                self._set_lock(fcntl.F_UNLCK, wait=True)
                fcntl.flock(self._fd, fcntl.LOCK_UN)
        super().close()


_files = OpenObjects[LocalWritableFile](lambda file: file.close())


@contextlib.contextmanager
def locked(file: WritableFile) -> Iterator[None]:
    """Around what is done under a file's lock."""
    file.lock()
    try:
        yield
    finally:
        file.unlock()


class LocalWritableStorage(LocalStorage):
    """A local folder that is written. Raises as :class:`LocalStorage` does. It stays that folder when the process goes
    to another one (``chdir``): ``root`` is absolute."""

    def __init__(self, root: str | os.PathLike[str]) -> None:
        super().__init__(root)
        self.root = _absolute(self.root)

    def open_writable(
        self, name: str, *, create: bool = False, exclusive: bool = False, mode: int = 0o640
    ) -> LocalWritableFile:
        """See :class:`WritableStorage`."""
        path = self.path(name)
        flags = os.O_CREAT | (os.O_EXCL if exclusive else 0) if create else 0
        is_new = create and not os.path.exists(path)
        file = LocalWritableFile(path, name, flags, mode)
        if is_new:
            self._own(file, mode)
        return file

    def _own(self, file: LocalWritableFile, mode: int, replaced: str | None = None) -> None:
        """Give a new file its mode, whatever the umask is, and owner and group of the file that it replaces; made by
        root where there was none, it goes to the folder's owner: so the owner's processes can go on."""
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
        """See :class:`WritableStorage`."""
        path, draft = self.path(name), self.path(f"{DRAFT_PREFIX}{os.getpid()}-{os.urandom(4).hex()}")
        try:
            with LocalWritableFile(draft, name, os.O_CREAT | os.O_EXCL, mode) as file:
                self._own(file, mode, path if replace else None)
                file.write_at(0, data)
                file.sync()  # always: after a power cut the name could be there, and the content not
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
        """See :class:`WritableStorage`."""
        path = self.path(name)
        try:
            os.replace(self.path(draft), path)
        except OSError as error:
            raise write_failed(path, error) from error

    def remove(self, name: str) -> bool:
        """See :class:`WritableStorage`."""
        path = self.path(name)
        try:
            os.unlink(path)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise write_failed(path, error) from error
        return True

    def sync_folder(self, folder: str = "") -> None:
        """See :class:`WritableStorage`."""
        path = self.path(folder)
        try:
            _sync_names(path)
        except OSError as error:
            raise write_failed(path, error) from error

    def is_open_elsewhere(self, name: str) -> bool | None:
        """See :class:`WritableStorage`. A write lease is given only for a file that nobody else has open (Linux, the
        file's owner)."""
        is_free = gets_lease(self.path(name), Lease.WRITE)
        return None if is_free is None else not is_free

    def is_locked(self, name: str) -> bool:
        """Whether somebody has the file's lock this moment. Only asks: no lock is taken, nor a right to write needed.
        False where the system does not tell (not Linux)."""
        return is_locked(self.path(name))

    def may_be_written(self, name: str, quiet_s: float) -> bool:
        """See :class:`WritableStorage`. A read lease is given only for a file that nobody has open for writing."""
        path = self.path(name)
        try:
            age_s = time.time() - os.stat(path).st_mtime
        except OSError:
            return False
        return abs(age_s) < quiet_s and gets_lease(path, Lease.READ) is not True


def make_folder(path: str, mode: int = 0o777) -> None:
    """Make a folder, and with it those that are missing above; one that is there stays as it is. On return their names
    are on disk, but for one in a folder that may not be read. Raises :class:`WriteFailed`."""
    above = _absolute(path)
    made = []
    while not os.path.isdir(above):
        above = os.path.dirname(above)
        made.append(above)
    try:
        os.makedirs(path, mode, exist_ok=True)
        # Also where it was there: who made it may have been killed before this.
        for folder in made or [os.path.dirname(above)]:
            with contextlib.suppress(PermissionError):
                _sync_names(folder)
    except OSError as error:
        raise write_failed(path, error) from error
    except RecursionError:  # makedirs goes down folder by folder
        raise write_failed(path[:80], OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))) from None
    except ValueError as error:  # a NUL byte, or a character that no file name has
        raise WriteFailed(ascii(path), found=str(error), expected="a path") from error


def _sync_names(folder: str) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _absolute(path: str) -> str:
    """Without ``..`` being resolved, which behind a symbolic link leads elsewhere."""
    if os.path.isabs(path):
        return path
    try:
        here = os.getcwd()
    except OSError as error:  # the process is in a folder that was deleted
        raise write_failed(path, error) from error
    whole = os.path.join(here, path)
    return whole if ".." in path.split("/") else os.path.normpath(whole)


def writable(storage: Storage) -> WritableStorage:
    """The same folder, to be written. Raises :class:`UsageError` for one that is not local."""
    if hasattr(storage, "open_writable"):
        found: WritableStorage = storage  # type: ignore[assignment]
        return found
    if isinstance(storage, LocalStorage):
        return LocalWritableStorage(storage.root)
    raise UsageError(storage.root, found="a store that is not on this machine", expected="a local folder")
