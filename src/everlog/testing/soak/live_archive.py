"""Soak test that kills a live archive, its media driver and its clients at random moments:
``python -m everlog.testing.soak.live_archive``.

Two publishers, one on IPC and one on UDP, record what they publish; an observer looks at the recorded positions in
counters and events; a follower replays. Each is a process that reports to the parent what it has seen. The parent kills
one of archive, driver and clients with SIGKILL, and restarts what has ended with it, on the same folder. No recording
may end before a position that anybody has seen, or elsewhere than where it was told to have stopped; every message must
be the one that was published at its position. The publishers then extend the recordings. At the end everything is
replayed again, and ``verify`` must find no fault. The same seed gives the same victims and pauses; the system's
scheduling decides what a victim is doing when it is killed.
"""

from __future__ import annotations

import argparse
import os
import random
import selectors
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from everlog.aeron.archive.client import AeronArchive, RecordingDescriptor, ReplayParams, SourceLocation
from everlog.aeron.archive.service.server import ArchiveServer
from everlog.aeron.archive.service.settings.settings import ArchiveSettings
from everlog.aeron.archive.store import ArchiveStore
from everlog.aeron.transport.client import Aeron
from everlog.aeron.transport.client.options import default_folder
from everlog.aeron.transport.driver.media_driver import MediaDriver
from everlog.core.files.writable import LocalWritableStorage
from everlog.errors import EverlogError
from everlog.testing.soak.jlog import Worker
from everlog.testing.soak.live_ledger import MTU_LENGTH, TERM_LENGTH, Ledger
from everlog.testing.soak.live_roles import (
    ANNOUNCED,
    FAILED,
    LOCAL,
    RECORDS,
    REPLAY_STREAM_ID,
    SEEN,
    STOPPED,
    WRONG,
    Follower,
    Observer,
    Published,
    Publisher,
    run,
)

MAX_PAUSE_S = 1.5
MAX_AFTER_S = 0.3
"""How long the others go on after a kill."""
CLIENT_LIVENESS_NS = 3_000_000_000
"""How long a killed client's publications live: its recordings end then."""
END_TIMEOUT_S = 30.0
VICTIMS = ("archive", "driver", "client")
_TERMS = f"term-length={TERM_LENGTH}|mtu={MTU_LENGTH}"


@dataclass(slots=True)
class Result:
    """Counts of a run. ``complaints`` are the errors found."""

    kills: Counter[str] = field(default_factory=Counter)
    seen: Counter[str] = field(default_factory=Counter)
    repairs: int = 0
    recordings: int = 0
    byte_count: int = 0
    complaints: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        kills = ", ".join(f"{self.kills[name]} of the {name}" for name in VICTIMS)
        seen = ", ".join(f"{count} {name}" for name, count in sorted(self.seen.items()))
        return (
            f"kills: {kills}; {self.repairs} recordings repaired; seen: {seen}; {self.byte_count} bytes in "
            f"{self.recordings} recordings"
        )


