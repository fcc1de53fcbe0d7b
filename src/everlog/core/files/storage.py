"""Files, read-only: the one seam between everlog's readers and the disk.

Everything is read with ``pread`` in chunks: a file that another process cuts under a memory map is a SIGBUS, under
``pread`` it is a short read, which becomes :class:`FileChanged` or a torn record. :class:`Storage` is the local
folder; tests put a faulty twin in its place.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Iterator
from types import TracebackType
from typing import NamedTuple, Protocol, Self

from everlog.core.files.regular_files import EXPECTED, NotRegular, open_regular
from everlog.errors import FileChanged, LimitExceeded, NotAStore, StoreUnavailable

MAX_SMALL_FILE_BYTES = 256 << 20
"""``read_all`` refuses more: it is for metadata, not for segments."""

_ABSENT = frozenset((errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG))
"""What the system says where there is no such file; anything else is a look that failed."""


class ReadableFile(Protocol):
    """A file open for reading. ``read_at`` gives fewer bytes than asked for only at the end of the file.

    ``next_data`` gives the first offset, from ``offset`` on, that is not known to be in a hole: all bytes before it are
    zeros, and it is the size of the file if only a hole is left. A file that can't tell gives ``offset`` itself."""

    name: str

    def size(self) -> int: ...
    def read_at(self, offset: int, length: int) -> bytes: ...
    def read_into(self, offset: int, buffer: memoryview) -> int: ...
    def next_data(self, offset: int) -> int: ...
    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Entry(NamedTuple):
    """A name in a folder. ``size`` and ``mtime_ns`` are of the moment it was listed, and 0 for a folder."""

    name: str
    is_file: bool
    is_dir: bool
    size: int
    mtime_ns: int


class Storage(Protocol):
    """A folder tree. Names are relative, ``/``-separated, and can't leave the folder. One that is far away may remember
    what it listed, until ``forget``: for who looks again and again."""

    root: str

    def entries(self, folder: str = "") -> Iterator[Entry]: ...
    def names(self, folder: str = "") -> list[str]: ...
    def exists(self, name: str) -> bool: ...  # raises StoreUnavailable where that can't be told
    def size(self, name: str) -> int: ...
    def open(self, name: str) -> ReadableFile: ...
    def read_all(self, name: str) -> bytes: ...
    def forget(self) -> None: ...


def _unavailable(path: str, error: OSError) -> StoreUnavailable:
    if isinstance(error, NotRegular):
        return StoreUnavailable(path, found=error.strerror, expected=EXPECTED)
    return StoreUnavailable(path, found=(error.strerror or str(error)).lower(), expected="a readable file or folder")


def is_missing(error: StoreUnavailable) -> bool:
    """Whether it says that a store or a file of it, of any storage, is not there. Else it can't be looked at now, and
    may be there: who goes on without what is gone must not go on without that."""
    cause = error.__cause__
    if isinstance(cause, OSError):
        return isinstance(cause, FileNotFoundError) or cause.errno in _ABSENT | {errno.ESTALE}
    return cause is None


def open_patiently(path: str, flags: int, mode: int = 0o777) -> int:
    """``os.open``, tried again for a second where another process holds a lease: it only asks, for a moment, whether
    the file is open (:meth:`everlog.core.files.writable.WritableStorage.is_open_elsewhere`)."""
    for _ in range(1000):
        try:
            return os.open(path, flags, mode)
        except BlockingIOError:
            time.sleep(0.001)
    return os.open(path, flags, mode)


def is_file_name(text: str) -> bool:
    """Whether the system has bytes for the text: for half of a surrogate pair it has none."""
    try:
        return text.isascii() or bool(os.fsencode(text))
    except UnicodeEncodeError:
        return False


def is_folder(path: str) -> bool:
    """Whether there is a folder. Raises :class:`StoreUnavailable` where that can't be told."""
    found = _look(path)
    return found is not None and stat.S_ISDIR(found.st_mode)


