"""``everlog spark export``: run again and again, each record is there once."""

from __future__ import annotations

import json
import os
import shutil
import sys
import threading
import zlib
from collections import Counter

import pytest

import tests
from everlog import jlog
from everlog.aeron import archive
from everlog.cli.app import run
from everlog.errors import CorruptData, MissingDependency, StoreUnavailable, UsageError
from everlog.pipelines.export import names as export_names
from everlog.pipelines.export.folder import MANIFEST, read_manifest
from everlog.pipelines.export.manifest import StreamKey
from everlog.spark.jobs.export import Export, export, purge
from everlog.stores import open_store
from everlog.testing.made.channel import Channel, make_store
from tests.spark.exported import journal, numbers, once, options, record


@pytest.mark.parametrize("kind", ["parquet", "arrow", "jsonl"])
def test_every_record_is_exported_once_and_the_manifest_tells_of_each_file(spark, tmp_path, kind):
    path, out = journal(tmp_path / "journal", 0, 300), tmp_path / "out"
    summary = export(spark, Export(options=options(path), folder=str(out), kind=kind))
    assert summary.rows == 300
    assert numbers(out) == once(300)
    manifest = read_manifest(str(out))
    assert manifest.generation == 1
    (key,) = manifest.streams
    assert key == StreamKey(str(path), "journal")
    files = manifest.streams[key].files
    assert {out / file.path for file in files} == set(out.glob("store=*/*/*/*"))
    assert sum(file.rows for file in files) == 300
    assert files[0].first == "00000000:00000001"
    for file in files:
        data = (out / file.path).read_bytes()
        assert (file.byte_count, file.crc32) == (len(data), zlib.crc32(data))


def test_a_second_run_adds_what_is_new_and_a_third_nothing(spark, tmp_path):
    path, trades, out = tmp_path / "journal", tmp_path / "trades", tmp_path / "out"
    wish = Export(options=options(path, trades, splitBytes="64k"), folder=str(out), commit_bytes=65536)
    journal(path, 0, 100), record(trades, 100, 400)
    assert export(spark, wish).rows == 400
    journal(path, 400, 500), record(trades, 500, 900)
    assert export(spark, wish).rows == 500
    assert numbers(out) == once(900)
    before = (out / MANIFEST).read_bytes()
    assert export(spark, wish).rows == 0
    assert (out / MANIFEST).read_bytes() == before
    assert sorted(file.name for file in (out / "_everlog").iterdir()) == ["lock", "manifest.json"]


@pytest.mark.long
@pytest.mark.parametrize("kind", ["parquet", "delta"])
def test_a_later_run_may_have_stores_of_some_of_the_families_only(spark, tmp_path, kind):
    """Its rows lack what only the others have; options that only the others know are left out."""
    path, trades, out = journal(tmp_path / "journal", 0, 50), record(tmp_path / "trades", 50, 100), tmp_path / "out"
    times = {"timestampFrom": "reserved_value:ms"}

    def wish(*paths, **more):
        return Export(options=options(*paths, **more), folder=str(out), kind=kind)

    assert export(spark, wish(path, trades, **times)).rows == 100
    columns = read_manifest(str(out)).columns
    assert {"position", "marker"} < {name for name, _ in columns}
    journal(path, 100, 120), record(trades, 120, 140)
    assert export(spark, wish(path)).rows == 20
    with pytest.raises(UsageError, match=r"option timestampFrom must be 'reserved_value:ms'.*, not None"):
        export(spark, wish(trades))
    assert export(spark, wish(trades, **times)).rows == 20
    assert numbers(out) == once(140)
    manifest = read_manifest(str(out))
    assert (manifest.columns, manifest.query["timestampFrom"]) == (columns, "reserved_value:ms")
    frame = spark.read.parquet(str(out)) if kind == "parquet" else _delta_frame(spark, out)
    later = {int(row.payload.rstrip(b"x")): row for row in frame.collect()}
    assert (later[110].marker, later[110].position) == (111 - 50, None)
    assert later[130].marker is None
    assert later[130].position > later[90].position > 0
    with pytest.raises(UsageError, match="the query has fewer columns"):
        export(spark, Export(options=options(path, columns="marker,payload"), folder=str(out), kind=kind))


