"""``everlog spark export``, its driver killed with SIGKILL at random moments and run again: no loss, no double.

Two kills by default; with ``EVERLOG_EXPORT_KILLS=20`` (``make soak-spark-export``) as many, and as many of an export to
a Delta table. ``EVERLOG_EXPORT_SEED`` repeats a run's moments.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from everlog import jlog
from everlog.aeron import archive
from everlog.pipelines.export.folder import placed, read_manifest

KILLS = int(os.environ.get("EVERLOG_EXPORT_KILLS", "2"))
SEED = int(os.environ.get("EVERLOG_EXPORT_SEED", str(time.time_ns() % 10**6)))
MESSAGES = 12_000
LONGEST_S = 5.0
"""Of a run, from the moment at which it has the folder to its kill."""
MAIN = "import sys; from everlog.cli.app import run; sys.exit(run())"


class Stores:
    """A journal and a recording of several segments, the journal written on while it is exported. Every message is its
    number, of both stores together."""

    def __init__(self, folder: Path) -> None:
        self.journal, self.archive = folder / "journal", folder / "archive"
        jlog.create(self.journal, segment_bytes=500_000)
        with (
            archive.create(self.archive, segment_length=65536) as store,
            store.start_recording("aeron:ipc", 1, term_length=65536) as recorder,
        ):
            for number in range(MESSAGES // 4):
                recorder.append(b"%d" % number + b"x" * 200)
        self.count = MESSAGES // 4
        self.write(MESSAGES)
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._write_on)

    def write(self, end: int) -> None:
        with jlog.Writer(self.journal) as writer:
            while self.count < end:
                writer.append(b"%d" % self.count + b"x" * 300)
                self.count += 1

    def _write_on(self) -> None:
        while not self._done.wait(0.01):
            self.write(self.count + 3)

    def __enter__(self) -> Stores:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()


def start(stores: Stores, out: Path, kind: str) -> subprocess.Popen:
    arguments = ["spark", "export", str(stores.journal), str(stores.archive), str(out), "--format", kind]
    arguments += ["--master", "local[2]", "--conf", "spark.driver.memory=512m"]
    arguments += ["--option", "splitBytes=64k", "--commit-bytes", "400k"]
    return subprocess.Popen([sys.executable, "-c", MAIN, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def kill_in(process: subprocess.Popen, out: Path, before: set[str], wait_s: float) -> bool:
    """Wait until the run has begun, then a while; whether it was killed, and had not ended before."""
    deadline = time.monotonic() + 120
    while process.poll() is None and staged(out) <= before:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    end = time.monotonic() + wait_s
    while process.poll() is None and time.monotonic() < end:
        time.sleep(0.01)
    killed = process.poll() is None
    process.kill()
    process.wait()
    return killed


def staged(out: Path) -> set[str]:
    return {file.name for file in (out / "_everlog").glob("staging-*")}


def numbers(files: list[Path]) -> Counter[int]:
    import pyarrow.parquet as pq

    found: Counter[int] = Counter()
    for file in files:
        payloads = pq.ParquetFile(file).read(["payload"]).column(0).to_pylist()
        found.update(int(payload.rstrip(b"x")) for payload in payloads)
    return found


def visible(out: Path, kind: str) -> Counter[int]:
    """What a reader sees that knows nothing of the manifest: of the folder, or of the Delta table."""
    if kind != "delta":
        return numbers(list(out.glob("store=*/*/*/*.parquet")))
    from deltalake import DeltaTable

    if not DeltaTable.is_deltatable(str(out)):
        return Counter()
    payloads = DeltaTable(str(out)).to_pyarrow_table(columns=["payload"]).column(0).to_pylist()
    return Counter(int(payload.rstrip(b"x")) for payload in payloads)


def told(out: Path) -> Counter[int]:
    manifest = read_manifest(str(out))
    if manifest is None:
        return Counter()
    files = [file.path for stream in manifest.streams.values() for file in stream.files]
    return numbers([Path(placed(str(out), manifest, path)) for path in files])


@pytest.mark.long
@pytest.mark.timeout(300 + 60 * KILLS)
@pytest.mark.parametrize("kind", ["parquet", *(["delta"] if "EVERLOG_EXPORT_KILLS" in os.environ else [])])
def test_a_killed_exporter_that_is_run_again_has_each_record_once(tmp_path: Path, kind: str) -> None:
    chance = random.Random(f"{SEED}{kind}")
    out, kills, runs, had = tmp_path / "out", 0, 0, Counter()
    with Stores(tmp_path) as stores:
        while kills < KILLS:
            runs += 1
            assert runs < 3 * KILLS + 5, f"seed {SEED}: runs end before they are killed"
            wait_s = chance.random() ** 2 * LONGEST_S
            if kill_in(start(stores, out, kind), out, staged(out), wait_s):
                kills += 1
            seen, known = visible(out, kind), told(out)
            assert max(seen.values(), default=1) == 1, f"seed {SEED}: a record twice"
            assert max(known.values(), default=1) == 1, f"seed {SEED}: a record twice in the manifest"
            assert not had - seen - known, f"seed {SEED}: a record is gone that was there"
            had = seen if kind == "delta" else known
    process = start(stores, out, kind)
    _, said = process.communicate(timeout=280)
    assert process.returncode == 0, said.decode()
    assert visible(out, kind) == told(out) == Counter(range(stores.count)), f"seed {SEED}"
    assert staged(out) == set()
