"""When the driver's agents may skip cycles."""

from __future__ import annotations

import pytest

from everlog.aeron.transport.driver.settings.settings import ThreadingMode
from everlog.aeron.transport.driver.system_counters import SystemCounter
from everlog.aeron.transport.protocol import commands
from everlog.runtime.agent_runner import Agent
from everlog.runtime.quiet import BUSY, FOREVER
from tests.aeron.transport.driver.conducted_driver import MS, SECOND, START_NS, ConductedDriver

UDP = "aeron:udp?endpoint=127.0.0.1:24010"


def quiet(driver: ConductedDriver) -> list[int]:
    """The times until which conductor, sender and receiver are quiet."""
    parts = driver.parts
    return [agent.quiet_until() for agent in (parts.conductor, parts.sender, parts.receiver)]


def differ(agent: Agent) -> bool:
    """Whether something arrived for an agent."""
    return any(one.get_i64(at) != other.get_i64(other_at) for one, at, other, other_at in agent.words)


def test_a_driver_without_streams_is_quiet_until_its_timer() -> None:
    driver = ConductedDriver()
    assert quiet(driver) == [START_NS + SECOND + 1, FOREVER, FOREVER]
    driver.advance(2 * SECOND)  # by steps of 100 ms: the timer came after 1.1 s
    assert quiet(driver) == [START_NS + 2 * SECOND + 100 * MS + 1, FOREVER, FOREVER]


def test_a_command_is_seen_in_memory_until_it_is_read() -> None:
    driver = ConductedDriver()
    conductor = driver.parts.conductor
    assert not differ(conductor)
    driver.write(commands.ClientKeepalive(1, 0))
    assert differ(conductor)
    driver.work()
    assert not differ(conductor)


@pytest.mark.parametrize("channel", ["aeron:ipc", UDP])
def test_a_publication_needs_all_cycles_until_its_log_is_deleted(channel: str) -> None:
    driver = ConductedDriver(publication_linger_timeout_ns=0)
    driver.alive = (1,)
    ready = driver.add_publication(channel)
    assert quiet(driver)[0] == BUSY
    assert (quiet(driver)[1] == BUSY) == (channel == UDP)
    driver.ask(commands.RemovePublication(1, driver.next_id(), ready.registration_id))
    driver.advance(20 * SECOND)
    assert driver.logs.logs == {}
    assert BUSY not in quiet(driver)


def test_a_subscription_that_nobody_sends_to_needs_its_socket_listened_to() -> None:
    driver = ConductedDriver()
    driver.add_subscription(UDP)
    found = quiet(driver)
    assert BUSY not in found
    assert found[2] == START_NS + SECOND + 1, "names are looked up anew every second"


def test_a_subscription_that_asks_its_source_needs_all_cycles() -> None:
    driver = ConductedDriver()
    driver.add_subscription(f"{UDP}|control=127.0.0.1:24011|control-mode=dynamic")
    assert quiet(driver)[2] == BUSY


def test_what_is_left_for_another_thread_is_seen_in_memory() -> None:
    driver = ConductedDriver(threading_mode=ThreadingMode.DEDICATED)
    parts = driver.parts
    assert quiet(driver)[1:] == [FOREVER, FOREVER]
    driver.write(commands.AddSubscription(1, driver.next_id(), -1, 10, UDP))
    for _ in range(4):
        parts.conductor.do_work(driver.now_ns, driver.now_ms)
    assert differ(parts.receiver)
    assert quiet(driver)[2] == BUSY
    driver.work(4)
    assert quiet(driver)[2] != BUSY
    assert not differ(parts.receiver)
    parts.context.conductor_proxy.response_connected(5)
    assert differ(parts.conductor)


def test_a_time_without_cycles_is_no_long_cycle() -> None:
    driver = ConductedDriver()
    driver.work()
    driver.now_ns += 900 * MS
    for agent in (driver.parts.conductor, driver.parts.sender, driver.parts.receiver):
        agent.resume()
    driver.work()
    for name in ("CONDUCTOR", "SENDER", "RECEIVER"):
        assert driver.system(SystemCounter[f"{name}_MAX_CYCLE_TIME"]) == 0
    driver.now_ns += 5
    driver.work()
    assert driver.system(SystemCounter.CONDUCTOR_MAX_CYCLE_TIME) == 5
