"""Benchmarks are honest: pairs take turns, and a line says how far its figures lie apart."""

from __future__ import annotations

import importlib

import pytest
from benchmarks.lines import RUNS, Line, Spread, median_rate, paired, paired_rates

import tests

MODULES = [f"{path.parent.name}.{path.stem}" for path in (tests.ROOT / "benchmarks").glob("[a-z]*.py")]


@pytest.mark.parametrize("name", MODULES)
def test_every_benchmark_can_be_imported(name: str) -> None:
    """The type checker does not look at them, nor does a run of the tests run them."""
    pytest.importorskip("pyspark")
    assert importlib.import_module(name).__doc__


def test_a_spread_is_the_median_between_the_lowest_and_the_highest() -> None:
    spread = Spread([3.0, 1.0, 9.0, 4.0, 2.0])
    assert (spread, spread.least, spread.most) == (3.0, 1.0, 9.0)


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        (Spread([1.0, 2.0, 4.0]) * 2, (4.0, 2.0, 8.0)),
        (2 * Spread([1.0, 2.0, 4.0]), (4.0, 2.0, 8.0)),
        (Spread([1.0, 2.0, 4.0]) / 2, (1.0, 0.5, 2.0)),
        (4 / Spread([1.0, 2.0, 4.0]), (2.0, 1.0, 4.0)),
    ],
)
def test_a_spread_keeps_its_ends_when_its_unit_changes(changed: Spread, expected: tuple[float, float, float]) -> None:
    assert (changed, changed.least, changed.most) == expected


def calls_of(*, rehearses: bool) -> str:
    calls: list[str] = []

    def rate(name: str) -> float:
        calls.append(name)
        return float(len(calls))

    paired_rates(lambda: rate("a"), lambda: rate("b"), warm_ups=2, rehearses=rehearses)
    return "".join(calls)


def test_the_two_of_a_pair_take_turns_in_being_the_first() -> None:
    assert calls_of(rehearses=False) == "abab" + "abba" * 3 + "ab"


def test_a_run_that_is_rehearsed_follows_one_of_the_same() -> None:
    assert calls_of(rehearses=True) == "abab" + "aabbbbaa" * 3 + "aabb"


def test_a_rehearsal_does_not_count() -> None:
    figures = iter([0.0, *[1000.0, 5.0] * 7])
    value, _ = paired_rates(lambda: next(figures), lambda: 1.0, rehearses=True)
    assert (value.least, value.most) == (5.0, 5.0)


def test_a_ratio_is_the_median_of_the_ratios_of_the_pairs() -> None:
    ours, theirs = iter([1.0, *range(1, 8)]), iter([1.0, 1.0, 1.0, 1.0, 2.0, 2.0, 2.0, 2.0])
    value, ratio = paired_rates(lambda: next(ours), lambda: next(theirs))
    assert (value, value.least, value.most) == (4, 1, 7)
    assert (ratio, ratio.least, ratio.most) == (2.5, 1.0, 3.5)  # of 1, 2, 3, 2, 2.5, 3, 3.5


def test_a_median_is_of_seven_runs_at_least() -> None:
    assert RUNS == 7
    with pytest.raises(ValueError, match="a median of 6 runs"):
        paired(lambda: None, lambda: None, runs=6)
    with pytest.raises(ValueError, match="a median of 6 runs"):
        median_rate(lambda: 1.0, runs=6)


def test_a_line_says_how_far_its_figures_lie_apart() -> None:
    line = Line("walk", Spread([2.0, 1.9, 2.5]), "GB/s", ">=0.9", Spread([0.88, 0.93, 1.02]))
    assert str(line) == "walk 2 (1.9..2.5) GB/s ratio 0.93 (0.88..1.02) target >=0.9 ok"


def test_a_line_without_a_peer_says_so() -> None:
    assert str(Line("memory", 310.0, "MB", "<=300")) == "memory 310 MB no peer target <=300 SHORT"


def test_the_verdict_is_that_of_the_median() -> None:
    assert not Line("walk", 2.0, "GB/s", ">=0.95", Spread([0.88, 0.93, 1.02])).ok
    assert Line("walk", 2.0, "GB/s", "<=0.95", Spread([0.88, 0.93, 1.02])).ok
    assert Line("walk", 2.0, "GB/s", ">=0.95", Spread([0.88, 0.93, 1.02]), or_value_at_least=2.0).ok
