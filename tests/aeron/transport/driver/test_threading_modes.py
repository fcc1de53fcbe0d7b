"""A channel that is closed and immediately opened again, with the conductor on the thread of sender and receiver,
and on another one. Java's driver 1.51.0 refuses none of 40 if threads are shared, and some if they are not; this
driver waits instead."""

from __future__ import annotations

import pytest

from everlog.aeron.transport.driver.network.socket_releases import LIMIT_NS
from everlog.aeron.transport.driver.settings.settings import ThreadingMode
from everlog.aeron.transport.driver.system_counters import SystemCounter
from everlog.aeron.transport.protocol import commands
from tests.aeron.transport.driver.conducted_driver import MS, SECOND, ConductedDriver, only

ONE_THREAD = [ThreadingMode.SHARED, ThreadingMode.INVOKER]
SEVERAL_THREADS = [ThreadingMode.DEDICATED, ThreadingMode.SHARED_NETWORK]
SUBSCRIBED = "aeron:udp?endpoint=127.0.0.1:24021"
PUBLISHED = "aeron:udp?control=127.0.0.1:24022|control-mode=dynamic"
SOURCE = "aeron:udp?endpoint=127.0.0.1:24023"


def conduct(driver: ConductedDriver, after_ns: int = 0) -> list[commands.Event]:
    """Run cycles of the conductor only, while the other agents sleep. Returns its events."""
    driver.now_ns += after_ns
    driver.now_ms += after_ns // MS
    for _ in range(6):
        driver.parts.conductor.do_work(driver.now_ns, driver.now_ms)
    return driver.events()


def add_again(driver: ConductedDriver, what: str) -> None:
    """Send the commands that close a network resource (or let it time out) and add it again."""
    if what == "subscription":
        registration_id, _ = driver.add_subscription(SUBSCRIBED, 10, 1)
        driver.write(commands.RemoveSubscription(1, driver.next_id(), registration_id))
        driver.write(commands.AddSubscription(1, driver.next_id(), -1, 10, SUBSCRIBED))
    elif what == "publication":
        ready = driver.add_publication(PUBLISHED)
        driver.ask(commands.RemovePublication(1, driver.next_id(), ready.registration_id))
        for _ in range(4):
            driver.write(commands.ClientKeepalive(1, 0))
            conduct(driver, SECOND)
        driver.write(commands.AddPublication(1, driver.next_id(), 10, PUBLISHED))
    else:
        registration_id, _ = driver.add_subscription("aeron:udp?control-mode=manual", 10, 1)
        driver.ask(commands.AddRcvDestination(1, driver.next_id(), registration_id, SOURCE))
        driver.write(commands.RemoveRcvDestination(1, driver.next_id(), registration_id, SOURCE))
        driver.write(commands.AddRcvDestination(1, driver.next_id(), registration_id, SOURCE))


def is_added(events: list[commands.Event], what: str) -> bool:
    """Whether the driver confirmed the addition, without an error."""
    assert not any(isinstance(event, commands.OnError) for event in events), events
    if what == "destination":
        return sum(isinstance(event, commands.OnOperationSuccess) for event in events) == 2
    return any(isinstance(event, commands.OnSubscriptionReady | commands.OnPublicationReady) for event in events)


@pytest.mark.parametrize("mode", ONE_THREAD)
@pytest.mark.parametrize("what", ["subscription", "publication", "destination"])
def test_in_one_thread_what_was_closed_can_be_opened_at_once(what: str, mode: ThreadingMode) -> None:
    driver = ConductedDriver(threading_mode=mode, publication_linger_timeout_ns=0)
    add_again(driver, what)
    assert is_added(conduct(driver), what)
    assert driver.system(SystemCounter.ERRORS) == 0


@pytest.mark.parametrize("mode", SEVERAL_THREADS)
@pytest.mark.parametrize("what", ["subscription", "publication", "destination"])
def test_between_threads_a_command_waits_until_the_socket_is_let_go_of(what: str, mode: ThreadingMode) -> None:
    driver = ConductedDriver(threading_mode=mode, publication_linger_timeout_ns=0)
    add_again(driver, what)
    events = conduct(driver)
    assert not is_added(events, what)
    driver.work(2)
    assert is_added(events + conduct(driver), what)
    assert driver.system(SystemCounter.ERRORS) == 0


def test_an_agent_that_stands_still_is_waited_for_no_longer_than_a_limit() -> None:
    driver = ConductedDriver(threading_mode=ThreadingMode.DEDICATED)
    add_again(driver, "subscription")
    conduct(driver)
    assert conduct(driver, LIMIT_NS - MS) == []
    error = only(conduct(driver, MS), commands.OnError)
    assert (error.error_code, error.message) == (10, "ReceiveChannelEndpoint found in CLOSING state, please retry")
    assert driver.system(SystemCounter.ERRORS) == 0


def test_a_source_that_is_not_there_is_removed_without_a_wait_for_the_next() -> None:
    driver = ConductedDriver(threading_mode=ThreadingMode.DEDICATED)
    registration_id, _ = driver.add_subscription("aeron:udp?control-mode=manual", 10, 1)
    for kind in (commands.RemoveRcvDestination, commands.AddRcvDestination):
        answer = driver.ask(kind(1, driver.next_id(), registration_id, SOURCE))
        assert isinstance(answer[0], commands.OnOperationSuccess)


@pytest.mark.parametrize("mode", [ThreadingMode.SHARED, ThreadingMode.DEDICATED])
def test_an_error_of_an_agents_command_is_recorded_and_refuses_no_client(
    mode: ThreadingMode, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = ConductedDriver(threading_mode=mode)

    def fail(*_: object) -> None:
        raise OSError("no more files to look at")

    monkeypatch.setattr(driver.parts.receiver, "on_register_receive_channel_endpoint", fail)
    driver.add_subscription(SUBSCRIBED, 10)
    assert driver.system(SystemCounter.ERRORS) == 1
