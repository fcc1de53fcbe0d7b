"""What followers share whose streams are addressed by positions in a log of bytes."""

from __future__ import annotations

from abc import abstractmethod

from everlog.core.following import Follower, StreamExtent
from everlog.core.store import Store


class PositionalFollower(Follower):
    """See :class:`Follower`. Positions only grow; a stream made anew is told by ``was_recreated``."""

    @property
    @abstractmethod
    def store(self) -> Store:
        """The store, as it was when it last changed."""

    def restart(self, address: int, extent: StreamExtent) -> int:
        """A log that is shorter than it was has been truncated, and what is left of it was read."""
        return extent.end

    def byte_count(self, stream: str, start: int, end: int) -> int:
        """Positions are bytes."""
        return end - start

    def parse_address(self, text: str) -> int:
        """A position."""
        return self.store.parse_address(text)

    def format_address(self, address: int) -> str:
        """A position."""
        return self.store.format_address(address)
