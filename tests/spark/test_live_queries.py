"""Live queries in Spark: each family while it is written, limits, restarts."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from everlog import jlog
from everlog.aeron import archive
from everlog.spark.streaming import progress
from everlog.testing.made import channel as nats_channel

SMALL = {"segment_length": 1 << 16, "durability": "written"}
TERM = {"term_length": 1 << 16, "mtu_length": 1408, "initial_term_id": 7, "session_id": 5}


@pytest.fixture
def started(spark, tmp_path):
    """``started(path, option=...)`` starts a query into a table in memory; ``sink`` and others as keywords."""
    running = []

    def start(path: Path, *, trigger: dict | None = None, sink: str = "memory", **options: str):
        frame = spark.readStream.format("everlog").options(**options).load(str(path))
        name = f"live{time.monotonic_ns()}"
        writer = frame.writeStream.format(sink).queryName(name)
        if sink != "memory":
            writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).option(
                "path", str(tmp_path / "out")
            )
        writer = writer.trigger(**(trigger or {"processingTime": "0 seconds"}))
        running.append(writer.start())
        return running[-1]

    yield start
    for query in running:
        query.stop()


def writing(action: Callable[[int], None], count: int, pause_s: float = 0.005) -> threading.Thread:
    def work() -> None:
        for number in range(count):
            action(number)
            time.sleep(pause_s)

    thread = threading.Thread(target=work)
    thread.start()
    return thread


def rows(spark, query, *columns: str) -> list[tuple]:
    return [tuple(row) for row in spark.table(query.name).select(*columns).collect()]


@pytest.mark.long
def test_each_family_is_followed_while_it_is_written(spark, started, tmp_path):
    folder = tmp_path / "stores"
    folder.mkdir()
    jlog.create(folder / "journal", segment_bytes=4096)
    channels = [nats_channel.Channel(nats_channel.make_store(folder / "nats"), "foo")]
    with jlog.Writer(folder / "journal") as writer, archive.create(folder / "archive", **SMALL) as writing_archive:
        recorders = [writing_archive.start_recording("aeron:ipc", 1, **TERM)]
        query = started(folder, columns="family,stream,address,payload", discoveryInterval="100ms")

        def write(number: int) -> None:
            if number == 150:  # streams that were not there when the query began, and a store
                recorders.append(writing_archive.start_recording("aeron:ipc", 2, **TERM))
                channels.append(nats_channel.Channel(folder / "nats", "bar"))
                channels.append(nats_channel.Channel(nats_channel.make_store(folder / "nats2"), "new"))
            writer.append(b"%d" % number)
            for recorder in recorders:
                recorder.append(b"%d" % number + b"." * (number % 7 * 500))
            for channel in channels:
                channel.append(b"%d" % number)

        writing(write, 300).join()
        time.sleep(0.2)  # the new store is looked for
        query.processAllAvailable()
        found: dict[tuple[str, str], list[int]] = {}
        for family, stream, _, payload in rows(spark, query, "family", "stream", "address", "payload"):
            found.setdefault((family, stream), []).append(int(payload.split(b".")[0]))
        early, late = list(range(300)), list(range(150, 300))
        assert {key: sorted(numbers) for key, numbers in found.items()} == {
            ("jlog", "journal"): early,
            ("aeron-archive", "0"): early,
            ("aeron-archive", "1"): late,
            ("nats-streaming", "foo"): early,
            ("nats-streaming", "bar"): late,
            ("nats-streaming", "new"): late,
        }
        behind = progress(query)
        assert not behind.is_behind
        assert len(behind.streams) == 6
        assert sum(batches(query)) == 3 * 300 + 3 * 150


def batches(query) -> list[int]:
    return [found["numInputRows"] for found in map(_plain, query.recentProgress) if found["numInputRows"]]


def _plain(found) -> dict:
    return found if isinstance(found, dict) else json.loads(found.json)


@pytest.mark.long
def test_available_now_ends_at_what_is_there_and_a_restart_goes_on_behind_it(spark, started, tmp_path):
    with archive.create(tmp_path / "archive", **SMALL) as writing_archive:
        recorder = writing_archive.start_recording("aeron:ipc", 1, **TERM)
        recorder.append_many([b"%03d" % n + b"x" * 1000 for n in range(100)])
        given = {"trigger": {"availableNow": True}, "sink": "parquet", "columns": "payload"}
        query = started(tmp_path / "archive", maxRecordsPerTrigger="60", **given)
        assert query.awaitTermination(90)
        assert batches(query) == [60, 40]
        recorder.append_many([b"%03d" % n + b"x" * 1000 for n in range(100, 300)])
        # Goes on from the checkpoint; tasks read what was read where it was planned before.
        query = started(tmp_path / "archive", prefetchBytes="0", **given)
        assert query.awaitTermination(90)
        assert batches(query) == [200]
        recorder.append(b"lost")
        recorder.append_many([b"x" * 1000] * 200)
        writing_archive.purge_segments(0, writing_archive.recorded_position(0) // (1 << 16) * (1 << 16))
        query = started(tmp_path / "archive", **given)
        with pytest.raises(Exception, match=r"stream 0.*purged.*failOnDataLoss=false continues at"):
            query.awaitTermination(90)
    payloads = [row.payload for row in spark.read.parquet(str(tmp_path / "out")).collect()]
    assert sorted(int(payload[:3]) for payload in payloads) == list(range(300))
