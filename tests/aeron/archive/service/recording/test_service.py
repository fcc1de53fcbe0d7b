"""The recording part of a service: what becomes of images, signals, ends, and the folder afterwards."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from everlog.aeron.archive.recording.refusals import ArchiveError
from everlog.aeron.archive.service.counters import CycleTime
from everlog.aeron.archive.service.transfers import Transferring, Transfers
from everlog.aeron.transport.client.errors import RegistrationRefused
from everlog.errors import WriteFailed
from everlog.testing.storage.crashing import CrashingStorage
from everlog.testing.storage.faulty_writes import FaultyWrites, WriteFaults
from everlog.time_units import NS_PER_S
from tests.aeron.archive.recorded import opened, quiet, recordings
from tests.aeron.archive.service.recording.recording_world import CHANNEL, Counted, World
from tests.aeron.frames.framed_messages import INITIAL_TERM, MTU, SESSION, STREAM, TERM, frame, padding

IPC = "aeron:ipc"


def messages(world: World) -> dict[int, list[bytes]]:
    return recordings(world.storage)


# Images


def test_an_image_becomes_a_recording_with_the_images_own_values() -> None:
    world = World()
    channel = CHANNEL + "|term-length=128k|mtu=1408|alias=prices"
    assert world.start(11, channel=channel) == 100
    (subscription,) = world.client.subscriptions
    assert (subscription.channel, subscription.stream_id) == (f"aeron-spy:{CHANNEL}|alias=prices", STREAM)
    world.arrive(join_position=96)
    assert world.received() == []
    world.run()
    assert world.received() == [("START", 11, 0, 100, 96)]
    recording = world.archive.recording(0)
    assert (recording.start_position, recording.stop_position, recording.state) == (96, None, "VALID")
    assert (recording.session_id, recording.stream_id) == (SESSION, STREAM)
    assert (recording.initial_term_id, recording.term_buffer_length) == (INITIAL_TERM, TERM)
    assert (recording.mtu_length, recording.segment_file_length) == (MTU, 64 << 10)
    entry = world.archive.catalog.entry(0)
    assert entry.texts == {
        "stripped_channel": f"{CHANNEL}|alias=prices",
        "original_channel": channel,
        "source_identity": "10.0.0.1:5000",
    }
    assert struct.unpack_from("<qq", entry.body)[:2] == (
        0,
        0,
    )  # Catalog.addNewRecording leaves session and correlation id


def test_segments_are_as_long_as_a_term_at_least() -> None:
    world = World(segment_length=128 << 10)
    world.start()
    world.arrive(term_buffer_length=256 << 10)
    world.arrive(term_buffer_length=64 << 10)
    world.run()
    assert [world.archive.recording(i).segment_file_length for i in (0, 1)] == [256 << 10, 128 << 10]


def test_the_position_is_a_counter_that_clients_find_by_its_key() -> None:
    world = World()
    world.start(channel=IPC + "?alias=a")
    world.arrive(join_position=96)
    world.run()
    (counter,) = world.client.counters
    assert counter.type_id == 100
    assert counter.key == struct.pack("<qii13sq", 0, SESSION, 13, b"10.0.0.1:5000", 5)
    assert counter.label == "rec-pos: 0 -99 1001 aeron:ipc?alias=a - archiveId=5"
    assert counter.value == 96


def test_each_image_of_a_subscription_is_a_recording() -> None:
    world = World()
    world.start()
    first, second = world.arrive(), world.arrive(session_id=5)
    first.blocks.append(frame(0, b"one") + frame(64, b"two"))
    second.blocks.append(frame(0, b"ten", session=5))
    world.run(2)
    assert world.received() == [("START", 1, 0, 100, 0), ("START", 1, 1, 100, 0)]
    assert messages(world) == {0: [b"one", b"two"], 1: [b"ten"]}
    assert [world.service.recording_position(i) for i in (0, 1, 2)] == [128, 64, -1]
    assert [world.service.recorded_position(i) for i in (0, 1, 2)] == [128, 64, None]
    assert [counter.value for counter in world.client.counters] == [128, 64]
    assert [world.service.is_active(i) for i in (0, 1, 2)] == [True, True, False]


def test_a_block_is_at_most_a_term_and_the_longest_io() -> None:
    world = World(file_io_max_length=128 << 10)
    world.start()
    images = [world.arrive(term_buffer_length=length << 10) for length in (64, 128, 256)]
    world.run()
    assert [image.limits for image in images] == [[64 << 10], [128 << 10], [128 << 10]]


def test_of_padding_only_the_header_is_written() -> None:
    world = World()
    world.start()
    image = world.arrive()
    start, half = TERM - 128, TERM // 2
    messages_before = frame(0, bytes(half - 32)) + frame(half, bytes(start - half - 32))
    image.blocks += [messages_before, padding(start)[:32] + b"\xff" * 96, frame(TERM, b"next")]
    world.run(3)
    assert world.service.recording_position(0) == TERM + 64
    first = world.storage.read_all("0-0.rec")
    assert first == messages_before + padding(start)[:32] + bytes(96)
    assert world.storage.read_all(f"0-{TERM}.rec") == frame(TERM, b"next").ljust(TERM, b"\0")


def test_what_comes_after_a_stop_is_not_recorded() -> None:
    world = World()
    world.start()
    world.arrive()
    world.service.stop_by_channel(world.asker, 2, STREAM, CHANNEL)
    world.arrive(0, session_id=5)
    world.run(2)
    assert world.received() == []
    assert world.archive.recordings() == []


# Ends


def test_an_image_is_recorded_to_its_end() -> None:
    world = World()
    world.start()
    image = world.arrive()
    image.blocks += [frame(0, b"one"), frame(64, b"two")]
    image.is_end_of_stream = True
    world.run(2)
    assert world.service.is_active(0)
    world.run()
    assert world.received() == [("START", 1, 0, 100, 0), ("STOP", 1, 0, 100, 128)]
    assert world.archive.stop_position(0) == 128
    assert not world.service.is_active(0)
    (counter,) = world.client.counters
    assert (counter.value, counter.is_closed) == (128, True)
    assert not world.client.subscriptions[0].is_closed
    world.arrive(session_id=5)
    world.run()
    assert world.service.is_active(1)


def test_an_image_that_is_gone_at_once_is_an_empty_recording() -> None:
    world = World()
    world.start()
    world.arrive(join_position=64, is_closed=True)
    world.run()
    assert world.received() == [("START", 1, 0, 100, 64), ("STOP", 1, 0, 100, 64)]


@pytest.mark.parametrize("by", ["channel", "subscription"])
def test_a_stop_ends_all_recordings_of_a_subscription_at_the_next_cycle(by: str) -> None:
    world = World()
    subscription_id = world.start()
    for session in (4, 5):
        world.arrive(session_id=session).blocks.append(frame(0, b"one", session=session))
    world.run()
    world.received()
    if by == "channel":
        assert world.service.stop_by_channel(world.asker, 2, STREAM, CHANNEL) == 0
    else:
        assert world.service.stop_subscription(world.asker, 2, subscription_id) == 0
    assert world.received() == []
    assert world.service.is_active(0)
    assert not world.client.subscriptions[0].is_closed
    world.run()
    assert world.received() == [("STOP", 1, 0, 100, 64), ("STOP", 1, 1, 100, 64)]
    assert world.client.subscriptions[0].is_closed
    assert all(counter.is_closed for counter in world.client.counters)
    world.start()


def test_a_stop_by_identity_ends_one_recording_and_takes_no_further_image() -> None:
    world = World()
    world.start()
    world.arrive(session_id=4)
    other = world.arrive(session_id=5)
    world.run()
    assert world.service.stop_by_identity(world.asker, 2, 0) == 1
    world.arrive(0, session_id=6)
    world.run()
    other.blocks.append(frame(0, b"on", session=5))
    world.run()
    assert [event[0:3:2] for event in world.received()] == [("START", 0), ("START", 1), ("STOP", 0)]
    assert world.service.recording_position(1) == 64
    assert world.service.stop_by_identity(world.asker, 3, 0) == 0  # it is not active any more
    assert not world.client.subscriptions[0].is_closed
    assert world.service.stop_by_identity(world.asker, 3, 1) == 0  # the subscription was stopped before
    world.run()
    assert world.client.subscriptions[0].is_closed
    assert world.received()[-1] == ("STOP", 1, 1, 100, 64)


def test_with_auto_stop_the_first_end_is_that_of_all() -> None:
    world = World()
    world.start(auto_stop=True)
    first = world.arrive(session_id=4)
    world.arrive(session_id=5)
    world.run()
    first.is_end_of_stream = True
    world.run(2)
    assert [event[0:3:2] for event in world.received()] == [("START", 0), ("START", 1), ("STOP", 0), ("STOP", 1)]
    assert world.client.subscriptions[0].is_closed
    world.start()


def test_an_extension_goes_on_in_the_same_files() -> None:
    world = World()
    world.start(channel=IPC)
    world.arrive().blocks.append(frame(0, b"one"))
    world.run()
    world.service.stop_by_channel(world.asker, 2, STREAM, IPC)
    world.run()
    world.received()
    world.asker.session_id = 78
    assert world.extend(0, 12) == 101
    image = world.arrive(join_position=64, session_id=5)
    image.blocks.append(frame(64, b"two", session=5))
    world.run()
    assert world.received() == [("EXTEND", 12, 0, 101, 64)]
    assert world.client.counters[-1].key[8:12] == struct.pack("<i", 5)
    recording = world.archive.recording(0)
    assert (recording.start_position, recording.stop_position, recording.session_id) == (0, None, 5)
    assert struct.unpack_from("<qq", world.archive.catalog.entry(0).body)[:2] == (78, 12)
    image.is_closed = True
    world.run()
    assert world.received() == [("STOP", 12, 0, 101, 128)]
    assert messages(world) == {0: [b"one", b"two"]}


def test_the_end_of_a_service_is_that_of_its_recordings() -> None:
    world = World()
    world.start()
    image = world.arrive()
    image.blocks.append(frame(0, b"one"))
    world.run()
    image.blocks.append(frame(64, b"late"))
    world.service.close()
    world.service.close()
    assert world.received() == [("START", 1, 0, 100, 0), ("STOP", 1, 0, 100, 64)]
    assert world.client.subscriptions[0].is_closed
    assert world.client.counters[0].is_closed
    world.archive.close()
    with opened(world.storage) as again:
        assert again.recovered == []
        assert again.stop_position(0) == 64


def test_after_an_abort_the_folder_is_recovered_when_it_is_opened() -> None:
    world = World()
    world.start()
    world.arrive().blocks.append(frame(0, b"one"))
    world.run()
    world.service.abort()
    world.service.close()
    world.archive.close()
    assert world.received() == [("START", 1, 0, 100, 0)]
    with opened(world.storage) as again:
        assert len(again.recovered) == 1
        assert again.stop_position(0) == 64


def test_without_a_driver_nothing_is_done() -> None:
    world = World()
    world.start()
    image = world.arrive()
    world.run()
    image.is_closed = world.client.is_closed = True
    assert world.run() == 0
    assert world.archive.stop_position(0) is None


# Faults


def failing(monkeypatch: pytest.MonkeyPatch, **options: Any) -> tuple[World, FaultyWrites]:
    quiet(monkeypatch)
    storage = FaultyWrites(CrashingStorage())
    return World(storage, **options), storage


def test_a_full_disk_ends_one_recording_at_its_last_whole_block(monkeypatch: pytest.MonkeyPatch) -> None:
    world, storage = failing(monkeypatch)
    world.start(11)
    first, second = world.arrive(session_id=4), world.arrive(session_id=5)
    for image in (first, second):
        image.blocks.append(frame(0, b"one", session=image.session_id))
    world.run()
    first.blocks.append(frame(64, b"two", session=4))
    second.blocks.append(frame(64, b"two", session=5))
    storage.faults = WriteFaults(fail_at=storage.operation_count, operations=frozenset({"write"}))
    world.received()
    world.run(2)
    error, stop = world.received()
    assert error == ("error", 11, 11, "can't write 0-0.rec: no space left on device")
    assert stop == ("STOP", 11, 0, 100, 64)
    assert [type(error) for error in world.errors] == [WriteFailed]
    assert messages(world) == {0: [b"one"], 1: [b"one", b"two"]}
    assert world.service.is_active(1)
    assert world.client.counters[0].value == 64


def test_another_fault_of_the_disk_has_no_code_of_its_own_unless_little_space_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for usable, code in ((63, 11), (64, 0)):
        world, storage = failing(monkeypatch)
        world.start(11)
        image = world.arrive()
        world.run()
        image.blocks.append(frame(0, b"one"))
        storage.faults = WriteFaults(fail_at=0, count=1, operations=frozenset({"write"}), error=5)
        storage.operation_count = 0
        world.usable_space = usable
        world.run()
        assert world.received()[1] == ("error", 11, code, "can't write 0-0.rec: input/output error")


def test_a_position_is_published_only_when_it_is_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    world, storage = failing(monkeypatch, durability="synced")
    world.start()
    image = world.arrive()
    image.blocks.append(frame(0, b"one"))
    world.run()
    assert world.client.counters[0].value == 64
    image.blocks.append(frame(64, b"two"))
    storage.faults = WriteFaults(fail_at=storage.operation_count, operations=frozenset({"sync"}), error=5)
    world.received()
    world.run()
    assert [event[0] for event in world.received()] == ["error", "STOP"]
    assert world.client.counters[0].value == 64
    assert world.archive.stop_position(0) == 64
    assert messages(world) == {0: [b"one"]}


def test_a_segment_that_is_there_already_ends_the_recording_before_it() -> None:
    world = World()
    world.storage.publish(f"0-{TERM}.rec", frame(TERM, b"of whom?").ljust(TERM, b"\0"), replace=False)
    world.start()
    image = world.arrive()
    image.blocks += [frame(0, bytes(TERM // 2 - 32)) + frame(TERM // 2, bytes(TERM // 2 - 32)), frame(TERM, b"more")]
    world.run(3)
    told = world.received()
    assert told[1][:3] == ("error", 1, 0)
    assert f"0-{TERM}.rec" in told[1][3]
    assert told[2] == ("STOP", 1, 0, 100, TERM)
    assert b"of whom?" in world.storage.read_all(f"0-{TERM}.rec")


def test_a_frame_of_another_stream_is_not_recorded() -> None:
    world = World()
    world.start()
    image = world.arrive()
    image.blocks += [frame(0, b"one"), frame(64, b"two", session=1)]
    world.run(2)
    error = world.received()[1]
    assert error[:3] == ("error", 1, 0)
    assert "session_id 1" in error[3]
    assert world.archive.stop_position(0) == 64


def test_a_recording_without_a_counter_is_ended_and_the_client_is_told() -> None:
    world = World()
    world.start(11)
    world.arrive(join_position=64)
    world.client.refusal = RegistrationRefused.of("add-counter", 0, "no more counters")
    world.run()
    (told,) = world.received()
    assert told[:3] == ("error", 11, 0)
    assert "no more counters" in told[3]
    assert world.archive.stop_position(0) == 64
    assert not world.service.is_active(0)
    assert len(world.errors) == 1


def broken_at_its_end(monkeypatch: pytest.MonkeyPatch) -> tuple[World, FaultyWrites]:
    """A recording whose stream has ended, and whose stop position can't be written."""
    world, storage = failing(monkeypatch)
    world.start()
    image = world.arrive()
    image.blocks.append(frame(0, b"one"))
    world.run()
    world.received()
    image.is_closed = True
    storage.faults = WriteFaults(
        fail_at=storage.operation_count, count=1 << 40, operations=frozenset({"write"}), error=5
    )
    world.run()
    return world, storage


