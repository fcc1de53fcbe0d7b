"""Records the driver's errors in its distinct error log and counts them."""

from __future__ import annotations

from collections.abc import Callable

from everlog.aeron.transport.driver.commands.command_errors import as_logged
from everlog.aeron.transport.memory.counters_memory import AtomicCounter
from everlog.aeron.transport.memory.error_log_writer import DistinctErrorLog


class DistinctErrorRecorder:
    """Writes errors to the log. ``record`` never raises and is safe on any thread. ``now_ms``, which the conductor
    updates, is the timestamp of errors recorded without one."""

    def __init__(self, log: DistinctErrorLog, count: AtomicCounter, now_ms: int) -> None:
        self.now_ms = now_ms
        self._log = log
        self._count = count

    def record(self, error: BaseException | str, now_ms: int | None = None) -> None:
        """Record one more observation of an error. Its first line is worded as by Java's driver. Errors that don't fit
        into the log are only counted."""
        self._count.increment()
        first_line = None if isinstance(error, str) else as_logged(error)
        timestamp_ms = self.now_ms if now_ms is None else now_ms
        self._log.record(error, timestamp_ms, None if first_line is None else str(first_line))

    def guard(self, step: Callable[..., int | None], *arguments: object) -> int:
        """Run one of several independent steps; an error is recorded, so that the other steps still run. Returns the
        step's result, or 0 after an error."""
        try:
            return step(*arguments) or 0
        except Exception as error:
            self.record(error)
            return 0

    def on_error(self, error: BaseException) -> None:
        """Record an error that ended an agent's cycle."""
        self.record(error)
