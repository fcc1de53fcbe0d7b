"""Soak test that kills the driver of a live Spark query: ``python -m everlog.testing.soak.spark_live --kills 20``.

This process continuously writes a journal, two recordings and two channels. A second process group runs Spark with a
query over these stores. The query writes each batch to its own folder, which a repeated batch overwrites (``foreach``),
or to Spark's Parquet sink (``parquet``). The parent kills the driver with SIGKILL, restarts it from its checkpoint, and
repeats that. The last driver runs until it has read everything. Then each message must be in the output once, whole.
The same seed gives the same pauses; the system's scheduling decides what the driver is doing when it is killed.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import zlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from everlog import jlog
from everlog.aeron import archive
from everlog.testing.made.channel import Channel, make_store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SINKS = ("foreach", "parquet")
RECORDS_A_BATCH = 400
SECONDS_TO_START = 240.0
MAX_SECONDS_BEFORE_A_KILL = 2.0
SECONDS_FOR_A_BATCH = 60.0
KILLS_BEFORE_A_BATCH = 0.25
"""The fraction of kills that come right after the start; the others come once a batch is done."""
SECONDS_TO_FINISH = 600.0
MESSAGES_A_SECOND = 100
"""For each of the five streams."""


def message(number: int) -> bytes:
    """Return a message: a checksum, its number, and bytes whose value and length depend on the number."""
    body = b"%d " % number + bytes(number % 251 for _ in range(number * 7919 % 1900))
    return b"%08x " % zlib.crc32(body) + body


def number_of(payload: bytes) -> int:
    """Return a message's number. Raises :class:`ValueError` if the message is damaged."""
    checksum, body = payload[:8], payload[9:]
    if int(checksum, 16) != zlib.crc32(body):
        raise ValueError(f"a damaged message: {payload[:40]!r}")
    return int(body.split(b" ", 1)[0])


