"""Connecting to an archive, state by state, to archives of several versions, with challenges and refusals."""

from __future__ import annotations

import itertools

import pytest

from everlog.aeron.archive.client.credentials import Credentials
from everlog.aeron.archive.client.errors import ArchiveTimeout
from everlog.aeron.archive.client.machine.connecting import Connecting, ConnectRequest, State, StreamsSeen
from everlog.aeron.archive.protocol.codec import PROTOCOL_VERSION, decode, encode
from everlog.aeron.archive.protocol.requests import ArchiveId, AuthConnect, ChallengeResponse, CloseSession, KeepAlive
from everlog.aeron.archive.protocol.responses import Challenge, ControlResponse, Ping, ResponseCode
from everlog.aeron.archive.recording.refusals import ArchiveError, ErrorCode
from everlog.errors import CorruptData, UnknownMessage

SESSION = 7
TIMEOUT = 1000
CONNECTED = StreamsSeen(
    has_subscription=True,
    has_publication=True,
    is_publication_connected=True,
    is_subscription_connected=True,
    response_channel="aeron:udp?endpoint=me:40123",
)


def connecting() -> Connecting:
    request = ConnectRequest(
        response_stream_id=20,
        credentials=Credentials(b"secret", lambda challenge: b"answer to " + challenge),
        client_info="name=test",
        message_timeout_ns=TIMEOUT,
        next_correlation_id=itertools.count(100).__next__,
    )
    return Connecting(request, 0)


def asked() -> Connecting:
    """A connect whose request was sent."""
    machine = connecting()
    machine.step(CONNECTED, 0)
    machine.sent()
    machine.step(CONNECTED, 0)
    assert machine.state is State.AWAIT_CONNECT_RESPONSE
    return machine


def answer(
    correlation_id: int,
    relevant_id: int = SESSION,
    code: ResponseCode = ResponseCode.OK,
    text: str = "",
    version: int = 1,
) -> bytes:
    return encode(ControlResponse(SESSION, correlation_id, relevant_id, code, version, text))


def sent(machine: Connecting) -> object:
    assert machine.outgoing is not None
    message = decode(machine.outgoing)
    machine.sent()
    return message


def test_each_state_waits_for_what_it_needs() -> None:
    machine = connecting()
    steps = [
        (StreamsSeen(), State.AWAIT_SUBSCRIPTION),
        (StreamsSeen(has_subscription=True), State.ADD_PUBLICATION),
        (StreamsSeen(has_subscription=True, has_publication=True), State.AWAIT_PUBLICATION_CONNECTED),
        (
            StreamsSeen(has_subscription=True, has_publication=True, is_publication_connected=True),
            State.SEND_CONNECT_REQUEST,
        ),
    ]
    for streams, state in steps:
        machine.step(streams, 0)
        assert machine.state is state
        assert machine.outgoing is None
    machine.step(CONNECTED, 0)
    assert sent(machine) == AuthConnect(
        100, 20, PROTOCOL_VERSION, "aeron:udp?endpoint=me:40123", b"secret", "name=test"
    )
    assert machine.state is State.AWAIT_SUBSCRIPTION_CONNECTED
    machine.step(CONNECTED, 0)
    assert machine.state is State.AWAIT_CONNECT_RESPONSE
    assert machine.outgoing is None


def test_an_archive_of_this_version_is_asked_for_its_id() -> None:
    machine = asked()
    machine.receive(answer(100, version=PROTOCOL_VERSION))
    assert sent(machine) == ArchiveId(SESSION, 101)
    machine.receive(answer(100, version=PROTOCOL_VERSION))  # it is repeated until something comes
    machine.receive(encode(Ping(SESSION)))
    assert machine.outgoing is None
    machine.receive(answer(101, 55))
    assert machine.session is None
    assert sent(machine) == KeepAlive(SESSION, -1)
    assert machine.state is State.DONE
    assert machine.session is not None
    assert (machine.session.session_id, machine.session.archive_id) == (SESSION, 55)
    assert machine.session.version == PROTOCOL_VERSION


def test_an_older_archive_is_not_asked_for_its_id() -> None:
    machine = asked()
    machine.receive(answer(100, version=1 << 16 | 10 << 8 | 9))
    assert sent(machine) == KeepAlive(SESSION, -1)
    assert machine.session is not None
    assert machine.session.archive_id is None


def test_an_answer_may_come_before_the_subscription_is_seen_connected() -> None:
    machine = connecting()
    machine.step(CONNECTED, 0)
    machine.sent()
    machine.receive(answer(100, version=1))
    assert machine.state is State.SEND_KEEP_ALIVE


def test_a_challenge_is_answered_and_may_be_repeated() -> None:
    machine = asked()
    machine.receive(encode(Challenge(SESSION, 100, 1, b"one")))
    assert sent(machine) == ChallengeResponse(SESSION, 101, b"answer to one")
    assert machine.state is State.AWAIT_CHALLENGE_RESPONSE
    machine.receive(encode(Challenge(SESSION, 101, 1, b"two")))
    assert sent(machine) == ChallengeResponse(SESSION, 102, b"answer to two")
    machine.receive(answer(102, version=1))
    assert sent(machine) == KeepAlive(SESSION, -1)


def test_a_refusal_is_raised_and_the_session_closed() -> None:
    machine = asked()
    with pytest.raises(ArchiveError, match="authentication rejected") as refused:
        machine.receive(answer(100, 10, ResponseCode.ERROR, "authentication rejected"))
    assert refused.value.code is ErrorCode.AUTHENTICATION_REJECTED
    assert machine.farewell is not None
    assert decode(machine.farewell) == CloseSession(SESSION)


def test_answers_to_others_are_passed_over() -> None:
    machine = asked()
    machine.receive(answer(99, version=1))
    machine.receive(answer(-1))
    machine.receive(answer(99, 10, ResponseCode.ERROR, "no"))
    machine.receive(encode(Challenge(SESSION, 99, 1, b"one")))
    data = answer(100)
    machine.receive(data[:2] + b"\xe7\x03" + data[4:])  # of an unknown template
    assert machine.state is State.AWAIT_CONNECT_RESPONSE


def test_messages_of_another_schema_or_cut_ones_are_errors() -> None:
    data = answer(100)
    with pytest.raises(UnknownMessage):
        asked().receive(data[:4] + b"\x6f\x00" + data[6:])
    with pytest.raises(CorruptData):
        asked().receive(data[:20])


def test_the_deadline_is_for_all_states_and_the_error_names_the_last() -> None:
    with pytest.raises(ArchiveTimeout, match="AWAIT_SUBSCRIPTION"):
        connecting().step(StreamsSeen(), TIMEOUT)
    machine = asked()
    machine.step(CONNECTED, TIMEOUT - 1)
    with pytest.raises(ArchiveTimeout, match="AWAIT_CONNECT_RESPONSE"):
        machine.step(CONNECTED, TIMEOUT)


def test_credentials_are_in_no_text() -> None:
    assert "secret" not in repr(Credentials(b"secret"))
    machine = connecting()
    machine.step(CONNECTED, 0)
    with pytest.raises(ArchiveTimeout) as late:
        machine.step(CONNECTED, TIMEOUT)
    assert "secret" not in f"{late.value!r} {machine!r}"
