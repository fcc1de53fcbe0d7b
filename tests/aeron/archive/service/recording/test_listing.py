"""A list of recording subscriptions: which are in it, and how it goes on when the client is slow."""

from __future__ import annotations

from typing import Any

import pytest

from everlog.aeron.archive.protocol.responses import RecordingSubscription
from tests.aeron.archive.service.recording.recording_world import Asker, World

CID = 9
CHANNELS = [(1, "aeron:ipc?alias=a"), (2, "aeron:udp?endpoint=h:1"), (1, "aeron:udp?endpoint=h:2")]
UNKNOWN = ("unknown subscription", CID)


@pytest.fixture
def world() -> World:
    world = World()
    for stream_id, channel in CHANNELS:
        world.start(1, stream_id, channel)
    return world


def row(index: int) -> RecordingSubscription:
    """The client numbers subscriptions from 100 on; UDP ones are spies."""
    stream_id, channel = CHANNELS[index]
    spied = channel if "ipc" in channel else f"aeron-spy:{channel}"
    return RecordingSubscription(77, CID, 100 + index, stream_id, spied)


def listed(world: World, *request: Any) -> list[Any]:
    session = world.service.list_subscriptions(world.asker, CID, *request)
    while session is not None and not session.is_done:
        assert session.do_work(0)
    return world.received()


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        ((0, 3, False, 0, ""), [row(0), row(1), row(2)]),
        ((0, 2, False, 0, ""), [row(0), row(1)]),
        ((1, 5, False, 0, ""), [row(1), row(2), UNKNOWN]),
        ((0, 3, True, 1, ""), [row(0), row(2), UNKNOWN]),
        ((0, 1, True, 1, "udp"), [row(2)]),
        ((0, 2, False, 1, "endpoint=h"), [row(1), row(2)]),
        ((0, 1, False, 1, "spy:aeron:udp?endpoint=h:2"), [row(2)]),
        ((0, 1, False, 1, "nothing"), [UNKNOWN]),
        ((3, 1, False, 0, ""), [UNKNOWN]),
        ((-1, 1, False, 0, ""), [UNKNOWN]),
        ((0, 0, False, 0, ""), [UNKNOWN]),
    ],
)
def test_a_list_has_what_matches_and_says_if_that_is_less_than_asked(
    world: World, request_: tuple[Any, ...], expected: list[Any]
) -> None:
    assert listed(world, *request_) == expected


def test_without_subscriptions_the_answer_is_unknown() -> None:
    assert listed(World(), 0, 1, False, 0, "") == [UNKNOWN]


def test_a_stream_that_is_full_gets_the_rest_later_and_nothing_twice(world: World) -> None:
    session = world.service.list_subscriptions(world.asker, CID, 0, 4, False, 0, "")
    assert session is not None
    world.asker.room = 2
    assert session.do_work(0) == 2
    assert session.do_work(0) == 0
    assert not session.is_done
    world.asker.room = 1
    assert session.do_work(0) == 2  # the last one, and the end
    assert session.is_done
    assert world.received() == [row(0), row(1), row(2), UNKNOWN]


def test_a_list_ends_with_its_client(world: World) -> None:
    session = world.service.list_subscriptions(world.asker, CID, 0, 4, False, 0, "")
    assert session is not None
    world.asker.is_done = True
    assert session.do_work(0) == 0
    assert session.is_done


def test_an_aborted_list_sends_nothing_more(world: World) -> None:
    asker = Asker()
    session = world.service.list_subscriptions(asker, CID, 0, 4, False, 0, "")
    assert session is not None
    session.abort("closed")
    assert session.is_done
    assert session.do_work(0) == 0
    assert asker.sent == []
