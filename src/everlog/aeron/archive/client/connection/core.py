"""What the blocking and the asyncio client share: the Aeron client, the link and its successors after a loss."""

from __future__ import annotations

import random
import time
from collections import deque
from collections.abc import Callable
from enum import Enum
from typing import Any, TypeVar

from everlog.aeron.archive.client.connection.connector import Connector
from everlog.aeron.archive.client.connection.inbox import Inbox
from everlog.aeron.archive.client.connection.link import ControlLink, Ticket
from everlog.aeron.archive.client.errors import ArchiveTimeout, lost
from everlog.aeron.archive.client.machine.call import Call
from everlog.aeron.archive.client.machine.session import SessionRecord
from everlog.aeron.archive.client.options import ArchiveClientOptions
from everlog.aeron.archive.client.values import NULL_VALUE, ErrorResponse, ReplayParams
from everlog.aeron.channel_uri import ChannelUri
from everlog.aeron.transport.client.aeron import Aeron
from everlog.errors import Closed, UsageError
from everlog.time_units import NS_PER_S

T = TypeVar("T")
MAX_LOST_SESSIONS = 16
DEFAULT_NAME = "archive-client"
REPLAY_TERM_LENGTH = 64 << 10
VERSION_WITH_STOP_LENGTH = 1 << 16 | 12 << 8
"""Archives of earlier protocol versions refuse a replay without an end that does not follow the recording."""


class ClientState(Enum):
    """State of a client. ``DISCONNECTED``: its session was lost; with ``reconnect`` the next call opens another."""

    CONNECTED = 1
    DISCONNECTED = 2
    CLOSED = 3


class ClientCore:
    """The state of a client, without waiting and without a lock."""

    def __init__(self, aeron: Aeron | None, options: ArchiveClientOptions) -> None:
        self.options = options
        self.owns_aeron = aeron is None
        name = options.client_name or DEFAULT_NAME
        self.aeron = Aeron.connect(options.aeron_directory_name, client_name=name) if aeron is None else aeron
        self.inbox = Inbox(options.on_recording_signal, options.on_error)
        self.is_closed = False
        self._link: ControlLink | None = None
        self._lost: deque[SessionRecord] = deque(maxlen=MAX_LOST_SESSIONS)

    @property
    def state(self) -> ClientState:
        """Whether a session is open."""
        if self.is_closed:
            return ClientState.CLOSED
        is_open = self._link is not None and self._link.session.loss is None
        return ClientState.CONNECTED if is_open else ClientState.DISCONNECTED

    @property
    def lost_sessions(self) -> tuple[SessionRecord, ...]:
        """The sessions that were lost, oldest first; the last 16."""
        link = self._link
        is_lost = link is not None and link.session.loss is not None and not self.is_closed
        return (*self._lost, link.session.record()) if link is not None and is_lost else tuple(self._lost)

    @property
    def link(self) -> ControlLink:
        """The session's link, which may be lost. Raises :class:`Closed`."""
        if self.is_closed or self._link is None:
            raise Closed("archive client")
        return self._link

    def needs_connect(self, what: str) -> bool:
        """Whether a session must be opened before the next call. Raises :class:`Closed`, and :class:`SessionLost` if
        that is not wanted."""
        if self.is_closed:
            raise Closed("archive client")
        loss = None if self._link is None else self._link.session.loss
        if loss is not None and not self.options.reconnect:
            raise lost(what, NULL_VALUE, loss, was_sent=False)
        return self._link is None or loss is not None

    def connector(self) -> Connector:
        """Begin to connect."""
        return Connector(self.aeron, self.options, self.inbox, time.monotonic_ns())

    def adopt(self, link: ControlLink) -> None:
        """Use a new session."""
        if self._link is not None:
            self._lost.append(self._link.session.record())
            self._link.close()
        self._link = link

    @property
    def archive_version(self) -> tuple[int, int, int]:
        """The archive's protocol version."""
        version = self.link.session.version
        return version >> 16, version >> 8 & 0xFF, version & 0xFF

    def submit(self, call: Call[T], on_done: Callable[[], object] | None = None) -> Ticket[T]:
        """Start a request on the current session."""
        return self.link.submit(call, self.aeron.next_correlation_id(), time.monotonic_ns(), on_done)

    def submit_elsewhere(self, call: Call[T], on_done: Callable[[], object] | None = None) -> tuple[bytes, Ticket[T]]:
        """Start a request that the caller sends on another stream."""
        return self.link.submit_elsewhere(call, self.aeron.next_correlation_id(), time.monotonic_ns(), on_done)

    def check_connected(self) -> None:
        """Raise :class:`SessionLost` or :class:`Closed` if no session is open."""
        loss = self.link.session.loss
        if loss is not None:
            raise lost("poll", NULL_VALUE, loss, was_sent=False)

    def cancel(self, ticket: Ticket[Any]) -> None:
        """Forget a request."""
        self.link.cancel(ticket, time.monotonic_ns())

    def poll(self) -> int:
        """Do the link's work, and the Aeron client's if it has no thread."""
        done = self.link.poll(time.monotonic_ns())
        return done or self.aeron.do_work()

    def take_error(self) -> ErrorResponse | None:
        """The next error that answers no request; the loss of the session after all others."""
        if self.inbox.errors:
            return self.inbox.errors.popleft()
        loss = self.link.session.loss
        if loss is None:
            return None
        return ErrorResponse(NULL_VALUE, lost("poll", NULL_VALUE, loss, was_sent=False))

    def is_length_needed(self, params: ReplayParams) -> bool:
        """Whether a replay must say its length, since the archive is too old to know what is recorded without it."""
        is_open = params.length is None and not params.follow
        return is_open and self.link.session.version < VERSION_WITH_STOP_LENGTH

    def request_channel_for(self, subscription_registration_id: int) -> str:
        """The channel of a publication over which a replay to a response channel is asked for."""
        changes: dict[str, str | None] = dict.fromkeys(("session-id", "term-id", "init-term-id", "term-offset"))
        changes |= {
            "response-correlation-id": str(subscription_registration_id),
            "term-length": str(REPLAY_TERM_LENGTH),
        }
        return str(self.options.with_defaults(self.options.control_request_channel).with_params(changes))

    def events_channel(self, channel: str | None, stream_id: int | None) -> tuple[str, int]:
        """Channel and stream of the recording events. Raises :class:`UsageError` if no channel is known."""
        chosen = channel or self.options.recording_events_channel
        if chosen is None:
            raise UsageError("recording_events_channel", message="recording_events_channel must be set")
        return chosen, self.options.recording_events_stream_id if stream_id is None else stream_id

    def close(self) -> None:
        """Close the session, and the Aeron client if it is the client's own."""
        if not self.is_closed:
            self.is_closed = True
            if self._link is not None:
                self._link.close()
            if self.owns_aeron:
                self.aeron.close()


