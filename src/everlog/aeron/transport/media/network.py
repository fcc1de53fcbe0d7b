"""The seam to the network: what opens UDP sockets, and the sockets. The simulated one is
:mod:`everlog.testing.network.simulated`."""

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
"""Up to so many sockets are read without asking which have something: one call each. Source: UdpTransportPoller."""
_GROUP_V6 = Struct("@16sI")
_GROUP_V4 = Struct("@4s4si")
_V4_ALL_GROUPS, _V6_ALL_GROUPS = 49, 29
"""Linux's IP_MULTICAST_ALL and IPV6_MULTICAST_ALL."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SocketSettings:
    """What a socket is to be. ``bind``: its own address, port 0 for any. ``connect``: its only peer. ``group``: the
    multicast group it hears, on ``interface``. ``interface``: also where it sends to groups. Lengths and ``ttl`` of 0
    leave the system's own."""

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
        """Where it is bound to, with the port that it was given."""

    @property
    def closed(self) -> bool:
        """Whether :meth:`close` was called."""

    def send(self, data: Readable, address: SocketAddress | None = None) -> int:
        """One datagram; bytes sent, 0 for not now."""

    def send_parts(
        self,
        memory: Memory,
        offset: int,
        ends: Sequence[int] | Readable,
        address: SocketAddress | None = None,
        count: int = -1,
    ) -> int:
        """A datagram for each part of a memory; how many were sent."""

    def receive(self, batch: Datagrams) -> int:
        """Fill a batch; how many there were."""

    def connect(self, address: SocketAddress) -> None:
        """Have another only peer."""

    def close(self) -> None:
        """Give the port back; may be called again."""


class SocketSelector(Protocol[T]):
    """Which of many sockets have something to read."""

    def add(self, sock: UdpSocket, item: T) -> None:
        """Look at this socket too; ``item`` stands for it."""

    def remove(self, sock: UdpSocket) -> None:
        """Look at it no more: before it is closed."""

    def ready(self) -> Sequence[T]:
        """Items of sockets that may have something: all of them when they are few."""

    def numbers(self) -> Sequence[int]:
        """The system's numbers of all sockets."""


class Network(Protocol):
    """What opens sockets. Raises ``OSError``."""

    def open_udp(self, settings: SocketSettings) -> UdpSocket:
        """A socket."""

    def selector(self) -> SocketSelector[T]:
        """Something that tells which sockets to read."""


class SystemNetwork:
    """The machine's own network."""

    def open_udp(self, settings: SocketSettings) -> UdpSocket:
        """A socket of the system. Raises ``OSError``; nothing stays open then."""
        sock = socket.socket(settings.family, socket.SOCK_DGRAM)
        try:
            _apply(sock, settings)
            return SystemSocket(sock)
        except BaseException:
            sock.close()
            raise

    def selector(self) -> SocketSelector[T]:
        """A selector of the system's sockets."""
        return SystemSelector()


class SystemSelector(Generic[T]):
    """Asks the system which sockets have something once there are more than :data:`ASK_ALL`."""

    def __init__(self) -> None:
        self._items: dict[int, T] = {}
        self._poll = select.poll()

    def add(self, sock: UdpSocket, item: T) -> None:
        """See :class:`SocketSelector`."""
        number = _fileno(sock)
        self._items[number] = item
        self._poll.register(number, select.POLLIN)

    def remove(self, sock: UdpSocket) -> None:
        """See :class:`SocketSelector`; also of a socket that was never added."""
        number = _fileno(sock)
        if self._items.pop(number, None) is not None:
            self._poll.unregister(number)

    def ready(self) -> Sequence[T]:
        """See :class:`SocketSelector`."""
        if len(self._items) <= ASK_ALL:
            return list(self._items.values())
        return [self._items[number] for number, _ in self._poll.poll(0) if number in self._items]

    def numbers(self) -> Sequence[int]:
        """See :class:`SocketSelector`."""
        return list(self._items)


def _fileno(sock: UdpSocket) -> int:
    assert isinstance(sock, SystemSocket)
    return sock.fileno()


def _apply(sock: socket.socket, settings: SocketSettings) -> None:
    """The order matters: the address may be shared only before it is bound."""
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
    """Hear this group, and not those that other sockets of the machine joined on the same port, as Linux has it."""
    index = 0 if interface is None else interface.index
    if group.is_ipv6:
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, _GROUP_V6.pack(group.raw, index))
    else:
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, _GROUP_V4.pack(group.raw, bytes(4), index))
    if sys.platform == "linux":
        level, option = (socket.IPPROTO_IPV6, _V6_ALL_GROUPS) if group.is_ipv6 else (socket.IPPROTO_IP, _V4_ALL_GROUPS)
        with suppress(OSError):  # an old kernel: endpoints look at sessions and streams anyway
            sock.setsockopt(level, option, 0)


def _send_on(sock: socket.socket, family: int, interface: NetworkInterface) -> None:
    if family == socket.AF_INET6:
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, interface.index)
    else:
        choice = _GROUP_V4.pack(bytes(4), bytes(4), interface.index)
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, choice)
