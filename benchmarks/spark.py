"""The Spark data source: see :mod:`benchmarks.spark_scan`."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.lines import Line
from benchmarks.spark_scan import compare
from everlog.spark.session import local_session

STORES = (32, 512 << 20), (1024, 1 << 30)
TARGETS = {"all": ">=0.7", "all-scan": ">=0.7", "without-payload": ">=0.9", "without-payload-scan": ">=1.0"}


def lines() -> Iterator[Line]:
    """Short and long messages, with and without the payload."""
    spark = local_session("everlog benchmark", memory="3g")
    try:
        for payload_bytes, total_bytes in STORES:
            size = "32B" if payload_bytes == 32 else "1KiB"
            for name, found in compare(spark, payload_bytes, total_bytes).items():
                value = found.rows_per_second / 1e6
                yield Line(f"spark-{size}-{name}", value, "Mrows/s", TARGETS[name], found.ratio)
    finally:
        spark.stop()
