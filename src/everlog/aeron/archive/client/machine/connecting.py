"""Opens a control session with an archive. A machine without I/O or clock.

============================  ===================================================  ===============================
state                         what happens                                         next
============================  ===================================================  ===============================
AWAIT_SUBSCRIPTION            the shell adds the subscription for answers          ADD_PUBLICATION
ADD_PUBLICATION               the shell adds the publication for requests          AWAIT_PUBLICATION_CONNECTED
AWAIT_PUBLICATION_CONNECTED   the archive's subscription is there                  SEND_CONNECT_REQUEST
SEND_CONNECT_REQUEST          the response channel's port is known: send           AWAIT_SUBSCRIPTION_CONNECTED
AWAIT_SUBSCRIPTION_CONNECTED  the archive's publication is there                   AWAIT_CONNECT_RESPONSE
AWAIT_CONNECT_RESPONSE        OK; a challenge; an error                            SEND_ARCHIVE_ID_REQUEST, or
                                                                                   SEND_CHALLENGE_RESPONSE, or fails
SEND_CHALLENGE_RESPONSE       send what the credentials supplier answers           AWAIT_CHALLENGE_RESPONSE
AWAIT_CHALLENGE_RESPONSE      as AWAIT_CONNECT_RESPONSE
SEND_ARCHIVE_ID_REQUEST       send, if the archive is of version 1.11 or later     AWAIT_ARCHIVE_ID_RESPONSE
AWAIT_ARCHIVE_ID_RESPONSE     OK                                                   SEND_KEEP_ALIVE
SEND_KEEP_ALIVE               send: the archive stops repeating its first answer   DONE
============================  ===================================================  ===============================

One deadline is for all of it. Source: AeronArchive.AsyncConnect.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto

from everlog.aeron.archive.client.credentials import CredentialsSupplier
from everlog.aeron.archive.client.errors import ArchiveTimeout
from everlog.aeron.archive.client.machine.session import ControlSession, refusal
from everlog.aeron.archive.client.values import NULL_VALUE
from everlog.aeron.archive.protocol.codec import PROTOCOL_VERSION, VERSION_WITH_ARCHIVE_ID, decode, encode
from everlog.aeron.archive.protocol.requests import ArchiveId, AuthConnect, ChallengeResponse, CloseSession, KeepAlive
from everlog.aeron.archive.protocol.responses import Challenge, ControlResponse, ResponseCode
from everlog.aeron.messages import Message
from everlog.errors import UnknownMessage


class State(Enum):
    """Where a connect is; see the module's table."""

    AWAIT_SUBSCRIPTION = auto()
    ADD_PUBLICATION = auto()
    AWAIT_PUBLICATION_CONNECTED = auto()
    SEND_CONNECT_REQUEST = auto()
    AWAIT_SUBSCRIPTION_CONNECTED = auto()
    AWAIT_CONNECT_RESPONSE = auto()
    SEND_CHALLENGE_RESPONSE = auto()
    AWAIT_CHALLENGE_RESPONSE = auto()
    SEND_ARCHIVE_ID_REQUEST = auto()
    AWAIT_ARCHIVE_ID_RESPONSE = auto()
    SEND_KEEP_ALIVE = auto()
    DONE = auto()


@dataclass(frozen=True, kw_only=True, slots=True)
class StreamsSeen:
    """What the shell sees of the two streams. ``response_channel`` has the port that was bound; ``None`` until then."""

    has_subscription: bool = False
    has_publication: bool = False
    is_publication_connected: bool = False
    is_subscription_connected: bool = False
    response_channel: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ConnectRequest:
    """What a connect asks for."""

    response_stream_id: int
    credentials: CredentialsSupplier
    client_info: str
    message_timeout_ns: int
    next_correlation_id: Callable[[], int]


