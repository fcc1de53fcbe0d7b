"""What the system gives UDP sockets for their buffers, and whether that is enough.
Source: Aeron, MediaDriver.Context.resolveOsSocketBufLengths, Configuration.validateSocketBufferLengths."""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable

from everlog.aeron.transport.driver.commands.publication_logs import SocketLengths
from everlog.aeron.transport.driver.settings.configuration import Configuration
from everlog.errors import UsageError

INT32_MAX = (1 << 31) - 1
OVERHEAD = 2 if sys.platform == "linux" else 1
"""Linux reports twice the usable length, for its own bookkeeping; Aeron's driver halves it, as Java's library does."""


def system_socket_lengths() -> SocketLengths:
    """By default and at most, as a socket tells them that asks for as much as there can be."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as found:
        default_sndbuf, max_sndbuf = _range(found, socket.SO_SNDBUF)
        default_rcvbuf, max_rcvbuf = _range(found, socket.SO_RCVBUF)
    return SocketLengths(
        default_sndbuf=default_sndbuf,
        max_sndbuf=max_sndbuf,
        default_rcvbuf=default_rcvbuf,
        max_rcvbuf=max_rcvbuf,
    )


def _range(found: socket.socket, option: int) -> tuple[int, int]:
    default = found.getsockopt(socket.SOL_SOCKET, option) // OVERHEAD
    try:
        found.setsockopt(socket.SOL_SOCKET, option, INT32_MAX)
    except OSError:  # some systems refuse what is too much, where Linux gives what there is
        return default, default
    return default, found.getsockopt(socket.SOL_SOCKET, option) // OVERHEAD


def check_socket_lengths(configuration: Configuration, system: SocketLengths, warn: Callable[[str], None]) -> None:
    """Warns of lengths that the system does not give. Raises :class:`UsageError` where its own are too small for the
    MTU or the receiver's window."""
    for name, wanted, most in (
        ("aeron.socket.so_sndbuf", configuration.socket_sndbuf_length, system.max_sndbuf),
        ("aeron.socket.so_rcvbuf", configuration.socket_rcvbuf_length, system.max_rcvbuf),
    ):
        if wanted > most:
            warn(f"{name}: {wanted} bytes are asked for, and the system gives {most} at most")
    for name, given, default, need, what in (
        (
            "aeron.socket.so_sndbuf",
            configuration.socket_sndbuf_length,
            system.default_sndbuf,
            configuration.mtu_length,
            "aeron.mtu.length",
        ),
        (
            "aeron.socket.so_rcvbuf",
            configuration.socket_rcvbuf_length,
            system.default_rcvbuf,
            configuration.initial_window_length,
            "aeron.rcv.initial.window.length",
        ),
    ):
        if (given or default) < need:
            raise UsageError(name, found=str(given or default), expected=f"at least {what}, {need}")