def test_a_stop_position_that_cannot_be_written_is_tried_again_until_it_can(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    world, storage = broken_at_its_end(monkeypatch)
    assert [event[0] for event in world.received()] == ["error"]
    assert world.service.is_active(0)
    assert world.service.recorded_position(0) == 64
    assert world.client.counters[0].is_closed
    assert world.client.subscriptions[0].is_closed is False
    with pytest.raises(ArchiveError, match="cannot extend active recording 0"):
        world.extend(channel=IPC)
    assert world.service.quiet_until() == NS_PER_S
    for second in range(4):
        failed = len(storage.failed)
        for tenth in range(10):
            world.service.do_work(second * NS_PER_S + tenth * NS_PER_S // 10)
        assert len(storage.failed) - failed <= 1, "one attempt a second"
    assert world.received() == []
    storage.faults = WriteFaults()
    world.service.do_work(5 * NS_PER_S)
    assert world.received() == [("STOP", 1, 0, 100, 64)]
    assert world.archive.stop_position(0) == 64
    assert not world.service.is_active(0)
    lines = [record.getMessage() for record in caplog.records]
    assert lines == [
        "recording 0 stays active: its stop position can't be written, and is tried again every 1 s",
        "recording 0: its stop position, 64, is written now",
    ]
    world.extend(channel=IPC)


def test_to_other_threads_a_recording_is_active_until_its_stop_position_is_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[int | None] = []

    class Watched(Transfers):
        """Reads the position while the session is removed, as a replay in another thread may."""

        def remove(self, session: Transferring) -> None:
            seen.append(world.service.recorded_position(0))
            super().remove(session)

    cycle = CycleTime(Counted(0, "", b""), Counted(0, "", b""), NS_PER_S)  # type: ignore[arg-type]
    recorder = Watched(cycle, lambda: 0)
    world, storage = failing(monkeypatch, transfers=recorder)
    world.start()
    image = world.arrive()
    image.blocks.append(frame(0, b"one"))
    world.run()
    assert recorder.do_work(0) == 64
    image.is_closed = True
    storage.faults = WriteFaults(
        fail_at=storage.operation_count, count=1 << 40, operations=frozenset({"write"}), error=5
    )
    assert recorder.do_work(0) == 1
    world.run()
    assert seen == [64]
    assert world.service.recorded_position(0) == 64


def test_what_could_not_be_cut_off_is_cut_off_before_the_stop_position_is_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world, storage = failing(monkeypatch)
    world.start()
    image = world.arrive()
    image.blocks.append(frame(0, b"one"))
    world.run()
    image.blocks.append(frame(64, b"two"))
    storage.faults = WriteFaults(
        fail_at=0, count=1 << 40, operations=frozenset({"write", "truncate"}), error=5, part_bytes=40
    )
    storage.operation_count = 0
    world.run()
    world.service.do_work(0)
    storage.faults = WriteFaults()
    assert world.archive.catalog.recording(0).stop_position is None
    world.service.do_work(2 * NS_PER_S)
    assert world.archive.stop_position(0) == 64
    assert set(world.storage.read_all("0-0.rec")[64:]) == {0}
    assert messages(world) == {0: [b"one"]}


def test_a_stop_position_that_is_never_written_is_left_to_recovery(monkeypatch: pytest.MonkeyPatch) -> None:
    world, storage = broken_at_its_end(monkeypatch)
    world.received()
    world.service.close()
    assert world.received() == []
    storage.faults = WriteFaults()
    world.archive.abandon()
    with opened(world.storage) as again:
        assert again.stop_position(0) == 64


def test_a_recording_that_waits_for_its_stop_is_given_up_when_the_folder_has_another_owner(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world, storage = broken_at_its_end(monkeypatch)
    world.received()
    storage.faults = WriteFaults()
    world.archive._ownership.leave()
    for second in range(3):
        world.service.do_work(second * NS_PER_S)
    assert not world.service.is_active(0)
    assert world.received() == []
    assert world.archive.catalog.recording(0).stop_position is None


def test_a_recording_without_a_counter_whose_stop_cannot_be_written_is_stopped_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world, _ = failing(monkeypatch)
    world.start(11)
    world.arrive(join_position=64)
    world.client.refusal = RegistrationRefused.of("add-counter", 0, "no more counters")
    stop = world.archive.catalog.set_stop

    def fail(*_: object) -> None:
        raise WriteFailed("archive.catalog", found="a broken disk")

    monkeypatch.setattr(world.archive.catalog, "set_stop", fail)
    world.run()
    assert [each[:2] for each in world.received()] == [("error", 11)]
    assert world.service.is_active(0)
    monkeypatch.setattr(world.archive.catalog, "set_stop", stop)
    world.service.do_work(2 * NS_PER_S)
    assert world.archive.stop_position(0) == 64
    assert not world.service.is_active(0)


def test_recordings_end_when_the_folder_has_another_owner() -> None:
    world = World()
    world.start(11)
    image = world.arrive()
    world.run()
    world.archive._ownership.leave()
    image.blocks.append(frame(0, b"one"))
    world.run()
    assert [event[:3] for event in world.received()] == [("START", 11, 0), ("error", 11, 0)]
    assert not world.service.is_active(0)
    assert world.client.counters[0].is_closed
    assert world.archive.catalog.recording(0).stop_position is None
