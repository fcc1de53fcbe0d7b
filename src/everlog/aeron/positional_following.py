"""The common part of followers whose streams are addressed by byte positions in a log."""

from __future__ import annotations

from abc import abstractmethod

from everlog.core.following import Follower, StreamExtent
from everlog.core.store import Store


class PositionalFollower(Follower):
    """See :class:`Follower`. Positions only grow; ``was_recreated`` reports a recreated stream."""

    @property
    @abstractmethod
    def store(self) -> Store:
        """The store in the state of its last change."""

    def restart(self, address: int, extent: StreamExtent) -> int:
        """Continue at the end: a log that became shorter was truncated, and its rest has been read."""
        return extent.end

    def byte_count(self, stream: str, start: int, end: int) -> int:
        """The difference: positions count bytes."""
        return end - start

    def parse_address(self, text: str) -> int:
        """Parse a position."""
        return self.store.parse_address(text)

    def format_address(self, address: int) -> str:
        """Format a position."""
        return self.store.format_address(address)
