"""Reports the progress of one recording to the threads that wait for it and to one listener."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


class Progress:
    """Threads and a listener that wait for a recording's new positions. :meth:`report` costs little without any."""

    def __init__(self) -> None:
        self.listener: Callable[[], None] | None = None
        """Called after each append, in the appending thread."""
        self._moved = threading.Condition(threading.Lock())
        self._waiting = 0

    @property
    def is_watched(self) -> bool:
        """Whether a thread waits or a listener is set."""
        return self._waiting > 0 or self.listener is not None

    def add_waiting(self, count: int) -> None:
        """Announce a thread that is about to wait (1), or no longer does (-1). Callers hold the recording's lock."""
        self._waiting += count

    def wait(self, is_over: Callable[[], bool], timeout_s: float | None) -> bool:
        """Wait until ``is_over`` is true, which is checked at each :meth:`wake`. False after ``timeout_s``."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        with self._moved:
            while not is_over():
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    return False
                self._moved.wait(left)
        return True

    def report(self) -> None:
        """Call the listener, and wake waiting threads."""
        listener = self.listener
        if listener is not None:
            listener()
        if self._waiting:
            self.wake()

    def wake(self) -> None:
        """Have waiting threads check their condition again."""
        with self._moved:
            self._moved.notify_all()
