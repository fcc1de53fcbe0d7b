"""A client of the live archive in a simulated system: the real connector and link over a simulated driver. It records,
extends, publishes, replays, asks, and goes away in several ways."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Protocol

from everlog.aeron.archive.client.connection.connector import Connector
from everlog.aeron.archive.client.connection.inbox import Inbox
from everlog.aeron.archive.client.connection.link import ControlLink
from everlog.aeron.archive.client.machine import calls
from everlog.aeron.archive.client.machine.call import Call
from everlog.aeron.archive.client.machine.session import ControlSession, Event
from everlog.aeron.archive.client.options import ArchiveClientOptions
from everlog.aeron.archive.client.values import RecordingDescriptor, ReplayParams
from everlog.aeron.archive.protocol import requests
from everlog.aeron.archive.protocol.codec import decode
from everlog.aeron.archive.protocol.requests import SourceLocation
from everlog.aeron.archive.protocol.responses import (
    ControlResponse,
    RecordingDescriptorMessage,
    RecordingSubscription,
    ResponseCode,
)
from everlog.aeron.messages import Message
from everlog.aeron.transport.client.aeron import Aeron
from everlog.errors import EverlogError
from everlog.testing.archive.answers import Answers
from everlog.testing.archive.choices import STREAMS, Choices, Knowledge
from everlog.testing.archive.events_model import EventsModel
from everlog.testing.archive.published import Published
from everlog.testing.archive.script import Script
from everlog.testing.archive.streams import ReplayReader, StreamPublisher
from everlog.testing.network.system import SimulatedDriver

RESPONSE_STREAM = 20
MAX_STREAMS = 4
MESSAGE_TIMEOUT_MS = 5000


class SystemWorld(Protocol):
    """What a client sees of its simulation."""

    archive_address: str
    other_address: str
    control: str
    random: random.Random
    script: Script
    published: Published
    model: EventsModel
    stream_ids: Iterator[int]
    all_answers: list[Answers]
    dead: list[Aeron]
    is_calm: bool

    @property
    def now_ns(self) -> int:
        """The system's time."""

    @property
    def is_listening(self) -> bool:
        """Whether all recording events arrive from now on."""

    def maintained(self) -> set[int]:
        """The recordings whose maintenance is under way."""

    def expect_end(self, session_id: int) -> None:
        """The client of a session is no more."""

    def bounded(self, params: ReplayParams) -> ReplayParams:
        """A replay with a counter as its limit."""


class TappedSession(ControlSession):
    """A session that shows each message before it takes it."""

    def __init__(self, session: ControlSession, on_message: Callable[[Message], None]) -> None:
        super().__init__(session.session_id, session.archive_id, session.version, MESSAGE_TIMEOUT_MS * 1_000_000)
        self._on_message = on_message

    def receive(self, data: bytes, now_ns: int) -> list[Event]:
        """Show a message, and take it."""
        self._on_message(decode(data))
        return super().receive(data, now_ns)


