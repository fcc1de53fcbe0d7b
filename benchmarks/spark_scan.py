"""The Spark data source beside ``spark.read.parquet`` of the same rows, both to a sink that throws rows away."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.generate import aeron_archive
from benchmarks.lines import RUNS, Spread, paired
from everlog.spark import scan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

WARM_UPS = 2
"""Runs of each that do not count: the JVM compiles what it runs often."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """``rows_per_second`` of the data source, and its ratio to Parquet's: above 1 it is the faster one."""

    rows_per_second: Spread
    ratio: Spread


def compare(
    spark: SparkSession, payload_bytes: int, total_bytes: int, runs: int = RUNS, folder: Path | None = None
) -> dict[str, Comparison]:
    """Scan an Aeron archive of about ``total_bytes``, with all columns (``all``) and with all but the payload
    (``without-payload``), by the data source and by ``everlog.spark.scan``.

    The Parquet files are written from the data source, uncompressed; the payloads are random.
    """
    with tempfile.TemporaryDirectory(prefix="everlog-bench-", dir=folder) as temporary:
        archive = aeron_archive(Path(temporary) / "archive", payload_bytes, total_bytes)
        parquet = str(Path(temporary) / "parquet")
        everything = spark.read.format("everlog").load(str(archive))
        everything.write.option("compression", "uncompressed").parquet(parquet)
        rows = spark.read.parquet(parquet).count()
        fewer = [name for name in everything.columns if name != "payload"]
        source = spark.read.format("everlog")
        chosen = ",".join(fewer)
        ours: dict[str, Callable[[], DataFrame]] = {
            "all": lambda: source.load(str(archive)),
            "all-scan": lambda: scan(spark, str(archive)),
            "without-payload": lambda: spark.read.format("everlog").option("columns", chosen).load(str(archive)),
            "without-payload-scan": lambda: scan(spark, str(archive), columns=chosen),
        }
        peers: dict[str, Callable[[], DataFrame]] = {
            "all": lambda: spark.read.parquet(parquet),
            "without-payload": lambda: spark.read.parquet(parquet).select(*fewer),
        }
        return {
            name: race(_consumer(make), _consumer(peers[name.removesuffix("-scan")]), rows, runs)
            for name, make in ours.items()
        }


def _consumer(make: Callable[[], DataFrame]) -> Callable[[], None]:
    return lambda: consume(make())


def consume(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def race(ours: Callable[[], None], peer: Callable[[], None], rows: int, runs: int) -> Comparison:
    """In turn, so that a drift of the machine meets both."""
    took, ratio = paired(ours, peer, runs, WARM_UPS)
    return Comparison(rows / took, ratio)
