"""Lists of recordings: which are in them, their bytes, slow clients, many recordings."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from everlog.aeron.archive.format.catalog import CATALOG_NAME
from everlog.aeron.archive.format.catalog_bytes import Descriptor, encode_entry, encode_header
from everlog.aeron.archive.protocol.codec import CODEC
from everlog.aeron.archive.protocol.responses import RecordingDescriptorMessage
from everlog.aeron.archive.service.queries.listing import MAX_SCANS, RecordingAnswer, RecordingListing
from everlog.aeron.archive.writing.catalog_writer import CatalogOptions, CatalogWriter
from everlog.testing.storage.crashing import CrashingStorage
from tests.aeron.archive.service.queries.queried_archive import CHANNELS, CID, Queried, decoded
from tests.aeron.archive.service.recording.recording_world import Asker

SEGMENT = 64 << 10


@pytest.fixture
def world() -> Iterator[Queried]:
    queried = Queried()
    yield queried
    queried.archive.close()


def unknown(recording_id: int) -> tuple[str, int, int]:
    return ("unknown recording", CID, recording_id)


def listed(world: Queried, session: Any) -> list[Any]:
    """The ids of the recordings that were sent, and other answers."""
    while session is not None and not session.is_done:
        session.do_work(0)
    told = world.received()
    return [answer.recording_id if isinstance(answer, RecordingDescriptorMessage) else answer for answer in told]


@pytest.mark.parametrize(
    ("first", "count", "expected"),
    [
        (0, 3, [0, 2, 3]),
        (0, 2, [0, 2]),
        (0, 4, [0, 2, 3, unknown(4)]),
        (1, 1, [2]),
        (3, 2, [3, unknown(4)]),
        (4, 1, [unknown(4)]),
        (9, 1, [unknown(9)]),
        (-5, 1, [0]),
        (0, 0, []),
        (0, -1, []),
    ],
)
def test_a_list_has_valid_recordings_and_says_if_there_are_fewer(
    world: Queried, first: int, count: int, expected: list[Any]
) -> None:
    assert listed(world, world.queries.list_recordings(world.asker, CID, first, count)) == expected


@pytest.mark.parametrize(
    ("first", "count", "stream_id", "fragment", "expected"),
    [
        (0, 2, 10, "ipc", [0, 3]),
        (0, 1, 10, "endpoint=h:1", [2]),
        (1, 1, 10, "alias=", [3]),
        (0, 2, 10, "alias=one", [0, unknown(4)]),
        (0, 1, 11, "", [unknown(4)]),
        (0, 3, 10, "", [0, 2, 3]),
    ],
)
def test_a_list_for_a_channel_has_those_of_the_stream_with_the_fragment(
    world: Queried, first: int, count: int, stream_id: int, fragment: str, expected: list[Any]
) -> None:
    session = world.queries.list_recordings_for_uri(world.asker, CID, first, count, stream_id, fragment)
    assert listed(world, session) == expected


def test_a_descriptor_is_sent_with_the_ids_of_the_request(world: Queried) -> None:
    session = world.queries.list_recording(world.asker, CID, 2)
    assert session is not None
    assert session.do_work(0) == 1
    assert session.is_done
    (answer,) = world.received()
    times = {"start_timestamp": answer.start_timestamp, "stop_timestamp": answer.stop_timestamp}
    assert 0 < times["start_timestamp"] <= times["stop_timestamp"]
    assert answer == RecordingDescriptorMessage(
        control_session_id=77,
        correlation_id=CID,
        recording_id=2,
        **times,
        start_position=128,
        stop_position=1024,
        initial_term_id=7,
        segment_file_length=SEGMENT,
        term_buffer_length=64 << 10,
        mtu_length=1408,
        session_id=43,
        stream_id=10,
        stripped_channel="aeron:udp?endpoint=h:1",
        original_channel=CHANNELS[2],
        source_identity="h:1",
    )


def test_a_descriptor_has_the_bytes_that_the_codec_writes(world: Queried) -> None:
    session = world.queries.list_recording(world.asker, CID, 0)
    assert session is not None
    session.do_work(0)
    (sent,) = world.asker.sent
    assert sent.startswith(CODEC.encode(decoded(sent)))  # an entry ends with zeros


@pytest.mark.parametrize("recording_id", [-1, 1, 4, 5])
def test_one_recording_that_is_not_known_is_answered_at_once(world: Queried, recording_id: int) -> None:
    assert world.queries.list_recording(world.asker, CID, recording_id) is None
    assert world.received() == [unknown(recording_id)]


def test_one_recording_that_is_deleted_while_the_client_is_slow_is_unknown_then(world: Queried) -> None:
    session = world.queries.list_recording(world.asker, CID, 0)
    assert session is not None
    world.asker.room = 0
    assert session.do_work(0) == 0
    assert not session.is_done
    world.archive.catalog.set_state(0, "DELETED")
    world.asker.room = 5
    assert session.do_work(0) == 1
    assert session.is_done
    assert world.received() == [unknown(0)]


def test_a_full_stream_gets_the_rest_later_and_nothing_twice(world: Queried) -> None:
    session = world.queries.list_recordings(world.asker, CID, 0, 3)
    assert session is not None
    world.asker.room = 1
    assert session.do_work(0) == 2  # 0 was sent, 1 passed over
    assert session.do_work(0) == 0
    assert not session.is_done
    world.asker.room = 1
    session.do_work(0)
    assert not session.is_done
    world.asker.room = 1
    session.do_work(0)
    assert session.is_done
    assert [answer.recording_id for answer in world.received()] == [0, 2, 3]


@pytest.mark.parametrize("is_one", [True, False])
def test_a_list_ends_with_its_client_or_when_it_is_told_to(world: Queried, is_one: bool) -> None:
    def begin() -> Any:
        queries = world.queries
        if is_one:
            return queries.list_recording(world.asker, CID, 0)
        return queries.list_recordings(world.asker, CID, 0, 3)

    aborted, closed, left = begin(), begin(), begin()
    aborted.abort("no more")
    closed.close()
    world.asker.is_done = True
    for session in (aborted, closed, left):
        assert session.is_done
        assert session.do_work(0) == 0
    assert world.received() == []


# Many recordings

MANY = 100_000


@pytest.fixture(scope="module")
def many() -> Iterator[CatalogWriter]:
    """A catalog of very many recordings; each tenth has stream id 7."""
    text = "aeron:udp?endpoint=localhost:4000|alias=trades"
    descriptor = Descriptor(
        recording_id=0,
        start_timestamp=1,
        start_position=0,
        stop_position=0,
        stop_timestamp=2,
        initial_term_id=0,
        segment_file_length=SEGMENT,
        term_buffer_length=SEGMENT,
        mtu_length=1408,
        session_id=1,
        stream_id=1,
        stripped_channel=text,
        original_channel=text,
        source_identity=text,
    )
    entries = [
        encode_entry(replace(descriptor, recording_id=number, stream_id=7 if number % 10 == 0 else 1), "VALID")
        for number in range(MANY)
    ]
    storage = CrashingStorage()
    storage.publish(CATALOG_NAME, encode_header(MANY) + b"".join(entries), replace=False)
    with CatalogWriter.open(storage, CatalogOptions(capacity=4096)) as writer:
        yield writer


def test_one_cycle_looks_at_a_batch(many: CatalogWriter) -> None:
    asker = Asker()
    session = RecordingListing(many, asker, CID, 0, MANY, lambda entry: entry.recording_id == MAX_SCANS * 2)
    assert session.do_work(0) == MAX_SCANS
    assert session.do_work(0) == MAX_SCANS
    assert asker.sent == []
    assert session.do_work(0) == MAX_SCANS
    assert len(asker.sent) == 1


def test_a_list_that_ends_with_a_batch_ends_in_the_next_cycle(many: CatalogWriter) -> None:
    asker = Asker()
    session = RecordingListing(many, asker, CID, MANY - MAX_SCANS, MANY, lambda entry: False)
    assert session.do_work(0) == MAX_SCANS
    assert not session.is_done
    session.do_work(0)
    assert session.is_done
    assert asker.sent == [unknown(MANY)]


def test_one_of_very_many_recordings_is_found_at_once(many: CatalogWriter) -> None:
    asker = Asker()
    numbers = range(0, MANY, MANY // 200)
    started = time.perf_counter()
    for number in numbers:
        RecordingAnswer(many, asker, CID, number).do_work(0)
    took_ms = (time.perf_counter() - started) * 1000 / len(numbers)
    found: list[Any] = [CODEC.decode(message) for message in asker.sent]
    assert [message.recording_id for message in found] == list(numbers)
    assert took_ms < 2, f"{took_ms} ms"
