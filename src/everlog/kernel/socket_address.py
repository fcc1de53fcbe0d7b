"""Addresses of UDP sockets: numeric, immutable, cheap to compare and to pass to the system."""

from __future__ import annotations

import ipaddress
import socket
from struct import Struct

_V4 = Struct(">4sH")
_V6 = Struct(">16sHI")
MAX_PORT = 0xFFFF


class SocketAddress:
    """A numeric host and a port. ``scope`` is the index of the interface that a link-local IPv6 address is on, else 0.

    ``packed`` is the form for compiled code: 6 bytes for IPv4 (address, port), 22 for IPv6 (address, port, scope), all
    big-endian. Names are not resolved here. Raises ``ValueError`` if the host is no IP address or the port is out of
    range.
    """

    __slots__ = ("_hash", "family", "host", "packed", "port", "scope")

    family: int
    host: str
    port: int
    scope: int
    packed: bytes
    _hash: int

    def __init__(self, host: str, port: int, scope: int = 0) -> None:
        if not 0 <= port <= MAX_PORT:
            raise ValueError(f"port {port} is not in 0..{MAX_PORT}")
        address = ipaddress.ip_address(host.partition("%")[0])
        if isinstance(address, ipaddress.IPv4Address):
            self._fill(_V4.pack(address.packed, port))
        else:
            self._fill(_V6.pack(address.packed, port, scope))

    @classmethod
    def from_packed(cls, packed: bytes) -> SocketAddress:
        """Make an address from its 6 or 22 packed bytes."""
        found = cls.__new__(cls)
        found._fill(packed)
        return found

    @classmethod
    def of(cls, name: tuple[str, int] | tuple[str, int, int, int]) -> SocketAddress:
        """Make an address from a result of ``socket.getsockname``."""
        return cls(name[0], name[1], name[3] if len(name) == 4 else 0)

    def _fill(self, packed: bytes) -> None:
        put = object.__setattr__
        if len(packed) == _V4.size:
            raw, port = _V4.unpack(packed)
            scope, family = 0, int(socket.AF_INET)
        elif len(packed) == _V6.size:
            raw, port, scope = _V6.unpack(packed)
            family = int(socket.AF_INET6)
        else:
            raise ValueError(f"a packed address must have {_V4.size} or {_V6.size} bytes, not {len(packed)}")
        put(self, "packed", packed)
        put(self, "family", family)
        put(self, "host", socket.inet_ntop(family, raw))
        put(self, "port", port)
        put(self, "scope", scope)
        put(self, "_hash", hash(packed))

    def __setattr__(self, name: str, value: object) -> None:
        if hasattr(self, "_hash"):
            raise AttributeError(f"addresses are immutable: can't set {name}")
        object.__setattr__(self, name, value)

    @property
    def is_ipv6(self) -> bool:
        """Whether this is an IPv6 address."""
        return len(self.packed) == _V6.size

    @property
    def is_multicast(self) -> bool:
        """Whether the host is a multicast group."""
        return self.packed[0] == 0xFF if self.is_ipv6 else self.packed[0] & 0xF0 == 0xE0

    @property
    def is_any(self) -> bool:
        """Whether the host is 0.0.0.0 or ::."""
        return not any(self.raw)

    @property
    def raw(self) -> bytes:
        """The host's 4 or 16 bytes."""
        return self.packed[:16] if self.is_ipv6 else self.packed[:4]

    @property
    def sockaddr(self) -> tuple[str, int] | tuple[str, int, int, int]:
        """The address as the :mod:`socket` module takes it."""
        return (self.host, self.port, 0, self.scope) if self.is_ipv6 else (self.host, self.port)

    @property
    def host_text(self) -> str:
        """The host as Java writes it: ``127.0.0.1``, ``0:0:0:0:0:0:0:1``, ``fe80:0:0:0:0:0:0:1%2``."""
        if not self.is_ipv6:
            return self.host
        groups = ":".join(f"{self.packed[i] << 8 | self.packed[i + 1]:x}" for i in range(0, 16, 2))
        return f"{groups}%{self.scope}" if self.scope else groups

    def with_port(self, port: int) -> SocketAddress:
        """The same host with another port."""
        return SocketAddress(self.host, port, self.scope)

    def __str__(self) -> str:
        return f"[{self.host_text}]:{self.port}" if self.is_ipv6 else f"{self.host}:{self.port}"

    def __repr__(self) -> str:
        return f"SocketAddress({self})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SocketAddress) and self.packed == other.packed

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[object, ...]:
        return SocketAddress.from_packed, (self.packed,)
