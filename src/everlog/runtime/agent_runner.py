"""Runs agents in a thread until it is stopped. Source: Agrona, AgentRunner and CompositeAgent."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from everlog.kernel.memory import Memory
from everlog.kernel.watch import Condition, Watch, WordPair
from everlog.runtime.idle import Backoff, BackoffSteps, IdleStrategy
from everlog.runtime.quiet import BUSY
from everlog.time_units import NS_PER_MS

WORD = 8
MAX_SOCKETS = 64
"""Most sockets that are polled while idle. With more, the agents run every cycle and poll them themselves."""
SECONDS_TO_STOP = 10.0


class Agent(Protocol):
    """A part of the driver: a state machine without a clock that never blocks."""

    def do_work(self, now_ns: int, now_ms: int) -> int:
        """Run one cycle. Returns the amount of work done. ``now_ns`` is monotonic, ``now_ms`` is since the epoch."""

    def quiet_until(self) -> int:
        """The monotonic time before which only its :attr:`words` and :meth:`sockets` can bring work; ``BUSY`` if it
        needs every cycle."""

    @property
    def words(self) -> Sequence[WordPair]:
        """Pairs of numbers in memory; a pair differs once work has arrived."""

    def sockets(self) -> Sequence[int]:
        """File descriptors of the sockets that it reads."""

    def resume(self) -> None:
        """Called after a pause in which it needed no cycles and got none."""

    def close(self) -> None:
        """Release its resources. Called in its own thread, after its last cycle."""


class AgentRunner:
    """Runs ``agents`` in one thread, in order, and closes them in reverse order. Exceptions go to ``on_error``, and the
    agents keep running. While no agent needs its cycles, a sleeping idle strategy polls for work in compiled code, as
    often as it would have run them. ``conditions`` show work, as the agents' words do."""

    def __init__(
        self,
        name: str,
        agents: Sequence[Agent],
        idle: IdleStrategy,
        on_error: Callable[[Exception], None],
        conditions: Sequence[Condition] = (),
    ) -> None:
        self.agents = agents
        self._idle = idle
        self._on_error = on_error
        self._is_stopped = False
        self._stopped = Memory.allocate(2 * WORD)
        stop: WordPair = (self._stopped, 0, self._stopped, WORD)
        self._watch = Watch([stop, *(words for agent in agents for words in agent.words)], conditions)
        if isinstance(idle, Backoff):
            idle.wait, idle.rest = self._wait, self._rest
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread. Call it once."""
        self._thread.start()

    def close(self) -> None:
        """Stop after the current cycle and close the agents. Idempotent. Must not be called from its own thread."""
        self._is_stopped = True
        self._stopped.put_i64_release(0, 1)
        if self._thread.ident is not None:
            self._thread.join(SECONDS_TO_STOP)

    def _wait(self, park_ns: int) -> int:
        """Sleep until work arrives. Returns the number of sleeps, or ``BUSY`` if an agent needs every cycle."""
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

    def _rest(self, steps: BackoffSteps, limit_ns: int) -> bool | None:
        """Back off until work arrives, an agent needs a cycle, or ``limit_ns`` have passed. Returns whether work has
        arrived; ``None`` if an agent needs the next cycle, or has sockets, which are polled less often than memory."""
        until_ns, now_ns = min(agent.quiet_until() for agent in self.agents), time.monotonic_ns()
        if until_ns <= now_ns or any(agent.sockets() for agent in self.agents):
            return None
        until_ns = min(until_ns, now_ns + limit_ns)
        has_arrived = self._watch.back_off(*steps, until_ns)
        for agent in self.agents:
            agent.resume()
        return has_arrived

    def do_work(self) -> int:
        """Run one cycle of all agents, for callers that run them without a thread. Returns the work done."""
        now_ns, now_ms = time.monotonic_ns(), time.time_ns() // NS_PER_MS
        done = 0
        for agent in self.agents:
            try:
                done += agent.do_work(now_ns, now_ms)
            except Exception as error:  # a driver survives any single command or datagram
                self._on_error(error)
        return done

    def close_agents(self) -> None:
        """Close the agents of a runner that was never started; otherwise its thread does."""
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
