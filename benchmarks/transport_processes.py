"""Two processes, one of which publishes to the other through IPC, beside the same of the real Aeron; each on its own
driver, which is a third process. Rates are messages a second, round trips their median.

Three processes that spin on two cores make figures that jump between two levels, so the medians are of 11 runs. Small
terms are for who waits often: ends and drivers idle as Aeron's agents do by default, and the drivers have their default
threads (Java's ``DEDICATED``, our ``SHARED``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

from benchmarks.lines import Line, paired_rates
from benchmarks.transport_peer import Client, Driver, Kind, time_both

STREAM = 1001
LARGE_TERMS = "aeron:ipc?term-length=64m"
MESSAGES = {32: 10_000_000, 1024: 1_000_000}
TARGETS = {32: ">=1.2", 1024: ">=0.9"}
SMALL_TERMS = {"64k": 1_000_000, "1m": 4_000_000}
ROUND_TRIPS = 20_000
RUNS = 11
WARM_UPS = 3
THREADS: dict[Kind, str] = {"java": "DEDICATED", "everlog": "SHARED"}

Ends = tuple[Client, Client]


def pair(kind: Kind, threads: str, stack: ExitStack) -> Ends:
    """Two clients on a driver of their kind."""
    driver = stack.enter_context(Driver(kind, threads))
    return stack.enter_context(Client(kind, driver.folder)), stack.enter_context(Client(kind, driver.folder))


def rate(ends: Ends, channel: str, payload_bytes: int, messages: int, idle: str) -> Callable[[], float]:
    """Messages a second, each time it is called."""
    verbs = ("subscribe", "publish")
    return lambda: messages / time_both(verbs, ends, channel, STREAM, payload_bytes, messages, idle)


def round_trips(ends: Ends) -> Callable[[], float]:
    """How many round trips of median length make a second, each time it is called."""
    words = (LARGE_TERMS, STREAM + 10, 32, ROUND_TRIPS)
    return lambda: 1 / time_both(("ping", "pong"), ends, *words)


def lines() -> Iterator[Line | str]:
    """Throughput, round trips, small terms."""
    with ExitStack() as stack:
        ours, java = pair("everlog", "SHARED", stack), pair("java", "SHARED", stack)
        for size, count in MESSAGES.items():
            value, ratio = paired_rates(
                rate(ours, LARGE_TERMS, size, count, "spin"),
                rate(java, LARGE_TERMS, size, count, "spin"),
                RUNS,
                WARM_UPS,
            )
            yield Line(f"transport-ipc-2-processes-{size}B", value / 1e6, "M/s", TARGETS[size], ratio)
        rounds, ratio = paired_rates(round_trips(ours), round_trips(java))
        own, theirs = 1e6 / rounds, 1e6 * ratio / rounds
        yield f"transport-ipc-round-trip-32B {own:.2f} us, {1 / ratio:.2f} of Java's {theirs:.2f} us"
    with ExitStack() as stack:
        ours, java = (pair(kind, THREADS[kind], stack) for kind in ("everlog", "java"))
        for term, count in SMALL_TERMS.items():
            channel = f"aeron:ipc?term-length={term}"
            value, ratio = paired_rates(
                rate(ours, channel, 32, count, "backoff"), rate(java, channel, 32, count, "backoff"), RUNS, WARM_UPS
            )
            yield Line(f"transport-ipc-term-{term}-32B", value / 1e6, "M/s", ">=0.7", ratio)
