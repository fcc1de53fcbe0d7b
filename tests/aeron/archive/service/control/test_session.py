"""The control session's machine: states, deadlines, the order of answers."""

from __future__ import annotations

import pytest

from everlog.aeron.archive.protocol.codec import PROTOCOL_VERSION, decode, encode
from everlog.aeron.archive.protocol.responses import Challenge, ControlResponse, Ping, ResponseCode
from everlog.aeron.archive.recording.events import RecordingSignal
from everlog.aeron.archive.recording.refusals import ErrorCode
from everlog.aeron.archive.service.control import session as session_module
from everlog.aeron.archive.service.control.session import ControlSession, State
from everlog.aeron.archive.service.security.interfaces import AllowAllAuthenticator, Authenticator, SessionProxy
from everlog.aeron.archive.service.settings.settings import ArchiveSettings
from everlog.aeron.messages import Message
from everlog.aeron.transport.client.appending.appenders import BACK_PRESSURED, CLOSED, NOT_CONNECTED

MS = 1_000_000
TIMEOUT_MS = 5_000


class Stream:
    """Keeps what is sent; ``result`` is what the next offers return, if not 0."""

    def __init__(self) -> None:
        self.ready = self.is_connected = True
        self.result = 0
        self.sent: list[Message] = []
        self.attempts = 0
        self.closed = False

    def is_ready(self) -> bool:
        return self.ready

    def offer(self, data: bytes) -> int:
        self.attempts += 1
        if self.result:
            return self.result
        self.sent.append(decode(data))
        return len(self.sent)

    def close(self) -> None:
        self.closed = True


class Asking:
    """Challenges each client and accepts the answer ``open``."""

    def __init__(self) -> None:
        self.answers: dict[int, bytes] = {}

    def on_connect_request(self, session_id: int, credentials: bytes, now_ms: int) -> None:
        pass

    def on_connected_session(self, session: SessionProxy, now_ms: int) -> None:
        session.challenge(b"who?")

    def on_challenge_response(self, session_id: int, credentials: bytes, now_ms: int) -> None:
        self.answers[session_id] = credentials

    def on_challenged_session(self, session: SessionProxy, now_ms: int) -> None:
        answer = self.answers.get(session.session_id)
        if answer == b"open":
            session.authenticate(b"me")
        elif answer is not None:
            session.reject()


class Run:
    """A session and its clock."""

    def __init__(self, authenticator: Authenticator | None = None, refusal: str | None = None) -> None:
        self.stream = Stream()
        self.ms = 0
        self.session = ControlSession(
            7,
            70,
            self.stream,
            authenticator or AllowAllAuthenticator(),
            ArchiveSettings(connect_timeout_ns=TIMEOUT_MS * MS),
            lambda: self.ms,
            0,
            refusal=refusal,
        )

    def work(self, count: int = 1, step_ms: int = 0) -> None:
        for _ in range(count):
            self.ms += step_ms
            self.session.do_work(self.ms * MS)

    def active(self) -> Run:
        self.work(3)
        assert self.session.activate()
        self.stream.sent.clear()
        return self

    def responses(self) -> list[tuple[int, int, ResponseCode, str]]:
        found = [m for m in self.stream.sent if isinstance(m, ControlResponse)]
        return [(m.correlation_id, m.relevant_id, m.code, m.error_message) for m in found]


OK_CONNECT = (70, 7, ResponseCode.OK, "")


def test_a_session_connects_and_repeats_ok_until_the_first_request() -> None:
    run = Run()
    run.work(3)
    assert run.session.state is State.AUTHENTICATED
    assert run.responses() == [OK_CONNECT]
    run.work(1, step_ms=199)
    assert run.responses() == [OK_CONNECT]
    run.work(1, step_ms=1)
    assert run.responses() == [OK_CONNECT] * 2
    assert run.session.activate()
    run.work(3, step_ms=300)
    assert run.responses() == [OK_CONNECT] * 2
    first = run.stream.sent[0]
    assert isinstance(first, ControlResponse)
    assert (first.control_session_id, first.version) == (7, PROTOCOL_VERSION)


def test_requests_before_the_authentication_are_not_answered() -> None:
    run = Run()
    assert not run.session.activate()
    run.work(2)
    assert not run.session.activate()
    assert run.session.state is State.CONNECTED


@pytest.mark.parametrize("state", [State.INIT, State.CONNECTING])
def test_a_client_that_does_not_subscribe_is_given_up(state: State) -> None:
    run = Run()
    run.stream.ready = state is not State.INIT
    run.stream.is_connected = False
    run.work(3)
    assert run.session.state is state
    run.work(1, step_ms=TIMEOUT_MS)
    assert not run.session.is_done
    run.work(1, step_ms=1)
    assert run.session.is_done
    assert run.session.abort_reason == f"failed to establish initial connection: state={state.name}"
    assert run.session.ended_by_fault


def test_the_deadline_begins_again_when_the_publication_is_there() -> None:
    run = Run()
    run.stream.ready = run.stream.is_connected = False
    run.work(1, step_ms=4_000)
    run.stream.ready = True
    run.work(1)
    run.work(1, step_ms=4_000)
    assert run.session.state is State.CONNECTING


def test_a_challenge_is_answered() -> None:
    run = Run(Asking())
    run.work(4)
    assert run.session.state is State.CHALLENGED
    assert run.stream.sent == [Challenge(7, 70, PROTOCOL_VERSION, b"who?")]
    run.session.answer_challenge(71, b"open")
    run.work()
    assert run.session.is_known
    assert run.session.principal == b"me"
    assert run.responses() == [(71, 7, ResponseCode.OK, "")]


