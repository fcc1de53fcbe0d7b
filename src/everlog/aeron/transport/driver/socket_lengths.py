"""Finds the system's lengths of UDP socket buffers, and checks that they are enough.

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
"""Factor between reported and usable length. Linux doubles the length for its bookkeeping; Aeron's driver halves it, as
Java's library does."""


def system_socket_lengths() -> SocketLengths:
    """Measure the default and the greatest lengths, by asking for the largest possible buffers on a new socket."""
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
    except OSError:  # some systems refuse a length above their maximum; Linux caps it
        return default, default
    return default, found.getsockopt(socket.SOL_SOCKET, option) // OVERHEAD


def check_socket_lengths(configuration: Configuration, system: SocketLengths, warn: Callable[[str], None]) -> None:
    """Warn of configured lengths over the system's maximum. Raises :class:`UsageError` if the send buffer is shorter
    than the MTU, or the receive buffer shorter than the receiver's initial window. Their lengths are the configured
    ones, or the system's defaults if 0 is configured."""
    for name, wanted, most in (
        ("aeron.socket.so_sndbuf", configuration.socket_sndbuf_length, system.max_sndbuf),
        ("aeron.socket.so_rcvbuf", configuration.socket_rcvbuf_length, system.max_rcvbuf),
    ):
        if wanted > most:
            warn(f"{name} is {wanted}, but the system allows at most {most} bytes")
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
            raise UsageError(name, found=str(given or default), expected=f"at least {need} ({what})")
