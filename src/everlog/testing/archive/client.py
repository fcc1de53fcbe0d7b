"""A client of the live archive in a simulated system: the real connector and link over a simulated driver. It records,
extends, publishes, replays, asks, and goes away in several ways."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from typing import Any

from everlog.aeron.archive.client.connection.connector import Connector
from everlog.aeron.archive.client.connection.inbox import Inbox
from everlog.aeron.archive.client.connection.link import ControlLink
from everlog.aeron.archive.client.machine import calls
from everlog.aeron.archive.client.machine.call import Call
from everlog.aeron.archive.client.options import ArchiveClientOptions
from everlog.aeron.archive.client.values import RecordingDescriptor, ReplayParams
from everlog.aeron.archive.protocol import requests
from everlog.aeron.archive.protocol.codec import encode
from everlog.aeron.archive.protocol.requests import SourceLocation
from everlog.aeron.archive.protocol.responses import (
    ControlResponse,
    RecordingDescriptorMessage,
    RecordingSubscription,
    ResponseCode,
)
from everlog.aeron.messages import Message
from everlog.aeron.transport.client.errors import DriverTimeout
from everlog.errors import EverlogError
from everlog.testing.archive.answers import Answers
from everlog.testing.archive.choices import STREAMS, Choices, Knowledge
from everlog.testing.archive.connections import REPLAY_PORT, TappedSession, client_options, response_channel
from everlog.testing.archive.driver_faults import CLIENT
from everlog.testing.archive.streams import ReplayReader, ResponseReplayReader, StreamPublisher
from everlog.testing.archive.system_world import SystemWorld
from everlog.testing.network.system import SimulatedDriver
from everlog.time_units import NS_PER_MS

MAX_STREAMS = 4
LONGEST_SILENCE_NS = 2500 * NS_PER_MS
TOKEN_AGE_NS = 200 * NS_PER_MS
"""A token that is used at this age is still valid when it reaches an archive on the same machine."""
LONG_CHANNEL = "aeron:" + "x" * 1000
"""An invalid channel: the answer is an error that repeats it."""


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
        self._tokens: dict[int, tuple[int, ReplayParams, int]] = {}
        self.deaf_until_ns = 0
        """Until then it does not read its answers."""
        self._options = self._choose_options()
        self.aeron = host.client(**CLIENT)

    # Sessions

    def act(self) -> None:
        """Do a step."""
        if self.aeron.is_closed:
            self._lose_driver()
            return
        try:
            self._act()
        except EverlogError as error:
            if self.aeron.is_closed:
                self._lose_driver()
            elif not isinstance(error, DriverTimeout):
                raise  # else the driver pauses, and may go on

    def _act(self) -> None:
        now_ns, is_settling = self._world.now_ns, self._world.is_settling
        if self._link is None:
            if now_ns >= self._rest_until_ns:
                self._connect(now_ns)
            return
        roll = 1.0 if is_settling else self._random.random()
        if roll < 0.004:
            self._die()
            return
        if roll < 0.006:
            self._note("reads no answers for a while")
            self.counts["deaf clients"] += 1
            self.deaf_until_ns = now_ns + self._random.randrange(LONGEST_SILENCE_NS)
        if now_ns < self.deaf_until_ns and not is_settling:
            for _ in range(self._random.choice((0, 1, 10))):
                self.call(calls.start_recording(LONG_CHANNEL, 1, SourceLocation.LOCAL, auto_stop=False))
            self._run_streams()
            return
        self._link.poll(now_ns)
        loss = self._link.session.loss
        if loss is not None:
            self._note(f"lost its session: {loss}")
            self.forget()
            return
        if not is_settling and self._random.random() < 0.25:
            self._ask()
        self._run_streams()

    def _lose_driver(self) -> None:
        """Its driver has died, or has timed it out: begin again when the driver serves."""
        if self.aeron in self._host.clients:
            self._note("has lost its driver")
            self._host.clients.remove(self.aeron)
            self._world.dead.append(self.aeron)
            if self.answers is not None:
                self._world.expect_end(self.answers.session_id)
            self._publishers.clear()
            self._replays.clear()
            self._connector = None
            self.forget()
        if self._host.is_running:
            self.aeron = self._host.client(**CLIENT)

    def _choose_options(self) -> ArchiveClientOptions:
        return client_options(
            int(self.name),
            self._host.machine.name,
            self._world.control,
            is_local=self.is_local,
            has_response_channel=self._random.random() < 0.4,
        )

    def _connect(self, now_ns: int) -> None:
        if self._connector is None:
            self._options = self._choose_options()
            self.counts["response channels"] += self._options.has_response_channel
            self._connector = Connector(self.aeron, self._options, Inbox(None, None), now_ns)
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
        if self._host.is_running:
            self.aeron = self._host.client(**CLIENT)

    def forget(self) -> None:
        """The session is no more; streams go on."""
        self._knowledge.subscriptions.clear()
        self._knowledge.replays.clear()
        self._tokens.clear()
        self.deaf_until_ns = 0
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
            self._listed = []
            self._state_list = self.call(calls.list_recordings(0, 1000))
            if self._state_list is not None:
                world.model.begin_list(self._state_list)

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
        if self._options.has_response_channel and self._random.random() < 0.7:
            correlation_id = self.call(calls.replay_token(recording_id))
            if correlation_id is not None:
                self._tokens[correlation_id] = recording_id, params, self._world.now_ns
            return
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
                replay.is_asked = self._ask_for(replay)
            if replay.has_ended or self._random.random() < 0.003:
                self.counts["replayed frames"] += replay.count
                is_over_response = isinstance(replay, ResponseReplayReader) and replay.count > 0
                self.counts["ended replays"] += replay.has_ended
                self.counts["replays over response channels"] += is_over_response
                replay.close()
                self._replays.remove(replay)

    def _ask_for(self, replay: ReplayReader) -> bool:
        place = replay.recording_id, replay.channel, replay.stream_id, replay.params
        if not isinstance(replay, ResponseReplayReader):
            self.call(calls.replay(*place))
        elif self._link is not None and self.answers is not None and self._link.session.loss is None:
            call = calls.replay(*place, replay.token)
            correlation_id, now_ns = self.aeron.next_correlation_id(), self._world.now_ns
            if not replay.send(encode(call.message(self.answers.session_id, correlation_id))):
                return False
            self._note(f"{call.name} {call.fields} ({correlation_id}, over a publication of its own)")
            is_late = now_ns > replay.token_ns + TOKEN_AGE_NS
            self.answers.sent(correlation_id, call, now_ns, may_lapse=is_late or not self.is_local)
        return True

    def _take_token(self, correlation_id: int, token: int) -> None:
        recording_id, params, asked_ns = self._tokens.pop(correlation_id)
        stream_id = next(self._world.stream_ids)
        channel = response_channel(self._world.control, REPLAY_PORT + int(self.name))
        place = recording_id, params, channel, stream_id
        replay = ResponseReplayReader(self.aeron, self._world.published, *place, self._options, token)
        replay.token_ns = asked_ns
        self._replays.append(replay)

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
                self._world.model.list(message.correlation_id, self._listed)
            self._state_list = None
        if asked is None or message.code is not ResponseCode.OK:
            return
        if asked.call.kind in (requests.StartRecording2, requests.ExtendRecording2):
            knowledge.subscriptions.append(message.relevant_id)
        elif asked.call.kind in (requests.Replay, requests.BoundedReplay):
            knowledge.replays.append(message.relevant_id)
        elif message.correlation_id in self._tokens:
            self._take_token(message.correlation_id, message.relevant_id)

    def _note(self, text: str) -> None:
        self._world.script.note(f"client {self.name}: {text}")
