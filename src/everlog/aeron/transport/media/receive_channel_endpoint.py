"""Receives the streams of one channel and sends the answers to their senders. Source: ReceiveChannelEndpoint,
MultiRcvDestination.

The conductor opens, closes and reference-counts it; everything else runs on the receiver thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

from everlog.aeron.channel_uri import InvalidChannel
from everlog.aeron.transport.media.context import (
    ACTIVE,
    ADDRESS_TIMEOUT_NS,
    CLOSING,
    INITIALIZING,
    MediaContext,
    text_of,
)
from everlog.aeron.transport.media.image_connection import ImageConnection
from everlog.aeron.transport.media.receive_destination import ReceiveDestinationTransport
from everlog.aeron.transport.media.receive_references import ReceiveReferences
from everlog.aeron.transport.media.transport import BufferLengths, Ends, UdpTransport
from everlog.aeron.transport.media.udp_channel import CONTROL, UdpChannel
from everlog.aeron.transport.memory.counters_memory import AtomicCounter
from everlog.aeron.transport.protocol import wire
from everlog.kernel.socket_address import SocketAddress

Dispatcher = TypeVar("Dispatcher")
Connections = Sequence[ImageConnection | None]
UNKNOWN_INDEX = -1
MAX_DESTINATIONS = 64
"""Most destinations of one subscription: an image has a place for each."""


class ReceiveChannelEndpoint(UdpTransport, ReceiveReferences, Generic[Dispatcher]):
    """The sockets on which the receiver receives one channel, and their counters. A channel with the ``control-mode``
    manual has one socket for each destination, by index; any other channel has one socket, with index 0.

    ``dispatcher`` belongs to the receiver. ``local_socket_address_indicator``, if any, is set before
    :meth:`indicate_active`. Closing the endpoint closes all its counters."""

    def __init__(
        self,
        channel: UdpChannel,
        dispatcher: Dispatcher,
        status_indicator: AtomicCounter,
        context: MediaContext,
        now_ns: int,
    ) -> None:
        ends = Ends(channel.remote_data, channel.remote_data, None)
        lengths = BufferLengths.of(channel, context)
        UdpTransport.__init__(self, channel, ends, lengths, context.receiver_ports, context)
        ReceiveReferences.__init__(self)
        self.dispatcher = dispatcher
        self.status_indicator = status_indicator
        self.local_socket_address_indicator: AtomicCounter | None = None
        self.udp_channel = channel
        self.receiver_id = next(context.receiver_ids)
        self.group_tag = context.receiver_group_tag if channel.group_tag is None else channel.group_tag
        self.has_destination_control = channel.is_manual_control_mode
        self.buffer_lengths = lengths
        self._admitted: list[ReceiveDestinationTransport] = []
        self._destinations: list[ReceiveDestinationTransport | None] = []
        self._control_address = channel.local_control
        self._time_of_last_activity_ns = now_ns

    # For the conductor

    @property
    def status(self) -> int:
        """The value of the status counter."""
        return self.status_indicator.get_acquire()

    @property
    def status_indicator_counter_id(self) -> int:
        """The id of the status counter."""
        return self.status_indicator.id

    def open_channel(self) -> None:
        """Open the sockets. Raises :class:`~everlog.aeron.transport.media.context.ChannelFailed`."""
        if not self.has_destination_control:
            self.open_sockets(self.status_indicator)

    def indicate_active(self) -> None:
        """Report in the counters that it is active, and its bound address."""
        if self.status_indicator.get() != INITIALIZING:
            raise ValueError(f"a channel that has the status {self.status_indicator.get()} can't become active")
        if not self.has_destination_control:
            self._context.append_label(self.status_indicator, self.bind_address_and_port)
            if self.local_socket_address_indicator is not None:
                self._context.update_bind_address(self.local_socket_address_indicator, self.bind_address_and_port)
                self.local_socket_address_indicator.set_release(ACTIVE)
        self.status_indicator.set_release(ACTIVE)

    def indicate_closing(self) -> None:
        """Set its status to closing."""
        self.status_indicator.set_release(CLOSING)

    def should_be_closed(self) -> bool:
        """Whether nothing uses it and it is not closing yet."""
        status = self.status_indicator
        return self.is_empty and not status.is_closed and status.get() != CLOSING

    def close(self) -> None:
        """Close sockets, destinations and counters; a second call does nothing."""
        self._close_sockets()
        for counter in (self.status_indicator, self.local_socket_address_indicator):
            if counter is not None:
                counter.close()
        for destination in self._destinations:
            if destination is not None:
                destination.close()

    def matches_tag(self, channel: UdpChannel) -> bool:
        """Whether a channel refers to this endpoint by its tag. Raises :class:`InvalidChannel` if it contradicts the
        endpoint."""
        return channel.matches_tag(self.udp_channel, self._control_address, None)

    def validate_allows_destination_control(self) -> None:
        """Raises :class:`InvalidChannel` unless its destinations are set manually."""
        if not self.has_destination_control:
            raise InvalidChannel("channel does not allow manual control")

    def check_room_for_destination(self) -> None:
        """Raises :class:`InvalidChannel` if the maximum number of destinations is open, regardless of the receiver's
        state."""
        self._admitted = [transport for transport in self._admitted if transport.is_open]
        if len(self._admitted) >= MAX_DESTINATIONS:
            raise self._too_many()

    def admit_destination(self, transport: ReceiveDestinationTransport) -> None:
        """Count another open destination, which the receiver is asked to add."""
        self._admitted.append(transport)

    def _too_many(self) -> InvalidChannel:
        return InvalidChannel(self.original_uri, found="one more destination", expected=f"{MAX_DESTINATIONS} at most")

    # Transports, by their index

    def transports(self) -> list[tuple[int, UdpTransport]]:
        """All transports to read."""
        if not self.has_destination_control:
            return [(0, self)]
        return [(index, each) for index, each in enumerate(self._destinations) if each is not None]

    def has_destination(self, index: int) -> bool:
        """Whether the transport with that index exists."""
        if not self.has_destination_control:
            return index == 0
        return 0 <= index < len(self._destinations) and self._destinations[index] is not None

    def destination(self, index: int) -> ReceiveDestinationTransport:
        """A destination's transport. Raises ``IndexError``."""
        found = self._destinations[index] if self.has_destination_control and self.has_destination(index) else None
        if found is None:
            raise IndexError(f"no destination {index} of {self.original_uri}")
        return found

    def add_destination(self, transport: ReceiveDestinationTransport) -> int:
        """Add a destination and return its index. Raises :class:`InvalidChannel` if there are too many."""
        for index, each in enumerate(self._destinations):
            if each is None:
                self._destinations[index] = transport
                return index
        if len(self._destinations) >= MAX_DESTINATIONS:
            raise self._too_many()
        self._destinations.append(transport)
        return len(self._destinations) - 1

    def remove_destination(self, index: int) -> None:
        """Remove a destination; its index may be reused."""
        self._destinations[index] = None

    def destination_index(self, channel: UdpChannel) -> int:
        """The index of the destination with that channel, or -1."""
        for index, each in enumerate(self._destinations):
            if each is not None and each.udp_channel == channel:
                return index
        return UNKNOWN_INDEX

    def channel_of(self, index: int = 0) -> UdpChannel:
        """A transport's channel. Raises ``IndexError``."""
        if self.has_destination_control and self.has_destination(index):
            return self.destination(index).udp_channel
        if index != 0:
            raise IndexError(f"no transport {index} of {self.original_uri}")
        return self.udp_channel

    def is_multicast(self, index: int = 0) -> bool:
        """Whether a transport receives a multicast group. Raises ``IndexError``."""
        return self.channel_of(index).is_multicast

    def multicast_ttl(self, index: int = 0) -> int:
        """The TTL of a transport's multicast datagrams; 0 is the system's default. Raises ``IndexError``."""
        return self.destination(index).multicast_ttl if self.has_destination_control else self._multicast_ttl

    @property
    def has_explicit_control(self) -> bool:
        """Whether the subscription's channel has a control address."""
        return self.udp_channel.has_explicit_control

    def explicit_control_address(self, index: int = 0) -> SocketAddress | None:
        """The control address of the transport's channel, if it has one. Raises ``IndexError``."""
        if self.has_destination_control:
            return self.destination(index).explicit_control_address
        return self._control_address if self.has_explicit_control else None

    def update_control_address(self, index: int, address: SocketAddress) -> None:
        """Set the new address of a control name."""
        if not self.has_destination_control:
            if self.has_explicit_control:
                self._control_address = address
        elif self.has_destination(index):
            self.destination(index).explicit_control_address = address

    def on_activity(self, now_ns: int, index: int = 0) -> None:
        """Record activity of a transport."""
        if not self.has_destination_control:
            self._time_of_last_activity_ns = now_ns
        elif self.has_destination(index):
            self.destination(index).time_of_last_activity_ns = now_ns

    def check_for_re_resolution(self, now_ns: int) -> None:
        """Have the names of inactive control addresses resolved again."""
        asked = self._context.conductor
        silent_ns = now_ns - ADDRESS_TIMEOUT_NS
        if not self.has_destination_control:
            channel = self.udp_channel
            if channel.has_explicit_control and self._time_of_last_activity_ns < silent_ns:
                self._time_of_last_activity_ns = now_ns
                asked.re_resolve_control(text_of(channel.uri, CONTROL), channel, self, self._control_address)
            return
        for each in self._destinations:
            if each is not None and each.has_explicit_control and each.time_of_last_activity_ns < silent_ns:
                each.time_of_last_activity_ns = now_ns
                control = text_of(each.udp_channel.uri, CONTROL)
                asked.re_resolve_control(control, each.udp_channel, self, each.explicit_control_address)

    # Answers

    def send_to_connections(self, data: bytes, connections: Connections, now_ns: int) -> None:
        """Send a frame to all senders of an image; counts partial sends as short sends."""
        if not self.has_destination_control:
            first = connections[0] if connections else None
            if first is not None:
                self._count_short(len(data), self.send_to(data, first.control_address))
            return
        shortest = len(data)
        for index, connection in enumerate(connections):
            if connection is None or not self.has_destination(index):
                continue
            if connection.time_of_last_activity_ns + ADDRESS_TIMEOUT_NS > now_ns:
                shortest = min(shortest, self.destination(index).send_to(data, connection.control_address))
        self._count_short(len(data), shortest)

    def send_to_transport(self, data: bytes, index: int, address: SocketAddress) -> None:
        """Send a frame from one transport's socket."""
        if self.has_destination(index):
            transport = self.destination(index) if self.has_destination_control else self
            self._count_short(len(data), transport.send_to(data, address))

    def _count_short(self, length: int, sent: int) -> None:
        if sent != length:
            self._context.counters.short_sends.increment_release()

    def send_setup_eliciting_status_message(
        self, index: int, address: SocketAddress, session_id: int, stream_id: int
    ) -> None:
        """Request a setup frame."""
        frame = wire.StatusMessage(session_id, stream_id, 0, 0, 0, self.receiver_id, self.group_tag, wire.SM_SEND_SETUP)
        self.send_to_transport(wire.encode(frame), index, address)

    def send_status_message(
        self,
        connections: Connections,
        session_id: int,
        stream_id: int,
        term_id: int,
        term_offset: int,
        window_length: int,
        flags: int,
        now_ns: int,
    ) -> None:
        """Send a status message: the subscribers' position and the receiver window."""
        frame = wire.StatusMessage(
            session_id, stream_id, term_id, term_offset, window_length, self.receiver_id, self.group_tag, flags
        )
        self.send_to_connections(wire.encode(frame), connections, now_ns)

    def send_nak(
        self,
        connections: Connections,
        session_id: int,
        stream_id: int,
        term_id: int,
        term_offset: int,
        length: int,
        now_ns: int,
    ) -> None:
        """Request missing bytes."""
        frame = wire.Nak(session_id, stream_id, term_id, term_offset, length)
        self.send_to_connections(wire.encode(frame), connections, now_ns)

    def send_rtt_measurement(
        self,
        connections: Connections,
        session_id: int,
        stream_id: int,
        echo_timestamp_ns: int,
        reception_delta_ns: int,
        wants_reply: bool,
        now_ns: int,
    ) -> None:
        """Send a frame to measure the round-trip time; ``wants_reply``: the publisher is to answer it."""
        frame = self._rtt(session_id, stream_id, echo_timestamp_ns, reception_delta_ns, wants_reply)
        self.send_to_connections(frame, connections, now_ns)

    def send_rtt_measurement_to(
        self,
        index: int,
        address: SocketAddress,
        session_id: int,
        stream_id: int,
        echo_timestamp_ns: int,
        reception_delta_ns: int,
        wants_reply: bool,
    ) -> None:
        """Like :meth:`send_rtt_measurement`, to one address."""
        frame = self._rtt(session_id, stream_id, echo_timestamp_ns, reception_delta_ns, wants_reply)
        self.send_to_transport(frame, index, address)

    def _rtt(self, session_id: int, stream_id: int, echo_ns: int, delta_ns: int, wants_reply: bool) -> bytes:
        flags = wire.RTTM_REPLY if wants_reply else 0
        return wire.encode(wire.RttMeasurement(session_id, stream_id, echo_ns, delta_ns, self.receiver_id, flags))

    def send_response_setup(
        self, connections: Connections, session_id: int, stream_id: int, response_session_id: int, now_ns: int
    ) -> None:
        """Send the session id of the responses."""
        frame = wire.ResponseSetup(session_id, stream_id, response_session_id)
        self.send_to_connections(wire.encode(frame), connections, now_ns)

    def send_error(
        self, connections: Connections, session_id: int, stream_id: int, error_code: int, message: str, now_ns: int
    ) -> None:
        """Reject an image."""
        self._context.counters.error_frames_sent.increment_release()
        frame = wire.ErrorFrame(session_id, stream_id, self.receiver_id, error_code, message, self.group_tag)
        self.send_to_connections(wire.encode(frame), connections, now_ns)
