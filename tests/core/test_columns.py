"""Batches and the columns derived from them; Arrow takes them without a copy."""

from __future__ import annotations

from array import array

import pytest

from everlog.core.batch import Batch
from everlog.core.columns import Column, ColumnData, ColumnType, null_column, pick
from everlog.core.derived import ADDRESS, CRC32, FAMILY, STORE, TIMESTAMP, constant_text, derive
from everlog.errors import UsageError

POSITION = Column("position", ColumnType.INT64)
TIME = Column("timestamp_ns", ColumnType.INT64)
PAYLOAD = Column("payload", ColumnType.BINARY)


def int64(*values: int) -> ColumnData:
    return ColumnData(ColumnType.INT64, memoryview(array("q", values)))


@pytest.fixture
def batch() -> Batch:
    payload = ColumnData(ColumnType.BINARY, memoryview(b"123456789"), memoryview(array("i", [0, 9, 9])))
    data = {"position": int64(0, 4096), "timestamp_ns": int64(1_999, -1), "payload": payload}
    return Batch((POSITION, TIME, PAYLOAD), 2, data)


def test_derived_columns_follow_from_the_familys_own(batch: Batch) -> None:
    wanted = (STORE, FAMILY, ADDRESS, TIMESTAMP, CRC32, POSITION)
    made = derive(batch, wanted, {"store": "/a", "family": "jlog"}, ("position",))
    assert list(made.rows()) == [("/a", "jlog", "0", 1, 0xCBF43926, 0), ("/a", "jlog", "4096", -1, 0, 4096)]


def test_a_time_that_is_null_stays_null(batch: Batch) -> None:
    batch.data["timestamp_ns"] = null_column(ColumnType.INT64, 2)
    assert derive(batch, (TIMESTAMP,), {}, ("position",)).to_list("timestamp") == [None, None]


def test_constant_text_serves_larger_and_smaller_batches() -> None:
    assert constant_text("x", 2).to_list(2) == ["x", "x"]
    assert constant_text("x", 5000).to_list(5000) == ["x"] * 5000
    assert constant_text("", 1).to_list(1) == [""]


def test_unknown_columns_are_named() -> None:
    with pytest.raises(UsageError, match=r"'color'.*position"):
        pick((POSITION,), ["color"])
    with pytest.raises(UsageError, match="columns repeat 'position'; name each once"):
        pick((POSITION,), ["position", "position"])


def test_a_column_not_asked_for_is_named(batch: Batch) -> None:
    with pytest.raises(UsageError, match="'offset'"):
        batch.column("offset")


@pytest.mark.parametrize("kind", list(ColumnType))
def test_null_columns_of_every_type(kind: ColumnType) -> None:
    assert null_column(kind, 9).to_list(9) == [None] * 9
    assert null_column(kind, 0).to_list(0) == []


def test_some_nulls_are_read_from_the_bitmap() -> None:
    column = int64(1, 2, 3)
    column.validity, column.null_count = memoryview(b"\x05"), 1
    assert column.to_list(3) == [1, None, 3]


def test_arrow_takes_a_batch_without_a_copy(batch: Batch) -> None:
    pa = pytest.importorskip("pyarrow")
    batch.data["none"] = null_column(ColumnType.UTF8, 2)
    full = Batch((*batch.schema, Column("none", ColumnType.UTF8)), 2, batch.data)
    made = pa.record_batch(full)
    made.validate(full=True)
    assert made.to_pydict() == {
        "position": [0, 4096],
        "timestamp_ns": [1999, -1],
        "payload": [b"123456789", b""],
        "none": [None, None],
    }
    source = pa.py_buffer(batch.data["payload"].values)
    assert made.column("payload").buffers()[2].address == source.address
    assert made.schema.field("none").type == pa.string()
