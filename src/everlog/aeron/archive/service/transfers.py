"""Transfers the bytes of recordings or replays in a thread of its own, if the threading mode is DEDICATED.

A session in state RECORDING or REPLAY belongs to that thread alone (in mode SHARED to the conductor's). When it leaves
the state, it belongs to the conductor again, which answers clients, sends signals and changes the catalog. Source:
Archive.Configuration.threadingMode, DedicatedModeArchiveConductor.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from everlog.aeron.archive.service.counters import CycleTime
from everlog.kernel.memory import Memory
from everlog.kernel.watch import WordPair
from everlog.runtime.quiet import BUSY, FOREVER

_ADDED, _SEEN = 0, 8
"""Offsets of two numbers: how many sessions were added, and how many of them the agent has seen."""


class Transferring(Protocol):
    """A session that moves bytes for a while."""

    def transfer(self) -> int:
        """Move the next bytes if the state allows it. Returns the amount of work done; raises nothing."""


class Transfers:
    """An agent for :class:`~everlog.runtime.agent_runner.AgentRunner` that transfers sessions in its thread."""

    def __init__(self, cycle: CycleTime, clock_ns: Callable[[], int]) -> None:
        self._cycle = cycle
        self._clock_ns = clock_ns
        self._memory = Memory.allocate(16)
        self._sessions: tuple[Transferring, ...] = ()

    def add(self, session: Transferring) -> None:
        """Transfer a session from the next cycle on. The conductor calls it."""
        self._sessions = (*self._sessions, session)
        self._memory.get_and_add_i64(_ADDED, 1)

    def remove(self, session: Transferring) -> None:
        """Forget a session that belongs to the conductor again. The conductor calls it."""
        self._sessions = tuple(one for one in self._sessions if one is not session)

    def do_work(self, now_ns: int, now_ms: int = 0) -> int:
        """Run one cycle. Returns the amount of work done."""
        self._cycle.measure(now_ns)
        done = 0
        for session in self._sessions:
            done += session.transfer()
        return done

    @property
    def words(self) -> Sequence[WordPair]:
        """Two numbers that differ once a session was added after the last :meth:`quiet_until`."""
        return ((self._memory, _ADDED, self._memory, _SEEN),)

    def quiet_until(self) -> int:
        """It needs every cycle as long as it has sessions."""
        self._memory.put_i64(_SEEN, self._memory.get_i64_acquire(_ADDED))
        if self._sessions:
            return BUSY
        self._cycle.pause(self._clock_ns())
        return FOREVER

    def sockets(self) -> Sequence[int]:
        """It has none."""
        return ()

    def resume(self) -> None:
        """Nothing needs to be caught up after a pause."""

    def close(self) -> None:
        """Stop transferring. The conductor ends the sessions."""
        self._sessions = ()
