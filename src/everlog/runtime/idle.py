"""Idle strategies of an agent's thread, under Aeron's names.
Source: Agrona, IdleStrategy and its implementations; Aeron, Configuration.agentIdleStrategy (backoff's parameters)."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Literal, NamedTuple, Protocol, get_args

from everlog.core.options import check_choice
from everlog.kernel.watch_twin import LONG_YIELD_NS

IdleStrategyName = Literal["noop", "spin", "yield", "sleep-ns", "sleep-ms", "backoff", "controllable"]
MAX_SPINS, MAX_YIELDS = 10, 20
MIN_PARK_NS, MAX_PARK_NS = 1_000, 1_000_000
LONG_REST_NS, VERY_LONG_REST_NS = 100_000_000, 1_000_000_000
SLEEP_NS, SLEEP_MS_NS = 1_000, 1_000_000
NANOSECONDS = 1e-9

NOT_CONTROLLED, CONTROLLED_NOOP, CONTROLLED_SPIN, CONTROLLED_YIELD, CONTROLLED_PARK = range(5)
"""Values of a controllable strategy's counter."""


class Number(Protocol):
    """A counter that other processes may set."""

    def get_acquire(self) -> int:
        """Read the value."""

    def set_release(self, value: int) -> None:
        """Set the value."""


class IdleStrategy(Protocol):
    """Waits between duty cycles. An instance belongs to one thread."""

    def idle(self, work_count: int) -> None:
        """Called after each cycle with the work it did: may wait if 0, starts over otherwise."""


class NoOp:
    """Never waits, not even for other threads of the interpreter."""

    def idle(self, work_count: int) -> None:
        """Return immediately."""


class BusySpin:
    """Occupies a whole core for the lowest latency; other threads of the interpreter get their turn."""

    def idle(self, work_count: int) -> None:
        """Let other threads of this interpreter run if there was no work."""
        if work_count <= 0:
            time.sleep(0)


class Yielding:
    """Occupies a whole core unless another thread or process wants it."""

    def idle(self, work_count: int) -> None:
        """Yield to another process or thread if there was no work."""
        if work_count <= 0:
            os.sched_yield()


class Sleeping:
    """Sleeps for a fixed time."""

    def __init__(self, period_ns: int) -> None:
        self._seconds = period_ns * NANOSECONDS

    def idle(self, work_count: int) -> None:
        """Sleep if there was no work."""
        if work_count <= 0:
            time.sleep(self._seconds)


class BackoffSteps(NamedTuple):
    """How often a backoff strategy looks and yields, and its first and longest sleep."""

    spins: int
    yields: int
    min_park_ns: int
    max_park_ns: int


class Backoff:
    """Spins, then yields, then sleeps, twice as long each time. If the processor is contended, a yield may cost whole
    time slices and a thread that yields repeatedly is scheduled last; after one slow yield it therefore sleeps, as
    sleepers are woken first.

    ``wait``, if set, does the longest sleeps: called with their nanoseconds, it sleeps as often as no cycle is needed
    and returns how often; if that is 0, the strategy sleeps itself.

    ``rest``, if set, is called at the first cycle without work, with the steps to take and the longest time in
    nanoseconds. It takes the steps as long as no cycle is needed, and returns whether work has arrived, or ``None`` if
    the next cycle is needed at once. Each sleep costs processor time, so after a tenth of a second of rest all are
    twice as long as the longest one before, after a second four times."""

    def __init__(
        self,
        max_spins: int = MAX_SPINS,
        max_yields: int = MAX_YIELDS,
        min_park_ns: int = MIN_PARK_NS,
        max_park_ns: int = MAX_PARK_NS,
    ) -> None:
        self._spins, self._yields = max_spins, max_spins + max_yields
        self._min_park, self._max_park = min_park_ns * NANOSECONDS, max_park_ns * NANOSECONDS
        self.wait: Callable[[int], int] | None = None
        self.rest: Callable[[BackoffSteps, int], bool | None] | None = None
        self._steps = BackoffSteps(max_spins, max_yields, min_park_ns, max_park_ns)
        self._had_rest: bool | None = None
        self._rest_began_ns = 0
        self._max_park_ns = max_park_ns
        self._idle_cycles = 0
        self._park = self._min_park

    def idle(self, work_count: int) -> None:
        """Take the next step if there was no work, else go back to the first."""
        if work_count > 0:
            self._idle_cycles = 0
            # After a rest in which nothing arrived, this was a timer's work: the rest goes on.
            if self._had_rest is not False:
                self._had_rest = None
                return
        # If a rest ended and there was no work, the next rest has to wait until there was some.
        if self._idle_cycles == 0 and self.rest is not None and self._had_rest is not True:
            self._had_rest = self.rest(self._next_steps(), LONG_REST_NS)
            if self._had_rest is not None:
                return
        self._idle_cycles += 1
        if self._idle_cycles > self._yields:
            wait = self.wait if self._park >= self._max_park else None
            if wait is None or wait(self._max_park_ns) == 0:
                time.sleep(self._park)
            self._park = min(self._park * 2, self._max_park)
        elif self._idle_cycles > self._spins:
            self._park = self._min_park
            begun = time.monotonic_ns()
            os.sched_yield()
            if time.monotonic_ns() - begun > LONG_YIELD_NS:
                self._idle_cycles = self._yields

    def _next_steps(self) -> BackoffSteps:
        now_ns = time.monotonic_ns()
        if self._had_rest is None:
            self._rest_began_ns = now_ns
            return self._steps
        rested_ns = now_ns - self._rest_began_ns
        factor = 1 if rested_ns < LONG_REST_NS else 2 if rested_ns < VERY_LONG_REST_NS else 4
        park_ns = factor * self._max_park_ns
        return BackoffSteps(0, 0, park_ns, park_ns)


class Controllable:
    """Does what its counter says; tools and clients can set it. Sleeps while the counter has none of the known
    values."""

    def __init__(self, counter: Number) -> None:
        self._counter = counter
        counter.set_release(CONTROLLED_PARK)

    def idle(self, work_count: int) -> None:
        """Do what the counter says if there was no work."""
        if work_count > 0:
            return
        asked = self._counter.get_acquire()
        if asked == CONTROLLED_YIELD:
            os.sched_yield()
        elif asked == CONTROLLED_SPIN:
            time.sleep(0)
        elif asked != CONTROLLED_NOOP:
            time.sleep(SLEEP_NS * NANOSECONDS)


STRATEGIES: dict[IdleStrategyName, Callable[[], IdleStrategy]] = {
    "noop": NoOp,
    "spin": BusySpin,
    "yield": Yielding,
    "sleep-ns": lambda: Sleeping(SLEEP_NS),
    "sleep-ms": lambda: Sleeping(SLEEP_MS_NS),
    "backoff": Backoff,
}


def idle_strategy(name: IdleStrategyName, controlled_by: Number | None = None) -> IdleStrategy:
    """Make the strategy with one of Agrona's short names. ``controlled_by`` is the counter of ``controllable``. Raises
    :class:`UsageError` for an unknown name."""
    if name == "controllable" and controlled_by is not None:
        return Controllable(controlled_by)
    check_choice("idle strategy", name, STRATEGIES if controlled_by is None else get_args(IdleStrategyName))
    return STRATEGIES[name]()
