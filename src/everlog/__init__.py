"""everlog: durable message streams. ``open_store`` opens any folder that everlog knows; errors are below
:class:`EverlogError`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from everlog.errors import (
    CorruptData,
    EverlogError,
    FileChanged,
    InvalidSchema,
    KeyRefused,
    LimitExceeded,
    MissingDependency,
    NotAStore,
    StoreExists,
    StoreUnavailable,
    SubscriberExists,
    UnknownMessage,
    UnknownStream,
    UnknownSubscriber,
    UnsupportedVersion,
    UsageError,
    WriteFailed,
)
from everlog.version import __version__

if TYPE_CHECKING:
    from everlog.stores import open_store

__all__ = [
    "CorruptData",
    "EverlogError",
    "FileChanged",
    "InvalidSchema",
    "KeyRefused",
    "LimitExceeded",
    "MissingDependency",
    "NotAStore",
    "StoreExists",
    "StoreUnavailable",
    "SubscriberExists",
    "UnknownMessage",
    "UnknownStream",
    "UnknownSubscriber",
    "UnsupportedVersion",
    "UsageError",
    "WriteFailed",
    "__version__",
    "open_store",
]


def __getattr__(name: str) -> Any:
    # Import cost: the families are loaded when the first store is opened.
    if name == "open_store":
        from everlog.stores import open_store

        return open_store
    raise AttributeError(f"module 'everlog' has no attribute {name!r}")
