"""The driver's errors: into the distinct error log, and counted."""

from __future__ import annotations

from collections.abc import Callable

from everlog.aeron.transport.driver.commands.command_errors import as_logged
from everlog.aeron.transport.memory.counters_memory import AtomicCounter
from everlog.aeron.transport.memory.error_log_writer import DistinctErrorLog


class DistinctErrorRecorder:
    """``record`` never raises, and may be called by any thread. ``now_ms`` is the time that is written where none is
    given; the conductor sets it."""

    def __init__(self, log: DistinctErrorLog, count: AtomicCounter, now_ms: int) -> None:
        self.now_ms = now_ms
        self._log = log
        self._count = count

    def record(self, error: BaseException | str, now_ms: int | None = None) -> None:
        """One more of its kind, its first line as Java's driver has it. What finds no room in the log is only
        counted."""
        self._count.increment()
        said = None if isinstance(error, str) else as_logged(error)
        self._log.record(error, self.now_ms if now_ms is None else now_ms, None if said is None else str(said))

    def guard(self, step: Callable[..., int | None], *arguments: object) -> int:
        """Do one of several things, so that its error is recorded and keeps none of the others from being done; what it
        gives, or 0."""
        try:
            return step(*arguments) or 0
        except Exception as error:
            self.record(error)
            return 0

    def on_error(self, error: BaseException) -> None:
        """An agent's cycle ended by it."""
        self.record(error)
