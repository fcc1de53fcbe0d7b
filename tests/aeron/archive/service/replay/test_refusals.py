"""Replays that are refused, with Aeron's codes and texts, in its order of checks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from everlog.aeron.archive.recording.refusals import ArchiveError
from everlog.aeron.transport.driver.running_driver import RunningDriver
from everlog.time_units import NS_PER_S
from tests.aeron.archive.service.recording.recording_world import Asker
from tests.aeron.archive.service.replay.replay_world import World, messages_of

START, STOP = 96, 96 + 5 * 160
MESSAGES = [bytes(100)] * 5


@pytest.fixture
def world(replay_driver: RunningDriver, tmp_path: Path) -> Iterator[World]:
    """Recording 0 is stopped, 1 active, 2 stopped and empty."""
    made = World(replay_driver, tmp_path / "archive", max_concurrent_replays=2)
    made.record(MESSAGES, position=START)
    made.start(MESSAGES, position=START)
    made.archive.start_recording("aeron:ipc", 5).stop()
    yield made
    made.close()


def refused(world: World, recording_id: int = 0, **asked: Any) -> tuple[int, str]:
    with pytest.raises(ArchiveError) as found:
        world.ask(recording_id, **asked)
    assert len(world.service) == 0
    return int(found.value.code), str(found.value.message)


def not_below(position: int, limit: int, recording_id: int) -> str:
    return (
        f"requested replay start position={position} must be less than the limit position={limit} "
        f"for recording {recording_id}"
    )


def test_more_replays_than_are_allowed(world: World) -> None:
    world.ask()
    world.ask()
    with pytest.raises(ArchiveError) as found:
        world.ask(9)
    assert (found.value.code, found.value.message) == (7, "max concurrent replays reached 2")


def test_an_unknown_recording(world: World) -> None:
    assert refused(world, 9, position=5) == (5, "unknown recording id: 9")
    assert refused(world, -1) == (5, "unknown recording id: -1")


def test_positions(world: World) -> None:
    text = "requested replay start position=5 is not a multiple of FRAME_ALIGNMENT (32) for recording 0"
    assert refused(world, position=5) == (0, text)
    text = "requested replay start position=64 is less than recording start position=96 for recording 0"
    assert refused(world, position=64) == (16, text)
    assert refused(world, position=STOP) == (16, not_below(STOP, STOP, 0))
    assert refused(world, 1, position=STOP + 32) == (16, not_below(STOP + 32, STOP, 1))


def test_a_block_length_below_the_mtu(world: World) -> None:
    text = "fileIoMaxLength=1376 < mtuLength=1408"
    assert refused(world, position=STOP - 160, file_io_max_length=1376) == (0, text)


def test_lengths(world: World) -> None:
    text = (
        "replay length must be positive: replayLength=-3, length=-3, stopPosition=896, replayPosition=256 "
        "for recording 0"
    )
    assert refused(world, position=256, length=-3) == (0, text)
    text = "When replaying and stopping the replay length must be non-zero, recordingId="
    assert refused(world, 2, length=-2) == (15, text + "2")
    assert refused(world, 1, position=STOP, length=-2) == (15, text + "1")


def test_a_channel(world: World) -> None:
    code, text = refused(world, channel="nonsense")
    assert (code, text[:33]) == (0, "failed to process replayChannel -")


def test_counters_that_are_none(world: World) -> None:
    last = world.aeron.counters.capacity - 1
    text = "unable to create replay limit counter id= {0} because of: {1}"
    outside = "counter id {0} out of range: 0 - maxCounterId={1}"
    for counter_id in (-1, last + 1):
        expected = text.format(counter_id, outside.format(counter_id, last))
        assert refused(world, 9, limit_counter_id=counter_id) == (0, expected)
    expected = text.format(last, f"ERROR - Counter id is not allocated: {last}")
    assert refused(world, limit_counter_id=last) == (0, expected)


def test_a_position_beyond_a_counter(world: World) -> None:
    counter = world.client.add_counter(1001, "limit", b"")
    counter.value = 256
    asked: dict[str, Any] = {"limit_counter_id": counter.counter_id}
    world.until(lambda: world.aeron.counters.value(counter.counter_id) == 256)
    assert refused(world, position=416, **asked) == (16, not_below(416, 256, 0))
    assert refused(world, position=256, length=-2, **asked)[0] == 15


def test_a_deletion_at_the_recordings_end(world: World) -> None:
    world.service.refuse_while_deleting(lambda recording_id, stop: (recording_id, stop) == (1, -1))
    text = "cannot start replay of recording 1 due to an outstanding delete operation"
    assert refused(world, 1) == (0, text)
    world.ask(0)
    assert len(world.service) == 1


def test_a_channel_that_the_driver_refuses(world: World) -> None:
    world.ask(channel="aeron:udp?endpoint=nowhere")
    world.until(lambda: bool(world.asker.sent))
    ((kind, correlation_id, code, text),) = world.received()
    assert (kind, correlation_id, code) == ("error", 1, 0)
    assert text.startswith("failed to create replay publication: ")
    assert len(world.service) == 0


def test_no_subscriber_in_time(world: World) -> None:
    stream_id = world.ask()
    world.until(lambda: bool(world.asker.sent))
    ((kind, _, replay_session_id),) = world.received()
    assert kind == "ok"
    world.late()
    world.work()
    ((kind, correlation_id, code, text),) = world.received()
    assert (kind, correlation_id, code) == ("error", 1, 0)
    assert text.startswith("no connection established for replayChannel=aeron:ipc?")
    end = f"replayStreamId={stream_id}, recordingId=0, replaySessionId={replay_session_id}, segmentFile=0-0.rec"
    assert text.endswith(end)
    assert [str(error) for error in world.errors]
    assert len(world.service) == 0


def test_a_position_inside_a_frame(world: World) -> None:
    world.ask(position=START + 32)
    world.until(lambda: bool(world.asker.sent))
    ((kind, _, code, text),) = world.received()
    place = "128 (segmentFilePosition=0, segmentOffset=0, termOffset=128, frameOffset=0)"
    assert (kind, code) == ("error", 16)
    assert text.startswith(f"replayPosition={place} does not point to a valid frame, recordingId=0, replaySessionId=")


def test_a_file_that_ends_before_the_position(world: World) -> None:
    with open(world.folder / "0-0.rec", "r+b") as file:
        file.truncate(START + 160 + 31)
    world.ask(position=START + 160)
    world.until(lambda: bool(world.asker.sent))
    ((kind, _, code, text),) = world.received()
    assert (kind, code) == ("error", 0)
    assert text.startswith("failed to read fragment header, recordingId=0, replaySessionId=")


def test_a_segment_file_that_is_gone(world: World) -> None:
    (world.folder / "0-0.rec").unlink()
    world.ask()
    world.until(lambda: bool(world.asker.sent))
    ((kind, _, code, text),) = world.received()
    assert (kind, code) == ("error", 0)
    assert text.startswith("recording segment file not created, recordingId=0")


@pytest.mark.parametrize(
    ("spoil", "expected"),
    [
        (b"\0\0\0\0", "unexpected end of recording at position=256 (segmentFilePosition=0, "),
        (b"\0\1\0\0", "damaged frame at position=256 (segmentFilePosition=0, "),
        (None, "unexpected end of recording at position=256 (segmentFilePosition=0, "),
    ],
    ids=["zeros", "length", "cut"],
)
def test_damage_is_told(world: World, spoil: bytes | None, expected: str) -> None:
    path = world.folder / "0-0.rec"
    data = bytearray(path.read_bytes())
    if spoil is None:
        path.write_bytes(data[: 256 + 20])
    else:
        data[256:260] = (2048).to_bytes(4, "little") if spoil[1] else spoil
        path.write_bytes(data)
    world.replay()
    world.until(lambda: len(world.asker.sent) == 2)
    ok, (kind, correlation_id, code, text) = world.received()
    assert ok[0] == "ok"
    assert (kind, correlation_id, code) == ("error", 1, 0)
    assert text.startswith(expected)
    assert len(world.service) == 0


def test_a_wrong_checksum(replay_driver: RunningDriver, tmp_path: Path) -> None:
    world = World(replay_driver, tmp_path / "archive", replay_checksum="crc32c")
    world.record(MESSAGES, session_id=77)
    world.replay()
    world.until(lambda: len(world.asker.sent) == 2)
    text = world.received()[1][3]
    assert text.startswith("CRC checksum mismatch at position=0 (segmentFilePosition=0, segmentOffset=0, ")
    assert ": recorded checksum=77, computed checksum=" in text
    world.close()


# Tokens


def test_a_token_is_valid_for_its_recording_and_the_time_to_connect(world: World) -> None:
    other = Asker(78)
    token = world.service.make_token(other, 1, 1000)
    assert token != world.service.make_token(world.asker, 1, 1000)
    assert world.service.session_for_token(token, 1, 1000) is other
    assert world.service.session_for_token(token, 1, 999 + 5 * NS_PER_S) is other
    assert world.service.session_for_token(token, 0, 1000) is None
    assert world.service.session_for_token(token + 1, 1, 1000) is None
    assert world.service.session_for_token(token, 1, 1000 + 5 * NS_PER_S) is None
    world.service.make_token(world.asker, 1, 2000)
    assert world.service.expire_tokens(1000 + 5 * NS_PER_S) == 2
    assert world.service.session_for_token(token, 1, 1000) is None


def test_the_token_of_a_session_that_has_ended_is_void(world: World) -> None:
    other = Asker(78)
    token = world.service.make_token(other, 1, 1000)
    other.is_done = True
    assert world.service.session_for_token(token, 1, 1000) is None


def test_messages_still_come_after_a_refusal(world: World) -> None:
    refused(world, 9)
    made = world.record(messages_of(1, 20))
    player = world.replay(3)
    world.until(lambda: player.found == made)
