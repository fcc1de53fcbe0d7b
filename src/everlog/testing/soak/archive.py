"""Soak test that kills recorders of Aeron archives at random moments: ``python -m everlog.testing.soak.archive``.

Each of two archives, one ``written`` and one ``synced``, has a worker process. It writes to two recordings in every
way, stops and extends them, and now and then begins a new one. It reports acknowledged messages to the parent over a
pipe. The parent kills a worker with SIGKILL and opens its archive, which recovers it. It checks that every acknowledged
message is there, whole and in order, and that every message there was recorded. Then it restarts the worker, which
extends the recordings. At the end the parent reads everything again, and ``verify`` must find no fault. The same seed
gives the same victims and pauses; the system's scheduling decides what a victim is doing when it is killed.
"""

from __future__ import annotations

import argparse
import os
import random
import selectors
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from everlog.aeron.archive.archive import Archive
from everlog.aeron.archive.opening import create
from everlog.aeron.archive.recording.options import DurabilityName
from everlog.aeron.archive.store import ArchiveStore
from everlog.aeron.archive.writing.recorder import Recorder
from everlog.core.files.writable import LocalWritableStorage
from everlog.errors import EverlogError
from everlog.testing.soak.jlog import Worker

DURABILITIES: tuple[DurabilityName, ...] = ("written", "synced")
CHANNEL = "aeron:ipc?term-length=64k"
STREAM_ID = 1001
MAX_PAUSE_S = 0.06
MOST_AT_ONCE = 8
"""The most messages recorded with one call, and so the most that can be there without an acknowledgement."""
STARTED, ACKNOWLEDGED = 0, 1
"""Kinds of a worker's reports: a new recording's id; or recording, start, number of a message and the position after
it."""

Key = tuple[int, int, int]
"""Identifies a message: recording id, how often the worker was started before, number of the message since then."""


def payload_of(key: Key) -> bytes:
    """Return a message's content, which follows from its key: no zeros, up to three fragments."""
    text = b"%d.%d.%d." % key
    return text + bytes(1 + (key[2] * 7 + i) % 255 for i in range(key[2] * 31 % (3000 if key[2] % 5 == 0 else 400)))


def key_of(payload: bytes) -> Key | None:
    """Return the key of a message; ``None`` if it is damaged or not from this test."""
    words = payload.split(b".", 3)[:3]
    if len(words) < 3 or not all(word.isdigit() for word in words):
        return None
    key = (int(words[0]), int(words[1]), int(words[2]))
    return key if payload_of(key) == payload else None


def open_to_record(folder: str, durability: DurabilityName) -> Archive:
    """Open the archive, creating it if needed. The liveness timeout is 0, so that a killed owner does not block it."""
    return create(folder, exist_ok=True, durability=durability, segment_length=64 << 10, liveness_timeout_s=0)


@dataclass(slots=True)
class Result:
    """Counts of a run. ``complaints`` are the errors found."""

    kills: int = 0
    acknowledged: int = 0
    recovered: int = 0
    recordings: int = 0
    byte_count: int = 0
    complaints: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"{self.kills} kills, {self.recovered} of them left something to recover; {self.acknowledged} messages "
            f"acknowledged, {self.byte_count} bytes in {self.recordings} recordings"
        )


# In the children


class Recording:
    """One of a worker's recordings, and the number of its next message."""

    def __init__(self, archive: Archive, start: int, news: int, recording_id: int | None = None) -> None:
        self._archive = archive
        self._start = start
        self._news = news
        self._number = 0
        if recording_id is None:
            self._recorder = archive.start_recording(CHANNEL, STREAM_ID)
            os.write(news, b"%d %d\n" % (STARTED, self._recorder.recording_id))
        else:
            self._recorder = archive.extend_recording(recording_id)

    def record(self, rng: random.Random) -> None:
        """Record a few messages in one of the possible ways, and report that they were acknowledged."""
        recorder, count = self._recorder, rng.choice((1, 1, 1, 2, MOST_AT_ONCE))
        first, self._number = self._number, self._number + count
        payloads = [payload_of((recorder.recording_id, self._start, number)) for number in range(first, self._number)]
        position = self._given(recorder, payloads, rng)
        report = ACKNOWLEDGED, recorder.recording_id, self._start, self._number - 1, position
        os.write(self._news, b"%d %d %d %d %d\n" % report)

    @staticmethod
    def _given(recorder: Recorder, payloads: list[bytes], rng: random.Random) -> int:
        if len(payloads) == 1:
            return recorder.append(payloads[0])
        if rng.random() < 0.5:
            return recorder.append_many(payloads)
        for payload in payloads:
            recorder.offer(payload)
        return recorder.sync() if rng.random() < 0.1 else recorder.flush()

    def stop_and_extend(self) -> None:
        """Stop the recording and extend it, which writes to the catalog twice."""
        self._recorder.stop()
        self._recorder = self._archive.extend_recording(self._recorder.recording_id)


def record_messages(folder: str, durability: DurabilityName, start: int, news: int) -> NoReturn:
    """Record until killed, and report what was acknowledged."""
    rng = random.Random(f"{durability}.{start}")
    archive = open_to_record(folder, durability)
    known = [recording.recording_id for recording in archive.recordings()]
    recordings = [Recording(archive, start, news, recording_id) for recording_id in known[-2:]]
    if len(recordings) < 2 or rng.random() < 0.1:
        recordings.append(Recording(archive, start, news))
    while True:
        recording = rng.choice(recordings)
        recording.record(rng)
        if rng.random() < 0.02:
            recording.stop_and_extend()
        time.sleep(rng.random() * 0.001)


