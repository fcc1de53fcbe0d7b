"""Appending to a recording: messages, blocks, offers, threads, and the end of a stream."""

from __future__ import annotations

import array
import struct
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from everlog.aeron import archive as archives
from everlog.aeron.archive.archive import Archive
from everlog.errors import (
    CorruptData,
    UsageError,
    WriteFailed,
)
from everlog.testing.storage.crashing import CrashingStorage
from everlog.testing.storage.faulty_writes import FaultyWrites, WriteFaults
from tests.aeron.archive.recorded import CHANNEL, MTU, SEGMENT, STREAM, TERM, opened
from tests.aeron.archive.recording.recorded_messages import read, until
from tests.aeron.frames.framed_messages import frame, padding

# Messages


def test_each_call_tells_the_position_behind_what_it_recorded(store: Archive, kernel: str) -> None:
    recorder = store.start_recording(CHANNEL, STREAM)
    # Frames are a header of 32 bytes and the payload, up to the next multiple of 32.
    assert recorder.append(b"a" * 32) == 64
    assert recorder.append(b"", 7) == 96
    assert recorder.append_many([b"b", bytearray(b"c" * 33), memoryview(b"d")], [1, -(1 << 63), (1 << 63) - 1]) == 320
    assert recorder.append_column(b"xyyz", array.array("i", [0, 1, 3, 4]), array.array("q", [4, 5, 6])) == 512
    assert recorder.append_column(b"w", array.array("q", [0, 1])) == 576
    assert recorder.append_many([]) == 576
    assert recorder.append(b"e" * (MTU - 32 + 1)) == 576 + MTU + 64
    assert recorder.position == recorder.recorded_position == store.recorded_position(0) == 2048
    records = list(store.replay(0))
    assert [r.payload for r in records[:9]] == [
        *(b"a" * 32, b"", b"b", b"c" * 33, b"d", b"x", b"yy", b"z", b"w"),
    ]
    assert [r.fields["reserved_value"] for r in records] == [0, 7, 1, -(1 << 63), (1 << 63) - 1, 4, 5, 6, 0, 0]
    assert [int(r.address) for r in records] == [0, 64, 96, 160, 256, 320, 384, 448, 512, 576]
    assert {(r.fields["session_id"], r.fields["stream_id"], r.fields["term_id"]) for r in records} == {(-99, STREAM, 7)}


