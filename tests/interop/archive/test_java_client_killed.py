"""Kills of our archive, its media driver and the real Aeron's client: nothing that the client was told of is lost.

``EVERLOG_JAVA_KILLS=20 EVERLOG_JAVA_SEED=3`` kills each of them 20 times, in an order of that seed."""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from collections import Counter
from pathlib import Path

import pytest
from tools import aeron_java

from everlog.aeron.archive.client import AeronArchive
from everlog.aeron.archive.service.server import ArchiveServer
from everlog.aeron.archive.service.settings.settings import ArchiveSettings
from everlog.aeron.transport.driver.media_driver import MediaDriver
from everlog.time_units import NS_PER_S
from tests.interop.archive import java_archive
from tests.interop.archive.java_archive import MIXED, ArchiveOptions, JavaArchive, Messages

pytestmark = pytest.mark.peer

CHANNEL = "aeron:ipc?term-length=64k"
SEED = int(os.environ.get("EVERLOG_JAVA_SEED", "11"))
KILLS = int(os.environ.get("EVERLOG_JAVA_KILLS", "0"))
ACKNOWLEDGED, MORE = 300, 20_000
"""Messages of a round that the client waits for, and those during which something is killed."""
ROUNDS_OF_A_RECORDING = 4
"""After these a new recording begins: each round reads all of it."""
SECONDS = 30.0


class World:
    """Our driver and our archive, which are started again on the same folder, and the real client."""

    def __init__(self, folder: Path, driver_folder: Path, jar: Path) -> None:
        self._folder, self._driver_folder, self._jar = folder, driver_folder, jar
        self._starts = 0
        self._start_driver()
        self._start_archive()
        self.client = self._connect()

    def _start_driver(self) -> None:
        self._starts += 1
        self.driver = MediaDriver.launch(
            dir=f"{self._driver_folder}-{self._starts}",
            dir_delete_on_start=True,
            dir_delete_on_shutdown=True,
            client_liveness_timeout_ns=3 * NS_PER_S,
            publication_unblock_timeout_ns=4 * NS_PER_S,
        )

    def _start_archive(self) -> None:
        settings = ArchiveSettings(segment_file_length=128 << 10, low_storage_space_threshold=0)
        self.archive = ArchiveServer.launch(self._folder, settings, driver_folder=self.driver.dir, liveness_timeout_s=0)

    def _connect(self) -> JavaArchive:
        options = ArchiveOptions(driver_folder=Path(self.driver.dir), archive=CHANNEL, answers=CHANNEL)
        return JavaArchive(self._jar, self._folder / "unused", options)

    def kill(self, victim: str) -> None:
        """Kill one of them, and start what can't go on without it."""
        if victim == "driver":
            os.kill(self.driver.pid, signal.SIGKILL)
            self.driver.close()
            shutil.rmtree(self.driver.dir)
        if victim != "client":
            self.archive.kill()
        self.client.kill()
        if victim == "driver":
            self._start_driver()
        if victim != "client":
            self._start_archive()
        self.client = self._connect()

    def stop_position(self, recording_id: int) -> int:
        """Where the recording ends: that of a killed client ends when the driver has noticed."""
        deadline = time.monotonic() + SECONDS
        while (found := self.client.positions(recording_id).stop) == -1:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        return found

    def close(self) -> None:
        self.client.kill()
        self.archive.close()
        self.driver.close()


def test_nothing_that_the_real_client_was_told_of_is_lost(tmp_path: Path, driver_folder: Path) -> None:
    try:
        jar = java_archive.prepare(download=aeron_java.may_download())
    except java_archive.Missing as missing:
        pytest.skip(str(missing))
    rng = random.Random(SEED)
    victims = ["archive", "client", "driver", "archive"]
    if KILLS:
        victims = ["archive", "client", "driver"] * KILLS
        rng.shuffle(victims)
    world = World(tmp_path / "archive", driver_folder, jar)
    counts: Counter[str] = Counter()
    try:
        for first in range(0, len(victims), ROUNDS_OF_A_RECORDING):
            kill_each(world, victims[first : first + ROUNDS_OF_A_RECORDING], rng, counts)
    finally:
        world.close()
        print(f"seed {SEED}: {dict(counts)}")


def kill_each(world: World, victims: list[str], rng: random.Random, counts: Counter[str]) -> None:
    """Kill one after another during a recording, and compare all of it after each."""
    recording_id = world.client.record(
        CHANNEL, 1010, Messages(seed=SEED, sizes=MIXED, count=1), stop=False
    ).recording_id
    known = 1
    for victim in victims:
        acknowledged = Messages(seed=SEED, sizes=MIXED, first=known, count=ACKNOWLEDGED)
        recorded = world.client.publish(recording_id, acknowledged)
        known += ACKNOWLEDGED
        more = Messages(seed=SEED, sizes=MIXED, first=known, count=MORE)
        world.client.publish_without_waiting(recording_id, more)
        time.sleep(rng.random() * 0.3)
        world.kill(victim)
        stop = world.stop_position(recording_id)
        assert stop >= recorded.end, victim
        replayed = world.client.replay(recording_id)
        assert replayed.end == stop
        assert replayed.count >= known, victim
        known = replayed.count
        assert replayed.rows() == Messages(seed=SEED, sizes=MIXED, count=known).rows(), victim
        begun = world.client.extend(recording_id, stop=False)
        assert begun.begin == stop
        counts[victim] += 1
    world.client.stop(recording_id)
    with (
        AeronArchive.connect(
            aeron_directory_name=world.driver.dir,
            control_request_channel=CHANNEL,
            control_response_channel=CHANNEL,
        ) as ours,
        ours.replay_messages(recording_id, CHANNEL, 5000) as replay,
    ):
        assert [payload for payload, _ in replay] == [
            payload for payload, _ in Messages(seed=SEED, sizes=MIXED, count=known)
        ]
    counts["messages"] += known