class Soak:
    """One run in ``folder``, with ``kills`` of each victim. Now and then (``waits`` of the kills of a driver) the
    archive is left to find out that its driver is gone, which takes ten seconds; else it is killed, too."""

    def __init__(self, folder: str, *, kills: int, seed: int, waits: float = 0.2, udp_port: int = 24_901) -> None:
        self._folder = os.path.join(folder, "archive")
        self._rng = random.Random(seed)
        self._victims = list(VICTIMS) * kills
        self._rng.shuffle(self._victims)
        self._waits = waits
        self._result = Result()
        self._ledger = Ledger(complaints=self._result.complaints)
        self._selector = selectors.DefaultSelector()
        self._recording_ids: dict[int, int] = {}
        self._is_failing = False
        self._driver_count = 0
        self._prefix = f"{default_folder()}-soak-{os.getpid()}"
        self._streams = [
            Published(0, f"aeron:ipc?{_TERMS}", SourceLocation.LOCAL),
            Published(1, f"aeron:udp?endpoint=localhost:{udp_port}|{_TERMS}", SourceLocation.REMOTE),
        ]
        self._workers = [self._publisher(stream) for stream in self._streams]
        self._workers += [self._worker("observer", Observer), self._worker("follower", Follower)]
        self._driver: MediaDriver | None = None
        self._archive: ArchiveServer | None = None

    # Processes

    def _publisher(self, stream: Published) -> Worker:
        def work(start: int, news: int) -> None:
            publisher = Publisher(stream, self._recording_ids.get(stream.number), start)
            run(publisher.work, self._driver_folder, news, f"publisher {stream.number}.{start}")

        return Worker(work, self._note)

    def _worker(self, name: str, role: type[Observer] | type[Follower]) -> Worker:
        return Worker(lambda start, news: run(role().work, self._driver_folder, news, f"{name} {start}"), self._note)

    @property
    def _driver_folder(self) -> str:
        return f"{self._prefix}-{self._driver_count}"

    def _start_driver(self) -> None:
        self._driver_count += 1
        self._driver = MediaDriver.launch(
            dir=self._driver_folder,
            dir_delete_on_start=True,
            dir_delete_on_shutdown=True,
            client_liveness_timeout_ns=CLIENT_LIVENESS_NS,
            publication_unblock_timeout_ns=CLIENT_LIVENESS_NS + 1_000_000_000,
            image_liveness_timeout_ns=CLIENT_LIVENESS_NS,
        )

    def _start_archive(self) -> None:
        settings = ArchiveSettings(
            segment_file_length=TERM_LENGTH << self._rng.randrange(3),
            file_sync_level=(level := self._rng.choice((0, 0, 1))),
            catalog_file_sync_level=level,
            recording_events_channel=LOCAL,
            low_storage_space_threshold=0,
        )
        self._archive = ArchiveServer.launch(
            self._folder, settings, driver_folder=self._driver_folder, liveness_timeout_s=0
        )
        self._result.repairs += len(self._archive.recovered)

    def _start_workers(self) -> None:
        self._is_failing = False
        for worker in self._workers:
            worker.start(self._selector)

    def _end_workers(self) -> None:
        self._is_failing = True
        for worker in self._workers:
            self._end(worker)

    def _end(self, worker: Worker) -> None:
        if worker.pid:
            status = worker.end(self._selector, signal.SIGKILL)
            worker.pid = 0
            if status != signal.SIGKILL:
                self._result.complaints.append(f"a worker ended with status {status:#x}: see its error")

    # The run

    def run(self) -> Result:
        """Kill, restart and check; repeat. Return the counts."""
        try:
            self._start_driver()
            self._start_archive()
            self._start_workers()
            for victim in self._victims:
                self._listen(self._rng.random() * MAX_PAUSE_S)
                self._kill(victim)
                self._result.kills[victim] += 1
            self._listen(MAX_PAUSE_S)
            self._end_workers()
            self._check_all()
        finally:
            self._close()
        return self._result

    def _close(self) -> None:
        self._end_workers()
        for server in (self._archive, self._driver):
            if server is not None:
                server.close()
        for number in range(1, self._driver_count + 1):
            self._driver_count = number
            shutil.rmtree(self._driver_folder, ignore_errors=True)

    def _listen(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            for found, _ in self._selector.select(left):
                listen: Callable[[], bool] = found.data.listen
                if not listen():
                    self._selector.unregister(found.fd)
                    self._result.complaints.append("a worker ended: see its error")

    def _note(self, report: list[int]) -> None:
        kind, *numbers = report
        if kind == FAILED:
            if not self._is_failing:
                self._result.complaints.append("a worker failed though nothing was killed: see its error")
        elif kind == ANNOUNCED:
            self._ledger.announce(*numbers)
        elif kind == SEEN:
            self._ledger.see(*numbers)
        elif kind == STOPPED:
            self._ledger.see_stop(*numbers)
        elif kind == WRONG:
            self._result.complaints.append(
                f"a replay of recording {numbers[0]} is wrong at {numbers[1]}: see its error"
            )
        elif kind == RECORDS:
            self._recording_ids[numbers[0]] = numbers[1]

    def _kill(self, victim: str) -> None:
        if victim == "client":
            worker = self._rng.choice(self._workers)
            self._end(worker)
            worker.start(self._selector)
            return
        assert self._archive is not None
        assert self._driver is not None
        self._is_failing = True
        if victim == "archive":
            self._archive.kill()
            self._listen(self._rng.random() * MAX_AFTER_S)
        else:
            os.kill(self._driver.pid, signal.SIGKILL)
            self._driver.close()
            self._listen(self._rng.random() * MAX_AFTER_S)
            if self._rng.random() >= self._waits:
                self._archive.kill()
            elif not self._archive.wait(END_TIMEOUT_S):
                self._result.complaints.append("the archive does not end when its driver is gone")
                self._archive.kill()
            self._archive.close()
        self._end_workers()
        if victim == "driver":
            shutil.rmtree(self._driver_folder, ignore_errors=True)
            self._start_driver()
        self._start_archive()
        self._check()
        self._start_workers()

    # Checks

    def _check(self) -> None:
        """Look at all recordings after a restart, by the archive's own answers, and replay what is new."""
        try:
            with (
                Aeron.connect(self._driver_folder, use_invoker=True) as aeron,
                AeronArchive.connect(
                    aeron=aeron, control_request_channel=LOCAL, control_response_channel=LOCAL
                ) as archive,
            ):
                listed = {recording.recording_id: recording for recording in archive.list_recordings()}
                for recording_id in sorted(self._ledger.seen.keys() - listed.keys()):
                    self._ledger.complain(f"recording {recording_id} is lost")
                for recording in listed.values():
                    self._check_recording(archive, recording)
        except EverlogError as error:
            self._ledger.complain(f"after a kill: {type(error).__name__}: {error}")

    def _check_recording(self, archive: AeronArchive, recording: RecordingDescriptor) -> None:
        recording_id, stop = recording.recording_id, recording.stop_position
        if stop is None:
            self._ledger.complain(f"recording {recording_id} was not recovered")
            return
        self._ledger.check_stop(recording_id, stop)
        reading = self._ledger.reading(recording_id)
        if stop <= reading.position:
            return
        params = ReplayParams(position=reading.position)
        with archive.replay_messages(recording_id, LOCAL, REPLAY_STREAM_ID, params) as replay:
            for payload, header in replay:
                if complaint := reading.take(payload, header.position):
                    self._ledger.complain(f"recording {recording_id}: {complaint}")

    def _check_all(self) -> None:
        """Replay everything again after a clean restart, and verify."""
        assert self._archive is not None
        self._archive.close()
        self._start_archive()
        self._ledger.read_again()
        self._check()
        self._archive.close()
        self._result.seen = self._ledger.counts
        with ArchiveStore.open(LocalWritableStorage(self._folder), {}) as store:
            for fault in store.verify().faults:
                if fault.severity.value == "fault":
                    self._ledger.complain(str(fault))
        self._result.recordings = len(self._ledger.seen)
        self._result.byte_count = sum(self._ledger.seen.values())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return 1 if there are complaints."""
    parser = argparse.ArgumentParser(prog="python -m everlog.testing.soak.live_archive", description=__doc__)
    parser.add_argument("--kills", type=int, default=20, help="of each of archive, driver and clients")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("folder", nargs="?", type=Path, help="where to work; default: a temporary folder")
    chosen = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(dir=chosen.folder, prefix="everlog-soak-") as folder:
        result = Soak(folder, kills=chosen.kills, seed=chosen.seed).run()
    print(result)
    for complaint in result.complaints:
        print(complaint)
    return 1 if result.complaints else 0


if __name__ == "__main__":
    sys.exit(main())
