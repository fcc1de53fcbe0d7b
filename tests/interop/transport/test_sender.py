"""Our sender to subscribers of the real driver: flow control by what its receivers say, round trips, refusals, ends."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from everlog.aeron import Aeron
from everlog.aeron.transport.driver.media_driver import MediaDriver
from tests.interop.archive.java_archive import Messages
from tests.interop.transport.java_transport import JavaClient, JavaDriver, expected
from tests.interop.transport.our_transport import OurClient, free_port

STREAM = 1001
SIZES = (32, 1, 1000, 8192, 0, 3000)
SOON_JAVA = {"aeron.image.liveness.timeout": "3s", "aeron.publication.linger.timeout": "500ms"}


@pytest.fixture
def ours(start_our_driver: Callable[..., MediaDriver]) -> Iterator[OurClient]:
    client = OurClient(str(start_our_driver().dir))
    yield client
    client.close()


@pytest.fixture
def java(
    start_java_driver: Callable[..., JavaDriver], start_java_client: Callable[..., JavaClient]
) -> Callable[..., JavaClient]:
    """A client of a driver of its own, that has these properties."""

    def start(properties: dict[str, str] | None = None) -> JavaClient:
        return start_java_client(start_java_driver(SOON_JAVA | (properties or {})).dir)

    return start


def counters(aeron: Aeron, kind: str) -> list[int]:
    """The values of counters whose label begins so."""
    return [counter.value for counter in aeron.counters if counter.label.startswith(kind)]


def await_that(condition: Callable[[], Any], seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.parametrize("fc", ["max", "min", "min,g:/1,t:2s", "tagged,g:1001/1"])
def test_flow_control_goes_by_javas_receivers(ours: OurClient, java: Callable[..., JavaClient], fc: str) -> None:
    port, control = free_port(), free_port()
    where = f"control=127.0.0.1:{control}|control-mode=dynamic"
    ours.publish("p", f"aeron:udp?{where}|term-length=64k|fc={fc}", STREAM, exclusive=True)
    sink = java({"aeron.receiver.group.tag": "1001"} if fc.startswith("tagged") else None)
    sink.subscribe("s", f"aeron:udp?endpoint=127.0.0.1:{port}|{where}", STREAM)
    ours.await_connected("p")
    sink.await_images("s", 1)
    messages = Messages(seed=3, sizes=SIZES, count=300)
    sink.tell_poll("s", 300)
    ours.offer("p", messages)
    assert sink.answer_poll() == expected(messages)
    if fc != "max":
        assert counters(ours.aeron, "fc-receivers") == [1]


def test_a_receiver_without_the_tag_is_none_of_the_group(ours: OurClient, java: Callable[..., JavaClient]) -> None:
    where = f"control=127.0.0.1:{free_port()}|control-mode=dynamic"
    ours.publish("p", f"aeron:udp?{where}|term-length=64k|fc=tagged,g:1001/1", STREAM)
    sink = java({"aeron.receiver.group.tag": "7"})
    sink.subscribe("s", f"aeron:udp?endpoint=127.0.0.1:{free_port()}|{where}", STREAM)
    sink.await_images("s", 1)
    time.sleep(0.5)
    assert not ours.publications["p"].is_connected
    assert counters(ours.aeron, "fc-receivers") == [0]


def test_round_trips_that_javas_receiver_measures_are_answered(
    ours: OurClient, java: Callable[..., JavaClient]
) -> None:
    channel = f"aeron:udp?endpoint=127.0.0.1:{free_port()}|term-length=64k"
    sink = java({"aeron.CubicCongestionControl.measureRtt": "true"})
    sink.subscribe("s", f"{channel}|cc=cubic", STREAM)
    ours.publish("p", channel, STREAM)
    ours.await_connected("p")
    messages = Messages(seed=3, sizes=SIZES, count=300)
    sink.tell_poll("s", 300)
    ours.offer("p", messages)
    assert sink.answer_poll() == expected(messages)

    def rtt_ns() -> list[int]:
        return [value for _, value, label in sink.counters().values() if label.startswith("rcv-cc-cubic-rtt")]

    await_that(lambda: rtt_ns() and rtt_ns()[0] > 0)
    assert rtt_ns()[0] < 1_000_000_000


def test_an_image_that_java_refuses_ends_and_the_publisher_is_told(
    ours: OurClient, java: Callable[..., JavaClient]
) -> None:
    channel = f"aeron:udp?endpoint=127.0.0.1:{free_port()}|term-length=64k"
    sink = java()
    sink.subscribe("s", channel, STREAM)
    ours.publish("p", channel, STREAM)
    ours.await_connected("p")
    sink.await_images("s", 1)
    sink.ask("reject", "s", "not today")
    await_that(lambda: counters(ours.aeron, "Error Frames received") != [0])
    ours.await_connected("p", connected=False)


def test_the_end_of_our_stream_is_heard_at_once(ours: OurClient, java: Callable[..., JavaClient]) -> None:
    channel = f"aeron:udp?endpoint=127.0.0.1:{free_port()}|term-length=64k"
    sink = java({"aeron.image.liveness.timeout": "10s"})
    sink.subscribe("s", channel, STREAM)
    ours.publish("p", channel, STREAM)
    ours.await_connected("p")
    sink.await_images("s", 1)
    ours.offer("p", Messages(seed=3, sizes=SIZES, count=10))
    sink.poll("s", 10)
    start = time.monotonic()
    ours.close_one("p")
    sink.await_images("s", 0)
    # Told by heartbeats: a receiver that heard nothing would wait for its liveness timeout.
    assert time.monotonic() - start < 6


def test_a_revoked_stream_is_gone_before_it_is_read(ours: OurClient, java: Callable[..., JavaClient]) -> None:
    channel = f"aeron:udp?endpoint=127.0.0.1:{free_port()}|term-length=64k"
    sink = java({"aeron.image.liveness.timeout": "10s"})
    sink.subscribe("s", channel, STREAM)
    ours.publish("p", channel, STREAM)
    ours.await_connected("p")
    sink.await_images("s", 1)
    ours.offer("p", Messages(seed=3, sizes=SIZES, count=3))
    ours.publications["p"].revoke()
    sink.await_images("s", 0)
    await_that(lambda: counters(ours.aeron, "Publications Revoked") == [1])
