"""The function ``aggregate``: tasks return groups with partial results, and Spark merges these."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from everlog.pipelines.scan.aggregation import AVG, COUNT, MAX, MIN, SUM, Value, parse_aggregation
from everlog.spark.scanning import scan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def aggregate(
    spark: SparkSession,
    paths: Sequence[str],
    by: Sequence[str] | Mapping[str, str],
    values: Mapping[str, str],
    options: Mapping[str, str],
) -> DataFrame:
    """Aggregate in each task, then merge the tasks' groups. Parameters: :func:`everlog.spark.aggregate`."""
    from pyspark.sql import functions as fn

    text = json.dumps({"by": dict(by) if isinstance(by, Mapping) else list(by), "values": dict(values)})
    wanted = parse_aggregation("aggregate", text)
    partial = scan(spark, paths, {**options, "aggregate": text})
    merge = {COUNT: fn.sum, SUM: fn.sum, MIN: fn.min, MAX: fn.max}
    merged = partial.groupBy(*(fn.col(_quoted(key.name)) for key in wanted.keys)).agg(
        *(merge[fold.kind](_quoted(fold.name)).alias(fold.name) for fold in wanted.folds)
    )
    return merged.select(
        *(fn.col(_quoted(key.name)) for key in wanted.keys), *(_result(value) for value in wanted.values)
    )


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _result(value: Value) -> Any:
    from pyspark.sql import functions as fn

    parts = [fn.col(_quoted(fold.name)) for fold in value.folds]
    if value.kind == COUNT:
        return fn.coalesce(parts[0], fn.lit(0)).cast("bigint").alias(value.name)
    if value.kind == AVG:
        # As in Spark, a double, and null without a value.
        return fn.when(parts[1] > 0, parts[0].cast("double") / parts[1]).alias(value.name)
    return parts[0].alias(value.name)
