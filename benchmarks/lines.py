"""How a figure is taken and printed: pairs of runs that take turns, medians and extremes of at least seven, and a
verdict on each line."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

RUNS = 7
"""The fewest runs that a median is taken of."""


class Spread(float):
    """The median of figures, with the lowest (``least``) and the highest (``most``) of them. Multiplied or divided by a
    number it keeps all three."""

    least: float
    most: float

    def __new__(cls, figures: Iterable[float]) -> Self:
        found = sorted(figures)
        spread = super().__new__(cls, statistics.median(found))
        spread.least, spread.most = found[0], found[-1]
        return spread

    def __mul__(self, factor: float) -> Spread:
        return self._map(lambda figure: figure * factor)

    __rmul__ = __mul__

    def __truediv__(self, divisor: float) -> Spread:
        return self._map(lambda figure: figure / divisor)

    def __rtruediv__(self, dividend: float) -> Spread:
        return self._map(lambda figure: dividend / figure)

    def _map(self, change: Callable[[float], float]) -> Spread:
        return Spread(change(figure) for figure in (self.least, float(self), self.most))


@dataclass(frozen=True, slots=True)
class Line:
    """One figure. ``ratio`` is to the peer named in the docs of its group, None for a line without a peer; ``target``
    reads like ``>=0.7`` or ``<=6`` and is held against the median of ``ratio`` where there is one, else of ``value``.
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
        beside = "no peer" if self.ratio is None else f"ratio {_with_extremes(self.ratio, '.2f')}"
        target = self.target
        if self.or_value_at_least is not None:
            target += f" or >={self.or_value_at_least:g}{self.unit}"
        value = _with_extremes(self.value, ".3g")
        return f"{self.name} {value} {self.unit} {beside} target {target} {'ok' if self.ok else 'SHORT'}"


def _with_extremes(figure: float, form: str) -> str:
    if not isinstance(figure, Spread):
        return format(figure, form)
    return f"{float(figure):{form}} ({figure.least:{form}}..{figure.most:{form}})"


def seconds(work: Callable[[], object]) -> float:
    """Wall time of one call."""
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def median_seconds(work: Callable[[], object], runs: int = RUNS) -> Spread:
    """Median wall time, after one call that does not count."""
    return median_rate(lambda: seconds(work), runs)


def median_rate(work: Callable[[], float], runs: int = RUNS) -> Spread:
    """Median of the figures that the work measures itself, after one call that does not count."""
    work()
    return Spread(work() for _ in range(_enough(runs)))


def paired(
    ours: Callable[[], object],
    peer: Callable[[], object],
    runs: int = RUNS,
    warm_ups: int = 1,
    *,
    rehearses: bool = False,
) -> tuple[Spread, Spread]:
    """Our time, and (peer's time / ours), pair by pair. The two take turns in being the first of a pair, so that a
    drift of the machine cancels. ``warm_ups`` of each do not count.

    ``rehearses``: right before each run is one of the same that does not count. For work that takes much new memory,
    such as a file's pages: a virtual machine's memory is several times slower when it is touched first, and the run
    finds what the rehearsal has just given back. To touch as much of a program's own memory does not do the same.
    """
    times = _pairs(lambda: seconds(ours), lambda: seconds(peer), runs, warm_ups, rehearses=rehearses)
    return Spread(own for own, _ in times), Spread(theirs / own for own, theirs in times)


def paired_rates(
    ours: Callable[[], float],
    peer: Callable[[], float],
    runs: int = RUNS,
    warm_ups: int = 1,
    *,
    rehearses: bool = False,
) -> tuple[Spread, Spread]:
    """As :func:`paired`, of rates that both measure themselves: our rate, and (ours / peer's)."""
    rates = _pairs(ours, peer, runs, warm_ups, rehearses=rehearses)
    return Spread(own for own, _ in rates), Spread(own / theirs for own, theirs in rates)


def _pairs(
    ours: Callable[[], float], peer: Callable[[], float], runs: int, warm_ups: int, *, rehearses: bool
) -> list[tuple[float, float]]:
    def measured(work: Callable[[], float]) -> float:
        if rehearses:
            work()
        return work()

    for _ in range(warm_ups):
        ours()
        peer()
    found = []
    for turn in range(_enough(runs)):
        if turn % 2:
            theirs, own = measured(peer), measured(ours)
        else:
            own, theirs = measured(ours), measured(peer)
        found.append((own, theirs))
    return found


def _enough(runs: int) -> int:
    if runs < RUNS:
        raise ValueError(f"a median of {runs} runs; at least {RUNS} are needed")
    return runs


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
