"""The processes of a soak of a live archive: publishers that record, one that looks on, one that replays.

Each runs until it is killed, or until its driver or the archive is gone, and writes a line of numbers to the parent for
all that it sees.
"""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

from everlog.aeron.archive.client import (
    AeronArchive,
    ArchiveError,
    ErrorCode,
    RecordingEvents,
    RecordingSignal,
    ReplayParams,
    SourceLocation,
)
from everlog.aeron.archive.recording.events import RecordingStarted, RecordingStopped
from everlog.aeron.archive.service.counters import RECORDING_POSITION_TYPE_ID
from everlog.aeron.channel_uri import ChannelUri
from everlog.aeron.frames.position import term_id_of, term_offset_of
from everlog.aeron.transport.client import Aeron
from everlog.aeron.transport.client.publication import ExclusivePublication
from everlog.errors import DataLost, EverlogError
from everlog.testing.soak.live_ledger import (
    ANSWER,
    COUNTER,
    EVENT,
    NEW_RECORDING,
    REPLAYED,
    TERM_LENGTH,
    Reading,
    payload_of,
)

LOCAL = "aeron:ipc?term-length=64k"
"""Channel of requests, of answers and of recording events."""
ANNOUNCED, SEEN, STOPPED, WRONG, FAILED, RECORDS = range(6)
"""Kinds of reports: a leg, its recording or -1, its first position; a recording, a position and where it was seen; a
recording and the position at which it has stopped; a recording and a position at which a replay was wrong; an error; a
publisher's stream and its recording."""
LEGS_OF_A_START = 1000
FIRST_STREAM_ID, REPLAY_STREAM_ID = 1001, 5000
TIMEOUT_S = 30.0
CHECK_EVERY = 100
"""Messages after which a publisher asks the archive something, or a replay reports how far it is."""


@dataclass(frozen=True, slots=True)
class Published:
    """A stream that is recorded."""

    number: int
    channel: str
    location: SourceLocation

    @property
    def stream_id(self) -> int:
        """The stream's id."""
        return FIRST_STREAM_ID + self.number


class Role:
    """One process's connection, and its reports."""

    def __init__(self, aeron: Aeron, archive: AeronArchive, news: int, rng: random.Random) -> None:
        self.aeron = aeron
        self.archive = archive
        self.rng = rng
        self._news = news
        self._parent = os.getppid()

    def report(self, *numbers: int) -> None:
        """Write a line to the parent; end if there is none."""
        if os.getppid() != self._parent:
            os._exit(1)
        os.write(self._news, b" ".join(b"%d" % number for number in numbers) + b"\n")

    def pause(self, most_s: float) -> None:
        """Sleep for a random time."""
        time.sleep(self.rng.random() * most_s)


