"""Spark over everlog's stores: the data source ``everlog``, functions of a session, a local session, the demo."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def faults(spark: SparkSession, *paths: str, **options: str) -> DataFrame:
    """The faults that a query over the stores would meet: columns of
    :data:`everlog.spark.fault_table.COLUMNS`, a row for each. ``paths`` and ``options`` are the data source's. The
    stores are read when the result is asked for, beside whatever query reads the good records.
    """
    return spark.read.format("everlog").options(**options).option("faults", "true").load(list(paths))
