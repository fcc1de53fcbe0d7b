"""The driver's errors: into the distinct error log, and counted."""

from __future__ import annotations

from everlog.aeron.transport.counters_memory import AtomicCounter
from everlog.aeron.transport.error_log_writer import DistinctErrorLog


class ErrorsSeen:
    """``record`` never raises, and may be called by any thread. ``now_ms`` is the time that is written where none is
    given; the conductor sets it."""

    def __init__(self, log: DistinctErrorLog, count: AtomicCounter, now_ms: int) -> None:
        self.now_ms = now_ms
        self._log = log
        self._count = count

    def record(self, error: BaseException | str, now_ms: int | None = None) -> None:
        """One more of its kind. What finds no room in the log is only counted."""
        self._count.increment()
        self._log.record(error, self.now_ms if now_ms is None else now_ms)

    def on_error(self, error: BaseException) -> None:
        """An agent's cycle ended by it."""
        self.record(error)
