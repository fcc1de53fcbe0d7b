"""Control messages that no honest client sends: the session ends or is refused, and others go on."""

from __future__ import annotations

import logging
import os
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from everlog.aeron.archive.protocol import requests as asked
from everlog.aeron.archive.protocol.codec import encode
from everlog.aeron.archive.protocol.responses import ControlResponse, RecordingDescriptorMessage, ResponseCode
from everlog.aeron.archive.service.control import sessions as sessions_module
from everlog.aeron.archive.service.control.session import MAX_QUEUED_BYTES, PAUSE_AT_BYTES, ControlSession
from everlog.aeron.archive.service.control.sessions import FRAGMENT_LIMIT
from everlog.aeron.archive.service.embedded import EmbeddedArchive
from everlog.aeron.messages import Message
from everlog.aeron.transport.client import Aeron
from tests.aeron.archive.service.live_world import (
    CONTROL_STREAM,
    CORRELATIONS,
    IPC,
    SECONDS,
    GoodClient,
    RawClient,
    launch,
    running_driver,
    until,
)

HEADER = struct.Struct("<HHHH")
INT64_MAX, INT64_MIN = (1 << 63) - 1, -(1 << 63)
INT32_MAX, INT32_MIN = (1 << 31) - 1, -(1 << 31)


class World:
    """An archive, a client that must go on, and what hostile ones need."""

    def __init__(self, archive: EmbeddedArchive, aeron: Aeron, folder: Path) -> None:
        self.archive, self.aeron, self.folder = archive, aeron, folder
        self.good = GoodClient(aeron)
        self.steady = RawClient(aeron).connect()
        """A hostile client whose session must survive: it sends what is refused."""
        self.raw: list[RawClient] = []

    def client(self, **options: Any) -> RawClient:
        self.raw.append(RawClient(self.aeron, **options))
        return self.raw[-1]

    def errors(self) -> int:
        """The archive's counter of errors."""
        return next(counter.value for counter in self.aeron.counters if counter.type_id == 101)

    def sessions(self) -> int:
        return next(counter.value for counter in self.aeron.counters if counter.type_id == 102)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("hostile")
    with running_driver() as driver, launch(driver, folder / "archive") as archive, Aeron.connect(driver) as aeron:
        world = World(archive, aeron, folder)
        yield world
        world.good.check_replay()
        world.steady.close()
        world.good.close()


@pytest.fixture
def world(running: World) -> Iterator[World]:
    """Around each test, the good client works, and nothing appears beside the archive's folder."""
    yield running
    for client in running.raw:
        client.close()
    running.raw.clear()
    running.good.check()
    until(lambda: running.sessions() == 2)
    assert running.archive.is_running
    assert os.listdir(running.folder) == ["archive"]


def changed(data: bytes, **fields: int) -> bytes:
    """A message with other fields in its header."""
    names = ("block_length", "template_id", "schema_id", "version")
    values = dict(zip(names, HEADER.unpack_from(data), strict=True)) | fields
    return HEADER.pack(*(values[name] for name in names)) + data[HEADER.size :]


STOP_POSITION = encode(asked.StopPosition(1, 2, 0))
UPDATE = encode(asked.UpdateChannel(1, 2, 0, IPC))


# Messages that can't be read


UNREADABLE = [
    (changed(STOP_POSITION, schema_id=111), True),
    (changed(STOP_POSITION, schema_id=0), True),
    (changed(STOP_POSITION, template_id=9999), False),
    (changed(STOP_POSITION, block_length=65535), True),
    (changed(STOP_POSITION, block_length=0), True),
    (changed(STOP_POSITION, block_length=8), True),
    (STOP_POSITION[:-1], True),
    (STOP_POSITION[:7], True),
    (b"\0", True),
    (UPDATE[:-1], True),
    (UPDATE[:-10], True),
    (UPDATE[: HEADER.size + 24] + struct.pack("<I", 1 << 30) + b"aeron:ipc", True),
    (UPDATE[: HEADER.size + 24] + struct.pack("<I", 0xFFFFFFFF) + b"aeron:ipc", True),
    (UPDATE[: HEADER.size + 24] + b"\1\0", True),
    (b"\xff" * 8000, True),
]
"""Messages, and whether the archive counts an error: templates of later releases are none."""


