"""Statistics from counters: positions and limits by stream, and the backlogs of senders, receivers and subscribers.
Source: Aeron's StreamStat and BacklogStat."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from everlog.aeron.transport.format.counters import (
    PER_IMAGE,
    PUBLISHER_LIMIT,
    PUBLISHER_POSITION,
    RECEIVER_HWM,
    RECEIVER_NAKS_SENT,
    RECEIVER_POSITION,
    SENDER_BPE,
    SENDER_LIMIT,
    SENDER_NAKS_RECEIVED,
    SENDER_POSITION,
    SUBSCRIBER_POSITION,
    Counter,
)

BACKLOG_TYPES = frozenset(
    {
        PUBLISHER_LIMIT,
        SENDER_POSITION,
        RECEIVER_HWM,
        SUBSCRIBER_POSITION,
        RECEIVER_POSITION,
        SENDER_LIMIT,
        PER_IMAGE,
        PUBLISHER_POSITION,
    }
)
STREAM_STAT_TYPES = (BACKLOG_TYPES - {PER_IMAGE}) | {SENDER_BPE, SENDER_NAKS_RECEIVED, RECEIVER_NAKS_SENT}
CHANNEL_BEGIN, JOIN_POSITION = "aeron:", " @"
FIRST_TABLE, LOAD = 16, 0.75
"""Initial number of buckets of Java's HashMap, and the load factor above which it doubles them."""


class StreamId(NamedTuple):
    """Identifies a stream's counters. ``channel`` is truncated to fit a counter's key."""

    session_id: int
    stream_id: int
    channel: str


class StreamPosition(NamedTuple):
    """One of a stream's counters; ``name`` is the beginning of its label, for example ``snd-pos``."""

    name: str
    registration_id: int
    value: int


@dataclass(slots=True)
class StreamState:
    """A stream's counters, in the order of their ids. ``channel`` is its longest form in the labels."""

    stream: StreamId
    channel: str = ""
    positions: list[StreamPosition] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """The fields as plain values."""
        return {
            "session_id": self.stream.session_id,
            "stream_id": self.stream.stream_id,
            "channel": self.channel,
            "positions": [position._asdict() for position in self.positions],
        }


def stream_of(counter: Counter) -> StreamId | None:
    """The stream that a counter belongs to; ``None`` if its key is damaged."""
    key = counter.key_fields
    return StreamId(key["session_id"], key["stream_id"], key["channel"]) if "stream_id" in key else None


def stream_states(counters: Iterable[Counter]) -> list[StreamState]:
    """Group counters by stream, ordered by session, stream and channel."""
    found: dict[StreamId, StreamState] = {}
    for counter in counters:
        stream = stream_of(counter) if counter.type_id in STREAM_STAT_TYPES else None
        if stream is None:
            continue
        state = found.setdefault(stream, StreamState(stream))
        name = counter.label.partition(":")[0]
        state.positions.append(StreamPosition(name, counter.key_fields["registration_id"], counter.value))
        channel = _channel_in_label(counter, stream.channel)
        if len(channel) > len(state.channel):
            state.channel = channel
    return [found[stream] for stream in sorted(found)]


def _channel_in_label(counter: Counter, channel: str) -> str:
    """The channel in a label, which has more room than the key. A subscriber's label ends with its join position."""
    begin = counter.label.find(CHANNEL_BEGIN)
    if begin < 0:
        return channel
    end = counter.label.rfind(JOIN_POSITION) if counter.type_id == SUBSCRIBER_POSITION else -1
    return counter.label[begin : end if end > begin else None]


@dataclass(slots=True)
class End:
    """A publisher, sender or receiver: its position and its limit (for a receiver, its high-water mark)."""

    registration_id: int = 0
    position: int = 0
    limit: int = 0

    @property
    def window(self) -> int:
        """Bytes from the position to the limit."""
        return self.limit - self.position


@dataclass(slots=True)
class Backlog:
    """A stream's publisher, sender, receiver and subscribers. ``subscribers`` are positions by registration id."""

    stream: StreamId
    publisher: End | None = None
    sender: End | None = None
    receiver: End | None = None
    subscribers: dict[int, int] = field(default_factory=dict)

    def add(self, counter: Counter) -> None:
        """Add one of the stream's counters."""
        registration_id = counter.key_fields["registration_id"]
        if counter.type_id == SUBSCRIBER_POSITION:
            self.subscribers[registration_id] = counter.value
        elif counter.type_id in _ENDS:
            name, what = _ENDS[counter.type_id]
            end: End = getattr(self, name) or End()
            end.registration_id = registration_id
            setattr(end, what, counter.value)
            setattr(self, name, end)

    def subscriber_backlogs(self) -> list[tuple[int, int]]:
        """Registration id of each subscriber, and the received bytes that it has not read."""
        mark = 0 if self.receiver is None else self.receiver.limit
        return [
            (registration_id, mark - self.subscribers[registration_id]) for registration_id in sorted(self.subscribers)
        ]

    def to_dict(self) -> dict[str, Any]:
        """The fields as plain values."""
        return {
            **self.stream._asdict(),
            "publisher": _end_dict(self.publisher, "limit"),
            "sender": _end_dict(self.sender, "limit"),
            "receiver": _end_dict(self.receiver, "high_water_mark"),
            "subscribers": [
                {"registration_id": registration_id, "position": position}
                for registration_id, position in sorted(self.subscribers.items())
            ],
        }


_ENDS = {
    PUBLISHER_LIMIT: ("publisher", "limit"),
    PUBLISHER_POSITION: ("publisher", "position"),
    SENDER_POSITION: ("sender", "position"),
    SENDER_LIMIT: ("sender", "limit"),
    RECEIVER_HWM: ("receiver", "limit"),
    RECEIVER_POSITION: ("receiver", "position"),
}


def _end_dict(end: End | None, limit_name: str) -> dict[str, int] | None:
    if end is None:
        return None
    return {"registration_id": end.registration_id, "position": end.position, limit_name: end.limit}


def backlogs(counters: Iterable[Counter]) -> list[Backlog]:
    """The backlog of each stream, in the order in which BacklogStat prints them: that of Java's HashMap."""
    found: dict[StreamId, Backlog] = {}
    for counter in counters:
        stream = stream_of(counter) if counter.type_id in BACKLOG_TYPES else None
        if stream is not None:
            found.setdefault(stream, Backlog(stream)).add(counter)
    table = FIRST_TABLE
    while len(found) - 1 > table * LOAD:
        table *= 2
    # computeIfAbsent checks the size before it adds, and adds at the head of a bucket.
    newest_first = list(found.values())[::-1]
    return sorted(newest_first, key=lambda backlog: java_bucket(backlog.stream, table))


def java_bucket(stream: StreamId, table: int) -> int:
    """The bucket of Java's HashMap in which BacklogStat keeps a stream. ``table`` is the number of buckets, a power of
    two."""
    text = 0
    for character in stream.channel:
        text = (31 * text + ord(character)) & 0xFFFFFFFF
    value = (31 * (31 * stream.session_id + stream.stream_id) + text) & 0xFFFFFFFF
    return (value ^ value >> 16) & (table - 1)


def damaged_keys(counters: Iterable[Counter]) -> list[Counter]:
    """Counters of streams that are in no stream because their key can't be read."""
    return [c for c in counters if c.type_id in STREAM_STAT_TYPES | BACKLOG_TYPES and stream_of(c) is None]
