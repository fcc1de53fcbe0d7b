"""Bad input: what fails names file, offset and option; what is skipped is a table of faults."""

from __future__ import annotations

import shutil

import pytest
from pyspark.errors import PySparkException
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.types import LongType, StringType, StructField, StructType

from everlog.errors import CorruptData, KeyRefused, StoreUnavailable, UnsupportedVersion, UsageError
from everlog.spark.source import EverlogDataSource
from tests.spark.source.test_partitions import damage, reader_of, rows_of

FIELDS = ("store", "stream", "address", "code", "severity", "file", "offset")


def fault_rows(path: str, **options: str) -> list[dict]:
    reader = reader_of(path, faults="true", **options)
    names = [field.name for field in reader.schema.fields]
    return [dict(zip(names, row, strict=True)) for row in rows_of(reader)]


def rows_until_error(reader, partitions) -> tuple[list[tuple], str]:
    rows: list[tuple] = []
    try:
        for partition in partitions:
            for batch in reader.read(partition):
                rows += [tuple(row.values()) for row in batch.to_pylist()]
    except CorruptData as error:
        return rows, str(error)
    return rows, ""


def test_faults_are_a_table_beside_the_good_records(toy):
    path = toy("store", {"s": [(1, None, None, b"")], "t": [(1, None, None, b"")]})
    damage(path)
    assert rows_of(reader_of(path, ("stream", "number"), onFault="skip")) == [("s", 1), ("s", 9), ("t", 1)]
    (row,) = fault_rows(path)
    assert {name: row[name] for name in FIELDS} == {
        "store": path,
        "stream": "s",
        "address": None,
        "code": "toy-bad-line",
        "severity": "fault",
        "file": "s.toy",
        "offset": len(b'[1, null, null, ""]\n'),
    }


def test_faults_of_a_store_that_does_not_open_are_rows_too(tmp_path, golden):
    good = golden("jlog/basic/log")
    bad = tmp_path / "all" / "bad"
    shutil.copytree(next(good.iterdir()), tmp_path / "all" / "good")
    shutil.copytree(next(good.iterdir()), bad)
    (bad / "metastore").write_bytes((bad / "metastore").read_bytes()[:12] + bytes([0x66, 0x3A, 0x73, 0x18]))
    with pytest.raises(Exception, match="onFault=skip") as error:
        rows_of(reader_of(str(tmp_path / "all"), ("log",)))
    assert str(bad) in str(error.value)
    rows = fault_rows(str(tmp_path / "all"))
    assert [(row["store"], row["code"]) for row in rows] == [(str(bad), "store-unreadable")]
    assert rows[0]["repair"] == "JLog's jlog_change_endian.pl converts it"
    assert {row[0] for row in rows_of(reader_of(str(tmp_path / "all"), ("store",), onFault="skip"))} == {
        str(tmp_path / "all" / "good")
    }


def test_a_schema_chooses_columns_of_faults_and_none_of_groups(toy):
    path = toy("store", {"s": [(1, None, None, b"")]})
    damage(path)

    def rows(schema: StructType, **options: str) -> list[tuple]:
        return rows_of(EverlogDataSource(CaseInsensitiveDict({"path": path, **options})).reader(schema))

    code, offset = StructField("code", StringType()), StructField("offset", LongType())
    assert rows(StructType([offset, code]), faults="true") == [(20, "toy-bad-line")]
    for options in ({"faults": "true"}, {}):
        with pytest.raises(UsageError, match="column nothing"):
            rows(StructType([StructField("nothing", StringType())]), **options)
        with pytest.raises(UsageError, match="no columns"):
            rows(StructType([]), **options)
    with pytest.raises(UsageError, match="stream:string,rows:bigint"):
        rows(StructType([StructField("rows", LongType())]), aggregate='{"by": ["stream"], "values": {"n": "count"}}')


def test_a_stream_that_a_store_may_have_that_does_not_open_is_not_unknown(tmp_path, golden, toy, caplog):
    bad = tmp_path / "all" / "bad"
    shutil.copytree(next(golden("jlog/basic/log").iterdir()), bad)
    (bad / "metastore").write_bytes((bad / "metastore").read_bytes()[:12] + bytes([0x66, 0x3A, 0x73, 0x18]))
    assert [row["store"] for row in fault_rows(str(bad), stream="journal")] == [str(bad)]
    toy("all/good", {"s": [(1, None, None, b"")]})
    assert [row["code"] for row in fault_rows(str(tmp_path / "all"), stream="journal")] == ["store-unreadable"]
    assert rows_of(reader_of(str(tmp_path / "all"), ("stream",), stream="s,journal", onFault="skip")) == [("s",)]
    assert f"{bad} left out" in caplog.text
    with pytest.raises(UnsupportedVersion, match="onFault=skip"):
        rows_of(reader_of(str(tmp_path / "all"), ("stream",), stream="journal"))


