"""Cells for the charts of statistics, added up by Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from everlog.charts.cells import MAX_CELLS, MAX_SPANS, Cells, Era, Row, cut_holes, key_of, largest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Bucketed(Protocol):
    """Statistics: see :class:`everlog.spark.statistics.stats.Stats`."""

    @property
    def bucket_ns(self) -> int: ...
    @property
    def buckets(self) -> DataFrame: ...
    @property
    def streams(self) -> list[Row]: ...


def cells_of(stats: Bucketed) -> Cells:
    """What the charts show."""
    timeless, left_out = largest(row for row in stats.streams if row["axis"] == "position")
    cells = _position_cells(stats, timeless) if timeless else []
    return Cells(eras(stats), timeless, left_out, cells)


def eras(stats: Bucketed) -> list[Era]:
    """Time ranges without long holes, the earliest first, with what to draw. Spark adds up bursts and cells."""
    timed = [row for row in stats.streams if row["axis"] == "time"]
    if not timed:
        return []
    whole = min(row["first_ns"] for row in timed), max(row["last_ns"] for row in timed) + 1
    spans = cut_holes(_occupied(stats, *whole))
    if len(spans) > 1:  # find holes that were too small at the scale of the whole
        spans = cut_holes([span for at in spans for span in _occupied(stats, *at)])
    found = []
    for start, end in spans:
        cell = stats.bucket_ns
        while (end - start) // cell >= MAX_CELLS:
            cell += stats.bucket_ns * max(1, (end - start) // cell // MAX_CELLS)
        found.append(Era(start // cell * cell, -(-end // cell) * cell, cell, [], 0))
    _add_streams(stats, found)
    _add_cells(stats, found)
    return [era for era in found if era.cells]


def _occupied(stats: Bucketed, start: int, end: int) -> list[tuple[int, int]]:
    """The parts of a time range in which buckets have records, at a resolution of about 1/:data:`MAX_SPANS`; sorted."""
    step = max(stats.bucket_ns, (end - start) // MAX_SPANS)
    bucket, after = F.col("bucket"), F.col("bucket") + F.col("width")
    rows = (
        stats.buckets.where("axis = 'time'")
        .where((bucket < end) & (after > start))
        .groupBy(F.floor(bucket / step).alias("part"))
        .agg(F.min(bucket).alias("first"), F.max(after).alias("after"))
        .orderBy("part")
        .limit(2 * MAX_SPANS)
        .collect()
    )
    return [(row["first"], row["after"]) for row in rows]


def _with_era(stats: Bucketed, found: list[Era]) -> DataFrame:
    """The time buckets, each with the number of its era and its cell in it."""
    width: Any = F.lit(stats.bucket_ns)
    number: Any = F.lit(-1)
    for index, era in enumerate(found):
        is_here = (F.col("bucket") < era.end_ns) & (F.col("bucket") + F.col("width") > era.start_ns)
        width, number = F.when(is_here, era.cell_ns).otherwise(width), F.when(is_here, index).otherwise(number)
    timed = stats.buckets.where("axis = 'time'").withColumn("era", number).where("era >= 0")
    return timed.withColumn("cell", F.floor(F.col("bucket") / width) * width)


def _add_streams(stats: Bucketed, found: list[Era]) -> None:
    sums = _with_era(stats, found).groupBy("era", "store", "family", "stream").agg(F.sum("bytes").alias("bytes"))
    rows = [row.asDict() for row in sums.orderBy("store", "stream").collect()]
    for index, era in enumerate(found):
        era.streams, era.left_out = largest(row for row in rows if row["era"] == index)


def _add_cells(stats: Bucketed, found: list[Era]) -> None:
    wanted = sorted({f"{row['store']}\0{row['stream']}" for era in found for row in era.streams})
    rows = (
        _with_era(stats, found)
        .where(F.concat_ws("\0", "store", "stream").isin(wanted))
        .groupBy("era", "store", "family", "stream", "cell")
        .agg(F.sum("records").alias("records"), F.sum("bytes").alias("bytes"), F.max("burst").alias("burst"))
        .orderBy("store", "stream", "cell")
        .collect()
    )
    for row in rows:
        era = found[row["era"]]
        if any(key_of(stream) == (row["store"], row["stream"]) for stream in era.streams):
            era.cells.append(row.asDict())


def _position_cells(stats: Bucketed, streams: list[Row]) -> list[Row]:
    """The buckets of streams without times; their width limits them to a few hundred per stream."""
    wanted = [f"{row['store']}\0{row['stream']}" for row in streams]
    rows = (
        stats.buckets.where("axis = 'position'")
        .where(F.concat_ws("\0", "store", "stream").isin(wanted))
        .select("store", "family", "stream", "bucket", "width", "records", "bytes")
        .orderBy("store", "stream", "bucket")
        .limit(len(wanted) * 4 * MAX_CELLS)
    )
    return [row.asDict() for row in rows.collect()]
