"""Replays of real recordings to subscribers on our own driver: every message, every position, and how they end."""

from __future__ import annotations

from pathlib import Path

import pytest

from everlog.aeron.transport.client import ExclusivePublication
from everlog.aeron.transport.driver.running_driver import RunningDriver
from tests.aeron.archive.service.replay.replay_world import SEGMENT, World, messages_of


def ok_of(world: World, correlation_id: int = 1) -> int:
    """The replay session id that the client was told."""
    world.until(lambda: bool(world.asker.sent))
    ((kind, asked, replay_session_id),) = world.received()
    assert (kind, asked) == ("ok", correlation_id)
    return int(replay_session_id)


def test_a_recording_is_replayed_to_its_end(world: World) -> None:
    made = world.record(messages_of(1, 800))
    assert made[-1][1] > 4 * SEGMENT
    player = world.replay()
    replay_session_id = ok_of(world)
    world.until(lambda: bool(player.ends))
    assert player.found == made
    assert player.ends == [False]
    assert replay_session_id >> 32 == 1
    assert world.service.replays_of(0) == []
    assert world.archive.replays.positions_of(0) == []
    assert (world.received(), world.errors) == ([], [])


@pytest.mark.parametrize("file_io_max_length", [1408, 1440, 5000])
def test_any_block_length_serves(world: World, file_io_max_length: int) -> None:
    made = world.record(messages_of(2, 300))
    player = world.replay(file_io_max_length=file_io_max_length)
    world.until(lambda: bool(player.ends))
    assert player.found == made


def test_a_replay_begins_at_a_frame_and_ends_after_its_length(world: World) -> None:
    made = world.record(messages_of(3, 400), position=SEGMENT + 96)
    begin, end = made[99][1], made[299][1]
    player = world.replay(position=begin, length=end - begin)
    replay_session_id = ok_of(world)
    world.until(lambda: len(player.subscription.images) == 1)
    image = player.subscription.images[0]
    assert (image.join_position, image.initial_term_id, image.mtu_length) == (begin, -7, 1408)
    assert image.session_id & 0xFFFFFFFF == replay_session_id & 0xFFFFFFFF
    world.until(lambda: bool(player.ends))
    assert player.found == made[100:300]


def test_a_session_id_of_the_channel_is_the_replays(world: World) -> None:
    world.record(messages_of(3, 4))
    player = world.replay(channel="aeron:ipc?session-id=-4711|alias=mine")
    assert ok_of(world) == 1 << 32 | -4711 & 0xFFFFFFFF
    world.until(lambda: bool(player.ends))
    assert len(player.found) == 4


def test_over_udp(world: World) -> None:
    made = world.record(messages_of(4, 100))
    player = world.replay(channel="aeron:udp?endpoint=localhost:24791")
    world.until(lambda: len(player.found) == len(made))
    assert player.found == made


@pytest.mark.parametrize("checksum", ["crc32", "crc32c"])
def test_checksums_are_replaced_by_the_session_id(replay_driver: RunningDriver, tmp_path: Path, checksum: str) -> None:
    world = World(replay_driver, tmp_path / "archive", checksum=checksum, replay_checksum=checksum)
    made = world.record(messages_of(5, 100))
    player = world.replay()
    world.until(lambda: bool(player.ends))
    assert player.found == made
    world.close()


def test_a_growing_recording_is_followed_to_where_it_stops(world: World) -> None:
    made = world.start(messages_of(6, 50))
    player = world.replay()
    ok_of(world)
    world.until(lambda: player.found == made)
    for seed in range(5):
        made += world.append(0, messages_of(seed, 60))
        world.until(lambda: player.found == made)  # noqa: B023, run at once
    made += world.append(0, messages_of(9, 60))
    world.end()
    world.until(lambda: bool(player.ends))
    assert player.found == made
    assert player.ends == [False]


def test_a_recording_without_a_message_is_followed(world: World) -> None:
    world.start([])
    player = world.replay()
    ok_of(world)
    made = world.append(0, messages_of(6, 5))
    world.until(lambda: player.found == made)


