"""Statistics of many stores in one Spark job: records, bytes, rates, sizes, times between records, gaps and bursts of
each stream and minute, the clients that sent most, the lag of readers, and damage.

Tasks scan without payloads and fold records where they read them (:mod:`everlog.pipelines.stats.scan`); Spark adds up
the folded numbers in one aggregation, for buckets and whole streams at once.
"""

from __future__ import annotations

import functools
import json
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from everlog.charts.vega import check_library
from everlog.errors import UsageError
from everlog.pipelines.scan.options import SKIP
from everlog.pipelines.scan.planning import plan
from everlog.pipelines.stats import rows as kinds
from everlog.pipelines.stats.joining import join_edges
from everlog.pipelines.stats.scan import Folding, fold_tasks, run_fold_tasks
from everlog.pipelines.stats.stores import describe_store
from everlog.spark.tasks import frame_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from everlog.charts.page import Report
    from everlog.discovery import FoundStore
    from everlog.pipelines.scan.columns import FamilyOptions
    from everlog.pipelines.scan.options import ScanOptions

MINUTE_NS = 60 * 10**9
MIN_BUCKET_NS, MAX_BUCKET_NS = 10**6, 10**18
BURST_FACTOR = 5
BURST_MIN_BUCKETS = 5
BURST_RULE = (
    f"a bucket of time with more than {BURST_FACTOR} times the median of the stream's buckets that have records, "
    f"of which there are at least {BURST_MIN_BUCKETS}"
)
TOP_CLIENTS = 20
"""Most clients listed for each stream."""
MAX_DETAILS = 10_000
"""Most gaps, and most faults, listed in detail; the counts of both are complete up to the limits of a split."""

Row = dict[str, Any]

