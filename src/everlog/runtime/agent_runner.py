"""Runs agents in a thread until it is told to stop. Source: Agrona, AgentRunner and CompositeAgent."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from everlog.kernel.memory import Memory
from everlog.kernel.watch import Watch, WordPair
from everlog.runtime.idle import Backoff, IdleStrategy
from everlog.runtime.quiet import BUSY
from everlog.time_units import NS_PER_MS

WORD = 8
MAX_SOCKETS = 64
"""Of more, the agents ask the system themselves."""
SECONDS_TO_STOP = 10.0


class Agent(Protocol):
    """A part of the driver: a machine that has no clock and never waits."""

    def do_work(self, now_ns: int, now_ms: int) -> int:
        """One cycle; how much was done. ``now_ns`` is monotonic, ``now_ms`` since the epoch."""

    def quiet_until(self) -> int:
        """The time, on the monotonic clock, before which only what comes by its :attr:`words` and :meth:`sockets` makes
        work for it; ``BUSY`` when it needs each cycle."""

    @property
    def words(self) -> Sequence[WordPair]:
        """Pairs of numbers in memory that are equal while nothing comes."""

    def sockets(self) -> Sequence[int]:
        """The system's numbers of the sockets that it reads."""

    def resume(self) -> None:
        """It had no cycles for a while, because it needed none."""

    def close(self) -> None:
        """Give back what it holds; in its own thread, after its last cycle."""


class AgentRunner:
    """One thread for ``agents``, which run one after the other and are closed the other way round. What they raise goes
    to ``on_error``, and they go on. While none of them needs its cycles, a strategy that sleeps looks for what comes in
    compiled code, as often as it would have run them."""

    def __init__(
        self, name: str, agents: Sequence[Agent], idle: IdleStrategy, on_error: Callable[[Exception], None]
    ) -> None:
        self.agents = agents
        self._idle = idle
        self._on_error = on_error
        self._is_stopped = False
        self._stopped = Memory.allocate(2 * WORD)
        stop: WordPair = (self._stopped, 0, self._stopped, WORD)
        self._watch = Watch([stop, *(words for agent in agents for words in agent.words)])
        if isinstance(idle, Backoff):
            idle.wait = self._wait
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Once."""
        self._thread.start()

    def close(self) -> None:
        """Stops after the cycle that runs now, and closes the agents. Idempotent; never from its own thread."""
        self._is_stopped = True
        self._stopped.put_i64_release(0, 1)
        if self._thread.ident is not None:
            self._thread.join(SECONDS_TO_STOP)

    def _wait(self, park_ns: int) -> int:
        """Sleep as often as nothing comes; how often, or ``BUSY`` where an agent needs each cycle."""
        until_ns = min(agent.quiet_until() for agent in self.agents)
        if until_ns <= BUSY:
            return BUSY
        sockets = [number for agent in self.agents for number in agent.sockets()]
        if len(sockets) > MAX_SOCKETS:
            return BUSY
        parks = self._watch.park(park_ns, until_ns, sockets)
        for agent in self.agents:
            agent.resume()
        return parks

    def do_work(self) -> int:
        """One cycle of all agents, for who has no thread for them."""
        now_ns, now_ms = time.monotonic_ns(), time.time_ns() // NS_PER_MS
        done = 0
        for agent in self.agents:
            try:
                done += agent.do_work(now_ns, now_ms)
            except Exception as error:  # a driver outlives whatever one command or datagram does to it
                self._on_error(error)
        return done

    def close_agents(self) -> None:
        """Of a runner that was never started; else its thread does it."""
        for agent in reversed(self.agents):
            try:
                agent.close()
            except Exception as error:
                self._on_error(error)

    def _run(self) -> None:
        try:
            while not self._is_stopped:
                self._idle.idle(self.do_work())
        finally:
            self.close_agents()
