"""SBE messages decoded into columns, and groups folded near the data, against Parquet of the same rows.

Decoded columns are asked for as they come, and of one message's records only (``only``), whose required fields are not
null then. Spark projects each row of a Python data source twice, and one of ``everlog.spark.scan`` once; the second
projection alone takes as long as reading the row from Parquet does, most of it for the decimals that unsigned numbers
of 64 bits are; lines with ``bigint`` have none, and are held against Parquet without decimals.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks import sbe
from benchmarks.generate import aeron_archive
from benchmarks.lines import RUNS, Line
from benchmarks.spark_scan import consume, race
from everlog.spark.session import local_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TOTAL_BYTES = 1 << 30
VALUES = {"messages": "count", "bytes": "sum(length)", "last": "max(position)"}
BY = ["stream", "minute(timestamp)"]
TIMES = "reserved_value:ms"
"""Reserved values count messages: as milliseconds they make a minute of 60,000."""


def lines() -> Iterator[Line]:
    """Decoded columns without the payload to a sink; count, sum and maximum by stream and minute."""
    spark = local_session("everlog benchmark", memory="3g")
    try:
        with tempfile.TemporaryDirectory(prefix="everlog-bench-") as folder:
            yield from _decimals(_Messages(spark, Path(folder), sbe.payloads))
        with tempfile.TemporaryDirectory(prefix="everlog-bench-") as folder:
            yield from _bigints(_Messages(spark, Path(folder), _payloads_for_bigint, sbeUint64="bigint"))
        with tempfile.TemporaryDirectory(prefix="everlog-bench-") as folder:
            yield _aggregated(spark, Path(folder))
    finally:
        spark.stop()


class _Messages:
    """An archive of messages, and its decoded columns as Parquet."""

    def __init__(
        self, spark: SparkSession, folder: Path, payloads: Callable[[int], np.ndarray], **options: str
    ) -> None:
        size = payloads(1).dtype.itemsize
        self._spark = spark
        self._archive = str(aeron_archive(folder / "archive", size, TOTAL_BYTES, payloads))
        schema = folder / "schema.xml"
        schema.write_text(sbe.SCHEMA)
        columns = ",".join(["position", *(f"sbe_{name}" for name, _, _ in sbe.FIELDS)])
        self._options = {"sbeSchema": str(schema), "sbeMessage": "Order", "columns": columns, **options}
        self._parquet = str(folder / "parquet")
        self._by_source().write.option("compression", "uncompressed").parquet(self._parquet)
        self._rows = spark.read.parquet(self._parquet).count()

    def line(self, name: str, target: str, *, scans: bool, **options: str) -> Line:
        """By the data source, or by ``scan``, beside Parquet."""
        make = self._by_scan if scans else self._by_source
        found = race(
            lambda: consume(make(**options)), lambda: consume(self._spark.read.parquet(self._parquet)), self._rows, RUNS
        )
        return Line(name, found.rows_per_second / 1e6, "Mrows/s", target, found.ratio)

    def _by_source(self, **options: str) -> DataFrame:
        return self._spark.read.format("everlog").options(**self._options, **options).load(self._archive)

    def _by_scan(self, **options: str) -> DataFrame:
        from everlog.spark import scan

        return scan(self._spark, self._archive, **self._options, **options)


def _decimals(messages: _Messages) -> Iterator[Line]:
    yield messages.line("spark-sbe-columns", ">=0.45", scans=False)
    yield messages.line("spark-sbe-columns-scan", ">=1.0", scans=True)
    yield messages.line("spark-sbe-columns-only", ">=0.45", scans=False, sbeOnly="true")
    yield messages.line("spark-sbe-columns-only-scan", ">=1.0", scans=True, sbeOnly="true")


def _bigints(messages: _Messages) -> Iterator[Line]:
    yield messages.line("spark-sbe-columns-bigint", ">=0.45", scans=False, sbeOnly="true")
    yield messages.line("spark-sbe-columns-bigint-scan", ">=1.0", scans=True, sbeOnly="true")


def _payloads_for_bigint(count: int) -> np.ndarray:
    """Without unsigned numbers that a bigint does not hold."""
    rows = sbe.payloads(count)
    rows["time"] >>= 1
    return rows


def _aggregated(spark: SparkSession, folder: Path) -> Line:
    from pyspark.sql import functions as fn

    from everlog.spark import aggregate

    archive = str(aeron_archive(folder / "archive", 32, TOTAL_BYTES))
    parquet = str(folder / "parquet")
    reader = spark.read.format("everlog").option("timestampFrom", TIMES)
    reader.load(archive).write.option("compression", "uncompressed").parquet(parquet)
    rows = spark.read.parquet(parquet).count()

    def ours() -> None:
        found = aggregate(spark, archive, by=BY, values=VALUES, timestampFrom=TIMES).collect()
        assert sum(row.messages for row in found) == rows

    def peer() -> None:
        minute = fn.date_trunc("minute", "timestamp").alias("minute")
        grouped = spark.read.parquet(parquet).groupBy("stream", minute)
        asked = fn.count("*").alias("messages"), fn.sum("length"), fn.max("position")
        assert sum(row.messages for row in grouped.agg(*asked).collect()) == rows

    found = race(ours, peer, rows, RUNS)
    return Line("spark-aggregate-32B", found.rows_per_second / 1e6, "Mrows/s", ">=2.0", found.ratio)