def _look(path: str) -> os.stat_result | None:
    """``None`` where there is nothing of that name."""
    try:
        return os.stat(path)
    except OSError as error:
        if error.errno in _ABSENT:
            return None
        raise _unavailable(path, error) from error


class FileBase:
    """What files of every storage have on top of their reads."""

    __slots__ = ()

    def read_exactly(self: ReadableFile, offset: int, length: int) -> bytes:
        """``length`` bytes. Raises :class:`FileChanged` when the file is shorter than it was said to be."""
        data = self.read_at(offset, length)
        if len(data) != length:
            raise FileChanged(self.name, offset=offset, found=f"{len(data)} bytes", expected=f"{length} bytes")
        return data

    def next_data(self, offset: int) -> int:
        """``offset`` itself: nothing is known of holes."""
        return offset

    def close(self) -> None:
        """Give back what is held; a second call does nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class BytesFile(FileBase):
    """Bytes in memory, read as a file."""

    def __init__(self, name: str, data: bytes) -> None:
        self.name = name
        self._data = data

    def size(self) -> int:
        """Bytes."""
        return len(self._data)

    def read_at(self, offset: int, length: int) -> bytes:
        """Up to ``length`` bytes from ``offset``; fewer only at the end."""
        return self._data[offset : offset + length]

    def read_into(self, offset: int, buffer: memoryview) -> int:
        """Fill ``buffer`` from ``offset``; the count of bytes."""
        part = self._data[offset : offset + len(buffer)]
        buffer[: len(part)] = part
        return len(part)


class LocalFile(FileBase):
    """A local file, read with ``pread``."""

    __slots__ = ("_fd", "name")

    def __init__(self, path: str, name: str, flags: int = 0) -> None:
        self.name = name
        self._fd = -1
        try:
            self._fd = open_regular(path, os.O_RDONLY | flags, opener=open_patiently)
        except OSError as error:
            raise _unavailable(path, error) from error

    def size(self) -> int:
        """Bytes, now."""
        # Not by fstat: who asks for the times makes the next write give the file new ones, which slows its writer.
        return os.lseek(self._fd, 0, os.SEEK_END)

    def read_at(self, offset: int, length: int) -> bytes:
        """Up to ``length`` bytes from ``offset``; fewer only at the end of the file."""
        try:
            data = os.pread(self._fd, length, offset)
            while len(data) < length:
                more = os.pread(self._fd, length - len(data), offset + len(data))
                if not more:
                    break
                data += more
        except OSError as error:
            raise _unavailable(self.name, error) from error
        return data

    def read_into(self, offset: int, buffer: memoryview) -> int:
        """Fill ``buffer`` from ``offset``; returns the bytes read, fewer than its length only at the end of the
        file.
        """
        done, length = 0, len(buffer)
        try:
            while done < length:
                count = os.preadv(self._fd, [buffer[done:]], offset + done)
                if count == 0:
                    break
                done += count
        except OSError as error:
            raise _unavailable(self.name, error) from error
        return done

    def next_data(self, offset: int) -> int:
        """See :class:`ReadableFile`. Asks the file system, which also knows what was allocated and never written."""
        size = self.size()  # first: what is appended between the two calls must not count as a hole
        try:
            return os.lseek(self._fd, offset, os.SEEK_DATA)
        except OSError as error:
            # Any other error is a file system that can't tell; then a read says what is wrong.
            return max(offset, size) if error.errno == errno.ENXIO else offset

    def close(self) -> None:
        """Give the descriptor back; a second call does nothing."""
        fd, self._fd = self._fd, -1  # first: what is thrown between must not have another file closed later
        if fd >= 0:
            os.close(fd)

    def __del__(self) -> None:
        self.close()


class LocalStorage:
    """A local folder. Raises :class:`NotAStore` when ``root`` is no folder, :class:`StoreUnavailable` when it can't
    be looked at.
    """

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root = os.fspath(root)
        try:
            mode = os.stat(self.root).st_mode
        except OSError as error:
            raise _unavailable(self.root, error) from error
        except ValueError as error:  # a NUL byte in the path
            raise StoreUnavailable(repr(self.root), found=str(error), expected="a path") from error
        if not stat.S_ISDIR(mode):
            raise NotAStore(self.root, found="a file", expected="a store's folder")

    def path(self, name: str) -> str:
        """The path of ``name``. Raises :class:`NotAStore` for a name that would leave the folder."""
        if name.startswith("/") or "\0" in name or (".." in name and ".." in name.split("/")) or not is_file_name(name):
            raise NotAStore(self.root, found=f"the name {name!r}", expected="a name inside the store's folder")
        return os.path.join(self.root, name) if name else self.root

    def entries(self, folder: str = "") -> Iterator[Entry]:
        """What a folder holds, unsorted. Symbolic links that lead out of the store are listed as neither file nor
        folder.
        """
        path = self.path(folder)
        try:
            with os.scandir(path) as found:
                for entry in found:
                    yield self._entry(entry)
        except OSError as error:
            raise _unavailable(path, error) from error

    def _entry(self, entry: os.DirEntry[str]) -> Entry:
        try:
            if entry.is_symlink():
                if not self._is_inside(entry.path):
                    return Entry(entry.name, False, False, 0, 0)
            elif entry.is_dir():  # known from the listing: no system call
                return Entry(entry.name, False, True, 0, 0)
            status = entry.stat()
        except OSError as error:
            if error.errno not in _ABSENT:
                raise  # who takes it for no file reads past what is in it
            return Entry(entry.name, False, False, 0, 0)  # a dangling link, or gone since it was listed
        mode = status.st_mode
        if stat.S_ISDIR(mode):
            return Entry(entry.name, False, True, 0, 0)
        return Entry(entry.name, stat.S_ISREG(mode), False, status.st_size, status.st_mtime_ns)

    def _is_inside(self, path: str) -> bool:
        root = os.path.realpath(self.root)
        return os.path.commonpath([root, os.path.realpath(path)]) == root

    def names(self, folder: str = "") -> list[str]:
        """The names in a folder, unsorted, without looking at each file."""
        path = self.path(folder)
        try:
            return os.listdir(path)
        except OSError as error:
            raise _unavailable(path, error) from error

    def exists(self, name: str) -> bool:
        """Whether there is a file or folder of that name. Raises :class:`StoreUnavailable` where that can't be told:
        who takes a file for deleted goes on without what is in it."""
        return _look(self.path(name)) is not None

    def size(self, name: str) -> int:
        """Bytes of a file."""
        path = self.path(name)
        try:
            return os.stat(path).st_size
        except OSError as error:
            raise _unavailable(path, error) from error

    def open(self, name: str) -> LocalFile:
        """Open a file for reading. A symbolic link that leads out of the store is refused."""
        path = self.path(name)
        try:
            return LocalFile(path, name, os.O_NOFOLLOW)
        except StoreUnavailable as error:
            if not (isinstance(error.__cause__, OSError) and error.__cause__.errno == errno.ELOOP):
                raise
        if os.path.islink(path) and not self._is_inside(path):
            raise StoreUnavailable(path, found="a symbolic link out of the store", expected="a file inside it")
        return LocalFile(path, name)

    def read_all(self, name: str) -> bytes:
        """A small file, whole. Raises :class:`LimitExceeded` over ``MAX_SMALL_FILE_BYTES``."""
        with self.open(name) as file:
            size = file.size()
            if size > MAX_SMALL_FILE_BYTES:
                raise LimitExceeded(name, found=f"{size} bytes", expected=f"at most {MAX_SMALL_FILE_BYTES}")
            return file.read_at(0, size)

    def forget(self) -> None:
        """Nothing is remembered."""
