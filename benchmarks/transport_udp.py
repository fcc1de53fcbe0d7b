"""UDP through the loopback interface, messages of 1 KiB, MTU of 8 KiB, windows as they are by default: our client and
driver beside the real Aeron's, each one driver (``SHARED``) with a publishing and a subscribing process.

With loss, one end is the real driver, which drops 1 % of what it receives, or of what it sends; our driver is at the
other end, so that once it sends again what it is asked for, and once asks for what it misses. Both are held against the
same two drivers without loss. All messages arrive, or the subscriber never ends. Bytes are those of payloads.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

from benchmarks.lines import Line, paired_rates
from benchmarks.transport_peer import Client, Driver, Kind, time_both

PAYLOAD_BYTES, MESSAGES = 1024, 200_000
STREAM = 1001
LOSS = "0.01"
ENDPOINTS = {
    "send": "aeron.SendChannelEndpoint.supplier=io.aeron.driver.ext.DebugSendChannelEndpointSupplier",
    "receive": "aeron.ReceiveChannelEndpoint.supplier=io.aeron.driver.ext.DebugReceiveChannelEndpointSupplier",
}
IDLE_SECONDS = 10.0


def channel() -> str:
    """To a port that is free."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as found:
        found.bind(("127.0.0.1", 0))
        return f"aeron:udp?endpoint=127.0.0.1:{found.getsockname()[1]}|mtu=8k|term-length=16m"


def rate(subscriber: Client, publisher: Client) -> Callable[[], float]:
    """Payload bytes a second, each time it is called."""
    words = (channel(), STREAM, PAYLOAD_BYTES, MESSAGES, "spin")
    verbs = ("subscribe", "publish")
    return lambda: MESSAGES * PAYLOAD_BYTES / time_both(verbs, (subscriber, publisher), *words)


def between(stack: ExitStack, publishing: Kind, properties: tuple[str, ...]) -> Callable[[], float]:
    """The rate from a driver of one kind to one of the other, each time it is called. ``properties`` are the real
    one's; the clients are ours."""
    kinds: tuple[Kind, Kind] = ("java", "everlog") if publishing == "java" else ("everlog", "java")
    drivers = [stack.enter_context(Driver(kind, properties=properties if kind == "java" else ())) for kind in kinds]
    publisher, subscriber = (stack.enter_context(Client("everlog", driver.folder)) for driver in drivers)
    return rate(subscriber, publisher)


def with_loss(end: str, publishing: Kind) -> Line:
    """Of what the real driver sends or receives."""
    losing = (ENDPOINTS[end], f"aeron.debug.{end}.data.loss.rate={LOSS}", f"aeron.debug.{end}.data.loss.seed=7")
    with ExitStack() as stack:
        value, ratio = paired_rates(between(stack, publishing, losing), between(stack, publishing, ()))
    return Line(f"transport-udp-loss-{end}-1KiB", value / 1e6, "MB/s", ">=0.5", ratio)


def idle_shares(drivers: list[Driver]) -> list[float]:
    """The part of a core that each driver takes with nobody there, in percent, at the same time."""

    def taken(driver: Driver) -> float:
        tasks = Path(f"/proc/{driver.pid}/task").iterdir()
        return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9

    time.sleep(2.0)
    before = [taken(driver) for driver in drivers]
    time.sleep(IDLE_SECONDS)
    return [(taken(driver) - was) / IDLE_SECONDS * 100 for driver, was in zip(drivers, before, strict=True)]


def idle() -> Iterator[Line | str]:
    """Both drivers with their default idle strategy and one thread for their agents; Java's has another one for
    names."""
    with Driver("everlog") as driver, Driver("java", is_alone=True) as java:
        ours, theirs = idle_shares([driver, java])
    yield Line("transport-driver-idle", ours, "%", "<=3")
    yield f"the real driver, idle at the same time: {theirs:.3g} %"


def lines() -> Iterator[Line | str]:
    """Without loss, with loss, and idle."""
    with ExitStack() as stack:
        kinds: tuple[Kind, Kind] = ("everlog", "java")
        drivers = {kind: stack.enter_context(Driver(kind)) for kind in kinds}
        ours, java = (
            rate(*(stack.enter_context(Client(kind, driver.folder)) for _ in range(2)))
            for kind, driver in drivers.items()
        )
        value, ratio = paired_rates(ours, java, warm_ups=2)
        yield Line("transport-udp-1KiB", value / 1e6, "MB/s", ">=0.5", ratio)
    yield with_loss("receive", "everlog")
    yield with_loss("send", "java")
    yield from idle()