def test_a_key_that_does_not_fit_is_told_with_the_store_and_a_row_of_its_faults(golden, tmp_path, monkeypatch):
    monkeypatch.setenv("EVERLOG_WRONG_KEY", "sesame-open-7431")
    for name in ("nats_streaming/encrypted_AES", "jlog/basic/log"):
        shutil.copytree(next(golden(name).iterdir()), tmp_path / "all" / name.replace("/", "-"))
    options = {"encryptionKeyEnv": "EVERLOG_WRONG_KEY"}
    store = str(tmp_path / "all" / "nats_streaming-encrypted_AES")
    with pytest.raises(KeyRefused) as error:
        rows_of(reader_of(str(tmp_path / "all"), ("payload",), **options))
    assert store in str(error.value)
    assert "sesame" not in str(error.value)
    rows = fault_rows(str(tmp_path / "all"), **options)
    assert {(row["store"], row["code"]) for row in rows} == {(store, "store-unreadable")}


def test_where_a_live_query_starts_is_refused_by_a_batch_query(toy):
    path = toy("one", {"s": [(1, None, None, b"")]})
    assert rows_of(reader_of(path, ("store",), maxRecordsPerTrigger="1")) == [(path,)]
    for table in ({}, {"faults": "true"}):
        with pytest.raises(UsageError, match="startingOffsets applies to readStream only"):
            reader_of(path, ("store",), startingOffsets="latest", **table)


def test_a_store_that_is_deleted_before_it_is_planned_or_read(toy, tmp_path):
    path = toy("gone", {"s": [(1, None, None, b"")]})
    toy("stays", {"s": [(1, None, None, b"")]})
    for allowed in (True, False):
        reader = reader_of(str(tmp_path), ("store",), failOnDataLoss=str(not allowed).lower())
        table = reader_of(str(tmp_path), faults="true", failOnDataLoss="false")
        planned = reader.partitions()
        (tmp_path / "gone").rename(tmp_path.parent / "aside")
        if allowed:
            assert rows_of(reader) == rows_of(reader, planned) == [(str(tmp_path / "stays"),)]
            assert [row[:1] + row[4:5] for row in rows_of(table)] == [(path, "store-gone")]
        else:
            for partitions in (None, planned):
                with pytest.raises(StoreUnavailable, match="failOnDataLoss=false"):
                    rows_of(reader, partitions)
        (tmp_path.parent / "aside").rename(tmp_path / "gone")


def test_a_store_that_grows_or_is_cut_after_it_was_planned(golden, tmp_path):
    folder = tmp_path / "log"
    shutil.copytree(next(golden("jlog/basic/log").iterdir()), folder)
    reader = reader_of(str(folder), ("log", "marker"))
    planned = reader.partitions()
    whole = rows_of(reader, planned)
    last = sorted(folder.glob("0000000?"))[-1]
    data = last.read_bytes()
    last.write_bytes(data + data)
    assert rows_of(reader, planned)[: len(whole)] == whole  # what was there comes as it was
    last.write_bytes(data[: len(data) // 2])
    rows, told = rows_until_error(reader, planned)
    assert rows == whole[: len(rows)] != whole
    assert last.name in told
    assert "onFault=skip" in told


def test_the_table_and_the_function_give_the_same_in_spark(spark, golden):
    from everlog.spark import faults

    paths = [str(golden(f"jlog/{case}")) for case in ("e_garbage_middle_current/before", "basic/log")]
    with pytest.raises(PySparkException, match=r"00000002 at offset 671.*onFault=skip"):
        spark.read.format("everlog").load(paths).count()
    table = faults(spark, *paths).collect()
    assert table == spark.read.format("everlog").option("faults", "true").load(paths).collect()
    assert [row.code for row in table if row.severity == "fault"]
    assert all(row.store.startswith(paths[0]) for row in table)
    assert spark.read.format("everlog").option("onFault", "skip").load(paths).count() > 0


def test_a_family_of_which_no_store_opens_is_left_out_or_named(tmp_path, golden, toy):
    good = toy("good", {"s": [(1, None, None, b"")]})
    bad = tmp_path / "bad"
    shutil.copytree(next(golden("jlog/basic/log").iterdir()), bad)
    (bad / "metastore").write_bytes((bad / "metastore").read_bytes()[:12] + bytes([0x66, 0x3A, 0x73, 0x18]))
    for paths in (f"{bad},{good}", str(bad)):
        with pytest.raises(Exception, match="onFault=skip leaves the store out") as error:
            reader_of(paths, ("stream",))
        assert str(bad) in str(error.value)
    assert rows_of(reader_of(f"{bad},{good}", ("store", "stream"), onFault="skip")) == [(good, "s")]
    with pytest.raises(Exception, match="onFault=skip"):
        reader_of(str(bad), onFault="skip")  # nothing tells which columns there are
