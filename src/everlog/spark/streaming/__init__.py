"""Live queries: ``spark.readStream.format("everlog")``. :func:`progress` tells how far one is behind.

>>> from everlog.spark import streaming
>>> streaming.progress(query)                                         # doctest: +SKIP
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from everlog.lazy import lazy_names

if TYPE_CHECKING:
    from everlog.spark.streaming.lag import StreamProgress as StreamProgress
    from everlog.spark.streaming.lag import progress as progress
else:
    _homes = {"StreamProgress": "everlog.spark.streaming.lag", "progress": "everlog.spark.streaming.lag"}
    # Name to module: every Python process of Spark imports this package, few need these.
    __getattr__, __dir__, __all__ = lazy_names(__name__, _homes)
