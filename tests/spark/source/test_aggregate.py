"""Aggregation near the data: exact, with nulls as Spark has them, and the same as groupBy over the records."""

from __future__ import annotations

import json
from decimal import Decimal

import pyarrow as pa
import pytest
from pyspark.sql import functions as fn
from pyspark.sql.types import StructField, StructType

from everlog.core.batch import Batch
from everlog.core.columns import Column, ColumnData, ColumnType
from everlog.errors import CorruptData, UsageError
from everlog.pipelines.scan import folding
from everlog.pipelines.scan.aggregation import check_aggregation, parse_aggregation
from everlog.pipelines.scan.options import ScanOptions
from everlog.spark.struct_types import arrow_schema, partial_schema
from tests.spark.source.test_partitions import damage, reader_of, rows_of

MINUTE = 60 * 10**9
START = 29_000_000 * MINUTE


def option(by, **values: str) -> str:
    return json.dumps({"by": by, "values": values})


def groups(path: str, by, **asked) -> list[dict]:
    """Partial rows, which the toy stores are small enough to be one of each group."""
    values = {name: text for name, text in asked.items() if name.islower()}
    options = {name: text for name, text in asked.items() if name not in values}
    reader = reader_of(path, aggregate=option(by, **values), partitions="1", **options)
    names = [field.name for field in reader.schema.fields]
    return [dict(zip(names, row, strict=True)) for row in rows_of(reader)]


@pytest.fixture
def store(toy):
    rows = {
        "a": [(1, START, "x", b"1"), (2, START + 59 * 10**9, "x", b"22"), (3, START + MINUTE, None, b"333")],
        "b": [(7, None, "y", b""), (8, -1, "x", b"4444")],
    }
    return toy("store", rows)


def test_groups_by_stream(store):
    found = groups(store, ["stream"], n="count", bytes="sum(length)", first="min(number)", last="max(number)")
    assert found == [
        {"stream": "a", "rows": 3, "sum_of_length": Decimal(6), "min_of_number": 1, "max_of_number": 3},
        {"stream": "b", "rows": 2, "sum_of_length": Decimal(4), "min_of_number": 7, "max_of_number": 8},
    ]


def test_a_null_key_is_a_group(store):
    found = groups(store, ["topic"], n="count")
    assert {(row["topic"], row["rows"]) for row in found if row["topic"] is None} == {(None, 1)}
    assert sum(row["rows"] for row in found) == 5


