"""What the live archive costs: with many recordings at a low rate beside the real one, idle, and per session.

Driver, archive and client, a Java program, are processes of their own on both sides. The real archive and its driver
have one thread each, which takes less processor time than the archive's mode DEDICATED.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.archive_processes import ArchiveProcesses, private_bytes
from benchmarks.lines import Line, Spread, paired_rates, where

RECORDINGS, SEGMENT_BYTES = 200, 1 << 20
MESSAGES_PER_SECOND, SECONDS = 10_000, 4
WARM_UP_RUNS = 3
IDLE_SECONDS, IDLE_RUNS = 3.0, 7
SESSIONS = 200
SESSION_RUNS = 7


def lines() -> Iterator[Line | str]:
    """The figures."""
    with tempfile.TemporaryDirectory(prefix="everlog-bench-") as temporary:
        folder = Path(temporary)
        yield f"archives on {where(folder)}; archive and driver in processes of their own"
        yield from idle(folder)
        yield from sessions(folder)
        yield from recordings(folder)


def recordings(folder: Path) -> Iterator[Line | str]:
    """The processor time of both archives while they record as much at an even pace."""
    options = {"segment_bytes": SEGMENT_BYTES, "recordings": RECORDINGS}
    drivers: dict[str, list[float]] = {"ours": [], "java": []}
    with (
        ArchiveProcesses("ours", folder, **options) as ours,
        ArchiveProcesses("java", folder, **options) as java,
        ours.client() as our_client,
        java.client() as their_client,
    ):

        def speed(kind: str) -> float:
            """The reciprocal of the share of a core."""
            served, client = (ours, our_client) if kind == "ours" else (java, their_client)
            before, begin = served.cpu_seconds(), time.perf_counter()
            client.pace(MESSAGES_PER_SECOND, SECONDS)
            after, took = served.cpu_seconds(), time.perf_counter() - begin
            drivers[kind].append((after[1] - before[1]) / took * 100)
            return took / (after[0] - before[0]) / 100

        for client in (our_client, their_client):
            client.open(RECORDINGS)
        rate, ratio = paired_rates(lambda: speed("ours"), lambda: speed("java"), warm_ups=WARM_UP_RUNS)
    yield Line(
        f"archive CPU, {RECORDINGS} recordings, {MESSAGES_PER_SECOND} messages/s", 1 / rate, "%", "<=1.2", 1 / ratio
    )
    taken = {kind: Spread(found[WARM_UP_RUNS:]) for kind, found in drivers.items()}
    yield f"their drivers at the same time: ours {taken['ours']:.3g} %, the real one {taken['java']:.3g} %"


def idle(folder: Path) -> Iterator[Line | str]:
    """The processor time of an archive that nobody uses, and of its driver."""
    with ArchiveProcesses("ours", folder, segment_bytes=SEGMENT_BYTES, recordings=RECORDINGS) as served:
        time.sleep(2.0)
        shares = []
        for _ in range(IDLE_RUNS):
            before, begin = served.cpu_seconds(), time.perf_counter()
            time.sleep(IDLE_SECONDS)
            after, took = served.cpu_seconds(), time.perf_counter() - begin
            shares.append([(now - was) / took * 100 for now, was in zip(after, before, strict=True)])
    yield Line("archive idle, beyond its driver", Spread(archive for archive, _ in shares), "%", "<=1")
    yield f"its driver at the same time: {Spread(driver for _, driver in shares):.3g} %"


def sessions(folder: Path) -> Iterator[Line | str]:
    """The archive's own memory per control session, without log buffers."""
    with (
        ArchiveProcesses("ours", folder, segment_bytes=SEGMENT_BYTES, recordings=RECORDINGS) as served,
        served.client() as client,
    ):
        client.connect(SESSIONS // 2)  # code that the first ones load is not theirs
        found = []
        for run in range(1, SESSION_RUNS + 1):
            before = private_bytes(served.archive_pid)
            client.connect(SESSIONS // 2 + run * SESSIONS // SESSION_RUNS)
            opened = (run * SESSIONS // SESSION_RUNS) - ((run - 1) * SESSIONS // SESSION_RUNS)
            found.append((private_bytes(served.archive_pid) - before) / opened / 1024)
        yield Line("archive memory a session", Spread(found), "KiB", "<=64")
