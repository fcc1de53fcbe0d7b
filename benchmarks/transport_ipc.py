"""IPC, our client on our driver beside the real Aeron's client on its own, both drivers with one thread (``SHARED``).

One thread offers a burst of messages as one list and polls them into columns, payloads copied; the Java client offers
them one by one, as it must, and copies the payloads in its handler. Rates are messages a second. Offers and handlers
are timed alone: a loop around ``offer`` with a bytes object, and polls with a Python function as handler.

Messages of 1 KiB are a matter of memory: a log of 192 MiB is written, read, copied, and zeroed by the driver. Both logs
were gone through several times before a figure is taken, so all their pages are there. The ratio is the median of
pairs in turn, of several launches; how far they are apart is printed, and how much of each log its client has on huge
pages.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

from benchmarks.lines import Line, median_rate
from benchmarks.transport_peer import Client, Driver, Kind

CHANNEL, STREAM = "aeron:ipc?term-length=64m", 1001
MESSAGES = {32: 10_000_000, 1024: 1_000_000}
"""By payload bytes."""
BURST = {32: 4096, 1024: 256}
TARGETS = {32: ">=1.3", 1024: ">=1.1"}
LAUNCHES, PAIRS = 3, 5
"""Where a log's pages are, and what Java's compiler makes of the loop, is another matter in each process."""
SINGLE_MESSAGES = 4_000_000
WARM_UPS = 4
"""Java compiles meanwhile; and all pages of the log have been touched."""


def rate(client: Client, verb: str, payload_bytes: int, messages: int) -> Callable[[], float]:
    """Messages a second, each time it is called."""

    def measure() -> float:
        return messages / client.time(verb, CHANNEL, STREAM, payload_bytes, messages, BURST[payload_bytes])

    return measure


def beside(payload_bytes: int, messages: int) -> Iterator[Line | str]:
    """Start both sides several times and measure them in turn: the line, and how far its pairs lie apart."""
    pairs: list[tuple[float, float]] = []
    of_launches, shares = [], []
    for _ in range(LAUNCHES):
        with ExitStack() as stack:
            kinds: tuple[Kind, Kind] = ("everlog", "java")
            drivers = [stack.enter_context(Driver(kind, is_alone=True)) for kind in kinds]
            clients = [
                stack.enter_context(Client(kind, driver.folder)) for kind, driver in zip(kinds, drivers, strict=True)
            ]
            ours, java = (rate(client, "one", payload_bytes, messages) for client in clients)
            for _ in range(WARM_UPS):
                ours()
                java()
            found = [pair(ours, java, turn) for turn in range(PAIRS)]
            shares.append([share(client) for client in clients])
        pairs += found
        of_launches.append(statistics.median(own / theirs for own, theirs in found))
    ratios = [own / theirs for own, theirs in pairs]
    value, peer = (statistics.median(rates) for rates in zip(*pairs, strict=True))
    yield Line(f"transport-ipc-{payload_bytes}B", value / 1e6, "M/s", TARGETS[payload_bytes], statistics.median(ratios))
    launches = " ".join(f"{each:.2f}" for each in of_launches)
    on_huge = " and ".join(f"{statistics.median(each):.0%}" for each in zip(*shares, strict=True))
    yield (
        f"{len(pairs)} pairs: ratios {min(ratios):.2f} to {max(ratios):.2f}, by launch {launches};"
        f" the real one {peer / 1e6:.3g} M/s; on huge pages {on_huge} of the logs"
    )


def pair(ours: Callable[[], float], java: Callable[[], float], turn: int) -> tuple[float, float]:
    """Both rates; another is measured first in each turn."""
    if turn % 2:
        theirs = java()
        return ours(), theirs
    own = ours()
    return own, java()


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
    for size, count in MESSAGES.items():
        yield from beside(size, count)
    with Driver("everlog") as driver, Client("everlog", driver.folder) as ours:
        value = median_rate(rate(ours, "offers", 32, SINGLE_MESSAGES))
        yield Line("transport-offer-32B", value / 1e6, "M/s", ">=8")
        value = median_rate(rate(ours, "handlers", 32, SINGLE_MESSAGES))
        yield Line("transport-handler-32B", value / 1e6, "M/s", ">=5")
