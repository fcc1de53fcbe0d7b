"""A client of an archive without a driver: it connects, asks, listens to replays, and goes away in several ways."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Iterator
from typing import Any, Protocol

from everlog.aeron.archive.client.machine import calls
from everlog.aeron.archive.client.machine.call import Call
from everlog.aeron.archive.client.values import RecordingDescriptor, ReplayParams
from everlog.aeron.archive.protocol import requests
from everlog.aeron.archive.protocol.codec import PROTOCOL_VERSION, decode, encode
from everlog.aeron.archive.protocol.requests import AuthConnect, CloseSession, KeepAlive, SourceLocation
from everlog.aeron.archive.protocol.responses import (
    ControlResponse,
    RecordingDescriptorMessage,
    RecordingSignalEvent,
    RecordingSubscription,
    ResponseCode,
)
from everlog.aeron.messages import Message
from everlog.testing.archive.answers import Answers, Asked
from everlog.testing.archive.choices import CHANNELS, STREAMS, Choices, Knowledge
from everlog.testing.archive.doubles import ControlImage, DriverClientDouble, PublishedDouble, SubscribedDouble
from everlog.testing.archive.events_model import EventsModel
from everlog.testing.archive.published import Published, Reading
from everlog.testing.archive.script import Script
from everlog.testing.archive.watch import Watch

IPC = "aeron:ipc"
LONG_CHANNEL = "aeron:" + "x" * 4000
"""An invalid channel: the answer is an error that repeats it."""
CONNECT_CYCLES = 200
"""After so many cycles without an answer a client connects again."""


class MachineWorld(Protocol):
    """What a client sees of its simulation."""

    random: random.Random
    script: Script
    counts: Counter[str]
    ids: Iterator[int]
    published: Published
    model: EventsModel
    watch: Watch
    listening: set[int]
    all_answers: list[Answers]
    is_calm: bool
    aeron: DriverClientDouble
    control: SubscribedDouble

    @property
    def may_maintain(self) -> bool:
        """Whether maintenance may be asked for."""

    def maintained(self) -> set[int]:
        """The recordings whose maintenance is under way."""

    def expect_end(self, session_id: int) -> None:
        """The client of a session is no more: it must end in time."""

    def remove_image(self, image: ControlImage) -> None:
        """A client's requests end."""

    def publish_later(self, stream_id: int, position: int) -> None:
        """Have somebody publish a stream from a position on, in some cycles."""

    def limit_counter(self) -> int | None:
        """The id of a counter that limits replays."""


class MachineReplay:
    """A replay as its client reads it."""

    def __init__(self, recording_id: int, params: ReplayParams) -> None:
        self.recording_id = recording_id
        self.params = params
        self.reading: Reading | None = None


