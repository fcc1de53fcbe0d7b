"""The real Aeron Archive in Java, timed by a program of ours (``ArchiveBench.java``): recording and replay through IPC.

One process holds the media driver, the archive and its client; terms are 64 MiB, segments 128 MiB, the file sync level
is 0. A recording's time is that from the first offer until the recording position is the publication's; a replay's
from its request until the subscriber has polled the last message, from pages that are still in memory. Bytes are
positions: headers, alignment and padding are in them. Driver and archive have one thread each (``SHARED``), which was
the fastest on 2 cores. The flags are those that Aeron's own throughput samples use.

Java and the jar come from ``tools/aeron_java.py``. ``python -m benchmarks.archive_peer FOLDER`` prints its figures.
"""

from __future__ import annotations

import contextlib
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tools import aeron_java

from benchmarks.lines import RUNS, machine, where

PROGRAM = Path(__file__).with_name("ArchiveBench.java")
FLAGS = ("-Xmx1g", "-XX:+UseParallelGC", "-Dagrona.disable.bounds.checks=true", "-Daeron.ipc.mtu.length=8k")
TERM_BYTES = 64 << 20
SEGMENT_BYTES = 128 << 20
MESSAGES = {1024: 1 << 20, 32: 10_000_000}
"""By payload bytes: about 1.1 GB and 0.64 GB recorded."""
UDP_MESSAGES = 200_000
WARM_UP_RUNS = 2
SECONDS_TO_END = 60.0


@dataclass(frozen=True, slots=True)
class Run:
    """One timed recording or replay."""

    position_bytes: int
    messages: int
    seconds: float

    @property
    def bytes_per_second(self) -> float:
        """Of positions."""
        return self.position_bytes / self.seconds

    @property
    def messages_per_second(self) -> float:
        """As published."""
        return self.messages / self.seconds


class ArchivePeer:
    """The process, with its archive below ``folder``, which is removed at the end. Use as a context manager.
    ``threads`` are the driver's and the archive's threading modes. ``served_by``: the process is only the client of an
    archive that serves by the driver in this folder. Raises :class:`SystemExit` when it can't be had or
    fails."""

    def __init__(
        self,
        folder: Path,
        threads: tuple[str, str] = ("SHARED", "SHARED"),
        *,
        segment_bytes: int = SEGMENT_BYTES,
        served_by: Path | None = None,
    ) -> None:
        memory = Path("/dev/shm")
        self._folder = Path(tempfile.mkdtemp(prefix="java-archive-", dir=folder))
        self._driver_folder = Path(tempfile.mkdtemp(prefix="everlog-aeron-", dir=memory if memory.is_dir() else None))
        self._warm: set[tuple[str, int]] = set()
        try:
            jar = aeron_java.jar(download=True)
            folders = (self._folder / "archive", served_by or self._driver_folder / "driver")
            modes = threads if served_by is None else ("EXTERNAL", "EXTERNAL")
            command = aeron_java.command(
                jar, "ArchiveBench", *folders, *modes, TERM_BYTES, segment_bytes, source=PROGRAM, flags=FLAGS
            )
        except aeron_java.Missing as missing:
            self._remove()
            raise SystemExit(f"the peer, Aeron's archive in Java, can't be had: {missing}") from missing
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._answer("ready")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def record(self, payload_bytes: int, messages: int | None = None) -> Run:
        """Records that many messages, by default those of :data:`MESSAGES`, and deletes them. The first run of a size
        follows on some that do not count."""
        return self._run("record", payload_bytes, messages)

    def record_udp(self, payload_bytes: int, messages: int | None = None) -> Run:
        """As :meth:`record`, over UDP through the loopback interface, with an MTU of 8 KiB."""
        return self._run("udp", payload_bytes, UDP_MESSAGES if messages is None else messages)

    def replay(self, payload_bytes: int, messages: int | None = None) -> Run:
        """The same, replayed: from a recording that is made outside the time."""
        return self._run("replay", payload_bytes, messages)

    def latency(self, verb: str, count: int) -> float:
        """Median seconds: ``start`` a recording, ``first`` message of a replay, ``list`` of 1,000 recordings."""
        return self._ask(verb, count).seconds

    def list_one(self, count: int, recordings: int) -> float:
        """Median seconds of a list of one recording, among the later half of ``recordings``."""
        return self._ask("one", count, recordings).seconds

    def open(self, count: int) -> None:
        """Begins to record ``count`` streams."""
        self._ask("open", count)

    def pace(self, rate: int, seconds: int) -> None:
        """Publishes ``rate`` messages of 1 KiB a second to the streams of :meth:`open` in turn."""
        self._ask("pace", rate, seconds)

    def connect(self, count: int) -> None:
        """Opens control sessions until there are ``count`` beside its own."""
        self._ask("connect", count)

    def close(self) -> None:
        """Ends the process and removes its folders. Idempotent."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()  # the end of its input
        try:
            self._process.wait(SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._remove()

    def _run(self, verb: str, payload_bytes: int, messages: int | None) -> Run:
        count = MESSAGES[payload_bytes] if messages is None else messages
        runs = 1 if (verb, payload_bytes) in self._warm else 1 + WARM_UP_RUNS
        self._warm.add((verb, payload_bytes))
        for _ in range(runs):
            run = self._ask(verb, payload_bytes, count)
        if run.messages != count:
            raise SystemExit(f"Aeron's archive: {run.messages} messages of {count}")
        return run

    def _ask(self, *words: object) -> Run:
        assert self._process.stdin is not None
        self._process.stdin.write(" ".join(map(str, words)) + "\n")
        self._process.stdin.flush()
        position_bytes, found, took = self._answer("ok").split()
        return Run(int(position_bytes), int(found), float(took))

    def _answer(self, expected: str) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        kind, _, rest = line.strip().partition(" ")
        if kind != expected:
            self.close()
            raise SystemExit(f"Aeron's archive in Java: {line.strip() or 'it has ended'}")
        return rest

    def _remove(self) -> None:
        for folder in (self._folder, self._driver_folder):
            shutil.rmtree(folder, ignore_errors=True)


def figures(folder: Path, threads: tuple[str, str] = ("SHARED", "SHARED"), runs: int = RUNS) -> Iterator[str]:
    """The median, the least and the most of several runs of each kind."""
    with ArchivePeer(folder, threads) as peer:
        for name, work in (("record", peer.record), ("replay", peer.replay)):
            for payload_bytes in MESSAGES:
                found = sorted((work(payload_bytes) for _ in range(runs)), key=lambda run: run.seconds)
                speeds = [run.bytes_per_second / 1e9 for run in found]
                rates = [run.messages_per_second / 1e6 for run in found]
                yield (
                    f"java-archive-{name}-{payload_bytes}B {statistics.median(speeds):.2f} GB/s"
                    f" ({speeds[-1]:.2f} to {speeds[0]:.2f}), {statistics.median(rates):.2f} M messages/s"
                    f" ({rates[-1]:.2f} to {rates[0]:.2f})"
                )


def main(arguments: list[str]) -> None:
    """Prints the figures: ``FOLDER [DRIVER_MODE ARCHIVE_MODE]``."""
    if len(arguments) not in (1, 3):
        raise SystemExit("python -m benchmarks.archive_peer FOLDER [DRIVER_MODE ARCHIVE_MODE]")
    folder = Path(arguments[0])
    threads = (arguments[1], arguments[2]) if len(arguments) == 3 else ("SHARED", "SHARED")
    print(f"{machine()}, on {where(folder)}, driver {threads[0]}, archive {threads[1]}", flush=True)
    for line in figures(folder, threads):
        print(line, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
