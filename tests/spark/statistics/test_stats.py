"""``stats`` over real stores: what it tells is what the real systems told, when they wrote them, of each message."""

from __future__ import annotations

import json
import re
import shutil
import statistics
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import tests
from everlog.cli.app import run
from everlog.discovery import find_stores
from everlog.errors import UsageError
from everlog.pipelines.stats import rows as kinds
from everlog.pipelines.stats.fold import Buckets, StreamFold, encode
from everlog.pipelines.stats.joining import join_edges
from everlog.pipelines.stats.rows import StreamName, fold_rows
from everlog.pipelines.stats.scan import position_width
from everlog.pipelines.stats.stores import MAX_STRIP, _segments, describe_store
from everlog.spark import stats
from everlog.spark.statistics.stats import kept, stats_of_parts

GOLDEN = tests.GOLDEN
STORES = ("jlog/basic/log", "nats_streaming/basic_sigterm", "nats_streaming/broken/msgs_bad_crc_mid")
AERON = ("aeron/cluster-3node/node0", "aeron/archive-crash/torn-page-plain")
SECOND = 10**9


@pytest.fixture(scope="module")
def folder(golden, tmp_path_factory):
    """The stores in one folder, each below the name that the test calls it by."""
    root = tmp_path_factory.mktemp("stores")
    for name in STORES + AERON:
        shutil.copytree(golden(name), root / name.split("/")[-2 if name.endswith("log") else -1])
    return root


@pytest.fixture(scope="module")
def found(spark, folder):
    return stats(spark, str(folder), bucket_ns=SECOND)


def _truth(name):
    channels = json.loads((GOLDEN / f"nats_streaming/{name}.truth.json").read_text())["channels"]
    return {channel: truth["messages"] for channel, truth in channels.items() if truth["messages"]}


def _streams(found, store):
    return {row["stream"]: row for row in found.streams if f"/{store}/" in f"{row['store']}/"}


def _about(value):
    """At most 0.2 % below."""
    return pytest.approx(value * 0.999, rel=0.00101, abs=1e-9)


def test_streams_have_the_sizes_and_times_that_the_server_kept(found):
    rows = _streams(found, "basic_sigterm")
    truth = _truth("basic_sigterm")
    assert rows.keys() == truth.keys()
    for channel, messages in truth.items():
        row, sizes, times = rows[channel], [m["len"] for m in messages], [m["timestamp"] for m in messages]
        assert (row["records"], row["bytes"]) == (len(sizes), sum(sizes))
        assert (row["size_min"], row["size_max"]) == (min(sizes), max(sizes))
        assert row["size_median"] == _about(statistics.median(sizes))
        assert row["size_p99"] == _about(np.percentile(sizes, 99))
        assert (row["first_ns"], row["last_ns"]) == (times[0], times[-1])
        between = np.diff(times)
        if len(between):
            assert (row["interval_min_ns"], row["interval_max_ns"]) == (between.min(), between.max())
            assert row["interval_median_ns"] == _about(np.median(between))
            assert row["records_per_s"] == pytest.approx(len(sizes) * 1e9 / (times[-1] - times[0]))
        assert (row["gaps"], row["missing"], row["faults"], row["axis"]) == (0, 0, 0, "time")


@pytest.mark.long
def test_buckets_have_what_the_server_kept_in_each_second(found):
    rows = found.buckets.where("family = 'nats-streaming' AND store LIKE '%basic_sigterm%'").collect()
    counted = {(row.stream, row.bucket): (row.records, row.bytes, row.size_max) for row in rows}
    expected = {}
    for channel, messages in _truth("basic_sigterm").items():
        for message in messages:
            key = channel, message["timestamp"] // SECOND * SECOND
            count, size, most = expected.get(key, (0, 0, 0))
            expected[key] = count + 1, size + message["len"], max(most, message["len"])
    assert counted == expected
    assert {row.width for row in rows} == {SECOND}


