"""Stores at URLs, through fsspec: object stores, HTTP, archives. Needs the extra ``remote``.

Files are read in blocks, and each open file caches the last few: walkers request half a megabyte at a time and re-read
what they did not consume. Each folder is listed once, as object stores answer slowly; fsspec's own listing cache is not
used, as it lives as long as the process.
"""

from __future__ import annotations

import errno
from collections import OrderedDict
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from everlog.core.files.regular_files import EXPECTED, NotRegular
from everlog.core.files.storage import MAX_SMALL_FILE_BYTES, Entry, FileBase, not_a_folder, not_inside
from everlog.errors import LimitExceeded, MissingDependency, NotAStore, StoreUnavailable, UsageError

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

BLOCK_BYTES = 1 << 20
KEPT_BLOCKS = 4
_NO_FILE = {"directory": "a folder", "other": "a special file"}
"""fsspec's types without bytes of their own: local FIFOs, sockets and devices are ``other``."""
MISSING = "no such file or directory"


def _file_system(url: str) -> tuple[AbstractFileSystem, str]:
    try:
        import fsspec
    except ImportError as error:
        raise MissingDependency(
            url,
            found="fsspec is not installed",
            hint="pip install 'everlog[remote]'",
            message=f"{url} needs fsspec",
        ) from error
    try:
        found: tuple[AbstractFileSystem, str] = fsspec.core.url_to_fs(url)
    except ImportError as error:  # s3fs, gcsfs, ...: each protocol has a package of its own
        raise MissingDependency(url, found=str(error)) from error
    except ValueError as error:
        message = f"{url} is not a URL that fsspec knows: {error}"
        raise UsageError(url, found=str(error), expected="a URL that fsspec knows", message=message) from error
    except Exception as error:  # some back ends connect at once
        raise _unavailable(url, error) from error
    return found


def _unavailable(where: str, error: Exception) -> StoreUnavailable:
    if isinstance(error, FileNotFoundError):
        return _missing(where)
    found = f"{type(error).__name__}: {error}"
    return StoreUnavailable(
        where, found=found, expected="a readable file or folder", message=f"can't read {where}: {found}"
    )


def _missing(where: str) -> StoreUnavailable:
    return StoreUnavailable(where, found=MISSING, expected="a readable file or folder", message=f"{MISSING}: {where}")


def is_folder_there(url: str) -> bool:
    """Whether the URL is a folder. Raises :class:`StoreUnavailable` if the check fails, :class:`UsageError`,
    :class:`MissingDependency`."""
    try:
        RemoteStorage(url)
    except NotAStore:
        return False
    except StoreUnavailable as error:
        if error.found == MISSING:
            return False
        raise
    return True


