"""What everlog's tasks do once in each of Spark's Python workers."""

from __future__ import annotations

import functools
import gc

from pyspark import TaskContext


def freeze_gc() -> None:
    """Keep the modules that are loaded by now out of garbage collection, the first time that a worker gets here.

    A worker collects garbage behind each task, and walks through all objects for it: with pyarrow loaded that is some
    ten milliseconds, more than much of what a short query does. Outside of a task nothing is done.
    """
    if TaskContext.get() is not None:
        _freeze()


@functools.cache
def _freeze() -> None:
    gc.collect()
    gc.freeze()
