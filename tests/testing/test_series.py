"""Which part of a series runs."""

from __future__ import annotations

from itertools import islice

import pytest

from everlog.testing.series import Series


def test_a_full_run_tries_everything() -> None:
    full = Series(1)
    assert full.points([3, 1, 2]) == [3, 1, 2]
    assert full.rounds(40) == 40
    assert list(islice(full.numbers(), 3)) == [0, 1, 2]


def test_a_quick_run_tries_the_first_and_the_last_point_and_every_eleventh_between() -> None:
    quick = Series(0.1)
    assert quick.points(range(25)) == [0, 11, 22, 24]
    assert quick.points(range(23)) == [0, 11, 22]
    assert quick.points([]) == []
    assert list(islice(quick.numbers(), 3)) == [0, 11, 22]


def test_at_least_one_round_runs() -> None:
    assert Series(0.1).rounds(3) == 1
    assert Series(0.25).rounds(100) == 25


def test_the_environment_says_how_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVERLOG_EFFORT", "0.5")
    assert Series.from_environment().stride == 3
    monkeypatch.delenv("EVERLOG_EFFORT")
    assert Series.from_environment().effort == 0.05


@pytest.mark.parametrize("effort", ["0", "-1", "2", "all", "nan"])
def test_any_other_effort_is_refused(monkeypatch: pytest.MonkeyPatch, effort: str) -> None:
    monkeypatch.setenv("EVERLOG_EFFORT", effort)
    with pytest.raises(ValueError):
        Series.from_environment()
