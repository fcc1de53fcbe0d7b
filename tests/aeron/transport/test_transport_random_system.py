"""Whole systems in which anything happens by a seed: weather that changes, partitions, agents that stand still, rubbish
from strangers. While nothing lasts as long as a timeout, each reader gets each message once and in order.

``EVERLOG_TRANSPORT_SEEDS=1000`` tries so many seeds, ``EVERLOG_TRANSPORT_SEED=7`` that one."""

from __future__ import annotations

import os
import random
from typing import Any

import pytest

from everlog.aeron.transport.driver.settings.settings import ThreadingMode
from everlog.aeron.transport.protocol import wire
from everlog.kernel.udp import SocketAddress
from everlog.testing.network.simulated import LinkConditions
from everlog.testing.network.system import SimulatedDriver, TransportSystem
from everlog.time_units import NS_PER_MS as MS
from everlog.time_units import NS_PER_S as SECOND
from everlog.time_units import NS_PER_US as US
from tests.aeron.transport.test_transport_system import STREAM, Reader, message

ADDRESSES = ("10.0.0.1", "10.0.0.2", "10.0.0.3")
GROUP = "224.20.30.39:4100"
LONGEST_PARTITION_NS = SECOND
LONGEST_PAUSE_NS = 200 * MS
STEP_NS = 200 * US
COUNT = 500
MODES = (ThreadingMode.SHARED, ThreadingMode.DEDICATED)
SEEDS = (
    [int(os.environ["EVERLOG_TRANSPORT_SEED"])]
    if "EVERLOG_TRANSPORT_SEED" in os.environ
    else range(int(os.environ.get("EVERLOG_TRANSPORT_SEEDS", "4")))
)


class Stream:
    """A publication, its readers at other drivers, and what was published."""

    def __init__(self, publication: Any, readers: list[Reader]) -> None:
        self.publication, self.readers = publication, readers
        self.count = 0

    def offer(self, generator: random.Random) -> None:
        """Some messages, while they are taken."""
        while self.count < COUNT and self.publication.offer(message(self.count, generator, 4000)) > 0:
            self.count += 1

    def is_done(self) -> bool:
        for reader in self.readers:
            reader.poll()
        return self.count == COUNT and all(reader.count >= COUNT for reader in self.readers)

    def check(self) -> None:
        for reader in self.readers:
            reader.check(self.publication.session_id, COUNT)


class Trouble:
    """What happens to a system, and ends again."""

    def __init__(self, system: TransportSystem, generator: random.Random) -> None:
        self.system, self.random = system, generator
        self.paused: list[tuple[int, SimulatedDriver, Any]] = []
        self.heal_at_ns = self.calm_until_ns = 0

    def happen(self) -> None:
        """Perhaps something."""
        now_ns, roll = self.system.now_ns, self.random.random()
        if roll < 0.005:
            self.system.network.weather = self._weather()
        elif roll < 0.006 and not self.heal_at_ns and now_ns > self.calm_until_ns:
            one, other = self.random.sample(self.system.drivers, 2)
            self.system.network.partition([one.machine], [other.machine])
            self.heal_at_ns = now_ns + self.random.randrange(LONGEST_PARTITION_NS)
        elif roll < 0.008:
            driver = self.random.choice(self.system.drivers)
            if len(driver.agents) == 3:
                agent = driver.agents.pop(self.random.randrange(3))
                self.paused.append((now_ns + self.random.randrange(LONGEST_PAUSE_NS), driver, agent))
        elif roll < 0.05:
            self._rubbish()
        self.end(now_ns)

    def end(self, now_ns: int) -> None:
        """What has lasted long enough."""
        for pause in [pause for pause in self.paused if pause[0] <= now_ns]:
            self.paused.remove(pause)
            pause[1].agents.append(pause[2])
        if self.heal_at_ns and self.heal_at_ns <= now_ns:
            self.system.network.heal()
            self.heal_at_ns, self.calm_until_ns = 0, now_ns + SECOND

    def _weather(self) -> LinkConditions:
        roll = self.random.random
        delay_ns = self.random.choice((0, 100 * US, 2 * MS))
        return LinkConditions(
            loss=roll() * 0.2, duplication=roll() * 0.2, reordering=roll() * 0.2, delay_ns=(0, delay_ns)
        )

    def _rubbish(self) -> None:
        """To a random port of a random machine, of no stream that is there, or of none at all."""
        generator = self.random
        target = SocketAddress(generator.choice(ADDRESSES), generator.choice((4000, 4001, 4100, 32768, 32769)))
        numbers = [generator.randrange(-(1 << 31), 1 << 31) for _ in range(5)]
        data = generator.choice(
            (
                generator.randbytes(generator.randrange(100)),
                wire.encode(wire.Nak(*numbers)),
                wire.encode(wire.StatusMessage(*numbers, 7)),
                wire.heartbeat(*numbers[:4]) + generator.randbytes(32),
                wire.encode(wire.Setup(*numbers, 65536, 1408)),
            )
        )
        self.system.network.inject(data, SocketAddress("10.9.9.9", 9), target)


def streams(system: TransportSystem, generator: random.Random) -> list[Stream]:
    """Some streams between some of the drivers, on channels of all kinds."""
    clients = {driver.machine.name: driver.client() for driver in system.drivers}
    made = []
    for number in range(generator.randrange(1, 4)):
        source, *sinks = generator.sample(ADDRESSES, generator.randrange(2, 4))
        kind = generator.choice(("unicast", "manual", "dynamic", "group"))
        stream_id, port = STREAM + number, 4200 + number
        limits = f"term-length=64k|fc=min,g:/{len(sinks)}"
        add = generator.choice(("add_publication", "add_exclusive_publication"))
        if kind == "unicast":
            sinks = sinks[:1]
            channel = f"aeron:udp?endpoint={sinks[0]}:{port}"
            publication = getattr(clients[source], add)(f"{channel}|term-length=64k", stream_id)
            subscriptions = [clients[sinks[0]].add_subscription(channel, stream_id)]
        elif kind == "group":
            channel = f"aeron:udp?endpoint={GROUP}|interface="
            publication = getattr(clients[source], add)(f"{channel}{source}|{limits}", stream_id)
            subscriptions = [clients[sink].add_subscription(f"{channel}{sink}", stream_id) for sink in sinks]
        else:
            control = f"control={source}:{port}|control-mode={kind}"
            publication = getattr(clients[source], add)(f"aeron:udp?{control}|{limits}", stream_id)
            subscriptions = []
            for sink in sinks:
                asks = f"|{control}" if kind == "dynamic" else ""
                channel = f"aeron:udp?endpoint={sink}:{port + 100}"
                subscriptions.append(clients[sink].add_subscription(channel + asks, stream_id))
                if kind == "manual":
                    publication.add_destination(channel)
        made.append(Stream(publication, [Reader(subscription) for subscription in subscriptions]))
    return made


@pytest.mark.parametrize("seed", SEEDS)
def test_all_arrives_whatever_happens_for_a_while(seed: int) -> None:
    generator = random.Random(seed)
    system = TransportSystem(seed, step_ns=STEP_NS)
    for index, address in enumerate(ADDRESSES):
        system.driver(address, threading_mode=MODES[(seed + index) % len(MODES)])
    made = streams(system, generator)
    system.run_until(lambda: all(stream.publication.is_connected for stream in made))
    trouble = Trouble(system, generator)

    def is_done() -> bool:
        trouble.happen()
        for stream in made:
            stream.offer(generator)
        return sum(stream.is_done() for stream in made) == len(made)

    system.run_until(is_done, 120 * SECOND)
    for stream in made:
        stream.check()