class RemoteFile(FileBase):
    """A remote file, read in blocks. Its size is fixed when it is opened."""

    def __init__(self, file_system: AbstractFileSystem, path: str, name: str) -> None:
        self.name = name
        self._files = file_system
        self._path = path
        self._blocks: OrderedDict[int, bytes] = OrderedDict()
        try:
            found = file_system.info(path)
            self._size = int(found["size"] or 0)
        except Exception as error:  # each fsspec back end has errors of its own
            raise _unavailable(name, error) from error
        if found.get("type") in _NO_FILE:
            cause = NotRegular(errno.EINVAL, _NO_FILE[found["type"]], name)
            message = cause.sentence(name)
            raise StoreUnavailable(name, found=cause.strerror, expected=EXPECTED, message=message) from cause

    def size(self) -> int:
        """Size in bytes when it was opened."""
        return self._size

    def read_at(self, offset: int, length: int) -> bytes:
        """Up to ``length`` bytes from ``offset``; fewer only at the end of the file."""
        length = max(0, min(length, self._size - offset))
        parts = []
        while length > 0:
            number, skip = divmod(offset, BLOCK_BYTES)
            part = self._block(number)[skip : skip + length]
            if not part:  # the file was cut since it was opened
                break
            parts.append(part)
            offset += len(part)
            length -= len(part)
        return b"".join(parts)

    def read_into(self, offset: int, buffer: memoryview) -> int:
        """Fill ``buffer`` from ``offset``; returns the number of bytes read, fewer than its length only at the end of
        the file."""
        data = self.read_at(offset, len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def _block(self, number: int) -> bytes:
        held = self._blocks.get(number)
        if held is not None:
            self._blocks.move_to_end(number)
            return held
        start = number * BLOCK_BYTES
        try:
            data: bytes = self._files.cat_file(self._path, start=start, end=min(start + BLOCK_BYTES, self._size))
        except Exception as error:  # each fsspec back end has errors of its own
            raise _unavailable(self.name, error) from error
        self._blocks[number] = data
        while len(self._blocks) > KEPT_BLOCKS:
            self._blocks.popitem(last=False)
        return data

    def close(self) -> None:
        """Drop the cached blocks."""
        self._blocks.clear()


class _Listing(NamedTuple):
    """A folder's entries, with their names as a set: readers check the existence of each file of a store."""

    entries: list[Entry]
    names: frozenset[str]
    sizes: dict[str, int]


class RemoteStorage:
    """A folder at a URL such as ``s3://bucket/archive`` or ``memory://store``. Raises :class:`NotAStore` if it is
    not a folder, :class:`StoreUnavailable` if it can't be read, :class:`MissingDependency` without fsspec."""

    def __init__(self, url: str) -> None:
        self.root = url
        self._files, path = _file_system(url)
        self._path = path.rstrip("/")
        self._listed: dict[str, _Listing] = {}
        self._files.invalidate_cache(self._path)
        try:
            is_folder = self._files.isdir(self._path or "/")
            exists = is_folder or self._files.exists(self._path)
        except Exception as error:  # each fsspec back end has errors of its own
            raise _unavailable(url, error) from error
        if not exists:
            raise _missing(url)
        if not is_folder:
            raise not_a_folder(url)

    def path(self, name: str) -> str:
        """The back end's path of ``name``. Raises :class:`NotAStore` for a name outside the folder."""
        if name.startswith("/") or "\0" in name or ".." in name.split("/"):
            raise not_inside(self.root, name)
        return f"{self._path}/{name}" if name else self._path

    def entries(self, folder: str = "") -> Iterator[Entry]:
        """The folder's entries when it was first listed, or first listed after :meth:`forget`."""
        yield from self._list(folder).entries

    def _list(self, folder: str) -> _Listing:
        if folder not in self._listed:
            path = self.path(folder)
            self._files.invalidate_cache(path)
            try:
                found = self._files.ls(path, detail=True)
            except Exception as error:  # each fsspec back end has errors of its own
                raise _unavailable(f"{self.root}/{folder}", error) from error
            entries = [_entry(item) for item in found if item["name"].rstrip("/") != path.rstrip("/")]
            sizes = {entry.name: entry.size for entry in entries if entry.is_file}
            self._listed[folder] = _Listing(entries, frozenset(entry.name for entry in entries), sizes)
        return self._listed[folder]

    def names(self, folder: str = "") -> list[str]:
        """The names in a folder, unsorted."""
        return [entry.name for entry in self.entries(folder)]

    def exists(self, name: str) -> bool:
        """Whether a file or folder of that name exists. Raises :class:`StoreUnavailable` if the check fails."""
        folder, _, last = name.rpartition("/")
        try:
            return last in self._list(folder).names or not name
        except StoreUnavailable as error:
            if error.found == MISSING:
                return False
            raise

    def size(self, name: str) -> int:
        """A file's size in bytes, from the listing if its folder was listed."""
        folder, _, last = name.rpartition("/")
        listed = self._listed.get(folder)
        return self.open(name).size() if listed is None or last not in listed.sizes else listed.sizes[last]

    def open(self, name: str) -> RemoteFile:
        """Open a file for reading. If its folder was listed, fsspec's cached entry is used."""
        path = self.path(name)
        if name.rpartition("/")[0] not in self._listed:
            self._files.invalidate_cache(path)
        return RemoteFile(self._files, path, name)

    def forget(self) -> None:
        """Drop cached listings, for callers that poll."""
        self._listed.clear()

    def read_all(self, name: str) -> bytes:
        """Read a whole small file. Raises :class:`LimitExceeded` over ``MAX_SMALL_FILE_BYTES``."""
        with self.open(name) as file:
            if file.size() > MAX_SMALL_FILE_BYTES:
                raise LimitExceeded(name, found=f"{file.size()} bytes", expected=f"at most {MAX_SMALL_FILE_BYTES}")
            return file.read_at(0, file.size())


def _entry(item: dict[str, Any]) -> Entry:
    name = item["name"].rstrip("/").rpartition("/")[2]
    return Entry(name, item["type"] == "file", item["type"] == "directory", int(item.get("size") or 0), 0)
