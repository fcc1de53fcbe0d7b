"""A simulated network: seeded loss, duplication, reordering, delay and partitions between simulated machines.

Only :meth:`SimulatedNetwork.advance` moves time, and the seed decides everything random: the same calls in the same
order give the same behaviour.
"""

from __future__ import annotations

import errno
import heapq
import itertools
import os
import random
import socket
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from everlog.aeron.transport.media.interfaces import InterfaceAddress, NetworkInterface
from everlog.aeron.transport.media.network import SocketSettings, UdpSocket
from everlog.kernel.memory import Memory
from everlog.kernel.socket_address import SocketAddress
from everlog.kernel.udp import Datagrams
from everlog.kernel.udp_twin import part_bounds
from everlog.layout import Readable

T = TypeVar("T")
MAX_DATAGRAM_LENGTH = 65507
DEFAULT_RCVBUF_LENGTH = 212_992
FIRST_WILDCARD_PORT = 32_768
_LOOPBACK = {int(socket.AF_INET): "127.0.0.1", int(socket.AF_INET6): "::1"}
Verdict = Callable[[bytes, SocketAddress, SocketAddress], bool]


@dataclass(slots=True, kw_only=True)
class LinkConditions:
    """How the network treats datagrams between machines: probabilities, and the shortest and the longest delay. A
    reordered datagram is delayed by up to four more longest delays (at least a millisecond). ``loses`` lets a test
    choose further losses: it is called with data, source and target of each datagram."""

    loss: float = 0.0
    duplication: float = 0.0
    reordering: float = 0.0
    delay_ns: tuple[int, int] = (0, 0)
    loses: Verdict | None = None


@dataclass(slots=True)
class Traffic:
    """Counts of datagrams by what happened to them; each copy counts."""

    sent: int = 0
    delivered: int = 0
    lost: int = 0
    duplicated: int = 0
    reordered: int = 0
    cut_off: int = 0
    """Lost to a partition."""
    unreachable: int = 0
    """Sent to a port without a socket, or from an address that the socket is not connected to."""
    overflowed: int = 0
    """Dropped because the receiving socket's buffer was full."""


class SimulatedNetwork:
    """Machines and the datagrams in flight between them. ``weather``, the conditions of all links, may be changed at
    any time."""

    def __init__(self, seed: int, weather: LinkConditions | None = None) -> None:
        self.weather = weather or LinkConditions()
        self.traffic = Traffic()
        self.now_ns = 0
        self._random = random.Random(seed)
        self._machines: dict[str, SimulatedMachine] = {}
        self._cuts: set[tuple[str, str]] = set()
        self._serial = itertools.count()

    def machine(self, *addresses: str) -> SimulatedMachine:
        """Add a machine with these addresses and the loopback addresses."""
        made = SimulatedMachine(self, addresses)
        for address in addresses:
            if address in self._machines:
                raise ValueError(f"two machines with {address}")
            self._machines[address] = made
        return made

    def advance(self, now_ns: int) -> None:
        """Set the time, which never goes back. Datagrams that are due can then be received."""
        self.now_ns = max(self.now_ns, now_ns)

    def partition(self, one: Iterable[SimulatedMachine], other: Iterable[SimulatedMachine]) -> None:
        """Stop all traffic between the machines of the two sides; datagrams in flight still arrive."""
        for here, there in itertools.product(list(one), list(other)):
            self._cuts |= {(here.name, there.name), (there.name, here.name)}

    def cut(self, source: SimulatedMachine, target: SimulatedMachine) -> None:
        """Stop traffic from ``source`` to ``target``, but not back."""
        self._cuts.add((source.name, target.name))

    def heal(self) -> None:
        """End all partitions and cuts."""
        self._cuts.clear()

    def inject(self, data: bytes, source: SocketAddress, target: SocketAddress) -> None:
        """Deliver a datagram with any source address, whatever the link conditions."""
        machine = self._machines.get(target.host)
        for sock in [] if machine is None else machine.sockets_at(target):
            sock.enqueue(self.now_ns, next(self._serial), data, source)

    def carry(self, sender: SimulatedMachine, data: bytes, source: SocketAddress, target: SocketAddress) -> None:
        """Carry a datagram that a socket sent."""
        self.traffic.sent += 1
        reached = False
        for machine in self._targets(sender, target):
            for sock in machine.sockets_at(target):
                reached = True
                if sender is machine and not target.is_multicast:
                    sock.enqueue(self.now_ns, next(self._serial), data, source)
                else:
                    self._through_weather(sender, sock, data, source, target)
        self.traffic.unreachable += not reached

    def _targets(self, sender: SimulatedMachine, target: SocketAddress) -> list[SimulatedMachine]:
        if target.host in _LOOPBACK.values():
            return [sender]
        if target.is_multicast:
            return list(dict.fromkeys(self._machines.values()))
        return [self._machines[target.host]] if target.host in self._machines else []

    def _through_weather(
        self, sender: SimulatedMachine, sock: SimulatedSocket, data: bytes, source: SocketAddress, target: SocketAddress
    ) -> None:
        weather, roll = self.weather, self._random.random
        if (sender.name, sock.machine.name) in self._cuts:
            self.traffic.cut_off += 1
            return
        copies = 1
        if roll() < weather.duplication:
            self.traffic.duplicated += 1
            copies = 2
        for _ in range(copies):
            if roll() < weather.loss or (weather.loses is not None and weather.loses(data, source, target)):
                self.traffic.lost += 1
                continue
            least, longest = weather.delay_ns
            due = self.now_ns + self._random.randint(least, longest)
            if roll() < weather.reordering:
                self.traffic.reordered += 1
                due += self._random.randint(1, 4 * max(longest, 250_000))
            else:
                # Datagrams that are not reordered stay in the order in which the machine sent them.
                due = sock.last_due_ns[sender.name] = max(due, sock.last_due_ns.get(sender.name, 0))
            sock.enqueue(due, next(self._serial), data, source)


