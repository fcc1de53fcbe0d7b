"""Read-only file access: the one seam between everlog's readers and the disk.

Everything is read with ``pread`` in chunks. If another process cuts a file, a memory map raises SIGBUS; ``pread``
returns fewer bytes, which become :class:`FileChanged` or a torn record. :class:`LocalStorage` is a local folder; tests
substitute a faulty :class:`Storage`.
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
"""Upper limit of ``read_all``, which is for metadata, not for segments."""

_ABSENT = frozenset((errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG))
"""Error numbers that mean that the file does not exist; with any other the check itself failed."""


class ReadableFile(Protocol):
    """A file open for reading. ``read_at`` returns fewer bytes than requested only at the end of the file.

    ``next_data`` returns the first offset from ``offset`` on that is not known to be in a hole: all bytes before it are
    zeros. It is the file's size if only a hole is left, and ``offset`` itself if holes are unknown.
    """

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
    """A name in a folder. ``size`` and ``mtime_ns`` are those at listing time, and 0 for a folder."""

    name: str
    is_file: bool
    is_dir: bool
    size: int
    mtime_ns: int


class Storage(Protocol):
    """A folder tree. Names are relative, separated by ``/``, and can't leave the folder. A remote storage may cache
    listings until ``forget``, which pollers call before each poll."""

    root: str

    def entries(self, folder: str = "") -> Iterator[Entry]: ...
    def names(self, folder: str = "") -> list[str]: ...
    def exists(self, name: str) -> bool: ...  # raises StoreUnavailable if the check fails
    def size(self, name: str) -> int: ...
    def open(self, name: str) -> ReadableFile: ...
    def read_all(self, name: str) -> bytes: ...
    def forget(self) -> None: ...


def _unavailable(path: str, error: OSError) -> StoreUnavailable:
    if isinstance(error, NotRegular):
        return StoreUnavailable(path, found=error.strerror, expected=EXPECTED, message=error.sentence(path))
    found = (error.strerror or str(error)).lower()
    return StoreUnavailable(path, found=found, expected="a readable file or folder", message=f"{found}: {path}")


def is_missing(error: StoreUnavailable) -> bool:
    """Whether the error says that a store, or a file of it, does not exist, for any storage. Otherwise it can't be read
    now but may exist. Callers that skip deleted stores must not skip an unreachable one."""
    cause = error.__cause__
    if isinstance(cause, OSError):
        return isinstance(cause, FileNotFoundError) or cause.errno in _ABSENT | {errno.ESTALE}
    return cause is None


def open_patiently(path: str, flags: int, mode: int = 0o777) -> int:
    """As ``os.open``, but retries for a second while another process holds a lease: processes take one only for a
    moment, to find out whether the file is open
    (:meth:`everlog.core.files.writable.WritableStorage.is_open_elsewhere`)."""
    for _ in range(1000):
        try:
            return os.open(path, flags, mode)
        except BlockingIOError:
            time.sleep(0.001)
    return os.open(path, flags, mode)


def is_file_name(text: str) -> bool:
    """Whether the text can be encoded as a file name; a lone surrogate may not be."""
    try:
        return text.isascii() or bool(os.fsencode(text))
    except UnicodeEncodeError:
        return False


def is_folder(path: str) -> bool:
    """Whether the path is a folder. Raises :class:`StoreUnavailable` if the check fails."""
    found = _stat_if_present(path)
    return found is not None and stat.S_ISDIR(found.st_mode)


def _stat_if_present(path: str) -> os.stat_result | None:
    """``None`` if nothing has this name."""
    try:
        return os.stat(path)
    except OSError as error:
        if error.errno in _ABSENT:
            return None
        raise _unavailable(path, error) from error


def not_a_folder(path: str) -> NotAStore:
    """The error for a store's path that names a file."""
    message = f"{path} is a file; give the store's folder"
    return NotAStore(path, found="a file", expected="a store's folder", message=message)


def not_inside(root: str, name: str) -> NotAStore:
    """The error for a name that would leave the store's folder."""
    message = f"{name!r} is not a name inside {root}"
    return NotAStore(root, found=f"the name {name!r}", expected="a name inside the store's folder", message=message)


