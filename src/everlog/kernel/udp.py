"""UDP in batches: compiled, or its twin :mod:`everlog.kernel.udp_twin`, which documents each function."""

from __future__ import annotations

from typing import TYPE_CHECKING

from everlog.kernel import load
from everlog.kernel.socket_address import SocketAddress as SocketAddress

if TYPE_CHECKING:
    from everlog.kernel.udp_twin import Datagrams as Datagrams
    from everlog.kernel.udp_twin import UdpSocket as UdpSocket
    from everlog.kernel.udp_twin import interface_rows as interface_rows
else:
    _loaded = load("everlog.kernel._udp", "everlog.kernel.udp_twin")
    Datagrams, UdpSocket, interface_rows = _loaded.Datagrams, _loaded.UdpSocket, _loaded.interface_rows
