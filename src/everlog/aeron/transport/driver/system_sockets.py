"""The system's own lengths of socket buffers. Source: MediaDriver.Context, concludeSocketLengths."""

from __future__ import annotations

import socket
import sys

from everlog.aeron.transport.driver.conductor.publication_logs import SocketLengths

INT32_MAX = (1 << 31) - 1
OVERHEAD = 2 if sys.platform == "linux" else 1
"""Linux tells twice what can be used, for its own book-keeping; Java takes that off again."""


def system_sockets() -> SocketLengths:
    """By default, and when the longest is asked for. Raises ``OSError``."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        default_sndbuf, max_sndbuf = _lengths(probe, socket.SO_SNDBUF)
        default_rcvbuf, max_rcvbuf = _lengths(probe, socket.SO_RCVBUF)
    return SocketLengths(
        default_sndbuf=default_sndbuf, max_sndbuf=max_sndbuf, default_rcvbuf=default_rcvbuf, max_rcvbuf=max_rcvbuf
    )


def _lengths(probe: socket.socket, option: int) -> tuple[int, int]:
    default = probe.getsockopt(socket.SOL_SOCKET, option)
    probe.setsockopt(socket.SOL_SOCKET, option, INT32_MAX)
    longest = probe.getsockopt(socket.SOL_SOCKET, option)
    return default // OVERHEAD, longest // OVERHEAD
