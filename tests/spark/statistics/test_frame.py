"""``stats_of`` a DataFrame tells what ``stats`` tells of the stores it was read from."""

from __future__ import annotations

import shutil

import pytest

from everlog.errors import UsageError
from everlog.spark import export, stats, stats_of
from tests.spark.exported import record

SECOND = 10**9
STORES = ("jlog/basic/log", "nats_streaming/basic_sigterm", "aeron/cluster-3node/node0")
TOLD = (
    "records",
    "bytes",
    "size_min",
    "size_median",
    "size_p99",
    "size_max",
    "first_ns",
    "last_ns",
    "interval_min_ns",
    "interval_median_ns",
    "interval_max_ns",
    "backwards",
    "bursts",
)


@pytest.fixture(scope="module")
def folder(golden, tmp_path_factory):
    root = tmp_path_factory.mktemp("frames")
    for name in STORES:
        shutil.copytree(golden(name), root / name.replace("/", "-"))
    return root


@pytest.fixture(scope="module")
def frame(spark, folder):
    return spark.read.format("everlog").load(str(folder))


def told(found):
    return {(row["store"], row["stream"], row["axis"]): {name: row[name] for name in TOLD} for row in found.streams}


@pytest.mark.long
def test_rows_in_any_order_give_what_the_stores_give(spark, folder, frame):
    of_stores = stats(spark, str(folder), bucket_ns=SECOND)
    of_rows = stats_of(frame.orderBy("length", "address"), bucket_ns=SECOND, gaps=True)
    assert told(of_rows) == told(of_stores)
    assert len(told(of_rows)) > 5
    assert {row["client"]: row["records"] for row in of_rows.clients} == {
        row["client"]: row["records"] for row in of_stores.clients
    }
    times = [
        {(r.store, r.stream, r.bucket): (r.records, r.bytes) for r in found.buckets.where("axis = 'time'").collect()}
        for found in (of_rows, of_stores)
    ]
    assert times[0] == times[1]
    assert of_rows.gaps == of_stores.gaps == []


@pytest.mark.long
def test_rows_that_are_missing_are_gaps_only_where_that_is_asked_for(frame):
    jlog = frame.where("family = 'jlog'")
    addresses = sorted(row.address for row in jlog.select("address").collect())
    left_out = addresses[3:5]
    assert [text.split(":")[0] for text in addresses[2:6]] == ["00000000"] * 4
    some = jlog.where(~jlog.address.isin(left_out))
    assert stats_of(some, bucket_ns=SECOND).gaps == []
    (gap,) = stats_of(some, bucket_ns=SECOND, gaps=True).gaps
    assert (gap["after"], gap["before"], gap["missing"]) == (addresses[2], addresses[5], 2)


@pytest.mark.long
def test_an_export_of_streams_that_are_called_by_numbers_gives_what_the_store_gives(spark, tmp_path):
    path = record(tmp_path / "archive", 0, 20)
    export(spark, str(path), folder=str(tmp_path / "out"))
    rows = spark.read.parquet(str(tmp_path / "out"))
    assert rows.schema["stream"].dataType.simpleString() == "int"
    (row,) = stats_of(rows).streams
    assert (row["stream"], row["records"]) == ("0", 20)


def test_a_frame_without_the_columns_is_refused(frame):
    with pytest.raises(UsageError, match="address, length is missing"):
        stats_of(frame.drop("address", "length"))
    with pytest.raises(UsageError, match="at least 1000000 ns"):
        stats_of(frame, bucket_ns=1)
