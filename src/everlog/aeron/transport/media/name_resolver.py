"""Resolves a channel's ``endpoint`` and ``control`` to addresses; simulations replace the resolver. Source: Aeron,
NameResolver, DefaultNameResolver, SocketAddressParser."""

from __future__ import annotations

import ipaddress
import re
import socket
from typing import Protocol

from everlog.aeron.channel_parameters import wrong
from everlog.aeron.channel_uri import InvalidChannel
from everlog.aeron.java_exception import (
    ILLEGAL_ARGUMENT,
    NULL_POINTER,
    UNKNOWN_HOST,
    JavaException,
    ascii_number,
)
from everlog.kernel.socket_address import MAX_PORT, SocketAddress

_V4 = re.compile(r"([^:]*):([0-9]+)", re.ASCII)
_V6 = re.compile(r"\[([0-9a-fA-F:]*)(?:%[0-9a-zA-Z_.~-]*)?\]:([0-9]+)", re.ASCII)
_V6_WITHOUT_PORT = re.compile(r"\[[0-9a-fA-F:]*(?:%[0-9a-zA-Z_.~-]*)?(?:\]:?)?", re.ASCII)
_MAX_PORT_DIGITS = 9
_MAX_INT32 = (1 << 31) - 1
_CONTROL_RESOLVER = "io.aeron.driver.TimeTrackingNameResolver"
"""The class that Java names if a ``control`` is not resolved: the wrapper that measures the time, not the resolver."""
LOOPBACK = "127.0.0.1"


class NameResolver(Protocol):
    """Resolves names. Channels may request the same name again later, because its address may have changed."""

    @property
    def name(self) -> str:
        """The resolver's name in errors."""

    def lookup(self, name: str, parameter: str, is_re_lookup: bool) -> str:
        """Look up a parameter's value: its ``HOST:PORT``, or the value itself if it has no entry."""

    def resolve(self, host: str, parameter: str, is_re_resolution: bool) -> str | None:
        """Resolve a host to a numeric address, or ``None``. May take as long as the system's resolver."""


class DefaultNameResolver:
    """The system's resolver; prefers IPv4, like Java."""

    name = "io.aeron.driver.DefaultNameResolver"

    def lookup(self, name: str, parameter: str, is_re_lookup: bool) -> str:
        """Return the name itself."""
        return name

    def resolve(self, host: str, parameter: str, is_re_resolution: bool) -> str | None:
        """Return the first result of ``getaddrinfo``. An empty host is this machine, as in Java."""
        literal = numeric(host or LOOPBACK)
        if literal is not None:
            return literal
        try:
            found = socket.getaddrinfo(host, None, type=socket.SOCK_DGRAM)
        except (OSError, ValueError):  # unknown; no name at all, such as one with a NUL
            return None
        hosts = [(row[0] != socket.AF_INET, order, str(row[4][0])) for order, row in enumerate(found)]
        return min(hosts)[2] if hosts else None


DEFAULT_RESOLVER = DefaultNameResolver()


class TableNameResolver:
    """Resolves names from a table, others with the next resolver: for tests and simulations. A value with its own port
    replaces the whole ``HOST:PORT``."""

    name = "table"

    def __init__(self, table: dict[str, str], beyond: NameResolver | None = None) -> None:
        self.table = table
        self._beyond = beyond

    def lookup(self, name: str, parameter: str, is_re_lookup: bool) -> str:
        """Return the table's entry if it has a port, else the name itself."""
        found = self.table.get(name, "")
        return found if ":" in found else name

    def resolve(self, host: str, parameter: str, is_re_resolution: bool) -> str | None:
        """Return the table's entry, or the next resolver's result."""
        found = numeric(self.table.get(host, host))
        if found is None and self._beyond is not None:
            return self._beyond.resolve(host, parameter, is_re_resolution)
        return found


def numeric(host: str) -> str | None:
    """The host, if it is already an address."""
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        return None


def split_host_and_port(value: str, parameter: str) -> tuple[str, int]:
    """Split ``HOST:PORT`` or ``[IPv6]:PORT``; drops a scope in the brackets. Raises :class:`InvalidChannel`."""
    match = _V4.fullmatch(value) or _V6.fullmatch(value)
    if match is None:
        java = JavaException(ILLEGAL_ARGUMENT, _format_error(value))
        raise wrong(parameter, repr(value), "HOST:PORT or [IPv6]:PORT", java)
    return match[1], parse_port(match[2], parameter, value)


def parse_port(digits: str, parameter: str, value: str) -> int:
    """Parse the port in a parameter's value. Raises :class:`InvalidChannel`."""
    is_int = len(digits) <= _MAX_PORT_DIGITS or int(digits) <= _MAX_INT32
    if not is_int or int(digits) > MAX_PORT:
        java = JavaException(ILLEGAL_ARGUMENT, f"port out of range:{digits}")
        raise wrong(parameter, repr(value), f"a port up to {MAX_PORT}", java if is_int else ascii_number(digits, "int"))
    return int(digits)


def _format_error(value: str) -> str:
    """The error text of Java's parser, which reads a value with a numeric port, or without a port, as IPv4."""
    _, colon, port = value.partition(":")
    if not port or not colon:
        return f"address:port is required for ipv4: {value}"
    if _V6_WITHOUT_PORT.fullmatch(value):
        return f"[address]:port is required for ipv6: {value}"
    return f"invalid format: {value}"


def resolve_address(
    value: str, parameter: str, resolver: NameResolver = DEFAULT_RESOLVER, is_re_resolution: bool = False
) -> SocketAddress | None:
    """The address of a parameter's value; ``None`` if the name is unknown. Raises :class:`InvalidChannel`."""
    if not value:
        java = JavaException(NULL_POINTER, "input string must not be null or empty")
        raise wrong(parameter, "nothing", "HOST:PORT", java)
    host, port = split_host_and_port(resolver.lookup(value, parameter, is_re_resolution), parameter)
    found = resolver.resolve(host, parameter, is_re_resolution)
    if found is None:
        return None
    try:
        return SocketAddress(found, port)
    except ValueError as error:
        raise wrong(parameter, repr(value), str(error)) from error


def known_address(value: str, parameter: str, resolver: NameResolver = DEFAULT_RESOLVER) -> SocketAddress:
    """Like :func:`resolve_address`; raises :class:`UnknownHost` if the name is unknown."""
    found = resolve_address(value, parameter, resolver)
    if found is None:
        name = _CONTROL_RESOLVER if parameter == "control" else resolver.name
        said = f"unresolved - {parameter}={value}, name-resolver={name}"
        raise UnknownHost(
            f"channel parameter {parameter}",
            found=said,
            expected="a host that can be resolved",
            java=JavaException(UNKNOWN_HOST, said),
        )
    return found


class UnknownHost(InvalidChannel):
    """The name resolver does not know the host."""


def is_multicast_endpoint(value: str, parameter: str = "endpoint") -> bool:
    """Whether the text is a multicast group's address; resolves nothing. Raises :class:`InvalidChannel`."""
    host, port = split_host_and_port(value, parameter)
    if value.startswith("["):
        return host[:2].lower() == "ff"
    literal = numeric(host)
    return literal is not None and SocketAddress(literal, port).is_multicast