# In the parent


class Watched:
    """One archive: what was acknowledged to its worker, and how far the parent has checked it."""

    def __init__(self, folder: str, durability: DurabilityName, result: Result) -> None:
        self.folder = folder
        self.durability = durability
        self._result = result
        self._acknowledged: dict[int, dict[int, int]] = {}
        self._positions: dict[int, int] = {}
        self._checked: dict[int, int] = {}
        self._seen: dict[tuple[int, int], int] = {}
        self.worker = Worker(lambda start, news: record_messages(folder, durability, start, news), self._note)

    def _complain(self, text: str) -> None:
        self._result.complaints.append(f"{self.durability}: {text}")

    def _note(self, report: list[int]) -> None:
        if report[0] == STARTED:
            if report[1] in self._acknowledged:
                self._complain(f"recording id {report[1]} was given twice")
            self._acknowledged.setdefault(report[1], {})
            return
        _, recording_id, start, number, position = report
        # The worker may have been killed between the new recording and its report, and extends that recording now.
        acknowledged = self._acknowledged.setdefault(recording_id, {})
        self._result.acknowledged += number - acknowledged.get(start, -1)
        acknowledged[start] = number
        self._positions[recording_id] = position

    def check(self) -> None:
        """Open the archive after a kill, and read what was recorded since the last check."""
        try:
            with open_to_record(self.folder, self.durability) as archive:
                self._result.recovered += bool(archive.recovered)
                known = {recording.recording_id for recording in archive.recordings()}
                for recording_id in self._acknowledged:
                    if recording_id not in known:
                        self._complain(f"recording {recording_id} is lost")
                for recording_id in known:
                    self._check_recording(archive, recording_id)
        except EverlogError as error:
            self._complain(f"after a kill: {error}")

    def _check_recording(self, archive: Archive, recording_id: int) -> None:
        stop = archive.stop_position(recording_id)
        assert stop is not None, "an archive that was just opened has no active recordings"
        if stop < self._positions.get(recording_id, 0):
            self._complain(f"recording {recording_id} ends at {stop}, before {self._positions[recording_id]}")
        with archive.replay(recording_id, self._checked.get(recording_id)) as replay:
            for record in replay:
                self._see(recording_id, record.payload)
        self._checked[recording_id] = stop
        for start, number in self._acknowledged.get(recording_id, {}).items():
            if self._seen.get((recording_id, start), -1) < number:
                self._complain(f"lost: recording {recording_id}, message {number} of start {start}")

    def _see(self, recording_id: int, payload: bytes) -> None:
        key = key_of(payload)
        if key is None or key[0] != recording_id:
            self._complain(f"recording {recording_id} has a message that nobody recorded: {payload[:24]!r}")
            return
        _, start, number = key
        if number != self._seen.get((recording_id, start), -1) + 1:
            self._complain(f"{key} does not follow {self._seen.get((recording_id, start))}")
        if number > self._acknowledged.get(recording_id, {}).get(start, -1) + MOST_AT_ONCE:
            self._complain(f"{key} was not recorded yet")
        self._seen[recording_id, start] = number

    def check_all(self) -> None:
        """Read everything again, and verify."""
        self._checked, self._seen = {}, {}
        self.check()
        self._result.recordings += len(self._checked)
        self._result.byte_count += sum(self._checked.values())
        with ArchiveStore.open(LocalWritableStorage(self.folder), {}) as store:
            for fault in store.verify().faults:
                if fault.severity.value == "fault":
                    self._complain(str(fault))


class Soak:
    """One run in ``folder``, which is empty."""

    def __init__(self, folder: str, *, kills: int, seed: int) -> None:
        self._kills = kills
        self._rng = random.Random(seed)
        self._result = Result()
        self._archives = [Watched(os.path.join(folder, name), name, self._result) for name in DURABILITIES]
        self._selector = selectors.DefaultSelector()

    def run(self) -> Result:
        """Kill a worker, check its archive, restart the worker; repeat. Return the counts."""
        try:
            for watched in self._archives:
                watched.worker.start(self._selector)
            for _ in range(self._kills):
                self._listen(self._rng.random() * MAX_PAUSE_S)
                victim = self._rng.choice(self._archives)
                self._kill(victim)
                victim.check()
                victim.worker.start(self._selector)
                self._result.kills += 1
            self._listen(MAX_PAUSE_S)
        finally:
            for watched in self._archives:
                self._kill(watched)
        for watched in self._archives:
            watched.check()
            watched.check_all()
        return self._result

    def _listen(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            for found, _ in self._selector.select(left):
                listen: Callable[[], bool] = found.data.listen
                listen()

    def _kill(self, watched: Watched) -> None:
        worker = watched.worker
        if worker.pid == 0:
            return
        status = worker.end(self._selector, signal.SIGKILL)
        worker.pid = 0
        if status != signal.SIGKILL:
            self._result.complaints.append(
                f"{watched.durability}: a worker ended with status {status:#x}: see its error"
            )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return 1 if there are complaints."""
    parser = argparse.ArgumentParser(prog="python -m everlog.testing.soak.archive", description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
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
