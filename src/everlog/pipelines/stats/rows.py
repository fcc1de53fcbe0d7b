"""The table that the tasks of ``stats`` return; each row's ``kind`` says what it is. Spark adds up the buckets'
numbers; the few other rows (``edge``, ``gap``, ``fault``) go to the driver."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from everlog.pipelines.stats.fold import NO_LEAST, NO_MOST, TOTALS, Buckets, Int64s, StreamFold

if TYPE_CHECKING:
    import pyarrow as pa

TIME, POSITION = "time", "position"
"""The axes of buckets."""
TOTAL, SIZE, INTERVAL, CLIENT, EDGE, GAP, FAULT, LOST = (
    "total",
    "size",
    "interval",
    "client",
    "edge",
    "gap",
    "fault",
    "lost",
)
_KEYS = ("kind", "store", "family", "stream", "axis")
_NUMBERS = ("bucket", "width", "value", "n", *TOTALS)
SCHEMA = ", ".join([*(f"{name} string" for name in _KEYS), *(f"{name} bigint" for name in _NUMBERS), "detail string"])
"""``total``: a bucket's numbers. ``size``, ``interval``: ``n`` records of a bucket with this ``value``. ``client``:
``value`` is its number, ``n`` and ``bytes`` what it sent. ``edge``, ``gap``, ``fault``, ``lost``: JSON in
``detail``."""


@dataclass(frozen=True, slots=True, order=True)
class StreamName:
    """Identifies a stream of a store."""

    store: str
    family: str
    stream: str


def fold_rows(name: StreamName, fold: StreamFold) -> Iterator[pa.RecordBatch]:
    """A fold's rows, except for its edges."""
    for axis, buckets in ((TIME, fold.by_time), (POSITION, fold.by_position)):
        yield from bucket_rows(name, axis, buckets)
    clients, (records, sizes) = fold.clients.rows()
    if len(clients):
        yield _batch(name, CLIENT, None, len(clients), {"value": clients, "n": records, "bytes": sizes})


def bucket_rows(name: StreamName, axis: str, buckets: Buckets) -> Iterator[pa.RecordBatch]:
    """The rows of one axis's buckets."""
    starts, totals = buckets.totals.rows()
    width = np.full(len(starts), buckets.width, np.int64)
    if len(starts):
        numbers = dict(zip(TOTALS, totals, strict=True)) | {"bucket": starts * buckets.width, "width": width}
        yield _batch(name, TOTAL, axis, len(starts), numbers)
    for kind, counts in ((SIZE, buckets.sizes), (INTERVAL, buckets.intervals)):
        starts, values, ones = counts.rows()
        if len(starts):
            numbers = {"bucket": starts * buckets.width, "value": values, "n": ones}
            yield _batch(name, kind, axis, len(starts), numbers)


def detail_rows(name: StreamName, kind: str, details: Iterable[dict[str, Any]]) -> Iterator[pa.RecordBatch]:
    """A row for each detail, as JSON in ``detail``."""
    texts = [json.dumps(detail) for detail in details]
    if texts:
        yield _batch(name, kind, None, len(texts), {}, texts)


def _batch(
    name: StreamName,
    kind: str,
    axis: str | None,
    count: int,
    numbers: dict[str, Int64s],
    details: list[str] | None = None,
) -> pa.RecordBatch:
    import pyarrow as pa

    texts = dict(zip(_KEYS, (kind, name.store, name.family, name.stream, axis), strict=True))
    arrays: list[Any] = [
        pa.array([text], pa.string()).take(pa.array(np.zeros(count, np.int64))) for text in texts.values()
    ]
    for column in _NUMBERS:
        values = numbers.get(column)
        if values is None:
            arrays.append(pa.nulls(count, pa.int64()))
        else:
            arrays.append(pa.array(values, pa.int64(), mask=(values == NO_LEAST) | (values == NO_MOST)))
    arrays.append(pa.nulls(count, pa.string()) if details is None else pa.array(details, pa.string()))
    return pa.RecordBatch.from_arrays(arrays, names=[*_KEYS, *_NUMBERS, "detail"])
