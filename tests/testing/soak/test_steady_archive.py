"""A short run of the steady load, and what counts as growth. ``make soak-archive-steady`` is the long one."""

from __future__ import annotations

from pathlib import Path

import pytest

from everlog.testing.soak.steady_archive import Held, grown, main

MEGABYTE = 1 << 20


def held(memory: int = 0, descriptors: int = 40, threads: int = 4, folder: int = 0) -> Held:
    return Held(memory, descriptors, threads, folder)


def test_what_is_level_after_the_first_tenth_has_not_grown() -> None:
    warm = [held(memory=number * MEGABYTE) for number in range(3)]
    assert grown(warm + [held(memory=50 * MEGABYTE)] * 27) == []


def test_neither_jitter_nor_a_decrease_is_growth() -> None:
    assert grown([held(descriptors=40 + number % 3) for number in range(30)]) == []
    assert grown([held(memory=(90 - number) * MEGABYTE) for number in range(30)]) == []


@pytest.mark.parametrize(
    ("name", "step"), [("memory", MEGABYTE), ("descriptors", 1), ("threads", 1), ("folder", MEGABYTE)]
)
def test_what_grows_all_the_time_is_reported(name: str, step: int) -> None:
    (text,) = grown([held(**{name: 100 + number * step}) for number in range(30)])
    assert text.startswith(f"{name} grew from ")


@pytest.mark.long
def test_the_load_runs_and_is_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--minutes", "0.2", "--recordings", "3", "--rate", "1000", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert said.count("archive Held(") >= 25
    assert "segments purged 0" not in said
    assert list(tmp_path.iterdir()) == []
