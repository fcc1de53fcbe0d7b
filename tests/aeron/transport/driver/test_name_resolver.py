"""Name resolution among drivers on the simulated network."""

from __future__ import annotations

import dataclasses
import random
import socket
from typing import Any, cast

import pytest

from everlog.aeron.transport.driver.assembly import Environment, driver_context
from everlog.aeron.transport.driver.context import DriverContext
from everlog.aeron.transport.driver.log_factory import LogFactory
from everlog.aeron.transport.driver.media_context import media_context
from everlog.aeron.transport.driver.name_resolver import MAX_CACHE_ENTRIES, MAX_NEIGHBORS, DriverNameResolver
from everlog.aeron.transport.driver.settings.configuration import Configuration
from everlog.aeron.transport.driver.system_counters import SystemCounter
from everlog.aeron.transport.media.name_resolver import TableNameResolver
from everlog.aeron.transport.media.network import SocketSettings
from everlog.aeron.transport.memory.cnc_memory import CncMemory, CncSettings
from everlog.aeron.transport.protocol import wire
from everlog.aeron.transport.protocol.wire_resolution import Resolution, ResolutionEntry
from everlog.errors import UsageError
from everlog.kernel.udp import Datagrams, SocketAddress
from everlog.runtime.tasks import InlineTasks
from everlog.testing.network.simulated import SimulatedMachine, SimulatedNetwork
from tests.aeron.transport.driver.conducted_driver import SECOND, ConductedDriver

PORT = 8050


class Driver:
    """The parts of a driver that a resolver needs."""

    def __init__(self, machine: SimulatedMachine, name: str, neighbors: str, **settings: Any) -> None:
        configuration = dataclasses.replace(
            Configuration(),
            resolver_name=name,
            resolver_interface=f"{settings.pop('host', machine.name)}:{PORT}",
            resolver_bootstrap_neighbor=neighbors,
            **settings,
        )
        cnc = CncMemory.allocate(CncSettings(), 0)
        environment = Environment(log_factory=cast(LogFactory, object()), tasks=InlineTasks(), seed=1)
        self.context: DriverContext = driver_context(configuration, cnc, environment, 0, 0)
        media = media_context(self.context, machine, lambda: 0)
        self.names = TableNameResolver({"known": "10.0.0.9"})
        self.resolver = DriverNameResolver(self.context, media, self.names)

    def count(self, counter: SystemCounter) -> int:
        return self.context.system_counters[counter].get()

    def labels(self, type_id: int) -> dict[str, int]:
        counters = self.context.counters
        ids = [i for i in range(counters.used_count) if counters.type_id(i) == type_id]
        return {counters.label(i): counters.value(i) for i in ids}


