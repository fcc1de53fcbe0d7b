"""The sockets of one channel: one, or two for a sender to a multicast group, which receives on its control address.
Source: Aeron, UdpChannelTransport."""

from __future__ import annotations

import socket
from dataclasses import dataclass

from everlog.aeron.transport.media.context import ERRORED, ChannelFailed, MediaContext, send_failed
from everlog.aeron.transport.media.network import SocketSettings, UdpSocket
from everlog.aeron.transport.media.port_manager import NoPortLeft, WildcardPortManager
from everlog.aeron.transport.media.udp_channel import UdpChannel
from everlog.aeron.transport.memory.counters_memory import AtomicCounter
from everlog.kernel.socket_address import SocketAddress
from everlog.kernel.udp import Datagrams


@dataclass(frozen=True, slots=True)
class Ends:
    """A channel's addresses: ``group`` is the group that a multicast channel receives, ``bind`` the own address of any
    other channel, ``connect`` the only peer, if any."""

    group: SocketAddress
    bind: SocketAddress
    connect: SocketAddress | None


@dataclass(frozen=True, slots=True)
class BufferLengths:
    """The requested lengths of a socket's receive and send buffers, in bytes; 0 is the system's default."""

    rcvbuf: int
    sndbuf: int

    @classmethod
    def of(cls, channel: UdpChannel, context: MediaContext) -> BufferLengths:
        """The channel's lengths; the driver's for those that the channel does not give."""
        return cls(
            channel.socket_rcvbuf_length or context.socket_rcvbuf_length,
            channel.socket_sndbuf_length or context.socket_sndbuf_length,
        )


class UdpTransport:
    """A channel's sockets. ``socket`` is the one that is read."""

    def __init__(
        self, channel: UdpChannel, ends: Ends, lengths: BufferLengths, ports: WildcardPortManager, context: MediaContext
    ) -> None:
        self._channel = channel
        self._ends = ends
        self._lengths = lengths
        self._ports = ports
        self._context = context
        self._bound: SocketAddress | None = None
        self._receive_socket: UdpSocket | None = None
        self._send_socket: UdpSocket | None = None
        self._connect_address = ends.connect
        self._multicast_ttl = 0

    @property
    def original_uri(self) -> str:
        """The channel's URI as given."""
        return self._channel.original_uri

    @property
    def socket(self) -> UdpSocket:
        """The socket to read; it must be open."""
        if self._receive_socket is None:
            raise ValueError(f"no socket is open for {self.original_uri}")
        return self._receive_socket

    @property
    def is_open(self) -> bool:
        """Whether its sockets are open."""
        return self._receive_socket is not None

    @property
    def socket_rcvbuf_length(self) -> int:
        """The requested length of the receive buffer, in bytes; 0 is the system's default."""
        return self._lengths.rcvbuf

    @property
    def socket_sndbuf_length(self) -> int:
        """The requested length of the send buffer, in bytes; 0 is the system's default."""
        return self._lengths.sndbuf

    @property
    def bind_address_and_port(self) -> str:
        """The bound address of the socket that is read; empty until it is open."""
        return "" if self._receive_socket is None else str(self._receive_socket.local_address)

    def receive(self, batch: Datagrams) -> int:
        """Fill the batch with received datagrams; returns 0 once closed. Raises ``OSError``."""
        return 0 if self._receive_socket is None else self._receive_socket.receive(batch)

    def send_to(self, data: bytes, address: SocketAddress | None) -> int:
        """Send one datagram. Returns its bytes, or 0 if it was not sent. The system's errors are recorded."""
        if self._send_socket is None:
            return 0
        try:
            return self._send_socket.send(data, address)
        except OSError as error:
            send_failed(self._context.errors, address or self._connect_address, error)
            return 0

    def open_sockets(self, status: AtomicCounter | None) -> None:
        """Open the sockets. Raises :class:`ChannelFailed`, sets the status counter to errored and leaves nothing
        open."""
        try:
            if self._channel.is_multicast:
                self._open_multicast()
            else:
                self._bound = self._ports.managed(self._ends.bind, self._channel.has_explicit_control)
                self._receive_socket = self._send_socket = self._context.network.open_udp(
                    self._settings(bind=self._bound, connect=self._ends.connect)
                )
        except (OSError, NoPortLeft) as error:
            self._close_sockets()
            if status is not None:
                status.set_release(ERRORED)
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise ChannelFailed(f"channel error - {reason}: {self.original_uri}") from error

    def _open_multicast(self) -> None:
        """Open a socket that receives the group and shares its port, and a second one for a peer, because a connected
        socket would not receive the group."""
        network, group = self._context.network, self._ends.group
        ttl = self._channel.multicast_ttl
        self._multicast_ttl = self._context.multicast_ttl if ttl is None else ttl
        wildcard = SocketAddress("::" if group.is_ipv6 else "0.0.0.0", group.port)
        self._receive_socket = network.open_udp(self._settings(bind=wildcard, group=group))
        self._send_socket = self._receive_socket
        if self._ends.connect is not None:
            self._send_socket = network.open_udp(self._settings(connect=self._ends.connect))

    def _settings(
        self,
        bind: SocketAddress | None = None,
        connect: SocketAddress | None = None,
        group: SocketAddress | None = None,
    ) -> SocketSettings:
        if bind is not None and bind.is_any and self._channel.family == socket.AF_INET6:
            # Channels write the wildcard address as IPv4's; an IPv6 socket needs IPv6's.
            bind = SocketAddress("::", bind.port)
        return SocketSettings(
            family=self._channel.family,
            bind=bind,
            connect=connect,
            group=group,
            interface=self._channel.local_interface,
            ttl=self._multicast_ttl,
            sndbuf_length=self._lengths.sndbuf,
            rcvbuf_length=self._lengths.rcvbuf,
            reuse_address=group is not None,
        )

    def _close_sockets(self) -> None:
        for sock in (self._receive_socket, self._send_socket):
            if sock is not None:
                sock.close()
        self._receive_socket = self._send_socket = None
        if self._bound is not None:
            self._ports.free(self._bound)
            self._bound = None
