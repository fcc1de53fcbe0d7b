"""A faster way to the data source's table: planned immediately, read with ``mapInArrow``.

Spark 4 projects each row of a Python data source twice, but rows of ``mapInArrow`` only once; the work in Python is the
same. So this is faster for large reads that do not need lazy planning.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from everlog.spark.tasks import frame_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def scan(spark: SparkSession, paths: Sequence[str], options: Mapping[str, str]) -> DataFrame:
    """Read stores into a DataFrame without Spark's row conversion. Parameters: :func:`everlog.spark.scan`."""
    import json

    from pyspark.sql.datasource import CaseInsensitiveDict

    from everlog.spark.source import EverlogDataSource

    given = {name: str(value) for name, value in options.items()}
    source = EverlogDataSource(CaseInsensitiveDict({**given, "paths": json.dumps(list(paths))}))
    schema = source.schema()
    reader = source.reader(schema)
    return frame_of(spark, reader.partitions(), reader.read, schema)
