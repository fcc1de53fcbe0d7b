"""UDP in batches, in plain Python: the specification of :mod:`everlog.kernel._udp`, which needs one system call for
many datagrams."""

from __future__ import annotations

import errno
import os
import socket
from array import array
from collections.abc import Sequence
from struct import Struct

from everlog.kernel.memory import Memory
from everlog.kernel.socket_address import SocketAddress
from everlog.layout import Readable

MAX_SLOT_LENGTH = 65536
"""Bytes of the largest slot; longer than any UDP datagram."""
MAX_CAPACITY = 1024
SOURCES_KEPT = 1024
"""Most source addresses that a batch caches. Spoofed sources beyond that cost time, but no memory."""
NOT_SENT = (errno.EAGAIN, errno.EWOULDBLOCK, errno.EINTR, errno.ECONNREFUSED, errno.ENOBUFS)
"""Errors that mean "not sent" without a fault: no room, or an earlier datagram hit a closed port (ICMP)."""


class Datagrams:
    """A reusable batch of up to ``capacity`` datagrams of up to ``slot_length`` bytes; :meth:`UdpSocket.receive` fills
    it. Datagram ``i`` is at offset ``i * slot_length`` of ``memory`` (a multiple of 8), its length is the ``i``-th
    int32 of ``lengths``, always 0..slot_length. A datagram longer than its slot has length 0.
    """

    def __init__(self, capacity: int = 32, slot_length: int = MAX_SLOT_LENGTH) -> None:
        if not 1 <= capacity <= MAX_CAPACITY:
            raise ValueError(f"a batch's capacity must be 1 to {MAX_CAPACITY} datagrams, not {capacity}")
        if not 8 <= slot_length <= MAX_SLOT_LENGTH or slot_length % 8:
            raise ValueError(f"a slot's length must be a multiple of 8 from 8 to {MAX_SLOT_LENGTH}, not {slot_length}")
        self.capacity = capacity
        self.slot_length = slot_length
        self.memory = Memory.allocate(capacity * slot_length)
        self.lengths = Memory.allocate(capacity * 4)
        self._sources: list[SocketAddress] = []

    def __len__(self) -> int:
        return len(self._sources)

    def length(self, index: int) -> int:
        """A datagram's length in bytes. Raises ``IndexError``."""
        self._check(index)
        return self.lengths.get_i32(index * 4)

    def read(self, index: int) -> bytes:
        """A copy of a datagram. Raises ``IndexError``."""
        return self.memory.read(index * self.slot_length, self.length(index))

    def view(self, index: int) -> memoryview:
        """A view of a datagram, valid until the next receive. Raises ``IndexError``."""
        start = index * self.slot_length
        return self.memory.view()[start : start + self.length(index)]

    def source(self, index: int) -> SocketAddress:
        """A datagram's source address. Raises ``IndexError``."""
        self._check(index)
        return self._sources[index]

    def clear(self) -> None:
        """Drop all datagrams."""
        self._sources.clear()

    def add(self, data: Readable, source: SocketAddress) -> bool:
        """Append a datagram, as receiving it would. Returns false if the batch is full."""
        index = len(self._sources)
        if index == self.capacity:
            return False
        length = len(data) if len(data) <= self.slot_length else 0
        if length:
            self.memory.write(index * self.slot_length, data)
        self.lengths.put_i32(index * 4, length)
        self._sources.append(source)
        return True

    def _check(self, index: int) -> None:
        if not 0 <= index < len(self._sources):
            raise IndexError(f"no datagram {index} in a batch of {len(self._sources)}")


