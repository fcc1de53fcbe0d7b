"""Pieces of work as tasks, and what a worker does once."""

from __future__ import annotations

import functools
import gc
from collections.abc import Iterator

import pyarrow as pa
import pytest

from everlog.spark.tasks import frame_of
from everlog.spark.workers import freeze_gc


def repeated(factor: int, piece: tuple[int, bytes]) -> Iterator[pa.RecordBatch]:
    number, ballast = piece
    for _ in range(number % 3):
        yield pa.RecordBatch.from_pydict({"number": [number * factor], "size": [len(ballast)]})


@pytest.mark.parametrize("size", [10, 1 << 20])
def test_each_piece_is_a_task_in_their_order(spark, size):
    """The larger ones are 7 MiB together: more than Spark sends with each task."""
    pieces = [(number, bytes(size)) for number in range(7)]
    frame = frame_of(spark, pieces, functools.partial(repeated, 10), "number bigint, size bigint")
    assert frame.rdd.getNumPartitions() == 7
    rows = [tuple(row) for row in frame.collect()]
    assert rows == [(number * 10, size) for number in range(7) for _ in range(number % 3)]


def test_no_pieces_are_an_empty_table(spark):
    frame = frame_of(spark, [], functools.partial(repeated, 1), "number bigint, size bigint")
    assert (frame.columns, frame.count()) == (["number", "size"], 0)


def frozen(piece: int) -> Iterator[pa.RecordBatch]:
    freeze_gc()
    yield pa.RecordBatch.from_pydict({"count": [gc.get_freeze_count()]})


def test_a_worker_keeps_its_modules_out_of_garbage_collection_and_nobody_else_does(spark):
    """What a worker has loaded is tens of thousands of objects."""
    before = gc.get_freeze_count()
    freeze_gc()
    assert gc.get_freeze_count() == before
    counts = [row[0] for row in frame_of(spark, [1, 2], frozen, "count bigint").collect()]
    assert min(counts) > 10_000