def run(network: SimulatedNetwork, drivers: list[Driver], until_ms: int) -> None:
    for now_ms in range(network.now_ns // 1_000_000, until_ms, 10):
        network.advance(now_ms * 1_000_000)
        for driver in drivers:
            driver.resolver.do_work(now_ms)


def three() -> tuple[SimulatedNetwork, list[Driver]]:
    """Three drivers; the second and the third know the first."""
    network = SimulatedNetwork(1)
    first = Driver(network.machine("10.0.0.1"), "one", "")
    others = [
        Driver(network.machine(f"10.0.0.{i}"), name, f"10.0.0.1:{PORT}") for i, name in ((2, "two"), (3, "three"))
    ]
    return network, [first, *others]


def asked(driver: Driver, name: str) -> str | None:
    return driver.resolver.resolve(name, "endpoint", False)


def test_who_knows_one_neighbour_soon_knows_all() -> None:
    network, drivers = three()
    assert asked(drivers[1], "three") is None
    run(network, drivers, 5000)
    addresses = {"one": "10.0.0.1", "two": "10.0.0.2", "three": "10.0.0.3"}
    for driver in drivers:
        assert {name: asked(driver, name) for name in addresses} == addresses
        assert len(driver.resolver.neighbors) == 2
        assert driver.count(SystemCounter.INVALID_PACKETS) == 0
    assert drivers[0].labels(15) == {"Resolver neighbors: bound 10.0.0.1:8050": 2}
    assert drivers[0].labels(16) == {"Resolver cache entries: name=one": 2}
    assert drivers[0].labels(21) == {}
    assert drivers[1].labels(21) == {"Bootstrap neighbor: name=10.0.0.1:8050 resolved=10.0.0.1:8050": 1}


def test_other_names_are_asked_of_the_resolver_beyond() -> None:
    network, drivers = three()
    run(network, drivers, 100)
    assert asked(drivers[0], "known") == "10.0.0.9"
    assert asked(drivers[0], "nobody") is None
    assert drivers[0].resolver.lookup("x:1", "endpoint", False) == "x:1"


def test_a_driver_that_is_gone_is_forgotten_and_found_again() -> None:
    network, drivers = three()
    run(network, drivers, 5000)
    run(network, drivers[:2], 30_000)
    assert asked(drivers[0], "three") is None
    assert asked(drivers[0], "two") == "10.0.0.2"
    assert drivers[0].labels(16) == {"Resolver cache entries: name=one": 1}
    run(network, drivers, 45_000)
    assert asked(drivers[1], "three") == "10.0.0.3"


def test_a_neighbours_name_is_looked_up_until_it_is_known() -> None:
    network = SimulatedNetwork(1)
    first = Driver(network.machine("10.0.0.1"), "one", "")
    second = Driver(network.machine("10.0.0.2"), "two", f"later:{PORT}")
    run(network, [first, second], 1000)
    assert second.labels(21) == {f"Bootstrap neighbor: name=later:{PORT} resolved=": 0}
    assert second.count(SystemCounter.ERRORS) == 1
    second.names.table["later"] = "10.0.0.1"
    run(network, [first, second], 15_000)
    assert asked(first, "two") == "10.0.0.2"
    assert second.labels(21) == {f"Bootstrap neighbor: name=later:{PORT} resolved=10.0.0.1:{PORT}": 1}


def test_a_driver_bound_to_all_addresses_is_known_by_the_one_it_sends_from() -> None:
    network = SimulatedNetwork(1)
    first = Driver(network.machine("10.0.0.1"), "one", "")
    second = Driver(network.machine("10.0.0.2"), "two", f"10.0.0.1:{PORT}", host="0.0.0.0")
    run(network, [first, second], 3000)
    assert asked(first, "two") == "10.0.0.2"


def test_names_go_on_when_a_third_of_the_datagrams_is_lost() -> None:
    network, drivers = three()
    network.weather.loss = 0.33
    run(network, drivers, 60_000)
    assert [asked(driver, name) for driver in drivers for name in ("one", "two", "three")] == [
        "10.0.0.1",
        "10.0.0.2",
        "10.0.0.3",
    ] * 3


def test_lies_are_believed_up_to_a_limit_and_rubbish_is_counted() -> None:
    network, drivers = three()
    run(network, drivers, 3000)
    first, source = drivers[0], SocketAddress("172.16.0.1", 1)
    target = SocketAddress("10.0.0.1", PORT)
    rng = random.Random(2)
    frame = wire.encode(Resolution((ResolutionEntry("x", bytes(4), 5),)))
    for cut in range(len(frame)):
        network.inject(frame[:cut], source, target)
    for _ in range(50):
        network.inject(rng.randbytes(rng.randrange(100)), source, target)
    run(network, drivers[:1], 3500)
    assert first.count(SystemCounter.INVALID_PACKETS) > 40
    now_ms = 3500
    for start in range(0, MAX_CACHE_ENTRIES + 500, 20):
        names = range(start, start + 20)
        entries = [ResolutionEntry(f"n{i}", i.to_bytes(4, "big"), 7, -(1 << 31)) for i in names]
        network.inject(wire.encode(Resolution(tuple(entries))), source, target)
        network.advance(now_ms * 1_000_000)
        first.resolver.do_work(now_ms)
        now_ms += 10
    assert list(first.labels(16).values()) == [MAX_CACHE_ENTRIES]
    assert len(first.resolver.neighbors) == MAX_NEIGHBORS
    run(network, drivers[:1], 20_000)
    assert list(first.labels(16).values()) == [0]  # an age below nothing is none: they are forgotten in time


@pytest.mark.parametrize("name", ["", "ä", "x" * 513])
def test_a_driver_needs_a_name_that_fits(name: str) -> None:
    with pytest.raises(UsageError, match=r"aeron\.driver\.resolver\.name"):
        Driver(SimulatedNetwork(1).machine("10.0.0.1"), name, "")


def test_too_many_neighbours_are_refused() -> None:
    many = ",".join(f"10.0.0.{i}:{PORT}" for i in range(21))
    with pytest.raises(UsageError, match="neighbor"):
        Driver(SimulatedNetwork(1).machine("10.0.0.1"), "one", many)


def test_a_clock_that_goes_back_keeps_no_driver_from_telling_its_name() -> None:
    network = SimulatedNetwork(1)
    heard = network.machine("10.0.0.2").open_udp(
        SocketSettings(family=socket.AF_INET, bind=SocketAddress("10.0.0.2", PORT))
    )
    driver = ConductedDriver(
        network.machine("10.0.0.1"),
        resolver_name="one",
        resolver_interface=f"10.0.0.1:{PORT}",
        resolver_bootstrap_neighbor=f"10.0.0.2:{PORT}",
    )
    batch = Datagrams(64)
    for _ in range(2):
        for _ in range(5):
            driver.advance(SECOND)
            network.advance(driver.now_ns)
        assert heard.receive(batch) >= 4
        driver.now_ms -= 3_600_000