def test_a_rejected_client_is_told_until_the_deadline() -> None:
    run = Run(Asking())
    run.work(4)
    run.session.answer_challenge(71, b"shut")
    run.work(2)
    refused = (71, ErrorCode.AUTHENTICATION_REJECTED, ResponseCode.ERROR, "authentication rejected")
    assert run.session.state is State.REJECTED
    assert run.responses() == [refused]
    run.work(1, step_ms=200)
    assert run.responses() == [refused] * 2
    run.work(1, step_ms=TIMEOUT_MS)
    assert run.session.is_done
    assert not run.session.activate()


def test_a_client_of_another_major_version_is_refused() -> None:
    run = Run(refusal="invalid client version 2.0.0, archive is 1.12.0")
    run.work(3)
    assert run.responses() == [(70, 7, ResponseCode.ERROR, "invalid client version 2.0.0, archive is 1.12.0")]
    assert not run.session.activate()
    run.work(1, step_ms=TIMEOUT_MS + 1)
    assert run.session.is_done


def test_answers_keep_their_order_when_the_stream_is_full() -> None:
    run = Run().active()
    run.stream.result = BACK_PRESSURED
    run.session.send_ok(1)
    assert run.stream.attempts == 1 + session_module.SEND_ATTEMPTS  # the first one answered the connect request
    run.stream.result = 0
    run.session.send_error(2, ErrorCode.GENERIC, "no")
    run.session.send_signal(3, 4, 5, 6, RecordingSignal.STOP)
    run.session.send_unknown_recording(4, 9)
    assert not run.session.try_send(b"later")
    assert run.stream.sent == []
    run.work()
    kinds = [getattr(message, "correlation_id", None) for message in run.stream.sent]
    assert kinds == [1, 2, 3, 4]
    assert run.responses()[-1] == (4, 9, ResponseCode.RECORDING_UNKNOWN, "")


def test_a_client_that_takes_nothing_is_cut_off() -> None:
    run = Run().active()
    run.stream.result = BACK_PRESSURED
    run.session.send_ok(1)
    run.work(1, step_ms=TIMEOUT_MS)
    assert not run.session.is_done
    run.work(1, step_ms=1)
    assert run.session.abort_reason == "failed to send response for more than connectTimeoutMs=5000"


def test_any_message_that_goes_out_ends_the_deadline() -> None:
    run = Run().active()
    run.stream.result = BACK_PRESSURED
    run.session.send_ok(1)
    run.work(1, step_ms=TIMEOUT_MS - 1)
    run.stream.result = 0
    run.work(1)
    run.work(1, step_ms=TIMEOUT_MS)
    assert not run.session.is_done


def test_a_silent_client_is_pinged_once_a_second() -> None:
    run = Run().active()
    run.work(30, step_ms=100)
    assert run.stream.sent == [Ping(7)] * 3


@pytest.mark.parametrize(
    ("result", "reason", "is_fault"),
    [
        (NOT_CONNECTED, "control response publication not connected", False),
        (CLOSED, "control response publication is closed", True),
    ],
)
def test_a_stream_that_ended_ends_the_session(result: int, reason: str, is_fault: bool) -> None:
    run = Run().active()
    run.stream.result = result
    run.session.send_ok(1)
    assert run.session.is_done
    assert (run.session.abort_reason, run.session.ended_by_fault) == (reason, is_fault)
    run.session.close()
    assert run.stream.closed


def test_a_client_that_unsubscribes_ends_its_session() -> None:
    run = Run().active()
    run.stream.is_connected = False
    run.work()
    assert run.session.abort_reason == "control response publication not connected"


def test_the_queue_of_a_client_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run().active()
    run.stream.result = BACK_PRESSURED
    length = len(encode(ControlResponse(run.session.session_id, 0, 0, ResponseCode.OK, PROTOCOL_VERSION, "")))
    monkeypatch.setattr(session_module, "MAX_QUEUED_BYTES", 3 * length)
    for correlation_id in range(3):
        run.session.send_ok(correlation_id)
    assert run.session.abort_reason is None
    run.session.send_ok(3)
    assert run.session.abort_reason == f"more than {3 * length} bytes of responses wait to be sent"


def test_what_has_gone_out_leaves_room_in_the_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run().active()
    monkeypatch.setattr(session_module, "MAX_QUEUED_BYTES", 1000)
    for correlation_id in range(100):
        run.stream.result = BACK_PRESSURED
        run.session.send_ok(correlation_id)
        run.stream.result = 1
        run.work()
    assert not run.session.is_done


def test_a_text_that_is_too_long_for_the_shortest_term_is_cut() -> None:
    run = Run().active()
    run.session.send_error(1, ErrorCode.GENERIC, "x" * 100_000)
    answer = run.stream.sent[-1]
    assert isinstance(answer, ControlResponse)
    assert answer.error_message == "x" * (7 << 10)
    assert len(encode(answer)) <= 64 * 1024 // 8


def test_a_client_that_takes_no_answer_to_its_connect_request_is_cut_off() -> None:
    """It has subscribed, and neither reads nor sends anything."""
    run = Run()
    run.work(3)
    run.stream.result = BACK_PRESSURED
    run.work(1, step_ms=200)
    assert run.session.state is State.AUTHENTICATED
    run.work(1, step_ms=TIMEOUT_MS + 1)
    assert run.session.abort_reason == "failed to establish initial connection: state=AUTHENTICATED"
