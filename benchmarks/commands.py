"""The command line, start to end: interpreter start, imports, work and output."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.generate import aeron_archive, driver_folder, nats_slice, nats_store
from benchmarks.lines import Line, median_rate, median_seconds, seconds

ROWS = 1_000_000


def run(*arguments: str) -> None:
    """One call of the command, its output read and thrown away."""
    # PYTHONPATH would let the caller's folder answer for the installed package; without bytecode on disk, which every
    # install has, each start would compile the package.
    dropped = ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE")
    env = {key: value for key, value in os.environ.items() if key not in dropped}
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL, env=env)


def import_seconds() -> float:
    """How much longer an interpreter takes with ``import everlog`` than without, one behind the other."""
    return seconds(lambda: run("-c", "import everlog")) - seconds(lambda: run("-c", "pass"))


def lines() -> Iterator[Line]:
    """``read --json`` of a million records, ``ls`` of a small store, ``driver stat`` of 1,000 counters, ``import
    everlog``."""
    with tempfile.TemporaryDirectory(prefix="everlog-bench-") as folder:
        archive = aeron_archive(Path(folder) / "archive", 32, (64 << 20))
        limit = ("--limit", str(ROWS))
        took = median_seconds(lambda: run("-m", "everlog", "read", str(archive), "--json", "--no-payload", *limit))
        yield Line("read-json-1M", took, "s", "<=6")
        small = nats_store(Path(folder) / "small", {"a": nats_slice(b"a", iter([b"x"] * 10))})
        yield Line("ls-small-store", median_seconds(lambda: run("-m", "everlog", "ls", str(small))), "s", "<=0.25")
        driver = driver_folder(Path(folder) / "driver", 1000)
        took = median_seconds(lambda: run("-m", "everlog", "driver", str(driver), "stat"))
        yield Line("driver-stat-1000-counters", took, "s", "<=0.15")
        yield Line("import-everlog", median_rate(import_seconds) * 1000, "ms", "<=60")