def test_minutes_round_down_before_1970_too(store):
    found = groups(store, {"at": "minute(timestamp)"}, n="count")
    counts: dict = {}
    for row in found:
        at = None if row["at"] is None else int(row["at"].timestamp())
        counts[at] = counts.get(at, 0) + row["rows"]
    assert counts == {START // 10**9: 2, START // 10**9 + 60: 1, None: 1, -60: 1}


def test_without_keys_there_is_one_group(store):
    assert groups(store, [], n="count", times="count(timestamp_ns)", last="max(timestamp_ns)") == [
        {"rows": 5, "count_of_timestamp_ns": 4, "max_of_timestamp_ns": START + MINUTE}
    ]


def test_what_each_record_of_a_split_has_is_counted_for_each_record(store):
    asked = {"stores": "count(store)", "families": "count(family)", "streams": "count(stream)"}
    counts = {"count_of_store": 5, "count_of_family": 5, "count_of_stream": 5}
    assert groups(store, [], **asked) == [counts]
    assert groups(store, ["stream"], n="count(stream)", all="count(topic)") == [
        {"stream": "a", "count_of_stream": 3, "count_of_topic": 2},
        {"stream": "b", "count_of_stream": 2, "count_of_topic": 2},
    ]


def test_ranges_and_streams_choose_records(store):
    reader = reader_of(store, aggregate=option(["stream"], n="count"), startTime=str(START + 1), stream="a")
    assert rows_of(reader) == [("a", 2)]


def table_of(values: list[int | None], kind: ColumnType = ColumnType.INT64) -> list[Batch]:
    column = Column("v", kind)
    array = pa.array(values, {"q": pa.int64(), "Q": pa.uint64(), "d": pa.float64()}[kind.value])
    validity, data = array.buffers()
    bits = None if validity is None else memoryview(validity)
    held = ColumnData(kind, memoryview(data).cast("B").cast(kind.code), None, bits, array.null_count)
    return [Batch((column,), len(values), {"v": held})]


def fold(batches: list[Batch], kind: ColumnType, *calls: str):
    wanted = parse_aggregation("aggregate", option([], **{f"x{i}": call for i, call in enumerate(calls)}))
    schema = partial_schema(wanted, [Column("v", kind)])
    held = folding._Groups(wanted, arrow_schema(schema))
    for batch in batches:
        held.add(batch, ScanOptions(paths=("x",)))
    held.merge()
    (table,) = held.tables
    (row,) = table.to_pylist()
    return list(row.values())


def test_sums_beyond_64_bits_are_exact():
    top, low = 2**63 - 1, -(2**63)
    values = [top, top, None, 5]
    assert fold(table_of(values), ColumnType.INT64, "sum(v)", "max(v)") == [Decimal(2 * top + 5), top]
    assert fold(table_of([low, low]) + table_of([low, None]), ColumnType.INT64, "sum(v)") == [Decimal(3 * low)]
    assert fold(table_of([top] * 3) * 1000, ColumnType.INT64, "sum(v)") == [Decimal(3000 * top)]
    unsigned = 2**64 - 1
    assert fold(table_of([unsigned] * 3, ColumnType.UINT64), ColumnType.UINT64, "sum(v)", "min(v)") == [
        Decimal(3 * unsigned),
        Decimal(unsigned),
    ]


def test_nulls_only_have_no_sum():
    assert fold(table_of([None, None]), ColumnType.INT64, "sum(v)", "min(v)", "count(v)", "count") == [None, None, 0, 2]
    assert fold(table_of([None]) + table_of([3]), ColumnType.INT64, "sum(v)", "min(v)") == [Decimal(3), 3]
    assert fold(table_of([0.5, None, 2.0], ColumnType.FLOAT64), ColumnType.FLOAT64, "sum(v)", "max(v)") == [2.5, 2.0]


NAN = float("nan")


@pytest.mark.parametrize("dealt", [[[NAN, 3.0, -2.0]], [[NAN], [3.0, NAN, -2.0]], [[3.0], [NAN, NAN], [-2.0]]])
def test_ends_pass_over_nan_however_records_are_dealt_out(dealt):
    batches = [batch for values in dealt for batch in table_of(values, ColumnType.FLOAT64)]
    count = sum(map(len, dealt))
    calls = ("max(v)", "min(v)", "count(v)")
    assert fold(batches, ColumnType.FLOAT64, *calls) == [3.0, -2.0, count]
    # Each by itself, as tasks have them: what Spark merges, for which NaN is the largest number, has none.
    alone = [fold([batch], ColumnType.FLOAT64, *calls) for batch in batches]
    assert max(row[0] for row in alone if row[0] is not None) == 3.0
    assert min(row[1] for row in alone if row[1] is not None) == -2.0


def test_of_nothing_but_nan_the_ends_are_null_and_a_sum_with_nan_is_nan():
    batches = table_of([NAN], ColumnType.FLOAT64) * 2
    assert fold(batches, ColumnType.FLOAT64, "min(v)", "max(v)", "count(v)") == [None, None, 2]
    for values in ([[NAN, 1.0]], [[NAN], [1.0]]):
        (total,) = fold([b for v in values for b in table_of(v, ColumnType.FLOAT64)], ColumnType.FLOAT64, "sum(v)")
        assert str(total) == "nan"


def test_keys_may_be_called_as_partial_results_are(store):
    by = {"rows": "stream", "sum_of_length": "topic", "key rows": "family"}
    found = groups(store, by, n="count", bytes="sum(length)")
    assert sorted((row["rows"], str(row["sum_of_length"]), row["rows_"], row["sum_of_length_"]) for row in found) == [
        ("a", "None", 1, Decimal(3)),
        ("a", "x", 2, Decimal(3)),
        ("b", "x", 1, Decimal(4)),
        ("b", "y", 1, Decimal(0)),
    ]


def test_spark_merges_groups_whose_keys_are_called_as_partial_results_are(spark, golden):
    from everlog.spark import aggregate

    path = str(golden("jlog/basic/log"))
    for name in ("rows", "ROWS", "everlog rows", "n_"):
        (row,) = aggregate(spark, path, by={name: "stream"}, values={"n": "count"}).collect()
        assert row.asDict() == {name: "journal", "n": 90}


def test_groups_of_many_streams_are_handed_over_too(toy, monkeypatch):
    monkeypatch.setattr(folding, "MAX_PARTIAL_ROWS", 100)
    monkeypatch.setattr(folding, "MAX_GROUPS", 150)
    path = toy("store", {f"s{s}": [(i, None, f"t{i}", b"") for i in range(60)] for s in range(30)})
    held = []
    give = folding._give

    def watched(streams, *more):
        held.append(sum(one.row_count for one in streams.values()))
        return give(streams, *more)

    monkeypatch.setattr(folding, "_give", watched)
    assert len(groups(path, ["stream", "topic"], n="count")) == 30 * 60
    assert max(held) <= 100 + 150 + 60


def test_many_groups_are_handed_over_so_that_memory_stays_bounded(toy, monkeypatch):
    monkeypatch.setattr(folding, "MAX_PARTIAL_ROWS", 100)
    monkeypatch.setattr(folding, "MAX_GROUPS", 150)
    monkeypatch.setattr(folding, "BATCH_ROWS", 64)
    path = toy("store", {"s": [(i, None, f"t{i % 700}", b"") for i in range(2000)]})
    found = groups(path, ["topic"], n="count")
    assert len(found) > 700
    counts: dict = {}
    for row in found:
        counts[row["topic"]] = counts.get(row["topic"], 0) + row["rows"]
    assert counts == {f"t{k}": 3 if k < 600 else 2 for k in range(700)}


def test_damage_fails_or_is_skipped_as_for_records(toy):
    path = toy("store", {"s": [(1, None, None, b"")]})
    damage(path)
    with pytest.raises(CorruptData, match="onFault=skip"):
        groups(path, ["stream"], n="count")
    reader = reader_of(path, aggregate=option(["stream"], n="count"), onFault="skip")
    assert rows_of(reader) == [("s", 2)]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("nonsense", "by"),
        ('{"by": []}', "values"),
        (option(["stream"]), "at least one value"),
        (option(["stream"], stream="count"), "names without duplicates"),
        (option(["week(timestamp)"], n="count"), "minute"),
        (option(["minute(number)"], n="count"), "minute"),
        (option([], n="median(length)"), "avg"),
        (option([], n="sum(*)"), "avg"),
    ],
)
def test_what_can_not_be_folded_is_refused(text, told):
    with pytest.raises(UsageError, match=told):
        parse_aggregation("aggregate", text)


