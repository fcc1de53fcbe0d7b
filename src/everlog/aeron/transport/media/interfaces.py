"""Which network interface a channel means: by an address and a prefix, or by its name.
Source: Aeron, InterfaceSearchAddress, NamedInterface, NetworkUtil."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from everlog.aeron.channel_parameters import wrong
from everlog.aeron.transport.media.name_resolver import DEFAULT_RESOLVER, NameResolver
from everlog.kernel.socket_address import MAX_PORT, SocketAddress
from everlog.kernel.udp import interface_rows

PARAMETER = "interface"
_IS_UP, _IS_LOOPBACK = 0x1, 0x8
_HAS_MULTICAST = 0x8000 if sys.platform == "darwin" else 0x1000
_SEARCH = re.compile(r"(\[[^\]]*\]|[^:/\[\]]+)(?::([0-9]{1,5}))?(?:/([0-9]{1,3}))?", re.ASCII)
_NAMED = re.compile(r"\{(.+)\}(?::([0-9]{1,5}))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class InterfaceAddress:
    """An interface's address (port 0) and the length of its network's prefix."""

    address: SocketAddress
    prefix_length: int


@dataclass(frozen=True, slots=True)
class NetworkInterface:
    """An interface of the machine."""

    name: str
    index: int
    addresses: tuple[InterfaceAddress, ...] = ()
    is_up: bool = True
    is_loopback: bool = False
    has_multicast: bool = True

    def __str__(self) -> str:
        listed = ", ".join(f"{each.address.host_text}/{each.prefix_length}" for each in self.addresses)
        state = [word for word, is_so in (("loopback", self.is_loopback), ("multicast", self.has_multicast)) if is_so]
        return f"{self.name} ({listed}; {' '.join([*state, 'up' if self.is_up else 'down'])})"

    def address_within(self, wanted: SocketAddress, prefix_length: int) -> InterfaceAddress | None:
        """The first of its addresses that shares a prefix with ``wanted``."""
        return next((each for each in self.addresses if _matches(each.address, wanted, prefix_length)), None)


Interfaces = Callable[[], Sequence[NetworkInterface]]
"""The seam: what lists a machine's interfaces, in the system's order."""


@dataclass(frozen=True, slots=True)
class ResolvedInterface:
    """``interface`` is ``None`` where any will do: then ``address`` is the one that stands for all."""

    interface: NetworkInterface | None
    address: SocketAddress


def system_interfaces() -> list[NetworkInterface]:
    """This machine's interfaces. Raises ``OSError``."""
    found: dict[str, NetworkInterface] = {}
    for name, index, flags, raw, prefix_length in interface_rows():
        scope = index if raw[:1] == b"\xfe" and len(raw) == 16 and raw[1] & 0xC0 == 0x80 else 0
        packed = raw + bytes(2) + (scope.to_bytes(4, "big") if len(raw) == 16 else b"")
        address = InterfaceAddress(SocketAddress.from_packed(packed), prefix_length)
        before = found[name].addresses if name in found else ()
        found[name] = NetworkInterface(
            name,
            index,
            (*before, address),
            is_up=bool(flags & _IS_UP),
            is_loopback=bool(flags & _IS_LOOPBACK),
            has_multicast=bool(flags & _HAS_MULTICAST),
        )
    return list(found.values())


@dataclass(frozen=True, slots=True)
class InterfaceSearch:
    """An interface that has an address in the network of ``address``."""

    address: SocketAddress
    prefix_length: int

    def resolve(self, is_multicast: bool, family: int, interfaces: Interfaces) -> ResolvedInterface:
        """The interface: of several one that is no loopback, with the longest prefix. Raises
        :class:`~everlog.aeron.channel_uri.InvalidChannel` when there is none."""
        del family
        if not is_multicast and self.address.is_any:
            return ResolvedInterface(None, self.address)
        candidates = []
        for interface in interfaces():
            match = interface.address_within(self.address, self.prefix_length)
            if match is not None:
                candidates.append((interface, match))
        candidates.sort(key=lambda each: (each[0].is_loopback, -each[1].prefix_length))
        for interface, match in candidates:
            if interface.is_up and (interface.has_multicast or interface.is_loopback):
                return ResolvedInterface(interface, match.address.with_port(self.address.port))
        listed = "; ".join(str(interface) for interface, _ in candidates) or "none"
        raise wrong(
            PARAMETER,
            f"no interface that is up, and multicast or loopback, in {self.address.host_text}/{self.prefix_length}",
            f"one of this machine's addresses, with a prefix or without (candidates: {listed})",
        )


@dataclass(frozen=True, slots=True)
class NamedInterface:
    """An interface by its name: ``{eth0}:1234``."""

    name: str
    port: int = 0

    def resolve(self, is_multicast: bool, family: int, interfaces: Interfaces) -> ResolvedInterface:
        """The interface and its first address of the family. Raises
        :class:`~everlog.aeron.channel_uri.InvalidChannel` when there is none."""
        del is_multicast
        known = interfaces()
        found = next((each for each in known if each.name == self.name), None)
        if found is None:
            names = ", ".join(each.name for each in known)
            raise wrong(PARAMETER, f"unknown interface {self.name}", f"one of {names}")
        for each in found.addresses:
            if each.address.family == family:
                return ResolvedInterface(found, each.address.with_port(self.port))
        raise wrong(PARAMETER, f"{self.name} without an address of the endpoint's family", f"not {found}")


ANY_INTERFACE = InterfaceSearch(SocketAddress("0.0.0.0", 0), 0)


def parse_interface(text: str, resolver: NameResolver = DEFAULT_RESOLVER) -> InterfaceSearch | NamedInterface:
    """``host``, ``host:port``, ``host:port/prefix``, ``{name}``, ``{name}:port``; IPv6 hosts in brackets. Raises
    :class:`~everlog.aeron.channel_uri.InvalidChannel`."""
    if text.startswith("{"):
        named = _NAMED.fullmatch(text)
        if named is None:
            raise wrong(PARAMETER, repr(text), "{NAME} or {NAME}:PORT")
        return NamedInterface(named[1], _port(text, named[2]))
    search = _SEARCH.fullmatch(text)
    if search is None:
        raise wrong(PARAMETER, repr(text), "HOST, HOST:PORT or HOST:PORT/PREFIX, IPv6 hosts in brackets")
    host = resolver.resolve(search[1].strip("[]"), PARAMETER, False)
    if host is None:
        raise wrong(PARAMETER, f"unresolved - {PARAMETER}={text}", "an address of this machine")
    address = SocketAddress(host, _port(text, search[2]))
    bits = len(address.raw) * 8
    prefix_length = bits if search[3] is None else int(search[3])
    if prefix_length > bits:
        raise wrong(PARAMETER, repr(text), f"a prefix of {bits} bits at most")
    return InterfaceSearch(address, prefix_length)


def _port(text: str, digits: str | None) -> int:
    port = int(digits or 0)
    if port > MAX_PORT:
        raise wrong(PARAMETER, repr(text), f"a port up to {MAX_PORT}")
    return port


def _matches(candidate: SocketAddress, wanted: SocketAddress, prefix_length: int) -> bool:
    if candidate.family != wanted.family:
        return False
    shift = len(wanted.raw) * 8 - prefix_length
    return int.from_bytes(candidate.raw, "big") >> shift == int.from_bytes(wanted.raw, "big") >> shift
