"""The blocking client: handlers, threads, full streams, archives that answer late, wrongly or never."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from everlog.aeron.archive.client import (
    AeronArchive,
    ArchiveError,
    ArchiveTimeout,
    ClientState,
    ErrorCode,
    RecordingSignal,
    RecordingSignalEvent,
    ReplayParams,
    SessionLost,
)
from everlog.aeron.archive.protocol.requests import (
    CloseSession,
    KeepAlive,
    RecordingPosition,
    Replay,
    SessionRequest,
    StartPosition,
    StopPosition,
    StopReplay,
)
from everlog.aeron.archive.protocol.responses import ControlResponse, Ping, ResponseCode
from everlog.aeron.messages import Message
from everlog.aeron.transport.client import Aeron, ExclusivePublication
from everlog.errors import Closed, DataLost, UsageError
from everlog.time_units import NS_PER_MS
from tests.aeron.archive.client.scripted_archive import ScriptedArchive, ok

Connect = Callable[..., AeronArchive]
SIGNAL = RecordingSignalEvent(1, 50, 3, 4, 64, RecordingSignal.STOP)


def until(condition: Callable[[], bool], client: AeronArchive | None = None) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        if client is not None:
            client.poll()
        time.sleep(0.001)


def test_connecting_ends_with_a_keep_alive_and_closing_with_a_goodbye(
    archive: ScriptedArchive, connect: Connect
) -> None:
    client = connect(client_name="me")
    assert (client.archive_id, client.control_session_id) == (4711, 1)
    until(lambda: archive.received[-1] == KeepAlive(1, -1))
    client.close()
    client.close()
    until(lambda: archive.received[-1] == CloseSession(1))
    with pytest.raises(Closed):
        client.start_position(1)


def test_an_archive_that_is_too_old_has_no_id(archive: ScriptedArchive, connect: Connect) -> None:
    archive.version = 1 << 16 | 10 << 8
    client = connect()
    assert client.archive_id is None
    ping = ControlResponse(1, -1, 0, ResponseCode.OK, archive.version)
    archive.do(lambda: archive.send(ping))
    archive.do(lambda: archive.send(Ping(1)))
    assert client.start_position(5) == 5
    assert client.poll_for_error_response() is None


def test_a_given_aeron_client_stays_open(archive: ScriptedArchive, place: dict[str, Any]) -> None:
    with Aeron.connect(place.pop("aeron_directory_name")) as aeron:
        with AeronArchive.connect(aeron=aeron, **place) as client:
            assert client.aeron is aeron
            assert client.start_position(5) == 5
        assert not aeron.is_closed


def test_an_aeron_client_without_a_thread_is_driven_by_the_calls(
    archive: ScriptedArchive, place: dict[str, Any]
) -> None:
    with (
        Aeron.connect(place.pop("aeron_directory_name"), use_invoker=True) as aeron,
        AeronArchive.connect(aeron=aeron, **place) as client,
    ):
        assert client.start_position(5) == 5


def test_an_archive_that_never_answers_is_a_timeout_and_others_go_on(
    archive: ScriptedArchive, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    late: list[SessionRequest] = []

    def script(archive: ScriptedArchive, message: Message) -> None:
        if isinstance(message, StopReplay):
            late.append(message)
        else:
            ok(archive, message)

    archive.script = script
    client = connect()
    with monkeypatch.context() as patch:
        # Of this request alone: on a busy machine, those that are answered may take longer.
        patch.setattr(client._core.link.session, "_timeout_ns", 200 * NS_PER_MS)
        with pytest.raises(ArchiveTimeout, match="stop-replay, correlation id") as slow:
            client.stop_replay(1)
    assert slow.value.was_sent
    archive.do(lambda: archive.answer(late[0]))  # too late, and for nobody
    assert client.start_position(5) == 5


def test_requests_wait_while_their_stream_is_full(archive: ScriptedArchive, connect: Connect) -> None:
    client = connect()
    archive.do(archive.stop_reading)
    found: list[int] = []
    threads = [
        threading.Thread(target=lambda number=number: found.append(client.start_position(number)))
        for number in range(600)
    ]
    for thread in threads:
        thread.start()
    time.sleep(0.3)
    assert found == []
    archive.read_again()
    for thread in threads:
        thread.join()
    assert sorted(found) == list(range(600))


def test_a_request_that_is_too_long_fails_alone(connect: Connect) -> None:
    client = connect()
    with pytest.raises(UsageError):
        client.start_recording("aeron:ipc?alias=" + "x" * 10_000, 10)
    assert client.start_position(5) == 5


# Signals and errors


def test_a_handler_may_call_the_client(archive: ScriptedArchive, connect: Connect) -> None:
    answers: list[int] = []
    clients: list[AeronArchive] = []
    clients.append(
        connect(on_recording_signal=lambda signal: answers.append(clients[0].start_position(signal.position)))
    )
    archive.do(lambda: archive.send(SIGNAL))
    until(lambda: clients[0].poll_for_recording_signals() == 1)
    assert answers == [64]


def test_an_error_of_a_handler_reaches_the_caller_and_nothing_is_lost(
    archive: ScriptedArchive, connect: Connect
) -> None:
    seen: list[RecordingSignalEvent] = []

    def handler(signal: RecordingSignalEvent) -> None:
        seen.append(signal)
        if len(seen) == 1:
            raise ValueError("of the handler")

    client = connect(on_recording_signal=handler)
    archive.do(lambda: [archive.send(SIGNAL) for _ in range(3)])
    with pytest.raises(ValueError, match="of the handler"):
        until(lambda: bool(seen), client)
    until(lambda: len(seen) == 3, client)
    assert client.start_position(5) == 5


def test_signals_are_iterated_over_until_the_session_ends(archive: ScriptedArchive, connect: Connect) -> None:
    client = connect()
    signals = client.recording_signals()
    archive.do(lambda: archive.send(SIGNAL))
    assert signals.take(10) == SIGNAL
    assert signals.take(0.01) is None
    archive.do(lambda: archive.send(SIGNAL))
    archive.do(archive.drop_sessions)
    assert list(signals) in ([SIGNAL], [])  # a revoked stream may lose what was not read
    assert client.state is ClientState.DISCONNECTED


def test_errors_for_nobody_are_raised_or_given_to_the_handler(archive: ScriptedArchive, connect: Connect) -> None:
    error = ControlResponse(1, 77, 11, ResponseCode.ERROR, 0, "disk is full")
    client = connect()
    archive.do(lambda: archive.send(error))
    with pytest.raises(ArchiveError, match="disk is full") as raised:
        until(lambda: client.check_for_error_response() is not None)
    assert raised.value.code is ErrorCode.STORAGE_SPACE
    archive.do(lambda: archive.send(error))
    with pytest.raises(ArchiveError, match="disk is full"):
        until(lambda: client.poll_for_recording_signals() > 0)
    archive.do(lambda: archive.send(error))
    found: list[Any] = []
    until(lambda: found.append(client.poll_for_error_response()) or found[-1] is not None)
    assert found[-1].correlation_id == 77
    seen: list[Any] = []
    other = connect(on_error=seen.append, control_response_stream_id=21)
    archive.do(lambda: archive.send(ControlResponse(2, 78, 0, ResponseCode.ERROR, 0, "no")))
    until(lambda: bool(seen), other)
    assert seen[0].correlation_id == 78
    assert other.poll_for_error_response() is None


# Losses


def test_requests_in_flight_fail_when_the_session_is_lost(archive: ScriptedArchive, connect: Connect) -> None:
    archive.script = lambda archive, _: archive.drop_sessions()
    client = connect()
    with pytest.raises(SessionLost, match="may or may not") as lost:
        client.purge_recording(3)
    assert lost.value.was_sent
    with pytest.raises(SessionLost) as lost:
        client.purge_recording(3)
    assert not lost.value.was_sent
    with pytest.raises(SessionLost):
        client.poll()
    found = client.poll_for_error_response()
    assert found is not None
    assert isinstance(found.error, SessionLost)


def test_a_new_session_is_opened_by_the_next_call_if_wanted(archive: ScriptedArchive, connect: Connect) -> None:
    client = connect(reconnect=True)
    assert client.start_position(5) == 5
    archive.do(archive.drop_sessions)
    with pytest.raises(SessionLost):
        until(lambda: client.poll() and False)
    assert client.state is ClientState.DISCONNECTED
    assert client.start_position(6) == 6
    assert client.control_session_id == 2
    (lost,) = client.lost_sessions
    assert lost.session_id == 1
    assert [each.outcome for each in lost.answered] == ["answered"]
    assert lost.unanswered == ()


def test_a_background_thread_delivers_signals_and_survives_a_loss(archive: ScriptedArchive, connect: Connect) -> None:
    seen: list[RecordingSignalEvent] = []
    client = connect(poll_interval_s=0.002, on_recording_signal=seen.append, reconnect=True)
    archive.do(lambda: archive.send(SIGNAL))
    until(lambda: len(seen) == 1)
    archive.do(archive.drop_sessions)
    until(lambda: client.state is ClientState.DISCONNECTED)
    assert client.start_position(5) == 5
    archive.do(lambda: archive.send(RecordingSignalEvent(2, 50, 3, 4, 64, RecordingSignal.STOP)))
    until(lambda: len(seen) == 2)


def test_closing_fails_the_requests_of_other_threads(archive: ScriptedArchive, connect: Connect) -> None:
    archive.script = lambda archive, message: None
    client = connect()
    errors: list[BaseException] = []

    def ask() -> None:
        try:
            client.start_position(5)
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    time.sleep(0.05)
    client.close()
    thread.join(10)
    assert isinstance(errors[0], SessionLost | Closed)


def test_the_end_of_the_aeron_client_is_a_lost_session(archive: ScriptedArchive, place: dict[str, Any]) -> None:
    aeron = Aeron.connect(place.pop("aeron_directory_name"))
    client = AeronArchive.connect(aeron=aeron, **place)
    aeron.close()
    with pytest.raises((SessionLost, Closed)):
        client.start_position(5)
    client.close()


# Replays


def test_an_older_archive_is_told_how_much_to_replay(archive: ScriptedArchive, connect: Connect) -> None:
    positions = {StartPosition: 64, RecordingPosition: -1, StopPosition: 256}

    def script(archive: ScriptedArchive, message: Message) -> None:
        if isinstance(message, SessionRequest):
            archive.answer(message, positions.get(type(message), 5))

    archive.script, archive.version = script, 1 << 16 | 11 << 8
    client = connect()
    assert client.archive_version == (1, 11, 0)
    assert client.start_replay(3, "aeron:ipc", 40) == 5
    assert client.start_replay(3, "aeron:ipc", 40, ReplayParams(position=128)) == 5
    assert client.start_replay(3, "aeron:ipc", 40, ReplayParams(follow=True)) == 5
    replays = [message for message in archive.received if isinstance(message, Replay)]
    assert [(each.position, each.length) for each in replays] == [(64, 192), (128, 128), (-1, -1)]


def test_a_newer_archive_is_left_to_find_out(archive: ScriptedArchive, connect: Connect) -> None:
    connect().start_replay(3, "aeron:ipc", 40)
    (replay,) = (message for message in archive.received if isinstance(message, Replay))
    assert (replay.position, replay.length) == (-1, -2)


def replaying(archive: ScriptedArchive, act: Callable[[ExclusivePublication], object]) -> None:
    """Answer a replay with a stream of the archive's own, on which ``act`` does something once it is received."""

    def script(archive: ScriptedArchive, message: Message) -> None:
        if not isinstance(message, Replay):
            return
        stream = archive.aeron.add_exclusive_publication(message.replay_channel, message.replay_stream_id)
        archive.answer(message, 7 << 32 | stream.session_id & 0xFFFFFFFF)
        archive.aeron.wait_until(lambda: stream.is_connected)
        act(stream)

    archive.script = script