def test_a_message_that_cannot_be_read_is_counted_and_passed_over(world: World) -> None:
    client = world.steady
    for data, is_error in UNREADABLE:
        before = world.errors()
        client.send(data)
        answer = client.ask(asked.ArchiveId)
        assert isinstance(answer, ControlResponse)
        assert (answer.code, answer.relevant_id) == (ResponseCode.OK, world.archive.archive_id)
        assert (world.errors() > before) == is_error, data


def test_what_an_archive_itself_sends_is_no_request(world: World) -> None:
    for template_id in (1, 22, 23, 24, 59, 106, 101, 102, 103):
        world.steady.send(HEADER.pack(64, template_id, 101, 13) + bytes(200))
    assert isinstance(world.steady.ask(asked.ArchiveId), ControlResponse)


# Values


ABSURD: list[tuple[type[Message], tuple[Any, ...]]] = [
    (asked.ListRecording, (-1,)),
    (asked.ListRecording, (INT64_MIN,)),
    (asked.StartPosition, (INT64_MAX,)),
    (asked.StopPosition, (INT64_MIN,)),
    (asked.RecordingPosition, (-2,)),
    (asked.MaxRecordedPosition, (1 << 40,)),
    (asked.FindLastMatchingRecording, (INT64_MIN, 0, 0, IPC)),
    (asked.ListRecordings, (INT64_MAX, INT32_MAX)),
    (asked.ListRecordingsForUri, (INT64_MAX, 1, 1, "a" * 7000)),
    (asked.ListRecordingSubscriptions, (-1, 1, False, 0, "")),
    (asked.ListRecordingSubscriptions, (0, INT32_MIN, False, 0, "")),
    (asked.ListRecordingSubscriptions, (INT32_MAX, INT32_MAX, True, INT32_MIN, "\0" * 7000)),
    (asked.TruncateRecording, (0, -1)),
    (asked.TruncateRecording, (0, INT64_MIN)),
    (asked.TruncateRecording, (INT64_MAX, 0)),
    (asked.PurgeRecording, (-1,)),
    (asked.PurgeRecording, (0,)),
    (asked.DetachSegments, (0, -1)),
    (asked.DetachSegments, (0, INT64_MAX)),
    (asked.PurgeSegments, (0, INT64_MIN)),
    (asked.MigrateSegments, (0, 0)),
    (asked.MigrateSegments, (-1, INT64_MAX)),
    (asked.AttachSegments, (INT64_MIN,)),
    (asked.DeleteDetachedSegments, (INT64_MAX,)),
    (asked.UpdateChannel, (0, "")),
    (asked.UpdateChannel, (0, "\0" * 4000)),
    (asked.UpdateChannel, (0, "a" * 8000)),
    (asked.UpdateChannel, (INT64_MIN, IPC)),
    (asked.StartRecording, (1, asked.SourceLocation.LOCAL, "")),
    (asked.StartRecording, (1, asked.SourceLocation.LOCAL, "aeron:file?name=../../x")),
    (asked.StartRecording, (1, asked.SourceLocation.REMOTE, "aeron:udp?endpoint=../../x")),
    (asked.StartRecording, (1, asked.SourceLocation.REMOTE, "aeron:udp?endpoint=localhost:999999")),
    (asked.StartRecording2, (1, asked.SourceLocation.LOCAL, True, "aeron:ipc?" + "|" * 4000)),
    (asked.StartRecording2, (1, asked.SourceLocation.LOCAL, True, "aeron:udp?endpoint=" + "x" * 7900)),
    (asked.ExtendRecording, (-1, 1, asked.SourceLocation.LOCAL, IPC)),
    (asked.ExtendRecording2, (0, INT32_MIN, asked.SourceLocation.LOCAL, True, IPC)),
    (asked.StopRecording, (INT32_MIN, IPC)),
    (asked.StopRecording, (1, "")),
    (asked.StopRecordingSubscription, (INT64_MIN,)),
    (asked.StopRecordingByIdentity, (INT64_MAX,)),
    (asked.Replay, (0, INT64_MIN, INT64_MIN, 1, INT32_MIN, -1, IPC)),
    (asked.Replay, (0, 0, INT64_MIN, 1, -1, -1, IPC)),
    (asked.Replay, (0, INT64_MAX, INT64_MAX, 1, INT32_MAX, -1, IPC)),
    (asked.Replay, (0, 0, -1, 1, 1, -1, IPC)),
    (asked.Replay, (0, 0, -1, 1, -1, -1, "")),
    (asked.Replay, (0, 0, -1, 1, -1, -1, "aeron:udp?endpoint=localhost:999999")),
    (asked.Replay, (0, 0, -1, 1, -1, -1, "aeron:ipc?session-id=99999999999")),
    (asked.BoundedReplay, (0, 0, -1, INT32_MAX, 1, -1, -1, IPC)),
    (asked.BoundedReplay, (0, 0, -1, INT32_MIN, 1, -1, -1, IPC)),
    (asked.Replicate, (INT64_MIN, INT64_MIN, 1, "x", "y")),
    (asked.StopReplication, (INT64_MIN,)),
]


