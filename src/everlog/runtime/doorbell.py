"""A queue that wakes an agent sleeping in another thread."""

from __future__ import annotations

from collections import deque
from typing import TypeVar

from everlog.kernel.memory import Memory
from everlog.kernel.watch import WordPair

T = TypeVar("T")
_RINGS, _RINGS_SEEN = 0, 8


class DoorbellQueue(deque[T]):
    """A queue whose :meth:`append` wakes the reader. Appending and popping are atomic."""

    def __init__(self) -> None:
        super().__init__()
        self._memory = Memory.allocate(16)

    def append(self, item: T) -> None:
        """Append an item and wake the reader."""
        super().append(item)
        self._memory.get_and_add_i64(_RINGS, 1)

    def listen(self) -> bool:
        """Make :attr:`words` equal until the next append. Returns whether the queue is empty."""
        self._memory.put_i64(_RINGS_SEEN, self._memory.get_i64_acquire(_RINGS))
        return not self

    @property
    def words(self) -> WordPair:
        """The number of appends, and that number at the last :meth:`listen`."""
        return self._memory, _RINGS, self._memory, _RINGS_SEEN
