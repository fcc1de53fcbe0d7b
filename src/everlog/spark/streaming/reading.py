"""What a task of a live query does: as in a batch query, and what vanishes meanwhile is data loss, not damage."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from everlog.spark.options import ScanOptions
from everlog.spark.partitions import StorePartition
from everlog.spark.reading import read_partition

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


def read_live(partition: StorePartition, schema: StructType, scan: ScanOptions) -> Iterator[pa.RecordBatch]:
    """Record batches of ``schema``, in the order of the partition's splits."""
    return read_partition(partition, schema, scan)
