"""A control session: answers find their requests, whatever their order; lists, errors, deadlines and losses."""

from __future__ import annotations

import itertools
import random
from dataclasses import fields
from typing import Any

import pytest

from everlog.aeron.archive.client.errors import ArchiveTimeout, SessionLost
from everlog.aeron.archive.client.machine import calls
from everlog.aeron.archive.client.machine.session import Answered, ControlSession, Failed
from everlog.aeron.archive.client.values import ErrorResponse, ReplayParams
from everlog.aeron.archive.protocol.codec import decode, encode
from everlog.aeron.archive.protocol.recording_events import RecordingProgressMessage
from everlog.aeron.archive.protocol.requests import (
    BoundedReplay,
    Replay,
    SessionRequest,
    SourceLocation,
    StartRecording2,
)
from everlog.aeron.archive.protocol.responses import (
    Challenge,
    ControlResponse,
    Ping,
    RecordingDescriptorMessage,
    RecordingSignalEvent,
    RecordingSubscription,
    ResponseCode,
)
from everlog.aeron.archive.recording.events import RecordingSignal
from everlog.aeron.archive.recording.refusals import ArchiveError, ErrorCode
from everlog.aeron.messages import Message
from everlog.errors import CorruptData, UnknownMessage, UsageError

SESSION = 7
TIMEOUT = 1000


@pytest.fixture
def session() -> ControlSession:
    return ControlSession(SESSION, 5, 1 << 16, TIMEOUT)


def send_all(session: ControlSession) -> list[Message]:
    """Send what waits; returns it decoded."""
    found = []
    while (data := session.next_to_send()) is not None:
        found.append(decode(data))
        session.sent()
    return found


def answer(
    correlation_id: int,
    relevant_id: int = 0,
    code: ResponseCode = ResponseCode.OK,
    text: str = "",
    session: int = SESSION,
) -> bytes:
    return encode(ControlResponse(session, correlation_id, relevant_id, code, 1 << 16, text))


def descriptor(correlation_id: int, recording_id: int, stop: int = -1) -> bytes:
    numbers = (recording_id, 100, stop, 0, stop, 3, 128 << 10, 64 << 10, 1408, 11, 12)
    return encode(RecordingDescriptorMessage(SESSION, correlation_id, *numbers, "stripped", "original", "source"))


def test_a_request_is_sent_with_the_session_and_answered_under_its_id(session: ControlSession) -> None:
    session.request(calls.start_recording("aeron:ipc", 10, SourceLocation.REMOTE, auto_stop=True), 1, 0)
    assert send_all(session) == [StartRecording2(SESSION, 1, 10, SourceLocation.REMOTE, True, "aeron:ipc")]
    assert session.receive(answer(1, 99), 0) == [Answered(1, 99)]
    assert session.open_count == 0
    assert session.receive(answer(1, 98), 0) == []  # a second answer is for nobody


@pytest.mark.parametrize("seed", range(5))
def test_a_thousand_requests_in_flight_are_answered_in_any_order(session: ControlSession, seed: int) -> None:
    ids = list(range(1, 1001))
    for number in ids:
        session.request(calls.start_position(number), number, 0)
    assert [message.recording_id for message in send_all(session)] == ids
    random.Random(seed).shuffle(ids)
    for number in ids:
        assert session.receive(answer(number, 32 * number), 0) == [Answered(number, 32 * number)]
    assert session.open_count == 0


def test_a_list_ends_with_its_last_item_or_an_unknown_recording(session: ControlSession) -> None:
    session.request(calls.list_recordings(0, 2), 1, 0)
    send_all(session)
    assert session.receive(descriptor(1, 4), 0) == []
    (event,) = session.receive(descriptor(1, 6), 0)
    assert isinstance(event, Answered)
    assert [message.recording_id for message in event.value] == [4, 6]
    session.request(calls.list_recordings(0, 2), 2, 0)
    send_all(session)
    session.receive(descriptor(2, 4), 0)
    (event,) = session.receive(answer(2, 7, ResponseCode.RECORDING_UNKNOWN), 0)
    assert [message.recording_id for message in event.value] == [4]


def test_other_answers_and_signals_come_between_the_items_of_a_list(session: ControlSession) -> None:
    session.request(calls.list_recordings(0, 2), 1, 0)
    session.request(calls.stop_position(3), 2, 0)
    assert len(send_all(session)) == 2
    signal = RecordingSignalEvent(SESSION, 50, 3, 4, 64, RecordingSignal.STOP)
    assert session.receive(descriptor(1, 4), 0) == []
    assert session.receive(answer(2, -1), 0) == [Answered(2, -1)]
    assert session.receive(encode(signal), 0) == [signal]
    assert session.receive(encode(Ping(SESSION)), 0) == []
    assert len(session.receive(descriptor(1, 5), 0)) == 1


