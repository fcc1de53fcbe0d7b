"""everlog: durable message streams. ``open_store`` opens a store of any known family; all errors derive from
:class:`EverlogError`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from everlog.errors import (
    Closed,
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
    WrongType,
)
from everlog.lazy import lazy_names
from everlog.version import __version__

if TYPE_CHECKING:
    from everlog.stores import open_store
else:
    # Families are imported when the first store is opened.
    __getattr__ = lazy_names(__name__, {"open_store": "everlog.stores"})[0]

__all__ = [
    "Closed",
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
    "WrongType",
    "__version__",
    "open_store",
]


def __dir__() -> list[str]:
    return [*__all__, *(name for name in globals() if name.startswith("__") and name not in __all__)]
