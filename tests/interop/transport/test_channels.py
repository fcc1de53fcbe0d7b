"""What the parameters of a channel do for the real client: the same on the real driver and on ours."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, fields

import pytest

from everlog.aeron.transport.driver.settings.properties import load
from tests.interop.archive.java_archive import Messages
from tests.interop.line_process import PeerError
from tests.interop.transport.java_transport import DRIVER_DEFAULTS, JavaClient, expected, losing
from tests.interop.transport.our_transport import await_that, free_port, in_thread

pytestmark = pytest.mark.long

STREAM = 1001
SIZES = (32, 1, 1000, 3000, 0, 1376)
IPC = "aeron:ipc?term-length=64k"
UNTETHERED = {
    "aeron.untethered.window.limit.timeout": "300ms",
    "aeron.untethered.linger.timeout": "200ms",
    "aeron.untethered.resting.timeout": "500ms",
    "aeron.timer.interval": "50ms",
}
KINDS = pytest.mark.parametrize("kind", ["java", "ours"])


@dataclass
class Side:
    """A driver's folder, and Java's clients of it."""

    folder: str
    client: Callable[[], JavaClient]

    def logs(self) -> list[str]:
        """Names of publications' log buffers that are there."""
        return sorted(os.listdir(os.path.join(self.folder, "publications")))


Start = Callable[..., Side]


@pytest.fixture
def start(request: pytest.FixtureRequest, start_java_client: Callable[..., JavaClient]) -> Start:
    """Starts the real driver with properties, or ours with the same ones."""

    def start(kind: str, properties: dict[str, str] | None = None) -> Side:
        if kind == "java":
            driver = request.getfixturevalue("start_java_driver")(properties)
        else:
            given = {**DRIVER_DEFAULTS, **(properties or {})}
            found = load(given=[f"{name}={value}" for name, value in given.items()]).configuration
            settings = {field.name: getattr(found, field.name) for field in fields(found) if field.name != "dir"}
            driver = request.getfixturevalue("start_our_driver")(**settings)
        folder = str(driver.dir)
        return Side(folder, lambda: start_java_client(folder))

    return start


def stream(source: JavaClient, sink: JavaClient, name: str, count: int = 50, seed: int = 1) -> None:
    """Publishes all while they are read, and compares."""
    messages = Messages(seed=seed, sizes=SIZES, count=count)
    sink.tell_poll(name, count)
    source.offer(name, messages)
    assert sink.answer_poll() == expected(messages)


def counted(client: JavaClient, label: str) -> list[int]:
    """The values of counters whose label begins so."""
    return [value for _, value, text in client.counters().values() if text.startswith(label)]


@KINDS
def test_a_publication_is_what_its_channel_says(start: Start, kind: str) -> None:
    client = start(kind).client()
    where = "term-length=128k|init-term-id=-5|term-id=7|term-offset=1024|session-id=-99|mtu=4096"
    for number, channel in enumerate(("aeron:ipc?", f"aeron:udp?endpoint=127.0.0.1:{free_port()}|")):
        told = client.ask("publish", f"p{number}", channel + where, STREAM, "exclusive")[0]
        # Session, initial term, term length, longest payload of a frame, longest message, position.
        assert [int(word) for word in told] == [-99, -5, 131072, 4064, 16384, 12 * 131072 + 1024]
    client.subscribe("other", "aeron:ipc?session-id=98", STREAM)
    client.subscribe("this", "aeron:ipc?session-id=-99", STREAM)
    assert client.await_images("this", 1) == [(-99, 12 * 131072 + 1024)]
    assert client.await_images("other", 0) == []