def test_lists_are_sent_one_after_the_other(session: ControlSession) -> None:
    for number in (1, 2):
        session.request(calls.list_recordings(number, 10), number, 0)
    session.request(calls.update_channel(3, "aeron:ipc"), 3, 0)
    session.request(calls.start_position(4), 4, 0)
    assert [message.correlation_id for message in send_all(session)] == [1, 4]
    session.receive(answer(1, 0, ResponseCode.RECORDING_UNKNOWN), 0)
    assert [message.correlation_id for message in send_all(session)] == [2]
    (event,) = session.receive(answer(2, 5, ResponseCode.ERROR, "no"), 0)
    assert isinstance(event, Failed)
    assert [message.correlation_id for message in send_all(session)] == [3]


def test_a_list_of_subscriptions_ends_with_an_unknown_one(session: ControlSession) -> None:
    session.request(calls.list_recording_subscriptions(0, 10, "", None), 1, 0)
    send_all(session)
    item = RecordingSubscription(SESSION, 1, 33, 10, "aeron:ipc")
    session.receive(encode(item), 0)
    assert session.receive(answer(1, 0, ResponseCode.SUBSCRIPTION_UNKNOWN), 0) == [Answered(1, [item])]


def test_an_error_has_the_archives_text_and_code(session: ControlSession) -> None:
    session.request(calls.start_position(9), 1, 0)
    send_all(session)
    (event,) = session.receive(answer(1, 5, ResponseCode.ERROR, "unknown recording id: 9"), 0)
    assert isinstance(event, Failed)
    assert isinstance(event.error, ArchiveError)
    assert (str(event.error), event.error.code) == ("unknown recording id: 9", ErrorCode.UNKNOWN_RECORDING)
    assert event.error.where == "start-position"


def test_an_unknown_error_code_is_a_generic_error(session: ControlSession) -> None:
    session.request(calls.start_position(9), 1, 0)
    (event,) = session.receive(answer(1, 4711, ResponseCode.ERROR, ""), 0)
    assert isinstance(event, Failed)
    assert isinstance(event.error, ArchiveError)
    assert (str(event.error), event.error.code) == ("error 4711", ErrorCode.GENERIC)
    assert session.next_to_send() is None  # it is not sent after its answer


@pytest.mark.parametrize(
    ("code", "text"),
    [(ResponseCode.RECORDING_UNKNOWN, "unknown recording id: 9"), (ResponseCode.SUBSCRIPTION_UNKNOWN, "unexpected")],
)
def test_the_end_of_a_list_is_no_answer_to_another_request(
    session: ControlSession, code: ResponseCode, text: str
) -> None:
    session.request(calls.start_position(9), 1, 0)
    (event,) = session.receive(answer(1, 9, code), 0)
    assert isinstance(event, Failed)
    assert text in str(event.error)


def test_ok_is_no_answer_to_a_list(session: ControlSession) -> None:
    session.request(calls.list_recording(9), 1, 0)
    (event,) = session.receive(answer(1, 9), 0)
    assert isinstance(event, Failed)


@pytest.mark.parametrize(("relevant_id", "expected"), [(4, False), (5, None)])
def test_only_the_allowed_error_is_an_answer(session: ControlSession, relevant_id: int, expected: bool | None) -> None:
    call = calls.try_stop_recording("aeron:ipc", 10)
    session.request(call, 1, 0)
    (event,) = session.receive(answer(1, relevant_id, ResponseCode.ERROR, "no"), 0)
    assert (call.result(event.value) if isinstance(event, Answered) else None) is expected
    session.request(call, 2, 0)
    (event,) = session.receive(answer(2, 0), 0)
    assert call.result(event.value) is True


def test_an_error_for_nobody_is_reported_and_ok_for_nobody_is_not(session: ControlSession) -> None:
    (event,) = session.receive(answer(44, 11, ResponseCode.ERROR, "disk is full"), 0)
    assert isinstance(event, ErrorResponse)
    assert (event.correlation_id, str(event.error)) == (44, "disk is full")
    assert session.receive(answer(-1), 0) == []  # the ping of older archives
    assert session.receive(answer(44), 0) == []


def test_messages_of_other_sessions_are_passed_over(session: ControlSession) -> None:
    session.request(calls.start_position(9), 1, 0)
    assert session.receive(answer(1, 64, session=SESSION + 1), 0) == []
    assert session.receive(answer(1, 5, ResponseCode.ERROR, "no", session=SESSION + 1), 0) == []
    assert session.receive(encode(Challenge(SESSION, 1, 0, b"who?")), 0) == []
    assert session.receive(encode(RecordingProgressMessage(1, 2, 3)), 0) == []
    assert session.open_count == 1


