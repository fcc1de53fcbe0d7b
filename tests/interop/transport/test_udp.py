"""UDP between the real driver and ours, both ways: content by CRC, order and count, with loss too."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from everlog.aeron.transport.media.interfaces import system_interfaces
from tests.interop.archive.java_archive import Messages
from tests.interop.transport.java_transport import JavaClient, expected, losing
from tests.interop.transport.our_transport import OurClient, free_port, in_thread

pytestmark = pytest.mark.long

SIZES = (1, 31, 32, 33, 1000, 1376, 1377, 3000, 0, 8192, 64, 1408)
"""Of one fragment and of many; 8192 is the longest for terms of 64 KiB."""
LONGEST = (8192,)
STREAM = 1001
SOON = {"image_liveness_timeout_ns": 3_000_000_000, "publication_linger_timeout_ns": 500_000_000}
SOON_JAVA = {"aeron.image.liveness.timeout": "3s", "aeron.publication.linger.timeout": "500ms"}

Client = JavaClient | OurClient


@dataclass
class Side:
    """A driver, and how clients of it are started."""

    kind: str
    folder: str
    start_client: Callable[[str, str], Client]

    def client(self, kind: str | None = None) -> Client:
        """Of the same make as the driver, unless said."""
        return self.start_client(kind or self.kind, self.folder)


Start = Callable[..., Side]


@pytest.fixture
def start(request: pytest.FixtureRequest, start_java_client: Callable[..., JavaClient]) -> Iterator[Start]:
    """Starts a driver, Java's with properties or ours with fields of its configuration."""
    started: list[OurClient] = []

    def start_client(kind: str, folder: str) -> Client:
        if kind == "java":
            return start_java_client(folder)
        started.append(OurClient(folder))
        return started[-1]

    def start(kind: str, properties: dict[str, str] | None = None, **settings: Any) -> Side:
        if kind == "java":
            driver = request.getfixturevalue("start_java_driver")(SOON_JAVA | (properties or {}))
        else:
            driver = request.getfixturevalue("start_our_driver")(**(SOON | settings))
        return Side(kind, str(driver.dir), start_client)

    yield start
    for client in started:
        client.close()


@pytest.fixture(params=["java-to-ours", "ours-to-java"])
def kinds(request: pytest.FixtureRequest) -> tuple[str, str]:
    """The publisher's driver and the subscriber's."""
    source, _, sink = request.param.split("-")
    return source, sink


def stream(source: Client, sink: Client, name: str, messages: Messages, **more: Any) -> None:
    """Publishes all while they are read, and compares."""
    offered = in_thread(source.offer, name, messages, **more)
    assert sink.poll(name, messages.count) == expected(messages)
    offered()


@pytest.mark.parametrize("mtu", [1408, 8192])
def test_all_that_is_published_arrives_once_and_in_order(start: Start, kinds: tuple[str, str], mtu: int) -> None:
    source_side, sink_side = start(kinds[0]), start(kinds[1])
    source, sink = source_side.client(), sink_side.client()
    for stream_id, exclusive, claims in ((1, True, False), (2, False, False), (3, True, True), (4, False, True)):
        channel = f"aeron:udp?endpoint=127.0.0.1:{free_port()}|mtu={mtu}|term-length=64k"
        name = f"s{stream_id}"
        sink.subscribe(name, channel, stream_id)
        source.publish(name, channel, stream_id, exclusive=exclusive)
        source.await_connected(name)
        messages = Messages(seed=stream_id, sizes=SIZES, count=400)
        stream(source, sink, name, messages, claims=claims)


def test_five_percent_of_datagrams_are_lost_and_no_message(start: Start, kinds: tuple[str, str]) -> None:
    lossy = losing(0.05)
    source = start(kinds[0], lossy if kinds[0] == "java" else None).client()
    sink = start(kinds[1], lossy if kinds[1] == "java" else None).client()
    channel = f"aeron:udp?endpoint=127.0.0.1:{free_port()}|term-length=64k"
    sink.subscribe("s", channel, STREAM)
    source.publish("s", channel, STREAM, exclusive=True)
    source.await_connected("s")
    stream(source, sink, "s", Messages(seed=1, sizes=SIZES, count=1500))
    java = source if kinds[0] == "java" else sink
    assert isinstance(java, JavaClient)
    counted = {label: value for _, value, label in java.counters().values()}
    naks = "NAKs received" if kinds[0] == "java" else "NAKs sent"
    assert counted[naks] > 0