def test_an_empty_recording_is_replayed_by_an_end_of_stream(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.record([], position=96)
    player = world.replay()
    # The driver soon deletes an empty stream's log: a client that has not mapped it by then gets no image.
    has_image = property(lambda publication: len(player.subscription.images) > 0)
    monkeypatch.setattr(ExclusivePublication, "is_connected", has_image, raising=False)
    ok_of(world)
    world.until(lambda: bool(player.ends))
    assert (player.found, player.ends, world.errors) == ([], [False], [])


def test_all_that_is_there_now(world: World) -> None:
    made = world.start(messages_of(6, 50))
    player = world.replay(length=-2)
    ok_of(world)
    world.append(0, messages_of(7, 5))
    world.until(lambda: bool(player.ends))
    assert player.found == made


def test_a_bounded_replay_goes_as_far_as_its_counter(world: World) -> None:
    made = world.record(messages_of(8, 200))
    counter = world.client.add_counter(1001, "limit", b"")
    counter.value = made[49][1]
    player = world.replay(limit_counter_id=counter.counter_id)
    ok_of(world)
    world.until(lambda: len(player.found) == 50)
    counter.value = made[149][1] + 16  # inside a frame
    world.until(lambda: len(player.found) == 150)
    for _ in range(20):
        world.work()
    assert player.found == made[:150]
    assert not player.ends
    counter.close()
    world.until(lambda: bool(player.ends))
    assert player.found == made[:150]
    assert player.ends == [False]


def test_a_counter_beyond_the_recording_bounds_nothing(world: World) -> None:
    made = world.start(messages_of(8, 20))
    counter = world.client.add_counter(1001, "limit", b"")
    counter.value = 1 << 40
    player = world.replay(limit_counter_id=counter.counter_id)
    world.until(lambda: player.found == made)
    made += world.append(0, messages_of(9, 20))
    world.until(lambda: player.found == made)
    world.end()
    world.until(lambda: bool(player.ends))
    assert player.found == made


def test_the_place_of_a_counter_that_is_used_again_bounds_no_more(world: World) -> None:
    made = world.record(messages_of(8, 20))
    counter = world.client.add_counter(1001, "limit", b"")
    counter.value = made[9][1]
    counter_id = counter.counter_id
    player = world.replay(limit_counter_id=counter_id)
    world.until(lambda: len(player.found) == 10)
    at = counter_id * 128 + 8  # its registration id
    world.aeron.counters.values.put_i64(at, counter.registration_id + 1)
    counter.value = made[19][1]
    world.until(lambda: bool(player.ends))
    assert player.found == made[:10]


def test_a_stopped_replay_is_revoked(world: World) -> None:
    world.start(messages_of(6, 50))
    player = world.replay()
    replay_session_id = ok_of(world)
    world.until(lambda: len(player.found) == 50)
    world.service.stop(replay_session_id + 1)
    world.work()
    assert len(world.service) == 1
    world.service.stop(replay_session_id)
    world.until(lambda: bool(player.ends))
    assert player.ends == [True]
    assert (len(world.service), world.received(), world.errors) == (0, [], [])


def test_all_replays_of_a_recording_or_of_all_are_stopped(world: World) -> None:
    for _ in range(3):
        world.start(messages_of(6, 5))
    players = [world.replay(recording_id) for recording_id in (0, 1, 1, 2)]
    world.until(lambda: [len(player.found) for player in players] == [5] * 4)
    world.service.stop_all(1)
    world.until(lambda: [len(player.ends) for player in players] == [0, 1, 1, 0])
    world.service.stop_all(-1)
    world.until(lambda: [len(player.ends) for player in players] == [1, 1, 1, 1])


def test_a_subscriber_that_is_gone_ends_its_replay(world: World) -> None:
    world.start(messages_of(6, 5))
    player = world.replay()
    world.until(lambda: len(player.found) == 5)
    world.players.clear()
    player.subscription.close()
    world.until(lambda: len(world.service) == 0)
    assert world.errors == []


def test_maintenance_knows_of_a_replay_from_its_request_on(world: World) -> None:
    made = world.record(messages_of(1, 300))
    player = world.replay(position=made[100][1])
    base = made[100][1] // SEGMENT * SEGMENT
    (found,) = world.service.replays_of(0)
    assert (found.state_name, found.segment_base) == ("INIT", base)
    assert world.archive.replays.positions_of(0) == [(made[100][1], base)]
    world.until(lambda: bool(player.found))
    world.service.end_replays_of(0)
    world.until(lambda: bool(player.ends) and not world.service.replays_of(0))
    assert world.archive.replays.positions_of(0) == []


def test_a_replay_that_is_stopped_before_it_began_is_refused(world: World) -> None:
    world.record(messages_of(1, 3))
    world.ask()
    world.service.end_replays_of(0)
    world.work()
    assert world.received() == [("error", 1, 0, "replay aborted")]
    assert len(world.service) == 0