def test_absurd_values_are_refused(world: World) -> None:
    for kind, values in ABSURD:
        answer = world.steady.ask(kind, *values)
        assert isinstance(answer, ControlResponse), (kind, values)
        assert answer.code is not ResponseCode.OK, (kind, values)
        assert len(answer.error_message) < 8192


def test_a_list_of_no_or_fewer_recordings_has_no_answer_and_blocks_no_other(world: World) -> None:
    client = world.steady
    for count in (0, -1, INT32_MIN):
        client.send(asked.ListRecordings(client.session_id, next(CORRELATIONS), 0, count))
        assert isinstance(client.ask(asked.ListRecordings, 0, 1), RecordingDescriptorMessage)


def test_a_message_of_many_fragments_is_answered_with_a_text_of_limited_length(world: World) -> None:
    client = world.client(request_channel="aeron:ipc?term-length=1m").connect()
    answer = client.ask(asked.UpdateChannel, 0, "aeron:" + "x" * 100_000)
    assert isinstance(answer, ControlResponse)
    assert answer.error_message.startswith("URI length (100006) exceeds max supported length (4095)")
    assert len(answer.error_message) < 8192


# Sessions


def test_nobody_acts_for_the_session_of_another_client(world: World) -> None:
    honest, stranger = world.client().connect(), world.client().connect()
    for session_id in (honest.session_id, world.good.archive.control_session_id):
        for request in (
            asked.StopRecordingByIdentity(session_id, 77, world.good.recording_id),
            asked.StartRecording(session_id, 77, 4711, asked.SourceLocation.LOCAL, IPC),
            asked.StopAllReplays(session_id, 77, -1),
            asked.CloseSession(session_id),
            asked.ChallengeResponse(session_id, 77, b"me"),
            asked.KeepAlive(session_id, 77),
        ):
            stranger.send(request)
    stranger.ask(asked.ArchiveId)
    assert isinstance(honest.ask(asked.ArchiveId), ControlResponse)
    assert not [m for m in (*honest.received, *stranger.received) if getattr(m, "correlation_id", 0) == 77]
    assert world.good.archive.recording_position(world.good.recording_id) is not None
    subscriptions = [s.stream_id for s in world.good.archive.list_recording_subscriptions()]
    assert 4711 not in subscriptions


