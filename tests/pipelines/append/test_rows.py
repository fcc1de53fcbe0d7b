"""Rows as Spark hands them over, and what is staged of them."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, IntegerType, LongType, StringType, StructField, StructType, TimestampType

from everlog import jlog
from everlog.errors import UsageError
from everlog.pipelines.append import messages
from everlog.pipelines.append.rows import RowLayout, to_staged
from everlog.pipelines.append.staging import Part, part_name, stage
from everlog.spark.writers import EverlogWriter
from everlog.testing.storage.crashing import CrashingStorage

TYPES = {
    "binary": BinaryType(),
    "string": StringType(),
    "int": IntegerType(),
    "bigint": LongType(),
    "timestamp": TimestampType(),
}
ZONE = "Europe/Berlin"
YEAR_3000_US = 32_503_680_000 * 10**6


def layout(columns: str, family: str = "jlog", order_by: str | None = None) -> RowLayout:
    named = (column.split(" ") for column in columns.split(", "))
    return RowLayout.of([(name, TYPES[kind].simpleString()) for name, kind in named], family, order_by)


def numbers(columns: str, *batches: pa.RecordBatch) -> list[int | None]:
    return [number for batch in to_staged(batches, layout(columns)) for number in batch.column("number").to_pylist()]


def times(*values: int | None) -> pa.Array:
    return pa.array(values, pa.timestamp("us", ZONE))


def rows(**columns: pa.Array) -> pa.RecordBatch:
    count = len(next(iter(columns.values())))
    return pa.RecordBatch.from_pydict({"payload": pa.array([b"x"] * count), **columns})


@pytest.mark.parametrize(
    "columns", ["payload string, PAYLOAD string", "payload string, a int, timestamp_ns bigint, A int"]
)
def test_columns_that_differ_in_case_only_are_refused(columns: str) -> None:
    with pytest.raises(UsageError, match=r"columns (payload, PAYLOAD|a, A) differ only in case"):
        layout(columns)


def test_a_time_too_late_for_nanoseconds_is_told_with_its_row() -> None:
    late = (
        f"column timestamp must be a time from 1970 to 2106, not {YEAR_3000_US} us since 1970 in row 3 of a partition"
    )
    with pytest.raises(UsageError, match=late):
        numbers(
            "payload binary, timestamp timestamp",
            rows(timestamp=times(0, 1)),
            rows(timestamp=times(None, YEAR_3000_US)),
        )
    with pytest.raises(
        UsageError, match=r"column timestamp_ns must be .*, not -1 ns since 1970 in row 1 of a partition"
    ):
        numbers("payload binary, timestamp_ns bigint", rows(timestamp_ns=pa.array([5, -1, -2])))


def test_a_timestamp_that_does_not_count_may_be_any() -> None:
    columns = "payload binary, timestamp timestamp, timestamp_ns bigint"
    batch = rows(timestamp=times(YEAR_3000_US, 6, None), timestamp_ns=pa.array([7, None, None], pa.int64()))
    assert numbers(columns, batch) == [7, 6000, None]


def test_a_write_that_is_given_up_or_done_leaves_no_part_of_a_task_that_told_nothing(tmp_path: Path) -> None:
    jlog.create(tmp_path / "journal")
    schema = StructType([StructField("payload", BinaryType())])
    for number, end in enumerate(("abort", "commit")):
        writer = EverlogWriter({"path": str(tmp_path / "journal")}, schema, False)
        other = EverlogWriter({"path": str(tmp_path / "journal")}, schema, False)
        told, _, _ = (
            one._stage(iter([rows(nothing=pa.nulls(2))]), one._key.query, 0, partition)
            for one, partition in ((writer, 0), (writer, 1), (other, 0))
        )
        getattr(writer, end)([told, None])
        left = [path.name for path in tmp_path.glob("*/*.staged")]
        assert len(left) == number + 1
        assert all(writer._key.query not in name for name in left)


def test_times_are_ordered_as_they_passed_where_clocks_are_set_back_and_after_the_year_9999() -> None:
    def at(hour: int, minute: int) -> int:
        return int(datetime(2024, 10, 27, hour, minute, tzinfo=UTC).timestamp()) * 10**6

    # Summer time ends at 01:00 UTC: what comes half an hour later shows an earlier time.
    year_10000 = 253_402_300_800 * 10**6
    shuffled = [[at(1, 45), at(0, 30)], [at(1, 15), year_10000, at(0, 50)]]
    folder, parts = CrashingStorage(root="staging"), list[Part]()
    for partition, keys in enumerate(shuffled):
        batch = pa.RecordBatch.from_pydict({"payload": pa.array([b"%d" % key for key in keys]), "at": times(*keys)})
        ordered = to_staged([batch], layout("payload binary, at timestamp", order_by="at"))
        part = stage(folder, part_name("q.0", partition, "x"), partition, ordered)
        assert part is not None
        parts.append(part)
    found = [int(payload) for chunk in messages.chunks(folder, parts, 0) for payload in chunk.payloads]
    assert found == [at(0, 30), at(0, 50), at(1, 15), at(1, 45), year_10000]
