"""A hostile client's writes to memory shared with the driver: commands of arbitrary bytes, records and counters with
arbitrary values. The conductor answers or counts them, and continues."""

from __future__ import annotations

import random
from typing import Any

import pytest

from everlog.aeron.transport.driver.system_counters import SystemCounter
from everlog.aeron.transport.protocol import commands
from tests.aeron.transport.driver.conducted_driver import MS, SECOND, ConductedDriver, all_of

TYPES = [*range(1, 0x13), 0x77, 0xF01, 0x7FFFFFFF]
CHANNELS = [
    "aeron:ipc",
    "aeron:ipc?tether=false",
    "aeron:ipc?session-id=7",
    "aeron:ipc?tags=1,2",
    "aeron:ipc?session-id=tag:2",
    "aeron:udp?endpoint=127.0.0.1:4000",
    "aeron:udp?endpoint=127.0.0.1:4000|session-id=9",
    "aeron:udp?control=127.0.0.1:4001|control-mode=dynamic|fc=min",
    "aeron:udp?endpoint=127.0.0.1:4002|control=127.0.0.1:4001",
    "aeron:udp?control-mode=manual",
    "aeron:udp?control-mode=manual|tags=5,6",
    "aeron:udp?tags=5",
    "aeron:udp?control-mode=response|control=127.0.0.1:4003",
    "aeron:udp?endpoint=224.0.1.1:4004|interface=10.0.0.1",
    "aeron-spy:aeron:udp?endpoint=127.0.0.1:4000",
    "aeron:udp?endpoint=nohost.invalid:4000",
    "aeron:udp",
    "aeron:",
    "",
    "\0\xff",
]


def answers(driver: ConductedDriver) -> bool:
    """Whether the driver still carries out commands."""
    event = driver.ask(commands.GetNextAvailableSessionId(1, 123456789, 7))
    return any(isinstance(found, commands.OnNextAvailableSessionId) for found in event)


@pytest.mark.parametrize("seed", range(4))
def test_commands_of_any_bytes_are_answered(seed: int) -> None:
    driver, generator = ConductedDriver(), random.Random(seed)
    for _ in range(400):
        length = generator.choice((0, 8, 16, 20, 24, 28, 32, 40, 64, 200))
        data = bytearray(generator.randbytes(length))
        if generator.random() < 0.5 and length > 28:
            data[16:32] = generator.choice((bytes(16), b"\xff" * 16, b"\x05\0\0\0" * 4))
        driver.to_driver.write(generator.choice(TYPES), bytes(data))
        driver.work(2)
        driver.events()
    assert answers(driver)


def random_command(generator: random.Random, ids: list[int], correlation_id: int) -> commands.Command:
    """A valid command of one of a few clients, about any existing or former resource."""
    client, some = generator.randrange(3), generator.choice(ids)
    channel, stream = generator.choice(CHANNELS), generator.randrange(3)
    makers: list[Any] = [
        lambda: commands.AddPublication(client, correlation_id, stream, channel),
        lambda: commands.AddExclusivePublication(client, correlation_id, stream, channel),
        lambda: commands.RemovePublication(client, correlation_id, some, generator.random() < 0.3),
        lambda: commands.AddSubscription(client, correlation_id, -1, stream, channel),
        lambda: commands.RemoveSubscription(client, correlation_id, some),
        lambda: commands.AddDestination(client, correlation_id, some, channel),
        lambda: commands.RemoveDestination(client, correlation_id, some, channel),
        lambda: commands.RemoveDestinationById(client, correlation_id, some, generator.choice(ids)),
        lambda: commands.AddRcvDestination(client, correlation_id, some, channel),
        lambda: commands.RemoveRcvDestination(client, correlation_id, some, channel),
        lambda: commands.AddCounter(client, correlation_id, 1001, b"key", "label"),
        lambda: commands.RemoveCounter(client, correlation_id, some),
        lambda: commands.AddStaticCounter(client, correlation_id, stream, 1002, b"key", "label"),
        lambda: commands.RejectImage(client, correlation_id, some, 0, "no"),
        lambda: commands.ClientKeepalive(client, correlation_id),
        lambda: commands.ClientClose(client, correlation_id),
    ]
    command: commands.Command = generator.choices(makers, weights=[5, 3, 3, 6, 3, 2, 1, 1, 2, 1, 1, 1, 1, 1, 8, 1])[0]()
    return command


