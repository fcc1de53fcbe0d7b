"""What may not be recorded, extended or stopped: order, codes and texts are ArchiveConductor's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from everlog.aeron.archive.recording.refusals import ArchiveError, ErrorCode
from everlog.aeron.transport.client.errors import RegistrationRefused
from tests.aeron.archive.service.recording.recording_world import CHANNEL, MUCH, World
from tests.aeron.frames.framed_messages import STREAM, frame


def refusal(call: Callable[[], Any]) -> tuple[ErrorCode, str | None]:
    with pytest.raises(ArchiveError) as refused:
        call()
    return refused.value.code, refused.value.message


def stopped(**settings: Any) -> World:
    """A world with the stopped recording 0 of 64 bytes."""
    world = World(**settings)
    world.start(channel="aeron:ipc")
    world.arrive().blocks.append(frame(0, b"one"))
    world.run()
    world.service.stop_by_channel(world.asker, 3, STREAM, "aeron:ipc")
    world.run()
    world.received()
    return world


def test_recordings_are_limited_by_their_subscriptions_whether_images_come_or_not() -> None:
    world = World(max_concurrent_recordings=2)
    world.start(channel="aeron:ipc")
    world.start(channel="aeron:ipc?session-id=2")
    world.arrive(0)
    world.arrive(0, session_id=2)
    world.run()
    assert refusal(lambda: world.start()) == (ErrorCode.MAX_RECORDINGS, "max concurrent recordings reached 2")
    assert refusal(lambda: world.extend()) == (ErrorCode.MAX_RECORDINGS, "max concurrent recordings reached at 2")
    world.service.stop_by_channel(world.asker, 1, STREAM, "aeron:ipc?session-id=2")  # it never had an image
    world.start()
    assert refusal(lambda: world.start(9, 9))[0] is ErrorCode.MAX_RECORDINGS


def test_a_folder_with_little_space_left_takes_no_further_recording() -> None:
    world = stopped(low_storage_space_threshold=1000)
    low = ErrorCode.STORAGE_SPACE, "low storage threshold=1000 <= usableSpace=1000"
    world.usable_space = 1000
    assert refusal(world.start) == low
    assert refusal(world.extend) == low
    world.usable_space = 1001
    world.start()


def test_a_stream_is_recorded_once() -> None:
    world = stopped()
    channel = CHANNEL + "|mtu=1408"
    world.start()
    expected = ErrorCode.ACTIVE_SUBSCRIPTION, f"recording exists for streamId={STREAM} channel={channel}"
    assert refusal(lambda: world.start(channel=channel)) == expected
    assert refusal(lambda: world.extend(channel=channel)) == expected
    world.start(stream_id=STREAM + 1, channel=channel)


def test_the_number_is_checked_before_the_space_and_that_before_the_stream() -> None:
    world = World(max_concurrent_recordings=1, low_storage_space_threshold=1000)
    world.start()
    world.usable_space = 0
    assert refusal(world.start)[0] is ErrorCode.MAX_RECORDINGS
    world = World(max_concurrent_recordings=2, low_storage_space_threshold=1000)
    world.start()
    world.usable_space = 0
    assert refusal(world.start)[0] is ErrorCode.STORAGE_SPACE
    world.usable_space = MUCH
    assert refusal(world.start)[0] is ErrorCode.ACTIVE_SUBSCRIPTION


def test_what_the_driver_refuses_leaves_nothing() -> None:
    world = World(max_concurrent_recordings=1)
    world.client.refusal = RegistrationRefused.of("add-subscription", 1, "no")
    with pytest.raises(RegistrationRefused):
        world.start()
    with pytest.raises(ArchiveError, match="Aeron URIs must start with 'aeron:', found: udp"):
        world.start(channel="udp")
    world.client.refusal = None
    world.start()


def test_a_recording_is_extended_only_if_it_is_known_of_that_stream_and_stopped() -> None:
    world = stopped(low_storage_space_threshold=1000)
    world.usable_space = 0
    assert refusal(lambda: world.extend(9)) == (ErrorCode.UNKNOWN_RECORDING, "unknown recording id: 9")
    text = "cannot extend recording 0 with streamId=5 for existing streamId=1001"
    assert refusal(lambda: world.extend(stream_id=5)) == (ErrorCode.UNKNOWN_RECORDING, text)
    world.service.refuse_while_deleting(lambda recording_id, stop: (recording_id, stop) == (0, 64))
    text = "cannot extend recording 0 due to an outstanding delete operation"
    assert refusal(world.extend) == (ErrorCode.GENERIC, text)
    world.service.refuse_while_deleting(lambda recording_id, stop: False)
    assert refusal(world.extend)[0] is ErrorCode.STORAGE_SPACE
    world.usable_space = MUCH
    world.extend()
    world.arrive(join_position=64)
    world.run()
    text = "cannot extend active recording 0"
    assert refusal(lambda: world.extend(channel="aeron:ipc")) == (ErrorCode.ACTIVE_RECORDING, text)


def test_a_purged_recording_is_unknown() -> None:
    world = stopped()
    world.archive.purge_recording(0)
    assert refusal(world.extend) == (ErrorCode.UNKNOWN_RECORDING, "unknown recording id: 0")
    expected = ErrorCode.UNKNOWN_RECORDING, "unknown recording id: 0"
    assert refusal(lambda: world.service.stop_by_identity(world.asker, 1, 0)) == expected


def test_only_what_is_subscribed_can_be_stopped() -> None:
    world = World()
    subscription_id = world.start()
    service, asker = world.service, world.asker
    text = "no recording found for streamId=1001 channel=aeron:ipc"
    expected = ErrorCode.UNKNOWN_SUBSCRIPTION, text
    assert refusal(lambda: service.stop_by_channel(asker, 1, STREAM, "aeron:ipc")) == expected
    assert service.stop_subscription(asker, 1, subscription_id) == 0
    text = f"no recording subscription found for subscriptionId={subscription_id}"
    expected = ErrorCode.UNKNOWN_SUBSCRIPTION, text
    assert refusal(lambda: service.stop_subscription(asker, 1, subscription_id)) == expected
    assert refusal(lambda: service.stop_by_channel(asker, 1, STREAM, CHANNEL))[0] is ErrorCode.UNKNOWN_SUBSCRIPTION


def test_an_image_that_does_not_continue_the_recording_is_refused_and_the_next_one_may() -> None:
    world = stopped()
    world.extend(correlation_id=8)
    world.arrive(join_position=0)
    world.arrive(join_position=64, session_id=5)
    world.run()
    text = "cannot extend recording 0 image.joinPosition=0 != rec.stopPosition=64"
    assert world.received() == [("error", 8, 9, text), ("EXTEND", 8, 0, 101, 64)]
    assert not world.client.subscriptions[-1].is_closed
    assert [str(error) for error in world.errors] == [text]


def test_a_second_image_does_not_extend_a_recording_that_is_being_extended() -> None:
    world = stopped()
    world.extend(correlation_id=8)
    world.arrive(join_position=64)
    world.run()
    world.arrive(join_position=64, session_id=5)
    world.run()
    text = f"cannot extend active recording 0 streamId=1001 channel={CHANNEL}"
    assert world.received() == [("EXTEND", 8, 0, 101, 64), ("error", 8, 2, text)]
    assert world.service.is_active(0)


def test_an_image_waits_for_no_deletion() -> None:
    world = stopped()
    world.extend(correlation_id=8)
    world.service.refuse_while_deleting(lambda recording_id, stop: True)
    world.arrive(join_position=64)
    world.run()
    text = f"cannot extend recording 0 due to an outstanding delete operation: streamId=1001 channel={CHANNEL}"
    assert world.received() == [("error", 8, 0, text)]


def test_with_auto_stop_a_refused_image_ends_the_subscription() -> None:
    world = stopped()
    world.extend(auto_stop=True)
    world.arrive(join_position=0)
    world.run()
    assert world.client.subscriptions[-1].is_closed
    world.extend()


def test_a_stream_that_does_not_fit_its_extension_is_read_past_until_it_is_closed() -> None:
    """What is not read holds up its publisher: the client was told, and others may share the stream."""
    world = stopped()
    world.extend(channel="aeron:ipc")
    image = world.arrive(join_position=128)
    image.blocks.extend(frame(128, b"two") for _ in range(3))
    world.run(3)
    assert not image.blocks
    assert [told[:3] for told in world.received()] == [("error", 2, int(ErrorCode.INVALID_EXTENSION))]
    assert world.archive.stop_position(0) == 64
    image.is_closed = True
    world.run()
    polls = len(image.limits)
    world.run()
    assert len(image.limits) == polls


def test_what_comes_after_a_stop_by_identity_is_read_past() -> None:
    """The stopped stream, and new ones, as long as another recording keeps the subscription."""
    world = World()
    world.start(channel="aeron:ipc")
    stopped_one = world.arrive()
    world.arrive(session_id=78)
    world.run()
    world.service.stop_by_identity(world.asker, 5, 0)
    world.run()
    late = world.arrive(session_id=79)
    for image in (stopped_one, late):
        image.blocks.append(frame(0, b"one"))
    world.run()
    assert not stopped_one.blocks
    assert not late.blocks
    assert world.archive.stop_position(0) == 0
    assert (world.service.active_count, world.service.is_active(1)) == (1, True)


def test_a_stream_whose_recording_failed_is_held_up() -> None:
    """As in the original: the publisher notices that nothing is recorded any more."""
    world = World()
    world.start(channel="aeron:ipc")
    image = world.arrive()
    world.run()
    image.blocks.extend([b"no frame at all, but thirty-two bytes", frame(0, b"one")])
    world.run(3)
    assert (world.service.active_count, len(image.blocks)) == (0, 1)
