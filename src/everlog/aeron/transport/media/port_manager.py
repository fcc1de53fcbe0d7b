"""Chooses ports for sockets bound to port 0: the system's choice, or the next free one of a range. Source: Aeron,
WildcardPortManager."""

from __future__ import annotations

import itertools

from everlog.errors import UsageError
from everlog.kernel.socket_address import SocketAddress

SYSTEM_CHOICE = (0, 0)


class NoPortLeft(UsageError):
    """All ports of the range are in use."""


class WildcardPortManager:
    """Allocates ports of a range (first, last) in turn. A sender without a control address gets the system's choice."""

    def __init__(self, ports: tuple[int, int] = SYSTEM_CHOICE, *, is_sender: bool) -> None:
        self.first: int = ports[0]
        self.last: int = ports[1]
        self._is_sender = is_sender
        self._taken: set[int] = set()
        self._next: int = self.first

    def managed(self, bind: SocketAddress, has_explicit_control: bool) -> SocketAddress:
        """The address to bind to. Raises :class:`NoPortLeft`."""
        if bind.port:
            self._taken.add(bind.port)
            return bind
        if (self.first, self.last) == SYSTEM_CHOICE or (self._is_sender and not has_explicit_control):
            return bind
        return bind.with_port(self._take())

    def free(self, bind: SocketAddress) -> None:
        """Free a port that :meth:`managed` returned."""
        self._taken.discard(bind.port)

    def _take(self) -> int:
        for port in itertools.chain(range(self._next, self.last + 1), range(self.first, self._next)):
            if port not in self._taken:
                self._next = port + 1 if port < self.last else self.first
                self._taken.add(port)
                return port
        raise NoPortLeft(
            "wildcard ports", found=f"no available ports in range {self.first} {self.last}", expected="a larger range"
        )
