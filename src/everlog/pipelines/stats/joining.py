"""Joins the separately folded splits of a stream: adds the interval and the gap between the last record of one split
and the first of the next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from everlog.pipelines.stats.fold import MAX_GAPS, Buckets
from everlog.pipelines.stats.rows import TIME, StreamName, bucket_rows
from everlog.stores import family_named

if TYPE_CHECKING:
    import pyarrow as pa

Row = dict[str, Any]


def join_edges(
    edges: list[tuple[StreamName, Row]], bucket_ns: int
) -> tuple[list[pa.RecordBatch], list[tuple[StreamName, Row]]]:
    """Rows of buckets with the intervals between neighbouring splits, and the gaps there. A split that does not begin
    at the end of the previous one is not its neighbour: the data between them was not asked for."""
    by_stream: dict[StreamName, list[Row]] = {}
    for name, edge in edges:
        by_stream.setdefault(name, []).append(edge)
    batches: list[pa.RecordBatch] = []
    gaps: list[tuple[StreamName, Row]] = []
    for name, splits in by_stream.items():
        splits.sort(key=lambda edge: (edge["start"] is not None, edge["start"] or 0))
        buckets = Buckets(bucket_ns)
        last, last_ns, end = None, None, None
        for split in splits:
            if end is None or split["start"] != end:
                last, last_ns = None, None
            if last is not None and split["first"] is not None:
                _join(name, last, split["first"], gaps)
            if split["ends_ns"] is not None:
                last_ns = _join_times(last_ns, split["ends_ns"], buckets)
            last, end = split["last"] or last, split["end"]
        batches += bucket_rows(name, TIME, buckets)
    return batches, gaps


def _join_times(before_ns: int | None, ends_ns: Sequence[int | None], buckets: Buckets) -> int | None:
    """Times outside the requested range are ``None``: an interval counts if both its ends are in it."""
    first_ns, last_ns = ends_ns
    if before_ns is not None and first_ns is not None:
        buckets.add_interval(first_ns, first_ns - before_ns)
    return last_ns


def _join(name: StreamName, last: list[Any], first: list[Any], gaps: list[tuple[StreamName, Row]]) -> None:
    (after, after_ns, after_text), (before, before_ns, before_text) = last, first
    missing_between = family_named(name.family).missing_between
    missing = 0 if missing_between is None else missing_between(after, before)
    if missing and len(gaps) < MAX_GAPS:
        times = {"after_ns": after_ns, "before_ns": before_ns}
        gaps.append((name, {"after": after_text, "before": before_text, "missing": missing, **times}))