class SimulatedMachine:
    """One machine's view of the network: see :class:`everlog.aeron.transport.media.network.Network`."""

    def __init__(self, network: SimulatedNetwork, addresses: Sequence[str]) -> None:
        self.network = network
        self.name = addresses[0]
        self.addresses = [SocketAddress(address, 0) for address in addresses]
        self._sockets: list[SimulatedSocket] = []
        self._next_port = FIRST_WILDCARD_PORT

    def interfaces(self) -> list[NetworkInterface]:
        """Return its interfaces: the loopback, and one with all its addresses."""
        loopback = (InterfaceAddress(SocketAddress("127.0.0.1", 0), 8), InterfaceAddress(SocketAddress("::1", 0), 128))
        own = tuple(InterfaceAddress(each, 64 if each.is_ipv6 else 24) for each in self.addresses)
        return [NetworkInterface("lo", 1, loopback, is_loopback=True), NetworkInterface("eth0", 2, own)]

    def open_udp(self, settings: SocketSettings) -> SimulatedSocket:
        """Open a socket. Raises ``OSError`` if the port is taken or the address is not one of the machine's."""
        wanted = settings.bind or SocketAddress("::" if settings.family == socket.AF_INET6 else "0.0.0.0", 0)
        if wanted.family != settings.family:
            raise _refused(errno.EAFNOSUPPORT)
        if not wanted.is_any and wanted.host not in (_LOOPBACK[wanted.family], *(each.host for each in self.addresses)):
            raise _refused(errno.EADDRNOTAVAIL)
        bound = wanted if wanted.port else wanted.with_port(self._free_port())
        for sock in self._sockets:
            shared = settings.reuse_address and sock.settings.reuse_address
            same = sock.local_address.is_any or bound.is_any or sock.local_address.host == bound.host
            if sock.local_address.port == bound.port and same and not shared:
                raise _refused(errno.EADDRINUSE)
        made = SimulatedSocket(self, settings, bound)
        self._sockets.append(made)
        return made

    def selector(self) -> SimulatedSelector[T]:
        """Return a selector for its sockets."""
        return SimulatedSelector()

    def sockets_at(self, target: SocketAddress) -> list[SimulatedSocket]:
        """Return the sockets that receive datagrams for ``target``. If several share a unicast address, only the newest
        receives them, as in a real system."""
        heard = [sock for sock in self._sockets if sock.hears(target)]
        return heard if target.is_multicast else heard[-1:]

    def source_for(self, bound: SocketAddress, target: SocketAddress) -> SocketAddress:
        """Return the source address that the receiver of a datagram sees."""
        if not bound.is_any:
            return bound
        if target.host in _LOOPBACK.values():
            return target.with_port(bound.port)
        same = [each for each in self.addresses if each.family == target.family]
        if not same:
            raise _refused(errno.ENETUNREACH)
        return same[0].with_port(bound.port)

    def forget(self, sock: SimulatedSocket) -> None:
        """Remove a socket that was closed."""
        if sock in self._sockets:
            self._sockets.remove(sock)

    def close_sockets(self) -> None:
        """Close all sockets, as the end of their process does."""
        for sock in self._sockets[:]:
            sock.close()

    def _free_port(self) -> int:
        taken = {sock.local_address.port for sock in self._sockets}
        while self._next_port in taken:
            self._next_port += 1
        self._next_port += 1
        return self._next_port - 1


