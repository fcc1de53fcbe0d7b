"""Live queries: ``spark.readStream.format("everlog")``. :func:`progress` tells how far one is behind.

>>> from everlog.spark import streaming
>>> streaming.progress(query)                                         # doctest: +SKIP
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from everlog.spark.streaming.lag import StreamProgress as StreamProgress
    from everlog.spark.streaming.lag import progress as progress

_HOMES = {"StreamProgress": "everlog.spark.streaming.lag", "progress": "everlog.spark.streaming.lag"}
"""Name to module: every Python process of Spark imports this package, few need these."""

__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
