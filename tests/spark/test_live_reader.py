"""The reader of a live query as Spark's driver calls it, without Spark: offsets, bounds, restarts, lost data."""

from __future__ import annotations

import json
import os
import pickle
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows

from everlog import jlog
from everlog.aeron import archive
from everlog.errors import DataLost, UsageError
from everlog.spark.source import EverlogDataSource
from everlog.spark.streaming import progress_of
from everlog.testing.made import channel as nats_channel

ALL = ReadAllAvailable()
SMALL = {"segment_length": 1 << 16, "durability": "written"}
TERM = {"term_length": 1 << 16, "mtu_length": 1408, "initial_term_id": 7, "session_id": 5}


def make_reader(path: Path | str, **options: str):
    given = {"path": str(path), "columns": "store,stream,address,payload", "discoveryInterval": "0s", **options}
    source = EverlogDataSource(CaseInsensitiveDict(given))
    return pickle.loads(pickle.dumps(source)).streamReader(source.schema())


class Query:
    """What Spark does with a reader. Offsets go through JSON; a restart has a new reader and what was logged."""

    def __init__(self, path: Path | str, **options: str) -> None:
        self.path, self.options = path, options
        self.logged: list[str] = []
        self.committed = 0
        self.rows: list[tuple[str, bytes]] = []
        self.restart()

    def restart(self) -> None:
        self.reader = make_reader(self.path, **self.options)

    @property
    def start(self) -> str:
        return self.logged[self.committed - 1] if self.committed else json.dumps(self.reader.initialOffset())

    def plan(self, limit=None) -> bool:
        """Log the end of the next batch; false where there is nothing new."""
        start = self.start
        limit = limit or self.reader.getDefaultReadLimit()
        end = json.dumps(self.reader.latestOffset(json.loads(start), limit))
        if end == start:
            return False
        self.logged.append(end)
        return True

    def run(self) -> list[bytes]:
        """The rows of the batch that was logged last; it is committed."""
        partitions = self.reader.partitions(json.loads(self.start), json.loads(self.logged[self.committed]))
        rows = []
        if hasattr(self.reader, "getCache"):  # Spark asks for them
            for batch in self.reader.getCache({}, {}):
                rows += batch.to_pylist()
            assert not hasattr(self.reader, "getCache")
        else:
            for partition in partitions:
                task, sent = pickle.loads(pickle.dumps((self.reader, partition)))
                for batch in task.read(sent):
                    rows += batch.to_pylist()
        self.committed += 1
        self.rows += [(row["stream"], row["payload"]) for row in rows]
        return [row["payload"] for row in rows]

    def step(self, limit=None) -> list[bytes]:
        return self.run() if self.plan(limit) else []


@pytest.fixture
def journal(tmp_path):
    jlog.create(tmp_path / "journal")
    with jlog.Writer(tmp_path / "journal") as writer:
        yield tmp_path / "journal", writer


@pytest.fixture
def recordings(tmp_path):
    with archive.create(tmp_path / "archive", **SMALL) as writing:
        yield tmp_path / "archive", writing


@pytest.mark.parametrize("prefetch", ["0", "1m", "100"])
def test_each_record_comes_once_in_its_order_whoever_reads_it(journal, prefetch):
    path, writer = journal
    query = Query(path, prefetchBytes=prefetch)
    assert query.step() == []
    for number in range(5):
        writer.append_many([b"%d.%d" % (number, k) for k in range(number + 1)])
        assert query.step() == [b"%d.%d" % (number, k) for k in range(number + 1)]
        assert query.step() == []


def test_a_batch_has_as_many_records_as_spark_says(journal):
    path, writer = journal
    writer.append_many([b"%03d" % n for n in range(50)])
    query = Query(path, maxRecordsPerTrigger="20")
    assert query.reader.getDefaultReadLimit() == ReadMaxRows(20)
    assert [len(query.step()) for _ in range(4)] == [20, 20, 10, 0]
    query = Query(path, maxBytesPerTrigger="30")
    assert query.reader.getDefaultReadLimit() == ReadMaxBytes(30)
    assert len(query.step()) == 10
    assert len(query.step(ReadMaxRows(7))) == 7
    assert len(query.step(ReadAllAvailable())) == 33
    both = Query(path, maxRecordsPerTrigger="20", maxBytesPerTrigger="15")
    assert len(both.step()) == 5
    assert Query(path).reader.getDefaultReadLimit() == ReadAllAvailable()