_AGGREGATE = """
    SELECT store, family, stream, axis, bucket, grouping(bucket) = 1 AS is_stream,
           max(width) AS width, sum(records) AS records, sum(bytes) AS bytes,
           min(smallest) AS size_min, percentile(size, array(0.5D, 0.99D), size_n) AS sizes, max(largest) AS size_max,
           min(first_ns) AS first_ns, max(last_ns) AS last_ns,
           min(shortest_ns) AS interval_min_ns, percentile(gone, array(0.5D, 0.99D), gone_n) AS intervals,
           max(longest_ns) AS interval_max_ns, sum(backwards) AS backwards
    FROM (SELECT *, if(kind = 'size', value, NULL) AS size, if(kind = 'size', n, 0) AS size_n,
                 if(kind = 'interval', value, NULL) AS gone, if(kind = 'interval', n, 0) AS gone_n
          FROM {parts} WHERE kind IN ('total', 'size', 'interval'))
    GROUP BY GROUPING SETS ((store, family, stream, axis, bucket), (store, family, stream, axis))
    HAVING sum(records) > 0
"""
_NUMBERS = """
    store, family, stream, axis, {first} width, records, bytes,
    if(axis = 'time', records * 1e9D / {span}, NULL) AS records_per_s,
    if(axis = 'time', bytes * 1e9D / {span}, NULL) AS bytes_per_s,
    size_min, greatest(sizes[0], size_min) AS size_median, greatest(sizes[1], size_min) AS size_p99, size_max,
    interval_min_ns, greatest(intervals[0], interval_min_ns) AS interval_median_ns,
    greatest(intervals[1], interval_min_ns) AS interval_p99_ns, interval_max_ns,
    backwards, first_ns, last_ns
"""
_BUCKETS = f"""
    SELECT {_NUMBERS.format(first="bucket,", span="width")},
           axis = 'time' AND count(*) OVER stream >= {BURST_MIN_BUCKETS}
               AND records > {BURST_FACTOR} * percentile(records, 0.5D) OVER stream AS burst
    FROM {{found}} WHERE NOT is_stream
    WINDOW stream AS (PARTITION BY store, family, stream, axis)
"""
_STREAMS = f"""
    SELECT {_NUMBERS.format(first="", span="nullif(last_ns - first_ns, 0)")}
    FROM {{found}} WHERE is_stream
"""
_CLIENTS = f"""
    SELECT * FROM (
        SELECT *, row_number() OVER (PARTITION BY store, family, stream ORDER BY records DESC, client) AS rank
        FROM (SELECT store, family, stream, value AS client, sum(n) AS records, sum(bytes) AS bytes
              FROM {{parts}} WHERE kind = 'client' AND value > 0 GROUP BY store, family, stream, value))
    WHERE rank <= {TOP_CLIENTS} ORDER BY store, stream, rank
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    """The statistics. ``buckets`` is a DataFrame with a row for each stream and bucket, of any size, which the session
    keeps; the lists are small.

    A row of ``streams`` covers all of its stream's records with a time (``axis`` is ``time``) or without one
    (``position``): ``records``, ``bytes``, rates over the time between the first and last record, ``size_*`` and
    ``interval_*_ns`` (``min``, ``median``, ``p99``, ``max``; median and p99 at most 0.2 % too low), ``first_ns``,
    ``last_ns``, ``backwards`` (records older than the one before), ``gaps``, ``missing``, ``faults``, ``bursts``. A row
    of ``buckets`` has the same for ``width`` nanoseconds, or positions, from ``bucket`` on, and ``burst``
    (:data:`BURST_RULE`).
    """

    bucket_ns: int
    buckets: DataFrame
    streams: list[Row]
    clients: list[Row] = field(default_factory=list)
    readers: list[Row] = field(default_factory=list)
    gaps: list[Row] = field(default_factory=list)
    faults: list[Row] = field(default_factory=list)
    segments: list[Row] = field(default_factory=list)
    stores: list[Row] = field(default_factory=list)

    @property
    def burst_rule(self) -> str:
        """The definition of bursts in words."""
        return BURST_RULE

    @property
    def ok(self) -> bool:
        """Whether no fault was found and every store could be read."""
        return not any(fault["severity"] == "fault" for fault in self.faults) and not any(
            store["error"] for store in self.stores
        )

    def bursts(self) -> DataFrame:
        """The buckets that are bursts."""
        return self.buckets.where("burst")

    def report(self, title: str = "What the streams hold") -> Report:
        """Draw the statistics as a page of charts."""
        from everlog.charts.page import make_report
        from everlog.spark.statistics.cells import cells_of

        check_library()
        return make_report(self, cells_of(self), title)

    def _repr_html_(self) -> str:
        return self.report()._repr_html_()


def stats(spark: SparkSession, *paths: str, bucket_ns: int = MINUTE_NS, options: dict[str, str] | None = None) -> Stats:
    """Statistics of the stores at or below ``paths``. ``options`` are the data source's, such as ``{"timestampFrom":
    "reserved_value:ns"}``. Damage is reported in the result, not raised. Raises :class:`UsageError`,
    :class:`NotAStore`, :class:`StoreUnavailable`."""
    from everlog.discovery import find_stores
    from everlog.pipelines.scan.columns import family_options
    from everlog.pipelines.scan.options import parse_options

    scan = parse_options({**(options or {}), "paths": json.dumps(list(paths))})
    stores = find_stores(scan.paths, scan.family)
    return stats_of_stores(spark, stores, scan, family_options(stores, scan), bucket_ns=bucket_ns)


def check_bucket(bucket_ns: int) -> None:
    """Raise :class:`UsageError` for a width that is too small, or beyond what 64-bit times cover."""
    if not MIN_BUCKET_NS <= bucket_ns <= MAX_BUCKET_NS:
        expected = f"at least {MIN_BUCKET_NS} ns, at most {MAX_BUCKET_NS} ns"
        raise UsageError("bucket", found=f"{bucket_ns} ns", expected=expected)


def stats_of_stores(
    spark: SparkSession,
    stores: list[FoundStore],
    scan: ScanOptions,
    options: FamilyOptions,
    *,
    bucket_ns: int = MINUTE_NS,
) -> Stats:
    """Like :func:`stats`, for stores that were found already."""
    check_bucket(bucket_ns)
    described = _describe(spark, stores, options)
    readable = [store for store, row in zip(stores, described, strict=True) if row["error"] is None]
    parts = _scan(spark, readable, scan, options, bucket_ns)
    with kept(parts):
        found = stats_of_parts(spark, parts, bucket_ns=bucket_ns, may_join=scan.level.value == "record")
    lost = {row["store"]: row["error"] for row in reversed(found.stores)}
    return Stats(
        bucket_ns=bucket_ns,
        buckets=found.buckets,
        streams=found.streams,
        clients=found.clients,
        readers=_of_stores(described, "readers"),
        gaps=found.gaps,
        faults=found.faults,
        segments=_of_stores(described, "segments"),
        stores=[
            {"store": row["store"], "family": row["family"], "error": row["error"] or lost.get(row["store"])}
            for row in described
        ],
    )


@contextmanager
def kept(frame: DataFrame) -> Iterator[DataFrame]:
    """Keep a DataFrame's results until the block ends."""
    frame.persist()
    try:
        yield frame
    finally:
        frame.unpersist()


@contextmanager
def _view(frame: DataFrame) -> Iterator[str]:
    """A name for SQL, until the block ends. The name of a DataFrame passed to ``spark.sql`` is dropped at once, along
    with the DataFrame's persisted data, so each query would read the stores again."""
    name = f"everlog_stats_{uuid.uuid4().hex}"
    frame.createTempView(name)
    try:
        yield name
    finally:
        frame.sparkSession.catalog.dropTempView(name)


