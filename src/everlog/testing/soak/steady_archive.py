"""Steady load on a live archive, to see whether anything grows: ``python -m everlog.testing.soak.steady_archive``.

Publishers record, replays follow their recordings, old segments are purged, and every second a client comes, lists,
replays a little and goes; every tenth one leaves without closing its session. Archive and driver run in processes of
their own. What they hold is measured at equal intervals: memory, descriptors, threads, and the driver's folder. Caches
fill in the first tenth of the time. After it, nothing may grow: the last third of the measurements is compared with the
first third.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, fields
from pathlib import Path

from everlog.aeron.archive.client import AeronArchive, ArchiveError, ReplayParams
from everlog.aeron.archive.service.server import ArchiveServer
from everlog.aeron.archive.service.settings.settings import ArchiveSettings
from everlog.aeron.transport.client import Aeron
from everlog.aeron.transport.client.publication import ExclusivePublication
from everlog.aeron.transport.client.subscription import Subscription
from everlog.aeron.transport.driver.media_driver import MediaDriver
from everlog.time_units import NS_PER_S

CHANNEL = "aeron:ipc?term-length=64k"
FIRST_STREAM, FIRST_REPLAY, VISITED_REPLAY = 1001, 3001, 5001
SEGMENT_BYTES = 128 << 10
KEPT_SEGMENTS = 8
"""What a purge leaves of a recording."""
MESSAGE = bytes(range(200))
ROUND_S = 0.05
PURGE_EVERY_S, VISIT_EVERY_S = 10.0, 1.0
WITHOUT_GOODBYE_EVERY = 10
MAX_GROWTH = {"memory": 4 << 20, "descriptors": 2, "threads": 0, "folder": 1 << 20}
"""By how much the last medians may be above the first ones: bytes and numbers."""


@dataclass(frozen=True, slots=True)
class Held:
    """What a process holds: bytes of memory, open descriptors, threads; and bytes of the driver's folder."""

    memory: int
    descriptors: int
    threads: int
    folder: int

    @classmethod
    def of(cls, pid: int, folder: str) -> Held:
        """What a process holds now."""
        status = Path(f"/proc/{pid}/status").read_text()
        kilobytes = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("RssAnon"))
        sizes = [
            os.stat(os.path.join(place, name)).st_blocks * 512 for place, _, names in os.walk(folder) for name in names
        ]
        descriptors, threads = os.listdir(f"/proc/{pid}/fd"), os.listdir(f"/proc/{pid}/task")
        return cls(kilobytes << 10, len(descriptors), len(threads), sum(sizes))


class Load:
    """Recordings, replays that follow them, and clients that come and go, on the driver in ``folder``."""

    def __init__(self, folder: str, recordings: int, rate: float, opened: ExitStack) -> None:
        self._folder = folder
        self._rate = rate
        self._aeron = opened.enter_context(Aeron.connect(folder))
        self._archive = opened.enter_context(_client(self._aeron))
        self._recording_ids: list[int] = []
        self._publications: list[ExclusivePublication] = []
        self._replays: list[Subscription] = []
        self.sent = self.read = self.visits = self.purged = 0
        for number in range(recordings):
            self._begin(number)

    def _begin(self, number: int) -> None:
        stream_id = FIRST_STREAM + number
        publication = self._archive.add_recorded_exclusive_publication(CHANNEL, stream_id)
        self._aeron.wait_until(lambda: publication.is_connected)
        publication.send(MESSAGE)
        found = list(self._archive.list_recordings_for_uri("ipc", stream_id))
        recording_id = found[-1].recording_id
        self._aeron.wait_until(lambda: self._archive.recording_position(recording_id) == publication.position)
        replay = self._archive.replay(recording_id, CHANNEL, FIRST_REPLAY + number, ReplayParams(follow=True))
        self._publications.append(publication)
        self._recording_ids.append(recording_id)
        self._replays.append(replay)

    def run(self, seconds: float) -> None:
        """Go on for a while."""
        begun = now = time.monotonic()
        due = purge_at = visit_at = now
        while now < begun + seconds:
            count = max(1, round(self._rate * ROUND_S))
            for publication in self._publications:
                for _ in range(count):
                    publication.send(MESSAGE)
                self.sent += count
            for replay in self._replays:
                replay.poll(self._note, 4 * count)
            self._archive.poll()
            if now >= visit_at:
                visit_at = now + VISIT_EVERY_S
                self._visit()
            if now >= purge_at:
                purge_at = now + PURGE_EVERY_S
                self._purge()
            due += ROUND_S
            time.sleep(max(0.0, due - time.monotonic()))
            now = time.monotonic()

    def _note(self, payload: bytes, header: object) -> None:
        assert payload == MESSAGE, "a replay gives what was published"
        self.read += 1

    def _visit(self) -> None:
        self.visits += 1
        with Aeron.connect(self._folder) as aeron:
            archive = _client(aeron)
            found = list(archive.list_recordings())
            chosen = found[self.visits % len(found)]
            params = ReplayParams(position=archive.start_position(chosen.recording_id), length=SEGMENT_BYTES)
            with archive.replay_messages(chosen.recording_id, CHANNEL, VISITED_REPLAY, params) as replay:
                for count, (payload, _) in enumerate(replay):
                    assert payload == MESSAGE, "a replay gives what was published"
                    if count == self.visits % 400:
                        break
            if self.visits % WITHOUT_GOODBYE_EVERY:
                archive.close()

    def _purge(self) -> None:
        for recording_id in self._recording_ids:
            position = self._archive.recording_position(recording_id)
            assert position is not None, "the recording goes on"
            kept = position - KEPT_SEGMENTS * SEGMENT_BYTES
            start = self._archive.start_position(recording_id)
            if kept - kept % SEGMENT_BYTES > start:
                try:
                    self.purged += self._archive.purge_segments(recording_id, kept - kept % SEGMENT_BYTES)
                except ArchiveError as error:
                    if "replay" not in str(error):  # a visitor reads there
                        raise


