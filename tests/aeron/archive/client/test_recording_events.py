"""Recording events, from a stream that sends whatever it likes."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest

from everlog.aeron.archive.client.recording_events import RecordingEvent, RecordingEvents
from everlog.aeron.archive.protocol.codec import encode
from everlog.aeron.archive.protocol.recording_events import (
    RecordingProgressMessage,
    RecordingStartedMessage,
    RecordingStoppedMessage,
)
from everlog.aeron.archive.protocol.responses import Ping
from everlog.aeron.archive.recording.events import RecordingProgress, RecordingStarted, RecordingStopped
from everlog.aeron.transport.client import Aeron
from everlog.aeron.transport.driver.running_driver import RunningDriver
from everlog.errors import CorruptData, UnknownMessage

MESSAGES = [
    RecordingStartedMessage(3, 64, 11, 10, "aeron:ipc", "aeron:ipc"),
    RecordingProgressMessage(3, 64, 128),
    RecordingStoppedMessage(3, 64, 128),
]
EVENTS: list[RecordingEvent] = [
    RecordingStarted(3, 64, 11, 10, "aeron:ipc", "aeron:ipc"),
    RecordingProgress(3, 64, 128),
    RecordingStopped(3, 64, 128),
]
streams = itertools.count(300)


@pytest.fixture
def both(driver: RunningDriver) -> Any:
    """The events, and a function that sends to them."""
    stream_id = next(streams)
    with Aeron.connect(driver.dir) as aeron, RecordingEvents.subscribe(aeron, "aeron:ipc", stream_id) as events:
        publication = aeron.add_exclusive_publication("aeron:ipc", stream_id)
        assert aeron.wait_until(lambda: publication.is_connected and events.subscription.is_connected)
        yield events, publication.send


def test_events_are_polled_taken_and_iterated_over(both: Any) -> None:
    events, send = both
    for message in MESSAGES:
        send(encode(message))
    found: list[RecordingEvent] = []
    while len(found) < 3:
        events.poll(found.append)
    assert found == EVENTS
    assert events.poll(found.append) == 0
    assert events.take(0.01) is None
    send(encode(MESSAGES[1]))
    assert events.take(10) == EVENTS[1]
    for message in MESSAGES:
        send(encode(message))
    assert list(itertools.islice(events, 3)) == EVENTS


def test_events_are_iterated_over_by_asyncio_programs(both: Any) -> None:
    events, send = both
    for message in MESSAGES:
        send(encode(message))

    async def use() -> list[RecordingEvent]:
        found = []
        async for event in events:
            found.append(event)
            if len(found) == 3:
                events.close()
        return found

    assert asyncio.run(use()) == EVENTS


def test_other_messages_are_passed_over_and_broken_ones_raised(both: Any) -> None:
    events, send = both
    data = encode(MESSAGES[1])
    send(encode(Ping(1)))
    send(data[:2] + b"\xe7\x03" + data[4:])
    assert events.take(0.05) is None
    send(data[:12])
    with pytest.raises(CorruptData):
        events.take(10)
    send(data[:4] + b"\x6f\x00" + data[6:])
    with pytest.raises(UnknownMessage):
        events.take(10)
    send(data)
    assert events.take(10) == EVENTS[1]
