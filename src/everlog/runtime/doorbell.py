"""Tells an agent that sleeps in another thread that there is something in its queue."""

from __future__ import annotations

from collections import deque
from typing import TypeVar

from everlog.kernel.memory import Memory
from everlog.kernel.watch import WordPair

T = TypeVar("T")
_RUNG, _HEARD = 0, 8


class RungQueue(deque[T]):
    """Whoever appends to it rings. Appending and taking are atomic."""

    def __init__(self) -> None:
        super().__init__()
        self._memory = Memory.allocate(16)

    def append(self, item: T) -> None:
        """Leave something, and ring."""
        super().append(item)
        self._memory.get_and_add_i64(_RUNG, 1)

    def listen(self) -> bool:
        """From now on :attr:`words` differ when somebody rings. Whether there is nothing in it."""
        self._memory.put_i64(_HEARD, self._memory.get_i64_acquire(_RUNG))
        return not self

    @property
    def words(self) -> WordPair:
        """How often somebody rang, and how often that was heard."""
        return self._memory, _RUNG, self._memory, _HEARD
