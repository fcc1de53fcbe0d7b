"""Replays of recordings."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest

from everlog.aeron import archive as archives
from everlog.aeron.archive.archive import Archive
from everlog.errors import (
    CorruptData,
    UnknownStream,
    UsageError,
)
from tests.aeron.archive.recorded import CHANNEL, SEGMENT, STREAM
from tests.aeron.archive.recording.recorded_messages import read, until
from tests.aeron.frames.framed_messages import frame

# Replaying


def recorded(store: Archive, count: int = 200, size: int = 1000) -> list[bytes]:
    messages = [b"%d." % number + b"." * size for number in range(count)]
    with store.start_recording(CHANNEL, STREAM) as recorder:
        recorder.append_many(messages)
    return messages


def test_a_replay_begins_at_any_frame_and_is_as_long_as_asked_for(store: Archive) -> None:
    messages = recorded(store)
    ends = [0, *(record.fields["end_position"] for record in store.replay(0))]
    assert read(store, 0, ends[7]) == messages[7:]
    assert read(store, 0, ends[7], ends[9] - ends[7]) == messages[7:9]
    assert read(store, 0, ends[150]) == messages[150:]
    assert read(store, 0, ends[-1]) == []
    assert read(store, 0, 0, 0) == []
    assert read(store, 0, 0, 1 << 60) == messages
    batches = list(store.replay(0, ends[100]).batches(["payload"]))
    assert sum(batch.row_count for batch in batches) == 100


@pytest.mark.parametrize("position", [-32, 32, 33, 1 << 40, 64 << 10])
def test_a_replay_begins_nowhere_but_at_a_frame_of_the_recording(store: Archive, position: int) -> None:
    recorded(store, count=3)
    with pytest.raises(UsageError, match=rf"position .*{position}\b") as refused:
        store.replay(0, position)
    assert "recording 0" in str(refused.value)


def test_a_replay_of_an_unknown_recording_or_of_a_negative_length_is_refused(store: Archive) -> None:
    recorded(store, count=1)
    with pytest.raises(UnknownStream):
        store.replay(1)
    with pytest.raises(UsageError, match="length"):
        store.replay(0, 0, -1)


def test_positions_of_another_type_are_told_by_name(store: Archive) -> None:
    recorded(store, count=1)
    store.start_recording(CHANNEL, STREAM).stop()
    text: Any = "0"
    for call in (
        lambda: store.replay(0, text),
        lambda: store.truncate_recording(1, text),
        lambda: store.purge_segments(0, text),
        lambda: store.detach_segments(0, text),
    ):
        with pytest.raises(UsageError, match="position must be a whole number, not '0'"):
            call()
    with pytest.raises(UsageError, match="length must be a whole number, not '0'"):
        store.replay(0, 0, text)


def test_a_replay_follows_a_recording_until_it_stops(store: Archive) -> None:
    recorder = store.start_recording(CHANNEL, STREAM)
    recorder.append(b"before")
    found: list[bytes] = []
    replays = [store.replay(0, follow=True) for _ in range(3)]

    def follow(replay: Any) -> None:
        found.extend(record.payload for record in replay)

    threads = [threading.Thread(target=follow, args=(replay,)) for replay in replays]
    for thread in threads:
        thread.start()
    for number in range(300):
        recorder.append(b"%d" % number + b"." * 700)
        if number % 50 == 0:
            recorder.offer(b"offered")
            recorder.sync()
    recorder.stop()
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()
    assert len(found) == 3 * 307
    assert found.count(b"before") == 3
    assert found.count(b"offered") == 18


@pytest.mark.parametrize("way", ["append", "append_many", "flush", "sync", "stop", "close"])
def test_whoever_follows_is_woken_by_each_way_to_record(store: Archive, way: str) -> None:
    recorder = store.start_recording(CHANNEL, STREAM)
    replay = store.replay(0, follow=True)
    found: list[bytes] = []
    thread = threading.Thread(target=lambda: found.extend(record.payload for record in replay))
    thread.start()
    until(lambda: recorder.is_watched)
    if way == "append":
        recorder.append(b"x")
    elif way == "append_many":
        recorder.append_many([b"x"])
    elif way in ("flush", "sync"):
        recorder.offer(b"x")
        getattr(recorder, way)()
    if way == "close":
        replay.close()
    elif way == "stop":
        recorder.stop()
    else:
        until(lambda: found == [b"x"])
        recorder.stop()
    thread.join(20)
    assert not thread.is_alive()
    assert not recorder.is_watched


def test_a_replay_that_follows_ends_when_nothing_comes_in_time(store: Archive) -> None:
    recorder = store.start_recording(CHANNEL, STREAM)
    recorder.append(b"only")
    begun = time.monotonic()
    assert [record.payload for record in store.replay(0, follow=True, timeout_s=0.05)] == [b"only"]
    assert 0.04 < time.monotonic() - begun < 10


def test_a_message_that_is_not_whole_yet_is_given_when_it_is(store: Archive) -> None:
    recorder = store.start_recording(CHANNEL, STREAM, mtu_length=64)
    recorder.append_block(frame(0, b"whole") + frame(64, b"b" * 32, flags=0x80))
    replay = store.replay(0, follow=True)
    records = iter(replay)
    assert next(records).payload == b"whole"
    thread = threading.Timer(0.05, lambda: recorder.append_block(frame(128, b"e" * 20, flags=0x40)))
    thread.start()
    assert next(records).payload == b"b" * 32 + b"e" * 20
    thread.join()
    recorder.append_block(frame(192, b"c" * 32, flags=0x80))
    recorder.stop()
    assert next(records, None) is None
    told: list[Any] = []
    assert list(store.replay(0, 192).batches(["payload"], on_fault=told.append)) == []
    assert [(fault.code, fault.address) for fault in told] == [("incomplete-message", "192")]


def test_a_last_message_of_zeros_is_given_while_the_recording_is_active(store: Archive) -> None:
    recorder = store.start_recording(CHANNEL.replace("64k", "256k"), STREAM, mtu_length=16 << 10)
    follower = iter(store.replay(0, follow=True, timeout_s=10))
    recorder.append_block(frame(0, bytes(12 << 10)))
    assert next(follower).payload == bytes(12 << 10)
    assert read(store) == [bytes(12 << 10)]
    end = recorder.recorded_position
    assert read(store, 0, end) == []
    recorder.append(b"behind it")
    assert next(follower).payload == b"behind it"
    assert read(store) == [bytes(12 << 10), b"behind it"]


def test_replays_at_once_do_not_disturb_each_other(store: Archive) -> None:
    messages = recorded(store)
    first, second = iter(store.replay(0)), iter(store.replay(0, 0))
    for message in messages:
        assert next(first).payload == message
        assert next(second).payload == message
    assert next(first, None) is None


def test_damage_is_an_error_or_told_and_passed_over(store: Archive, folder: Path) -> None:
    messages = recorded(store, count=60)
    with (folder / "0-0.rec").open("r+b") as file:
        file.seek(10 * 1056)
        file.write(b"\xff" * 4)
    with pytest.raises(CorruptData):
        read(store)
    told: list[Any] = []
    batches = list(store.replay(0).batches(["payload"], on_fault=told.append))
    found = [payload for batch in batches for payload in batch.to_list("payload")]
    assert found == [*messages[:10], *messages[11:]]
    assert [fault.address for fault in told] == ["10560"]


def test_a_replay_of_a_recording_with_checksums_checks_them(folder: Path) -> None:
    with archives.create(folder, segment_length=SEGMENT, checksum="crc32c") as made:
        recorded(made, count=20)
        with (folder / "0-0.rec").open("r+b") as file:
            file.seek(5000)
            file.write(b"!")
        with pytest.raises(CorruptData, match="checksum"):
            read(made)
