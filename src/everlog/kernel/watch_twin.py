"""Sleeps until work arrives, in plain Python: the specification of :mod:`everlog.kernel._watch`, which does it without
the GIL."""

from __future__ import annotations

import os
import select
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence

from everlog.kernel.memory_twin import Memory
from everlog.time_units import NS_PER_MS

MAX_SOCKETS = 4096
LONG_YIELD_NS = 100_000
"""A yield that takes longer shows that others want the processor."""
NANOSECONDS = 1_000_000_000


class Condition(ABC):
    """Something besides numbers that shows whether work has arrived. A compiled watch takes compiled conditions only:
    it checks them without the GIL."""

    @abstractmethod
    def is_quiet(self) -> bool:
        """Whether no work has arrived."""


class Watch:
    """Watches pairs of 64-bit numbers in memory, conditions, and sockets: work has arrived once the two numbers of a
    pair differ, a condition is not quiet, or a socket is readable. Raises ``IndexError`` if an offset lies outside its
    memory, ``ValueError`` if it is not a multiple of 8."""

    def __init__(self, pairs: Sequence[tuple[Memory, int, Memory, int]], conditions: Sequence[Condition] = ()) -> None:
        for pair in pairs:
            for memory, offset in (pair[:2], pair[2:]):
                memory.get_i64_acquire(offset)
        self._pairs = tuple(pairs)
        self._conditions = tuple(conditions)

    def back_off(self, spins: int, yields: int, min_park_ns: int, max_park_ns: int, until_ns: int) -> bool:
        """Wait as a backoff idle strategy does, until work arrives or the monotonic clock reaches ``until_ns``: look
        ``spins`` times, then yield the processor ``yields`` times, or once if that takes long, then sleep, twice as
        long each time. Returns whether work has arrived. Raises ``ValueError`` for sleeps of more than a second."""
        if not 0 < min_park_ns <= max_park_ns <= NANOSECONDS:
            raise ValueError(f"can't park {min_park_ns} to {max_park_ns} ns: at most 1 s")
        if any(not self._is_quiet() for _ in range(1 + spins)):
            return True
        for _ in range(yields):
            begun = time.monotonic_ns()
            os.sched_yield()
            if not self._is_quiet():
                return True
            if time.monotonic_ns() - begun > LONG_YIELD_NS:
                break
        park_ns = min_park_ns
        while time.monotonic_ns() < until_ns:
            time.sleep(park_ns / NANOSECONDS)
            park_ns = min(park_ns * 2, max_park_ns)
            if not self._is_quiet():
                return True
        return False

    def park(self, park_ns: int, until_ns: int, sockets: Sequence[int] = ()) -> int:
        """Sleep for ``park_ns`` (at most a second) repeatedly until work arrives or the monotonic clock reaches
        ``until_ns``. Returns the number of sleeps: 0 if work had already arrived. A readable socket ends a sleep early,
        a changed number does not. Raises ``ValueError`` if ``park_ns`` is out of range or there are more than 4,096
        sockets."""
        if not 0 < park_ns <= NANOSECONDS or len(sockets) > MAX_SOCKETS:
            raise ValueError(f"can't park {park_ns} ns with {len(sockets)} sockets: at most 1 s and {MAX_SOCKETS}")
        poll = select.poll()
        for number in sockets:
            poll.register(number, select.POLLIN)
        if sockets and poll.poll(0):
            return 0
        parks = 0
        while self._is_quiet() and time.monotonic_ns() < until_ns:
            parks += 1
            if sockets and poll.poll(park_ns / NS_PER_MS):
                break
            if not sockets:
                time.sleep(park_ns / NANOSECONDS)
        return parks

    def _is_quiet(self) -> bool:
        return all(
            memory.get_i64_acquire(at) == other.get_i64_acquire(other_at) for memory, at, other, other_at in self._pairs
        ) and all(condition.is_quiet() for condition in self._conditions)
