"""Planning a query over very many segments or stores, and the memory of the workers that run one."""

from __future__ import annotations

import os
import pickle
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.generate import START_NS, aeron_archive, journal_of_segments, many_segments
from benchmarks.lines import Line, median_seconds
from benchmarks.memory import sparse_archive
from benchmarks.spark_scan import consume
from everlog.spark.session import local_session

SEGMENTS = 10_000
STORES = 2_000
MEMORY_MB = 400


def lines() -> Iterator[Line]:
    """Seconds from the path to pickled partitions; private memory of Spark's Python workers at its highest."""
    with tempfile.TemporaryDirectory(prefix="everlog-bench-") as folder:
        archive = many_segments(Path(folder) / "archive", SEGMENTS)
        yield _planning("archive", archive)
        journal = journal_of_segments(Path(folder) / "journal", SEGMENTS)
        yield _planning("journal", journal)
        yield _planning("journal-last-hour", journal, startTime=str(START_NS + (SEGMENTS - 3600) * 10**9))
        for number in range(STORES):
            journal_of_segments(Path(folder) / "many" / f"{number:05}", 1)
        yield Line(f"plan-{STORES}-stores", _seconds(Path(folder) / "many"), "s", "<=4")
    spark = local_session("everlog benchmark", memory="2g")
    try:
        with tempfile.TemporaryDirectory(prefix="everlog-bench-") as folder:
            small = str(aeron_archive(Path(folder) / "small", 32, 512 << 20))
            large = str(sparse_archive(Path(folder) / "large")[0])
            frames = [spark.read.format("everlog").load(path) for path in (small, large)]
            yield Line("spark-worker-memory", _peak_mb(lambda: [consume(f) for f in frames]), "MB", f"<={MEMORY_MB}")
    finally:
        spark.stop()


def _planning(name: str, store: Path, **options: str) -> Line:
    return Line(f"plan-{SEGMENTS}-segments-{name}", _seconds(store, **options), "s", "<=2")


def _seconds(store: Path, **options: str) -> float:
    from pyspark.sql.datasource import CaseInsensitiveDict

    from everlog.spark.source import EverlogDataSource

    def plan() -> None:
        source = EverlogDataSource(CaseInsensitiveDict({"path": str(store), **options}))
        reader = source.reader(source.schema())
        assert len(pickle.dumps([(reader, part) for part in reader.partitions()])) > 0

    return median_seconds(plan)


def _peak_mb(work: Callable[[], object]) -> float:
    """The highest private memory of any Python process below this one while ``work`` runs."""
    peak, done = 0.0, threading.Event()

    def watch() -> None:
        nonlocal peak
        while not done.is_set():
            peak = max([peak, *map(_private_mb, _workers())])
            time.sleep(0.02)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        work()
    finally:
        done.set()
        watcher.join()
    assert peak > 0, "no worker was seen"
    return peak


def _workers() -> list[int]:
    """Spark's Python processes below this one."""
    parents: dict[int, int] = {}
    for name in filter(str.isdecimal, os.listdir("/proc")):
        try:
            stat = Path(f"/proc/{name}/stat").read_text()
        except OSError:
            continue
        parents[int(name)] = int(stat.rpartition(")")[2].split()[1])
    below, found = {os.getpid()}, []
    grew = True
    while grew:
        more = {pid for pid, parent in parents.items() if parent in below} - below
        below |= more
        grew = bool(more)
    for pid in below - {os.getpid()}:
        try:
            if b"pyspark" in Path(f"/proc/{pid}/cmdline").read_bytes() and os.path.basename(
                os.readlink(f"/proc/{pid}/exe")
            ).startswith("python"):
                found.append(pid)
        except OSError:
            continue
    return found


def _private_mb(pid: int) -> float:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("RssAnon")), 0.0)