def test_a_wish_that_can_t_be_granted_leaves_no_folder(spark, tmp_path, monkeypatch):
    path, out = journal(tmp_path / "journal", 0, 5), tmp_path / "out"
    with pytest.raises(UsageError, match="nope"):
        export(spark, Export(options=options(path, columns="nope"), folder=str(out)))
    monkeypatch.setitem(sys.modules, "deltalake", None)
    with pytest.raises(MissingDependency, match="everlog\\[delta\\]"):
        export(spark, Export(options=options(path), folder=str(out), kind="delta"))
    assert not out.exists()


def _delta_frame(spark, folder):
    from deltalake import DeltaTable

    return spark.createDataFrame(DeltaTable(str(folder)).to_pyarrow_table())


def test_a_store_that_another_path_leads_to_by_now_is_not_exported_again(spark, tmp_path):
    path = journal(tmp_path / "stores" / "journal", 0, 5)
    wish = Export(options=options(tmp_path / "stores"), folder=str(tmp_path / "out"))
    assert export(spark, wish).rows == 5
    (tmp_path / "stores" / "current").symlink_to(path)  # its name comes first
    assert export(spark, wish).rows == 0
    journal(path, 5, 7)
    assert export(spark, wish).rows == 2
    assert numbers(tmp_path / "out") == once(7)
    (plan,) = purge(spark, wish)
    assert (plan.store, plan.refused) == (str(path), None)