@pytest.mark.parametrize("seed", range(6))
def test_any_order_of_commands_leaves_nothing_behind_when_all_clients_are_gone(seed: int) -> None:
    driver, generator = ConductedDriver(publication_linger_timeout_ns=SECOND), random.Random(seed)
    ids = [0, -1, 1 << 62]
    for _ in range(300):
        correlation_id = driver.next_id()
        ids.append(correlation_id)
        driver.write(random_command(generator, ids, correlation_id))
        driver.now_ns += generator.choice((0, MS, 100 * MS))
        driver.now_ms = 1_700_000_000_000 + (driver.now_ns - 1_000 * SECOND) // MS
        driver.machine.network.advance(driver.now_ns)
        driver.work(generator.randrange(1, 4))
        events = driver.events()
        assert not [e for e in all_of(events, commands.OnError) if "Error : " in e.message or "builtins" in e.message]
    for _ in range(600):
        driver.now_ns += 100 * MS
        driver.now_ms += 100
        driver.machine.network.advance(driver.now_ns)
        driver.work()
    assert [label for label in driver.labels() if label != "label"] == []
    assert driver.logs.logs == {}
    assert answers(driver)


@pytest.mark.parametrize("value", [(1 << 63) - 1, -(1 << 63), 0, -1, 1 << 40])
def test_counters_of_any_value_are_survived(value: int) -> None:
    driver, generator = ConductedDriver(), random.Random(value)
    driver.add_publication()
    driver.add_subscription()
    driver.add_publication("aeron:udp?endpoint=127.0.0.1:4000")
    driver.add_subscription("aeron:udp?endpoint=127.0.0.1:4000")
    driver.add_subscription("aeron-spy:aeron:udp?endpoint=127.0.0.1:4000")
    for _ in range(200):
        for counter_id in driver.counters():
            if generator.random() < 0.5:
                driver.set_counter(counter_id, value + generator.randrange(-64, 64) if abs(value) < 1 << 62 else value)
        driver.now_ns += MS
        driver.machine.network.advance(driver.now_ns)
        driver.work()
    assert answers(driver)


@pytest.mark.parametrize("seed", range(3))
def test_log_metadata_of_any_bytes_are_survived(seed: int) -> None:
    driver, generator = ConductedDriver(), random.Random(seed)
    for channel in ("aeron:ipc", "aeron:udp?endpoint=127.0.0.1:4000"):
        driver.add_publication(channel)
        driver.add_subscription(channel)
    driver.add_subscription("aeron-spy:aeron:udp?endpoint=127.0.0.1:4000")
    for _ in range(300):
        for log in list(driver.logs.logs.values()):
            at = generator.randrange(0, 64) * 8
            log.metadata.write(
                at, generator.choice((generator.randbytes(8), b"\xff" * 8, bytes(8), b"\x7f" + bytes(7)))
            )
            term = log.terms[generator.randrange(3)]
            term.write(generator.randrange(0, 2000) * 32, generator.randbytes(32))
        driver.now_ns += 50 * MS
        driver.now_ms += 50
        driver.machine.network.advance(driver.now_ns)
        driver.work()
    assert answers(driver)


def test_a_full_error_log_is_counted_on() -> None:
    driver = ConductedDriver()
    for number in range(300):
        driver.error(commands.AddPublication(1, driver.next_id(), 10, f"aeron:ipc?mtu=1000|x={number}{'y' * 900}"))
    assert driver.system(SystemCounter.ERRORS) == 300
    assert answers(driver)
