"""The ``journal`` argument of public functions: a path or a storage."""

from __future__ import annotations

import os

from everlog.core.files.writable import LocalWritableStorage, WritableStorage
from everlog.errors import WrongType

JournalPath = str | os.PathLike[str] | WritableStorage


def storage_of(journal: JournalPath) -> WritableStorage:
    """The journal's folder as a writable storage.

    Raises :class:`NotAStore` and :class:`StoreUnavailable`, and :class:`WrongType` if it is neither.
    """
    if isinstance(journal, str | os.PathLike):
        return LocalWritableStorage(journal)
    if not hasattr(journal, "open_writable"):
        raise WrongType("journal", found=type(journal).__name__, expected="a path or a writable storage")
    return journal