def test_streams_of_many_stores_share_a_batch(journal, recordings, tmp_path):
    _, writer = journal
    writer.append_many([b"%d" % n for n in range(100)])
    _, writing = recordings
    recorder = writing.start_recording("aeron:ipc", 1, **TERM)
    recorder.append_many([b"%d" % n for n in range(100)])
    channel = nats_channel.Channel(nats_channel.make_store(tmp_path / "nats"), "foo")
    for number in range(10):
        channel.append(b"%d" % number)
    query = Query(tmp_path, maxRecordsPerTrigger="30")
    sizes = []
    while batch := query.step():
        sizes.append(len(batch))
        if len(sizes) == 1:
            assert {stream for stream, _ in query.rows} == {"journal", "0", "foo"}
    assert max(sizes) <= 30
    for name, count in (("journal", 100), ("0", 100), ("foo", 10)):
        assert [p for stream, p in query.rows if stream == name] == [b"%d" % n for n in range(count)]


def test_after_a_restart_the_batch_that_was_planned_is_read_as_it_was(journal):
    path, writer = journal
    query = Query(path, maxRecordsPerTrigger="10")
    writer.append_many([b"%d" % n for n in range(25)])
    assert len(query.step()) == 10
    assert query.plan()
    writer.append_many([b"%d" % n for n in range(25, 60)])
    query.restart()
    # Spark asks for the partitions first.
    assert query.run() == [b"%d" % n for n in range(10, 20)]
    while query.step():
        pass
    assert [p for _, p in query.rows] == [b"%d" % n for n in range(60)]


def test_a_first_batch_that_began_at_latest_begins_there_again_after_a_restart(journal):
    path, writer = journal
    writer.append_many([b"before"] * 5)
    query = Query(path, startingOffsets="latest")
    start = query.reader.initialOffset()
    writer.append_many([b"1", b"2"])
    query.logged.append(json.dumps(query.reader.latestOffset(start, ALL)))
    writer.append_many([b"3", b"4"])
    query.restart()  # nothing was committed: Spark asks for the initial offset again, which now is behind all
    assert query.run() == [b"1", b"2"]
    assert query.step() == [b"3", b"4"]


def test_a_stream_without_news_in_a_first_batch_at_latest_loses_nothing_in_a_restart(recordings):
    path, writing = recordings
    one, two = (writing.start_recording("aeron:ipc", n, **TERM) for n in (1, 2))
    for recorder in (one, two):
        recorder.append(b"before")
    query = Query(path, startingOffsets="latest")
    start = query.reader.initialOffset()
    one.append(b"one")
    query.logged.append(json.dumps(query.reader.latestOffset(start, ALL)))
    two.append(b"two")
    query.restart()
    assert query.run() == [b"one"]
    assert query.step() == [b"two"]


def test_a_query_begins_where_it_is_told_to(recordings):
    path, writing = recordings
    one = writing.start_recording("aeron:ipc", 1, **TERM)
    two = writing.start_recording("aeron:ipc", 2, **TERM)
    ends = [one.append(b"%d" % n) for n in range(5)]
    two.append(b"two")
    given = json.dumps({str(path): {"0": str(ends[2]), "1": "latest"}})
    assert Query(path, startingOffsets=given).step() == [b"3", b"4"]
    given = json.dumps({str(path): {"0": str(ends[2] - 1)}})  # inside a frame: from the next message on
    assert sorted(Query(path, startingOffsets=given).step()) == [b"3", b"4", b"two"]
    for wrong, name in (({"/nowhere": {}}, "/nowhere"), ({str(path): {"7": "0"}}, "stream 7")):
        with pytest.raises(UsageError, match=name):
            Query(path, startingOffsets=json.dumps(wrong)).start  # noqa: B018
    assert Query(path, start=str(ends[3]), stream="0").step() == [b"4"]
    query = Query(path, end=str(ends[1]), stream="0")
    assert query.step() == [b"0", b"1"]
    one.append(b"behind the end")
    assert query.step() == []