def stats_of_parts(spark: SparkSession, parts: DataFrame, *, bucket_ns: int, may_join: bool) -> Stats:
    """Combine the tasks' rows with Spark and on the driver. They should be persisted, since they are read three times.
    ``buckets`` stay in the session."""
    few = [
        (kinds.StreamName(row.store, row.family, row.stream), row.kind, json.loads(row.detail))
        for row in parts.where("detail IS NOT NULL").select("kind", "store", "family", "stream", "detail").collect()
    ]
    gaps = [_named(name) | detail for name, kind, detail in few if kind == kinds.GAP]
    if may_join:
        batches, more = join_edges([(name, detail) for name, kind, detail in few if kind == kinds.EDGE], bucket_ns)
        gaps += [_named(name) | gap for name, gap in more]
        if batches:
            import pyarrow as pa

            parts = parts.unionByName(spark.createDataFrame(pa.Table.from_batches(batches)))
    faults = [_named(name) | detail for name, kind, detail in few if kind == kinds.FAULT]
    gaps.sort(key=lambda gap: (gap["store"], gap["stream"], gap["after_ns"] or 0))
    with _view(parts) as rows:
        with kept(spark.sql(_AGGREGATE.format(parts=rows))) as aggregated, _view(aggregated) as found:
            buckets = spark.sql(_BUCKETS.format(found=found)).persist()
            streams = [row.asDict() for row in spark.sql(_STREAMS.format(found=found)).collect()]
            # This computes all buckets, so their input is no longer needed afterwards.
            bursts = {
                (row.store, row.stream): row["count"]
                for row in buckets.where("burst").groupBy("store", "stream").count().collect()
            }
        clients = [row.asDict() for row in spark.sql(_CLIENTS.format(parts=rows)).collect()]
    streams.sort(key=lambda row: (row["store"], row["stream"], row["axis"]))
    _count_in(streams, gaps, faults, bursts)
    return Stats(
        bucket_ns=bucket_ns,
        buckets=buckets,
        streams=streams,
        clients=clients,
        gaps=gaps[:MAX_DETAILS],
        faults=faults[:MAX_DETAILS],
        stores=[
            {"store": name.store, "family": name.family, "error": detail["error"]}
            for name, kind, detail in few
            if kind == kinds.LOST
        ],
    )


def _describe(spark: SparkSession, stores: list[FoundStore], options: FamilyOptions) -> list[Row]:
    context = spark.sparkContext
    todo = [(store, dict(options[store.family])) for store in stores]
    tasks = max(1, min(len(todo), context.defaultParallelism * 4))
    rows: list[Row] = context.parallelize(todo, tasks).map(lambda item: describe_store(*item)).collect()
    return rows


def _of_stores(described: Iterable[Row], name: str) -> list[Row]:
    return [{"store": row["store"], "family": row["family"]} | item for row in described for item in row[name]]


def _named(name: kinds.StreamName) -> Row:
    return {"store": name.store, "family": name.family, "stream": name.stream}


def _count_in(streams: list[Row], gaps: list[Row], faults: list[Row], bursts: dict[tuple[str, str], int]) -> None:
    """Add the counts of gaps, faults and bursts to each stream's row; to its first row if it has two axes."""
    counts: dict[tuple[str, str], Row] = {}
    for row in streams:
        row["gaps"] = row["missing"] = row["faults"] = row["bursts"] = 0
        counts.setdefault((row["store"], row["stream"]), row)
    for found, name in ((gaps, "gaps"), (faults, "faults")):
        for one in found:
            row = counts.get((one["store"], one["stream"]), {name: 0, "missing": 0})
            row[name] += 1
            row["missing"] += one.get("missing") or 0
    for key, count in bursts.items():
        if key in counts:
            counts[key]["bursts"] = count


def _scan(
    spark: SparkSession, stores: list[FoundStore], scan: ScanOptions, options: FamilyOptions, bucket_ns: int
) -> DataFrame:
    """The rows of :data:`everlog.pipelines.stats.rows.SCHEMA` of all streams that ``scan`` selects. Planned now, read
    when the result is evaluated. Damage becomes rows, too."""
    context = spark.sparkContext
    scan = replace(scan, on_fault=SKIP)
    scan = replace(scan, partitions=scan.partitions or context.defaultParallelism)
    tasks = fold_tasks(plan(stores, scan, options))
    how = Folding(bucket_ns, scan.level, scan.start_ns, scan.end_ns, scan.fail_on_data_loss)
    return frame_of(spark, tasks, functools.partial(run_fold_tasks, how), kinds.SCHEMA)