def test_clients_of_one_make_on_drivers_of_the_other(start: Start, kinds: tuple[str, str]) -> None:
    source, sink = start(kinds[0]).client(kinds[1]), start(kinds[1]).client(kinds[0])
    channel = f"aeron:udp?endpoint=127.0.0.1:{free_port()}|term-length=64k"
    sink.subscribe("s", channel, STREAM)
    source.publish("s", channel, STREAM)
    source.await_connected("s")
    stream(source, sink, "s", Messages(seed=1, sizes=LONGEST, count=60))


def test_images_come_and_go_and_come_again(start: Start, kinds: tuple[str, str]) -> None:
    source, sink = start(kinds[0]).client(), start(kinds[1]).client()
    channel = f"aeron:udp?endpoint=127.0.0.1:{free_port()}|term-length=64k"
    sink.subscribe("s", channel, STREAM)
    for seed in (1, 2):
        session_id = source.publish("s", channel, STREAM, exclusive=True)
        assert sink.await_images("s", 1) == [(session_id, 0)]
        stream(source, sink, "s", Messages(seed=seed, sizes=SIZES, count=50))
        source.close_one("s")
        assert sink.await_images("s", 0) == []
    # The subscriber goes and another comes: it joins where the publisher is then.
    source.publish("s", channel, STREAM)
    source.await_connected("s")
    stream(source, sink, "s", Messages(seed=3, sizes=SIZES, count=50))
    sink.close_one("s")
    source.await_connected("s", False)
    sink.subscribe("s", channel, STREAM)
    source.await_connected("s")
    stream(source, sink, "s", Messages(seed=4, sizes=SIZES, count=50))


def test_a_publisher_sends_to_destinations_that_it_is_told(start: Start, kinds: tuple[str, str]) -> None:
    source, sinks = start(kinds[0]).client(), [start(kind).client() for kind in kinds]
    ports = [free_port(), free_port()]
    for sink, port in zip(sinks, ports, strict=True):
        sink.subscribe("s", f"aeron:udp?endpoint=127.0.0.1:{port}", STREAM)
    source.publish("s", "aeron:udp?control-mode=manual|term-length=64k|fc=min,t:1s", STREAM, exclusive=True)
    for port in ports:
        source.add_destination("s", f"aeron:udp?endpoint=127.0.0.1:{port}")
    for sink in sinks:
        sink.await_images("s", 1)
    messages = Messages(seed=1, sizes=SIZES, count=200)
    polls = [in_thread(sink.poll, "s", 200) for sink in sinks]
    source.offer("s", messages)
    assert [poll() for poll in polls] == [expected(messages)] * 2
    source.remove_destination("s", f"aeron:udp?endpoint=127.0.0.1:{ports[0]}")
    sinks[0].await_images("s", 0)
    stream(source, sinks[1], "s", Messages(seed=2, sizes=SIZES, count=50))


def test_subscribers_ask_for_a_stream_at_the_publishers_control_address(start: Start, kinds: tuple[str, str]) -> None:
    source, sinks = start(kinds[0]).client(), [start(kind).client() for kind in kinds]
    control = f"control=127.0.0.1:{free_port()}|control-mode=dynamic"
    for sink in sinks:
        sink.subscribe("s", f"aeron:udp?endpoint=127.0.0.1:0|{control}", STREAM)
    source.publish("s", f"aeron:udp?{control}|term-length=64k|fc=min,g:/2", STREAM, exclusive=True)
    for sink in sinks:
        sink.await_images("s", 1)
    source.await_connected("s")
    messages = Messages(seed=1, sizes=SIZES, count=200)
    polls = [in_thread(sink.poll, "s", 200) for sink in sinks]
    source.offer("s", messages)
    assert [poll() for poll in polls] == [expected(messages)] * 2


def test_a_subscriber_listens_at_more_than_one_destination(start: Start, kinds: tuple[str, str]) -> None:
    source, sink = start(kinds[0]).client(), start(kinds[1]).client()
    first, second = free_port(), free_port()
    sink.subscribe("s", "aeron:udp?control-mode=manual", STREAM)
    for port in (first, second):
        sink.add_destination("s", f"aeron:udp?endpoint=127.0.0.1:{port}")
    source.publish("s", f"aeron:udp?endpoint=127.0.0.1:{first}|term-length=64k", STREAM, exclusive=True)
    source.publish("t", f"aeron:udp?endpoint=127.0.0.1:{second}|term-length=64k", STREAM, exclusive=True)
    sink.await_images("s", 2)
    mine, other = Messages(seed=1, sizes=SIZES, count=100), Messages(seed=2, sizes=SIZES, count=100)
    poll = in_thread(sink.poll, "s", 200)
    source.offer("s", mine)
    source.offer("t", other)
    assert poll() == expected(mine, other)
    if kinds[1] == "ours":  # Java's driver 1.51.0 answers with an ArrayIndexOutOfBoundsException, to Java's client too
        sink.remove_destination("s", f"aeron:udp?endpoint=127.0.0.1:{second}")
        sink.await_images("s", 1)


