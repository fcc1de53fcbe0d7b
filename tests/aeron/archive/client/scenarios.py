"""Requests of a client in their order, for any archive: the real one and ours."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from everlog.aeron.archive.client import (
    AeronArchive,
    ArchiveError,
    ArchiveTimeout,
    AsyncAeronArchive,
    ErrorCode,
    RecordingSignal,
    ReplayParams,
)
from everlog.aeron.channel_uri import ChannelUri
from everlog.aeron.transport.client import ExclusivePublication

CHANNEL = "aeron:ipc?term-length=64k"
SEGMENT = 128 << 10
KILOBYTE = 992
"""With its header, a frame of 1 KiB."""
WAIT_S = 20.0
NEW = (1, 12, 0)
"""Protocol version of the releases that have all requests. EVERLOG_AERON_JAR may name one of an older release."""


def until(condition: Callable[[], bool], archive: AeronArchive | None = None) -> None:
    """Wait for something the archive does later."""
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        if archive is not None:
            archive.poll()
        time.sleep(0.001)


def publish(archive: AeronArchive, publication: ExclusivePublication, payloads: list[bytes], recording_id: int) -> int:
    """Send messages, and wait until they are recorded; returns the position after them."""
    until(lambda: publication.is_connected, archive)
    position = publication.position
    for payload in payloads:
        position = publication.send(payload)
    until(lambda: archive.recording_position(recording_id) == position)
    return position


def started(archive: AeronArchive, stream_id: int) -> int:
    """The id of the recording of a stream, once it has begun."""
    found: list[int] = []

    def is_there() -> bool:
        found[:] = [each.recording_id for each in archive.list_recordings_for_uri("ipc", stream_id)]
        return bool(found)

    until(is_there)
    return found[-1]


def recorded(archive: AeronArchive, stream_id: int, payloads: list[bytes], channel: str = CHANNEL) -> int:
    """A stopped recording of a stream with these messages."""
    publication = archive.add_recorded_exclusive_publication(channel, stream_id)
    recording_id = started(archive, stream_id)
    end = publish(archive, publication, payloads, recording_id)
    archive.stop_recording_of(publication)
    until(lambda: archive.stop_position(recording_id) == end)
    publication.close()
    return recording_id


def payloads_of(archive: AeronArchive, recording_id: int, params: ReplayParams | None = None) -> list[bytes]:
    with archive.replay_messages(recording_id, "aeron:ipc", 4000, params or ReplayParams()) as replay:
        return [payload for payload, _ in replay]


ANY_PORT = "aeron:udp?endpoint=localhost:0"


class ClientScenarios:
    """What a client asks of an archive on its own driver; the fixture ``archive`` connects it. Segments have 128
    KiB."""

    def test_a_replay_follows_an_active_recording(self, archive: AeronArchive) -> None:
        publication = archive.add_recorded_exclusive_publication(CHANNEL, 12)
        recording_id = started(archive, 12)
        publish(archive, publication, [b"one", b"two"], recording_id)
        with archive.replay_messages(recording_id, "aeron:ipc", 4000, ReplayParams(follow=True)) as replay:
            messages = iter(replay)
            assert [next(messages)[0], next(messages)[0]] == [b"one", b"two"]
            publish(archive, publication, [b"three"], recording_id)
            assert next(messages)[0] == b"three"
            archive.stop_recording_of(publication)
            assert list(messages) == []

    def test_a_bounded_replay_stops_at_its_counter(self, archive: AeronArchive) -> None:
        recording_id = recorded(archive, 13, [bytes([number]) * KILOBYTE for number in range(10)])
        limit = archive.aeron.add_counter(1001, "limit")
        limit.value = 4 * 1024
        params = ReplayParams(length=10 * 1024, limit_counter_id=limit.counter_id)
        with archive.replay_messages(recording_id, "aeron:ipc", 4000, params) as replay:
            messages = iter(replay)
            assert [next(messages)[1].position for _ in range(4)] == [1024, 2048, 3072, 4096]
            time.sleep(0.1)
            assert replay.subscription.images[0].position == 4096
            limit.value = 10 * 1024
            assert len(list(messages)) == 6

    def test_a_replay_comes_to_a_port_that_the_driver_chooses(self, archive: AeronArchive) -> None:
        recording_id = recorded(archive, 27, [b"one", b"two"])
        with archive.replay_messages(recording_id, ANY_PORT, 4000) as replay:
            assert [payload for payload, _ in replay] == [b"one", b"two"]
            low = replay.replay_session_id & 0xFFFFFFFF
            assert {image.session_id & 0xFFFFFFFF for image in replay.subscription.images} <= {low}

        async def use() -> list[bytes]:
            async with await AsyncAeronArchive.connect(archive.options, aeron=archive.aeron) as client:
                with await client.replay_messages(recording_id, ANY_PORT + "|session-id=-77", 4000) as replay:
                    return [payload async for payload, _ in replay]

        assert asyncio.run(use()) == [b"one", b"two"]

    def test_a_replay_that_is_stopped_ends(self, archive: AeronArchive) -> None:
        recording_id = recorded(archive, 14, [b"x" * KILOBYTE] * 200)
        first = archive.start_replay(recording_id, "aeron:ipc?term-length=64k", 4001)
        subscription = archive.replay(recording_id, "aeron:ipc?term-length=64k", 4002)
        until(lambda: subscription.is_connected)
        archive.stop_replay(first)
        if archive.archive_version >= NEW:
            archive.stop_replay(first)  # the archive answers OK for one that it doesn't know
        archive.stop_all_replays(recording_id)

        def is_over() -> bool:
            subscription.poll(lambda payload, header: None)  # older archives let a subscriber read what was sent
            return not subscription.is_connected

        until(is_over)
        archive.stop_all_replays()

    def test_signals_arrive_in_order(self, archive: AeronArchive) -> None:
        with archive.recording_signals() as signals:
            recording_id = recorded(archive, 15, [b"x" * KILOBYTE] * 10)
            archive.truncate_recording(recording_id, 2048)
            seen = [signals.take(WAIT_S) for _ in range(3)]
        assert [(each and (each.signal, each.recording_id, each.position)) for each in seen] == [
            (RecordingSignal.START, recording_id, 0),
            (RecordingSignal.STOP, recording_id, 10 * 1024),
            (RecordingSignal.DELETE, recording_id, -1),
        ]
        assert archive.poll_for_recording_signals() == 0

    def test_a_recording_is_extended(self, archive: AeronArchive) -> None:
        recording_id = recorded(archive, 16, [b"first"])
        descriptor = archive.list_recording(recording_id)
        assert descriptor is not None
        assert descriptor.stop_position == 64
        channel = str(
            ChannelUri.parse(CHANNEL).with_params(
                {
                    "init-term-id": str(descriptor.initial_term_id),
                    "term-id": str(descriptor.initial_term_id),
                    "term-offset": "64",
                    "mtu": str(descriptor.mtu_length),
                }
            )
        )
        publication = archive.aeron.add_exclusive_publication(channel, 16)
        with archive.recording_signals() as signals:
            archive.extend_recording(recording_id, f"{CHANNEL}|session-id={publication.session_id}", 16, auto_stop=True)
            until(lambda: archive.recording_position(recording_id) is not None)
            end = publish(archive, publication, [b"second"], recording_id)
            publication.close()
            until(lambda: archive.stop_position(recording_id) == end)
            kinds = [each.signal for each in (signals.take(WAIT_S), signals.take(WAIT_S)) if each is not None]
        assert kinds == [RecordingSignal.EXTEND, RecordingSignal.STOP]
        assert payloads_of(archive, recording_id) == [b"first", b"second"]

    def test_segments_are_detached_attached_purged_and_migrated(self, archive: AeronArchive) -> None:
        recording_id = recorded(archive, 17, [b"x" * KILOBYTE] * 400)  # three segments of 128 messages, and a part
        archive.detach_segments(recording_id, SEGMENT)
        assert archive.start_position(recording_id) == SEGMENT
        assert archive.attach_segments(recording_id) == 1
        assert archive.start_position(recording_id) == 0
        archive.detach_segments(recording_id, SEGMENT)
        with archive.recording_signals() as signals:
            assert archive.delete_detached_segments(recording_id) == 1
            assert (deleted := signals.take(WAIT_S)) is not None
            assert deleted.signal is RecordingSignal.DELETE
            assert archive.purge_segments(recording_id, 2 * SEGMENT) == 1
            assert signals.take(WAIT_S) is not None
            assert archive.start_position(recording_id) == 2 * SEGMENT
            assert archive.purge_recording(recording_id) == 2
            assert signals.take(WAIT_S) is not None
        with pytest.raises(ArchiveError, match="unknown recording id: ") as refused:
            archive.start_position(recording_id)
        assert refused.value.code is ErrorCode.UNKNOWN_RECORDING

    def test_segments_are_migrated_to_the_recording_that_follows(self, archive: AeronArchive) -> None:
        first = recorded(archive, 18, [b"x" * KILOBYTE] * 128)  # a whole segment
        descriptor = archive.list_recording(first)
        assert descriptor is not None
        term_id = descriptor.initial_term_id + 2
        channel = f"{CHANNEL}|init-term-id={descriptor.initial_term_id}|term-id={term_id}|term-offset=0"
        second = recorded(archive, 18, [b"y" * KILOBYTE] * 128, f"{channel}|mtu={descriptor.mtu_length}")
        assert (archive.start_position(second), archive.stop_position(second)) == (SEGMENT, 2 * SEGMENT)
        assert archive.migrate_segments(first, second) == 1
        assert archive.start_position(second) == 0
        assert payloads_of(archive, second) == [b"x" * KILOBYTE] * 128 + [b"y" * KILOBYTE] * 128

    def test_recordings_are_stopped_in_every_way(self, archive: AeronArchive) -> None:
        assert not archive.try_stop_recording(CHANNEL, 19)
        assert not archive.try_stop_recording_by_subscription(12345)
        with pytest.raises(ArchiveError) as refused:
            archive.stop_recording(CHANNEL, 19)
        assert refused.value.code is ErrorCode.UNKNOWN_SUBSCRIPTION
        publication = archive.aeron.add_exclusive_publication(CHANNEL, 19)
        subscription_id = archive.start_recording(CHANNEL, 19)
        recording_id = started(archive, 19)
        with pytest.raises(ArchiveError) as refused:
            archive.start_recording(CHANNEL, 19)
        assert refused.value.code is ErrorCode.ACTIVE_SUBSCRIPTION
        (listed,) = archive.list_recording_subscriptions("ipc", 19)
        assert (listed.subscription_id, listed.stream_id) == (subscription_id, 19)
        assert list(archive.list_recording_subscriptions("ipc", 20)) == []
        assert archive.try_stop_recording_by_identity(recording_id)
        until(lambda: archive.stop_position(recording_id) is not None)
        assert not archive.try_stop_recording_by_identity(recording_id)
        with pytest.raises(ArchiveError, match="not active"):
            archive.stop_recording_by_identity(recording_id)
        archive.start_recording(CHANNEL, 19)
        assert archive.try_stop_recording(CHANNEL, 19)
        archive.stop_recording_by_subscription(archive.start_recording(CHANNEL, 19))
        publication.close()

    def test_the_last_matching_recording_is_found(self, archive: AeronArchive) -> None:
        recording_id = recorded(archive, 20, [b"x"])
        descriptor = archive.list_recording(recording_id)
        assert descriptor is not None
        assert archive.find_last_matching_recording("ipc", 20, descriptor.session_id) == recording_id
        assert archive.find_last_matching_recording("udp", 20, descriptor.session_id) is None
        assert archive.list_recording(recording_id + 1) is None

    def test_the_channel_of_a_recording_is_changed(self, archive: AeronArchive) -> None:
        recording_id = recorded(archive, 20, [b"x"])
        if archive.archive_version < NEW:  # it ignores requests that it does not know
            before = list(archive.list_recordings())
            with pytest.raises(ArchiveTimeout):
                archive.update_channel(recording_id, "aeron:ipc?alias=changed")
            assert list(archive.list_recordings()) == before
            return
        archive.update_channel(recording_id, "aeron:ipc?alias=changed")
        assert [each.original_channel for each in archive.list_recordings()] == ["aeron:ipc?alias=changed"]

    def test_a_long_list_comes_in_pages(self, archive: AeronArchive) -> None:
        publications = [archive.aeron.add_exclusive_publication(CHANNEL, 21) for _ in range(17)]
        archive.start_recording(CHANNEL, 21)
        until(lambda: len(list(archive.list_recordings())) == 17)
        whole = [each.recording_id for each in archive.list_recordings()]
        assert whole == list(range(17))
        assert [each.recording_id for each in archive.list_recordings(page_size=4)] == whole
        assert [each.recording_id for each in archive.list_recordings(3, 9, page_size=4)] == whole[3:12]
        assert [each.recording_id for each in archive.list_recordings_for_uri("ipc", 21, page_size=5)] == whole
        assert list(archive.list_recordings_for_uri("udp", 21)) == []
        for publication in publications:
            publication.close()

    def test_threads_share_a_session(self, archive: AeronArchive) -> None:
        recorded(archive, 24, [b"x" * 100])
        answers: list[tuple[int, int]] = []

        def ask(number: int) -> None:
            for _ in range(20):
                try:
                    archive.start_position(number)
                except ArchiveError as error:
                    answers.append((number, int(str(error).rpartition(" ")[2])))

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(1, 9)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(answers) == 160
        assert all(asked == answered for asked, answered in answers)

    def test_a_hundred_tasks_have_their_requests_in_flight_together(self, archive: AeronArchive) -> None:
        recorded(archive, 22, [b"x" * 100])

        async def ask() -> list[Any]:
            async with await AsyncAeronArchive.connect(
                archive.options, aeron=archive.aeron, control_response_stream_id=23
            ) as client:

                async def one(number: int) -> Any:
                    if number % 4 == 0:
                        return await client.stop_position(0)
                    if number % 4 == 1:
                        return await client.start_position(0)
                    if number % 4 == 2:
                        return [each.recording_id async for each in client.list_recordings()]
                    with pytest.raises(ArchiveError, match=f"unknown recording id: {number}"):
                        await client.start_position(number)
                    return number

                return await asyncio.gather(*(one(number) for number in range(200)))

        answers = asyncio.run(ask())
        assert answers == [[160, 0, [0], number][number % 4] for number in range(200)]

    def test_asyncio_programs_record_and_replay(self, archive: AeronArchive) -> None:
        async def use() -> tuple[list[bytes], list[RecordingSignal]]:
            async with await AsyncAeronArchive.connect(archive.options, aeron=archive.aeron) as client:
                signals = client.recording_signals()
                publication = await client.add_recorded_exclusive_publication(CHANNEL, 25)
                start = await signals.take(WAIT_S)
                assert start is not None
                end = await publication.async_send(b"hello")
                while await client.recording_position(start.recording_id) != end:
                    await asyncio.sleep(0.001)
                await client.stop_recording_of(publication)
                stop = await signals.take(WAIT_S)
                assert stop is not None
                with await client.replay_messages(start.recording_id, "aeron:ipc", 4000) as replay:
                    payloads = [payload async for payload, _ in replay]
                assert await client.poll_for_recording_signals() == 0
                await client.check_for_error_response()
                return payloads, [start.signal, stop.signal]

        assert asyncio.run(use()) == ([b"hello"], [RecordingSignal.START, RecordingSignal.STOP])