def _client(aeron: Aeron) -> AeronArchive:
    return AeronArchive.connect(aeron=aeron, control_request_channel=CHANNEL, control_response_channel=CHANNEL)


def grown(measured: Sequence[Held]) -> list[str]:
    """What has grown, a line each."""
    later = measured[len(measured) // 10 :]
    third = max(1, len(later) // 3)
    found = []
    for one in fields(Held):
        first = statistics.median(getattr(held, one.name) for held in later[:third])
        last = statistics.median(getattr(held, one.name) for held in later[-third:])
        if last - first > MAX_GROWTH[one.name]:
            found.append(f"{one.name} grew from {first:,.0f} to {last:,.0f}")
    return found


def soak(minutes: float, recordings: int, rate: float, folder: str) -> list[str]:
    """Run the load and print what the processes hold; returns what has grown."""
    interval_s = min(30.0, minutes * 60 / 30)
    shared = "/dev/shm" if os.path.isdir("/dev/shm") else None
    parent = tempfile.mkdtemp(prefix="everlog-steady-", dir=shared)
    measured: dict[str, list[Held]] = {"archive": [], "driver": []}
    try:
        with ExitStack() as opened:
            driver = opened.enter_context(
                MediaDriver.launch(
                    dir=f"{parent}/driver",
                    ipc_term_buffer_length=64 << 10,
                    client_liveness_timeout_ns=5 * NS_PER_S,
                    publication_unblock_timeout_ns=6 * NS_PER_S,
                )
            )
            settings = ArchiveSettings(
                segment_file_length=SEGMENT_BYTES,
                low_storage_space_threshold=0,
                max_concurrent_recordings=recordings + 1,
                max_concurrent_replays=recordings + 20,
            )
            server = opened.enter_context(ArchiveServer.launch(folder, settings, driver_folder=driver.dir))
            load = Load(driver.dir, recordings, rate, opened)
            begun = time.monotonic()
            while time.monotonic() < begun + minutes * 60:
                load.run(interval_s)
                for name, pid in (("archive", server.pid), ("driver", driver.pid)):
                    measured[name].append(Held.of(pid, parent))
                    print(f"{time.monotonic() - begun:7.0f} s  {name:8}{measured[name][-1]}", flush=True)
            print(f"sent {load.sent}, replayed {load.read}, visits {load.visits}, segments purged {load.purged}")
            assert load.read >= load.sent // 2, "replays follow"
    finally:
        shutil.rmtree(parent, ignore_errors=True)
    return [f"{name}: {text}" for name, several in measured.items() for text in grown(several)]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return 1 if something has grown."""
    parser = argparse.ArgumentParser(prog="python -m everlog.testing.soak.steady_archive", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--recordings", type=int, default=20, help="and as many replays")
    parser.add_argument("--rate", type=float, default=200, help="messages a second and recording")
    parser.add_argument("folder", nargs="?", type=Path, help="where to work; default: a temporary folder")
    chosen = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(dir=chosen.folder, prefix="everlog-steady-") as folder:
        found = soak(chosen.minutes, chosen.recordings, chosen.rate, folder)
    for line in found:
        print(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
