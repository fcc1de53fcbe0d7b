"""A store's folder in memory, which fuzzers and fault tests read instead of the disk."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from everlog.core.files.storage import BytesFile, Entry
from everlog.errors import NotAStore, StoreUnavailable

PAGE_BYTES = 4096


class MemoryFile(BytesFile):
    """A file's bytes. Whole pages of zeros count as holes, so that tests cover holes, too."""

    def next_data(self, offset: int) -> int:
        start, size = offset, len(self._data)
        while start < size:
            end = (start // PAGE_BYTES + 1) * PAGE_BYTES
            if any(self._data[end - PAGE_BYTES : end]):
                return start
            start = end
        return max(offset, size)


class MemoryStorage:
    """Files by name. A folder exists if a file is in it or if ``folders`` lists it."""

    def __init__(
        self, files: Mapping[str, bytes], *, root: str = "memory", folders: frozenset[str] = frozenset()
    ) -> None:
        self.root = root
        self.files = dict(files)
        self._folders = {"", *folders}
        for name in files:
            parts = name.split("/")[:-1]
            self._folders.update("/".join(parts[: i + 1]) for i in range(len(parts)))

    @classmethod
    def of_folder(cls, folder: Path) -> MemoryStorage:
        """Copy a folder on disk."""
        files = {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}
        folders = frozenset(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_dir())
        return cls(files, root=str(folder), folders=folders)

    @classmethod
    def of_tar(cls, archive: Path) -> MemoryStorage:
        """Copy the contents of a tar file below its one top folder."""
        files, folders = {}, set()
        with tarfile.open(fileobj=io.BytesIO(archive.read_bytes())) as tar:
            for member in tar.getmembers():
                _, _, name = member.name.removeprefix("./").partition("/")
                held = tar.extractfile(member) if member.isfile() else None
                if held is not None:
                    files[name] = held.read()
                elif member.isdir() and name:
                    folders.add(name)
        return cls(files, root=archive.name.split(".")[0], folders=frozenset(folders))

    def _inside(self, folder: str) -> set[str]:
        prefix = f"{folder}/" if folder else ""
        return {n[len(prefix) :].split("/")[0] for n in (*self.files, *self._folders) if n and n.startswith(prefix)} - {
            ""
        }

    def entries(self, folder: str = "") -> Iterator[Entry]:
        """Yield a folder's entries."""
        for name in self.names(folder):
            full = f"{folder}/{name}" if folder else name
            is_file = full in self.files
            yield Entry(name, is_file, not is_file, len(self.files.get(full, b"")), 0)

    def names(self, folder: str = "") -> list[str]:
        """Return the names in a folder, sorted. Raises :class:`StoreUnavailable` if it does not exist."""
        if folder not in self._folders:
            raise StoreUnavailable(folder, found="no such file or directory", expected="a folder")
        return sorted(self._inside(folder))

    def exists(self, name: str) -> bool:
        """Whether a file or folder has that name."""
        return name in self.files or name in self._folders

    def size(self, name: str) -> int:
        """Return a file's size in bytes."""
        return self.open(name).size()

    def open(self, name: str) -> MemoryFile:
        """Open a file. Raises :class:`StoreUnavailable` if it does not exist, :class:`NotAStore` if its name would
        leave the folder."""
        if name.startswith("/") or ".." in name.split("/"):
            raise NotAStore(self.root, found=f"the name {name!r}", expected="a name inside the store's folder")
        if name not in self.files:
            raise StoreUnavailable(name, found="no such file or directory", expected="a file")
        return MemoryFile(name, self.files[name])

    def read_all(self, name: str) -> bytes:
        """Return all bytes of a file."""
        return self.open(name).read_at(0, len(self.files.get(name, b"")))

    def forget(self) -> None:
        """Do nothing: this storage remembers nothing."""
