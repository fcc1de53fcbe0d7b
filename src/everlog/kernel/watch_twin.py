"""Sleeping until there is something to do, in Python: what :mod:`everlog.kernel._watch` does without the GIL."""

from __future__ import annotations

import select
import time
from collections.abc import Sequence

from everlog.kernel.memory_twin import Memory
from everlog.time_units import NS_PER_MS

MAX_SOCKETS = 4096
NANOSECONDS = 1_000_000_000


class Watch:
    """Nothing happens while both numbers of each pair (of 64 bits, each a memory and an offset) are equal, and no
    socket can be read. Raises ``IndexError`` and ``ValueError`` for offsets outside of their memory, or no multiple of
    8."""

    def __init__(self, pairs: Sequence[tuple[Memory, int, Memory, int]]) -> None:
        for pair in pairs:
            for memory, offset in (pair[:2], pair[2:]):
                memory.get_i64_acquire(offset)
        self._pairs = tuple(pairs)

    def park(self, park_ns: int, until_ns: int, sockets: Sequence[int] = ()) -> int:
        """Sleep for ``park_ns`` (a second at most), again and again, until something happens, or it is ``until_ns`` on
        the monotonic clock; 0 when something happened already before it slept, else how often it slept. A socket that
        can be read ends a sleep, a number that changed does not. Raises ``ValueError`` for a ``park_ns`` that is no
        time, or more than 4,096 sockets."""
        if not 0 < park_ns <= NANOSECONDS or len(sockets) > MAX_SOCKETS:
            raise ValueError(f"a park of {park_ns} ns with {len(sockets)} sockets")
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