def test_items_that_no_list_waits_for_are_passed_over(session: ControlSession) -> None:
    session.request(calls.start_position(9), 1, 0)
    session.request(calls.list_recording_subscriptions(0, 10, "", None), 2, 0)
    for correlation_id in (1, 2, 3):
        assert session.receive(descriptor(correlation_id, 9), 0) == []
    assert session.receive(answer(2, 0, ResponseCode.SUBSCRIPTION_UNKNOWN), 0) == [Answered(2, [])]


# Hostile messages


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"", CorruptData),
        (answer(1)[:20], CorruptData),
        (answer(1)[:-1] + b"\xff", CorruptData),
        (answer(1)[:4] + b"\x6f\x00" + answer(1)[6:], UnknownMessage),
        (answer(1)[:32] + b"\x63\x00\x00\x00" + answer(1)[36:], CorruptData),
    ],
    ids=["empty", "short", "text beyond the end", "other schema", "unknown code"],
)
def test_a_message_that_breaks_the_format_is_reported_and_fails_no_request(
    session: ControlSession, data: bytes, kind: type[Exception]
) -> None:
    session.request(calls.start_position(9), 1, 0)
    (event,) = session.receive(data, 0)
    assert isinstance(event, ErrorResponse)
    assert isinstance(event.error, kind)
    assert event.correlation_id == -1
    assert session.open_count == 1


def test_an_unknown_template_is_passed_over(session: ControlSession) -> None:
    data = answer(1)
    assert session.receive(data[:2] + b"\xe7\x03" + data[4:], 0) == []


@pytest.mark.parametrize("seed", range(200))
def test_bytes_changed_at_random_never_break_the_machine(seed: int) -> None:
    source = random.Random(seed)
    session = ControlSession(SESSION, 5, 1 << 16, TIMEOUT)
    session.request(calls.list_recordings(0, 3), 1, 0)
    session.request(calls.start_position(9), 2, 0)
    pieces = [answer(2, 9), descriptor(1, 4), answer(1, 5, ResponseCode.ERROR, "no"), encode(Ping(SESSION))]
    for _ in range(50):
        data = bytearray(source.choice(pieces))
        for _ in range(source.randint(1, 4)):
            data[source.randrange(len(data))] = source.randrange(256)
        session.receive(bytes(data[: source.randint(0, len(data))]), 0)
    events = session.lose("gone")
    assert session.open_count == 0
    assert len(events) <= 2


# Ends


def test_a_request_fails_at_its_deadline(session: ControlSession) -> None:
    session.request(calls.start_position(9), 1, 0)
    send_all(session)
    session.request(calls.start_position(9), 2, 10)
    assert session.check(TIMEOUT - 1) == []
    (event,) = session.check(TIMEOUT)
    assert isinstance(event, Failed)
    assert isinstance(event.error, ArchiveTimeout)
    assert event.error.was_sent
    assert "may or may not" in str(event.error)
    (event,) = session.check(TIMEOUT + 10)
    assert isinstance(event, Failed)
    assert isinstance(event.error, ArchiveTimeout)
    assert not event.error.was_sent
    assert session.next_to_send() is None
    assert session.receive(answer(1, 64), TIMEOUT) == []  # too late


def test_each_item_renews_the_deadline_of_a_list(session: ControlSession) -> None:
    session.request(calls.list_recordings(0, 10), 1, 0)
    send_all(session)
    session.receive(descriptor(1, 0), TIMEOUT - 1)
    assert session.check(TIMEOUT) == []
    assert len(session.check(2 * TIMEOUT - 1)) == 1


def test_a_list_that_waits_for_another_one_has_its_time_after_it(session: ControlSession) -> None:
    session.request(calls.list_recordings(0, 10), 1, 0)
    session.request(calls.list_recordings(0, 10), 2, 0)
    send_all(session)
    assert [event.correlation_id for event in session.check(TIMEOUT)] == [1]
    assert len(send_all(session)) == 1
    assert session.check(2 * TIMEOUT - 1) == []
    assert [event.correlation_id for event in session.check(2 * TIMEOUT)] == [2]


