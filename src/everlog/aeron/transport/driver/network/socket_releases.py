"""Sockets that the conductor asked sender or receiver to let go of. An agent in another thread does that a cycle later.

A new socket may want the port of one that is just let go of: a client that closes a subscription and adds it again at
once would be refused. So commands that open sockets wait until the agents have answered.
"""

from __future__ import annotations

from collections import deque

from everlog.aeron.transport.driver.context import DriverContext
from everlog.runtime.tasks import Steps

LIMIT_NS = 500_000_000
"""An agent that has not answered by then is not waited for. Agents sleep for a millisecond at most."""


class SocketReleases:
    """Counts what was asked for and is not answered yet."""

    def __init__(self) -> None:
        self._deadlines_ns: deque[int] = deque()

    def begin(self, now_ns: int) -> None:
        """An agent is asked to let go of a socket."""
        self._deadlines_ns.append(now_ns + LIMIT_NS)

    def end(self) -> None:
        """An agent answered."""
        if self._deadlines_ns:
            self._deadlines_ns.popleft()

    def finish(self, context: DriverContext) -> Steps[None]:
        """Waits until all are answered, or for :data:`LIMIT_NS`."""
        while self._is_pending(context.now_ns):
            yield

    def _is_pending(self, now_ns: int) -> bool:
        while self._deadlines_ns and now_ns - self._deadlines_ns[0] >= 0:
            self._deadlines_ns.popleft()
        return bool(self._deadlines_ns)