def test_streams_and_stores_that_come_later_are_read_from_their_beginning(recordings, tmp_path):
    _, writing = recordings
    query = Query(tmp_path, startingOffsets="latest")
    assert query.step() == []
    writing.start_recording("aeron:ipc", 1, **TERM).append(b"new stream")
    assert query.step() == [b"new stream"]
    with archive.create(tmp_path / "other", **SMALL) as other:
        other.start_recording("aeron:ipc", 1, **TERM).append(b"new store")
        assert query.step() == [b"new store"]
    jlog.create(tmp_path / "journal")
    with jlog.Writer(tmp_path / "journal") as writer:
        writer.append(b"of a family without columns in this query")
    assert query.step() == []


def test_only_streams_that_fit_the_pattern_are_followed(recordings):
    path, writing = recordings
    for stream_id in range(12):
        writing.start_recording("aeron:ipc", stream_id, **TERM).append(b"%d" % stream_id)
    assert sorted(Query(path, stream="1*").step()) == [b"1", b"10", b"11"]


def test_with_available_now_a_query_ends_at_what_was_there(journal, tmp_path):
    _, writer = journal
    writer.append_many([b"%d" % n for n in range(25)])
    query = Query(tmp_path, maxRecordsPerTrigger="10")
    query.reader.prepareForTriggerAvailableNow()
    writer.append_many([b"later"] * 25)
    jlog.create(tmp_path / "journal2")
    with jlog.Writer(tmp_path / "journal2") as other:
        other.append(b"later")
    assert [len(query.step()) for _ in range(4)] == [10, 10, 5, 0]
    assert b"later" not in [p for _, p in query.rows]
    query.restart()
    query.reader.prepareForTriggerAvailableNow()
    while query.step():
        pass
    assert len(query.rows) == 51


def test_decoded_columns_times_and_frames_work_as_in_batch_queries(recordings):
    path, writing = recordings
    recorder = writing.start_recording("aeron:ipc", 1, **TERM)
    for number in range(10):
        recorder.append(b"%d" % number + b"x" * 2999, reserved_value=number * 1000)
    times = {"timestampFrom": "reserved_value:us", "startTime": "1970-01-01T00:00:00.004Z"}
    assert [payload[:1] for payload in Query(path, **times).step()] == [b"%d" % n for n in range(4, 10)]
    assert [len(payload) for payload in Query(path, level="frame").step()] == [1376, 1376, 248] * 10


def test_the_option_end_may_lie_inside_a_record(recordings):
    path, writing = recordings
    recorder = writing.start_recording("aeron:ipc", 1, **TERM)
    ends = [recorder.append(b"%d" % n * 3000) for n in range(10)]
    for end, count in ((ends[3], 4), (ends[3] + 1, 5), (ends[4] - 32, 5), (ends[9] + 1000, 10)):
        assert len(Query(path, end=str(end)).step()) == count


def test_a_table_of_faults_is_for_batch_queries(journal):
    with pytest.raises(UsageError, match="option faults"):
        make_reader(journal[0], faults="true")


def test_a_media_drivers_log_buffers_are_not_followed(golden):
    with pytest.raises(UsageError, match="reuses its log buffers"):
        make_reader(golden("aeron/cluster-3node/aeron-dir-cnc-node0"), family="aeron-driver")


# Lost data


def lose(query: Query, pattern: str, *parts: str) -> None:
    """An error, and it names what is needed."""
    with pytest.raises(DataLost, match=pattern) as caught:
        query.step()
    for part in (*parts, "failOnDataLoss=false"):
        assert part in str(caught.value)


def of(query: Query, **options: str) -> Query:
    """The query goes on with other options."""
    query.options |= options
    query.restart()
    return query


def test_a_purged_recording_fails_the_query_or_goes_on_at_the_first_record_there_is(recordings, caplog):
    path, writing = recordings
    recorder = writing.start_recording("aeron:ipc", 1, **TERM)
    ends = [recorder.append(b"%05d" % n + b"x" * 1000) for n in range(200)]
    query = Query(path, maxRecordsPerTrigger="10")
    assert len(query.step()) == 10
    writing.purge_segments(0, 1 << 16)
    lose(query, "stream 0", str(path), f"from {ends[9]} on", "65536")
    of(query, failOnDataLoss="false")
    first = next(n for n in range(200) if ends[n] > 1 << 16)
    batch = query.step()
    assert [int(p[:5]) for p in batch] == list(range(first, first + 10))
    assert f"{path}: stream 0" in caplog.text
    assert "65536" in caplog.text
    while query.step():
        pass
    assert [int(p[:5]) for _, p in query.rows] == [*range(10), *range(first, 200)]
    assert caplog.text.count("data loss") == 1