@pytest.mark.parametrize("text", [option(["nope"], n="count"), option([], n="sum(nope)"), option([], n="sum(text)")])
def test_columns_are_checked(text):
    table = [Column("text", ColumnType.UTF8), Column("real", ColumnType.FLOAT64)]
    with pytest.raises(UsageError):
        check_aggregation(parse_aggregation("x", text), table)
    with pytest.raises(UsageError, match="floating"):
        check_aggregation(parse_aggregation("x", option(["real"], n="count")), table)


def test_spark_gets_what_group_by_over_the_records_gives(spark, golden):
    from everlog.spark import aggregate

    paths = [str(golden(name)) for name in ("aeron/archive-basic/archive", "jlog/broken_base/log")]
    paths.append(str(golden("nats_streaming/basic_sigterm")))
    values = {
        "messages": "count",
        "timed": "count(timestamp)",
        "bytes": "sum(length)",
        "mean": "avg(length)",
        "longest": "max(length)",
        "first position": "min(position)",
        "last": "max(timestamp)",
    }
    folded = aggregate(spark, *paths, by=["family", "stream", "minute(timestamp)"], values=values)
    rows = spark.read.format("everlog").load(paths).withColumn("minute", fn.date_trunc("minute", "timestamp"))
    plain = rows.groupBy("family", "stream", "minute").agg(
        fn.count("*").alias("messages"),
        fn.count("timestamp").alias("timed"),
        fn.sum("length").cast("decimal(38,0)").alias("bytes"),
        fn.avg("length").alias("mean"),
        fn.max("length").alias("longest"),
        fn.min("position").alias("first position"),
        fn.max("timestamp").alias("last"),
    )
    assert folded.columns == plain.columns
    assert [f.dataType for f in folded.schema] == [f.dataType for f in plain.schema]
    assert sorted(folded.collect(), key=repr) == sorted(plain.collect(), key=repr)
    (total,) = aggregate(spark, *paths).collect()
    assert total.records == rows.count()
    (none,) = aggregate(spark, paths[1], values={"n": "count", "s": "sum(length)"}, start="000000ff:00000001").collect()
    assert (none.n, none.s) == (0, None)


def test_partial_results_are_typed():
    wanted = parse_aggregation("x", option(["stream"], n="count", s="sum(n)", f="sum(d)", m="min(t)"))
    columns = {"n": ColumnType.INT64, "d": ColumnType.FLOAT64, "t": ColumnType.TIMESTAMP_US, "stream": ColumnType.UTF8}
    schema = partial_schema(wanted, [Column(name, kind) for name, kind in columns.items()])
    assert [(f.name, f.dataType.simpleString()) for f in schema if isinstance(f, StructField)] == [
        ("stream", "string"),
        ("rows", "bigint"),
        ("sum_of_n", "decimal(38,0)"),
        ("sum_of_d", "double"),
        ("min_of_t", "timestamp"),
    ]
    assert isinstance(schema, StructType)