class SystemClient:
    """One client after the other, of one name, on one machine. ``is_local``: on the archive's."""

    def __init__(self, world: SystemWorld, name: str, host: SimulatedDriver, *, is_local: bool) -> None:
        self.name = name
        self.counts: Counter[str] = Counter()
        self.answers: Answers | None = None
        self.is_local = is_local
        self._world = world
        self._host = host
        self._random: random.Random = world.random
        self._knowledge = Knowledge()
        self._choices = Choices(world.random, world.published, self._knowledge)
        self._connector: Connector | None = None
        self._link: ControlLink | None = None
        self._publishers: list[StreamPublisher] = []
        self._replays: list[ReplayReader] = []
        self._state_list: int | None = None
        self._listed: list[RecordingDescriptor] = []
        self._rest_until_ns = 0
        self.aeron = host.client()

    # Sessions

    def act(self) -> None:
        """Do a step."""
        now_ns = self._world.now_ns
        if self._link is None:
            if now_ns >= self._rest_until_ns:
                self._connect(now_ns)
            return
        if self._random.random() < 0.004:
            self._die()
            return
        self._link.poll(now_ns)
        loss = self._link.session.loss
        if loss is not None:
            self._note(f"lost its session: {loss}")
            self.forget()
            return
        if self._random.random() < 0.25:
            self._ask()
        self._run_streams()

    def _connect(self, now_ns: int) -> None:
        if self._connector is None:
            control = "aeron:ipc?term-length=64k" if self.is_local else f"aeron:udp?endpoint={self._world.control}"
            responses = "aeron:ipc" if self.is_local else f"aeron:udp?endpoint={self._host.machine.name}:0"
            options = ArchiveClientOptions(
                control_request_channel=control,
                control_response_channel=responses,
                control_response_stream_id=RESPONSE_STREAM + int(self.name),
                message_timeout_ms=MESSAGE_TIMEOUT_MS,
            )
            self._connector = Connector(self.aeron, options, Inbox(None, None), now_ns)
        try:
            link = self._connector.poll(now_ns)
        except EverlogError as error:
            self._note(f"can't connect: {error}")
            self._connector.close()
            self._connector = None
            self._rest_until_ns = now_ns + 100_000_000
            return
        if link is not None:
            self._connector = None
            self._link = link
            self.answers = Answers(self._world.script, self.name, link.session.session_id)
            self.answers.counts = self.counts
            self._world.all_answers.append(self.answers)
            link.session = TappedSession(link.session, self._take)
            self._note(f"has session {link.session.session_id}")

    def _die(self) -> None:
        assert self.answers is not None
        assert self._link is not None
        self._world.expect_end(self.answers.session_id)
        way = self._random.randrange(3)
        self._note(("closes its session", "closes its Aeron client", "is killed")[way])
        if way == 0:
            self._link.close()
            self.forget()
            return
        if way == 1:
            self.aeron.close()
        else:
            self._world.dead.append(self.aeron)
        self._host.clients.remove(self.aeron)
        self._publishers.clear()
        self._replays.clear()
        self.forget()
        self.aeron = self._host.client()

    def forget(self) -> None:
        """The session is no more; streams go on."""
        self._knowledge.subscriptions.clear()
        self._knowledge.replays.clear()
        if self._link is not None:
            self._link.close()
        self._link = self.answers = self._state_list = None
        self._rest_until_ns = self._world.now_ns + self._random.randrange(200) * 1_000_000

    @property
    def has_session(self) -> bool:
        """Whether it has a session that it knows of no loss of."""
        return self._link is not None and self._link.session.loss is None

    # Requests

    def _ask(self) -> None:
        roll = self._random.random()
        if roll < 0.12:
            self._record()
        elif roll < 0.2:
            self._extend()
        elif roll < 0.4:
            self._replay()
        elif roll < 0.46:
            self.call(calls.list_recordings(0, 100))
        elif self._world.is_calm and not self._world.model.is_complete and self._state_list is None:
            self._list_state()
        else:
            call = self._choices.call(with_maintenance=not self._world.is_calm)
            self.call(replace(call, is_exclusive=call.is_exclusive and self._random.random() < 0.5))

    def call(self, call: Call[Any]) -> int | None:
        """Ask for something."""
        if self._link is None or self.answers is None or self._link.session.loss is not None:
            return None
        correlation_id = self.aeron.next_correlation_id()
        self._note(f"{call.name} {call.fields} ({correlation_id})")
        if call.kind is requests.MigrateSegments:
            self._world.published.migrate(*call.fields)
        self.answers.sent(correlation_id, call, self._world.now_ns)
        self._link.submit(call, correlation_id, self._world.now_ns)
        return correlation_id

    def _list_state(self) -> None:
        world = self._world
        if not world.maintained() and world.is_listening:
            world.model.begin_list()
            self._listed = []
            self._state_list = self.call(calls.list_recordings(0, 1000))

    def _place(self) -> tuple[str, SourceLocation]:
        """A channel that this client publishes on, and how the archive records it."""
        if self._random.random() < 0.4:
            if self.is_local:
                return "aeron:ipc?alias=one", SourceLocation.LOCAL
            return f"aeron:udp?endpoint={self._world.archive_address}:4001", SourceLocation.REMOTE
        port = 4100 + int(self.name)
        if self.is_local:
            return f"aeron:udp?endpoint={self._world.other_address}:{port}", SourceLocation.LOCAL
        return f"aeron:udp?endpoint={self._world.archive_address}:{port}", SourceLocation.REMOTE

    def _record(self) -> None:
        channel, location = self._place()
        stream_id, is_auto_stop = self._random.choice(STREAMS), self._random.random() < 0.3
        self.call(calls.start_recording(channel, stream_id, location, auto_stop=is_auto_stop))
        if self._random.random() < 0.8:
            self._publish(channel, stream_id, location, None)

    def _extend(self) -> None:
        recording = self._choices.known(is_stopped=self._random.random() < 0.9)
        if recording is None:
            return
        channel, location = self._place()
        is_auto_stop = self._random.random() < 0.5
        self.call(
            calls.extend_recording(
                recording.recording_id, channel, recording.stream_id, location, auto_stop=is_auto_stop
            )
        )
        if recording.stop_position is not None:
            self._publish(channel, recording.stream_id, location, recording)

    def _publish(
        self, channel: str, stream_id: int, location: SourceLocation, extended: RecordingDescriptor | None
    ) -> None:
        if len(self._publishers) < MAX_STREAMS:
            is_spied = location is SourceLocation.LOCAL and channel.startswith("aeron:udp")
            self._publishers.append(
                StreamPublisher(self.aeron, self._world.published, channel, stream_id, extended, is_spied=is_spied)
            )

    def _replay(self) -> None:
        chosen = self._choices.replay()
        if chosen is None or len(self._replays) >= MAX_STREAMS:
            return
        recording_id, params = chosen
        stream_id = next(self._world.stream_ids)
        if self.is_local and self._random.random() < 0.2:
            params = self._world.bounded(params)
        channel = "aeron:ipc" if self.is_local else f"aeron:udp?endpoint={self._host.machine.name}:{stream_id}"
        self._replays.append(ReplayReader(self.aeron, self._world.published, recording_id, params, channel, stream_id))

    # Streams

    def _run_streams(self) -> None:
        for publisher in self._publishers[:]:
            publisher.step(self._random)
            if self._random.random() < 0.006:
                publisher.close()
                self._publishers.remove(publisher)
        for replay in self._replays[:]:
            complaint = replay.step()
            if complaint is not None:
                self._world.script.fail(f"{self.name}: {complaint}")
            if replay.is_ready and not replay.is_asked:
                replay.is_asked = True
                self.call(calls.replay(replay.recording_id, replay.channel, replay.stream_id, replay.params))
            if replay.has_ended or self._random.random() < 0.003:
                self.counts["replayed frames"] += replay.count
                self.counts["ended replays"] += replay.has_ended
                replay.close()
                self._replays.remove(replay)

    # Answers

    def _take(self, message: Message) -> None:
        if self.answers is None:
            return
        asked = self.answers.take(message)
        knowledge = self._knowledge
        if isinstance(message, RecordingDescriptorMessage):
            descriptor = RecordingDescriptor.of(message)
            knowledge.see([descriptor])
            if message.correlation_id == self._state_list:
                self._listed.append(descriptor)
        elif isinstance(message, RecordingSubscription):
            knowledge.subscriptions.append(message.subscription_id)
        if not isinstance(message, ControlResponse):
            return
        self._note(f"got {message.code.name} {message.relevant_id} {message.error_message} ({message.correlation_id})")
        if message.correlation_id == self._state_list:
            if asked is not None and message.code is ResponseCode.RECORDING_UNKNOWN:
                self._world.model.list(self._listed)
            self._state_list = None
        if asked is None or message.code is not ResponseCode.OK:
            return
        if asked.call.kind in (requests.StartRecording2, requests.ExtendRecording2):
            knowledge.subscriptions.append(message.relevant_id)
        elif asked.call.kind in (requests.Replay, requests.BoundedReplay):
            knowledge.replays.append(message.relevant_id)

    def _note(self, text: str) -> None:
        self._world.script.note(f"client {self.name}: {text}")


def bounded_params(params: ReplayParams, counter_id: int) -> ReplayParams:
    """The same replay with a counter as its limit."""
    return ReplayParams(position=params.position, length=params.length or 1 << 40, limit_counter_id=counter_id)
