"""A DataFrame whose partitions are pieces of work made on the driver."""

from __future__ import annotations

import functools
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

Work = Callable[[Any], Iterator["pa.RecordBatch"]]


def frame_of(spark: SparkSession, pieces: Sequence[Any], work: Work, schema: StructType | str) -> DataFrame:
    """The batches that ``work`` returns for each of ``pieces``, in their order, with a task for each. ``work`` returns
    batches of ``schema``; it and the pieces are pickled.

    The pieces are sent to the tasks together with the code (Spark broadcasts it if it is large) and not as rows, which
    would need a second Python worker for each task.
    """
    packed = [pickle.dumps(piece) for piece in pieces]
    if not packed:
        return spark.createDataFrame([], schema)
    numbers = spark.range(0, len(packed), 1, len(packed))
    return numbers.mapInArrow(functools.partial(_run, work, packed), schema)


def _run(work: Work, packed: list[bytes], batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Run a task: the pieces whose numbers are the rows of ``batches``."""
    from everlog.spark.workers import freeze_gc

    freeze_gc()
    for batch in batches:
        for number in batch.column(0).to_pylist():
            yield from work(pickle.loads(packed[number]))
