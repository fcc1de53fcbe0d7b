"""Goes through requests, one row after the other, and notes all that the archive sends."""

from __future__ import annotations

import re
import socket
import struct
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from everlog.aeron.archive.protocol.codec import PROTOCOL_VERSION
from everlog.aeron.archive.protocol.requests import ArchiveId, KeepAlive, SessionRequest
from everlog.aeron.archive.protocol.responses import (
    Challenge,
    ControlResponse,
    Ping,
    RecordingDescriptorMessage,
    RecordingSignalEvent,
    RecordingSubscription,
    ResponseCode,
)
from everlog.aeron.messages import Message
from everlog.aeron.transport.client import Aeron, ExclusivePublication, Subscription
from tests.aeron.archive.protocol.requests.door import NO_SESSION, Door

REC_POS_TYPE, REPLAY_SESSIONS_TYPE, RECORDING_SESSIONS_TYPE = 100, 112, 111
TERM_BYTES, SEGMENT_BYTES, FRAME_BYTES, MTU = 64 << 10, 128 << 10, 1024, 1408
INITIAL_TERM_ID = 5
PAYLOAD = bytes(range(250)) * 3 + bytes(FRAME_BYTES - 32 - 750)
WAIT_S = 3.0
QUIET_S = 0.3
Event = list[Any]


@dataclass
class Row:
    """A request, and what came until the next one: answers as ``[code, relevant id, text]``, signals, descriptors.
    ``of`` names the row whose correlation id it had, if that is another one."""

    name: str
    request: str
    events: list[Event] = field(default_factory=list)


@dataclass(frozen=True)
class Place:
    """Of an archive: where its driver is, where it listens, and its own folder."""

    driver_folder: Path
    control: tuple[str, int]
    local_control: tuple[str, int]
    archive_folder: Path


