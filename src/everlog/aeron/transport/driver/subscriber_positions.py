"""The positions of a stream's subscribers, for twins of compiled loops that look at all of them."""

from __future__ import annotations

from everlog.kernel.memory import Memory


class SubscriberPositions:
    """Each is a number in a memory."""

    def __init__(self) -> None:
        self._subscribers: list[tuple[Memory, int]] = []

    @property
    def subscriber_count(self) -> int:
        """Subscribers whose positions count."""
        return len(self._subscribers)

    def add_subscriber(self, memory: Memory, offset: int) -> None:
        """From now on its position counts. Raises ``IndexError`` or ``ValueError`` for no place of a number."""
        memory.get_i64_acquire(offset)
        self._subscribers.append((memory, offset))

    def remove_subscriber(self, offset: int) -> bool:
        """Its position counts no more; whether it did. All are in the same memory, so an offset names one."""
        for index, (_, at) in enumerate(self._subscribers):
            if at == offset:
                del self._subscribers[index]
                return True
        return False
