"""Which family a folder is of, and its store. One line per family."""

from __future__ import annotations

import importlib
import os
from typing import Any

from everlog.core.files.storage import LocalStorage, Storage
from everlog.core.store import Store
from everlog.errors import NotAStore, UsageError

FAMILIES: dict[str, tuple[str, str, str]] = {
    "aeron-archive": ("everlog.aeron.archive.store", "ArchiveStore", "archive.catalog"),
    "aeron-driver": ("everlog.aeron.transport.store", "DriverStore", "cnc.dat"),
    "aeron-cluster": ("everlog.aeron.cluster.store", "ClusterStore", "recording.log"),
    "jlog": ("everlog.jlog.store", "JlogStore", "metastore"),
    "nats-streaming": ("everlog.nats_streaming.store", "NatsStreamingStore", "server.dat"),
}
"""Family name to the module and class of its store, and a file that most stores of it have. They are asked in this
order."""


def store_class(family: str) -> type[Store]:
    """The class for a family. Raises :class:`UsageError` for a name that is none."""
    try:
        module, name, _ = FAMILIES[family]
    except KeyError:
        raise UsageError("family", found=repr(family), expected=" or ".join(FAMILIES)) from None
    found: type[Store] = getattr(importlib.import_module(module), name)
    return found


def detect(storage: Storage) -> str | None:
    """The family of a folder, or ``None``."""
    names = set(storage.names())
    # A family whose usual file is there is asked first: then the others are not even imported.
    for family in sorted(FAMILIES, key=lambda family: FAMILIES[family][2] not in names):
        if store_class(family).detect(storage):
            return family
    return None


def family_of(storage: Storage) -> str:
    """The family of a folder. Raises :class:`NotAStore` where none of them is at home."""
    family = detect(storage)
    if family is None:
        raise NotAStore(storage.root, found="none of their files", expected=f"a store of {', '.join(FAMILIES)}")
    return family


def storage_of(path: str | os.PathLike[str]) -> Storage:
    """The folder at a local path or, where there is none of that name, at a URL that fsspec knows
    (``s3://bucket/archive``).
    """
    text = os.fspath(path)
    if "://" in text and not os.path.exists(text):
        from everlog.core.files.remote import RemoteStorage

        return RemoteStorage(text)
    return LocalStorage(text)


def open_store(path: str | os.PathLike[str] | Storage, *, family: str | None = None, **options: Any) -> Store:
    """Open a folder read-only; the family is found by looking, or forced with ``family``.

    ``path`` is a local folder, a URL for fsspec (extra ``remote``), or a storage. ``options`` are the family's own (see
    its ``options_class``). Raises :class:`NotAStore`, :class:`StoreUnavailable`, :class:`UnsupportedVersion` or
    :class:`UsageError`.
    """
    storage = storage_of(path) if isinstance(path, str | os.PathLike) else path
    return store_class(family or family_of(storage)).open(storage, options)