class Run:
    """Rows of one archive."""

    def __init__(self, place: Place, aeron: Aeron) -> None:
        self.place = place
        self.aeron = aeron
        self.rows: list[Row] = []
        self.doors: list[Door] = []
        self.main: Door
        self.last_given = 0
        """The last relevant id that was given a name."""
        self._gives: str | None = None
        self._sessions: dict[int, str] = {}
        self._given: dict[int, str] = {}
        self._correlations: dict[int, str] = {}
        self._barriers: set[int] = set()
        self._next_correlation_id = 1000
        self._next_stream_id = 7000
        self._publications: list[ExclusivePublication] = []
        self._subscriptions: list[Subscription] = []

    # Requests

    def correlation_id(self, name: str) -> int:
        """A new one, of a row with this name."""
        self._next_correlation_id += 1
        self._correlations[self._next_correlation_id] = name
        return self._next_correlation_id

    def door(self, name: str, *, local: bool = False) -> Door:
        """A new connection without a session."""
        self._next_stream_id += 1
        channel = "aeron:ipc?term-length=64k" if local else "aeron:udp?endpoint=localhost:0"
        request = self.place.local_control if local else self.place.control
        door = Door(name, self.aeron, request, (channel, self._next_stream_id), self._hear)
        self.doors.append(door)
        return door

    def connect(self, name: str, door: Door, credentials: bytes = b"", events: int = 1) -> int:
        """A row: the door's session is opened with a connect request and made active."""
        request = door.connect_request(self.correlation_id(name), credentials)
        shown = f"AuthConnect(credentials={credentials!r})"
        self.row(name, door, request, events=events, shown=shown, barrier=False)
        return door.session_id

    def open(self, name: str, *, local: bool = False) -> Door:
        """A door with an active session, without a row."""
        door = self.door(name, local=local)
        self.connect(f"connect {name}", door)
        self.rows.pop()
        door.send(KeepAlive(door.session_id, self.correlation_id("keep-alive")))
        return door

    def ask(
        self, name: str, kind: type[SessionRequest], *, door: Door | None = None, events: int = 1, **values: Any
    ) -> Row:
        """A row: a request of a session, and this many events or more in return. ``gives`` names the relevant id of
        the answer, which is random."""
        door = door or self.main
        gives = values.pop("gives", None)
        request = kind(door.session_id, self.correlation_id(name), **values)
        row = self.row(name, door, request, events=events, gives=gives)
        return row

    def row(
        self,
        name: str,
        door: Door,
        request: Message | bytes,
        *,
        events: int = 1,
        gives: str | None = None,
        shown: str | None = None,
        barrier: bool = True,
    ) -> Row:
        """A row: a message as it is. With ``barrier`` a question follows on the main session, whose answer shows that
        nothing else is to come."""
        row = self._begin(name, self.shown(request) if shown is None else shown)
        self._gives = gives
        door.send(request)
        self._await(row, events)
        self._gives = None
        if barrier:
            self.barrier(door)
        return row

    def ask_together(
        self, name: str, requests: Mapping[str, tuple[type[SessionRequest], dict[str, Any]]], events: int
    ) -> Row:
        """A row: requests that are sent one right after the other; events say whose answers they are."""
        door = self.main
        made = [kind(door.session_id, self.correlation_id(each), **values) for each, (kind, values) in requests.items()]
        row = self._begin(name, "; ".join(map(self.shown, made)))
        for request in made:
            door.send(request)
        self._await(row, events)
        self.barrier(door)
        return row

    def expect(self, name: str, events: int = 1, act: Callable[[], object] | None = None) -> Row:
        """A row without a request: what comes after ``act``."""
        row = self._begin(name, "")
        if act is not None:
            act()
        self._await(row, events)
        self.barrier(self.main)
        return row

    def quiet(self, name: str, door: Door, request: Message | bytes, shown: str | None = None) -> Row:
        """A row: a request that no answer follows within a while."""
        row = self._begin(name, self.shown(request) if shown is None else shown)
        door.send(request)
        end = time.monotonic() + QUIET_S
        self.until(lambda: time.monotonic() > end)
        return row

    def leave(self, door: Door) -> None:
        """Close a door."""
        self.doors.remove(door)
        door.close()

    @staticmethod
    def port() -> int:
        """A UDP port of the loopback interface that is free."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
            taken.bind(("127.0.0.1", 0))
            return int(taken.getsockname()[1])

    def barrier(self, door: Door) -> None:
        """Wait until the archive has answered everything that was sent through a door."""
        for each in {door.name: door, self.main.name: self.main}.values():
            if each.session_id == NO_SESSION:
                continue
            correlation_id = self.correlation_id("barrier")
            self._barriers.add(correlation_id)
            each.send(ArchiveId(each.session_id, correlation_id))
            if not self.until(lambda one=correlation_id: one not in self._barriers, 2.0):  # type: ignore[misc]
                self.rows[-1].events.append(["NO ANSWER", "to the next request of", each.name])

    def _begin(self, name: str, shown: str) -> Row:
        assert name not in {row.name for row in self.rows}, name
        self.rows.append(Row(name, shown))
        return self.rows[-1]

    def _await(self, row: Row, events: int) -> None:
        if not self.until(lambda: len(row.events) >= events):
            row.events.append(["NOTHING MORE", f"of {events} events"])

    def until(self, condition: Callable[[], bool], timeout_s: float = WAIT_S) -> bool:
        """Listen on all doors until something is true."""
        end = time.monotonic() + timeout_s
        while not condition():
            if time.monotonic() > end:
                return False
            if not sum(door.poll() for door in self.doors):
                time.sleep(0.0005)
        return True

    # Events

    def _hear(self, door: Door, message: Message) -> None:
        if isinstance(message, Ping):
            return
        correlation_id = message.correlation_id  # type: ignore[attr-defined]
        if correlation_id in self._barriers:
            self._barriers.discard(correlation_id)
            return
        row = self.rows[-1]
        event = self._event(door, message)
        name = self._correlations.get(correlation_id, str(correlation_id))
        if name != row.name:
            event.append(f"of: {name}")
        if self.doors and door is not getattr(self, "main", door):
            event.append(f"at: {door.name}")
        row.events.append(event)

    def _event(self, door: Door, message: Message) -> Event:
        if isinstance(message, ControlResponse):
            event: Event = [message.code.name, self._relevant(door, message), self.masked(message.error_message)]
            if message.version != PROTOCOL_VERSION:
                event.append(f"version {message.version}")
            return event
        if isinstance(message, RecordingSignalEvent):
            subscription = self.given(message.subscription_id)
            return ["SIGNAL", message.signal.name, message.recording_id, subscription, message.position]
        if isinstance(message, RecordingSubscription):
            channel = self.masked(message.stripped_channel)
            return ["SUBSCRIPTION", self.given(message.subscription_id), message.stream_id, channel]
        if isinstance(message, RecordingDescriptorMessage):
            return ["DESCRIPTOR", self._described(message)]
        assert isinstance(message, Challenge)
        door.session_id = message.control_session_id
        return ["CHALLENGE", message.encoded_challenge.decode()]

    def _described(self, message: RecordingDescriptorMessage) -> dict[str, Any]:
        left_out = ("control_session_id", "correlation_id", "start_timestamp", "stop_timestamp", "session_id")
        found = {each.name: getattr(message, each.name) for each in fields(message) if each.name not in left_out}
        found = {name: self.masked(value) if isinstance(value, str) else value for name, value in found.items()}
        found["stopped"] = message.stop_timestamp >= message.start_timestamp
        return found

    def _relevant(self, door: Door, message: ControlResponse) -> int | str:
        if message.relevant_id == message.control_session_id:
            if door.session_id == NO_SESSION and message.code is ResponseCode.OK:
                door.session_id = message.control_session_id
            return f"<session {door.name}>"
        if self._gives is not None and message.code is ResponseCode.OK:
            self._given[message.relevant_id] = self._gives
            self.last_given = message.relevant_id
            return f"<{self._gives}>"
        return message.relevant_id

    def given(self, number: int) -> int | str:
        """An id, or the name that it was given because it is random."""
        return f"<{self._given[number]}>" if number in self._given else number

    def masked(self, text: str) -> str:
        """A text without what is different each time: ports, ids of subscriptions and sessions, folders."""
        text = text.replace(str(self.place.archive_folder), "<folder>")
        text = re.sub(r"(127\.0\.0\.1|localhost):[1-9]\d*", r"\1:<port>", text)
        text = re.sub(r"(ubscriptionId=)\d+", r"\1<id>", text)
        text = re.sub(r"([sS]essionId=)-?\d+", r"\1<id>", text)
        text = re.sub(r"(usableSpace=)\d+", r"\1<bytes>", text)
        return re.sub(r"(response-correlation-id=)\d+", r"\1<id>", text)

    def shown(self, request: Message | bytes) -> str:
        """A request, for readers of the table."""
        if isinstance(request, bytes):
            return f"{len(request)} bytes"
        ids = ("control_session_id", "correlation_id")
        values = {each.name: getattr(request, each.name) for each in fields(request) if each.name not in ids}  # type: ignore[arg-type]
        texts = [f"{name}={self._value(name, value)}" for name, value in values.items()]
        return f"{type(request).__name__}({', '.join(texts)})"

    def _value(self, name: str, value: Any) -> str:
        if isinstance(value, str):
            return repr(self.masked(value))
        if name in ("subscription_id", "replay_session_id", "replay_token"):
            return str(self.given(value))
        return getattr(value, "name", repr(value))

    # Streams

    def channel(
        self,
        session_id: int,
        position: int = 0,
        *,
        initial_term_id: int = INITIAL_TERM_ID,
        term_bytes: int = TERM_BYTES,
        mtu: int = MTU,
        base: str = "aeron:ipc",
    ) -> str:
        """Of a publication that begins at a position."""
        term_id = initial_term_id + position // term_bytes
        settings = {
            "session-id": session_id,
            "init-term-id": initial_term_id,
            "term-id": term_id,
            "term-offset": position % term_bytes,
            "term-length": term_bytes,
            "mtu": mtu,
        }
        separator = "|" if "?" in base else "?"
        return base + separator + "|".join(f"{name}={value}" for name, value in settings.items())

    def publication(self, channel: str, stream_id: int) -> ExclusivePublication:
        """A new publication."""
        made = self.aeron.add_exclusive_publication(channel, stream_id)
        self._publications.append(made)
        return made

    def publish(self, publication: ExclusivePublication, frames: int) -> int:
        """Send frames of 1 KiB; returns the position after them."""
        if not self.until(lambda: publication.is_connected):
            raise TimeoutError(f"nothing listens on {publication}")
        for _ in range(frames):
            publication.send(PAYLOAD)
        return publication.position

    def subscribe(self, channel: str, stream_id: int) -> Subscription:
        """A new subscription."""
        made = self.aeron.add_subscription(channel, stream_id)
        self._subscriptions.append(made)
        return made

    def until_recorded(self, recording_id: int, position: int) -> None:
        """Wait for the recording's counter."""
        if not self.until(lambda: self._recorded(recording_id) >= position):
            self.rows[-1].events.append(["NOT RECORDED", recording_id, position])

    def _recorded(self, recording_id: int) -> int:
        for counter in self.aeron.counters:
            if counter.type_id == REC_POS_TYPE and struct.unpack_from("<q", counter.key)[0] == recording_id:
                return self.aeron.counters.value(counter.counter_id)
        return -1

    def until_idle(self, type_id: int = REPLAY_SESSIONS_TYPE, count: int = 0) -> None:
        """Wait until no more than this many replays (or recordings) are active."""

        def is_idle() -> bool:
            found = self.aeron.counters.find(type_id)
            return found is None or self.aeron.counters.value(found.counter_id) <= count

        if not self.until(is_idle):
            self.rows[-1].events.append(["STILL ACTIVE", f"counter of type {type_id}"])

    def replayed(self, row: Row, subscription: Subscription, frames: int) -> None:
        """Note what a replay brings: where it begins, how many frames come, whether it ends then."""
        # The one of the replay that was asked for last: earlier ones linger.
        session_id = ((self.last_given & 0xFFFF_FFFF) ^ (1 << 31)) - (1 << 31)
        self.until(lambda: subscription.image_by_session_id(session_id) is not None)
        image = subscription.image_by_session_id(session_id)
        if image is None:
            row.events.append(["NO IMAGE"])
            return
        begin, count = image.position, 0

        def take(payload: bytes, _: object) -> None:
            nonlocal count
            assert payload == PAYLOAD
            count += 1

        def all_came() -> bool:
            image.poll(take, 10)
            return count >= frames

        self.until(all_came)
        end = image.position
        row.events.append(["REPLAYED", count, begin, end])

    def close(self) -> None:
        """Close what was opened."""
        for door in self.doors:
            door.close()
        for publication in self._publications:
            publication.close()
        for subscription in self._subscriptions:
            subscription.close()