def test_a_replay_ends_with_its_stream(archive: ScriptedArchive, connect: Connect) -> None:
    def act(stream: ExclusivePublication) -> None:
        for payload in (b"one", b"x" * 5000, b""):
            stream.send(payload)
        stream.close()

    replaying(archive, act)
    client = connect()
    with client.replay_messages(3, "aeron:ipc", 40) as replay:
        assert replay.replay_session_id >> 32 == 7
        assert [payload for payload, _ in replay] == [b"one", b"x" * 5000, b""]
    with client.replay_messages(3, "aeron:ipc", 40) as replay:
        assert sum(batch.row_count for batch in replay.batches()) == 3


@pytest.mark.parametrize("is_in_batches", [False, True])
def test_a_replay_whose_stream_has_gone_before_the_first_read_ends(
    archive: ScriptedArchive, connect: Connect, place: dict[str, Any], is_in_batches: bool
) -> None:
    come: list[int] = []
    gone: list[int] = []

    def act(stream: ExclusivePublication) -> None:
        # The driver deletes an empty stream's log at once: a client that has not mapped it by then gets no image.
        archive.aeron.wait_until(lambda: 40 in come)
        stream.close()

    replaying(archive, act)
    with Aeron.connect(
        place["aeron_directory_name"],
        on_available_image=lambda image: come.append(image.stream_id),
        on_unavailable_image=lambda image: gone.append(image.stream_id),
    ) as aeron:
        client = connect(aeron=aeron)
        with client.replay_messages(3, "aeron:ipc", 40) as replay:
            assert aeron.wait_until(lambda: 40 in gone)
            assert replay.subscription.images == ()
            assert list(replay.batches() if is_in_batches else replay) == []