def test_sessions_that_nobody_has_are_not_answered_and_do_not_fill_the_log(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    client = world.client().connect()
    with caplog.at_level(logging.WARNING, "everlog.aeron.archive"):
        for session_id in range(500):
            client.send(asked.StopPosition(-session_id, 78, 0))
        client.ask(asked.ArchiveId)
    assert not [m for m in client.received if getattr(m, "correlation_id", 0) == 78]
    assert len(caplog.records) <= 2 * sessions_module.WARNINGS_IN_A_PERIOD + 2


def test_a_closed_session_takes_no_further_request(world: World) -> None:
    client = world.client().connect()
    client.send(asked.CloseSession(client.session_id))
    client.send(asked.StartRecording(client.session_id, 79, 4712, asked.SourceLocation.LOCAL, IPC))
    until(client.is_cut_off)
    assert 4712 not in [s.stream_id for s in world.good.archive.list_recording_subscriptions()]


@pytest.mark.long
def test_a_connect_request_with_a_wrong_channel_leaves_no_session(world: World) -> None:
    client = world.client()
    for channel in (
        "",
        "\0" * 100,
        "aeron:ipc?term-length=many",
        "aeron:ipc?term-length=17",
        "aeron:ipc?mtu=-1",
        "aeron:udp?endpoint=localhost:999999",
        "aeron:udp?endpoint=../../../x",
        "aeron:udp?control-mode=response",
        "aeron:ipc?" + "x" * 5000,
        "x" * 8000,
    ):
        errors = world.errors()
        client.request_connect(channel)
        until(lambda before=errors: world.errors() > before)  # type: ignore[misc]
        until(lambda: world.sessions() == 2)


def test_a_client_gets_no_more_memory_for_its_answers_than_a_mebibyte_a_term(world: World) -> None:
    client = world.client()
    client.ask_connect(channel="aeron:ipc?term-length=1g|sparse=false")
    (image,) = client.subscription.images
    assert image.term_buffer_length == sessions_module.MAX_RESPONSE_TERM_LENGTH


def test_a_client_of_another_major_version_is_refused(world: World) -> None:
    client = world.client()
    answer = client.ask_connect(version=2 << 16)
    assert isinstance(answer, ControlResponse)
    assert answer.code is ResponseCode.ERROR
    assert answer.error_message == "invalid client version 2.0.0, archive is 1.12.0"


def test_a_flood_of_connects_is_limited_and_goes_away(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions_module, "MAX_SESSIONS", 30)
    client = world.client()
    most = 0
    for number in range(300):
        client.send(asked.AuthConnect(-number, 900_000 + number, 68608, IPC, b"x" * 1000))
        most = max(most, world.sessions())
        if number % 100 == 99:
            world.good.check()
    until(lambda: world.sessions() == 30)
    assert most <= 30
    until(lambda: world.sessions() == 2)
    assert isinstance(world.client().connect().ask(asked.ArchiveId), ControlResponse)


def test_a_client_that_asks_and_never_reads_is_held_up_and_then_cut_off(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What waits for it stays as short as its requests are left unread."""
    most, send = [0], ControlSession._send

    def measured(session: ControlSession, data: bytes) -> None:
        send(session, data)
        most[0] = max(most[0], session._queued_bytes)

    monkeypatch.setattr(ControlSession, "_send", measured)
    client = world.client().connect()
    started = time.monotonic()
    sent = 0
    # Each is refused with a text that has the channel in it.
    request = asked.StartRecording(client.session_id, 1, 1, asked.SourceLocation.LOCAL, "aeron:" + "x" * 4000)
    while world.sessions() > 2:
        assert time.monotonic() < started + SECONDS
        if client.publication.is_connected and client.publication.offer(encode(request)) > 0:
            sent += 1
            if sent % 500 == 0:
                world.good.check()
    assert sent > 20
    longest = (8 << 10) * FRAGMENT_LIMIT  # answers to what is read in one cycle
    assert PAUSE_AT_BYTES <= most[0] < PAUSE_AT_BYTES + longest


def test_a_client_that_sends_much_before_it_reads_gets_an_answer_to_each_request(world: World) -> None:
    """It is held up, not cut off, although the answers are more than may wait for it."""
    client = world.client().connect()
    wanted = [next(CORRELATIONS) for _ in range(2_000)]
    channel = "aeron:" + "x" * 1000
    assert len(wanted) * len(channel) > MAX_QUEUED_BYTES
    sent, answered = 0, []
    deadline = time.monotonic() + 6 * SECONDS
    while len(answered) < len(wanted) and time.monotonic() < deadline:
        while sent < len(wanted):
            ids = client.session_id, wanted[sent]
            if client.publication.offer(encode(asked.StartRecording(*ids, 1, asked.SourceLocation.LOCAL, channel))) < 0:
                break
            sent += 1
        client.poll()
        found = [getattr(message, "correlation_id", 0) for message in client.received]
        answered = [each for each in found if each >= wanted[0]]
    assert answered == wanted


def test_a_client_that_does_not_say_who_it_is_gets_nothing_done(tmp_path: Path) -> None:
    """An authenticator challenges it; requests before its answer are not even refused."""

    class Asking:
        def on_connect_request(self, session_id: int, credentials: bytes, now_ms: int) -> None:
            if credentials == b"break":
                raise RuntimeError("an authenticator's fault")

        def on_connected_session(self, session: Any, now_ms: int) -> None:
            session.challenge(b"who?")

        def on_challenge_response(self, session_id: int, credentials: bytes, now_ms: int) -> None:
            pass

        def on_challenged_session(self, session: Any, now_ms: int) -> None:
            pass

    with running_driver() as driver, launch(driver, tmp_path / "a", authenticator=Asking()) as archive:
        with Aeron.connect(driver) as aeron, RawClient(aeron) as client:
            broken = client.request_connect(credentials=b"break")
            challenge = client.ask_connect()
            session_id = challenge.control_session_id  # type: ignore[attr-defined]
            for request in (
                asked.StartRecording(session_id, 1000, 4713, asked.SourceLocation.LOCAL, IPC),
                asked.ListRecordings(session_id, 1001, 0, 10),
                asked.KeepAlive(session_id, 1002),
                asked.ArchiveId(session_id, 1003),
                asked.ReplayToken(session_id, 1004, 0),
            ):
                client.send(request)
            until(client.is_cut_off)
            client.poll()
            assert {m.correlation_id for m in client.received} == {challenge.correlation_id}  # type: ignore[attr-defined]
            assert broken != challenge.correlation_id  # type: ignore[attr-defined]
            counters = {c.type_id: c.value for c in aeron.counters}
            assert counters[102] == 0
            assert counters[101] >= 1
        assert archive.is_running
    assert sorted(name for name in os.listdir(tmp_path / "a") if name.endswith(".rec")) == []


def test_a_stream_that_does_not_fit_the_recording_it_is_to_extend_is_not_held_up(world: World) -> None:
    """Not even the clients' requests, if somebody asks to extend a recording of the control stream with them."""
    client, location = world.steady, asked.SourceLocation.LOCAL
    started = client.ask(asked.StartRecording, CONTROL_STREAM, location, IPC)
    assert isinstance(started, ControlResponse)
    world.good.check()
    client.ask(asked.StopRecordingSubscription, started.relevant_id)
    found = [r for r in world.good.archive.list_recordings() if r.stream_id == CONTROL_STREAM]
    until(lambda: all(world.good.archive.stop_position(r.recording_id) is not None for r in found))
    extended = client.ask(asked.ExtendRecording, found[0].recording_id, CONTROL_STREAM, location, IPC)
    assert isinstance(extended, ControlResponse)
    assert extended.code is ResponseCode.OK
    for _ in range(1500):  # more than the window of a term of 64 KiB
        world.good.archive.start_position(world.good.recording_id)
    client.ask(asked.StopRecordingSubscription, extended.relevant_id)
