"""Clients that come and go leave nothing behind in a live archive: descriptors, threads, log buffers, memory."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from everlog.aeron.archive.client import AeronArchive, ReplayParams
from everlog.aeron.archive.service.server import ArchiveServer
from everlog.aeron.archive.service.settings.settings import ArchiveSettings
from everlog.aeron.transport.client import Aeron
from everlog.aeron.transport.driver.media_driver import MediaDriver
from everlog.aeron.transport.format.counters import HEARTBEAT
from everlog.time_units import NS_PER_S
from tests.aeron.archive.service.live_world import IPC, SECONDS, until

CLIENTS, KILLED_EVERY = 200, 10
FIRST = 50
"""Clients after which all caches are filled."""
MAX_GROWTH = 4 << 20
OWN_LOGS = 3
"""Log buffers of the client that stays: its requests, its answers, what it records."""
STREAM, REPLAY_STREAM = 1001, 5001


@dataclass(frozen=True)
class Held:
    """What a process and its driver hold. ``memory`` is in bytes."""

    descriptors: int
    threads: int
    mappings: int
    files: int
    counters: int
    memory: int


def held(pid: int, driver: str, aeron: Aeron) -> Held:
    status = Path(f"/proc/{pid}/status").read_text()
    kilobytes = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))
    maps = Path(f"/proc/{pid}/maps").read_text().splitlines()
    return Held(
        descriptors=len(os.listdir(f"/proc/{pid}/fd")),
        threads=len(os.listdir(f"/proc/{pid}/task")),
        mappings=sum(driver in line for line in maps),
        files=sum(len(names) for _, _, names in os.walk(driver)),
        counters=sum(1 for _ in aeron.counters),
        memory=kilobytes << 10,
    )


def come_and_go(driver: str, number: int) -> None:
    """Connect, ask, replay a little, and go: with a goodbye, without one, or in the middle of a replay."""
    with Aeron.connect(driver) as aeron:
        archive = AeronArchive.connect(aeron=aeron, control_request_channel=IPC, control_response_channel=IPC)
        assert [found.stream_id for found in archive.list_recordings()] == [STREAM]
        params = ReplayParams(follow=number % 3 == 0)
        with archive.replay_messages(0, IPC, REPLAY_STREAM, params) as replay:
            for count, _ in enumerate(replay):
                if count == number % 300:
                    break
        if number % 2:
            archive.close()


def come_and_be_killed(driver: str) -> None:
    """The same in a process of its own, which is killed in the middle of a replay."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            aeron = Aeron.connect(driver)
            archive = AeronArchive.connect(aeron=aeron, control_request_channel=IPC, control_response_channel=IPC)
            replay = archive.replay_messages(0, IPC, REPLAY_STREAM, ReplayParams(follow=True))
            next(iter(replay))
            os.write(writing, b"1")
            signal.pause()
        finally:
            os._exit(1)
    os.close(writing)
    assert os.read(reading, 1) == b"1"
    os.close(reading)
    os.kill(pid, signal.SIGKILL)
    assert os.waitpid(pid, 0)[1] == signal.SIGKILL


@pytest.fixture
def driver() -> Iterator[str]:
    shared = "/dev/shm" if os.path.isdir("/dev/shm") else None
    parent = tempfile.mkdtemp(prefix="everlog-leaks-", dir=shared)
    with MediaDriver.launch(
        dir=f"{parent}/driver",
        client_liveness_timeout_ns=2 * NS_PER_S,
        publication_unblock_timeout_ns=3 * NS_PER_S,
        publication_linger_timeout_ns=50_000_000,
        image_liveness_timeout_ns=500_000_000,
        ipc_term_buffer_length=64 << 10,
    ) as running:
        yield running.dir
    shutil.rmtree(parent, ignore_errors=True)


@pytest.mark.long
def test_clients_that_come_and_go_leave_nothing_behind(driver: str, tmp_path: Path) -> None:
    settings = ArchiveSettings(low_storage_space_threshold=0, segment_file_length=1 << 17, connect_timeout_ns=NS_PER_S)
    with (
        ArchiveServer.launch(tmp_path / "a", settings, driver_folder=driver) as server,
        Aeron.connect(driver) as aeron,
        AeronArchive.connect(aeron=aeron, control_request_channel=IPC, control_response_channel=IPC) as archive,
    ):
        archive.start_recording(IPC, STREAM)
        publication = aeron.add_exclusive_publication(IPC, STREAM)
        for _ in range(1000):
            publication.send(b"x" * 300, timeout_s=SECONDS)
        until(lambda: archive.recording_position(0) == publication.position)

        def settled() -> Held:
            """When only the clients of this test are there."""

            def is_quiet() -> bool:
                archive.poll()
                return os.listdir(f"{driver}/images") == [] and len(os.listdir(f"{driver}/publications")) == OWN_LOGS

            until(is_quiet, 3 * SECONDS)  # the driver frees by and by what killed clients have left
            until(lambda: sum(counter.type_id == HEARTBEAT for counter in aeron.counters) == 2)
            return held(server.pid, driver, aeron)

        for number in range(CLIENTS):
            if number == FIRST:
                before = settled()
            if number % KILLED_EVERY == KILLED_EVERY - 1:
                come_and_be_killed(driver)
            else:
                come_and_go(driver, number)
        after = settled()
    limit = before.memory + MAX_GROWTH
    assert (after.descriptors, after.threads) == (before.descriptors, before.threads)
    assert (after.mappings, after.files, after.counters) == (before.mappings, before.files, before.counters)
    assert after.memory <= limit, (before, after)
