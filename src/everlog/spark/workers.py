"""What everlog's tasks do once in each of Spark's Python workers."""

from __future__ import annotations

import functools
import gc

from pyspark import TaskContext


def freeze_gc() -> None:
    """Exclude the modules loaded so far from garbage collection, at a worker's first call.

    A worker collects garbage after each task and traverses all objects: with pyarrow loaded this takes about ten
    milliseconds, a large part of a short query. Outside of a task nothing is done.
    """
    if TaskContext.get() is not None:
        _freeze()


@functools.cache
def _freeze() -> None:
    gc.collect()
    gc.freeze()