def test_segments_that_are_purged_between_plan_and_restart_are_lost_data(recordings, caplog):
    path, writing = recordings
    recorder = writing.start_recording("aeron:ipc", 1, **TERM)
    ends = [recorder.append(b"%05d" % n + b"x" * 1000) for n in range(200)]
    query = Query(path, maxRecordsPerTrigger="100")
    assert query.plan()
    writing.purge_segments(0, 1 << 16)
    query.restart()
    with pytest.raises(DataLost, match="stream 0"):
        query.run()
    of(query, failOnDataLoss="false")
    first = next(n for n in range(200) if ends[n] > 1 << 16)
    assert [int(p[:5]) for p in query.run()] == list(range(first, 100))
    assert "data loss" in caplog.text


def test_segments_that_are_purged_between_plan_and_task_are_lost_data(recordings, caplog):
    path, writing = recordings
    recorder = writing.start_recording("aeron:ipc", 1, **TERM)
    ends = [recorder.append(b"%05d" % n + b"x" * 1000) for n in range(200)]

    def planned(**options: str):
        reader = make_reader(path, prefetchBytes="0", **options)
        start = reader.initialOffset()
        return pickle.loads(pickle.dumps((reader, reader.partitions(start, reader.latestOffset(start, ALL)))))

    failing = [planned(), planned(onFault="skip")]
    task, partitions = planned(failOnDataLoss="false")
    writing.purge_segments(0, 1 << 16)
    for other, parts in failing:
        with pytest.raises(DataLost, match="stream 0"):
            [list(other.read(part)) for part in parts]
    rows = [row for part in partitions for batch in task.read(part) for row in batch.to_pylist()]
    first = next(n for n in range(200) if ends[n] > 1 << 16)
    assert [int(row["payload"][:5]) for row in rows] == list(range(first, 200))
    assert "removed after the query was planned" in caplog.text


def test_a_truncated_recording_fails_the_query_or_goes_on_at_its_end(recordings, caplog):
    path, writing = recordings
    recorder = writing.start_recording("aeron:ipc", 1, **TERM)
    ends = [recorder.append(b"%d" % n) for n in range(10)]
    recorder.stop()
    query = Query(path)
    assert len(query.step()) == 10
    writing.truncate_recording(0, ends[5])
    lose(query, "stream 0", f"from {ends[9]} on", f"ends at {ends[5]}")
    of(query, failOnDataLoss="false")
    assert query.step() == []
    recorder = writing.extend_recording(0)
    recorder.append(b"new")
    assert query.step() == [b"new"]  # and none twice
    assert caplog.text.count("data loss") == 1


@pytest.mark.parametrize(
    ("is_seen_stopped", "is_stopped"), [(False, False), (False, True), (True, False), (True, True)]
)
@pytest.mark.parametrize(("count", "payload"), [(2, b"new"), (30, b"new"), (30, b"of another length")])
def test_a_recording_that_is_cut_and_written_on_between_two_looks_is_lost_data(
    recordings, caplog, count, payload, is_seen_stopped, is_stopped
):
    path, writing = recordings
    recorder = writing.start_recording("aeron:ipc", 1, **TERM)
    ends = [recorder.append(b"old") for _ in range(10)]
    query = Query(path)
    assert query.step() == [b"old"] * 10
    recorder.stop()
    if is_seen_stopped:
        assert query.step() == []
    writing.truncate_recording(0, ends[5])
    recorder = writing.extend_recording(0)
    last = [recorder.append(payload) for _ in range(count)][-1]
    if is_stopped:
        recorder.stop()
    found = f"ends at {last}" if count == 2 else "truncated and then extended beyond its old end"
    assert (last > ends[9]) == (count == 30)
    with pytest.raises(DataLost, match=found):
        query.plan()
    query.reader._positions.scan = replace(query.reader.scan, fail_on_data_loss=False)
    got = query.step()
    assert got == [payload] * len(got)
    if is_stopped:
        return
    recorder.append(b"more")
    assert query.step() == [b"more"]
    assert caplog.text.count("data loss") == 1


