"""Filters as bounds: they leave out what can't pass, and nothing else."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as fn
from pyspark.sql.datasource import (
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

from everlog.errors import UnknownStream
from everlog.pipelines.scan.options import ScanOptions
from everlog.spark.filters import narrow
from tests.spark.source.test_partitions import reader_of, rows_of

SCAN = ScanOptions(paths=("x",))


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (EqualTo(("number",), 5), [5]),
        (GreaterThan(("number",), 5), [6, 7, 8, 9]),
        (GreaterThanOrEqual(("number",), 5), [5, 6, 7, 8, 9]),
        (LessThan(("number",), 2), [0, 1]),
        (LessThanOrEqual(("number",), 2), [0, 1, 2]),
        (LessThan(("number",), -5), []),
        (In(("number",), (3, 6)), [3, 4, 5, 6]),  # Spark takes out what is between
        (EqualTo(("address",), "4"), [4]),
        (In(("address",), ("4", "no address", "6")), [4, 5, 6]),
        (EqualTo(("address",), "no address"), []),
        (GreaterThan(("address",), "4"), list(range(10))),  # text compares as text: left to Spark
        (Not(EqualTo(("number",), 5)), list(range(10))),
        (EqualTo(("number",), 5.5), list(range(10))),
        (EqualTo(("number",), True), list(range(10))),
        (EqualTo(("length",), 5), list(range(10))),  # no part of the address
        (EqualTo(("stream",), "s"), list(range(10))),
        (EqualTo(("stream",), "t"), []),
        (In(("stream",), ("t", "s")), list(range(10))),
        (StringStartsWith(("stream",), "s"), list(range(10))),
        (StringStartsWith(("stream",), "st"), []),
        (StringStartsWith(("store",), "/nowhere"), []),
        (EqualTo(("position",), 3), []),  # a column that this family does not have is null in each row
        (IsNotNull(("position",)), []),
        (IsNotNull(("number",)), list(range(10))),
        (GreaterThanOrEqual(("timestamp_ns",), 10**18 + 7000), [7, 8, 9]),
        (LessThan(("timestamp_ns",), 10**18 + 2000), [0, 1]),
        (GreaterThan(("timestamp",), datetime(2001, 9, 9, 1, 46, 40, 7, tzinfo=UTC)), [7, 8, 9]),
        (EqualTo(("timestamp",), datetime(2001, 9, 9, 1, 46, 40, 7, tzinfo=UTC)), [7]),
        (LessThanOrEqual(("timestamp",), datetime(2001, 9, 9, 1, 46, 40, 2, tzinfo=UTC)), [0, 1, 2]),
        (
            LessThanOrEqual(("timestamp",), datetime(2001, 9, 9, 3, 46, 40, 2, tzinfo=timezone(timedelta(hours=2)))),
            [0, 1, 2],
        ),
        (LessThanOrEqual(("timestamp",), datetime(1990, 1, 1)), list(range(10))),  # in no zone: left to Spark
        (EqualTo(("timestamp", "field"), 3), list(range(10))),
    ],
)
def test_a_filter_leaves_out_what_it_can(toy, one, expected):
    # Record k is k microseconds after 2001-09-09T01:46:40Z, which is 10**18 ns.
    path = toy("store", {"s": [(i, 10**18 + i * 1000, None, b"") for i in range(10)]})
    reader = reader_of(path, ("number",))
    reader.scan = narrow(reader.scan, [one])
    assert [row[0] for row in rows_of(reader)] == expected


def test_filters_hold_together():
    scan = narrow(
        SCAN,
        [
            GreaterThan(("timestamp_ns",), 5),
            LessThan(("timestamp_ns",), 100),
            GreaterThan(("timestamp_ns",), 2),
            In(("stream",), ("a", "b")),
            StringStartsWith(("stream",), "b"),
        ],
    )
    assert (scan.start_ns, scan.end_ns) == (6, 100)
    assert [scan.bounds.may_hold("stream", name) for name in ("a", "b", "bc")] == [False, True, False]


def test_a_stream_of_a_store_that_a_filter_leaves_out_is_not_unknown(toy, tmp_path):
    row = [(1, None, None, b"")]
    left, right = toy("left", {"s": row}), toy("right", {"t": row})
    for stream, expected in (("s", [("s",)]), ("t", []), ("s,t", [("s",)])):
        reader = reader_of(str(tmp_path), ("stream",), stream=stream)
        reader.scan = narrow(reader.scan, [EqualTo(("store",), left)])
        assert rows_of(reader) == expected
    reader = reader_of(str(tmp_path), ("stream",), stream="s,u")
    reader.scan = narrow(reader.scan, [EqualTo(("store",), right)])
    with pytest.raises(UnknownStream, match=r"'u'.*s, t"):
        reader.partitions()


def test_two_columns_that_make_an_address_are_bounded_by_the_first(golden):
    path = str(golden("jlog/broken_base/log"))
    reader = reader_of(path, ("log", "marker"))
    whole = rows_of(reader)
    assert {log for log, _ in whole} == {0, 1, 2}
    reader.scan = narrow(reader.scan, [GreaterThanOrEqual(("log",), 1), LessThan(("log",), 2)])
    assert rows_of(reader) == [row for row in whole if row[0] == 1]
    reader = reader_of(path, ("log", "marker"))
    reader.scan = narrow(reader.scan, [EqualTo(("marker",), 3)])
    assert rows_of(reader) == whole


@pytest.fixture
def pushing(spark):
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    yield spark
    spark.conf.unset("spark.sql.python.filterPushdown.enabled")


@pytest.mark.long
def test_spark_gives_the_same_rows_with_and_without_pushed_filters(pushing, golden):
    archive, channels = str(golden("aeron/archive-basic/archive")), str(golden("nats_streaming/basic_sigterm"))

    def frame(push: str):
        reader = pushing.read.format("everlog").option("pushFilters", push)
        return reader.option("columns", "store,family,stream,address,timestamp,length,position,sequence").load(
            [archive, channels]
        )

    middle = frame("false").where("sequence is not null").selectExpr("min(unix_micros(timestamp))").first()
    moment = fn.timestamp_micros(fn.lit(int(middle[0])))
    conditions = (
        (fn.col("position") > 65_536) & (fn.col("position") <= 131_072) & (fn.col("stream") == "0"),
        fn.col("sequence").between(3, 5),
        fn.col("address") == "4",
        fn.col("timestamp") >= moment,
        fn.col("timestamp") == moment,
        fn.col("timestamp").isNull(),
        fn.col("store").startswith(archive),
        (fn.col("position") < 1000) | (fn.col("sequence") < 3),
    )
    marked = frame("false").select("*", *(one.alias(f"c{i}") for i, one in enumerate(conditions))).collect()
    for i, condition in enumerate(conditions):
        plain = sorted((tuple(row)[: -len(conditions)] for row in marked if row[f"c{i}"]), key=repr)
        assert sorted(map(tuple, frame("true").where(condition).collect()), key=repr) == plain
        assert plain


def test_what_is_pushed_is_not_read(pushing, golden):
    # The damage is in the store that the filter leaves out.
    good, bad = str(golden("jlog/basic/log")), str(golden("jlog/e_garbage_middle_current/before"))
    frame = pushing.read.format("everlog").option("pushFilters", "true").load([good, bad])
    assert frame.where(fn.col("store").startswith(good)).count() > 0
    with pytest.raises(PySparkException, match="onFault=skip"):
        frame.where(fn.col("length") >= 0).count()


def test_without_sparks_setting_the_error_names_it(spark, golden):
    frame = spark.read.format("everlog").option("pushFilters", "true").load(str(golden("jlog/basic/log")))
    with pytest.raises(PySparkException, match=r"spark\.sql\.python\.filterPushdown\.enabled"):
        frame.where("log > 3").collect()
