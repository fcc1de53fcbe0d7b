"""Makes ``spark.read.format("everlog")`` work with nothing registered: Spark looks for ``DefaultSource`` in the
top-level modules named ``pyspark_*``. It imports all of them, so this one stays light; pyarrow, the stores and the
kernels are imported when a table is read."""

from __future__ import annotations

from everlog.spark.source import EverlogDataSource as DefaultSource

__all__ = ["DefaultSource"]
