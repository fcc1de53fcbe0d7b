"""The free space of the file system that has a store."""

from __future__ import annotations

import os
from typing import NamedTuple

from everlog.core.files.storage import LocalStorage, Storage


class FreeSpace(NamedTuple):
    """Bytes that an ordinary process can still use, and that it could use on the empty file system."""

    free_bytes: int
    usable_bytes: int

    @property
    def percent(self) -> float:
        """Free space in percent, as ``df`` counts it: without what is reserved for root."""
        return 100 * self.free_bytes / self.usable_bytes if self.usable_bytes else 0.0


def free_space(storage: Storage) -> FreeSpace | None:
    """Ask the file system; ``None`` for a storage that is not a local folder, or if it does not say."""
    if not isinstance(storage, LocalStorage):
        return None
    try:
        state = os.statvfs(storage.root)
    except OSError:
        return None
    used = state.f_blocks - state.f_bfree
    return FreeSpace(state.f_bavail * state.f_frsize, (used + state.f_bavail) * state.f_frsize)
