"""Finds the network interface of a channel, by address and prefix or by name. Source: Aeron, InterfaceSearchAddress,
NamedInterface, NetworkUtil."""

from __future__ import annotations

import re
import socket
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from everlog.aeron.channel_parameters import java_int, wrong
from everlog.aeron.channel_uri import InvalidChannel
from everlog.aeron.java_exception import ILLEGAL_ARGUMENT, ILLEGAL_STATE, UNKNOWN_HOST, JavaException, ascii_number
from everlog.aeron.transport.media.name_resolver import DEFAULT_RESOLVER, NameResolver, numeric, parse_port
from everlog.kernel.socket_address import MAX_PORT, SocketAddress
from everlog.kernel.udp import interface_rows

PARAMETER = "interface"
_IS_UP, _IS_LOOPBACK = 0x1, 0x8
_HAS_MULTICAST = 0x8000 if sys.platform == "darwin" else 0x1000
_SEARCH = re.compile(r"(\[[^\]]*\]|[^:/\[\]]+)(?::([0-9]+))?(?:/([0-9]+))?", re.ASCII)
_NAMED = re.compile(r"\{(.+)\}(?::([0-9]{1,5}))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class InterfaceAddress:
    """An interface's address (port 0) and the prefix length of its network."""

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
"""Lists a machine's interfaces, in the system's order. Simulations replace it."""


@dataclass(frozen=True, slots=True)
class ResolvedInterface:
    """A search's result. ``interface`` is ``None`` if any interface will do; ``address`` is then the wildcard
    address."""

    interface: NetworkInterface | None
    address: SocketAddress


def system_interfaces() -> list[NetworkInterface]:
    """List this machine's interfaces. Raises ``OSError``."""
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
    """Searches for an interface with an address in the network of ``address``. ``host`` is its name, if it was given by
    name."""

    address: SocketAddress
    prefix_length: int
    host: str = ""

    def resolve(self, is_multicast: bool, family: int, interfaces: Interfaces) -> ResolvedInterface:
        """Find the interface. If several match, a non-loopback one with the longest prefix wins. Raises
        :class:`~everlog.aeron.channel_uri.InvalidChannel` if no interface matches."""
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
        said = f"{self.host}/{_java_text(self.address)}/{self.prefix_length}"
        said = f"Unable to find multicast or loopback interface matching criteria: {said}"
        raise wrong(
            PARAMETER,
            f"no interface that is up, and multicast or loopback, in {self.address.host_text}/{self.prefix_length}",
            f"one of this machine's addresses, with a prefix or without (candidates: {listed})",
            JavaException(ILLEGAL_ARGUMENT, said),
        )


@dataclass(frozen=True, slots=True)
class NamedInterface:
    """Searches for an interface by name: ``{eth0}:1234``."""

    name: str
    port: int = 0

    def resolve(self, is_multicast: bool, family: int, interfaces: Interfaces) -> ResolvedInterface:
        """Find the interface and its first address of the family. Raises
        :class:`~everlog.aeron.channel_uri.InvalidChannel` if it has none."""
        del is_multicast
        known = interfaces()
        found = next((each for each in known if each.name == self.name), None)
        if found is None:
            names = ", ".join(each.name for each in known)
            said = f"unknown interface {self.name}"
            raise wrong(PARAMETER, said, f"one of {names}", JavaException(ILLEGAL_ARGUMENT, said))
        for each in found.addresses:
            if each.address.family == family:
                return ResolvedInterface(found, each.address.with_port(self.port))
        kind = "INET6" if family == socket.AF_INET6 else "INET"
        java = JavaException(ILLEGAL_STATE, f"no {kind} addresses found on interface {self.name}")
        raise wrong(PARAMETER, f"{self.name} without an address of the endpoint's family", f"not {found}", java)


ANY_INTERFACE = InterfaceSearch(SocketAddress("0.0.0.0", 0), 0)


def parse_interface(text: str, resolver: NameResolver = DEFAULT_RESOLVER) -> InterfaceSearch | NamedInterface:
    """Parse ``host``, ``host:port``, ``host:port/prefix``, ``{name}`` or ``{name}:port``; IPv6 hosts in brackets.
    Raises :class:`~everlog.aeron.channel_uri.InvalidChannel`."""
    if text.startswith("{"):
        return _parse_named(text)
    search = _SEARCH.fullmatch(text)
    if search is None:
        raise _wrong_search(text, resolver)
    host = resolver.resolve(search[1].strip("[]"), PARAMETER, False)
    if host is None:
        raise _unknown_host(text, search[1])
    address = SocketAddress(host, parse_port(search[2] or "0", PARAMETER, text))
    bits = len(address.raw) * 8
    prefix_length = bits if search[3] is None else java_int(search[3])
    if prefix_length is None or prefix_length > bits:
        java = ascii_number(search[3], "int") if prefix_length is None else None
        raise wrong(PARAMETER, repr(text), f"a prefix of {bits} bits at most", java)
    return InterfaceSearch(address, prefix_length, "" if numeric(search[1].strip("[]")) else search[1])


def _parse_named(text: str) -> NamedInterface:
    named = _NAMED.fullmatch(text)
    port = None if named is None else java_int(named[2] or "0")
    if named is None or port is None or port > MAX_PORT:
        found = f"port out of range: {port}" if port is not None else text
        said = f"expected format is '{{interface_name}}' or '{{interface_name}}:port', but got '{found}'"
        expected = "{NAME} or {NAME}:PORT" if port is None else f"a port up to {MAX_PORT}"
        raise wrong(PARAMETER, repr(text), expected, JavaException(ILLEGAL_ARGUMENT, said))
    return NamedInterface(named[1], port)


def _wrong_search(text: str, resolver: NameResolver) -> InvalidChannel:
    """The error as Java reports it: it parses the host first, then the port, then the prefix."""
    expected = "HOST, HOST:PORT or HOST:PORT/PREFIX, IPv6 hosts in brackets"
    if not text:
        java = JavaException(ILLEGAL_ARGUMENT, "interface is null or empty")
        return wrong(PARAMETER, repr(text), expected, java)
    before, slash, prefix = text.rpartition("/") if "/" in text else (text, "", "")
    has_port = text.rfind(":") > text.rfind("]")
    host, _, port = before.rpartition(":") if has_port else (before, "", "")
    if resolver.resolve(host.strip("[]"), PARAMETER, False) is None:
        return _unknown_host(text, host)
    if has_port and java_int(port, 0) is None:
        java = ascii_number(port, "int") if port else JavaException(ILLEGAL_ARGUMENT, f"invalid port: {text}")
    elif slash and not prefix:
        java = JavaException(ILLEGAL_ARGUMENT, f"invalid subnet: {text}")
    else:
        java = ascii_number(prefix, "int")
    return wrong(PARAMETER, repr(text), expected, java)


def _unknown_host(text: str, host: str) -> InvalidChannel:
    reason = "invalid IPv6 address literal" if host.startswith("[") else "Name or service not known"
    found = f"unresolved - {PARAMETER}={text}"
    return wrong(PARAMETER, found, "an address of this machine", JavaException(UNKNOWN_HOST, f"{host}: {reason}"))


def _java_text(address: SocketAddress) -> str:
    """An IPv6 address in Java's form, with all eight groups."""
    raw = address.raw
    if not address.is_ipv6:
        return address.host_text
    return ":".join(f"{int.from_bytes(raw[at : at + 2], 'big'):x}" for at in range(0, len(raw), 2))


def _matches(candidate: SocketAddress, wanted: SocketAddress, prefix_length: int) -> bool:
    if candidate.family != wanted.family:
        return False
    shift = len(wanted.raw) * 8 - prefix_length
    return int.from_bytes(candidate.raw, "big") >> shift == int.from_bytes(wanted.raw, "big") >> shift
