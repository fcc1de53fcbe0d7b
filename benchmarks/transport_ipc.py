"""IPC, our client on our driver beside the real Aeron's client on its own, both drivers with one thread (``SHARED``).

One thread offers a burst of messages as one list and polls them into columns, payloads copied; the Java client offers
them one by one, as it must, and copies the payloads in its handler. Rates are messages a second. Offers and handlers
are timed alone: a loop around ``offer`` with a bytes object, and polls with a Python function as handler.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from benchmarks.lines import Line, median_rate, paired_rates
from benchmarks.transport_peer import Client, Driver

CHANNEL, STREAM = "aeron:ipc?term-length=64m", 1001
MESSAGES = {32: 10_000_000, 1024: 1_000_000}
"""By payload bytes."""
BURST = {32: 4096, 1024: 256}
TARGETS = {32: ">=1.3", 1024: ">=1.0"}
SINGLE_MESSAGES = 4_000_000
WARM_UPS = 4
"""Java compiles meanwhile; and all pages of the log have been touched."""


def rate(client: Client, verb: str, payload_bytes: int, messages: int) -> Callable[[], float]:
    """Messages a second, each time it is called."""

    def measure() -> float:
        return messages / client.time(verb, CHANNEL, STREAM, payload_bytes, messages, BURST[payload_bytes])

    return measure


def lines() -> Iterator[Line | str]:
    """Short and long messages; single offers and handlers."""
    with (
        Driver("java") as java_driver,
        Driver("everlog") as driver,
        Client("java", java_driver.folder) as java,
        Client("everlog", driver.folder) as ours,
    ):
        for size, count in MESSAGES.items():
            value, ratio = paired_rates(
                rate(ours, "one", size, count), rate(java, "one", size, count), warm_ups=WARM_UPS
            )
            yield Line(f"transport-ipc-{size}B", value / 1e6, "M/s", TARGETS[size], ratio)
        value = median_rate(rate(ours, "offers", 32, SINGLE_MESSAGES))
        yield Line("transport-offer-32B", value / 1e6, "M/s", ">=8")
        value = median_rate(rate(ours, "handlers", 32, SINGLE_MESSAGES))
        yield Line("transport-handler-32B", value / 1e6, "M/s", ">=5")
