"""A control session: one client of the service, from its connect request to its end.

=============  ========================================================================================================
state          the session waits
=============  ========================================================================================================
INIT           for its response publication
CONNECTING     for the client to subscribe to it
CONNECTED      for the authenticator
CHALLENGED     for the client's answer to the challenge
AUTHENTICATED  for the first request; until then OK is sent again and again, because the first one may get lost
ACTIVE         for requests
REJECTED       for the deadline; until then the rejection is sent again and again
DONE           to be closed
=============  ========================================================================================================

A client that does not take what it is sent is cut off at a deadline (``connect_timeout_ns``); any message that goes out
ends the deadline. Until then, what can't be sent is queued, as in the original. Unlike there, the queue is bounded:
while it is long, the client's requests are not read. Source: ControlSession, ControlResponseProxy.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from enum import Enum, auto

from everlog.aeron.archive.protocol.codec import PROTOCOL_VERSION, encode
from everlog.aeron.archive.protocol.responses import (
    Challenge,
    ControlResponse,
    Ping,
    RecordingSignalEvent,
    ResponseCode,
)
from everlog.aeron.archive.recording.events import RecordingSignal
from everlog.aeron.archive.recording.refusals import ErrorCode
from everlog.aeron.archive.service.control.response_stream import ResponseStream
from everlog.aeron.archive.service.requester import Session
from everlog.aeron.archive.service.security.interfaces import Authenticator
from everlog.aeron.archive.service.settings.settings import ArchiveSettings
from everlog.aeron.messages import Message
from everlog.aeron.transport.client.appending.appenders import CLOSED, MAX_POSITION_EXCEEDED, NOT_CONNECTED
from everlog.time_units import NS_PER_MS

RESEND_INTERVAL_NS = 200 * NS_PER_MS
SEND_ATTEMPTS = 3
PAUSE_AT_BYTES = 64 << 10
"""While so many bytes wait for a client, its requests stay unread: answers are made no faster than they are taken."""
MAX_QUEUED_BYTES = 1 << 20
"""Most bytes that wait for a client; if there are more, for example of signals, it is cut off."""
MAX_TEXT_LENGTH = 7 << 10
"""Longest text of an error: a message must fit into the shortest term, of 64 KiB."""

SESSION_CLOSED = "session closed"
NOT_CONNECTED_TEXT = "control response publication not connected"
IMAGE_GONE = "request publication image unavailable"
_ENDS = {
    NOT_CONNECTED: NOT_CONNECTED_TEXT,
    CLOSED: "control response publication is closed",
    MAX_POSITION_EXCEEDED: "control response publication is at max position",
}
_QUIET = (SESSION_CLOSED, NOT_CONNECTED_TEXT)


class State(Enum):
    """The state of a control session."""

    INIT = auto()
    CONNECTING = auto()
    CONNECTED = auto()
    CHALLENGED = auto()
    AUTHENTICATED = auto()
    ACTIVE = auto()
    REJECTED = auto()
    DONE = auto()


class ControlSession:
    """One client's session. The service calls :meth:`do_work` in each duty cycle, and :meth:`activate` for each of the
    client's requests. ``refusal``: a text with which the client is refused when it is connected."""

    def __init__(
        self,
        session_id: int,
        correlation_id: int,
        stream: ResponseStream,
        authenticator: Authenticator,
        settings: ArchiveSettings,
        now_ms: Callable[[], int],
        now_ns: int,
        *,
        refusal: str | None = None,
    ) -> None:
        self.session_id = session_id
        self.state = State.INIT
        self.principal = b""
        self.abort_reason: str | None = None
        self.listing: Session | None = None
        """The listing that is being answered; a session has one at a time."""
        self._correlation_id = correlation_id
        self._stream = stream
        self._authenticator = authenticator
        self._settings = settings
        self._now_ms = now_ms
        self._refusal = refusal
        self._queue: deque[bytes] = deque()
        self._queued_bytes = 0
        self._now_ns = now_ns
        self._deadline_ns: int | None = now_ns + settings.connect_timeout_ns
        self._resend_ns = now_ns
        self._ping_ns = now_ns + settings.session_liveness_check_interval_ns

    def __repr__(self) -> str:
        return f"<ControlSession {self.session_id}: {self.state.name}>"

    @property
    def is_done(self) -> bool:
        """Whether the session has ended."""
        return self.state is State.DONE

    @property
    def is_known(self) -> bool:
        """Whether the client is authenticated."""
        return self.state in (State.AUTHENTICATED, State.ACTIVE)

    @property
    def is_settled(self) -> bool:
        """Whether the session waits for requests only, and has nothing to send."""
        return self.state is State.ACTIVE and not self._queue

    @property
    def is_listing(self) -> bool:
        """Whether a listing is being answered."""
        return self.listing is not None and not self.listing.is_done

    @property
    def is_behind(self) -> bool:
        """Whether so much waits for the client that its requests must wait, too."""
        return self._queued_bytes >= PAUSE_AT_BYTES and not self.is_done

    @property
    def ended_by_fault(self) -> bool:
        """Whether the session has ended for another reason than the client's: its publication is then rejected."""
        reason = self.abort_reason
        return reason is not None and reason not in _QUIET and not reason.startswith(IMAGE_GONE)

    # Duty

    def do_work(self, now_ns: int) -> int:
        """Go on with what the state waits for. Returns the amount of work done."""
        self._now_ns = now_ns
        if self._deadline_ns is not None and now_ns > self._deadline_ns and not self.is_done:
            timeout_ms = self._settings.connect_timeout_ns // NS_PER_MS
            if self.state is State.ACTIVE:
                self.abort(f"failed to send response for more than connectTimeoutMs={timeout_ms}")
            else:
                self.abort(f"failed to establish initial connection: state={self.state.name}")
            return 1
        try:
            return self._work(now_ns)
        except Exception as error:  # an authenticator's, too
            self.abort(f"failed with exception: {error}")
            raise

    def _work(self, now_ns: int) -> int:
        match self.state:
            case State.INIT:
                if not self._stream.is_ready():
                    return 0
                self._deadline_ns = now_ns + self._settings.connect_timeout_ns
                self.state = State.CONNECTING
            case State.CONNECTING:
                if not self._stream.is_connected:
                    return 0
                self.state = State.CONNECTED
            case State.CHALLENGED:
                self._authenticator.on_challenged_session(self, self._now_ms())
            case State.ACTIVE:
                return self._ping(now_ns) + self._send_queued()
            case State.DONE:
                return 0
            case _:
                if now_ns < self._resend_ns:
                    return 0
                self._resend_ns = now_ns + RESEND_INTERVAL_NS
                self._answer_connect()
        return 1

    def _answer_connect(self) -> None:
        """Answer the connect request, possibly once more."""
        if self.state is State.AUTHENTICATED:
            if not self._offer(self._response(self._correlation_id, self.session_id, ResponseCode.OK)):
                self._begin_deadline()
        elif self.state is State.REJECTED:
            code = ErrorCode.AUTHENTICATION_REJECTED
            self._offer(self._response(self._correlation_id, code, ResponseCode.ERROR, "authentication rejected"))
        elif self._refusal is not None:
            self._offer(self._response(self._correlation_id, self.session_id, ResponseCode.ERROR, self._refusal))
        else:
            self._authenticator.on_connected_session(self, self._now_ms())

    def _ping(self, now_ns: int) -> int:
        if now_ns < self._ping_ns:
            return 0
        self._ping_ns = now_ns + self._settings.session_liveness_check_interval_ns
        if self._queue or not self._offer(encode(Ping(self.session_id))):
            self._begin_deadline()
        return 1

    def _send_queued(self) -> int:
        if not self._stream.is_connected:
            self.abort(NOT_CONNECTED_TEXT)
            return 1
        sent = 0
        while self._queue and self._offer(self._queue[0]):
            self._queued_bytes -= len(self._queue.popleft())
            sent += 1
        if self._queue:
            self._begin_deadline()
        return sent

    # Requests

    def activate(self) -> bool:
        """Note a request. Returns whether it may be answered."""
        if self.state is State.AUTHENTICATED:
            self.state = State.ACTIVE
        return self.state is State.ACTIVE

    def answer_challenge(self, correlation_id: int, credentials: bytes) -> None:
        """Pass the client's answer to the challenge to the authenticator."""
        if self.state is State.CHALLENGED:
            self._correlation_id = correlation_id
            self._authenticator.on_challenge_response(self.session_id, credentials, self._now_ms())

    def abort(self, reason: str) -> None:
        """End the session. The first reason stays, except that the client's own end replaces it."""
        if not self.is_done or (self.abort_reason is not None and reason == SESSION_CLOSED):
            self.abort_reason = reason
            self.state = State.DONE
            if self.listing is not None:
                self.listing.abort(reason)

    def close(self) -> None:
        """Give back the publication and the counter."""
        self.state = State.DONE
        self._queue.clear()
        self._queued_bytes = 0
        self._stream.close()

    # What an authenticator decides (SessionProxy)

    def authenticate(self, principal: bytes) -> bool:
        """Accept the client as ``principal``."""
        if not self._offer(self._response(self._correlation_id, self.session_id, ResponseCode.OK)):
            return False
        self.principal = principal
        self.state = State.AUTHENTICATED
        self._deadline_ns = None
        self._resend_ns = self._now_ns + RESEND_INTERVAL_NS
        return True

    def challenge(self, challenge: bytes) -> bool:
        """Ask the client for other credentials."""
        if not self._offer(encode(Challenge(self.session_id, self._correlation_id, PROTOCOL_VERSION, challenge))):
            return False
        self.state = State.CHALLENGED
        return True

    def reject(self) -> None:
        """Refuse the client."""
        self.state = State.REJECTED
        self._resend_ns = self._now_ns

    # Answers (Requester)

    def send_ok(self, correlation_id: int, relevant_id: int = 0) -> None:
        """Answer OK."""
        self._send(self._response(correlation_id, relevant_id, ResponseCode.OK))

    def send_error(self, correlation_id: int, code: ErrorCode, text: str) -> None:
        """Answer ERROR with a code and a text."""
        self._send(self._response(correlation_id, code, ResponseCode.ERROR, text))

    def send_unknown_recording(self, correlation_id: int, recording_id: int) -> None:
        """Answer RECORDING_UNKNOWN."""
        self._send(self._response(correlation_id, recording_id, ResponseCode.RECORDING_UNKNOWN))

    def send_unknown_subscription(self, correlation_id: int) -> None:
        """Answer SUBSCRIPTION_UNKNOWN."""
        self._send(self._response(correlation_id, 0, ResponseCode.SUBSCRIPTION_UNKNOWN))

    def send_signal(
        self, correlation_id: int, recording_id: int, subscription_id: int, position: int, signal: RecordingSignal
    ) -> None:
        """Tell the client of a recording signal."""
        ids = self.session_id, correlation_id, recording_id, subscription_id
        self._send(encode(RecordingSignalEvent(*ids, position, signal)))

    def try_send(self, message: Message | bytes) -> bool:
        """Send now, or return false if the stream is full or something is queued."""
        if self.is_done or self._queue:
            return False
        return self._offer(message if isinstance(message, bytes) else encode(message))

    def _response(self, correlation_id: int, relevant_id: int, code: ResponseCode, text: str = "") -> bytes:
        ids = self.session_id, correlation_id, relevant_id
        return encode(ControlResponse(*ids, code, PROTOCOL_VERSION, text[:MAX_TEXT_LENGTH]))

    def _send(self, data: bytes) -> None:
        if self.is_done or (not self._queue and self._offer(data)) or self.is_done:
            return
        if self._queued_bytes + len(data) > MAX_QUEUED_BYTES:
            self.abort(f"more than {MAX_QUEUED_BYTES} bytes of responses wait to be sent")
            return
        self._queue.append(data)
        self._queued_bytes += len(data)
        self._begin_deadline()

    def _offer(self, data: bytes) -> bool:
        for _ in range(SEND_ATTEMPTS):
            result = self._stream.offer(data)
            if result > 0:
                if self.is_known:
                    self._deadline_ns = None
                return True
            reason = _ENDS.get(result)
            if reason is not None:
                self.abort(reason)
                return False
        return False

    def _begin_deadline(self) -> None:
        if self._deadline_ns is None:
            self._deadline_ns = self._now_ns + self._settings.connect_timeout_ns
