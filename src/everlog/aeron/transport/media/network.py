"""Opens UDP sockets. Simulations use :mod:`everlog.testing.network.simulated` instead."""

from __future__ import annotations

import select
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from struct import Struct
from typing import Generic, Protocol, TypeVar

from everlog.aeron.transport.media.interfaces import NetworkInterface
from everlog.kernel.memory import Memory
from everlog.kernel.udp import Datagrams, SocketAddress
from everlog.kernel.udp import UdpSocket as SystemSocket
from everlog.layout import Readable

T = TypeVar("T")
ASK_ALL = 5
"""Up to this number, all sockets are read without asking the system which ones have data. Source: UdpTransportPoller.
"""
_GROUP_V6 = Struct("@16sI")
_GROUP_V4 = Struct("@4s4si")
_V4_ALL_GROUPS, _V6_ALL_GROUPS = 49, 29
"""Linux's IP_MULTICAST_ALL and IPV6_MULTICAST_ALL."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SocketSettings:
    """Settings of a socket. ``bind`` is its own address (port 0 means any port), ``connect`` its only peer, ``group``
    the multicast group that it receives. ``interface`` is used to receive the group and to send to groups. Lengths and
    ``ttl`` of 0 keep the system's defaults."""

    family: int
    bind: SocketAddress | None = None
    connect: SocketAddress | None = None
    group: SocketAddress | None = None
    interface: NetworkInterface | None = None
    ttl: int = 0
    sndbuf_length: int = 0
    rcvbuf_length: int = 0
    reuse_address: bool = False


class UdpSocket(Protocol):
    """A bound, non-blocking UDP socket: see :class:`everlog.kernel.udp_twin.UdpSocket`."""

    @property
    def local_address(self) -> SocketAddress:
        """The address it is bound to, with the actual port."""

    @property
    def closed(self) -> bool:
        """Whether :meth:`close` was called."""

    def send(self, data: Readable, address: SocketAddress | None = None) -> int:
        """Send one datagram. Returns the bytes sent, 0 if the socket would block."""

    def send_parts(
        self,
        memory: Memory,
        offset: int,
        ends: Sequence[int] | Readable,
        address: SocketAddress | None = None,
        count: int = -1,
    ) -> int:
        """Send a datagram for each part of a memory. Returns the number sent."""

    def receive(self, batch: Datagrams) -> int:
        """Fill a batch with datagrams. Returns their number."""

    def connect(self, address: SocketAddress) -> None:
        """Replace the only peer."""

    def close(self) -> None:
        """Release the port; a second call does nothing."""


class SocketSelector(Protocol[T]):
    """Finds the sockets with data to read."""

    def add(self, sock: UdpSocket, item: T) -> None:
        """Watch a socket; ``item`` identifies it."""

    def remove(self, sock: UdpSocket) -> None:
        """Stop watching a socket. Call it before the socket is closed."""

    def ready(self) -> Sequence[T]:
        """Items of the sockets that may have data: all of them if they are few."""

    def numbers(self) -> Sequence[int]:
        """File descriptors of all sockets."""


class Network(Protocol):
    """Opens sockets and selectors. Raises ``OSError``."""

    def open_udp(self, settings: SocketSettings) -> UdpSocket:
        """Open a socket."""

    def selector(self) -> SocketSelector[T]:
        """Create a selector."""


class SystemNetwork:
    """The machine's real network."""

    def open_udp(self, settings: SocketSettings) -> UdpSocket:
        """Open a system socket. Raises ``OSError`` and leaves nothing open then."""
        sock = socket.socket(settings.family, socket.SOCK_DGRAM)
        try:
            _apply(sock, settings)
            return SystemSocket(sock)
        except BaseException:
            sock.close()
            raise

    def selector(self) -> SocketSelector[T]:
        """A selector of system sockets."""
        return SystemSelector()


class SystemSelector(Generic[T]):
    """Asks the system which sockets have data if there are more than :data:`ASK_ALL`."""

    def __init__(self) -> None:
        self._items: dict[int, T] = {}
        self._poll = select.poll()

    def add(self, sock: UdpSocket, item: T) -> None:
        """Watch a socket; ``item`` identifies it."""
        number = _fileno(sock)
        self._items[number] = item
        self._poll.register(number, select.POLLIN)

    def remove(self, sock: UdpSocket) -> None:
        """See :class:`SocketSelector`; accepts a socket that was never added."""
        number = _fileno(sock)
        if self._items.pop(number, None) is not None:
            self._poll.unregister(number)

    def ready(self) -> Sequence[T]:
        """Return all items if there are at most :data:`ASK_ALL`, else those whose sockets have data."""
        if len(self._items) <= ASK_ALL:
            return list(self._items.values())
        return [self._items[number] for number, _ in self._poll.poll(0) if number in self._items]

    def numbers(self) -> Sequence[int]:
        """Return the file descriptors of all sockets."""
        return list(self._items)


def _fileno(sock: UdpSocket) -> int:
    assert isinstance(sock, SystemSocket)
    return sock.fileno()


def _apply(sock: socket.socket, settings: SocketSettings) -> None:
    """Apply the settings. Address sharing must be set before the socket is bound."""
    if settings.reuse_address:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if settings.bind is not None:
        sock.bind(settings.bind.sockaddr)
    if settings.group is not None:
        _join(sock, settings.group, settings.interface)
    if settings.interface is not None:
        _send_on(sock, settings.family, settings.interface)
    if settings.ttl:
        if settings.family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_HOPS, settings.ttl)
        else:
            sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, settings.ttl)
    if settings.connect is not None:
        sock.connect(settings.connect.sockaddr)
    if settings.sndbuf_length:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, settings.sndbuf_length)
    if settings.rcvbuf_length:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, settings.rcvbuf_length)


def _join(sock: socket.socket, group: SocketAddress, interface: NetworkInterface | None) -> None:
    """Receive this group only. Linux's default also delivers groups that other sockets of the machine joined on the
    same port."""
    index = 0 if interface is None else interface.index
    if group.is_ipv6:
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, _GROUP_V6.pack(group.raw, index))
    else:
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, _GROUP_V4.pack(group.raw, bytes(4), index))
    if sys.platform == "linux":
        level, option = (socket.IPPROTO_IPV6, _V6_ALL_GROUPS) if group.is_ipv6 else (socket.IPPROTO_IP, _V4_ALL_GROUPS)
        with suppress(OSError):  # an old kernel; endpoints check sessions and streams anyway
            sock.setsockopt(level, option, 0)


def _send_on(sock: socket.socket, family: int, interface: NetworkInterface) -> None:
    if family == socket.AF_INET6:
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, interface.index)
    else:
        choice = _GROUP_V4.pack(bytes(4), bytes(4), interface.index)
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, choice)
