"""The positions of a stream's subscribers, for the Python twins of compiled loops over all of them."""

from __future__ import annotations

from everlog.kernel.memory import Memory


class SubscriberPositions:
    """A list of positions, each an int64 in shared memory."""

    def __init__(self) -> None:
        self._subscribers: list[tuple[Memory, int]] = []

    @property
    def subscriber_count(self) -> int:
        """Number of subscribers whose positions count for flow control."""
        return len(self._subscribers)

    def add_subscriber(self, memory: Memory, offset: int) -> None:
        """Count a subscriber's position from now on. Raises ``IndexError`` or ``ValueError`` for an offset that can't
        hold an int64."""
        memory.get_i64_acquire(offset)
        self._subscribers.append((memory, offset))

    def remove_subscriber(self, offset: int) -> bool:
        """Stop counting a position; returns whether it was counted. The offset alone identifies it, as all positions
        are in the same memory."""
        for index, (_, at) in enumerate(self._subscribers):
            if at == offset:
                del self._subscribers[index]
                return True
        return False
