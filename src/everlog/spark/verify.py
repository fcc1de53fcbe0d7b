"""Verify many stores in one Spark job: a row for each store, its faults in it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from everlog.errors import EverlogError
from everlog.spark.discovery import FoundStore
from everlog.stores import open_store

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_FAULT = (
    "code string, severity string, file string, offset bigint, found string, expected string, loses string, "
    "repair string, stream string, address string"
)
SCHEMA = (
    "store string, family string, ok boolean, streams bigint, segments bigint, records bigint, bytes bigint, "
    f"error string, faults array<struct<{_FAULT.replace(' ', ':').replace(',:', ',')}>>"
)
"""``error`` is why a store could not be opened at all, else null. ``records`` and ``bytes`` are of what was found
whole."""

MAX_FAULTS = 10_000
"""Of one store, so that one that is all damage does not fill a task's memory; ``ok`` counts all of them."""


@dataclass(frozen=True, slots=True)
class StoreToVerify:
    """A store and its family's options. Keys are given as files or environment variables, never as such."""

    store: FoundStore
    options: dict[str, Any] = field(default_factory=dict)


def verify_stores(spark: SparkSession, stores: Iterable[StoreToVerify], *, tasks: int | None = None) -> DataFrame:
    """One row of :data:`SCHEMA` for each store; the stores are checked where Spark runs the tasks, when the result is
    asked for."""
    import json

    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructType

    schema = to_arrow_schema(StructType.fromDDL(SCHEMA), timezone="UTC")
    rows = [(s.store.path, s.store.family, json.dumps(s.options)) for s in stores]
    count = max(1, min(len(rows), tasks or spark.sparkContext.defaultParallelism))
    todo = spark.sparkContext.parallelize(rows, count).toDF("path string, family string, options string")

    def verify(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return verify_batches(batches, schema)

    return todo.mapInArrow(verify, SCHEMA)


def verify_batches(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """What a task does: a batch of one row for each store of ``batches`` (path, family, options)."""
    import json

    import pyarrow as pa

    for batch in batches:
        for row in batch.to_pylist():
            found = verify_one(row["path"], row["family"], json.loads(row["options"]))
            yield pa.RecordBatch.from_pylist([found], schema=schema)


def verify_one(path: str, family: str, options: dict[str, Any]) -> dict[str, Any]:
    """The row of one store. Damage never raises; a store that can't be opened is a row with an ``error``."""
    row: dict[str, Any] = {"store": path, "family": family, "ok": False, "error": None, "faults": []}
    row |= dict.fromkeys(("streams", "segments", "records", "bytes"), 0)
    try:
        with open_store(path, family=family, **options) as store:
            report = store.verify()
    except EverlogError as error:
        return row | {"error": str(error)}
    return row | {
        "ok": report.ok,
        "streams": report.stream_count,
        "segments": report.segment_count,
        "records": report.record_count,
        "bytes": report.byte_count,
        "faults": [fault.to_dict() for fault in report.faults[:MAX_FAULTS]],
    }