@KINDS
def test_tags_stand_for_channels_and_sessions(start: Start, kind: str) -> None:
    side = start(kind)
    source, sink = side.client(), side.client()
    channel = f"aeron:udp?endpoint=127.0.0.1:{free_port()}"
    session_id = source.publish("a", f"{channel}|tags=1001,2002|term-length=64k", 1)
    source.publish("b", "aeron:udp?tags=1001", 2)
    taken = source.publish("c", f"aeron:udp?endpoint=127.0.0.1:{free_port()}|session-id=tag:2002", 3)
    assert taken == session_id
    sink.subscribe("a", f"{channel}|tags=3003", 1)
    sink.subscribe("b", "aeron:udp?tags=3003", 2)
    sink.subscribe("spy", "aeron-spy:aeron:udp?tags=1001", 2)
    for name in "ab":
        source.await_connected(name)
        sink.await_images(name, 1)
        stream(source, sink, name, 20)
    sink.await_images("spy", 1)
    assert sink.poll("spy", 20) == expected(Messages(seed=1, sizes=SIZES, count=20))
    with pytest.raises(PeerError, match="4004"):
        source.publish("d", "aeron:udp?tags=4004", 1)


@KINDS
@pytest.mark.parametrize("eos", [True, False])
def test_the_end_of_a_stream_is_told_unless_its_channel_says_not_to(start: Start, kind: str, eos: bool) -> None:
    soon = {"aeron.publication.linger.timeout": "500ms", "aeron.timer.interval": "50ms"}
    source = start("java" if kind == "ours" else "ours", soon).client()
    sink = start(kind, {"aeron.image.liveness.timeout": "3s", "aeron.timer.interval": "50ms"}).client()
    channel = f"aeron:udp?endpoint=127.0.0.1:{free_port()}"
    sink.subscribe("s", channel, STREAM)
    source.publish("s", f"{channel}|term-length=64k|eos={str(eos).lower()}", STREAM, exclusive=True)
    source.await_connected("s")
    stream(source, sink, "s")
    begun = time.monotonic()
    source.close_one("s")
    sink.await_images("s", 0)
    ended = sink.await_event("unavailable").split()
    assert ended[4] == str(eos).lower()
    assert (time.monotonic() - begun > 2.5) is not eos


@KINDS
def test_a_closed_publication_lingers_as_long_as_its_channel_says(start: Start, kind: str) -> None:
    side = start(kind, {"aeron.timer.interval": "50ms", "aeron.publication.linger.timeout": "60s"})
    client = side.client()
    channel = f"aeron:udp?endpoint=127.0.0.1:{free_port()}|term-length=64k"
    for linger, shortest, longest in (("0", 0.0, 1.5), ("2s", 1.8, 5.0)):
        client.publish("p", f"{channel}|linger={linger}", STREAM, exclusive=True)
        assert len(side.logs()) == 1
        begun = time.monotonic()
        client.close_one("p")
        await_that(lambda: side.logs() == [], "the log's end", 10)
        assert shortest <= time.monotonic() - begun < longest


@KINDS
@pytest.mark.parametrize("rejoin", [True, False])
@pytest.mark.parametrize("transport", ["ipc", "udp", "spy"])
def test_who_is_not_tethered_is_left_behind_and_comes_back_if_it_rejoins(
    start: Start, kind: str, transport: str, rejoin: bool
) -> None:
    client = start(kind, UNTETHERED).client()
    channel = "aeron:ipc?alias=x" if transport == "ipc" else f"aeron:udp?endpoint=127.0.0.1:{free_port()}"
    slow = f"aeron-spy:{channel}" if transport == "spy" else channel
    options = f"rejoin={str(rejoin).lower()}"
    client.subscribe("fast", f"{channel}|{options}", STREAM)
    client.subscribe("slow", f"{slow}|tether=false|{options}", STREAM)
    client.publish("p", f"{channel}|term-length=64k", STREAM, exclusive=True)
    client.await_connected("p")
    for name in ("fast", "slow"):
        client.await_images(name, 1)
    # The slow one is left behind once the fast one is three quarters of a window ahead. IPC's limit may lag an eighth
    # of a window, so a part, which is read only after all of it was offered, takes less than the other eighth (4 KiB).
    # A receiver's limit may lag a quarter: frames of 1 KiB fill what is left to the byte.
    for first in range(0, 801, 3):
        client.offer("p", Messages(seed=1, sizes=(992,), first=first, count=3))
        assert client.poll("fast", 3)[1][0] == 3
        time.sleep(0.007)
    time.sleep(1)
    seen = [event.split()[:2] for event in client.events()]
    assert ["unavailable", "fast"] not in seen
    comings, goings = seen.count(["available", "slow"]), seen.count(["unavailable", "slow"])
    assert goings >= 1 if rejoin else (comings, goings) == (1, 1)
    assert comings >= 2 or not rejoin