@dataclass(eq=False, slots=True)
class SimulatedSocket:
    """A machine's UDP socket: see :class:`everlog.aeron.transport.media.network.UdpSocket`."""

    machine: SimulatedMachine
    settings: SocketSettings
    local_address: SocketAddress
    closed: bool = False
    last_due_ns: dict[str, int] = field(default_factory=dict)
    _peer: SocketAddress | None = None
    _queue: list[tuple[int, int, bytes, SocketAddress]] = field(default_factory=list)
    _queued_bytes: int = 0

    def __post_init__(self) -> None:
        self._peer = self.settings.connect

    def send(self, data: Readable, address: SocketAddress | None = None) -> int:
        """Put a datagram on the network. Returns its length. Raises the ``OSError`` that a system socket raises."""
        target = address or self._peer
        if self.closed:
            raise _refused(errno.EBADF)
        if target is None:
            raise _refused(errno.EDESTADDRREQ)
        if target.family != self.settings.family:
            raise _refused(errno.EAFNOSUPPORT)
        if len(data) > MAX_DATAGRAM_LENGTH:
            raise _refused(errno.EMSGSIZE)
        source = self.machine.source_for(self.local_address, target)
        self.machine.network.carry(self.machine, bytes(data), source, target)
        return len(data)

    def send_parts(
        self,
        memory: Memory,
        offset: int,
        ends: Sequence[int] | Readable,
        address: SocketAddress | None = None,
        count: int = -1,
    ) -> int:
        """Send a datagram for each part of a memory. Returns the number sent."""
        start = offset
        bounds = part_bounds(memory, offset, ends, count)
        for end in bounds:
            self.send(memory.read(start, end - start), address)
            start = end
        return len(bounds)

    def receive(self, batch: Datagrams) -> int:
        """Fill a batch with the datagrams that have arrived. Returns their number."""
        if self.closed:
            raise _refused(errno.EBADF)
        batch.clear()
        while self.has_something() and len(batch) < batch.capacity:
            _, _, data, source = heapq.heappop(self._queue)
            self._queued_bytes -= len(data)
            self.machine.network.traffic.delivered += 1
            batch.add(data, source)
        return len(batch)

    def connect(self, address: SocketAddress) -> None:
        """Replace the only peer."""
        if address.family != self.settings.family:
            raise _refused(errno.EAFNOSUPPORT)
        self._peer = address

    def close(self) -> None:
        """Close the socket; queued datagrams are lost."""
        self.closed = True
        self.machine.forget(self)

    def has_something(self) -> bool:
        """Whether a datagram can be received now."""
        return bool(self._queue) and self._queue[0][0] <= self.machine.network.now_ns

    def hears(self, target: SocketAddress) -> bool:
        """Whether the socket receives datagrams for ``target``."""
        if target.port != self.local_address.port or target.family != self.settings.family:
            return False
        if target.is_multicast:
            return self.settings.group is not None and self.settings.group.host == target.host
        return self.local_address.is_any or self.local_address.host == target.host

    def enqueue(self, due_ns: int, serial: int, data: bytes, source: SocketAddress) -> None:
        """Queue a datagram for ``due_ns``, if there is room and the socket is not connected to another address."""
        if self._peer is not None and source != self._peer:
            self.machine.network.traffic.unreachable += 1
            return
        if self._queued_bytes + len(data) > (self.settings.rcvbuf_length or DEFAULT_RCVBUF_LENGTH):
            self.machine.network.traffic.overflowed += 1
            return
        self._queued_bytes += len(data)
        heapq.heappush(self._queue, (due_ns, serial, data, source))


class SimulatedSelector(Generic[T]):
    """See :class:`everlog.aeron.transport.media.network.SocketSelector`."""

    def __init__(self) -> None:
        self._items: list[tuple[SimulatedSocket, T]] = []

    def add(self, sock: UdpSocket, item: T) -> None:
        """Watch a socket."""
        assert isinstance(sock, SimulatedSocket)
        self._items.append((sock, item))

    def remove(self, sock: UdpSocket) -> None:
        """Stop watching a socket."""
        self._items = [each for each in self._items if each[0] is not sock]

    def ready(self) -> Sequence[T]:
        """Return the items of sockets that have a datagram to receive."""
        return [item for sock, item in self._items if sock.has_something()]

    def numbers(self) -> Sequence[int]:
        """Return the file descriptors: none, since the sockets are simulated."""
        return []


def _refused(code: int) -> OSError:
    return OSError(code, os.strerror(code))
