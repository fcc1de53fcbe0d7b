"""A query that writes is killed at random moments and started again from its checkpoint: each record is there once.

``EVERLOG_SPARK_KILLS=20`` kills it so often (``make soak-spark-writing``).
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from everlog import open_store
from everlog.errors import EverlogError

KILLS = int(os.environ.get("EVERLOG_SPARK_KILLS", "2"))
SCRIPT = Path(__file__).parent / "killed_writer.py"
LINES = 8000
SECONDS = 240.0


def start(folder: Path) -> subprocess.Popen[str]:
    with open(folder / "log", "a") as log:
        command = [sys.executable, str(SCRIPT), str(folder)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True)


def committed(folder: Path) -> int:
    """Batches that both queries have behind them."""
    names = [folder / f"checkpoint-{name}" / "commits" for name in ("journal", "archive")]
    return sum(len([p for p in path.iterdir() if p.name.isdecimal()]) for path in names if path.exists())


def is_appending(folder: Path) -> bool:
    """Whether a note says that a batch is begun."""
    for name in ("journal", "archive"):
        for note in folder.glob(f"{name}.everlog-staging/*.note"):
            with contextlib.suppress(OSError):
                if '"plan"' in note.read_text():
                    return True
    return False


def kill_when(process: subprocess.Popen[str], folder: Path, batches: int, rng: random.Random, *, inside: bool) -> None:
    """Kill it, with its JVM and workers, after so many more batches: some moment later, or ``inside`` an append."""
    deadline = time.monotonic() + SECONDS
    goal = committed(folder) + batches
    while committed(folder) < goal and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    if inside:
        while not is_appending(folder) and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.0005)
    else:
        time.sleep(rng.random() * 0.6)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def records(folder: Path, name: str, stream: str) -> list[bytes]:
    try:
        with open_store(folder / name) as store:
            return [record.payload for record in store.read(stream, on_fault=lambda fault: None)]
    except EverlogError:
        return []


@pytest.mark.long
@pytest.mark.timeout(SECONDS * (KILLS + 2))
def test_a_killed_query_that_is_started_again_leaves_each_record_once(tmp_path: Path) -> None:
    seed = random.randrange(1 << 30)
    rng = random.Random(seed)
    (tmp_path / "in").mkdir()
    # As many as the kills leave batches for: each file is a batch.
    files = 2 + 2 * KILLS
    for number in range(files):
        lines = [f"{number}.{line} {'abcdefgh'[line % 8] * (line % 90)}" for line in range(LINES)]
        (tmp_path / "in" / f"{number}.txt").write_text("\n".join(lines))
    killed = half_done = 0
    while killed < KILLS:
        process = start(tmp_path)
        kill_when(process, tmp_path, rng.randrange(1, 3), rng, inside=killed % 2 == 0)
        killed += 1
        half_done += is_appending(tmp_path)
    process = start(tmp_path)
    try:
        output, _ = process.communicate(timeout=SECONDS)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    log = (tmp_path / "log").read_text()
    assert "done" in output, log[-4000:]
    for name, stream in (("journal", "journal"), ("archive", "0")):
        counts = Counter(payload.split(b" ")[0] for payload in records(tmp_path, name, stream))
        expected = {b"%d.%d" % (number, line) for number in range(files) for line in range(LINES)}
        assert set(counts) == expected, f"seed {seed}, {name}: {len(expected - set(counts))} are lost"
        assert max(counts.values()) == 1, f"seed {seed}, {name}: {sum(counts.values()) - len(counts)} are there again"
        with open_store(tmp_path / name) as store:
            assert [str(f) for f in store.verify().faults if f.severity.value == "fault"] == []
    print(f"{killed} kills, seed {seed}; after {half_done} of them a batch was half done")