@pytest.mark.parametrize("payload", [b"new", b"of another length"])
def test_a_journals_segment_that_is_cut_and_written_on_between_two_looks_is_lost_data(journal, payload):
    path, writer = journal
    writer.append_many([b"old"] * 10)
    writer.close()
    query = Query(path)
    assert query.step() == [b"old"] * 10
    segment = path / "00000000"
    os.truncate(segment, segment.stat().st_size // 2)
    with jlog.Writer(path) as again:
        again.append_many([payload] * 30)
        with pytest.raises(DataLost, match="truncated and then extended beyond its old end"):
            query.plan()
        query.reader._positions.scan = replace(query.reader.scan, fail_on_data_loss=False)
        assert query.step() == [payload] * 25  # five old ones are left, and five new ones have the numbers of lost ones
        again.append(b"more")
        assert query.step() == [b"more"]


def test_a_recording_that_was_read_to_its_end_may_be_deleted(recordings):
    path, writing = recordings
    keep = writing.start_recording("aeron:ipc", 2, **TERM)
    keep.append(b"keep")
    recorder = writing.start_recording("aeron:ipc", 1, **TERM)
    recorder.append_many([b"%d" % n for n in range(10)])
    recorder.stop()
    query = Query(path)
    assert len(query.step()) == 11
    writing.purge_recording(1)
    keep.append(b"more")
    assert query.step() == [b"more"]
    assert '"1"' not in query.logged[-1]  # forgotten: the catalog may be compacted now


def test_a_recording_that_was_deleted_before_it_was_read_is_lost_data(recordings, caplog):
    path, writing = recordings
    recorder = writing.start_recording("aeron:ipc", 1, **TERM)
    recorder.append_many([b"%d" % n for n in range(10)])
    recorder.stop()
    query = Query(path, maxRecordsPerTrigger="4")
    assert len(query.step()) == 4
    writing.purge_recording(0)
    lose(query, "stream 0", "no such stream")
    of(query, failOnDataLoss="false")
    assert query.step() == []
    assert "no such stream" in caplog.text


def test_segments_of_a_journal_that_no_subscriber_kept_are_lost_data(tmp_path, caplog):
    path = tmp_path / "journal"
    jlog.create(path, segment_bytes=4096)
    with jlog.Writer(path) as writer:
        writer.append_many([b"%05d" % n + b"x" * 1000 for n in range(40)])
        query = Query(path, maxRecordsPerTrigger="2")
        assert len(query.step()) == 2
        for log in range(3):
            (path / f"{log:08x}").unlink()
        query.restart()
        lose(query, "stream journal", "from 00000000:00000003 on", "00000003:00000001")
        of(query, failOnDataLoss="false")
        assert [int(p[:5]) for p in query.step()] == [15, 16]  # five messages of 1021 bytes to a segment
        assert caplog.text.count("data loss") == 1


def test_a_channel_that_dropped_messages_or_was_made_anew_is_lost_data(tmp_path, caplog):
    path = nats_channel.make_store(tmp_path / "store")
    channel = nats_channel.Channel(path, "foo")
    for number in range(30):
        if number in (10, 20):
            channel.roll()
        channel.append(b"%d" % number)
    query = Query(path, maxRecordsPerTrigger="5")
    assert len(query.step()) == 5
    for kind in ("dat", "idx"):
        (path / "foo" / f"msgs.1.{kind}").unlink()
    query.restart()
    lose(query, "stream foo", "from 6 on", "first record is 11")
    of(query, failOnDataLoss="false")
    assert query.step() == [b"%d" % n for n in range(10, 15)]
    shutil.rmtree(path / "foo")
    channel = nats_channel.Channel(path, "foo")
    channel.append(b"new")
    assert query.step() == [b"new"]
    assert caplog.text.count("data loss") == 2


def test_a_store_that_is_gone_fails_the_query_or_is_waited_for(journal, tmp_path, caplog):
    path, _ = journal
    (tmp_path / "all").mkdir()
    jlog.create(tmp_path / "all" / "keep")
    shutil.copytree(path, tmp_path / "all" / "gone")
    with jlog.Writer(tmp_path / "all" / "gone") as other:
        other.append_many([b"1", b"2"])
        query = Query(tmp_path / "all")
        assert query.step() == [b"1", b"2"]
    shutil.move(tmp_path / "all" / "gone", tmp_path / "aside")
    lose(query, str(tmp_path / "all" / "gone"), "no store", "journal at 00000000:00000003")
    of(query, failOnDataLoss="false")
    assert query.step() == []
    assert "no store" in caplog.text
    shutil.move(tmp_path / "aside", tmp_path / "all" / "gone")
    with jlog.Writer(tmp_path / "all" / "gone") as other:
        other.append(b"3")
    assert query.step() == [b"3"]


def test_a_damaged_record_fails_the_query_or_is_passed_over(journal, caplog):
    path, writer = journal
    writer.append_many([b"%d" % n * 50 for n in range(5)])
    data = bytearray((path / "00000000").read_bytes())
    data[2 * 66 : 2 * 66 + 4] = b"\xff" * 4  # the third message's magic; 16 + 50 bytes each
    (path / "00000000").write_bytes(data)
    query = Query(path)
    assert query.plan()
    with pytest.raises(Exception, match="onFault=skip"):
        query.run()
    of(query, onFault="skip")
    assert query.run() == [b"%d" % n * 50 for n in (0, 1, 3, 4)]
    writer.append(b"new")
    assert query.step() == [b"new"]


# Progress


def test_progress_tells_how_far_a_query_is_behind(journal, recordings, tmp_path):
    path, writer = journal
    writer.append_many([b"%d" % n for n in range(10)])
    _, writing = recordings
    recorder = writing.start_recording("aeron:ipc", 1, **TERM)
    recorder.append_many([b"x" * 32] * 10)
    query = Query(tmp_path, maxRecordsPerTrigger="8")
    query.step()
    last = {
        "batchId": 0,
        "numInputRows": 8,
        "inputRowsPerSecond": 1.5,
        "processedRowsPerSecond": 2.5,
        "durationMs": {"triggerExecution": 7},
        "sources": [{"endOffset": json.loads(query.logged[-1])}],
    }
    found = progress_of(last)
    assert found[:5] == (0, 8, 1.5, 2.5, 7)
    assert found.is_behind
    by_stream = {one.stream: one for one in found.streams}
    assert by_stream["journal"][2:] == ("00000000:00000005", "00000000:0000000b", None, 6)
    assert by_stream["0"][2:] == (str(4 * 64), str(10 * 64), 6 * 64, None)
    # What Spark reports itself as the latest offset.
    latest = query.reader.reportLatestOffset()["stores"]
    assert latest == {str(path): {"journal": "00000000:0000000b"}, str(tmp_path / "archive"): {"0": "640"}}
    while query.step():
        pass
    last["sources"] = [{"endOffset": query.logged[-1]}]
    assert not progress_of(last).is_behind
    with pytest.raises(UsageError, match="no everlog source"):
        progress_of({**last, "sources": [{"endOffset": "7"}]})


def test_progress_counts_only_what_the_querys_options_let_it_read(recordings, tmp_path):
    _, writing = recordings
    for stream_id in (1, 2):
        writing.start_recording("aeron:ipc", stream_id, **TERM).append_many([b"x" * 32] * 10)
    query = Query(tmp_path, stream="0", end="320", maxRecordsPerTrigger="3")

    def found():
        ends = {"latestOffset": json.dumps(query.reader.reportLatestOffset())}
        return progress_of({"sources": [{"endOffset": query.logged[-1], **ends}]})

    query.step()
    assert [one[1:5] for one in found().streams] == [("0", "192", "320", 128)]
    while query.step():
        pass
    assert [one[1:5] for one in found().streams] == [("0", "320", "320", 0)]
    assert not found().is_behind
    # Gone on with other options: what was read before is no stream of the query any more.
    query.options = {"stream": "1"}
    query.restart()
    query.step()
    assert [one.stream for one in found().streams] == ["1"]
    assert not found().is_behind


def test_progress_tells_of_a_store_that_was_found_and_not_read_yet(journal, recordings, tmp_path):
    path, writer = journal
    writer.append(b"x")
    _, writing = recordings
    writing.start_recording("aeron:ipc", 1, **TERM).append(b"x" * 32)
    query = Query(tmp_path)
    query.step()
    end = json.loads(query.logged[-1])
    del end["stores"][str(path)]
    latest = query.reader.reportLatestOffset()
    found = progress_of({"sources": [{"endOffset": end, "latestOffset": latest}]})
    assert {(one.stream, one.at, one.records_behind) for one in found.streams if one.records_behind} == {
        ("journal", "00000000:00000001", 1)
    }
    assert found.is_behind