def test_a_message_is_as_long_as_an_eighth_of_a_term(store: Archive, kernel: str) -> None:
    recorder = store.start_recording(CHANNEL, STREAM)
    assert recorder.max_message_length == TERM // 8
    for refused in (
        lambda: recorder.append(bytes(TERM // 8 + 1)),
        lambda: recorder.append_many([b"fits", bytes(TERM // 8 + 1)]),
        lambda: recorder.offer(bytes(TERM // 8 + 1)),
    ):
        with pytest.raises(UsageError, match="8193"):
            refused()
    assert recorder.position == recorder.recorded_position == 0
    recorder.append(b"x" * (TERM // 8))
    assert [len(message) for message in read(store)] == [TERM // 8]


@pytest.mark.parametrize("payload", ["text", 5, None, [1]])
def test_what_is_no_message_is_refused(store: Archive, kernel: str, payload: Any) -> None:
    recorder = store.start_recording(CHANNEL, STREAM)
    with pytest.raises(UsageError):
        recorder.append(payload)
    with pytest.raises(UsageError):
        recorder.append(b"", 1 << 63)
    assert recorder.append(b"good") == 64
    assert read(store) == [b"good"]


@pytest.mark.parametrize(
    "call",
    [
        lambda recorder: recorder.append_many(None),
        lambda recorder: recorder.append_many(b"abc"),
        lambda recorder: recorder.append_many(iter([b"abc"])),
        lambda recorder: recorder.append_column(None, None),
        lambda recorder: recorder.append_column(b"abc", [0, 3]),
        lambda recorder: recorder.append_block("text"),
    ],
)
def test_arguments_of_another_type_are_told_by_name(store: Archive, kernel: str, call: Callable[[Any], Any]) -> None:
    recorder = store.start_recording(CHANNEL, STREAM)
    with pytest.raises(UsageError, match=r"payloads|offsets|block"):
        call(recorder)
    assert recorder.append(b"good") == 64


@pytest.mark.parametrize(
    ("channel", "stream", "stream_options", "name"),
    [
        (5, STREAM, {}, "channel"),
        (b"aeron:ipc", STREAM, {}, "channel"),
        (CHANNEL, "1001", {}, "stream_id"),
        (CHANNEL, 1.5, {}, "stream_id"),
        (CHANNEL, 1 << 40, {}, "stream_id"),
        ("aeron:ipc", STREAM, {"term_length": "65536"}, "term_length"),
        ("aeron:ipc", STREAM, {"term_length": 65537}, "term_length"),
        (CHANNEL, STREAM, {"mtu_length": "1408"}, "mtu_length"),
        (CHANNEL, STREAM, {"mtu_length": 1409}, "mtu_length"),
        (CHANNEL, STREAM, {"mtu_length": TERM // 8 + 32}, "mtu_length"),
        (CHANNEL, STREAM, {"position": 32.0}, "position"),
        (CHANNEL, STREAM, {"position": 33}, "position"),
        (CHANNEL, STREAM, {"source_identity": 4}, "source_identity"),
        (CHANNEL, STREAM, {"control_session_id": "4"}, "control_session_id"),
        (CHANNEL, STREAM, {"correlation_id": 1 << 63}, "correlation_id"),
    ],
)
def test_a_stream_that_can_not_be_is_refused_before_there_is_a_recording(
    store: Archive, channel: Any, stream: Any, stream_options: dict[str, Any], name: str
) -> None:
    with pytest.raises(UsageError, match=name):
        store.start_recording(channel, stream, **stream_options)
    assert list(store.recordings()) == []


@pytest.mark.parametrize(
    "stream_options", [{"control_session_id": "4"}, {"correlation_id": -1 << 64}, {"session_id": 1.0}]
)
def test_an_extension_with_ids_that_can_not_be_changes_nothing(
    store: Archive, folder: Path, stream_options: dict[str, Any]
) -> None:
    store.start_recording(CHANNEL, STREAM).stop()
    before = (folder / "archive.catalog").read_bytes()
    with pytest.raises(UsageError, match=next(iter(stream_options))):
        store.extend_recording(0, **stream_options)
    assert (folder / "archive.catalog").read_bytes() == before


@pytest.mark.parametrize("durability", ["written", "synced"])
def test_an_error_in_the_middle_of_many_tells_how_many_are_recorded(folder: Path, durability: str) -> None:
    with archives.create(folder, segment_length=SEGMENT, durability=durability) as made:
        recorder = made.start_recording(CHANNEL, STREAM)
        with pytest.raises(UsageError) as caught:
            recorder.append_many([b"one", b"two", "three", b"four"])
        assert caught.value.appended == 2
        with pytest.raises(UsageError) as caught:
            recorder.append_column(b"abc", array.array("i", [0, 1, 9]))
        assert caught.value.appended == 1
        assert recorder.recorded_position == 192
        assert read(made) == [b"one", b"two", b"a"]


def test_a_segment_that_is_full_is_followed_by_the_next_one_made_ahead(
    store: Archive, folder: Path, kernel: str
) -> None:
    recorder = store.start_recording(CHANNEL, STREAM)
    for _ in range(63):
        recorder.append(bytes(992))
    assert not (folder / f"0-{SEGMENT}.rec").exists()
    recorder.append(bytes(992))
    ahead = folder / f"0-{SEGMENT}.rec"
    assert (ahead.stat().st_size, ahead.stat().st_blocks) == (SEGMENT, 0)
    assert recorder.stop() == SEGMENT
    assert [path.name for path in sorted(folder.glob("*.rec"))] == ["0-0.rec", f"0-{SEGMENT}.rec"]


def test_a_recording_may_begin_in_mid_term_and_in_a_later_segment(store: Archive, folder: Path, kernel: str) -> None:
    recorder = store.start_recording(CHANNEL, STREAM, position=3 * TERM + 4096)
    assert recorder.append(b"first") == 3 * TERM + 4096 + 64
    assert recorder.stop() == 3 * TERM + 4160
    data = (folder / f"0-{3 * TERM}.rec").read_bytes()
    expected = frame(0, b"first", term_id=10, term_offset=4096)
    assert data == bytes(4096) + expected + bytes(SEGMENT - 4096 - len(expected))
    assert (store.start_position(0), store.stop_position(0)) == (3 * TERM + 4096, 3 * TERM + 4160)
    assert read(store) == [b"first"]


def test_blocks_are_recorded_as_they_are(store: Archive, folder: Path, kernel: str) -> None:
    first = frame(0, b"one") + frame(64, b"two", reserved=9) + frame(128, b"", kind=0, length=96)
    recorder = store.start_recording(CHANNEL, STREAM)
    assert recorder.append_block(first) == 224
    rest = frame(224, b"r" * (TERM - 224 - 32 - 64)) + padding(TERM - 64)
    assert recorder.append_block(rest + bytes(32) + frame(TERM, b"next")) == TERM + 64
    data = (folder / "0-0.rec").read_bytes()
    assert data[:128] == first[:128]
    assert data[128:160] == frame(128, b"", kind=0, length=96)
    assert data[160:224] == bytes(64)
    assert (folder / f"0-{TERM}.rec").read_bytes()[:64] == frame(TERM, b"next")


def test_a_block_with_a_wrong_frame_is_refused_with_its_place(store: Archive, kernel: str) -> None:
    recorder = store.start_recording(CHANNEL, STREAM)
    recorder.append(b"before")
    with pytest.raises(CorruptData) as caught:
        recorder.append_block(frame(64, b"good") + frame(256, b"another place"))
    assert caught.value.offset == 64
    assert recorder.append(b"behind") == 128
    assert read(store) == [b"before", b"behind"]
    filled = frame(128, b"f" * 1000) + frame(1184, b"", kind=0, length=TERM - 1184)
    with pytest.raises(CorruptData) as caught:
        recorder.append_block(filled + bytes(TERM - 1184 - 32) + frame(TERM, b"a") + frame(TERM, b"twice"))
    assert caught.value.offset == TERM - 128 + 64
    assert recorder.recorded_position == TERM


def test_what_is_offered_is_recorded_by_flush(folder: Path, kernel: str) -> None:
    with archives.create(folder, segment_length=SEGMENT, flush_interval_s=3600) as made:
        recorder = made.start_recording(CHANNEL, STREAM)
        assert [recorder.offer(b"one"), recorder.offer(b"two", 5)] == [64, 128]
        assert (recorder.position, recorder.recorded_position) == (128, 0)
        assert read(made) == []
        assert recorder.flush() == recorder.recorded_position == 128
        recorder.offer(b"three")
        assert recorder.append(b"four") == recorder.recorded_position == 256
        recorder.offer(b"five")
    with archives.open_archive(folder) as again:
        assert read(again) == [b"one", b"two", b"three", b"four", b"five"]


@pytest.mark.parametrize("durability", ["written", "synced"])
def test_what_is_offered_is_recorded_a_moment_later_by_itself(folder: Path, durability: str) -> None:
    with archives.create(folder, segment_length=SEGMENT, flush_interval_s=0.01, durability=durability) as made:
        recorders = [made.start_recording(CHANNEL, STREAM) for _ in range(3)]
        for recorder in recorders:
            recorder.offer(b"one")
        until(lambda: [recorder.recorded_position for recorder in recorders] == [64, 64, 64])
        recorders[1].offer(b"two")
        until(lambda: recorders[1].recorded_position == 128)


def test_offered_messages_that_were_lost_are_told_to_the_next_call() -> None:
    """Else the positions that offer gave would seem to be recorded when others take their place."""
    disk = FaultyWrites(CrashingStorage())
    with opened(disk, flush_interval_s=0.01) as made:
        one, two = made.start_recording(CHANNEL, STREAM), made.start_recording(CHANNEL, STREAM)
        one.append(b"before")
        disk.faults = WriteFaults(fail_at=disk.operation_count, operations=frozenset({"write"}), count=1)
        disk.operation_count = disk.faults.fail_at or 0
        assert one.offer(b"lost") == 128
        until(lambda: disk.failed == ["write 0-0.rec"])
        two.offer(b"not lost")
        until(lambda: two.recorded_position == 64)
        with pytest.raises(WriteFailed, match="no space"):
            one.append(b"refused")
        assert one.append(b"behind") == 128
        assert read(made) == [b"before", b"behind"]
        disk.faults = WriteFaults(fail_at=disk.operation_count, operations=frozenset({"write"}), count=1)
        one.offer(b"lost, too")
        until(lambda: len(disk.failed) == 2)
        disk.faults = WriteFaults()
        with pytest.raises(WriteFailed, match="no space"):
            one.stop()
        assert made.stop_position(0) == 128


def test_many_threads_share_a_recorder(folder: Path) -> None:
    with archives.create(folder, segment_length=SEGMENT, durability="synced") as made:
        recorder = made.start_recording(CHANNEL, STREAM)

        def work(name: int) -> None:
            for number in range(30):
                recorder.append(b"%d:%d" % (name, number) + b"." * 500)

        threads = [threading.Thread(target=work, args=(name,)) for name in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        found = [message.partition(b".")[0].split(b":") for message in read(made)]
    for name in range(8):
        assert [int(number) for who, number in found if int(who) == name] == list(range(30))


def test_threads_on_the_short_way_lose_nothing(store: Archive, kernel: str) -> None:
    recorder = store.start_recording(CHANNEL, STREAM)
    ends: list[int] = []

    def work(name: int) -> None:
        ends.extend(recorder.append(b"%d:%d" % (name, number)) for number in range(400))

    threads = [threading.Thread(target=work, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    recorder.append_many([b"9:0", b"9:1"])
    for thread in threads:
        thread.join()
    found = [message.split(b":") for message in read(store)]
    assert len(set(ends)) == 1600
    for name, count in [(0, 400), (1, 400), (2, 400), (3, 400), (9, 2)]:
        assert [int(number) for who, number in found if int(who) == name] == list(range(count))


# The end of a stream


@pytest.mark.parametrize("durability", ["written", "synced"])
@pytest.mark.parametrize("segment", [SEGMENT, 4 * SEGMENT])
@pytest.mark.parametrize("way", ["append", "append_many", "offer", "append_block"])
def test_a_stream_ends_at_its_max_position(folder: Path, kernel: str, durability: str, segment: int, way: str) -> None:
    end = TERM << 31
    with archives.create(folder, segment_length=segment, durability=durability) as made:
        recorder = made.start_recording("aeron:ipc?term-length=64k|init-term-id=5", STREAM, position=end - TERM)
        last = recorder.append_many([b"x" * 992] * 63)
        assert last == end - 1024

        def go_on() -> None:
            if way == "append_many":
                recorder.append_many([b"y" * 992, b"z"])
            elif way == "offer":
                recorder.offer(b"y" * 992)
                recorder.offer(b"z")
            else:
                recorder.append(b"y" * 992)
                if way == "append":
                    recorder.append(b"z")
                recorder.append_block(struct.pack("<I", 32).ljust(32, b"\0"))

        with pytest.raises(WriteFailed, match=f"max position exceeded: {end} is reached") as raised:
            go_on()
        if way == "append_many":
            assert raised.value.appended == 1
        for _ in range(2):
            with pytest.raises(WriteFailed, match="max position exceeded"):
                recorder.append(b"z")
        assert recorder.flush() == recorder.sync() == recorder.stop() == end
        assert read(made) == [b"x" * 992] * 63 + [b"y" * 992]
        with pytest.raises(UsageError, match="position"):
            made.extend_recording(0)
        with pytest.raises(UsageError, match=f"to {end - 32}"):
            made.start_recording("aeron:ipc?term-length=64k", STREAM, position=end)
    assert len(list(folder.glob("*.rec"))) == 1


def test_a_message_that_does_not_fit_before_the_max_position_is_refused(folder: Path, kernel: str) -> None:
    end = TERM << 31
    with archives.create(folder, segment_length=SEGMENT) as made:
        with made.start_recording("aeron:ipc?term-length=64k", STREAM, position=end - 64) as recorder:
            with pytest.raises(WriteFailed, match="max position exceeded"):
                recorder.append(b"x" * 100)
            assert recorder.recorded_position == end
        assert read(made) == []
