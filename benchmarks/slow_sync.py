"""A local folder whose syncs are waits, so that a figure is about sharing syncs and not about the disk."""

from __future__ import annotations

import time
from typing import Any

from everlog.core.writable import LocalWritableStorage, WritableFile

SYNC_S = 0.001


class SlowlySynced:
    """A local file (with its descriptor, so that compiled loops take it) whose sync takes 1 ms and does nothing."""

    def __init__(self, file: WritableFile) -> None:
        self._file = file

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def __enter__(self) -> SlowlySynced:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def sync(self, *, times: bool = False) -> None:
        """Wait."""
        time.sleep(SYNC_S)


class SlowlySyncedStorage(LocalWritableStorage):
    """A local folder with such files."""

    def open_writable(self, name: str, **options: Any) -> Any:
        """See :class:`LocalWritableStorage`."""
        return SlowlySynced(super().open_writable(name, **options))
