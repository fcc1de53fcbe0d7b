"""How far an image is complete, compiled and in Python. Terms are filled by hand; positions are those of subscribers
and of hostile processes."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from everlog.aeron.transport.driver.receiver import rebuild_twin
from everlog.kernel import memory_twin
from tests.aeron.transport.driver.receiver.receiving import TERM, data_frame, padding_frame

HUGE = (1 << 63) - 1


class Stream:
    """Three terms and their tracker."""

    def __init__(self, kind: str, start: int = 0) -> None:
        if kind == "twin":
            memory: Any = memory_twin.Memory
            tracker: Any = rebuild_twin.RebuildTracker
        else:
            memory = importlib.import_module("everlog.kernel._memory").Memory
            tracker = importlib.import_module("everlog.aeron.transport.driver.receiver._rebuild").RebuildTracker
        self.memory, self.kind = memory, tracker
        self.terms = [memory.allocate(TERM) for _ in range(3)]
        self.counters = memory.allocate(128 * 8)
        self.tracker = tracker(self.terms, start, (self.counters, 0))

    def put(self, position: int, length: int = 96) -> None:
        """Write an arriving frame of a given length."""
        self.terms[position // TERM % 3].write(position % TERM, data_frame(position, b"x" * (length - 32)))

    def subscribe(self, number: int, position: int) -> int:
        """Add a subscriber's position. Returns its offset."""
        self.counters.put_i64(128 * number, position)
        self.tracker.add_subscriber(self.counters, 128 * number)
        return 128 * number

    @property
    def rebuilt(self) -> tuple[int, int]:
        return self.tracker.start_position, self.tracker.end_position

    @property
    def told(self) -> int:
        """The value of the position counter."""
        value: int = self.counters.get_i64(0)
        return value


