"""What an agent's thread does when there was nothing to do, under Aeron's names.
Source: Agrona, IdleStrategy and its kinds; Aeron, Configuration.agentIdleStrategy (backoff's parameters)."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Protocol

from everlog.errors import UsageError

MAX_SPINS, MAX_YIELDS = 10, 20
MIN_PARK_NS, MAX_PARK_NS = 1_000, 1_000_000
LONG_YIELD_NS = 100_000
SLEEP_NS, SLEEP_MS_NS = 1_000, 1_000_000
NANOSECONDS = 1e-9

NOT_CONTROLLED, CONTROLLED_NOOP, CONTROLLED_SPIN, CONTROLLED_YIELD, CONTROLLED_PARK = range(5)
"""Values of the counter that a controllable strategy looks at."""


class Number(Protocol):
    """A counter that others may set."""

    def get_acquire(self) -> int:
        """Its value."""

    def set_release(self, value: int) -> None:
        """Give it a value."""


class IdleStrategy(Protocol):
    """One belongs to one thread."""

    def idle(self, work_count: int) -> None:
        """After a cycle that did so much: 0 may wait, more begins anew."""


class NoOp:
    """Does nothing."""

    def idle(self, work_count: int) -> None:
        """Goes on at once."""


class BusySpin:
    """Takes a whole core, so that nothing waits; other threads of the interpreter get their turn."""

    def idle(self, work_count: int) -> None:
        """Goes on at once, when other threads of this interpreter had theirs."""
        if work_count <= 0:
            time.sleep(0)


class Yielding:
    """Takes a whole core that nobody else wants."""

    def idle(self, work_count: int) -> None:
        """Lets another process or thread run."""
        if work_count <= 0:
            os.sched_yield()


class Sleeping:
    """Sleeps a fixed time."""

    def __init__(self, period_ns: int) -> None:
        self._seconds = period_ns * NANOSECONDS

    def idle(self, work_count: int) -> None:
        """Sleeps, when there was nothing to do."""
        if work_count <= 0:
            time.sleep(self._seconds)


class Backoff:
    """Spins, then yields, then sleeps twice as long each time. Where others want the processor, a yield may cost whole
    time slices, and who yields again and again comes last: then it sleeps at once, and is woken before them.

    ``wait`` is asked for the longest sleeps, with their nanoseconds: it sleeps as often as it can without a cycle, and
    says how often; 0 is for the strategy to sleep itself."""

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
        self._max_park_ns = max_park_ns
        self._idle_cycles = 0
        self._park = self._min_park

    def idle(self, work_count: int) -> None:
        """The next step, or back to the first one."""
        if work_count > 0:
            self._idle_cycles = 0
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


class Controllable:
    """Does what a counter says, which tools and clients can set; sleeps while it says nothing."""

    def __init__(self, counter: Number) -> None:
        self._counter = counter
        counter.set_release(CONTROLLED_PARK)

    def idle(self, work_count: int) -> None:
        """As the counter says, when there was nothing to do."""
        if work_count > 0:
            return
        asked = self._counter.get_acquire()
        if asked == CONTROLLED_YIELD:
            os.sched_yield()
        elif asked == CONTROLLED_SPIN:
            time.sleep(0)
        elif asked != CONTROLLED_NOOP:
            time.sleep(SLEEP_NS * NANOSECONDS)


STRATEGIES: dict[str, Callable[[], IdleStrategy]] = {
    "noop": NoOp,
    "spin": BusySpin,
    "yield": Yielding,
    "sleep-ns": lambda: Sleeping(SLEEP_NS),
    "sleep-ms": lambda: Sleeping(SLEEP_MS_NS),
    "backoff": Backoff,
}


def idle_strategy(name: str, controlled_by: Number | None = None) -> IdleStrategy:
    """A strategy by one of Agrona's short names. ``controlled_by``: what ``controllable`` looks at. Raises
    :class:`UsageError`."""
    if name == "controllable" and controlled_by is not None:
        return Controllable(controlled_by)
    if name not in STRATEGIES:
        raise UsageError("idle strategy", found=repr(name), expected=", ".join(sorted((*STRATEGIES, "controllable"))))
    return STRATEGIES[name]()