class MachineClient:
    """One client after the other, of one name."""

    def __init__(self, world: MachineWorld, name: str) -> None:
        self.name = name
        self.answers: Answers | None = None
        self.counts: Counter[str] = Counter()
        """What its sessions have asked for and got."""
        self._world = world
        self._random: random.Random = world.random
        self._knowledge = Knowledge()
        self._choices = Choices(world.random, world.published, self._knowledge)
        self._image: ControlImage | None = None
        self._stream_id = 0
        self._connect_id = 0
        self._cycles = 0
        self._replays: dict[int, MachineReplay] = {}
        self._listed: dict[int, list[RecordingDescriptor]] = {}
        self._state_list: int | None = None
        self._correlations = itertools.count(1 + int(name) * 1_000_000)

    # Sessions

    def act(self) -> None:
        """Do something, or nothing."""
        if self._image is None:
            if not self._cycles or self._random.random() < 0.2:
                self._connect()
        elif self.answers is None:
            self._cycles += 1
            if self._cycles > CONNECT_CYCLES:
                self._leave("gives up")
        elif self._random.random() < 0.012:
            self._die()
        else:
            for _ in range(self._random.choice((0, 0, 1, 1, 2))):
                self._ask()

    def _connect(self) -> None:
        world = self._world
        self._image = ControlImage(next(world.ids), self._random.getrandbits(31))
        self._stream_id, self._connect_id = next(world.ids), next(self._correlations)
        self._cycles = 1
        world.control.images += (self._image,)
        if self._random.random() < 0.95:
            world.listening.add(self._stream_id)
        self._note("connects")
        self._send(AuthConnect(self._connect_id, self._stream_id, PROTOCOL_VERSION, IPC, b""))

    def _send(self, message: Message) -> None:
        assert self._image is not None
        self._image.requests.append(encode(message))

    def _die(self) -> None:
        assert self.answers is not None
        assert self._image is not None
        way = self._random.randrange(4)
        self._world.expect_end(self.answers.session_id)
        if way == 0:
            self._send(CloseSession(self.answers.session_id))
            self._leave("closes its session", is_image_gone=False)
        elif way == 1:
            for _ in range(self._random.choice((0, 60))):
                self._call(calls.start_recording(LONG_CHANNEL, 1, SourceLocation.LOCAL, auto_stop=False))
            self._leave("does not read any more", is_stuck=True, is_image_gone=False)
        elif way == 2:
            self._leave("unsubscribes", is_image_gone=False)
        else:
            self._leave("goes away")

    def _leave(self, how: str, *, is_image_gone: bool = True, is_stuck: bool = False) -> None:
        """Forget the session; a new client follows."""
        world, image = self._world, self._image
        self._note(how)
        responses = world.aeron.publications.get(self._stream_id)
        if is_stuck and responses is not None:
            responses.is_stuck = True
        else:
            world.listening.discard(self._stream_id)
        if is_image_gone and image is not None:
            world.remove_image(image)
        self.forget()

    def forget(self) -> None:
        """The archive or the session is no more."""
        self._world.listening.difference_update(self._replays)
        self._replays.clear()
        self._knowledge.subscriptions.clear()
        self._knowledge.replays.clear()
        self._image = self.answers = self._state_list = None

    # Requests

    def _ask(self) -> None:
        roll = self._random.random()
        if roll < 0.16:
            self._record()
        elif roll < 0.24:
            self._extend()
        elif roll < 0.40:
            self._replay()
        elif roll < 0.44:
            self._call(calls.list_recordings(0, 100))
        elif self._world.is_calm and not self._world.model.is_complete and self._state_list is None:
            self._list_state()
        else:
            self._call(self._choices.call(with_maintenance=self._world.may_maintain))

    def _call(self, call: Call[Any]) -> int:
        assert self.answers is not None
        correlation_id = next(self._correlations)
        self._note(f"{call.name} {call.fields} ({correlation_id})")
        if call.kind is requests.MigrateSegments:
            self._world.published.migrate(*call.fields)
        elif call.kind is requests.TruncateRecording:
            self._world.watch.note_stop(*call.fields)
        self.answers.sent(correlation_id, call, self._world.script.now_ns)
        self._send(call.message(self.answers.session_id, correlation_id))
        return correlation_id

    def _list_state(self) -> None:
        """List all recordings for the model of events, if no maintenance is under way."""
        if not self._world.maintained():
            self._state_list = self._call(calls.list_recordings(0, 1000))
            self._world.model.begin_list(self._state_list)

    def _record(self) -> None:
        channel, stream_id = self._random.choice(CHANNELS), self._random.choice(STREAMS)
        is_auto_stop = self._random.random() < 0.3
        self._call(calls.start_recording(channel, stream_id, SourceLocation.LOCAL, auto_stop=is_auto_stop))

    def _extend(self) -> None:
        recording = self._choices.known(is_stopped=self._random.random() < 0.9)
        if recording is None:
            return
        channel, stream_id = self._random.choice(CHANNELS), recording.stream_id
        self._call(
            calls.extend_recording(
                recording.recording_id, channel, stream_id, SourceLocation.LOCAL, auto_stop=self._random.random() < 0.5
            )
        )
        if recording.stop_position is not None:
            self._world.publish_later(stream_id, recording.stop_position)

    def _replay(self) -> None:
        chosen = self._choices.replay()
        if chosen is None:
            return
        recording_id, params = chosen
        stream_id = next(self._world.ids)
        if self._random.random() < 0.95:
            self._world.listening.add(stream_id)
        if self._random.random() < 0.2 and not params.follow:
            counter_id = self._world.limit_counter()
            if counter_id is not None:
                params = ReplayParams(
                    position=params.position, length=params.length or 1 << 40, limit_counter_id=counter_id
                )
        self._replays[stream_id] = MachineReplay(recording_id, params)
        self._call(calls.replay(recording_id, IPC, stream_id, params))

    # Reading

    def read(self, *, is_eager: bool = False) -> None:
        """Read answers and replays; what an eager one does not read is not there."""
        responses = self._world.aeron.publications.get(self._stream_id)
        if self._image is not None and responses is not None and (is_eager or self._random.random() < 0.9):
            responses.is_stuck = not is_eager and self._random.random() < (0.7 if responses.is_stuck else 0.03)
            while responses.messages:
                self._take(decode(responses.messages.popleft()))
            responses.read()
            if responses.is_closed:
                self._note("its session has ended")
                self._leave("forgets it")
                return
        for stream_id in list(self._replays):
            publication = self._world.aeron.publications.get(stream_id)
            if publication is not None and (is_eager or self._random.random() < 0.8):
                self._read_replay(stream_id, publication)

    def _take(self, message: Message) -> None:
        world = self._world
        if self.answers is None:
            if isinstance(message, ControlResponse) and message.correlation_id == self._connect_id:
                world.script.require(message.code is ResponseCode.OK, f"{self.name} is refused: {message}")
                self.answers = Answers(world.script, self.name, message.relevant_id)
                self.answers.counts = self.counts
                world.all_answers.append(self.answers)
                self._note(f"has session {message.relevant_id}")
                if self._random.random() < 0.9:
                    self._send(KeepAlive(message.relevant_id, -1))
            return
        self._learn(message, self.answers.take(message))

    def _learn(self, message: Message, asked: Asked | None) -> None:
        knowledge = self._knowledge
        if isinstance(message, RecordingDescriptorMessage):
            descriptor = RecordingDescriptor.of(message)
            knowledge.see([descriptor])
            if message.correlation_id == self._state_list:
                self._listed.setdefault(message.correlation_id, []).append(descriptor)
        elif isinstance(message, RecordingSignalEvent):
            knowledge.last_recording = max(knowledge.last_recording, message.recording_id)
        elif isinstance(message, RecordingSubscription):
            knowledge.subscriptions.append(message.subscription_id)
        if not isinstance(message, ControlResponse):
            return
        self._note(f"got {message.code.name} {message.relevant_id} {message.error_message} ({message.correlation_id})")
        if message.correlation_id == self._state_list:
            if asked is not None and message.code is ResponseCode.RECORDING_UNKNOWN:
                listed = self._listed.pop(message.correlation_id, [])
                self._world.model.list(message.correlation_id, listed)
            self._state_list = None
        if asked is None or message.code is not ResponseCode.OK:
            return
        if asked.call.kind in (requests.StartRecording2, requests.ExtendRecording2):
            knowledge.subscriptions.append(message.relevant_id)
        elif asked.call.kind in (requests.Replay, requests.BoundedReplay):
            knowledge.replays.append(message.relevant_id)

    def _read_replay(self, stream_id: int, publication: PublishedDouble) -> None:
        replay, world = self._replays[stream_id], self._world
        if replay.reading is None:
            first, asked = publication.first_position, replay.params.position
            world.script.require(asked in (None, first), f"a replay from {asked} begins at {first}")
            replay.reading = Reading(world.published, replay.recording_id, first)
        while publication.frames:
            frame = publication.frames.popleft()
            complaint = replay.reading.take(frame.begin, frame.payload)
            if complaint is not None:
                world.script.fail(f"{self.name}: {complaint}")
            world.counts["replayed frames"] += 1
        publication.read()
        if publication.is_closed:
            if not publication.is_revoked:
                self._check_end(replay, publication)
            world.listening.discard(stream_id)
            del self._replays[stream_id]
        elif self._random.random() < 0.003:
            world.listening.discard(stream_id)

    def _check_end(self, replay: MachineReplay, publication: PublishedDouble) -> None:
        """A replay of a length that ends well has brought all of it, unless the recording ends before."""
        world, params = self._world, replay.params
        world.counts["finished replays"] += 1
        if params.length is None or params.limit_counter_id is not None:
            return
        end = publication.position
        is_whole = end >= publication.first_position + params.length
        has_stopped = world.watch.has_stopped(replay.recording_id, end)
        world.script.require(is_whole or has_stopped, f"{params} of recording {replay.recording_id} ends at {end}")

    def _note(self, text: str) -> None:
        self._world.script.note(f"client {self.name}: {text}")