@pytest.mark.parametrize("kind", ["java", "ours"])
def test_a_spy_sees_what_is_sent_with_and_without_receivers(start: Start, kind: str) -> None:
    side = start(kind)
    source, spy = side.client("java"), side.client("ours")
    channel = f"aeron:udp?endpoint=127.0.0.1:{free_port()}|term-length=64k|ssc=true"
    spy.subscribe("s", f"aeron-spy:{channel}", STREAM)
    source.publish("s", channel, STREAM, exclusive=True)
    source.await_connected("s")
    stream(source, spy, "s", Messages(seed=1, sizes=SIZES, count=200))
    receiver = start("ours" if kind == "java" else "java").client()
    receiver.subscribe("s", channel, STREAM)
    receiver.await_images("s", 1)
    # Before the sender has heard the receiver, what it sends goes as far as the spy, and is not sent again.
    time.sleep(0.5)
    messages = Messages(seed=2, sizes=SIZES, count=200)
    polls = in_thread(spy.poll, "s", 200), in_thread(receiver.poll, "s", 200)
    source.offer("s", messages)
    assert [poll() for poll in polls] == [expected(messages)] * 2


def test_streams_of_one_channel_do_not_mix(start: Start, kinds: tuple[str, str]) -> None:
    source, sink = start(kinds[0]).client(), start(kinds[1]).client()
    channel = f"aeron:udp?endpoint=127.0.0.1:{free_port()}|term-length=64k"
    for stream_id in (1, 2, 3):
        sink.subscribe(f"s{stream_id}", channel, stream_id)
        source.publish(f"s{stream_id}", channel, stream_id)
    for stream_id in (1, 2, 3):
        source.await_connected(f"s{stream_id}")
    for stream_id in (1, 2, 3):
        stream(source, sink, f"s{stream_id}", Messages(seed=stream_id, sizes=SIZES, count=60))


def test_a_publication_begins_where_it_is_told(start: Start, kinds: tuple[str, str]) -> None:
    source, sink = start(kinds[0]).client(), start(kinds[1]).client()
    where = "term-length=64k|init-term-id=-5|term-id=7|term-offset=1024|session-id=-99"
    channel = f"aeron:udp?endpoint=127.0.0.1:{free_port()}"
    sink.subscribe("s", f"{channel}|session-id=-99", STREAM)
    assert source.publish("s", f"{channel}|{where}", STREAM, exclusive=True) == -99
    assert sink.await_images("s", 1) == [(-99, 12 * 65536 + 1024)]
    stream(source, sink, "s", Messages(seed=1, sizes=SIZES, count=100))


def test_a_group_is_heard_by_all_its_members(start: Start, kinds: tuple[str, str]) -> None:
    source, sinks = start(kinds[0]).client(), [start(kind).client() for kind in kinds]
    channel = f"aeron:udp?endpoint=224.20.30.41:{free_port()}|interface=127.0.0.1"
    for sink in sinks:
        sink.subscribe("s", channel, STREAM)
    source.publish("s", f"{channel}|term-length=64k|ttl=1|fc=min,g:/2", STREAM, exclusive=True)
    for sink in sinks:
        sink.await_images("s", 1)
    source.await_connected("s")
    messages = Messages(seed=1, sizes=SIZES, count=200)
    polls = [in_thread(sink.poll, "s", 200) for sink in sinks]
    source.offer("s", messages)
    assert [poll() for poll in polls] == [expected(messages)] * 2


def test_ipv6_works_as_ipv4(start: Start, kinds: tuple[str, str]) -> None:
    if not any(each.address.host == "::1" for interface in system_interfaces() for each in interface.addresses):
        pytest.skip("this machine has no IPv6 on its loopback interface")
    source, sink = start(kinds[0]).client(), start(kinds[1]).client()
    channel = f"aeron:udp?endpoint=[::1]:{free_port()}|interface=[::1]"
    sink.subscribe("s", channel, STREAM)
    source.publish("s", f"{channel}|term-length=64k", STREAM, exclusive=True)
    source.await_connected("s")
    stream(source, sink, "s", Messages(seed=1, sizes=SIZES, count=100))
