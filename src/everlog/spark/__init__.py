"""Spark over everlog's stores: the data source ``everlog``, functions on a session, a local session, the demo."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession

    from everlog.charts.page import Report
    from everlog.pipelines.choices import ComparedBy, ExportFormat
    from everlog.spark.jobs.compare import Comparison
    from everlog.spark.jobs.export import ExportSummary
    from everlog.spark.statistics.stats import Stats


Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
"""A path, or several, as for ``load``."""


def _flat(paths: tuple[Paths, ...]) -> list[str]:
    several = [[path] if isinstance(path, str | os.PathLike) else path for path in paths]
    return [os.fspath(path) for group in several for path in group]


def scan(spark: SparkSession, *paths: Paths, **options: str) -> DataFrame:
    """The same table as ``spark.read.format("everlog").options(**options).load(paths)``, but faster: see
    :mod:`everlog.spark.scanning`. The query is planned immediately, on the driver, and each use of the DataFrame reads
    what the stores had then. Raises what ``load`` raises, and for a damaged or missing store what its queries would
    raise."""
    from everlog.spark.scanning import scan as read

    return read(spark, _flat(paths), options)


def faults(spark: SparkSession, *paths: Paths, **options: str) -> DataFrame:
    """The faults that a query over the stores would find: a row for each, with the columns of
    :data:`everlog.pipelines.scan.fault_table.COLUMNS`. ``paths`` and ``options`` are the data source's. The stores are
    read when the result is evaluated, independently of queries that read the good records."""
    return spark.read.format("everlog").options(**options).option("faults", "true").load(_flat(paths))


def verify(spark: SparkSession, *paths: Paths, **options: str) -> DataFrame:
    """Check all stores at or below ``paths`` now, in parallel, large ones in parts. Returns a row for each with its
    faults (see :data:`everlog.spark.jobs.verify.SCHEMA`). ``options`` are the data source's. Raises :class:`NotAStore`,
    :class:`UsageError`."""
    from everlog.spark.jobs.verify import verify_paths

    return verify_paths(spark, _flat(paths), options)


def export(
    spark: SparkSession, *paths: Paths, folder: str, format: ExportFormat = "parquet", **options: str
) -> ExportSummary:
    """Export the records of all stores at or below ``paths`` to ``folder``, as ``parquet``, ``arrow``, ``jsonl`` or
    ``delta``. A repeated run adds what is new; each record is there once. Raises what
    :func:`everlog.spark.jobs.export.export` raises."""
    from everlog.spark.jobs.export import Export
    from everlog.spark.jobs.export import export as run

    return run(spark, Export(options={**options, "paths": json.dumps(_flat(paths))}, folder=folder, kind=format))


def compare(spark: SparkSession, a: str, b: str, *, by: ComparedBy = "address", **options: str) -> Comparison:
    """Compare the records of two stores, or of a store and its export. Raises what
    :func:`everlog.spark.jobs.compare.compare` raises."""
    from everlog.spark.jobs.compare import compare as run

    return run(spark, a, b, by=by, options=options)


def stats(spark: SparkSession, *paths: Paths, bucket_ns: int = 60 * 10**9, **options: str) -> Stats:
    """Records, bytes, rates, sizes, times between records, gaps and bursts of each stream and bucket (``bucket_ns``,
    default one minute) of the stores at or below ``paths``: see :class:`everlog.spark.statistics.stats.Stats`.
    ``options`` are the data source's, such as ``timestampFrom="reserved_value:ns"``. Damage is reported in the
    result."""
    from everlog.spark.statistics.stats import stats as make_stats

    return make_stats(spark, *_flat(paths), bucket_ns=bucket_ns, options=options)


def stats_of(frame: DataFrame, *, bucket_ns: int = 60 * 10**9, gaps: bool = False) -> Stats:
    """Like :func:`stats`, for a DataFrame's rows: a selection of the data source's table, or an export. Needs the
    columns :data:`everlog.spark.statistics.frame.NEEDED`. ``gaps``: report missing addresses, which is only meaningful
    if no rows were left out on purpose. Raises :class:`UsageError`."""
    from everlog.spark.statistics.frame import stats_of_frame

    return stats_of_frame(frame, bucket_ns=bucket_ns, gaps=gaps)


def report(stats: Stats, title: str = "What the streams hold") -> Report:
    """A page with charts of ``stats``: a notebook displays it, ``.save(path)`` writes it. Needs the extra ``plot``;
    raises :class:`MissingDependency` without it."""
    return stats.report(title)


def aggregate(
    spark: SparkSession,
    *paths: Paths,
    by: str | Sequence[str] | Mapping[str, str] = (),
    values: Mapping[str, str] | None = None,
    **options: str,
) -> DataFrame:
    """Groups of records, folded where they are read: for small messages much faster than ``groupBy`` on records.

    ``by``: one or several columns, or times rounded down: ``second(timestamp)``, ``minute``, ``hour``, ``day`` (in
    UTC); a mapping gives them other names. ``values``: name to ``count``, ``count(COLUMN)``, ``sum(COLUMN)``,
    ``min(COLUMN)``, ``max(COLUMN)`` or ``avg(COLUMN)`` of numbers, or ``min`` and ``max`` of ``timestamp``; default is
    the number of records. Columns are the data source's, including those of ``sbeMessage``; so are ``paths`` and
    ``options``.

    Nulls are ignored, and a group with only nulls results in a null; a null key is a group of its own. Sums of integers
    are exact, as ``decimal(38,0)``; sums of floating-point numbers depend on the order, as in Spark. Raises
    :class:`UsageError`.
    """
    from everlog.spark.merging import aggregate as fold

    keys = [by] if isinstance(by, str) else by
    return fold(spark, _flat(paths), keys, {"records": "count"} if values is None else values, options)
