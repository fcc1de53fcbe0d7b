"""Sleeps until work arrives, in plain Python: the specification of :mod:`everlog.kernel._watch`, which does it without
the GIL."""

from __future__ import annotations

import select
import time
from collections.abc import Sequence

from everlog.kernel.memory_twin import Memory
from everlog.time_units import NS_PER_MS

MAX_SOCKETS = 4096
NANOSECONDS = 1_000_000_000


class Watch:
    """Watches pairs of 64-bit numbers in memory, and sockets: work has arrived once the two numbers of a pair differ,
    or a socket is readable. Raises ``IndexError`` if an offset lies outside its memory, ``ValueError`` if it is not a
    multiple of 8."""

    def __init__(self, pairs: Sequence[tuple[Memory, int, Memory, int]]) -> None:
        for pair in pairs:
            for memory, offset in (pair[:2], pair[2:]):
                memory.get_i64_acquire(offset)
        self._pairs = tuple(pairs)

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
        )