@pytest.fixture(params=["compiled", "twin"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_frames_that_follow_each_other_are_there(kind: str) -> None:
    stream = Stream(kind)
    for at in (0, 96, 192):
        stream.put(at)
    assert not stream.tracker.track(288)
    assert stream.rebuilt == (0, 288)
    assert stream.told == 288
    assert not stream.tracker.track(288)
    assert stream.rebuilt == (288, 288)


def test_a_gap_reaches_up_to_the_next_frame(kind: str) -> None:
    stream = Stream(kind)
    stream.put(0)
    stream.put(288)
    assert stream.tracker.track(384)
    assert (stream.tracker.end_position, stream.tracker.gap_length) == (96, 192)
    stream.put(96)
    assert stream.tracker.track(384)
    assert (stream.tracker.end_position, stream.tracker.gap_length) == (192, 96)
    stream.put(192)
    assert not stream.tracker.track(384)
    assert stream.rebuilt == (192, 384)


def test_a_gap_without_a_next_frame_reaches_up_to_what_was_heard_of(kind: str) -> None:
    stream = Stream(kind)
    assert stream.tracker.track(4096)
    assert (stream.tracker.end_position, stream.tracker.gap_length) == (0, 4096)
    assert stream.told == 0


def test_a_gap_ends_with_its_term(kind: str) -> None:
    stream = Stream(kind, TERM - 96)
    stream.put(TERM)
    assert stream.tracker.track(TERM + 96)
    assert stream.tracker.gap_length == 96
    stream.put(TERM - 96)
    assert not stream.tracker.track(TERM + 96)
    assert stream.rebuilt == (TERM - 96, TERM)
    assert not stream.tracker.track(TERM + 96)
    assert stream.rebuilt == (TERM, TERM + 96)


def test_padding_counts_as_what_it_stands_for(kind: str) -> None:
    stream = Stream(kind, 5 * TERM - 4096)
    stream.terms[1].write(TERM - 4096, padding_frame(5 * TERM - 4096, 4096))
    stream.tracker.track(5 * TERM)
    assert stream.told == 5 * TERM


@pytest.mark.parametrize("length", [-1, 1, 31, TERM + 1, 0x7FFFFFFF, -0x80000000])
def test_a_length_that_cannot_be_is_where_the_stream_stops(kind: str, length: int) -> None:
    stream = Stream(kind)
    stream.put(0)
    stream.put(192)
    stream.terms[0].put_i32(96, length)
    assert stream.tracker.track(TERM)
    assert stream.tracker.end_position == 96


def test_a_frame_that_ends_behind_what_was_heard_of_is_there_whole(kind: str) -> None:
    stream = Stream(kind)
    stream.put(0, 1024)
    assert not stream.tracker.track(64)
    assert stream.told == 1024


def test_the_slowest_subscriber_counts_for_what_was_consumed(kind: str) -> None:
    stream = Stream(kind)
    for at in range(0, 960, 96):
        stream.put(at)
    slow, fast = stream.subscribe(1, 96), stream.subscribe(2, 480)
    stream.tracker.track(960)
    assert stream.tracker.consumption_position == 96
    assert stream.rebuilt == (480, 960)
    assert stream.tracker.highest_consumption_position(960) == 480
    assert not stream.tracker.is_drained()
    assert stream.tracker.remove_subscriber(slow)
    assert not stream.tracker.remove_subscriber(slow)
    stream.counters.put_i64(fast, 960)
    stream.tracker.track(960)
    assert stream.tracker.consumption_position == 960
    assert stream.tracker.is_drained()
    assert stream.tracker.subscriber_count == 1


def test_a_new_subscriber_joins_at_the_slowest_there_is(kind: str) -> None:
    stream = Stream(kind)
    stream.put(0)
    stream.tracker.track(96)
    assert stream.tracker.join_position() == 96
    stream.subscribe(1, 32)
    assert stream.tracker.join_position() == 32
    stream.tracker.track(96)
    stream.counters.put_i64(128, -5)
    assert stream.tracker.join_position() == 32


def test_one_of_three_subscribers_that_leaves_is_the_one_that_is_meant(kind: str) -> None:
    stream = Stream(kind)
    stream.put(0, 1024)
    places = [stream.subscribe(number, 96 * number) for number in (1, 2, 3)]
    assert stream.tracker.remove_subscriber(places[1])
    stream.counters.put_i64(places[1], 0)
    stream.tracker.track(1024)
    assert stream.tracker.consumption_position == 96
    stream.counters.put_i64(places[0], 1024)
    stream.tracker.track(1024)
    assert stream.tracker.consumption_position == 288


def test_a_position_behind_what_was_heard_of_counts_as_that(kind: str) -> None:
    stream = Stream(kind)
    stream.put(0)
    stream.subscribe(1, HUGE)
    assert not stream.tracker.track(96)
    assert stream.tracker.consumption_position == 96
    assert stream.rebuilt == (96, 96)
    assert stream.tracker.highest_consumption_position(96) == 96


def test_a_position_that_goes_back_does_not_take_back_what_was_told(kind: str) -> None:
    stream = Stream(kind)
    stream.put(0, 512)
    stream.put(512, 512)
    place = stream.subscribe(1, 512)
    stream.tracker.track(1024)
    for position in (0, -1, -HUGE, 33):
        stream.counters.put_i64(place, position)
        stream.tracker.track(1024)
        assert stream.tracker.consumption_position == 512
        assert stream.tracker.end_position == 1024


def test_the_counter_that_tells_how_much_is_there_is_never_read(kind: str) -> None:
    stream = Stream(kind)
    stream.put(0)
    stream.tracker.track(96)
    stream.counters.put_i64(0, HUGE)
    stream.put(96)
    stream.tracker.track(192)
    assert stream.told == 192


def test_what_was_read_is_zeroed_one_term_at_a_time(kind: str) -> None:
    stream = Stream(kind, TERM - 128)
    for term in stream.terms:
        term.write(0, b"\xff" * TERM)
    stream.tracker.clean_to(TERM - 128)
    stream.tracker.clean_to(0)
    assert stream.terms[0].read(0, TERM) == b"\xff" * TERM
    stream.tracker.clean_to(TERM - 64)
    assert stream.terms[0].read(TERM - 128, 128) == bytes(64) + b"\xff" * 64
    stream.tracker.clean_to(3 * TERM)
    assert stream.terms[0].read(0, TERM) == b"\xff" * (TERM - 128) + bytes(128)
    assert stream.terms[1].read(0, TERM) == b"\xff" * TERM
    stream.tracker.clean_to(3 * TERM)
    assert stream.terms[1].read(0, TERM) == bytes(TERM)
    assert stream.terms[2].read(0, TERM) == b"\xff" * TERM


@pytest.mark.parametrize("start", [-32, 16, 33])
def test_an_image_begins_at_a_frame(kind: str, start: int) -> None:
    with pytest.raises(ValueError, match="position"):
        Stream(kind, start)


def test_places_that_are_none_are_refused(kind: str) -> None:
    stream = Stream(kind)
    with pytest.raises(IndexError):
        stream.tracker.add_subscriber(stream.counters, len(stream.counters))
    with pytest.raises(ValueError, match="multiple"):
        stream.tracker.add_subscriber(stream.counters, 4)
    for lengths in ([TERM, TERM], [TERM, TERM, 64], [96, 96, 96]):
        with pytest.raises(ValueError, match="three terms"):
            stream.kind([stream.memory.allocate(n) for n in lengths], 0, (stream.counters, 0))
