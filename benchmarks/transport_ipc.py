"""IPC, our client on our driver beside the real Aeron's client on its own, both drivers with one thread (``SHARED``).

One thread offers a burst of messages as one list and polls them into columns, payloads copied; the Java client offers
them one by one, as it must, and copies the payloads in its handler. Rates are messages a second. Offers and handlers
are timed alone: a loop around ``offer`` with a bytes object, and polls with a Python function as handler.

Messages of 1 KiB are a matter of memory: a log of 192 MiB is written, read, copied, and zeroed by the driver. Both logs
were gone through several times before a figure is taken, so all their pages are there. The ratio is the median of
pairs in turn; how far pairs are apart is printed, and how much of each log is on huge pages in its client.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.lines import Line, median_rate
from benchmarks.transport_peer import Client, Driver

CHANNEL, STREAM = "aeron:ipc?term-length=64m", 1001
MESSAGES = {32: 10_000_000, 1024: 1_000_000}
"""By payload bytes."""
BURST = {32: 4096, 1024: 256}
TARGETS = {32: ">=1.3", 1024: ">=1.1"}
PAIRS = 9
SINGLE_MESSAGES = 4_000_000
WARM_UPS = 4
"""Java compiles meanwhile; and all pages of the log have been touched."""


def rate(client: Client, verb: str, payload_bytes: int, messages: int) -> Callable[[], float]:
    """Messages a second, each time it is called."""

    def measure() -> float:
        return messages / client.time(verb, CHANNEL, STREAM, payload_bytes, messages, BURST[payload_bytes])

    return measure


def beside(ours: Client, java: Client, payload_bytes: int, messages: int) -> Iterator[Line | str]:
    """Pairs of rates in turn: the line, and how they are spread."""
    own_rate, java_rate = (rate(client, "one", payload_bytes, messages) for client in (ours, java))
    for _ in range(WARM_UPS):
        own_rate()
        java_rate()
    pairs: list[tuple[float, float]] = []
    for turn in range(PAIRS):
        if turn % 2:
            theirs, own = java_rate(), own_rate()
        else:
            own, theirs = own_rate(), java_rate()
        pairs.append((own, theirs))
    ratios = [own / theirs for own, theirs in pairs]
    value = statistics.median(own for own, _ in pairs)
    yield Line(f"transport-ipc-{payload_bytes}B", value / 1e6, "M/s", TARGETS[payload_bytes], statistics.median(ratios))
    peer = statistics.median(theirs for _, theirs in pairs)
    on_huge = " and ".join(f"{share(client):.0%}" for client in (ours, java))
    yield (
        f"{PAIRS} pairs: ratios {min(ratios):.2f} to {max(ratios):.2f}; the real one {peer / 1e6:.3g} M/s;"
        f" on huge pages {on_huge} of the logs"
    )


def share(client: Client) -> float:
    """The part of its logs that a client has mapped by huge pages; Linux alone tells."""
    mapped = {"Rss": 0, "ShmemPmdMapped": 0, "FilePmdMapped": 0}
    is_log = False
    for line in Path(f"/proc/{client.pid}/smaps").read_text().splitlines():
        key, _, value = line.partition(":")
        if re.match("[0-9a-f]+-[0-9a-f]+ ", line):
            is_log = line.endswith(".logbuffer")
        elif is_log and key in mapped:
            mapped[key] += int(value.split()[0])
    return (mapped["ShmemPmdMapped"] + mapped["FilePmdMapped"]) / max(mapped["Rss"], 1)


def lines() -> Iterator[Line | str]:
    """Short and long messages; single offers and handlers."""
    with (
        Driver("java") as java_driver,
        Driver("everlog") as driver,
        Client("java", java_driver.folder) as java,
        Client("everlog", driver.folder) as ours,
    ):
        for size, count in MESSAGES.items():
            yield from beside(ours, java, size, count)
        value = median_rate(rate(ours, "offers", 32, SINGLE_MESSAGES))
        yield Line("transport-offer-32B", value / 1e6, "M/s", ">=8")
        value = median_rate(rate(ours, "handlers", 32, SINGLE_MESSAGES))
        yield Line("transport-handler-32B", value / 1e6, "M/s", ">=5")
