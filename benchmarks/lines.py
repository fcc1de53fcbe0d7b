"""How a figure is taken and printed: ratios within one run, medians of five, and a verdict on each line."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

RUNS = 5


@dataclass(frozen=True, slots=True)
class Line:
    """One figure. ``ratio`` is to the peer named in the docs of its group; ``target`` reads like ``>=0.7`` or
    ``<=6`` and is held against ``ratio`` where there is one, else against ``value``.
    """

    name: str
    value: float
    unit: str
    target: str
    ratio: float | None = None
    or_value_at_least: float | None = None

    @property
    def ok(self) -> bool:
        """Whether the target is met."""
        figure = self.value if self.ratio is None else self.ratio
        bound = float(self.target[2:])
        met = figure >= bound if self.target.startswith(">=") else figure <= bound
        return met or (self.or_value_at_least is not None and self.value >= self.or_value_at_least)

    def __str__(self) -> str:
        ratio = "-" if self.ratio is None else f"{self.ratio:.2f}"
        target = self.target
        if self.or_value_at_least is not None:
            target += f" or >={self.or_value_at_least:g}{self.unit}"
        return f"{self.name} {self.value:.3g} {self.unit} ratio {ratio} target {target} {'ok' if self.ok else 'SHORT'}"


def seconds(work: Callable[[], object]) -> float:
    """Wall time of one call."""
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def median_seconds(work: Callable[[], object], runs: int = RUNS) -> float:
    """Median wall time, after one call that does not count."""
    work()
    return statistics.median(seconds(work) for _ in range(runs))


def paired(ours: Callable[[], object], peer: Callable[[], object], runs: int = RUNS) -> tuple[float, float]:
    """Our median time, and the median of (peer's time / ours), taken pair by pair in turn so that a drift of the
    machine cancels.
    """
    ours()
    peer()
    times, ratios = [], []
    for turn in range(runs):
        if turn % 2:
            theirs, own = seconds(peer), seconds(ours)
        else:
            own, theirs = seconds(ours), seconds(peer)
        times.append(own)
        ratios.append(theirs / own)
    return statistics.median(times), statistics.median(ratios)


def median_rate(work: Callable[[], float], runs: int = RUNS) -> float:
    """Median of the rates that the work measures itself, after one call that does not count."""
    work()
    return statistics.median(work() for _ in range(runs))


def paired_rates(
    ours: Callable[[], float], peer: Callable[[], float], runs: int = RUNS, warm_ups: int = 1
) -> tuple[float, float]:
    """As :func:`paired`, of rates that both measure themselves: our median rate, the median of (ours / peer's).
    ``warm_ups`` of each do not count."""
    for _ in range(warm_ups):
        ours()
        peer()
    rates, ratios = [], []
    for turn in range(runs):
        if turn % 2:
            theirs, own = peer(), ours()
        else:
            own, theirs = ours(), peer()
        rates.append(own)
        ratios.append(own / theirs)
    return statistics.median(rates), statistics.median(ratios)


def where(folder: Path) -> str:
    """The kind of file system that a folder is on, such as ``tmpfs (memory)`` or ``ext4``."""
    try:
        with open("/proc/self/mounts", encoding="utf-8") as file:
            mounts = [line.split()[1:3] for line in file]
    except OSError:
        return "a file system of unknown kind"
    holding = [(len(point), kind) for point, kind in mounts if folder.resolve().is_relative_to(point)]
    kind = max(holding, default=(0, "a file system of unknown kind"))[1]
    return f"{kind} (memory)" if kind in ("tmpfs", "ramfs") else kind


def machine() -> str:
    """A line about the machine and its load, so that figures can be judged."""
    load = " ".join(f"{part:.2f}" for part in os.getloadavg())
    return f"# {os.cpu_count()} cores, load {load}"