class FileBase:
    """Common methods of all storages' files."""

    __slots__ = ()

    def read_exactly(self: ReadableFile, offset: int, length: int) -> bytes:
        """Read ``length`` bytes. Raises :class:`FileChanged` if the file has become shorter."""
        data = self.read_at(offset, length)
        if len(data) != length:
            found, expected = f"{len(data)} bytes", f"{length} bytes"
            message = f"{self.name} was cut while being read: {found} at offset {offset}, expected {expected}"
            raise FileChanged(self.name, offset=offset, found=found, expected=expected, message=message)
        return data

    def next_data(self, offset: int) -> int:
        """``offset`` itself: nothing is known of holes."""
        return offset

    def close(self) -> None:
        """Release what is held. A second call does nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class BytesFile(FileBase):
    """Bytes in memory as a file."""

    def __init__(self, name: str, data: bytes) -> None:
        self.name = name
        self._data = data

    def size(self) -> int:
        """Size in bytes."""
        return len(self._data)

    def read_at(self, offset: int, length: int) -> bytes:
        """Up to ``length`` bytes from ``offset``; fewer only at the end."""
        return self._data[offset : offset + length]

    def read_into(self, offset: int, buffer: memoryview) -> int:
        """Fill ``buffer`` from ``offset``; returns the number of bytes read."""
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
        """Current size in bytes."""
        # Not fstat: reading the times makes the kernel update them on the next write, which slows the writer.
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
        """Fill ``buffer`` from ``offset``; returns the number of bytes read, fewer than its length only at the end of
        the file."""
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
        """See :class:`ReadableFile`. Asks the file system, which also knows ranges that were allocated but never
        written."""
        size = self.size()  # first: bytes appended between the two calls must not count as a hole
        try:
            return os.lseek(self._fd, offset, os.SEEK_DATA)
        except OSError as error:
            # Any other error: the file system can't report holes, or a read will raise the error.
            return max(offset, size) if error.errno == errno.ENXIO else offset

    def close(self) -> None:
        """Close the descriptor. A second call does nothing."""
        fd, self._fd = self._fd, -1  # first: after an exception here, a later close must not hit another file
        if fd >= 0:
            os.close(fd)

    def __del__(self) -> None:
        self.close()


class LocalStorage:
    """A local folder. Raises :class:`NotAStore` if ``root`` is not a folder, :class:`StoreUnavailable` if it can't be
    read."""

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root = os.fspath(root)
        try:
            mode = os.stat(self.root).st_mode
        except OSError as error:
            raise _unavailable(self.root, error) from error
        except ValueError as error:  # a NUL byte in the path
            message = f"{self.root!r} is not a path: {error}"
            raise StoreUnavailable(repr(self.root), found=str(error), expected="a path", message=message) from error
        if not stat.S_ISDIR(mode):
            raise not_a_folder(self.root)

    def path(self, name: str) -> str:
        """The path of ``name``. Raises :class:`NotAStore` for a name outside the folder."""
        if name.startswith("/") or "\0" in name or (".." in name and ".." in name.split("/")) or not is_file_name(name):
            raise not_inside(self.root, name)
        return os.path.join(self.root, name) if name else self.root

    def entries(self, folder: str = "") -> Iterator[Entry]:
        """The folder's entries, unsorted. Symbolic links out of the store count as neither file nor folder."""
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
                raise  # a file that is skipped here would be silently left out
            return Entry(entry.name, False, False, 0, 0)  # a dangling link, or gone since it was listed
        mode = status.st_mode
        if stat.S_ISDIR(mode):
            return Entry(entry.name, False, True, 0, 0)
        return Entry(entry.name, stat.S_ISREG(mode), False, status.st_size, status.st_mtime_ns)

    def _is_inside(self, path: str) -> bool:
        root = os.path.realpath(self.root)
        return os.path.commonpath([root, os.path.realpath(path)]) == root

    def names(self, folder: str = "") -> list[str]:
        """The names in a folder, unsorted, without checking each file."""
        path = self.path(folder)
        try:
            return os.listdir(path)
        except OSError as error:
            raise _unavailable(path, error) from error

    def exists(self, name: str) -> bool:
        """Whether a file or folder of that name exists. Raises :class:`StoreUnavailable` if the check fails: treating
        the file as deleted would silently skip its contents."""
        return _stat_if_present(self.path(name)) is not None

    def size(self, name: str) -> int:
        """A file's size in bytes."""
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
            message = f"{path} is a symbolic link that leads out of the store"
            found, expected = "a symbolic link out of the store", "a file inside it"
            raise StoreUnavailable(path, found=found, expected=expected, message=message)
        return LocalFile(path, name)

    def read_all(self, name: str) -> bytes:
        """Read a whole small file. Raises :class:`LimitExceeded` over ``MAX_SMALL_FILE_BYTES``."""
        with self.open(name) as file:
            size = file.size()
            if size > MAX_SMALL_FILE_BYTES:
                raise LimitExceeded(name, found=f"{size} bytes", expected=f"at most {MAX_SMALL_FILE_BYTES}")
            return file.read_at(0, size)

    def forget(self) -> None:
        """Does nothing: local listings are not cached."""
