"""What is drawn of statistics that may be of any size: a bounded number of streams, stretches of time and cells."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from everlog.spark.pipelines.stats import Stats

MAX_ROWS = 24
"""Streams in a picture: those with most bytes."""
MAX_CELLS = 120
"""Stretches of time in a row."""
MAX_ERAS = 6
HOLE_SHARE = 0.2
"""A stretch without any record that is longer than this part of a picture's time makes two pictures of it."""
MAX_SPANS = 20_000
"""How finely holes are looked for."""
MAX_LABEL = 44

Row = dict[str, Any]
Key = tuple[str, str]


@dataclass(slots=True)
class Era:
    """A stretch of time in which streams have records: its ends in nanoseconds, the streams that are drawn, how many
    are not, and their cells of ``cell_ns``."""

    start_ns: int
    end_ns: int
    cell_ns: int
    streams: list[Row]
    left_out: int
    cells: list[Row] = field(default_factory=list)


def key_of(row: Row) -> Key:
    """Which stream a row is about."""
    return row["store"], row["stream"]


def labels(streams: Iterable[Row]) -> dict[Key, str]:
    """Short names: the stream, before it as much of the store's path as tells stores apart."""
    keys = sorted({key_of(row) for row in streams})
    stores = sorted({store for store, _ in keys})
    base = os.path.commonpath(stores) if len(stores) > 1 and len({"://" in s for s in stores}) == 1 else ""
    short = {store: store.removeprefix(base).strip("/") or os.path.basename(store.rstrip("/")) for store in stores}
    if len(stores) == 1:
        short = {stores[0]: ""}
    found = {}
    for store, stream in keys:
        found[store, stream] = cut(short[store], stream)
    again = Counter(found.values())
    taken: Counter[str] = Counter()
    for key, label in found.items():
        if again[label] > 1:
            taken[label] += 1
            found[key] = f"{label} ({taken[label]})"
    return found


def cut(store: str, stream: str) -> str:
    """``store / stream`` in at most :data:`MAX_LABEL` characters; the store's beginning goes first."""
    stream = stream if len(stream) <= MAX_LABEL // 2 else stream[: MAX_LABEL // 2 - 1] + "…"
    room = MAX_LABEL - len(stream) - 3
    if not store:
        return stream
    return f"{store if len(store) <= room else '…' + store[-room + 1 :]} / {stream}"


def largest(streams: Iterable[Row], count: int = MAX_ROWS) -> tuple[list[Row], int]:
    """Those with most bytes, in the order they come in, and how many others there are."""
    rows = list(streams)
    chosen = sorted(range(len(rows)), key=lambda n: (-rows[n]["bytes"], n))[:count]
    return [rows[n] for n in sorted(chosen)], len(rows) - len(chosen)


def eras(stats: Stats) -> list[Era]:
    """Stretches of time without long holes, the earliest first, with what there is to draw. Spark adds up bursts and
    cells."""
    timed = [row for row in stats.streams if row["axis"] == "time"]
    if not timed:
        return []
    whole = min(row["first_ns"] for row in timed), max(row["last_ns"] for row in timed) + 1
    spans = cut_holes(_occupied(stats, *whole))
    if len(spans) > 1:  # what was too small to be seen beside the whole
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


def _occupied(stats: Stats, start: int, end: int) -> list[tuple[int, int]]:
    """Where in a stretch of time buckets have records, to about a part in :data:`MAX_SPANS`; sorted."""
    from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

    step = max(stats.bucket_ns, (end - start) // MAX_SPANS)
    bucket, behind = F.col("bucket"), F.col("bucket") + F.col("width")
    rows = (
        stats.buckets.where("axis = 'time'")
        .where((bucket < end) & (behind > start))
        .groupBy(F.floor(bucket / step).alias("part"))
        .agg(F.min(bucket).alias("first"), F.max(behind).alias("behind"))
        .orderBy("part")
        .limit(2 * MAX_SPANS)
        .collect()
    )
    return [(row["first"], row["behind"]) for row in rows]


def cut_holes(spans: list[tuple[int, int]], most: int = MAX_ERAS) -> list[tuple[int, int]]:
    """At most so many stretches that hold all spans, which are sorted, cut at the holes between them that are longest
    beside what they are cut out of."""
    merged: list[list[int]] = []
    for start, end in spans:
        if merged and start <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], end)
        else:
            merged.append([start, end])
    parts = [merged]
    while len(parts) < most:
        best: tuple[float, int, int] | None = None
        for number, part in enumerate(parts):
            whole = part[-1][1] - part[0][0]
            for at in range(1, len(part)):
                share = (part[at][0] - part[at - 1][1]) / whole
                if share > HOLE_SHARE and (best is None or share > best[0]):
                    best = share, number, at
        if best is None:
            break
        _, number, at = best
        parts[number : number + 1] = [parts[number][:at], parts[number][at:]]
    return [(part[0][0], part[-1][1]) for part in parts]


def _with_era(stats: Stats, found: list[Era]) -> DataFrame:
    """The buckets of time, each with the number of its era and the cell of it that it belongs to."""
    from pyspark.sql import functions as F  # noqa: N812

    width: Any = F.lit(stats.bucket_ns)
    number: Any = F.lit(-1)
    for index, era in enumerate(found):
        is_here = (F.col("bucket") < era.end_ns) & (F.col("bucket") + F.col("width") > era.start_ns)
        width, number = F.when(is_here, era.cell_ns).otherwise(width), F.when(is_here, index).otherwise(number)
    timed = stats.buckets.where("axis = 'time'").withColumn("era", number).where("era >= 0")
    return timed.withColumn("cell", F.floor(F.col("bucket") / width) * width)


def _add_streams(stats: Stats, found: list[Era]) -> None:
    from pyspark.sql import functions as F  # noqa: N812

    sums = _with_era(stats, found).groupBy("era", "store", "family", "stream").agg(F.sum("bytes").alias("bytes"))
    rows = [row.asDict() for row in sums.orderBy("store", "stream").collect()]
    for index, era in enumerate(found):
        era.streams, era.left_out = largest(row for row in rows if row["era"] == index)


def _add_cells(stats: Stats, found: list[Era]) -> None:
    from pyspark.sql import functions as F  # noqa: N812

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


def position_cells(stats: Stats, streams: list[Row]) -> list[Row]:
    """The buckets of streams without times: at most a few hundred of each, by how they are made."""
    from pyspark.sql import functions as F  # noqa: N812

    wanted = [f"{row['store']}\0{row['stream']}" for row in streams]
    rows = (
        stats.buckets.where("axis = 'position'")
        .where(F.concat_ws("\0", "store", "stream").isin(wanted))
        .select("store", "family", "stream", "bucket", "width", "records", "bytes")
        .orderBy("store", "stream", "bucket")
        .limit(len(wanted) * 4 * MAX_CELLS)
    )
    return [row.asDict() for row in rows.collect()]
