"""Recording events: what is published, how often it is tried, and what is dropped."""

from __future__ import annotations

from typing import Any

import pytest

from everlog.aeron.archive.protocol.codec import decode
from everlog.aeron.archive.protocol.recording_events import (
    RecordingProgressMessage,
    RecordingStartedMessage,
    RecordingStoppedMessage,
)
from everlog.aeron.archive.service.recording.events import RecordingEventsPublisher
from everlog.aeron.transport.client.appending.results import (
    ADMIN_ACTION,
    BACK_PRESSURED,
    CLOSED,
    MAX_POSITION_EXCEEDED,
    NOT_CONNECTED,
)
from tests.aeron.archive.service.recording.recording_world import CHANNEL, World
from tests.aeron.frames.framed_messages import frame

EVENTS = "aeron:udp?control-mode=dynamic|control=localhost:8030"


class Publication:
    """Answers with ``results`` in turn, then takes what comes."""

    def __init__(self, *results: int) -> None:
        self.channel, self.stream_id = "", 0
        self.results = list(results)
        self.attempts = 0
        self.sent: list[Any] = []
        self.is_closed = False

    def offer(self, data: bytes) -> int:
        self.attempts += 1
        result = self.results.pop(0) if self.results else 64
        if result > 0:
            self.sent.append(decode(data))
        return result

    def close(self) -> None:
        self.is_closed = True


def publisher(*results: int) -> tuple[RecordingEventsPublisher, Any, list[BaseException]]:
    publication: Any = Publication(*results)
    errors: list[BaseException] = []
    return RecordingEventsPublisher(publication, errors.append), publication, errors


def test_the_start_and_the_end_are_tried_three_times_and_progress_once() -> None:
    events, publication, errors = publisher(BACK_PRESSURED, ADMIN_ACTION)
    events.started(1, 0, 2, 3, "channel", "source")
    assert publication.attempts == 3
    assert publication.sent == [RecordingStartedMessage(1, 0, 2, 3, "channel", "source")]
    publication.results = [BACK_PRESSURED] * 4
    events.stopped(1, 0, 64)
    assert publication.attempts == 6
    assert not events.progress(1, 0, 64)
    assert publication.attempts == 7
    assert events.progress(1, 0, 96)
    assert publication.sent[1:] == [RecordingProgressMessage(1, 0, 96)]
    assert not errors


def test_without_a_listener_nothing_is_tried_again() -> None:
    events, publication, errors = publisher(NOT_CONNECTED)
    events.stopped(1, 0, 64)
    assert (publication.attempts, publication.sent, errors) == (1, [], [])


@pytest.mark.parametrize("result", [CLOSED, MAX_POSITION_EXCEEDED])
def test_a_publication_at_its_end_is_reported_once(result: int) -> None:
    events, publication, errors = publisher(result)
    events.stopped(1, 0, 64)
    assert not events.progress(2, 0, 64)
    assert publication.attempts == len(errors) == 1


def test_a_recording_is_announced_followed_and_ended_with_its_images_join_position() -> None:
    publication = Publication()
    world = World(publication=publication, recording_events_channel=EVENTS)
    assert (publication.channel, publication.stream_id) == (EVENTS, 30)
    world.start()
    image = world.arrive(join_position=64)
    image.blocks.append(frame(64, b"one"))
    world.run()
    image.blocks.append(frame(128, b"two"))
    world.run()
    world.run()
    image.is_end_of_stream = True
    world.run()
    assert publication.sent == [
        RecordingStartedMessage(0, 64, -99, 1001, CHANNEL, "10.0.0.1:5000"),
        RecordingProgressMessage(0, 64, 128),
        RecordingProgressMessage(0, 64, 192),
        RecordingStoppedMessage(0, 64, 192),
    ]
    world.service.close()
    assert publication.is_closed


def test_progress_that_could_not_be_sent_is_sent_at_the_next_cycle() -> None:
    publication = Publication()
    world = World(publication=publication, recording_events_channel=EVENTS)
    world.start()
    image = world.arrive()
    image.blocks.append(frame(0, b"one"))
    publication.results = [64, BACK_PRESSURED]
    world.run()
    assert len(publication.sent) == 1
    world.run()
    assert publication.sent[1:] == [RecordingProgressMessage(0, 0, 64)]
