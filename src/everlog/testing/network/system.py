"""Whole systems of media drivers and clients in one thread: real agents, a simulated network, and a clock that only
:meth:`TransportSystem.step` and the methods that call it move. The same seed gives the same run.

Each step runs the drivers' agents in a random order. A client that waits for its driver lets time go on for the whole
system, so that programs are written as for a real driver::

    system = TransportSystem(seed=1, weather=LinkConditions(loss=0.05))
    here, there = system.driver("10.0.0.1"), system.driver("10.0.0.2")
    publication = here.client().add_publication("aeron:udp?endpoint=10.0.0.2:4000", 10)
    subscription = there.client().add_subscription("aeron:udp?endpoint=10.0.0.2:4000", 10)
    system.run_until(lambda: publication.is_connected)
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Protocol

from everlog.aeron.error_log import read_errors
from everlog.aeron.transport.client.aeron import Aeron
from everlog.aeron.transport.client.conducting.conductor import DriverMemory
from everlog.aeron.transport.client.conducting.runner import Clock
from everlog.aeron.transport.client.options import ClientOptions
from everlog.aeron.transport.driver.assembly import Environment, assemble
from everlog.aeron.transport.driver.log_factory import PrivateLogFactory
from everlog.aeron.transport.driver.settings.configuration import Configuration
from everlog.aeron.transport.driver.system_counters import SystemCounter
from everlog.aeron.transport.memory.cnc_memory import CncMemory, CncSettings
from everlog.aeron.transport.memory.log_memory import LogMemory
from everlog.aeron.transport.memory.loss_report_writer import LossReport
from everlog.errors import StoreUnavailable
from everlog.kernel.memory import Memory
from everlog.testing.network.simulated import LinkConditions, SimulatedNetwork
from everlog.time_units import NS_PER_MS, NS_PER_S, NS_PER_US

START_NS, START_MS = 1000 * NS_PER_S, 1_700_000_000_000
STEP_NS = 50 * NS_PER_US
TERM_LENGTH = 64 << 10
LOSS_REPORT_LENGTH = 64 << 10


class SystemStopped(AssertionError):
    """The awaited condition did not hold in time. The text has the seed."""


class Agent(Protocol):
    """One of a driver's agents."""

    def do_work(self, now_ns: int, now_ms: int) -> int: ...
    def close(self) -> None: ...


class TransportSystem:
    """Drivers on the machines of one network. Each step lasts ``step_ns``."""

    def __init__(self, seed: int, weather: LinkConditions | None = None, step_ns: int = STEP_NS) -> None:
        self.seed = seed
        self.step_ns = step_ns
        self.network = SimulatedNetwork(seed, weather)
        self.now_ns = START_NS
        self.network.advance(START_NS)
        self.random = random.Random(seed)
        self.drivers: list[SimulatedDriver] = []

    @property
    def now_ms(self) -> int:
        """Milliseconds since 1970."""
        return START_MS + (self.now_ns - START_NS) // NS_PER_MS

    def driver(self, address: str, **settings: Any) -> SimulatedDriver:
        """Add a driver on a new machine. ``settings`` are fields of the configuration."""
        self.drivers.append(SimulatedDriver(self, address, settings))
        return self.drivers[-1]

    def step(self, step_ns: int | None = None) -> int:
        """Advance the time, then run each agent and each client once; return the amount of work done."""
        self.now_ns += self.step_ns if step_ns is None else step_ns
        self.network.advance(self.now_ns)
        agents = [agent for driver in self.drivers if not driver.is_paused for agent in driver.agents]
        self.random.shuffle(agents)
        work = sum(agent.do_work(self.now_ns, self.now_ms) for agent in agents)
        for driver in self.drivers:
            for client in driver.clients:
                work += client.do_work()
        return work

    def advance(self, duration_ns: int, step_ns: int = NS_PER_MS) -> None:
        """Run for ``duration_ns``, in steps of ``step_ns``, which may be longer than ``self.step_ns``."""
        end_ns = self.now_ns + duration_ns
        while self.now_ns < end_ns:
            self.step(min(step_ns, end_ns - self.now_ns))

    def run_until(
        self, condition: Callable[[], bool], timeout_ns: int = 60 * NS_PER_S, step_ns: int | None = None
    ) -> None:
        """Step until ``condition`` holds. Raises :class:`SystemStopped` if it does not within ``timeout_ns``. A longer
        ``step_ns`` shortens the wait for a timeout."""
        end_ns = self.now_ns + timeout_ns
        while not condition():
            if self.now_ns >= end_ns:
                errors = [text for driver in self.drivers for text in driver.errors()]
                raise SystemStopped(f"seed {self.seed}: not after {timeout_ns} ns; {self.network.traffic} {errors}")
            self.step(step_ns)


