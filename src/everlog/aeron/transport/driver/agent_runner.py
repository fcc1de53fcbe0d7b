"""Runs agents in a thread until it is told to stop. Source: Agrona, AgentRunner and CompositeAgent."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from everlog.aeron.transport.driver.idle import IdleStrategy

MS_IN_NS = 1_000_000
SECONDS_TO_STOP = 10.0


class Agent(Protocol):
    """A part of the driver: a machine that has no clock and never waits."""

    def do_work(self, now_ns: int, now_ms: int) -> int:
        """One cycle; how much was done. ``now_ns`` is monotonic, ``now_ms`` since the epoch."""

    def close(self) -> None:
        """Give back what it holds; in its own thread, after its last cycle."""


class AgentRunner:
    """One thread for ``agents``, which run one after the other and are closed the other way round. What they raise goes
    to ``on_error``, and they go on."""

    def __init__(
        self, name: str, agents: Sequence[Agent], idle: IdleStrategy, on_error: Callable[[Exception], None]
    ) -> None:
        self.agents = agents
        self._idle = idle
        self._on_error = on_error
        self._is_stopped = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Once."""
        self._thread.start()

    def close(self) -> None:
        """Stops after the cycle that runs now, and closes the agents. Idempotent; never from its own thread."""
        self._is_stopped = True
        if self._thread.ident is not None:
            self._thread.join(SECONDS_TO_STOP)

    def do_work(self) -> int:
        """One cycle of all agents, for who has no thread for them."""
        now_ns, now_ms = time.monotonic_ns(), time.time_ns() // MS_IN_NS
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