class UdpSocket:
    """Owns a bound, non-blocking UDP socket. System errors are raised as ``OSError``, except the expected ones: no
    room, nothing received, a port that nobody listens on."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self._socket = sock
        self.local_address = SocketAddress.of(sock.getsockname())

    @property
    def closed(self) -> bool:
        """Whether :meth:`close` was called."""
        return self._socket.fileno() < 0

    def fileno(self) -> int:
        """The descriptor; -1 once closed."""
        return self._socket.fileno()

    def connect(self, address: SocketAddress) -> None:
        """Send to this peer, and receive only from it, from now on. Raises ``OSError``."""
        self._socket.connect(address.sockaddr)

    def close(self) -> None:
        """Close the socket. Idempotent."""
        self._socket.close()

    def send(self, data: Readable, address: SocketAddress | None = None) -> int:
        """Send one datagram, to the connected peer if ``address`` is None. Returns its length, or 0 if not sent."""
        if address is not None and address.family != self._socket.family:
            raise OSError(errno.EAFNOSUPPORT, os.strerror(errno.EAFNOSUPPORT))
        try:
            return self._socket.send(data) if address is None else self._socket.sendto(data, address.sockaddr)
        except OSError as error:
            if error.errno in NOT_SENT:
                return 0
            raise

    def send_parts(
        self,
        memory: Memory,
        offset: int,
        ends: Sequence[int] | Readable,
        address: SocketAddress | None = None,
        count: int = -1,
    ) -> int:
        """Send consecutive parts of a memory, one datagram each: the first begins at ``offset``; each ends at its entry
        in ``ends`` (int64 offsets in ``memory``), where the next begins. ``count`` limits the entries used. Returns how
        many were sent.

        Raises ``ValueError`` before anything is sent if the ends don't increase or lie outside the memory, ``OSError``
        if the first datagram can't be sent.
        """
        bounds = part_bounds(memory, offset, ends, count)
        view = memory.view()
        start = offset
        for sent, end in enumerate(bounds):
            try:
                if not self.send(view[start:end], address):
                    return sent
            except OSError:
                if sent:
                    return sent
                raise
            start = end
        return len(bounds)

    def receive(self, batch: Datagrams) -> int:
        """Replace the batch's content by the datagrams that have arrived. Returns how many."""
        batch.clear()
        for index in range(batch.capacity):
            start = index * batch.slot_length
            try:
                length, _, flags, source = self._socket.recvmsg_into(
                    [batch.memory.view()[start : start + batch.slot_length]]
                )
            except OSError as error:
                if error.errno in NOT_SENT:
                    break
                raise
            batch.lengths.put_i32(index * 4, 0 if flags & socket.MSG_TRUNC else length)
            batch._sources.append(SocketAddress.of(source))
        return len(batch)


def part_bounds(memory: Memory, offset: int, ends: Sequence[int] | Readable, count: int) -> Sequence[int]:
    """Check the first ``count`` entries of ``ends`` (all if it is negative) and return them: offsets in ``memory``,
    each after the one before, the first after ``offset``. Raises ``ValueError``."""
    if isinstance(ends, (list, tuple)):
        bounds: Sequence[int] = ends
    else:
        raw = bytes(memoryview(ends))  # type: ignore[arg-type]
        if len(raw) % 8:
            raise ValueError(f"ends must be int64 numbers, not {len(raw)} bytes")
        bounds = array("q", raw)
    if count > len(bounds):
        raise ValueError(f"count {count} exceeds the {len(bounds)} ends")
    if count >= 0:
        bounds = bounds[:count]
    start = offset
    for end in bounds:
        if start < 0 or end <= start or end > memory.length:
            raise ValueError(f"datagram {start}..{end} is empty or outside a memory of {memory.length} bytes")
        start = end
    return bounds


_REQUEST = Struct("16s24x")
_CONFIG = Struct("@iP")
_GET_CONFIG, _GET_FLAGS, _GET_MASK = 0x8912, 0x8913, 0x891B
_MAX_CONFIG = 40 * 1024


def interface_rows() -> list[tuple[str, int, int, bytes, int]]:
    """List the machine's network interfaces, one row per address: name, index, flags (``IFF_*``), the address's 4 or 16
    bytes, the prefix length. The order is the system's."""
    if not os.path.exists("/proc/net"):
        return [("lo0", socket.if_nametoindex("lo0"), 0x8049, bytes((127, 0, 0, 1)), 8)]
    return _ipv4_rows() + _ipv6_rows()


def _ipv4_rows() -> list[tuple[str, int, int, bytes, int]]:
    import fcntl

    rows = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        room = array("B", bytes(_MAX_CONFIG))
        length, _ = _CONFIG.unpack(fcntl.ioctl(sock, _GET_CONFIG, _CONFIG.pack(_MAX_CONFIG, room.buffer_info()[0])))
        found = room.tobytes()[:length]
        for at in range(0, length, _REQUEST.size):
            name = found[at : at + 16]
            address = found[at + 20 : at + 24]
            mask = fcntl.ioctl(sock, _GET_MASK, _REQUEST.pack(name))[20:24]
            flags = int.from_bytes(fcntl.ioctl(sock, _GET_FLAGS, _REQUEST.pack(name))[16:18], "little")
            label = name.partition(b"\0")[0].decode()
            prefix = int.from_bytes(mask, "big").bit_count()
            rows.append((label, socket.if_nametoindex(label), flags, address, prefix))
    return rows


def _ipv6_rows() -> list[tuple[str, int, int, bytes, int]]:
    import fcntl

    rows = []
    try:
        with open("/proc/net/if_inet6") as file:
            lines = file.readlines()
    except OSError:
        return []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        for line in lines:
            raw, index, prefix, _, _, name = line.split()
            flags = int.from_bytes(fcntl.ioctl(sock, _GET_FLAGS, _REQUEST.pack(name.encode()))[16:18], "little")
            rows.append((name, int(index, 16), flags, bytes.fromhex(raw), int(prefix, 16)))
    return rows
