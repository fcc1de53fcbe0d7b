"""Publications, images and spies of a whole driver on a simulated machine: its events, log buffers and shutdown."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from everlog.aeron.layouts import DataHeader
from everlog.aeron.transport.driver.system_counters import SystemCounter
from everlog.aeron.transport.format.layouts import LogMetaData
from everlog.aeron.transport.media.interfaces import system_interfaces
from everlog.aeron.transport.media.network import SystemNetwork
from everlog.aeron.transport.memory import log_memory
from everlog.aeron.transport.protocol import commands
from everlog.testing.network.simulated import LinkConditions, SimulatedNetwork
from tests.aeron.transport.driver.conducted_driver import MS, SECOND, ConductedDriver, all_of, only

CHANNEL = "aeron:udp?endpoint=127.0.0.1:24325"
PAYLOAD = b"0123456789abcdef" * 2


def offer(driver: ConductedDriver, ready: commands.OnPublicationReady, count: int = 1) -> int:
    """Write ``count`` messages of 32 bytes as a publisher does. Returns the position after them."""
    log = driver.log(ready)
    header = DataHeader.unpack_from(log.default_header)
    offset = log_memory.raw_tail(log.metadata, 0) & 0xFFFFFFFF
    for _ in range(count):
        frame = DataHeader.pack(**{**header.as_dict(), "frame_length": 64, "term_offset": offset})
        log.terms[0].write(offset, frame + PAYLOAD)
        offset += 64
    log_memory.set_raw_tail(log.metadata, 0, log_memory.pack_tail(log.initial_term_id, offset))
    return offset


def metadata(log: log_memory.LogMemory) -> LogMetaData:
    return LogMetaData.unpack_from(log.metadata.read(0, LogMetaData.size))


def run(driver: ConductedDriver, network: SimulatedNetwork, duration_ns: int, step_ns: int = MS) -> None:
    """Let time pass, with network traffic."""
    end_ns = driver.now_ns + duration_ns
    while driver.now_ns < end_ns:
        driver.now_ns += step_ns
        driver.now_ms = 1_700_000_000_000 + (driver.now_ns - 1_000 * SECOND) // MS
        network.advance(driver.now_ns)
        driver.keep_alive(*driver.alive)
        driver.work()


def started(**settings: object) -> tuple[SimulatedNetwork, ConductedDriver]:
    network = SimulatedNetwork(1, LinkConditions())
    driver = ConductedDriver(network.machine("10.0.0.1"), **settings)
    driver.alive = 1, 2, 3
    network.advance(driver.now_ns)
    return network, driver


def connected(
    **settings: object,
) -> tuple[SimulatedNetwork, ConductedDriver, commands.OnPublicationReady, commands.OnAvailableImage]:
    """A publication whose subscription has an image."""
    network, driver = started(**settings)
    ready = driver.add_publication(CHANNEL)
    driver.add_subscription(CHANNEL)
    run(driver, network, 300 * MS)
    return network, driver, ready, only(driver.events(), commands.OnAvailableImage)


def test_a_setup_makes_an_image_and_data_comes_into_its_log() -> None:
    network, driver, ready, image = connected()
    assert image.source_identity.startswith("127.0.0.1:")
    assert (image.session_id, image.stream_id) == (ready.session_id, 10)
    log, found = driver.log(image), metadata(driver.log(image))
    assert (found.log_type, found.correlation_id, found.mtu_length) == (2, image.correlation_id, 1408)
    assert (found.receiver_window_length, found.tether, found.rejoin, found.reliable) == (32_768, 1, 1, 1)
    assert (found.tail_0, found.publication_window_length) == (0, 0)
    end = offer(driver, ready, 10)
    run(driver, network, 50 * MS)
    assert log.terms[0].read(32, 32) == PAYLOAD
    labels = driver.labels()
    name = f"{image.correlation_id} {ready.session_id} 10 {CHANNEL}"
    assert labels[f"rcv-hwm: {name}"] == labels[f"rcv-pos: {name}"] == end
    assert labels[f"rcv-naks-sent: {name}"] == 0
    assert labels[f"snd-pos: {ready.registration_id} {ready.session_id} 10 {CHANNEL}"] == end
    position = driver.counters()[image.subscriber_position_id]
    assert position.reference_id == image.correlation_id
    assert metadata(driver.log(ready)).is_connected == 1


def test_streams_go_over_ipv6_too() -> None:
    network = SimulatedNetwork(1, LinkConditions())
    driver = ConductedDriver(network.machine("10.0.0.1", "fd00::1"))
    driver.alive = 1, 2
    channel = "aeron:udp?endpoint=[fd00::1]:24325"
    driver.add_publication(channel)
    driver.add_subscription(channel)
    run(driver, network, 300 * MS)
    image = only(driver.events(), commands.OnAvailableImage)
    assert image.source_identity.startswith("[fd00:0:0:0:0:0:0:1]:")


class OwnMachine(SystemNetwork):
    """The machine that runs the tests."""

    interfaces = staticmethod(system_interfaces)


def test_streams_go_over_ipv6_on_the_systems_own_sockets() -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError as error:
        pytest.skip(f"no IPv6 here: {error}")
    machine: Any = OwnMachine()
    driver = ConductedDriver(machine)
    driver.add_subscription("aeron:udp?endpoint=[::1]:0")
    bound = next(label for label in driver.labels() if label.startswith("rcv-local")).split()[-1]
    driver.write(commands.AddPublication(1, driver.next_id(), 10, f"aeron:udp?endpoint={bound}"))
    found: list[commands.OnAvailableImage] = []
    for _ in range(2000):
        driver.now_ns += MS
        driver.work()
        found += all_of(driver.events(), commands.OnAvailableImage)
        if found:
            break
        time.sleep(0.001)
    for agent in (driver.parts.sender, driver.parts.receiver, driver.parts.conductor):
        agent.close()
    assert found[0].source_identity.startswith("[0:0:0:0:0:0:0:1]:")


def test_a_second_subscription_joins_the_image_where_the_slowest_is() -> None:
    network, driver, ready, first = connected()
    end = offer(driver, ready, 10)
    run(driver, network, 50 * MS)
    driver.set_counter(first.subscriber_position_id, end)
    run(driver, network, 50 * MS)
    _, events = driver.add_subscription(CHANNEL, client_id=3)
    second = only(events, commands.OnAvailableImage)
    assert (second.correlation_id, second.log_file_name) == (first.correlation_id, first.log_file_name)
    assert driver.counters()[second.subscriber_position_id].value == end
    assert driver.counters()[second.subscriber_position_id].label.endswith(f" @{end}")


def test_a_publications_end_takes_image_and_endpoints_with_it() -> None:
    network, driver, ready, image = connected(publication_linger_timeout_ns=SECOND)
    end = offer(driver, ready, 10)
    run(driver, network, 50 * MS)
    driver.set_counter(image.subscriber_position_id, end)
    driver.ask(commands.RemovePublication(1, driver.next_id(), ready.correlation_id))
    run(driver, network, 8 * SECOND, 10 * MS)
    gone = only(driver.events(), commands.OnUnavailableImage)
    assert (gone.correlation_id, gone.channel) == (image.correlation_id, CHANNEL)
    run(driver, network, 15 * SECOND, 100 * MS)
    assert driver.logs.logs == {}
    kinds = sorted(label.partition(":")[0] for label in driver.labels())
    assert kinds == ["client-heartbeat", "client-heartbeat", "rcv-channel", "rcv-local-sockaddr"]


def test_a_clients_end_takes_all_that_it_had_with_it() -> None:
    network, driver, _, _ = connected(publication_linger_timeout_ns=SECOND)
    driver.alive = ()
    run(driver, network, 40 * SECOND, 100 * MS)
    assert len(all_of(driver.events(), commands.OnClientTimeout)) == 2
    assert driver.labels() == {}
    assert driver.logs.logs == {}
    assert driver.system(SystemCounter.ERRORS) == 0


def test_a_session_alone_is_asked_for() -> None:
    network, driver = started()
    driver.add_publication(CHANNEL + "|session-id=5", is_exclusive=True)
    driver.add_publication(CHANNEL + "|session-id=6", is_exclusive=True)
    driver.add_subscription(CHANNEL + "|session-id=6")
    run(driver, network, 300 * MS)
    assert only(driver.events(), commands.OnAvailableImage).session_id == 6


def test_a_spy_reads_the_publication_itself() -> None:
    network, driver = started()
    ready = driver.add_publication(CHANNEL + "|ssc=true")
    registration_id, events = driver.add_subscription("aeron-spy:" + CHANNEL)
    image = only(events, commands.OnAvailableImage)
    assert (image.correlation_id, image.log_file_name) == (ready.registration_id, ready.log_file_name)
    assert image.source_identity == "aeron:ipc"
    end = offer(driver, ready, 10)
    run(driver, network, 100 * MS)
    limit = driver.counters()[ready.position_limit_counter_id]
    assert limit.value > 0
    driver.set_counter(image.subscriber_position_id, end)
    driver.ask(commands.RemoveSubscription(2, driver.next_id(), registration_id))
    run(driver, network, 100 * MS)
    assert [label for label in driver.labels() if label.startswith("sub-pos")] == []
    assert metadata(driver.log(ready)).is_connected == 0


def test_spies_come_before_and_after_their_publication() -> None:
    _, driver = started()
    driver.add_subscription("aeron-spy:" + CHANNEL)
    events = driver.ask(commands.AddPublication(1, driver.next_id(), 10, CHANNEL))
    kinds = [type(event).__name__ for event in events]
    assert kinds == ["OnCounterReady", "OnPublicationReady", "OnAvailableImage"]
    other = driver.ask(commands.AddPublication(1, driver.next_id(), 10, "aeron:udp?endpoint=127.0.0.1:24326"))
    assert all_of(other, commands.OnAvailableImage) == []


def test_a_spys_tag_finds_the_publications_channel() -> None:
    _, driver = started()
    driver.add_publication(CHANNEL + "|tags=7")
    _, events = driver.add_subscription("aeron-spy:aeron:udp?tags=7")
    assert len(all_of(events, commands.OnAvailableImage)) == 1


def test_a_rejected_image_is_told_to_its_publisher() -> None:
    network, driver, ready, image = connected()
    correlation_id = driver.next_id()
    events = driver.ask(commands.RejectImage(2, correlation_id, image.correlation_id, 0, "no use"))
    assert commands.OnOperationSuccess(correlation_id) in events
    run(driver, network, 500 * MS)
    error = all_of(driver.events(), commands.OnPublicationError)[0]
    assert (error.registration_id, error.session_id, error.error_code) == (
        ready.registration_id,
        ready.session_id,
        13,
    )
    assert error.message == "no use"
    assert driver.system(SystemCounter.IMAGES_REJECTED) == 1


def test_a_revoked_publication_takes_its_image_at_once() -> None:
    network, driver, ready, image = connected()
    offer(driver, ready, 10)
    driver.ask(commands.RemovePublication(1, driver.next_id(), ready.correlation_id, revoke=True))
    run(driver, network, 3 * SECOND, 10 * MS)
    assert only(driver.events(), commands.OnUnavailableImage).correlation_id == image.correlation_id
    assert driver.system(SystemCounter.PUBLICATIONS_REVOKED) == 1
    assert driver.system(SystemCounter.PUBLICATION_IMAGES_REVOKED) == 1


def test_a_subscription_that_goes_while_its_image_is_made_costs_nothing() -> None:
    network, driver = started()
    driver.add_publication(CHANNEL)
    registration_id, _ = driver.add_subscription(CHANNEL)
    driver.write(commands.RemoveSubscription(2, driver.next_id(), registration_id))
    run(driver, network, 2 * SECOND, 10 * MS)
    assert all_of(driver.events(), commands.OnAvailableImage) == []
    assert len(driver.logs.logs) == 1
    assert driver.system(SystemCounter.ERRORS) == 0


def test_a_stream_whose_turn_ends_in_an_error_keeps_no_other_from_its_turn() -> None:
    network, driver, ready, image = connected()
    other = driver.add_publication(CHANNEL, 11)
    driver.add_subscription(CHANNEL, 11)
    run(driver, network, 300 * MS)
    second = only(driver.events(), commands.OnAvailableImage)
    streams = driver.parts.conductor.streams

    def fail(*arguments: object) -> int:
        raise RuntimeError("no turn")

    streams.images[0].track_rebuild = fail  # type: ignore[method-assign]
    streams.network_publications[0].update_publisher_position_and_limit = fail  # type: ignore[method-assign]
    end = offer(driver, other, 10)
    run(driver, network, 50 * MS)
    driver.set_counter(second.subscriber_position_id, end)
    run(driver, network, 300 * MS)
    assert driver.counters()[other.position_limit_counter_id].value == end + (32 << 10)
    labels = driver.labels()
    assert labels[f"rcv-pos: {second.correlation_id} {other.session_id} 11 {CHANNEL}"] == end
    assert (ready.stream_id, image.stream_id) == (10, 10)
    assert driver.system(SystemCounter.ERRORS) > 0


def test_a_spy_that_rests_lets_go_of_a_publication_that_ends() -> None:
    network, driver = started(publication_linger_timeout_ns=0)
    timeouts = "untethered-window-limit-timeout=2s|untethered-linger-timeout=2s|untethered-resting-timeout=90s"
    ready = driver.add_publication(f"{CHANNEL}|{timeouts}", is_exclusive=True)
    driver.add_subscription(CHANNEL)
    run(driver, network, 300 * MS)
    fast = only(driver.events(), commands.OnAvailableImage)
    driver.add_subscription(f"aeron-spy:{CHANNEL}|tether=false")
    for _ in range(2):
        end = offer(driver, ready, 200)
        run(driver, network, 300 * MS)
        driver.set_counter(fast.subscriber_position_id, end)
    run(driver, network, 8 * SECOND, 10 * MS)
    assert len(all_of(driver.events(), commands.OnUnavailableImage)) == 1
    driver.ask(commands.RemovePublication(1, driver.next_id(), ready.registration_id))
    run(driver, network, 30 * SECOND, 10 * MS)
    assert driver.logs.logs == {}
    links = driver.parts.conductor.streams.subscription_links
    assert [link.image_ids() for link in links] == [[], []]


class HeldTask:
    """A task that finishes when it is released."""

    def __init__(self, task: Callable[[], Any]) -> None:
        self.result = task
        self.is_done = False

    def done(self) -> bool:
        return self.is_done


def test_a_subscription_that_goes_and_comes_while_its_image_is_made_has_one_image() -> None:
    network, driver = started()
    ready = driver.add_publication(CHANNEL)
    tasks, held = driver.parts.context.tasks, list[HeldTask]()

    def submit(task: Callable[[], Any]) -> HeldTask:
        held.append(HeldTask(task))
        return held[-1]

    driver.parts.context.tasks = SimpleNamespace(submit=submit)
    driver.add_subscription(CHANNEL, 11)
    for _ in range(2):
        registration_id, _ = driver.add_subscription(CHANNEL)
        run(driver, network, 300 * MS)
        assert len(held) == 1
        driver.ask(commands.RemoveSubscription(2, driver.next_id(), registration_id))
    registration_id, _ = driver.add_subscription(CHANNEL)
    run(driver, network, 300 * MS)
    driver.parts.context.tasks = tasks
    held[0].is_done = True
    run(driver, network, 300 * MS)
    image = only(driver.events(), commands.OnAvailableImage)
    assert image.subscription_registration_id == registration_id
    end = offer(driver, ready, 10)
    run(driver, network, 50 * MS)
    assert [value for label, value in driver.labels().items() if label.startswith("rcv-pos")] == [end]
    run(driver, network, 2 * SECOND, 10 * MS)
    assert len(driver.logs.logs) == 2


def test_a_response_finds_who_asked() -> None:
    network, driver = started()
    waiting, _ = driver.add_subscription("aeron:udp?control-mode=response|control=127.0.0.1:24400", 20, client_id=1)
    driver.add_publication(f"{CHANNEL}|response-correlation-id={waiting}", client_id=1)
    driver.add_subscription(CHANNEL, client_id=2)
    run(driver, network, 300 * MS)
    asked = only(driver.events(), commands.OnAvailableImage)
    answer = f"aeron:udp?control-mode=response|control=127.0.0.1:24400|response-correlation-id={asked.correlation_id}"
    ready = driver.add_publication(answer, 20, client_id=2)
    run(driver, network, 2 * SECOND)
    image = only(driver.events(), commands.OnAvailableImage)
    assert (image.subscription_registration_id, image.session_id) == (waiting, ready.session_id)
    unasked = driver.add_publication(CHANNEL, 30, client_id=1)
    driver.add_subscription(CHANNEL, 30, client_id=2)
    run(driver, network, 300 * MS)
    plain = only(driver.events(), commands.OnAvailableImage)
    assert plain.session_id == unasked.session_id
    channel = f"aeron:udp?control-mode=response|control=127.0.0.1:24401|response-correlation-id={plain.correlation_id}"
    error = driver.error(commands.AddPublication(2, driver.next_id(), 31, channel))
    text = f"image.correlationId={plain.correlation_id} did not request a response channel"
    assert error.message == f"java.lang.IllegalArgumentException : {text}"


def test_a_driver_that_closes_leaves_no_log_and_no_socket() -> None:
    network, driver, _, _ = connected()
    for agent in (driver.parts.sender, driver.parts.receiver, driver.parts.conductor):
        agent.close()
    assert driver.logs.logs == {}
    other = ConductedDriver(driver.machine)
    network.advance(other.now_ns)
    other.add_subscription(CHANNEL)
