"""IPC between Java's client and ours, each on the real driver and on ours: content by CRC, order and count."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.interop.archive.java_archive import Messages
from tests.interop.transport.java_transport import JavaClient, expected
from tests.interop.transport.our_transport import OurClient, await_that, in_thread

CHANNEL = "aeron:ipc?term-length=64k"
SIZES = (1, 31, 32, 33, 1000, 1376, 1377, 3000, 0, 8192, 64, 1408)
"""Of one fragment and of many; 8192 is the longest for terms of 64 KiB."""

Client = JavaClient | OurClient
Start = Callable[[str], Client]


@pytest.fixture(params=["java", "ours"])
def folder(request: pytest.FixtureRequest) -> str:
    """Of a running driver, the real one or ours."""
    name = "start_java_driver" if request.param == "java" else "start_our_driver"
    return str(request.getfixturevalue(name)().dir)


@pytest.fixture
def start(folder: str, start_java_client: Callable[..., JavaClient]) -> Iterator[Start]:
    """Starts a client on the driver, Java's or ours."""
    started: list[OurClient] = []

    def start(kind: str) -> Client:
        if kind == "java":
            return start_java_client(folder)
        started.append(OurClient(folder))
        return started[-1]

    yield start
    for client in started:
        client.close()


@pytest.mark.parametrize("subscriber", ["java", "ours"])
@pytest.mark.parametrize("publisher", ["java", "ours"])
def test_all_that_is_published_arrives_once_and_in_order(start: Start, publisher: str, subscriber: str) -> None:
    source = start(publisher)
    sink = source if publisher == subscriber else start(subscriber)
    for stream_id, exclusive, claims in ((1, True, False), (2, False, False), (3, True, True), (4, False, True)):
        name = f"s{stream_id}"
        sink.subscribe(name, CHANNEL, stream_id)
        source.publish(name + "p", CHANNEL, stream_id, exclusive=exclusive)
        source.await_connected(name + "p")
        first = Messages(seed=stream_id, sizes=SIZES, count=12)
        source.offer(name + "p", first, claims=claims)
        assert sink.poll(name, 12, "messages") == expected(first)
        # More than three terms, while they are read.
        if source is not sink:
            more = Messages(seed=stream_id, sizes=SIZES, first=12, count=300)
            offered = in_thread(source.offer, name + "p", more, claims=claims)
            assert sink.poll(name, 300) == expected(more)
            begin, end = offered()
            assert end - begin > 6 * (64 << 10)


def test_a_publication_is_shared_by_java_and_us_without_mixing(start: Start) -> None:
    java, ours = start("java"), start("ours")
    java.subscribe("s", CHANNEL, 5)
    sessions = {java.publish("p", CHANNEL, 5), ours.publish("p", CHANNEL, 5)}
    assert len(sessions) == 1
    ours.await_connected("p")
    reader = start("java")
    reader.subscribe("t", CHANNEL, 5)
    ((session_id, joined),) = reader.await_images("t", 1)
    assert (session_id, joined) == (sessions.pop(), 0)
    mine, theirs = Messages(seed=1, sizes=SIZES, count=120), Messages(seed=2, sizes=SIZES, count=120)
    second = start("java")
    second.publish("p", CHANNEL, 5)
    offers = in_thread(second.offer, "p", theirs), in_thread(ours.offer, "p", mine)
    polls = in_thread(java.poll, "s", 240), in_thread(reader.poll, "t", 240)
    assert [poll() for poll in polls] == [expected(mine, theirs)] * 2
    for offer in offers:
        offer()


def test_images_come_and_go_and_come_again(start: Start) -> None:
    java, ours = start("java"), start("ours")
    for name, source, sink in (("a", java, ours), ("b", ours, java)):
        stream_id = ord(name)
        sink.subscribe("s" + name, CHANNEL, stream_id)
        for seed in (1, 2):
            session_id = source.publish("p" + name, CHANNEL, stream_id, exclusive=True)
            assert sink.await_images("s" + name, 1) == [(session_id, 0)]
            messages = Messages(seed=seed, sizes=SIZES, count=12)
            source.offer("p" + name, messages)
            assert sink.poll("s" + name, 12) == expected(messages)
            source.close_one("p" + name)
            assert sink.await_images("s" + name, 0) == []
        source.publish("p" + name, CHANNEL, stream_id)
        source.await_connected("p" + name)
        sink.close_one("s" + name)
        source.await_connected("p" + name, False)
    events = [event.split()[0] for event in java.events()]
    assert events == ["available", "unavailable"] * 2 + ["available", "unavailable"][: len(events) - 4]
    assert [kind for kind, _ in ours.events][:4] == ["available sa", "unavailable sa"] * 2
    assert java.errors() == []


def test_a_counter_of_one_is_seen_by_the_other(start: Start) -> None:
    java, ours = start("java"), start("ours")
    number = java.add_counter("c", 1001, "from-java", 7)
    mine = ours.aeron.add_counter(1002, "from python", b"key")
    mine.value = 8
    await_that(lambda: ours.aeron.counters.value(number) == 7, "Java's counter")
    seen = ours.aeron.counters.get(number)
    assert seen is not None
    assert (seen.type_id, seen.label) == (1001, "from-java")
    found = java.counters()
    assert found[mine.counter_id] == (1002, 8, "from python")
    java.close_one("c")
    mine.close()
    await_that(lambda: {number, mine.counter_id}.isdisjoint(java.counters()), "counters that are freed")


def test_a_killed_client_is_given_up_and_others_go_on(request: pytest.FixtureRequest, driver_folder: Path) -> None:
    java = request.getfixturevalue("start_java_client")
    driver = request.getfixturevalue("start_our_driver")(
        client_liveness_timeout_ns=1_000_000_000, timer_interval_ns=100_000_000
    )
    killed, other = java(driver.dir), java(driver.dir)
    other.subscribe("s", CHANNEL, 9)
    killed.publish("p", CHANNEL, 9)
    ours = OurClient(driver.dir)
    ours.publish("q", CHANNEL, 9, exclusive=True)
    other.await_images("s", 2)
    killed.kill()
    other.await_images("s", 1)
    messages = Messages(seed=1, sizes=SIZES, count=50)
    offered = in_thread(ours.offer, "q", messages)
    assert other.poll("s", 50) == expected(messages)
    offered()
    ours.close()