@dataclass(slots=True)
class Stores:
    """The stores that a thread writes. ``counts`` is the number of messages so far, by stream."""

    folder: Path
    counts: Counter[str] = field(default_factory=Counter)
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None
    _failure: BaseException | None = None

    def start(self) -> None:
        """Create the stores and start writing."""
        self.folder.mkdir(parents=True)
        jlog.create(self.folder / "journal", segment_bytes=1 << 16)
        ready = threading.Event()
        self._thread = threading.Thread(target=self._write, args=(ready,))
        self._thread.start()
        ready.wait()

    def _write(self, ready: threading.Event) -> None:
        try:
            nats = make_store(self.folder / "nats")
            channels = [Channel(nats, name) for name in ("orders", "events")]
            with (
                jlog.Writer(self.folder / "journal") as writer,
                archive.create(self.folder / "archive", segment_length=1 << 18, durability="written") as recordings,
            ):
                recorders = [
                    recordings.start_recording("aeron:ipc", n, term_length=1 << 16, mtu_length=1408) for n in (1, 2)
                ]
                targets: dict[str, Callable[[bytes], Any]] = {"journal": writer.append}
                targets |= {str(n): recorder.append for n, recorder in enumerate(recorders)}
                targets |= {channel.name: channel.append for channel in channels}
                ready.set()
                while not self._stop.wait(1 / MESSAGES_A_SECOND):
                    for name, append in targets.items():
                        append(message(self.counts[name]))
                        self.counts[name] += 1
                    if self.counts["orders"] % 1000 == 0:
                        channels[0].roll()
        except BaseException as error:
            self._failure = error
        finally:
            ready.set()

    def finish(self) -> None:
        """Stop writing. Raises what failed in the writing thread."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        if self._failure is not None:
            raise self._failure


# The driver, which runs in its own process


def drive(folder: Path, sink: str, *, is_last: bool) -> None:
    """Run the query until killed; with ``is_last`` until it has read everything."""
    from everlog.spark.session import local_session

    spark = local_session("everlog soak", cores=2)
    frame = spark.readStream.format("everlog").option("columns", "stream,address,payload")
    records = RECORDS_A_BATCH * (50 if is_last else 1)
    frame = frame.option("maxRecordsPerTrigger", str(records)).load(str(folder / "stores"))
    writer = frame.writeStream.option("checkpointLocation", str(folder / "checkpoint"))
    if sink == "parquet":
        writer = writer.format("parquet").option("path", str(folder / "out"))
    else:
        writer = writer.foreachBatch(_overwrite(folder))
    query = writer.trigger(**({"availableNow": True} if is_last else {"processingTime": "0 seconds"})).start()
    print("started", flush=True)
    query.awaitTermination()


def _overwrite(folder: Path) -> Callable[[DataFrame, int], None]:
    def write(batch: DataFrame, number: int) -> None:
        batch.write.mode("overwrite").parquet(str(folder / "out" / f"batch={number}"))

    return write


@contextlib.contextmanager
def driver(folder: Path, sink: str, *, is_last: bool = False) -> Any:
    """Start a driver and yield its process once the query runs. At the end, kill it and all processes it started."""
    command = [sys.executable, "-m", __spec__.name, "--drive", str(folder), "--sink", sink]
    environment = os.environ | {"TMPDIR": str(folder / "tmp")}
    with (folder / "driver.log").open("ab") as log:
        process = subprocess.Popen(
            command + (["--last"] if is_last else []),
            stdout=subprocess.PIPE,
            stderr=log,
            env=environment,
            start_new_session=True,
        )
    try:
        assert process.stdout is not None
        if process.stdout.readline() != b"started\n":
            raise RuntimeError(f"the driver did not start:\n{_tail(folder)}")
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def _tail(folder: Path) -> str:
    return (folder / "driver.log").read_text(errors="replace")[-3000:]


# The parent


def soak(folder: Path, kills: int, sink: str, seed: int, report: Callable[[str], None] = print) -> Counter[str]:
    """Kill the driver ``kills`` times, then check the output; return the number of messages by stream. Raises
    :class:`AssertionError`, which names the seed, unless each message is in the output once."""
    rng = random.Random(seed)
    (folder / "tmp").mkdir(parents=True)
    stores = Stores(folder / "stores")
    stores.start()
    try:
        for kill in range(kills):
            before = _batches(folder)
            begin = time.monotonic()
            with driver(folder, sink) as process:
                if rng.random() >= KILLS_BEFORE_A_BATCH:
                    _await_batch(folder, before)
                time.sleep(rng.uniform(0, MAX_SECONDS_BEFORE_A_KILL))
                if process.poll() is not None:
                    raise RuntimeError(f"seed {seed}: the driver ended by itself:\n{_tail(folder)}")
            ran_s = time.monotonic() - begin
            report(f"killed {kill + 1} of {kills} after {ran_s:.1f} s and {_batches(folder) - before} batches")
    finally:
        stores.finish()
    with driver(folder, sink, is_last=True) as process:
        if process.wait(SECONDS_TO_FINISH):
            raise RuntimeError(f"seed {seed}: the last driver failed:\n{_tail(folder)}")
    check(folder, stores.counts, sink, seed)
    report(f"{sum(stores.counts.values())} messages, each once, in {_batches(folder)} batches")
    return stores.counts


def _batches(folder: Path) -> int:
    """Count the committed batches by the highest number, since Spark deletes the files of earlier commits."""
    commits = folder / "checkpoint" / "commits"
    names = os.listdir(commits) if commits.exists() else []
    return max((int(name) + 1 for name in names if name.isdecimal()), default=0)


def _await_batch(folder: Path, before: int) -> None:
    until = time.monotonic() + SECONDS_FOR_A_BATCH
    while _batches(folder) == before and time.monotonic() < until:
        time.sleep(0.02)


def check(folder: Path, counts: Counter[str], sink: str, seed: int) -> None:
    """Raise :class:`AssertionError` unless each message is in the output once."""
    found: dict[str, Counter[int]] = {name: Counter() for name in counts}
    for stream, payload in _output(folder, sink):
        found[stream][number_of(payload)] += 1
    for name, count in counts.items():
        doubles = {number: n for number, n in found[name].items() if n > 1}
        missing = [number for number in range(count) if number not in found[name]]
        beyond = [number for number in found[name] if number >= count]
        if doubles or missing or beyond:
            raise AssertionError(
                f"seed {seed}, stream {name} of {count}: {len(doubles)} twice, {len(missing)} missing "
                f"(from {missing[:3]}), {len(beyond)} never written"
            )


def _output(folder: Path, sink: str) -> list[tuple[str, bytes]]:
    """Return stream and payload of each row. Only Spark can read the sink's log, which lists the valid files."""
    import pyarrow.parquet as pq

    if sink == "parquet":
        from everlog.spark.session import local_session

        rows = local_session("everlog soak").read.parquet(str(folder / "out")).select("stream", "payload").collect()
        return [(row.stream, bytes(row.payload)) for row in rows]
    rows = []
    for path in sorted((folder / "out").glob("batch=*/*.parquet")):
        table = pq.ParquetFile(path).read(columns=["stream", "payload"])
        rows += list(zip(table["stream"].to_pylist(), table["payload"].to_pylist(), strict=True))
    return rows


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; return 1 if a message was lost or came twice."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, help="where to work; default: a temporary folder")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--sink", choices=SINKS, default="foreach")
    parser.add_argument("--drive", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--last", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.drive is not None:
        drive(given.drive, given.sink, is_last=given.last)
        return 0
    seed = random.SystemRandom().randrange(1 << 32) if given.seed is None else given.seed
    with contextlib.ExitStack() as stack:
        base = given.folder or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="everlog-soak-")))
        print(f"seed {seed}, in {base}", flush=True)
        try:
            soak(Path(base) / f"live-{seed}", given.kills, given.sink, seed, lambda text: print(text, flush=True))
        except AssertionError as error:
            print(f"FAILED: {error}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
