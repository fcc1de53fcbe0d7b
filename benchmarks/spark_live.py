"""Live queries: rows a second against a batch query over the same store, and the time that a small micro-batch takes
against Spark's own rate source, all in one session.

The rate source is ``rate-micro-batch``: ``rate`` itself has new rows only once a second. The time of a micro-batch is
counted without the two notes that Spark writes to the checkpoint for each (``walCommit``, ``commitOffsets``): they cost
the same for every source, and much more than their difference.
"""

from __future__ import annotations

import json
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.generate import aeron_archive
from benchmarks.lines import RUNS, Line, Spread, median_seconds, paired_rates, seconds
from everlog import jlog
from everlog.aeron import archive
from everlog.aeron.archive.following import ArchiveFollower
from everlog.core.files.storage import LocalStorage
from everlog.core.following import Follower
from everlog.nats_streaming.following import ChannelFollower
from everlog.spark.session import local_session
from everlog.testing.made.channel import Channel, make_store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

STORES = ((32, 1 << 30), (1024, 1 << 30))
BATCH_BYTES = "512m"
WARM_BATCHES, BATCHES = 10, 25
"""Of each query, in each run: those that do not count, and those that do."""
MAX_SECONDS = 60.0
STREAMS = 2000
NOTES = ("walCommit", "commitOffsets", "triggerExecution")


def lines() -> Iterator[Line | str]:
    """Sustained rates, added latency, and what a look at very many streams costs."""
    yield from _looks()
    # What Spark writes about tasks that a stopped query leaves behind is of no interest.
    spark = local_session("everlog benchmark", memory="2g", log_file=Path(os.devnull))
    try:
        yield from _latency(spark)
        for payload_bytes, total_bytes in STORES:
            yield _sustained(spark, payload_bytes, total_bytes)
    finally:
        spark.stop()


def _sustained(spark: SparkSession, payload_bytes: int, total_bytes: int) -> Line:
    """A query that catches up, in batches of ``BATCH_BYTES``, beside a batch query."""
    with tempfile.TemporaryDirectory(prefix="everlog-bench-") as temporary:
        store = str(aeron_archive(Path(temporary) / "archive", payload_bytes, total_bytes))
        rows: int = spark.read.format("everlog").option("columns", "position").load(store).count()

        def batch() -> float:
            frame = spark.read.format("everlog").load(store)
            return rows / seconds(lambda: frame.write.format("noop").mode("overwrite").save())

        def live() -> float:
            frame = spark.readStream.format("everlog").option("maxBytesPerTrigger", BATCH_BYTES).load(store)
            found = _run(frame, temporary, lambda query: query.awaitTermination(), {"availableNow": True})
            assert sum(one["numInputRows"] for one in found) == rows
            took_ms: float = sum(one["durationMs"]["triggerExecution"] for one in found)
            return rows * 1000 / took_ms

        rate, ratio = paired_rates(live, batch)
    size = "32B" if payload_bytes == 32 else "1KiB"
    return Line(f"spark-live-{size}-sustained", rate / 1e6, "Mrows/s", ">=0.7", ratio)


def _run(frame: DataFrame, folder: str, wait: Callable[[Any], object], trigger: dict[str, Any]) -> list[dict[str, Any]]:
    """The progress of each batch that had rows."""
    place = tempfile.mkdtemp(prefix="checkpoint-", dir=folder)
    query = frame.writeStream.format("noop").option("checkpointLocation", place).trigger(**trigger).start()
    try:
        wait(query)
        found = [one if isinstance(one, dict) else json.loads(one.json) for one in query.recentProgress]
    finally:
        query.stop()
    return [one for one in found if one["numInputRows"]]


def _await_batches(query: Any) -> None:
    until = time.monotonic() + MAX_SECONDS
    while len(query.recentProgress) < WARM_BATCHES + BATCHES and time.monotonic() < until:
        time.sleep(0.1)


def _latency(spark: SparkSession) -> Iterator[Line | str]:
    with tempfile.TemporaryDirectory(prefix="everlog-bench-") as temporary:
        folder = Path(temporary)
        with _growing(folder):
            sources = {
                name: spark.readStream.format("everlog").option("startingOffsets", "latest").load(str(folder / name))
                for name in ("journal", "archive")
            }
            rate = spark.readStream.format("rate-micro-batch").options(rowsPerBatch=10, numPartitions=1).load()
            sources = {"rate": rate, **sources}
            times: dict[str, list[float]] = {name: [] for name in sources}
            for turn in range(RUNS):
                for name in list(sources)[:: -1 if turn % 2 else 1]:
                    found = _run(sources[name], temporary, _await_batches, {"processingTime": "0 seconds"})
                    durations = [one["durationMs"] for one in found[WARM_BATCHES:]]
                    each = [sum(ms for step, ms in one.items() if step not in NOTES) for one in durations]
                    times[name].append(statistics.median(each))
    counts = ", ".join(f"{name} {Spread(found):.0f} ms" for name, found in times.items())
    yield f"a micro-batch: {counts}, medians of {RUNS} queries each, which took turns"
    for name in ("journal", "archive"):
        added = Spread(ours - rate for ours, rate in zip(times[name], times["rate"], strict=True))
        yield Line(f"spark-live-{name}-added-latency", added, "ms", "<=20")


@contextmanager
def _growing(folder: Path) -> Iterator[None]:
    """A journal and an archive to which a thread appends all the time."""
    jlog.create(folder / "journal")
    stop = threading.Event()
    with jlog.Writer(folder / "journal") as writer, archive.create(folder / "archive") as recordings:
        recorder = recordings.start_recording("aeron:ipc", 1, term_length=1 << 20)

        def write() -> None:
            while not stop.wait(0.002):
                writer.append(b"x" * 100)
                recorder.append(b"x" * 100)

        thread = threading.Thread(target=write)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()


def _looks() -> Iterator[Line]:
    """What one look at very many streams costs, all of them open for writing and with nothing new."""
    with tempfile.TemporaryDirectory(prefix="everlog-bench-") as temporary:
        nats = make_store(Path(temporary) / "nats")
        for number in range(STREAMS):
            Channel(nats, f"channel.{number}").append(b"x")
        yield _look("channels", ChannelFollower(LocalStorage(str(nats)), {}))
        path = Path(temporary) / "archive"
        with archive.create(path, segment_length=1 << 16, catalog_capacity=4 << 20) as recordings:
            for number in range(STREAMS):
                recordings.start_recording("aeron:ipc", number, term_length=1 << 16).append(b"x")
            yield _look("recordings", ArchiveFollower(LocalStorage(str(path)), {}))


def _look(what: str, follower: Follower) -> Line:
    assert len(follower.look()) == STREAMS
    value = median_seconds(follower.look) * 1000
    follower.close()
    return Line(f"live-look-{STREAMS}-{what}", value, "ms", "<=200")
