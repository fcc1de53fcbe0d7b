"""Sockets that the conductor asked sender or receiver to release, which they do a cycle later on other threads.

A new socket may need the port of one that is being released: a client that closes a subscription and immediately adds
it again would be refused. So commands that open sockets wait until the agents have released theirs.
"""

from __future__ import annotations

from collections import deque

from everlog.aeron.transport.driver.context import DriverContext
from everlog.runtime.tasks import Steps

LIMIT_NS = 500_000_000
"""How long to wait for an agent. Agents sleep for at most a millisecond."""


class SocketReleases:
    """Tracks releases that are not yet confirmed."""

    def __init__(self) -> None:
        self._deadlines_ns: deque[int] = deque()

    def begin(self, now_ns: int) -> None:
        """Record that an agent was asked to release a socket."""
        self._deadlines_ns.append(now_ns + LIMIT_NS)

    def end(self) -> None:
        """Record that an agent released a socket."""
        if self._deadlines_ns:
            self._deadlines_ns.popleft()

    def finish(self, context: DriverContext) -> Steps[None]:
        """Wait until all releases are confirmed, at most :data:`LIMIT_NS` for each."""
        while self._is_pending(context.now_ns):
            yield

    def _is_pending(self, now_ns: int) -> bool:
        while self._deadlines_ns and now_ns - self._deadlines_ns[0] >= 0:
            self._deadlines_ns.popleft()
        return bool(self._deadlines_ns)