def run(work: Callable[[Role], object], driver: str, news: int, seed: str) -> NoReturn:
    """Connect, and work until killed. An error is reported, and then nothing more happens."""
    role: Role | None = None
    try:
        with (
            Aeron.connect(driver) as aeron,
            AeronArchive.connect(aeron=aeron, control_request_channel=LOCAL, control_response_channel=LOCAL) as archive,
        ):
            role = Role(aeron, archive, news, random.Random(seed))
            while True:
                work(role)
    except EverlogError as error:
        print(f"{seed}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
        os.write(news, b"%d\n" % FAILED)
    parent = os.getppid()
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


# Publishing


class Publisher:
    """Records what it publishes: ``recording_id`` is that of an earlier start, which it continues."""

    def __init__(self, stream: Published, recording_id: int | None, start: int) -> None:
        self._stream = stream
        self._recording_id = recording_id
        self._leg = (start << 1 | stream.number) * LEGS_OF_A_START

    def work(self, role: Role) -> None:
        """Publish one leg, until it is stopped."""
        recording_id = None if role.rng.random() < 0.1 else self._recording_id
        position = 0 if recording_id is None else self._stop_position(role, recording_id)
        leg, self._leg = self._leg, self._leg + 1
        announced = NEW_RECORDING if recording_id is None else recording_id
        role.report(ANNOUNCED, leg, announced, position)
        channel = f"{self._stream.channel}|session-id={role.rng.getrandbits(31)}"
        with role.archive.recording_signals() as signals:
            subscription_id = self._record(role, channel, recording_id)
            publication = role.aeron.add_exclusive_publication(_beginning_at(channel, position), self._stream.stream_id)
            with publication:
                while True:
                    signal = signals.take(TIMEOUT_S)
                    assert signal is not None, "the archive told of the recording"
                    if signal.signal in (RecordingSignal.START, RecordingSignal.EXTEND):
                        break
                self._recording_id = signal.recording_id
                role.report(RECORDS, self._stream.number, signal.recording_id)
                role.report(SEEN, signal.recording_id, signal.position, ANSWER)
                self._publish(role, publication, leg, signal.recording_id)
                role.archive.stop_recording_by_subscription(subscription_id)
                while (signal := signals.take(TIMEOUT_S)) is not None:
                    if signal.signal is RecordingSignal.STOP:
                        role.report(STOPPED, signal.recording_id, signal.position)
                        break

    def _record(self, role: Role, channel: str, recording_id: int | None) -> int:
        where = channel, self._stream.stream_id, self._stream.location
        if recording_id is None:
            return role.archive.start_recording(*where)
        return role.archive.extend_recording(recording_id, *where)

    def _stop_position(self, role: Role, recording_id: int) -> int:
        """Wait until the recording has stopped: that of a killed publisher goes on until the driver has noticed."""
        deadline = time.monotonic() + TIMEOUT_S
        while (position := role.archive.stop_position(recording_id)) is None:
            if time.monotonic() > deadline:
                raise DataLost(f"recording {recording_id}", found="no end after its publisher was killed")
            time.sleep(0.02)
        role.report(STOPPED, recording_id, position)
        return position

    def _publish(self, role: Role, publication: ExclusivePublication, leg: int, recording_id: int) -> None:
        rng = role.rng
        for _ in range(rng.randrange(2000, 20_000)):
            for _ in range(rng.choice((1, 1, 1, 2, 20))):
                publication.offer(payload_of(leg, publication.position))
            role.pause(0.001)
            if rng.random() < 1 / CHECK_EVERY:
                position = role.archive.max_recorded_position(recording_id)
                role.report(SEEN, recording_id, position, ANSWER)


def _beginning_at(channel: str, position: int) -> str:
    """The channel of a publication that begins at a position, in terms that count from 0."""
    place = term_id_of(position, 0, TERM_LENGTH), term_offset_of(position, TERM_LENGTH)
    params = {"init-term-id": "0", "term-id": str(place[0]), "term-offset": str(place[1])}
    return str(ChannelUri.parse(channel).with_params(params))


# Looking on


class Observer:
    """Looks at the counters of recorded positions, and at recording events."""

    def __init__(self) -> None:
        self._events: RecordingEvents | None = None
        self._seen: dict[int, int] = {}

    def work(self, role: Role) -> None:
        """Look once."""
        if self._events is None:
            self._events = role.archive.recording_events(LOCAL)
        while (event := self._events.take(0)) is not None:
            if isinstance(event, RecordingStopped):
                role.report(SEEN, event.recording_id, event.stop_position, EVENT)
            elif isinstance(event, RecordingStarted):
                role.report(SEEN, event.recording_id, event.start_position, EVENT)
            else:
                role.report(SEEN, event.recording_id, event.position, EVENT)
        counters = role.aeron.counters
        for counter in counters:
            if counter.type_id != RECORDING_POSITION_TYPE_ID:
                continue
            key, recording_id = counter.key[:16], int.from_bytes(counter.key[:8], "little")
            position = counters.value(counter.counter_id)
            is_same = counters.matches(counter.counter_id, RECORDING_POSITION_TYPE_ID, key)
            if is_same and position > self._seen.get(recording_id, 0):
                self._seen[recording_id] = position
                role.report(SEEN, recording_id, position, COUNTER)
        role.archive.poll()
        role.pause(0.004)


class Follower:
    """Replays recordings, also while they are recorded, and checks every byte."""

    def __init__(self) -> None:
        self._read: dict[int, Reading] = {}

    def work(self, role: Role) -> None:
        """Replay one of the last recordings from its start, or from where it was read to."""
        known = list(role.archive.list_recordings())
        if not known:
            role.pause(0.05)
            return
        recording = role.rng.choice(known[-3:])
        reading = self._read.get(recording.recording_id)
        if reading is None or role.rng.random() < 0.3:
            reading = Reading(recording.recording_id, recording.start_position)
            self._read[recording.recording_id] = reading
        params = ReplayParams(position=reading.position, follow=role.rng.random() < 0.7)
        most = role.rng.randrange(5000)
        try:
            with role.archive.replay_messages(recording.recording_id, LOCAL, REPLAY_STREAM_ID, params) as replay:
                for count, (payload, header) in enumerate(replay):
                    if complaint := reading.take(payload, header.position):
                        print(f"recording {recording.recording_id}: {complaint}", file=sys.stderr, flush=True)
                        role.report(WRONG, recording.recording_id, header.position)
                    if count % CHECK_EVERY == 0:
                        role.report(SEEN, recording.recording_id, reading.position, REPLAYED)
                    if count >= most:
                        break
                role.report(SEEN, recording.recording_id, reading.position, REPLAYED)
        except ArchiveError as error:
            # There is nothing new, or nothing at all.
            if error.code not in (ErrorCode.INVALID_POSITION, ErrorCode.EMPTY_RECORDING):
                raise
            role.pause(0.05)