def test_a_damaged_message_is_a_fault_and_a_gap_at_its_sequence(found):
    row = _streams(found, "msgs_bad_crc_mid")["foo"]
    assert (row["records"], row["gaps"], row["missing"], row["faults"]) == (36, 1, 1, 1)
    (gap,) = found.gaps
    assert (gap["stream"], gap["after"], gap["before"], gap["missing"]) == ("foo", "12", "14", 1)
    faults = {(fault["family"], fault["code"], fault["address"]) for fault in found.faults}
    assert faults == {("nats-streaming", "bad-crc", "13"), ("aeron-archive", "torn-frame", "818912")}
    assert not found.ok


def test_recordings_without_times_are_told_by_position(found):
    rows = _streams(found, "torn-page-plain")
    # As in the truth of the archive: 314 and 2002 messages, and 551 before the torn one.
    assert {name: (row["axis"], row["records"]) for name, row in rows.items()} == {
        "0": ("position", 314),
        "1": ("position", 2002),
        "2": ("position", 551),
    }
    assert rows["1"]["records_per_s"] is None
    cells = found.buckets.where("store LIKE '%torn-page%' AND stream = '1'").orderBy("bucket").collect()
    assert sum(cell.records for cell in cells) == 2002
    assert [cell.bucket for cell in cells] == list(range(0, 192_224, 4096)), "192,224 bytes, as the catalog has it"


def test_clients_are_those_that_the_clusters_service_heard(found):
    sent, size = Counter(), Counter()
    for line in (GOLDEN / "aeron/cluster-3node/service-log-0.txt").read_text().splitlines():
        if match := re.match(r"msg .* session=(\d+) len=(\d+)", line):
            sent[int(match[1])] += 1
            size[int(match[1])] += int(match[2])
    clients = {row["client"]: (row["records"], row["bytes"]) for row in found.clients}
    assert clients == {session: (sent[session], size[session]) for session in sent if session > 0}
    assert [row["rank"] for row in found.clients] == sorted(row["rank"] for row in found.clients)


def test_readers_lag_as_they_were_left(found):
    # The golden journal's note: of 90 messages alpha has read 12, beta 55, ~tail 30.
    behind = {row["reader"]: row["lag_records"] for row in found.readers if row["family"] == "jlog"}
    assert behind == {"alpha": 78, "beta": 35, "~tail": 60}
    queue = next(r for r in found.readers if r["kind"] == "offline durable queue" and r["stream"] == "a.b.c.d")
    assert (queue["reader"], queue["at"]) == ("dqo:off", "14")


def test_segments_are_the_files_on_disk(found, folder):
    held = {(row["family"], row["stream"]): row for row in found.segments if "msgs_bad" not in row["store"]}
    assert held["jlog", "journal"]["strip"] == [4144, 4224, 2192], "as its truth lists them"
    for name, row in ((name, row) for (family, name), row in held.items() if family == "aeron-archive"):
        files = [path.stat().st_size for path in Path(row["store"]).glob(f"{name}-*.rec")]
        assert (row["files"], row["bytes"]) == (len(files), sum(files))
    for name in ("foo", "a.b.c.d"):
        path = next(folder.glob(f"basic_sigterm/**/{name}"))
        assert held["nats-streaming", name]["bytes"] == sum(file.stat().st_size for file in path.glob("msgs.*"))


def test_many_segments_are_put_together_and_lose_no_byte():
    row = _segments("s", list(range(100)))
    assert len(row["strip"]) <= MAX_STRIP
    assert (row["files"], row["bytes"], sum(row["strip"]), row["files_in_a_part"]) == (100, 4950, 4950, 3)


@pytest.mark.parametrize(
    "name",
    [
        "nats_streaming/broken/idx_missing_all",
        "nats_streaming/broken/idx_only_dat_missing",
        "jlog/e_idx_missing/before",
    ],
)
def test_what_is_left_of_a_store_is_told(golden, name):
    (store,) = find_stores((str(golden(name)),))
    row = describe_store(store, {})
    assert row["error"] is None
    files = [path for path in Path(store.path).rglob("*") if path.name.startswith(("msgs.", "0000"))]
    sizes = sum(path.stat().st_size for path in files if path.suffix != ".idx" or store.family != "jlog")
    assert sum(held["bytes"] for held in row["segments"]) == sizes


