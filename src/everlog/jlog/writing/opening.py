"""What callers hand in for a journal: its path, or a storage."""

from __future__ import annotations

import os

from everlog.core.files.writable import LocalWritableStorage, WritableStorage

JournalPath = str | os.PathLike[str] | WritableStorage


def storage_of(journal: JournalPath) -> WritableStorage:
    """The folder, writable. Raises :class:`NotAStore`, :class:`StoreUnavailable`."""
    if isinstance(journal, str | os.PathLike):
        return LocalWritableStorage(journal)
    return journal
