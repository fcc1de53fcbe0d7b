"""A storage whose writes fail on purpose, as on a full or broken disk, at any operation of a writer."""

from __future__ import annotations

import errno
import os
import posixpath
import threading
from dataclasses import dataclass
from typing import Any

from everlog.core.files.storage import FileBase
from everlog.core.files.writable import WritableFile, WritableStorage, write_failed
from everlog.testing.storage.delegating import DelegatingStorage
from everlog.testing.storage.unsynced import is_in_place

OPERATIONS = frozenset(
    {"open", "write", "truncate", "sync", "publish", "rename", "remove", "sync_folder", "make_folder", "lock"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteFaults:
    """Which operations fail. The ``operations`` are numbered from 0 over all files of a :class:`FaultyWrites`.

    ``count`` operations from number ``fail_at`` on fail with ``error``. A failing write writes its first ``part_bytes``
    bytes (``None``: half of them), but nothing if it changes a single page in place. A failing sync loses the unsynced
    data: a later sync that succeeds does not bring it to the disk.
    """

    fail_at: int | None = None
    count: int = 1
    operations: frozenset[str] = OPERATIONS
    error: int = errno.ENOSPC
    part_bytes: int | None = None


class FaultyWrites(DelegatingStorage):
    """Delegates to another writable storage, with faults; see :class:`everlog.core.files.writable.WritableStorage`.

    ``operation_count`` is the number of operations so far; ``failed`` lists those that failed, such as
    ``write 00000000``. ``faults`` may be replaced at any time: with ``WriteFaults()`` the disk works again. Safe for
    concurrent threads.
    """

    def __init__(self, inner: WritableStorage, faults: WriteFaults | None = None) -> None:
        super().__init__(inner)
        self.operation_count = 0
        self.failed: list[str] = []
        self.faults = faults or WriteFaults()
        self._inner = inner
        self._counting = threading.Lock()

    def is_failing(self, operation: str, name: str) -> bool:
        """Count an operation; return whether it shall fail."""
        faults = self.faults
        if operation not in faults.operations:
            return False
        with self._counting:
            number = self.operation_count
            self.operation_count += 1
        if faults.fail_at is None or not faults.fail_at <= number < faults.fail_at + faults.count:
            return False
        self.failed.append(f"{operation} {name}")
        return True

    def check(self, operation: str, name: str) -> None:
        """Count an operation. Raises :class:`WriteFailed` if it shall fail."""
        if self.is_failing(operation, name):
            self.fail(name)

    def fail(self, name: str) -> None:
        """Raise :class:`WriteFailed` with the chosen error."""
        error = OSError(self.faults.error, os.strerror(self.faults.error))
        raise write_failed(name, error) from error

    # Writing

    def open_writable(
        self, name: str, *, create: bool = False, exclusive: bool = False, mode: int = 0o640
    ) -> FaultyWritableFile:
        """Open a file whose writes count and fail."""
        self.check("open", name)
        return FaultyWritableFile(self._inner.open_writable(name, create=create, exclusive=exclusive, mode=mode), self)

    def publish(self, name: str, data: bytes, *, replace: bool, mode: int = 0o640, sync: bool = False) -> bool:
        """Count one operation, with ``sync`` two. If only the second fails, the file is there."""
        self.check("publish", name)
        is_new = self._inner.publish(name, data, replace=replace, mode=mode)
        if sync and is_new:
            self.sync_folder(posixpath.dirname(name))
        return is_new

    def rename(self, draft: str, name: str) -> None:
        """Rename, unless a fault is due."""
        self.check("rename", name)
        self._inner.rename(draft, name)

    def remove(self, name: str) -> bool:
        """Delete, unless a fault is due."""
        self.check("remove", name)
        return self._inner.remove(name)

    def sync_folder(self, folder: str = "") -> None:
        """Sync the folder, unless a fault is due."""
        self.check("sync_folder", folder or self.root)
        self._inner.sync_folder(folder)

    def make_folder(self, folder: str) -> None:
        """Create the folder, unless a fault is due."""
        self.check("make_folder", folder)
        self._inner.make_folder(folder)

    def is_open_elsewhere(self, name: str) -> bool | None:
        """Ask the inner storage."""
        return self._inner.is_open_elsewhere(name)

    def is_open_for_writing(self, name: str) -> bool | None:
        """Ask the inner storage."""
        return self._inner.is_open_for_writing(name)

    def may_be_written(self, name: str, quiet_s: float) -> bool:
        """Ask the inner storage."""
        return self._inner.may_be_written(name, quiet_s)


class FaultyWritableFile(FileBase):
    """A file of a :class:`FaultyWrites`. It has no descriptor, so that compiled loops do not write past the faults."""

    def __init__(self, inner: WritableFile, storage: FaultyWrites) -> None:
        self.name = inner.name
        self._inner = inner
        self._storage = storage

    def size(self) -> int:
        """Return the size in bytes, as it is now."""
        return self._inner.size()

    def read_at(self, offset: int, length: int) -> bytes:
        """Return up to ``length`` bytes from ``offset``."""
        return self._inner.read_at(offset, length)

    def read_into(self, offset: int, buffer: memoryview) -> int:
        """Fill ``buffer``; return the number of bytes."""
        return self._inner.read_into(offset, buffer)

    def next_data(self, offset: int) -> int:
        """Ask the inner file."""
        return self._inner.next_data(offset)

    def write_at(self, offset: int, data: Any) -> None:
        """Write, unless a fault is due. A failing write may leave a part: see :class:`WriteFaults`."""
        if self._storage.is_failing("write", self.name):
            written = memoryview(data).cast("B")
            part = self._storage.faults.part_bytes
            part = len(written) // 2 if part is None else part
            if part and not is_in_place(offset, len(written), self.size()):
                self._inner.write_at(offset, written[:part])
            self._storage.fail(self.name)
        self._inner.write_at(offset, data)

    def truncate(self, size: int) -> None:
        """Truncate, unless a fault is due."""
        self._storage.check("truncate", self.name)
        self._inner.truncate(size)

    def sync(self, *, times: bool = False) -> None:
        """Sync, unless a fault is due. After a failed sync, the data that was not synced is lost at a power cut."""
        if self._storage.is_failing("sync", self.name):
            lose = getattr(self._inner, "lose_unsynced", None)
            if lose is not None:
                lose()
            self._storage.fail(self.name)
        self._inner.sync(times=times)

    def lock(self, *, wait: bool = True) -> bool:
        """Lock, unless a fault is due."""
        self._storage.check("lock", self.name)
        return self._inner.lock(wait=wait)

    def unlock(self) -> None:
        """See :class:`WritableFile`. Never fails."""
        self._inner.unlock()

    def mode(self) -> int:
        """Return the permission bits."""
        return self._inner.mode()

    def hold(self) -> bool:
        """Ask the inner file."""
        return self._inner.hold()

    def is_current(self) -> bool:
        """Ask the inner file."""
        return self._inner.is_current()

    def close(self) -> None:
        """Close the inner file."""
        self._inner.close()