class Connecting:
    """One attempt. The shell calls :meth:`step` again and again, sends :attr:`outgoing`, then calls :meth:`sent`, and
    passes what it receives to :meth:`receive`; :attr:`session` is there when it is done."""

    def __init__(self, request: ConnectRequest, now_ns: int) -> None:
        self.state = State.AWAIT_SUBSCRIPTION
        self.outgoing: bytes | None = None
        """What is to be sent; ``None`` while nothing is."""
        self.session: ControlSession | None = None
        self.farewell: bytes | None = None
        """After an answer that is an error: what ends the session, to be sent once, if that is possible."""
        self._request = request
        self._deadline_ns = now_ns + request.message_timeout_ns
        self._correlation_id = NULL_VALUE
        self._session_id = NULL_VALUE
        self._archive_id: int | None = None
        self._version = 0

    def step(self, streams: StreamsSeen, now_ns: int) -> None:
        """Go on as far as the streams allow. Raises :class:`ArchiveTimeout` at the deadline."""
        if self.state is not State.DONE and now_ns >= self._deadline_ns:
            seconds = self._request.message_timeout_ns / 1e9
            found = f"connecting took more than {seconds:g} s, in state {self.state.name}"
            hint = "does the archive run, with this control channel and stream id?"
            raise ArchiveTimeout("connect", found=found, hint=hint)
        if self.state is State.AWAIT_SUBSCRIPTION and streams.has_subscription:
            self.state = State.ADD_PUBLICATION
        if self.state is State.ADD_PUBLICATION and streams.has_publication:
            self.state = State.AWAIT_PUBLICATION_CONNECTED
        if self.state is State.AWAIT_PUBLICATION_CONNECTED and streams.is_publication_connected:
            self.state = State.SEND_CONNECT_REQUEST
        if self.state is State.SEND_CONNECT_REQUEST and self.outgoing is None and streams.response_channel is not None:
            self._send_connect(streams.response_channel)
        if self.state is State.AWAIT_SUBSCRIPTION_CONNECTED and streams.is_subscription_connected:
            self.state = State.AWAIT_CONNECT_RESPONSE

    def _send_connect(self, response_channel: str) -> None:
        request = self._request
        self._correlation_id = request.next_correlation_id()
        self.outgoing = encode(
            AuthConnect(
                correlation_id=self._correlation_id,
                response_stream_id=request.response_stream_id,
                version=PROTOCOL_VERSION,
                response_channel=response_channel,
                encoded_credentials=request.credentials.encoded_credentials(),
                client_info=request.client_info,
            )
        )

    def sent(self) -> None:
        """:attr:`outgoing` was sent."""
        self.outgoing = None
        self.state = _AFTER_SENDING[self.state]
        if self.state is State.DONE:
            request = self._request
            self.session = ControlSession(self._session_id, self._archive_id, self._version, request.message_timeout_ns)

    def receive(self, data: bytes) -> None:
        """Take a message of the archive. Raises :class:`ArchiveError` if it refuses, :class:`CorruptData` for a message
        that breaks the format."""
        try:
            message = decode(data, "answer of the archive")
        except UnknownMessage as error:
            if (error.found or "").startswith("schema"):
                raise
            return
        is_mine = getattr(message, "correlation_id", NULL_VALUE) == self._correlation_id
        if not is_mine or self.state not in _AWAITING:
            return
        if isinstance(message, Challenge):
            self._session_id = message.control_session_id
            self._answer_challenge(message)
        elif isinstance(message, ControlResponse):
            self._session_id = message.control_session_id
            self._take(message)

    def _answer_challenge(self, message: Challenge) -> None:
        credentials = self._request.credentials.on_challenge(message.encoded_challenge)
        self._correlation_id = self._request.next_correlation_id()
        self._send(
            State.SEND_CHALLENGE_RESPONSE, ChallengeResponse(self._session_id, self._correlation_id, credentials)
        )

    def _take(self, message: ControlResponse) -> None:
        if message.code is not ResponseCode.OK:
            self.farewell = encode(CloseSession(self._session_id))
            raise refusal("connect", message)
        if self.state is State.AWAIT_ARCHIVE_ID_RESPONSE:
            self._archive_id = message.relevant_id
        else:
            self._version = message.version
        if self.state is State.AWAIT_ARCHIVE_ID_RESPONSE or self._version < VERSION_WITH_ARCHIVE_ID:
            self._send(State.SEND_KEEP_ALIVE, KeepAlive(self._session_id, NULL_VALUE))
        else:
            self._correlation_id = self._request.next_correlation_id()
            self._send(State.SEND_ARCHIVE_ID_REQUEST, ArchiveId(self._session_id, self._correlation_id))

    def _send(self, state: State, message: Message) -> None:
        self.state = state
        self.outgoing = encode(message)


_AFTER_SENDING = {
    State.SEND_CONNECT_REQUEST: State.AWAIT_SUBSCRIPTION_CONNECTED,
    State.SEND_CHALLENGE_RESPONSE: State.AWAIT_CHALLENGE_RESPONSE,
    State.SEND_ARCHIVE_ID_REQUEST: State.AWAIT_ARCHIVE_ID_RESPONSE,
    State.SEND_KEEP_ALIVE: State.DONE,
}
_AWAITING = (
    State.AWAIT_SUBSCRIPTION_CONNECTED,
    State.AWAIT_CONNECT_RESPONSE,
    State.AWAIT_CHALLENGE_RESPONSE,
    State.AWAIT_ARCHIVE_ID_RESPONSE,
)
