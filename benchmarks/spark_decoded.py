"""SBE messages decoded into columns, and groups folded near the data, against Parquet of the same rows.

Decoded columns are asked for as they come, and of one message's records only (``only``), whose required fields are not
null then. Spark projects each row of a Python data source twice, and one of ``everlog.spark.scan`` once; the second
projection alone takes as long as reading the row from Parquet does, most of it for the decimals that unsigned numbers
of 64 bits are.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks import sbe
from benchmarks.generate import aeron_archive
from benchmarks.lines import RUNS, Line
from benchmarks.spark_scan import consume, race
from everlog.spark.session import local_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
            yield from _decoded(spark, Path(folder), RUNS)
        with tempfile.TemporaryDirectory(prefix="everlog-bench-") as folder:
            yield _aggregated(spark, Path(folder), RUNS)
    finally:
        spark.stop()


def _decoded(spark: SparkSession, folder: Path, runs: int) -> Iterator[Line]:
    from everlog.spark import scan

    size = sbe.payloads(1).dtype.itemsize
    archive = str(aeron_archive(folder / "archive", size, TOTAL_BYTES, sbe.payloads))
    schema = folder / "schema.xml"
    schema.write_text(sbe.SCHEMA)
    columns = ",".join(["position", *(f"sbe_{name}" for name, _, _ in sbe.FIELDS)])
    options = {"sbeSchema": str(schema), "sbeMessage": "Order", "columns": columns}
    only = {**options, "sbeOnly": "true"}
    frame = spark.read.format("everlog").options(**options).load(archive)
    parquet = str(folder / "parquet")
    frame.write.option("compression", "uncompressed").parquet(parquet)
    rows = spark.read.parquet(parquet).count()
    ways = {
        "": lambda: consume(frame),
        "-scan": lambda: consume(scan(spark, archive, **options)),
        "-only": lambda: consume(spark.read.format("everlog").options(**only).load(archive)),
        "-only-scan": lambda: consume(scan(spark, archive, **only)),
    }
    for name, ours in ways.items():
        found = race(ours, lambda: consume(spark.read.parquet(parquet)), rows, runs)
        yield Line(f"spark-sbe-columns{name}", found.rows_per_second / 1e6, "Mrows/s", ">=1.0", found.ratio)


def _aggregated(spark: SparkSession, folder: Path, runs: int) -> Line:
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

    found = race(ours, peer, rows, runs)
    return Line("spark-aggregate-32B", found.rows_per_second / 1e6, "Mrows/s", ">=2.0", found.ratio)
