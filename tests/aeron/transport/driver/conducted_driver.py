"""A driver's conductor in private memory, which gets commands as clients write them. Time stands still unless a test
moves it."""

from __future__ import annotations

from typing import Any, TypeVar

from everlog.aeron.transport.driver.assembly import Environment, assemble
from everlog.aeron.transport.driver.log_factory import PrivateLogFactory
from everlog.aeron.transport.driver.settings.configuration import Configuration
from everlog.aeron.transport.driver.system_counters import SystemCounter
from everlog.aeron.transport.format.counters import Counter, parse_counters
from everlog.aeron.transport.media.name_resolver import DefaultNameResolver, NameResolver, numeric
from everlog.aeron.transport.memory.broadcast import BroadcastReceiver
from everlog.aeron.transport.memory.cnc_memory import CncMemory, CncSettings
from everlog.aeron.transport.memory.log_memory import LogMemory
from everlog.aeron.transport.memory.ring_buffer import ManyToOneRingBuffer
from everlog.aeron.transport.protocol import commands
from everlog.testing.network.simulated import SimulatedMachine, SimulatedNetwork

MS, SECOND = 1_000_000, 1_000_000_000
START_NS, START_MS = 1_000 * SECOND, 1_700_000_000_000
E = TypeVar("E")


class OwnNamesResolver(DefaultNameResolver):
    """Resolves this machine's names only: a simulated network has no DNS, and the real one may take seconds for an
    unknown name."""

    def resolve(self, host: str, parameter: str, is_re_resolution: bool) -> str | None:
        """See :class:`NameResolver`."""
        return numeric("127.0.0.1" if host in ("", "localhost") else host)


OWN_NAMES = OwnNamesResolver()


class ConductedDriver:
    """``settings`` are fields of the configuration. Terms are small, so that logs are cheap. ``machine`` is the
    driver's place in a simulated network; ``resolver`` resolves its names."""

    def __init__(
        self,
        machine: SimulatedMachine | None = None,
        resolver: NameResolver = OWN_NAMES,
        error_log_length: int = 64 << 10,
        **settings: Any,
    ) -> None:
        lengths = {"ipc_term_buffer_length": 64 << 10, "publication_term_buffer_length": 64 << 10}
        self.configuration = Configuration(dir="/nowhere", **(lengths | settings))
        self.now_ns, self.now_ms = START_NS, START_MS
        cnc = CncSettings(counters_values_buffer_length=128 << 10, error_log_buffer_length=error_log_length)
        self.cnc = CncMemory.allocate(cnc, self.now_ms)
        self.logs = PrivateLogFactory()
        self.machine = machine or SimulatedNetwork(1).machine("10.0.0.1")
        self.terminations = 0
        self.alive: tuple[int, ...] = ()
        """Clients that say all the time that they live."""
        self.parts = assemble(
            self.configuration,
            cnc=self.cnc,
            network=self.machine,
            now_ns=self.now_ns,
            now_ms=self.now_ms,
            on_terminate=self._terminated,
            environment=Environment(
                log_factory=self.logs,
                seed=1,
                resolver=resolver,
                interfaces=self.machine.interfaces,
                clock_ns=lambda: self.now_ns,
                epoch_ns=lambda: self.now_ms * MS,
            ),
        )
        self.to_driver = ManyToOneRingBuffer(self.cnc.to_driver)
        self._receiver = BroadcastReceiver(self.cnc.to_clients)

    def _terminated(self) -> None:
        self.terminations += 1

    def work(self, cycles: int = 1) -> int:
        """Run cycles of all agents at the same time. Returns the amount of work done."""
        agents = self.parts.sender, self.parts.receiver, self.parts.conductor
        return sum(agent.do_work(self.now_ns, self.now_ms) for _ in range(cycles) for agent in agents)

    def advance(self, duration_ns: int) -> None:
        """Let time pass in steps of 100 ms, with a cycle in each."""
        end_ns = self.now_ns + duration_ns
        while self.now_ns < end_ns:
            step_ns = min(100 * MS, end_ns - self.now_ns)
            self.now_ns += step_ns
            self.now_ms += step_ns // MS
            self.keep_alive(*self.alive)
            self.work()

    def next_id(self) -> int:
        """A correlation id."""
        return self.to_driver.next_correlation_id()

    def write(self, command: commands.Command) -> None:
        """Send a command."""
        assert self.to_driver.write(*commands.encode(command))

    def ask(self, command: commands.Command) -> list[commands.Event]:
        """Send a command. Returns the driver's events."""
        self.write(command)
        self.work(4)
        return self.events()

    def events(self) -> list[commands.Event]:
        """The driver's events since the last call."""
        found = []
        while (message := self._receiver.receive()) is not None:
            found.append(commands.decode_event(*message))
        return found

    def add_publication(
        self, channel: str = "aeron:ipc", stream_id: int = 10, client_id: int = 1, *, is_exclusive: bool = False
    ) -> commands.OnPublicationReady:
        """Add a publication. Returns the answer."""
        kind = commands.AddExclusivePublication if is_exclusive else commands.AddPublication
        return only(self.ask(kind(client_id, self.next_id(), stream_id, channel)), commands.OnPublicationReady)

    def add_subscription(
        self, channel: str = "aeron:ipc", stream_id: int = 10, client_id: int = 2
    ) -> tuple[int, list[commands.Event]]:
        """Add a subscription. Returns its registration id and the driver's events."""
        registration_id = self.next_id()
        events = self.ask(commands.AddSubscription(client_id, registration_id, -1, stream_id, channel))
        assert only(events, commands.OnSubscriptionReady).correlation_id == registration_id
        return registration_id, events

    def error(self, command: commands.Command) -> commands.OnError:
        """Send a command that is refused. Returns the error."""
        return only(self.ask(command), commands.OnError)

    def log(self, ready: commands.OnPublicationReady | commands.OnAvailableImage) -> LogMemory:
        """The log that clients would map."""
        return self.logs.logs[ready.log_file_name]

    def keep_alive(self, *client_ids: int) -> None:
        """Send the clients' keepalives."""
        for client_id in client_ids:
            self.write(commands.ClientKeepalive(client_id, 0))
        self.work(len(client_ids))

    def counters(self) -> dict[int, Counter]:
        """All allocated counters, by id."""
        metadata, values = self.cnc.counters_metadata.view(), self.cnc.counters_values.view()
        return {counter.counter_id: counter for counter in parse_counters(metadata, values) if counter.state == 1}

    def labels(self) -> dict[str, int]:
        """Labels and values of all counters except the system counters."""
        return {c.label: c.value for c in self.counters().values() if c.counter_id >= len(SystemCounter)}

    def system(self, counter: SystemCounter) -> int:
        """The value of a system counter."""
        return self.parts.system_counters[counter].get()

    def set_counter(self, counter_id: int, value: int) -> None:
        """Set a counter, as a client moves its position."""
        self.parts.context.counters.counter(counter_id).set_release(value)


def only(events: list[commands.Event], kind: type[E]) -> E:
    """The only event of a kind."""
    found = [event for event in events if isinstance(event, kind)]
    assert len(found) == 1, events
    return found[0]


def all_of(events: list[commands.Event], kind: type[E]) -> list[E]:
    """All events of a kind."""
    return [event for event in events if isinstance(event, kind)]
