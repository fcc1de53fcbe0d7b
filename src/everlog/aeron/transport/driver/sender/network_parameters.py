"""What a network publication is made of and what its two sides share: the conductor's
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
    """What a publication asks about its channel."""

    @property
    def is_multicast(self) -> bool: ...
    @property
    def is_multi_destination(self) -> bool: ...
    @property
    def has_group_semantics(self) -> bool: ...


class Endpoint(Protocol):
    """Where datagrams go: to a peer, a group, or several destinations; and where answers come from."""

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
    """What the sender's side tells the driver's conductor, through a queue."""

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
        """Free them."""
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
    """What the conductor's and the sender's side tell each other. Written by the sender: ``sender_position``,
    ``has_receivers``, ``has_unicast_eos``, ``has_sender_released``; by the conductor: the rest, but for
    ``is_connected``, which both may write, from the others.

    Counters show positions and limits to other processes, which could write to them: what a driver goes by is here."""

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
    """What makes a network publication. ``channel_endpoint`` has been referred to by the conductor (``inc_ref``); the
    publication lets go of it. ``counters`` stand where the stream begins."""

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
    """The longest message of a stream. Source: FrameDescriptor.computeMaxMessageLength."""
    return min(term_length >> 3, 16 << 20)


def has_subscribers(parameters: NetworkPublicationParameters) -> bool:
    """Whether there is somebody for whom to publish."""
    state = parameters.state
    if parameters.params.spies_simulate_connection and state.has_spies:
        return True
    return state.has_receivers and parameters.flow_control.has_required_receivers


def update_connected(parameters: NetworkPublicationParameters, is_connected: bool | None = None) -> None:
    """Show publishers whether there is somebody; ``None``: by what is known."""
    state = parameters.state
    is_connected = has_subscribers(parameters) if is_connected is None else is_connected
    if is_connected != state.is_connected:
        log_memory.set_is_connected(parameters.log.memory.metadata, is_connected)
        state.is_connected = is_connected
