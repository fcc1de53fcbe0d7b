"""The parts of a network publication, and the state shared by its two sides: the conductor's
(:mod:`everlog.aeron.transport.driver.sender.network_publication`) and the sender's
(:mod:`everlog.aeron.transport.driver.sender.publication_sender`). Source: NetworkPublication."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from everlog.aeron.channel_uri import ChannelUri
from everlog.aeron.transport.driver.commands.publication_params import PublicationParams
from everlog.aeron.transport.driver.log_factory import DriverLog
from everlog.aeron.transport.driver.sender.flow_control import FlowControl
from everlog.aeron.transport.driver.sender.retransmit import RetransmitHandler
from everlog.aeron.transport.driver.system_counters import SystemCounters
from everlog.aeron.transport.media.network import UdpSocket
from everlog.aeron.transport.media.send_channel_endpoint import Publication
from everlog.aeron.transport.memory import log_memory
from everlog.aeron.transport.memory.counters_memory import AtomicCounter
from everlog.kernel.memory import Memory
from everlog.kernel.udp import Datagrams, SocketAddress


class ChannelInformation(Protocol):
    """Properties of a publication's channel."""

    @property
    def is_multicast(self) -> bool: ...
    @property
    def is_multi_destination(self) -> bool: ...
    @property
    def has_group_semantics(self) -> bool: ...


class Endpoint(Protocol):
    """A sending endpoint: it sends datagrams to a peer, a group or several destinations, and receives their answers."""

    @property
    def socket(self) -> UdpSocket: ...

    @property
    def udp_channel(self) -> ChannelInformation: ...
    @property
    def original_uri(self) -> str: ...
    @property
    def multicast_ttl(self) -> int: ...
    def send(self, data: bytes, address: SocketAddress | None = None) -> int: ...
    def send_parts(
        self,
        memory: Memory,
        offset: int,
        ends: Sequence[int],
        count: int = -1,
        address: SocketAddress | None = None,
    ) -> int: ...
    def dec_ref(self) -> None: ...
    def register(self, publication: Publication, /) -> None: ...
    def unregister(self, publication: Publication, /) -> None: ...
    def poll(self, batch: Datagrams, now_ns: int) -> int: ...
    def check_for_re_resolution(self, now_ns: int) -> None: ...
    def resolution_change(self, endpoint: str, new_address: SocketAddress) -> None: ...
    def add_destination(
        self, uri: ChannelUri, address: SocketAddress | None, registration_id: int, now_ns: int
    ) -> None: ...
    def remove_destination(self, address: SocketAddress) -> None: ...
    def remove_destination_by_id(self, registration_id: int) -> None: ...


class Conductor(Protocol):
    """Notifications from the sender's side to the conductor, through a queue."""

    def response_connected(self, response_correlation_id: int) -> None: ...
    def on_publication_error(
        self,
        registration_id: int,
        destination_registration_id: int,
        session_id: int,
        stream_id: int,
        receiver_id: int,
        group_tag: int | None,
        address: SocketAddress,
        error_code: int,
        message: str,
    ) -> None: ...


@dataclass(frozen=True, slots=True)
class PublicationCounters:
    """A publication's own counters."""

    publisher_position: AtomicCounter
    publisher_limit: AtomicCounter
    sender_position: AtomicCounter
    sender_limit: AtomicCounter
    sender_bpe: AtomicCounter
    naks_received: AtomicCounter

    def close(self) -> None:
        """Free all counters."""
        for counter in (
            self.publisher_position,
            self.publisher_limit,
            self.sender_position,
            self.sender_limit,
            self.sender_bpe,
            self.naks_received,
        ):
            counter.close()


@dataclass(slots=True)
class SharedState:
    """State shared by the conductor's and the sender's side. The sender writes ``sender_position``, ``has_receivers``,
    ``has_unicast_eos`` and ``has_sender_released``. Both write ``is_connected``, which follows from the others. The
    conductor writes the rest.

    Counters publish positions and limits to other processes, which could overwrite them, so the driver relies only on
    the values here."""

    sender_position: int = 0
    has_receivers: bool = False
    has_unicast_eos: bool = False
    has_spies: bool = False
    is_end_of_stream: bool = False
    is_connected: bool = False
    max_spy_position: int = 0
    has_sender_released: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkPublicationParameters:
    """The parts of a network publication. The conductor has taken a reference to ``channel_endpoint`` (``inc_ref``),
    which the publication releases. ``counters`` start at the stream's first position."""

    registration_id: int
    params: PublicationParams
    channel_endpoint: Endpoint
    log: DriverLog
    conductor_proxy: Conductor
    flow_control: FlowControl
    retransmit: RetransmitHandler
    counters: PublicationCounters
    system: SystemCounters
    now_ns: int
    is_exclusive: bool = False
    unblock_timeout_ns: int = 15_000_000_000
    connection_timeout_ns: int = 5_000_000_000
    state: SharedState = field(default_factory=SharedState)


def max_message_length(term_length: int) -> int:
    """The length of a stream's longest message, in bytes. Source: FrameDescriptor.computeMaxMessageLength."""
    return min(term_length >> 3, 16 << 20)


def has_subscribers(parameters: NetworkPublicationParameters) -> bool:
    """Whether the publication has receivers, or spies that count as such."""
    state = parameters.state
    if parameters.params.spies_simulate_connection and state.has_spies:
        return True
    return state.has_receivers and parameters.flow_control.has_required_receivers


def update_connected(parameters: NetworkPublicationParameters, is_connected: bool | None = None) -> None:
    """Publish the connected state in the log's metadata; ``None`` derives it from the receivers and spies."""
    state = parameters.state
    is_connected = has_subscribers(parameters) if is_connected is None else is_connected
    if is_connected != state.is_connected:
        log_memory.set_is_connected(parameters.log.memory.metadata, is_connected)
        state.is_connected = is_connected