def test_a_cut_journal_of_large_segments_without_an_index_is_refused(spark, tmp_path):
    path = tmp_path / "journal"
    jlog.create(path, segment_bytes=64 << 20)
    with jlog.Writer(path) as writer:
        writer.append_many([b"x" * 10_000] * 1000)
    wish = Export(options=options(path), folder=str(tmp_path / "out"))
    assert export(spark, wish).rows == 1000
    segment = path / "00000000"
    os.truncate(segment, segment.stat().st_size // 1000 * 900)
    with jlog.Writer(path) as writer:
        writer.append_many([b"y" * 10_000] * 50)
    with pytest.raises(CorruptData, match="the store was replaced or truncated"):
        export(spark, wish)


def test_columns_of_a_schema_that_was_left_out_are_not_taken_for_those_of_others(spark, tmp_path):
    path, trades, out = journal(tmp_path / "journal", 0, 5), record(tmp_path / "trades", 5, 10), tmp_path / "out"
    schema = str(tests.GOLDEN / "sbe" / "every-feature.xml")
    export(spark, Export(options=options(path, trades, sbeSchema=schema), folder=str(out)))
    with pytest.raises(UsageError, match="the query has fewer columns"):
        export(spark, Export(options=options(path), folder=str(out)))


def test_spark_reads_the_folder_with_store_stream_and_hour_as_columns(spark, tmp_path):
    (tmp_path / "odd =%#é").mkdir()
    path, out = journal(tmp_path / "odd =%#é" / "journal", 0, 50), tmp_path / "out"
    trades = record(tmp_path / "trades", 50, 60)
    export(spark, Export(options=options(path, trades), folder=str(out)))
    with open_store(path) as store:
        hours = {record.timestamp_ns // 3_600_000_000_000 for record in store.read("journal")}
    rows = spark.read.parquet(str(out)).groupBy("store", "stream", "hour").count().collect()
    found = {(row.store, row.stream, row.hour): row["count"] for row in rows}
    assert found.pop((str(trades), "0", "unknown")) == 10
    assert {(store, stream) for store, stream, _ in found} == {(str(path), "journal")}
    assert sum(found.values()) == 50
    assert len(found) == len(hours)


def test_names_that_are_not_ascii_are_read_back_by_spark_and_by_pyarrow(spark, tmp_path):
    """Every printable character of Latin-1, and some of others."""
    import pyarrow.parquet as pq

    letters = [letter for letter in map(chr, range(0x80, 0x100)) if letter.isprintable()]
    names = ["".join(letters[low : low + 30]) for low in range(0, len(letters), 30)]
    names += ["café", "e\u0301", "日本", "Ω\U0001f600", "plain"]
    path, out = make_store(tmp_path / "stan"), tmp_path / "out"
    for name in names:
        Channel(path, name).append(b"x")
    export(spark, Export(options=options(path), folder=str(out)))
    assert sorted(row.stream for row in spark.read.parquet(str(out)).collect()) == sorted(names)
    assert sorted(pq.read_table(out).column("stream").to_pylist()) == sorted(names)


@pytest.mark.parametrize("kind", ["parquet", "delta"])
def test_a_stream_whose_folder_had_another_name_goes_on_in_a_new_one(spark, tmp_path, kind):
    """Before, such a letter was an escape; the manifest has the paths of those files."""
    path, out = make_store(tmp_path / "stan"), tmp_path / "out"
    channel = Channel(path, "café")
    channel.append(b"0")
    wish = Export(options=options(path), folder=str(out), kind=kind)
    escaped = export_names._escaped
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(export_names, "_escaped", lambda letter: "%E9" if letter == "é" else escaped(letter))
        export(spark, wish)
    assert [folder.name for folder in out.glob("store=*/*")] == ["stream=caf%E9"]
    channel.append(b"1")
    assert export(spark, wish).rows == 1
    assert [folder.name for folder in out.glob("store=*/stream=café")] == ["stream=café"]
    assert numbers(out) == once(2)
    frame = spark.read.parquet(str(out)) if kind == "parquet" else _delta_frame(spark, out)
    assert {(row.stream, bytes(row.payload)) for row in frame.collect()} == {("café", b"0"), ("café", b"1")}


def test_records_go_to_the_hour_of_their_time_and_without_one_to_unknown(spark, golden, tmp_path):
    """NATS Streaming's messages have times; each is in the folder of its own hour, by the calendar."""
    path, out = golden("nats_streaming/lim_max_age"), tmp_path / "out"
    export(spark, Export(options=options(path), folder=str(out)))
    from datetime import UTC, datetime

    import pyarrow.parquet as pq

    files = list(out.glob("store=*/*/*/*.parquet"))
    assert files
    for file in files:
        for ns in pq.ParquetFile(file).read(["timestamp_ns"]).column(0).to_pylist():
            assert f"hour={datetime.fromtimestamp(ns // 10**9, UTC):%Y-%m-%d-%H}" == file.parent.name


def test_the_source_s_options_choose_columns_streams_and_ranges(spark, tmp_path):
    path, out = record(tmp_path / "trades", 0, 200), tmp_path / "out"
    with open_store(path) as store:
        addresses = [record.address for record in store.read("0")]
    chosen = options(path, stream="0", columns="length,stream_id", start=addresses[20], end=addresses[70])
    assert export(spark, Export(options=chosen, folder=str(out))).rows == 50
    rows = spark.read.parquet(str(out)).collect()
    assert {row.address for row in rows} == set(addresses[20:70])
    assert set(rows[0].asDict()) == {"address", "length", "stream_id", "store", "stream", "hour"}
    # The range may be another one in the next run; what is there already does not come again.
    wider = options(path, stream="0", columns="length,stream_id", start=addresses[10], end=addresses[80])
    assert export(spark, Export(options=wider, folder=str(out))).rows == 20
    assert Counter(row.address for row in spark.read.parquet(str(out)).collect()) == Counter(addresses[10:80])
    with pytest.raises(UsageError, match="columns"):
        export(spark, Export(options=options(path), folder=str(out)))
    timed = options(path, columns="length,stream_id", startTime="2020-01-01")
    with pytest.raises(UsageError, match="startTime"):
        export(spark, Export(options=timed, folder=str(out)))
    with pytest.raises(UsageError, match=r"format must be parquet as in earlier runs, not jsonl \(export to another"):
        export(spark, Export(options=options(path), folder=str(out), kind="jsonl"))


@pytest.mark.parametrize(
    "option", ["faults=true", "startingOffsets=latest", 'aggregate={"by": ["stream"], "values": {"n": "count"}}']
)
def test_options_that_make_no_table_of_records_are_refused(spark, tmp_path, capsys, option):
    path, out = journal(tmp_path / "journal", 0, 10), tmp_path / "out"
    assert run(["spark", "export", str(path), str(out), "-o", option]) == 2
    assert f"option {option.partition('=')[0]}" in capsys.readouterr().err
    assert not out.exists()


def test_damage_fails_with_file_offset_and_option_and_skip_goes_on_and_counts(spark, tmp_path):
    good, bad, out = record(tmp_path / "good", 0, 100), record(tmp_path / "bad", 100, 300), tmp_path / "out"
    file = bad / "0-65536.rec"
    data = bytearray(file.read_bytes())
    data[736 * 4 + 16] ^= 1  # a bit of the stream id of the fifth message of that segment: number 100 + 89 + 4
    file.write_bytes(data)
    wish = Export(options=options(good, bad), folder=str(out))
    with pytest.raises(CorruptData) as caught:
        export(spark, wish)
    assert caught.value.where == str(file)
    assert caught.value.offset == 736 * 4
    assert "onFault=skip" in str(caught.value)
    skipping = Export(options=options(good, bad, onFault="skip"), folder=str(out))
    summary = export(spark, skipping)
    assert (summary.fault_count, summary.exit_code) == (1, 1)
    assert summary.faults[0].file == str(file)
    assert numbers(out) == once(300) - Counter([193])
    assert export(spark, skipping).fault_count == 0, "it is told once"


def test_a_store_that_vanishes_during_the_run_fails_or_is_left_out(spark, tmp_path, monkeypatch):
    good, gone, out = journal(tmp_path / "good", 0, 50), record(tmp_path / "gone", 50, 300), tmp_path / "out"
    from everlog.spark.jobs import export as module

    planned = module.plan_export

    def plan_and_delete(*arguments):
        plan = planned(*arguments)
        shutil.rmtree(gone, ignore_errors=True)
        return plan

    monkeypatch.setattr(module, "plan_export", plan_and_delete)
    with pytest.raises(StoreUnavailable, match="failOnDataLoss"):
        export(spark, Export(options=options(good, gone), folder=str(out)))
    assert numbers(out) == once(50), "what could be read is there"
    record(gone, 50, 300)
    summary = export(spark, Export(options=options(good, gone, failOnDataLoss="false"), folder=str(out)))
    assert (summary.exit_code, len(summary.losses)) == (1, 1)
    assert str(gone) in summary.losses[0]


def test_a_journal_that_is_written_meanwhile_is_exported_without_loss_or_double(spark, tmp_path):
    path, out = tmp_path / "journal", tmp_path / "out"
    jlog.create(path, segment_bytes=20_000)
    done, written = threading.Event(), 0

    def write():
        nonlocal written
        with jlog.Writer(path) as writer:
            while not done.wait(0.0005) and written < 20_000:
                writer.append(b"%d" % written + b"x" * 300)
                written += 1

    thread = threading.Thread(target=write)
    thread.start()
    wish = Export(options=options(path, splitBytes="64k"), folder=str(out), commit_bytes=200_000)
    counts = []
    try:
        # On a busy machine, the first exports may come before the first whole segment.
        while len(counts) < 3 or (not any(counts) and len(counts) < 30):
            counts.append(export(spark, wish).rows)
    finally:
        done.set()
        thread.join()
    export(spark, wish)
    assert sum(counts) > 0
    assert numbers(out) == once(written)


def test_another_stream_under_the_same_name_is_refused(spark, tmp_path):
    path, out = record(tmp_path / "trades", 0, 100), tmp_path / "out"
    wish = Export(options=options(path), folder=str(out))
    export(spark, wish)
    shutil.rmtree(path)
    record(path, 1000, 1200)
    with pytest.raises(CorruptData, match="another folder"):
        export(spark, wish)
    shutil.rmtree(path)
    record(path, 0, 50)
    with pytest.raises(CorruptData, match="the stream's end at"):
        export(spark, wish)
    assert numbers(out) == once(100)


def test_a_stream_that_was_cut_and_went_on_otherwise_is_refused(spark, tmp_path):
    """It is longer than what was exported, and where the last record was, none begins."""
    path, out = record(tmp_path / "trades", 0, 100), tmp_path / "out"
    wish = Export(options=options(path), folder=str(out))
    export(spark, wish)
    with archive.open_archive(path) as store:
        store.truncate_recording(0, 736 * 50)
        with store.extend_recording(0) as recorder:
            for _ in range(200):
                recorder.append(b"y" * 900)
    with pytest.raises(CorruptData, match="no record at"):
        export(spark, wish)
    assert numbers(out) == once(100)


def test_frames_are_exported_again_and_again_too(spark, tmp_path):
    """A message of 3,000 bytes is three frames; the last one of them begins no message."""
    path, out = tmp_path / "trades", tmp_path / "out"
    wish = Export(options=options(path, level="frame"), folder=str(out))
    with archive.create(path) as store, store.start_recording("aeron:ipc", 1) as recorder:
        recorder.append(b"x" * 3000)
    assert export(spark, wish).rows == 3
    with archive.open_archive(path) as store, store.extend_recording(0) as recorder:
        recorder.append(b"x" * 3000)
    assert export(spark, wish).rows == 3
    assert export(spark, wish).rows == 0


def test_records_that_went_before_they_were_exported_are_missed(spark, tmp_path):
    path, out = record(tmp_path / "trades", 0, 100), tmp_path / "out"
    export(spark, Export(options=options(path), folder=str(out)))
    record(path, 100, 400)
    with archive.open_archive(path) as store:
        store.purge_segments(0, 3 * 65536)
    with pytest.raises(CorruptData, match="failOnDataLoss"):
        export(spark, Export(options=options(path), folder=str(out)))
    summary = export(spark, Export(options=options(path, failOnDataLoss="false"), folder=str(out)))
    assert len(summary.losses) == 1
    # 89 messages of 736 bytes are in a segment.
    assert numbers(out) == once(100) + Counter(range(3 * 89, 400))


def test_a_folder_with_something_else_or_in_a_store_is_refused(spark, tmp_path):
    path = journal(tmp_path / "journal", 0, 5)
    other = tmp_path / "other"
    other.mkdir()
    (other / "file").write_text("mine")
    for folder in (str(other), str(path / "out"), "s3://bucket/x"):
        with pytest.raises(UsageError):
            export(spark, Export(options=options(path), folder=folder))
    assert sorted(file.name for file in other.iterdir()) == ["file"]
    with pytest.raises(UsageError, match="preCommit"):
        export(spark, Export(options=options(path, preCommit="true"), folder=str(tmp_path / "out")))


def test_a_password_in_a_folder_s_url_is_not_repeated(spark, tmp_path, capsys):
    path = journal(tmp_path / "journal", 0, 5)
    assert run(["spark", "export", str(path), "s3://user:SECRET@bucket/x"]) == 2
    said = capsys.readouterr().err
    assert "folder can't be a URL" in said
    assert "SECRET" not in said


def test_columns_in_another_order_are_told_as_that(spark, tmp_path):
    path, out = journal(tmp_path / "journal", 0, 5), tmp_path / "out"
    export(spark, Export(options=options(path, columns="length,crc32"), folder=str(out)))
    with pytest.raises(UsageError, match="the query has another order of the columns"):
        export(spark, Export(options=options(path, columns="crc32,length"), folder=str(out)))
    with pytest.raises(UsageError, match="the query has fewer columns"):
        export(spark, Export(options=options(path, columns="length"), folder=str(out)))


def test_two_exporters_of_one_folder_exclude_each_other(spark, tmp_path):
    from everlog.pipelines.export.folder import ExportFolder

    path, out = journal(tmp_path / "journal", 0, 5), tmp_path / "out"
    with ExportFolder(str(out)), pytest.raises(StoreUnavailable, match="another process"):
        export(spark, Export(options=options(path), folder=str(out)))


def test_the_command_prints_a_table_or_json(spark, tmp_path, capsys):
    path, out = journal(tmp_path / "journal", 0, 40), tmp_path / "out"
    assert run(["spark", "export", str(path), str(out)]) == 0
    assert f"exported 40 records to {out}, which now has 40 of these streams" in capsys.readouterr().out
    journal(path, 40, 50)
    assert run(["spark", "export", str(path), str(out), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["records"], found["streams"][0]["total_records"]) == (10, 50)
    assert run(["spark", "export", str(path)]) == 2
    assert run(["spark", "export", str(path), str(out), "--commit-bytes", "many"]) == 2


def test_a_delta_table_has_each_record_once_and_tells_its_own_commits(spark, tmp_path, monkeypatch):
    """Killed between the table's commit and the manifest: the table's transaction says that the records are there."""
    from deltalake import DeltaTable

    from everlog.pipelines.export.delta import DeltaLog

    path, trades, out = journal(tmp_path / "journal", 0, 100), record(tmp_path / "trades", 100, 300), tmp_path / "out"
    wish = Export(options=options(path, trades), folder=str(out), kind="delta")

    def rows() -> list[dict]:
        return DeltaTable(str(out)).to_pyarrow_table().to_pylist()

    assert export(spark, wish).rows == 300
    assert Counter(int(row["payload"].rstrip(b"x")) for row in rows()) == once(300)
    assert {(row["store"], row["stream"]) for row in rows()} == {(str(path), "journal"), (str(trades), "0")}
    assert {row["hour"] for row in rows() if row["stream"] == "0"} == {"unknown"}
    journal(path, 300, 320)
    commit = DeltaLog.commit

    class Killed(BaseException):
        pass

    def commit_and_die(self, schema, manifest):
        commit(self, schema, manifest)
        raise Killed

    monkeypatch.setattr(DeltaLog, "commit", commit_and_die)
    with pytest.raises(Killed):
        export(spark, wish)
    monkeypatch.setattr(DeltaLog, "commit", commit)
    journal(path, 320, 330)
    assert export(spark, wish).rows == 10
    assert Counter(int(row["payload"].rstrip(b"x")) for row in rows()) == once(330)
    assert DeltaTable(str(out)).transaction_version("everlog-export") == 3
    (out / MANIFEST).unlink()
    with pytest.raises(CorruptData, match="without a manifest"):
        export(spark, wish)
    shutil.rmtree(out / "_everlog")
    with pytest.raises(UsageError, match="contains other files"):
        export(spark, wish)
    assert len(rows()) == 330


def test_a_table_and_a_manifest_that_do_not_belong_together_are_refused(spark, tmp_path):
    """An older copy of the manifest was put back."""
    path, out = journal(tmp_path / "journal", 0, 10), tmp_path / "out"
    wish = Export(options=options(path), folder=str(out), kind="delta")
    export(spark, wish)
    older = (out / MANIFEST).read_bytes()
    journal(path, 10, 20)
    export(spark, wish)
    (out / MANIFEST).write_bytes(older)
    with pytest.raises(CorruptData, match="generation 2"):
        export(spark, wish)
