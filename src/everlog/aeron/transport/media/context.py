"""Dependencies that endpoints share: network, counters, defaults, and the receivers of errors and events."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from everlog.aeron.channel_uri import ChannelUri
from everlog.aeron.java_exception import AeronEvent
from everlog.aeron.transport.media.network import Network
from everlog.aeron.transport.media.port_manager import WildcardPortManager
from everlog.aeron.transport.memory.counters_memory import AtomicCounter
from everlog.errors import EverlogError
from everlog.kernel.socket_address import SocketAddress

INITIALIZING, ERRORED, ACTIVE, CLOSING = 0, -1, 1, 2
"""Values of a channel's status counter. Source: ChannelEndpointStatus."""
ADDRESS_TIMEOUT_NS = 5_000_000_000
"""Silence after which a name is resolved again, or a destination times out."""


class ChannelFailed(EverlogError):
    """The system refuses a channel's socket."""


class Errors(Protocol):
    """Receives errors that no caller can handle."""

    def record(self, error: BaseException | str, now_ms: int | None = None) -> None:
        """Record an error; never raises."""


class ConductorRequests(Protocol):
    """Requests of endpoints to the conductor, through its queue. An endpoint passes itself as an argument; the
    conductor knows its kind."""

    def re_resolve_endpoint(self, endpoint_text: str, endpoint: Any, address: Any) -> None:
        """Resolve a name again; a new address arrives through ``resolution_change``."""

    def re_resolve_control(self, control_text: str, channel: Any, endpoint: Any, address: Any) -> None:
        """Resolve a name again; a new address arrives through ``update_control_address``."""

    def response_setup(self, response_correlation_id: int, response_session_id: int) -> None:
        """Report the session id of the responses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointCounters:
    """The driver's counters that endpoints write."""

    invalid_packets: AtomicCounter
    short_sends: AtomicCounter
    status_messages_received: AtomicCounter
    status_messages_rejected: AtomicCounter
    nak_messages_received: AtomicCounter
    error_frames_received: AtomicCounter
    error_frames_sent: AtomicCounter


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaContext:
    """The dependencies. ``append_label`` and ``update_bind_address`` write a socket's bound address to a counter.
    ``receiver_ids`` gives each receiving endpoint its id. ``epoch_ns`` is the clock for timestamps in messages, used
    only if a channel requests them. Lengths and ``multicast_ttl`` of 0 keep the system's defaults."""

    network: Network
    counters: EndpointCounters
    errors: Errors
    conductor: ConductorRequests
    append_label: Callable[[AtomicCounter, str], None]
    update_bind_address: Callable[[AtomicCounter, str], None]
    sender_ports: WildcardPortManager
    receiver_ports: WildcardPortManager
    receiver_ids: Iterator[int]
    epoch_ns: Callable[[], int]
    receiver_group_tag: int | None = None
    socket_sndbuf_length: int = 0
    socket_rcvbuf_length: int = 0
    multicast_ttl: int = 0


def text_of(uri: ChannelUri, parameter: str) -> str:
    """A parameter that is known to be present, because the channel was parsed with it."""
    return uri.get(parameter) or ""


def send_failed(errors: Errors, address: SocketAddress | None, error: OSError) -> None:
    """Report a datagram that the system refused."""
    cause = f"java.io.IOException: {error.strerror or error}"
    errors.record(AeronEvent(f"failed to send datagram to /{address}, cause: {cause}"))