def test_a_replay_that_breaks_off_is_not_taken_for_a_whole_one(archive: ScriptedArchive, connect: Connect) -> None:
    def act(stream: ExclusivePublication) -> None:
        stream.send(b"one")
        stream.revoke()

    replaying(archive, act)
    with connect().replay_messages(3, "aeron:ipc", 40) as replay, pytest.raises(DataLost, match="ended early"):
        list(replay)


def test_a_replay_that_fails_raises_the_archives_error(archive: ScriptedArchive, connect: Connect) -> None:
    def script(archive: ScriptedArchive, message: Message) -> None:
        if isinstance(message, Replay):
            archive.answer(message, 5)
            archive.answer(message, 16, ResponseCode.ERROR, "unexpected end of recording")

    archive.script = script
    client = connect()
    with client.replay_messages(3, "aeron:ipc", 40) as replay, pytest.raises(ArchiveError, match="unexpected end"):
        list(replay)
    assert client.poll_for_error_response() is None


def test_a_replay_that_never_arrives_times_out(connect: Connect) -> None:
    client = connect()
    # The request is answered: it keeps its timeout, as a busy machine may take longer.
    client._core.options = replace(client.options, message_timeout_ms=200)
    with client.replay_messages(3, "aeron:ipc", 40) as replay, pytest.raises(ArchiveTimeout, match="did not arrive"):
        list(replay)