def _fold(name, times_s, *, width_s=60):
    fold = StreamFold(by_time=Buckets(width_s * SECOND), by_position=Buckets(4096))
    times = np.array([round(time * SECOND) for time in times_s], np.int64)
    ones = np.ones(len(times), np.int64)
    from everlog.pipelines.stats.fold import Records

    fold.add(Records(addresses=np.arange(len(times)), lengths=ones, times=times, timed=ones.astype(bool)))
    return list(fold_rows(StreamName("/store", "jlog", name), fold))


@pytest.mark.long
def test_a_burst_is_more_than_five_times_the_median_of_five_minutes_or_more(spark):
    import pyarrow as pa

    def minutes(*counts):
        return [60 * minute + n / 1000 for minute, count in enumerate(counts) for n in range(count)]

    batches = _fold("busy", minutes(10, 10, 0, 50, 51, 9, 11)) + _fold("short", minutes(10, 10, 0, 500, 10))
    parts = spark.createDataFrame(pa.Table.from_batches(batches)).persist()
    made = stats_of_parts(spark, parts, bucket_ns=60 * SECOND, may_join=True)
    bursts = [(row.stream, row.bucket // (60 * SECOND), row.records) for row in made.bursts().collect()]
    # The median of 10, 10, 50, 51, 9, 11 is 10.5: 52.5 is not reached.
    assert bursts == []
    batches = _fold("busy", minutes(10, 10, 0, 50, 51, 9, 10))
    parts = spark.createDataFrame(pa.Table.from_batches(batches)).persist()
    made = stats_of_parts(spark, parts, bucket_ns=60 * SECOND, may_join=True)
    assert [(row.bucket // (60 * SECOND), row.records) for row in made.bursts().collect()] == [(4, 51)]
    assert made.streams[0]["bursts"] == 1


def test_what_is_between_two_splits_is_joined_where_they_are_neighbours():
    name = StreamName("/s", "nats-streaming", "foo")

    def edge(start, end, first, last):
        def record(at):
            return None if at is None else [at, at * SECOND, str(at)]

        ends_ns = None if first is None else [first * SECOND, last * SECOND]
        return name, {"start": start, "end": end, "first": record(first), "last": record(last), "ends_ns": ends_ns}

    # Out of order; an empty split between 9 and 14; nobody asked for what is between 20 and 30.
    edges = [
        edge(30, None, 35, 40),
        edge(5, 10, 5, 9),
        edge(None, 5, 1, 4),
        edge(10, 12, None, None),
        edge(12, 20, 14, 19),
    ]
    batches, gaps = join_edges(edges, 60 * SECOND)
    assert [(gap["after"], gap["before"], gap["missing"]) for _, gap in gaps] == [("9", "14", 4)]
    intervals = [row for batch in batches for row in batch.to_pylist() if row["kind"] == kinds.INTERVAL]
    totals = [row for batch in batches for row in batch.to_pylist() if row["kind"] == kinds.TOTAL]
    codes = encode(np.array([row["value"] for row in intervals], np.int64)).tolist()
    assert codes == encode(np.array([1, 5], np.int64) * SECOND).tolist()
    assert [(row["records"], row["shortest_ns"], row["longest_ns"]) for row in totals] == [(0, SECOND, 5 * SECOND)]


def test_what_is_between_two_splits_is_an_interval_only_where_both_its_ends_are_in_the_range_of_times():
    def edge(start, end, *ends_ns):
        record = [end or 99, None, "x"]
        found = {"start": start, "end": end, "first": record, "last": record, "ends_ns": list(ends_ns) or None}
        return StreamName("/s", "jlog", "journal"), found

    def between(*edges):
        rows = [row for batch in join_edges(list(edges), 60 * SECOND)[0] for row in batch.to_pylist()]
        return [row["longest_ns"] for row in rows if row["kind"] == kinds.TOTAL]

    assert between(edge(None, 10, 1, 5), edge(10, None, None, 9)) == []
    assert between(edge(None, 10, 1, None), edge(10, None, 7, 9)) == []
    assert between(edge(None, 10, 1, 5), edge(10, 20), edge(20, None, 7, 9)) == [2], (
        "records without a time are between"
    )
    assert between(edge(None, 10, 1, 5), edge(10, 20, None, None), edge(20, None, 7, 9)) == []


@pytest.mark.long
def test_a_store_whose_key_is_wrong_is_told_beside_the_others(spark, golden, tmp_path):
    (tmp_path / "key").write_text("WRONG")
    paths = [str(golden(f"nats_streaming/{name}")) for name in ("encrypted_AES", "basic_sigterm")]
    made = stats(spark, *paths, encryptionKeyFile=str(tmp_path / "key"))
    (sealed,) = [row for row in made.stores if "encrypted" in row["store"]]
    assert "the key decrypts none of" in sealed["error"]
    assert [row["error"] for row in made.stores if row is not sealed] == [None]
    assert {row["records"] for row in made.streams if "basic_sigterm" in row["store"]}
    assert not made.ok


def test_tasks_read_what_there_is_once(spark):
    runs = spark.sparkContext.accumulator(0)
    batches = _fold("busy", range(0, 600, 7)) + _fold("other", range(9))

    def read(rows):
        runs.add(1)
        for _ in rows:
            yield from batches

    with kept(spark.range(0, 1, 1, 1).mapInArrow(read, kinds.SCHEMA)) as parts:
        made = stats_of_parts(spark, parts, bucket_ns=60 * SECOND, may_join=True)
        assert [row["records"] for row in made.streams] == [86, 9]
        assert made.buckets.count() == 11
    assert runs.value == 1


@pytest.mark.long
def test_only_the_buckets_stay_in_the_session(spark, folder, tmp_path):
    def kept_now():  # plans: what is computed of one Spark may give back
        return spark._jsparkSession.sharedState().cacheManager().numCachedEntries()

    # A copy: of stores that another test has looked at in the same way Spark knows the buckets already.
    copy = shutil.copytree(folder, tmp_path / "copy")
    before = kept_now()
    made = stats(spark, str(copy), bucket_ns=SECOND)
    assert kept_now() - before == 1
    assert sum(row.records for row in made.buckets.where("family = 'jlog'").collect()) == 90
    made.buckets.unpersist()
    assert kept_now() == before


def test_buckets_of_positions_are_powers_of_two_about_a_hundred_to_a_stream():
    assert [position_width(count) for count in (0, 10_000, 1 << 30)] == [4096, 4096, 1 << 24]


@pytest.mark.long
def test_the_command_tells_all_rows_as_json_and_ends_with_1_for_damage(spark, folder, capsys):
    assert run(["spark", "stats", str(folder / "msgs_bad_crc_mid"), "--json", "--bucket", "1s"]) == 1
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert Counter(row["row"] for row in rows if row["row"] in ("store", "stream", "gap", "fault")) == {
        "store": 1,
        "stream": 7,
        "gap": 1,
        "fault": 1,
    }
    assert sum(row["records"] for row in rows if row["row"] == "bucket") == 108, "109 messages and one is damaged"


@pytest.mark.long
def test_the_command_prints_a_table_and_the_page(spark, folder, tmp_path, capsys):
    page = tmp_path / "report.html"
    assert run(["spark", "stats", str(folder / "basic"), "--report", str(page)]) == 0
    said = capsys.readouterr().out
    assert re.search(r"journal +90 +9120 ", said), "15 times 10, 200, 0, 1, 333 and 64 bytes"
    assert "alpha: 78 records" in said
    assert page.read_text().startswith("<!DOCTYPE html>")


def test_wrong_usage_is_told_before_spark_starts(tmp_path, capsys):
    for arguments, said in ((["--bucket", "soon"], "--bucket"), (["--option", "x"], "NAME=VALUE")):
        assert run(["spark", "stats", str(tmp_path), *arguments]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert said in line


def test_a_bucket_below_a_millisecond_is_refused(spark, folder):
    with pytest.raises(UsageError, match="bucket"):
        stats(spark, str(folder / "basic"), bucket_ns=1000)


def test_a_bucket_that_no_time_reaches_is_refused(spark, folder):
    with pytest.raises(UsageError, match=r"bucket must be .* at most .*, not 100000000000000000000 ns"):
        stats(spark, str(folder / "basic"), bucket_ns=10**20)
    assert stats(spark, str(folder / "basic"), bucket_ns=10**18).streams[0]["records"] == 90