class SimulatedDriver:
    """A media driver that shares no memory with other processes, and its clients. It can be paused, and killed and
    started again; ``clients`` keeps those of a killed one until their owner removes them."""

    def __init__(self, system: TransportSystem, address: str, settings: dict[str, Any]) -> None:
        self.system = system
        self.machine = system.network.machine(address)
        lengths = {"ipc_term_buffer_length": TERM_LENGTH, "publication_term_buffer_length": TERM_LENGTH}
        self.configuration = Configuration(dir=f"/simulated/{address}", **(lengths | settings))
        self.clients: list[Aeron] = []
        self._paused_until_ns = 0
        self.start()

    def start(self) -> None:
        """Start the driver, again after :meth:`kill`: in memory of its own, with the same configuration."""
        system = self.system
        self.cnc = CncMemory.allocate(
            CncSettings(
                counters_values_buffer_length=128 << 10,
                error_log_buffer_length=64 << 10,
                client_liveness_timeout_ns=self.configuration.client_liveness_timeout_ns,
            ),
            system.now_ms,
        )
        self.logs = PrivateLogFactory()
        self.loss_report = LossReport(Memory.allocate(LOSS_REPORT_LENGTH))
        self.parts = assemble(
            self.configuration,
            cnc=self.cnc,
            network=self.machine,
            now_ns=system.now_ns,
            now_ms=system.now_ms,
            loss_report=self.loss_report,
            environment=Environment(
                log_factory=self.logs,
                seed=system.random.getrandbits(32),
                interfaces=self.machine.interfaces,
                clock_ns=lambda: system.now_ns,
                epoch_ns=lambda: system.now_ms * NS_PER_MS,
            ),
        )
        self.agents: list[Agent] = [self.parts.sender, self.parts.receiver, self.parts.conductor]
        self.parts.conductor.do_work(system.now_ns, system.now_ms)

    def pause(self, duration_ns: int) -> None:
        """Let its agents do nothing for a while, as a process that is stopped."""
        self._paused_until_ns = self.system.now_ns + duration_ns

    def resume(self) -> None:
        """End a pause."""
        self._paused_until_ns = 0

    def kill(self) -> None:
        """Let it die: its sockets are gone, the memory that it shares with clients stays as it is."""
        self.agents = []
        self.machine.close_sockets()

    @property
    def is_paused(self) -> bool:
        """Whether it does nothing now."""
        return self.system.now_ns < self._paused_until_ns

    @property
    def is_running(self) -> bool:
        """Whether it serves clients now."""
        return bool(self.agents) and not self.is_paused

    def _map_log(self, name: str) -> LogMemory:
        """A driver may have freed the log by now."""
        found = self.logs.logs.get(name)
        if found is None:
            raise StoreUnavailable(name, found="no such file or directory", expected="a log buffer")
        return found

    def client(self, **options: Any) -> Aeron:
        """Add a client without threads: the system's steps do its work."""
        memory = DriverMemory(
            self.cnc.to_driver,
            self.cnc.to_clients,
            self.cnc.counters_metadata,
            self.cnc.counters_values,
            self.configuration.client_liveness_timeout_ns,
            self.configuration.dir,
        )
        system = self.system
        clock = Clock(lambda: system.now_ns, lambda: system.now_ms, self._sleep)
        client = Aeron(memory, self._map_log, ClientOptions(use_invoker=True, **options), clock)
        self.clients.append(client)
        return client

    def _sleep(self, seconds: float) -> None:
        self.system.advance(max(round(seconds * NS_PER_S), self.system.step_ns))

    def count(self, counter: SystemCounter) -> int:
        """Return the value of one of the driver's counters."""
        return self.parts.system_counters[counter].get()

    def errors(self) -> list[str]:
        """Return the driver's distinct errors."""
        return [entry.text for entry in read_errors(self.cnc.error_log.view())]
