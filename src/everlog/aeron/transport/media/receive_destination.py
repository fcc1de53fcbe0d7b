"""One destination of a multi-destination subscription, with its own sockets and control address. Source: Aeron,
ReceiveDestinationTransport."""

from __future__ import annotations

from everlog.aeron.transport.media.context import ACTIVE, INITIALIZING, MediaContext
from everlog.aeron.transport.media.transport import BufferLengths, Ends, UdpTransport
from everlog.aeron.transport.media.udp_channel import UdpChannel
from everlog.aeron.transport.memory.counters_memory import AtomicCounter
from everlog.kernel.socket_address import SocketAddress


class ReceiveDestinationTransport(UdpTransport):
    """A destination's transport. ``lengths`` are the socket buffer lengths of the subscription's endpoint. The counter
    is closed with the transport."""

    def __init__(
        self,
        channel: UdpChannel,
        context: MediaContext,
        local_socket_address_indicator: AtomicCounter,
        lengths: BufferLengths,
        now_ns: int,
    ) -> None:
        ends = Ends(channel.remote_data, channel.remote_data, None)
        super().__init__(channel, ends, lengths, context.receiver_ports, context)
        self.udp_channel = channel
        self.local_socket_address_indicator = local_socket_address_indicator
        self.time_of_last_activity_ns = now_ns
        self.explicit_control_address: SocketAddress | None = (
            channel.local_control if channel.has_explicit_control else None
        )

    @property
    def is_multicast(self) -> bool:
        """Whether it is a multicast group."""
        return self.udp_channel.is_multicast

    @property
    def has_explicit_control(self) -> bool:
        """Whether the channel has a control address."""
        return self.udp_channel.has_explicit_control

    @property
    def multicast_ttl(self) -> int:
        """The TTL of multicast datagrams; 0 is the system's default."""
        return self._multicast_ttl

    def open_channel(self, status_indicator: AtomicCounter | None = None) -> None:
        """Open the sockets. Raises :class:`~everlog.aeron.transport.media.context.ChannelFailed` and sets the
        endpoint's status counter to errored."""
        self.open_sockets(status_indicator)

    def indicate_active(self) -> None:
        """Report the bound address in the counter."""
        indicator = self.local_socket_address_indicator
        if indicator.get() != INITIALIZING:
            raise ValueError(f"a destination that has the status {indicator.get()} can't become active")
        self._context.update_bind_address(indicator, self.bind_address_and_port)
        indicator.set_release(ACTIVE)

    def close(self) -> None:
        """Close sockets and counter; a second call does nothing."""
        self._close_sockets()
        self.local_socket_address_indicator.close()
