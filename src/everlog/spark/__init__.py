"""Spark over everlog's stores: the data source ``everlog``, functions of a session, a local session, the demo."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession

    from everlog.charts.page import Report
    from everlog.spark.jobs.compare import Comparison
    from everlog.spark.jobs.export import ExportSummary
    from everlog.spark.statistics.stats import Stats


Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
"""A path, or several as ``load`` takes them."""


def _flat(paths: tuple[Paths, ...]) -> list[str]:
    several = [[path] if isinstance(path, str | os.PathLike) else path for path in paths]
    return [os.fspath(path) for group in several for path in group]


def scan(spark: SparkSession, *paths: Paths, **options: str) -> DataFrame:
    """The table of ``spark.read.format("everlog").options(**options).load(paths)``, and faster: see
    :mod:`everlog.spark.scanning`. The stores are looked at now, here on the driver, and each use of the DataFrame reads
    what was there then. Raises as ``load`` does, and for a damaged or missing store what its queries would raise.
    """
    from everlog.spark.scanning import scan as read

    return read(spark, _flat(paths), options)


def faults(spark: SparkSession, *paths: Paths, **options: str) -> DataFrame:
    """The faults that a query over the stores would meet: columns of
    :data:`everlog.pipelines.scan.fault_table.COLUMNS`, a row for each. ``paths`` and ``options`` are the data source's.
    The stores are read when the result is asked for, beside whatever query reads the good records."""
    return spark.read.format("everlog").options(**options).option("faults", "true").load(_flat(paths))


def verify(spark: SparkSession, *paths: Paths, **options: str) -> DataFrame:
    """Check all stores at or below ``paths`` now, in parallel, large ones in parts: a row for each, its faults in it
    (see :data:`everlog.spark.jobs.verify.SCHEMA`). ``options`` are the data source's. Raises :class:`NotAStore`,
    :class:`UsageError`.
    """
    from everlog.spark.jobs.verify import verify_paths

    return verify_paths(spark, _flat(paths), options)


def export(spark: SparkSession, *paths: Paths, folder: str, format: str = "parquet", **options: str) -> ExportSummary:
    """Export the records of all stores at or below ``paths`` to ``folder``, as ``parquet``, ``arrow``, ``jsonl`` or
    ``delta``; run again, what is new, each record once. Raises as :func:`everlog.spark.jobs.export.export`.
    """
    from everlog.spark.jobs.export import Export
    from everlog.spark.jobs.export import export as run

    return run(spark, Export(options={**options, "paths": json.dumps(_flat(paths))}, folder=folder, kind=format))


def compare(spark: SparkSession, a: str, b: str, *, by: str = "address", **options: str) -> Comparison:
    """Whether two stores, or a store and its export, hold the same records. Raises as
    :func:`everlog.spark.jobs.compare.compare`.
    """
    from everlog.spark.jobs.compare import compare as run

    return run(spark, a, b, by=by, options=options)


def stats(spark: SparkSession, *paths: Paths, bucket_ns: int = 60 * 10**9, **options: str) -> Stats:
    """Records, bytes, rates, sizes, times between records, gaps and bursts of each stream and minute (``bucket_ns``),
    of the stores at or below ``paths``: see :class:`everlog.spark.statistics.stats.Stats`. ``options`` are the data
    source's, such as ``timestampFrom="reserved_value:ns"``. Damage is told in the result.
    """
    from everlog.spark.statistics.stats import stats as make_stats

    return make_stats(spark, *_flat(paths), bucket_ns=bucket_ns, options=options)


def stats_of(frame: DataFrame, *, bucket_ns: int = 60 * 10**9, gaps: bool = False) -> Stats:
    """As :func:`stats`, of a DataFrame's rows: what a query chose of the data source's table, or an export. Needs the
    columns :data:`everlog.spark.statistics.frame.NEEDED`. ``gaps``: tell missing addresses, which is right only
    where no row was left out on purpose. Raises :class:`UsageError`.
    """
    from everlog.spark.statistics.frame import stats_of_frame

    return stats_of_frame(frame, bucket_ns=bucket_ns, gaps=gaps)


def report(stats: Stats, title: str = "What the streams hold") -> Report:
    """A page with pictures of ``stats``: a notebook shows it, ``.save(path)`` writes it. Needs the extra ``plot``;
    raises :class:`MissingDependency` without it.
    """
    return stats.report(title)


def aggregate(
    spark: SparkSession,
    *paths: Paths,
    by: str | Sequence[str] | Mapping[str, str] = (),
    values: Mapping[str, str] | None = None,
    **options: str,
) -> DataFrame:
    """Groups of records, folded where they are read: for small messages much faster than ``groupBy`` on records.

    ``by``: a column or several, and times rounded down: ``second(timestamp)``, ``minute``, ``hour``, ``day`` (of
    UTC); a mapping gives them other names. ``values``: name to ``count``, ``count(COLUMN)``, ``sum(COLUMN)``,
    ``min(COLUMN)``, ``max(COLUMN)`` or ``avg(COLUMN)``, the number of records without it: of numbers, ``min`` and
    ``max`` of ``timestamp`` too. Columns are the data source's, those of ``sbeMessage`` too; ``paths`` and ``options``
    as well.

    Nulls are passed over, a group of nulls only has a null; a null key is a group. Sums of integers are exact, as
    ``decimal(38,0)``; those of floating-point numbers depend on the order, as in Spark. Raises :class:`UsageError`.
    """
    from everlog.spark.merging import aggregate as fold

    keys = [by] if isinstance(by, str) else by
    return fold(spark, _flat(paths), keys, {"records": "count"} if values is None else values, options)
