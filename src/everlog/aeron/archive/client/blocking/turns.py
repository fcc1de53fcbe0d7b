"""Of many threads that wait for answers, one polls for all: the others sleep until their own has come."""

from __future__ import annotations

import threading


class PollTurns:
    """Whose turn it is to poll. The thread that has it may take it again, in a handler."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._leader: int | None = None
        self._depth = 0
        self._waiting: dict[threading.Event, None] = {}

    def take(self, wake: threading.Event) -> bool:
        """Take the turn; if another thread has it, return false: ``wake`` is set when that changes."""
        me = threading.get_ident()
        with self._lock:
            if self._leader not in (None, me):
                self._waiting[wake] = None
                return False
            self._waiting.pop(wake, None)
            self._leader = me
            self._depth += 1
            return True

    def give(self) -> None:
        """Give the turn to a thread that waits for it."""
        with self._lock:
            self._depth -= 1
            if self._depth:
                return
            self._leader = None
            self._wake_next()

    def _wake_next(self) -> None:
        if self._leader is None and self._waiting:
            wake = next(iter(self._waiting))
            del self._waiting[wake]
            wake.set()

    def forget(self, wake: threading.Event) -> None:
        """A thread no longer waits. If it was to have the turn, another one gets it."""
        with self._lock:
            self._waiting.pop(wake, None)
            self._wake_next()