@KINDS
def test_an_unreliable_subscription_asks_for_nothing_again(start: Start, kind: str) -> None:
    source = start("java", losing(0.05)).client()
    sink = start(kind).client()
    channel = f"aeron:udp?endpoint=127.0.0.1:{free_port()}"
    sink.subscribe("s", f"{channel}|reliable=false", STREAM)
    source.publish("s", f"{channel}|term-length=64k", STREAM, exclusive=True)
    source.await_connected("s")
    sink.await_images("s", 1)
    offered = in_thread(source.offer, "s", Messages(seed=1, sizes=(1000,), count=600))
    (count, length, _, breaks) = sink.poll("s", 400)[1]
    assert (count, length) == (400, 400_000)
    assert breaks > 5
    sink.tell_poll("s", 100)
    assert sink.answer_poll()[1][0] == 100
    assert counted(sink, "NAK messages sent") in ([0], [])
    assert counted(sink, "NAKs sent") in ([0], [])
    assert counted(sink, "Loss gap fills")[0] > 5
    sink.close_one("s")
    del offered


@KINDS
def test_a_port_that_the_system_chose_is_told(start: Start, kind: str) -> None:
    side = start(kind)
    source, sink = side.client(), side.client()
    sink.subscribe("s", "aeron:udp?endpoint=127.0.0.1:0", STREAM)
    (address,) = sink.ask("local-addresses", "s")[0]
    source.publish("s", f"aeron:udp?endpoint={address}|term-length=64k", STREAM)
    source.await_connected("s")
    stream(source, sink, "s")


@KINDS
def test_a_window_that_is_measured_carries_the_stream(start: Start, kind: str) -> None:
    source = start("ours" if kind == "java" else "java").client()
    sink = start(kind, {"aeron.CubicCongestionControl.measureRtt": "true"}).client()
    channel = f"aeron:udp?endpoint=127.0.0.1:{free_port()}"
    sink.subscribe("s", f"{channel}|cc=cubic", STREAM)
    source.publish("s", f"{channel}|term-length=64k", STREAM, exclusive=True)
    source.await_connected("s")
    stream(source, sink, "s", 400)
    (rtt_ns,) = counted(sink, "rcv-cc-cubic-rtt")
    assert 0 < rtt_ns < 10**9


@KINDS
def test_a_revoked_publication_and_a_rejected_image_end_for_both(start: Start, kind: str) -> None:
    soon = {"aeron.timer.interval": "50ms"}
    source, sink = start("ours" if kind == "java" else "java", soon).client(), start(kind, soon).client()
    channel = f"aeron:udp?endpoint=127.0.0.1:{free_port()}"
    sink.subscribe("s", channel, STREAM)
    source.publish("s", f"{channel}|term-length=64k", STREAM, exclusive=True)
    sink.await_images("s", 1)
    source.await_connected("s")
    sink.ask("reject", "s", "not-today")
    await_that(lambda: counted(source, "Error Frames received")[0] > 0, "the refusal")
    assert counted(sink, "Error Frames sent")[0] > 0
    assert counted(sink, "Images rejected") == [1]
    source.await_connected("s", False)
    # The publication goes on: another image of it may come at once.
    await_that(lambda: any(event.startswith("unavailable s") for event in sink.events()), "the image's end")
    source.publish("t", f"{channel}|term-length=64k", STREAM + 1, exclusive=True)
    sink.subscribe("t", channel, STREAM + 1)
    sink.await_images("t", 1)
    source.await_connected("t")
    source.ask("revoke", "t")
    sink.await_images("t", 0)
    assert counted(source, "Publications Revoked") == [1]
    assert counted(sink, "Publication Images Revoked") == [1]
