"""``scan``: the data source's table by ``mapInArrow``, planned at once."""

from __future__ import annotations

import shutil

import pytest

import everlog.spark
from everlog.errors import UsageError
from everlog.spark import scan


def test_the_table_is_that_of_the_data_source(spark, golden):
    paths = [str(golden(name)) for name in ("aeron/archive-basic/archive", "jlog/lz4/log")]
    paths.append(str(golden("nats_streaming/basic_sigterm")))
    for options in ({}, {"columns": "stream,address,payload", "partitions": "3"}, {"stream": "1*", "start": "100"}):
        chosen = paths if "start" not in options else paths[:1]
        plain = spark.read.format("everlog").options(**options).load(chosen)
        found = scan(spark, *chosen, **options)
        assert found.schema == plain.schema
        rows = found.collect()
        assert sorted(rows, key=repr) == sorted(plain.collect(), key=repr)
        assert rows


@pytest.mark.long
def test_paths_come_one_by_one_or_as_a_list(spark, golden):
    paths = [golden("aeron/archive-basic/archive"), golden("jlog/lz4/log")]
    expected = scan(spark, *map(str, paths), columns="stream").count()
    assert expected
    assert scan(spark, paths, columns="stream").count() == expected
    assert everlog.spark.verify(spark, [str(path) for path in paths]).count() == 2
    assert everlog.spark.faults(spark, [str(path) for path in paths]).count() == 0
    (row,) = everlog.spark.aggregate(spark, paths[:1], by="family").collect()
    assert row.family == "aeron-archive"


def test_a_wrong_option_is_an_error_at_once(spark, golden):
    with pytest.raises(UsageError, match="nope"):
        scan(spark, str(golden("jlog/basic/log")), columns="nope")


def test_a_dataframe_reads_what_was_there_when_it_was_made(spark, golden, tmp_path):
    folder = tmp_path / "log"
    shutil.copytree(next(golden("jlog/broken_base/log").iterdir()), folder)
    found = scan(spark, str(folder), columns="log")
    before = found.count()
    shutil.copy(folder / "00000000", folder / "00000003")
    assert found.count() == before
    assert scan(spark, str(folder), columns="log").count() > before


def test_no_partitions_are_an_empty_table(spark, golden):
    found = scan(spark, str(golden("jlog/basic/log")), start="0000ffff:00000001")
    assert found.count() == 0
    assert "log" in found.columns