def test_a_lost_session_says_of_each_request_whether_it_may_be_done(session: ControlSession) -> None:
    session.request(calls.start_position(9), 1, 0)
    session.receive(answer(1, 64), 0)
    session.request(calls.purge_recording(9), 2, 0)
    send_all(session)
    session.request(calls.purge_recording(10), 3, 0)
    errors = {
        event.correlation_id: event.error for event in session.lose("its stream has ended") if isinstance(event, Failed)
    }
    assert [(number, error.was_sent) for number, error in errors.items() if isinstance(error, SessionLost)] == [
        (2, True),
        (3, False),
    ]
    record = session.record()
    assert (record.session_id, record.reason) == (SESSION, "its stream has ended")
    assert [(each.correlation_id, each.name, each.outcome) for each in (*record.answered, *record.unanswered)] == [
        (1, "start-position", "answered"),
        (2, "purge-recording", "unanswered"),
        (3, "purge-recording", "not sent"),
    ]
    with pytest.raises(SessionLost, match="its stream has ended"):
        session.request(calls.start_position(9), 4, 0)
    assert session.next_to_send() is None


def test_a_cancelled_request_is_forgotten(session: ControlSession) -> None:
    session.request(calls.list_recordings(0, 10), 1, 0)
    session.request(calls.list_recordings(0, 10), 2, 0)
    session.cancel(2, 0)
    session.cancel(1, 0)
    session.cancel(99, 0)
    assert session.next_to_send() is None
    assert session.open_count == 0
    session.request(calls.list_recordings(0, 10), 3, 0)
    assert len(send_all(session)) == 1


def test_a_request_that_can_not_be_sent_fails_alone(session: ControlSession) -> None:
    session.request(calls.start_position(1), 1, 0)
    session.request(calls.start_position(2), 2, 0)
    error = UsageError("message", found="too long")
    assert session.unsendable(error, 0) == [Failed(1, error)]
    assert [message.correlation_id for message in send_all(session)] == [2]


# Requests


def test_every_call_is_a_request_that_the_codec_reads_back() -> None:
    replay = ReplayParams(position=64, length=128, limit_counter_id=3, file_io_max_length=4096)
    made: list[tuple[Any, tuple[Any, ...]]] = [
        (calls.start_recording("c", 1, SourceLocation.LOCAL, auto_stop=False), (1, 0, False, "c")),
        (calls.extend_recording(9, "c", 1, SourceLocation.REMOTE, auto_stop=True), (9, 1, 1, True, "c")),
        (calls.stop_recording("c", 1), (1, "c")),
        (calls.stop_recording_by_subscription(8), (8,)),
        (calls.try_stop_recording_by_identity(9), (9,)),
        (calls.replay(9, "c", 1, ReplayParams()), (9, -1, -2, 1, -1, -1, "c")),
        (calls.replay(9, "c", 1, ReplayParams(follow=True), token=77), (9, -1, -1, 1, -1, 77, "c")),
        (calls.replay(9, "c", 1, replay), (9, 64, 128, 3, 1, 4096, -1, "c")),
        (calls.stop_replay(1 << 40), (1 << 40,)),
        (calls.stop_all_replays(None), (-1,)),
        (calls.replay_token(9), (9,)),
        (calls.list_recordings(3, 4), (3, 4)),
        (calls.list_recordings_for_uri(3, 4, "frag", 1), (3, 4, 1, "frag")),
        (calls.list_recording(9), (9,)),
        (calls.list_recording_subscriptions(3, 4, "frag", 0), (3, 4, True, 0, "frag")),
        (calls.list_recording_subscriptions(3, 4, "", None), (3, 4, False, 0, "")),
        (calls.find_last_matching_recording(3, "frag", 1, 2), (3, 2, 1, "frag")),
        (calls.truncate_recording(9, 64), (9, 64)),
        (calls.migrate_segments(9, 10), (9, 10)),
        (calls.update_channel(9, "c"), (9, "c")),
    ]
    for number, (call, expected) in zip(itertools.count(1), made, strict=False):
        message = decode(encode(call.message(SESSION, number)))
        assert isinstance(message, SessionRequest)
        values = [getattr(message, field.name) for field in fields(message)]
        assert tuple(values) == (SESSION, number, *expected)
    assert isinstance(made[5][0].message(1, 1), Replay)
    assert isinstance(made[7][0].message(1, 1), BoundedReplay)


def test_a_channel_that_can_not_be_sent_as_it_is_is_refused() -> None:
    with pytest.raises(UsageError, match="ASCII"):
        calls.start_recording("aeron:ipc?alias=ä", 1, SourceLocation.LOCAL, auto_stop=False)


def test_a_number_out_of_range_is_refused_before_it_is_sent(session: ControlSession) -> None:
    with pytest.raises(UsageError):
        session.request(calls.start_position(1 << 64), 1, 0)
    assert session.open_count == 0