def no_subscription() -> UsageError:
    """The error for a replay to a response channel whose ``ReplayParams`` name no subscription."""
    name = "ReplayParams.subscription_registration_id"
    return UsageError(name, found="none", expected="that of the subscription that receives a response channel's replay")


def is_response_channel(channel: str) -> bool:
    """Whether a replay to this channel comes over a response channel."""
    return ChannelUri.parse(channel).get("control-mode") == "response"


def is_unresolved(channel: str) -> bool:
    """Whether the driver chooses the port to which a replay comes: the endpoint has port 0."""
    return (ChannelUri.parse(channel).get("endpoint") or "").endswith(":0")


def awaited_channel(channel: str) -> str:
    """The channel to subscribe to before the request for a replay to any port. Its session id identifies the replay: it
    is that of ``channel``, else a random one, and the archive publishes with it."""
    session_id = ChannelUri.parse(channel).get("session-id")
    return channel if session_id is not None else with_session_id(channel, random.getrandbits(32) - (1 << 31))


def unresolved(channel: str, timeout_ns: int) -> ArchiveTimeout:
    """The error if the driver does not choose a port in time."""
    return ArchiveTimeout(channel, found=f"the port was not known within {timeout_ns / NS_PER_S:g} s")


def replayed_channel(channel: str, replay_session_id: int) -> str:
    """The channel on which a replay arrives, and nothing else."""
    session_id = ((replay_session_id & 0xFFFFFFFF) ^ 0x80000000) - 0x80000000
    return with_session_id(channel, session_id)


def with_session_id(channel: str, session_id: int) -> str:
    """The channel of one publication of a stream."""
    return str(ChannelUri.parse(channel).with_params({"session-id": str(session_id)}))
