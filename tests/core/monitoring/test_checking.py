"""Levels, results and performance data of checks."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from everlog.core.files.storage import LocalStorage
from everlog.core.monitoring.checking import CheckResult, Measured, measure_free_space
from everlog.core.monitoring.free_space import FreeSpace, free_space
from everlog.core.monitoring.levels import Levels, Status
from everlog.testing.storage.memory import MemoryStorage

FLOOR = Levels(10, 5, is_floor=True)


@pytest.mark.parametrize(
    ("levels", "value", "status"),
    [
        (Levels(5, 10), 5, Status.OK),
        (Levels(5, 10), 5.1, Status.WARNING),
        (Levels(5, 10), 10, Status.WARNING),
        (Levels(5, 10), 11, Status.CRITICAL),
        (Levels(None, 10), 9, Status.OK),
        (Levels(0, None), 1_000_000, Status.WARNING),
        (Levels(), float("inf"), Status.OK),
        (Levels(10, 5, is_floor=True), 10, Status.OK),
        (Levels(10, 5, is_floor=True), 9.9, Status.WARNING),
        (Levels(10, 5, is_floor=True), 4.9, Status.CRITICAL),
    ],
)
def test_a_value_beyond_a_level_changes_the_status(levels: Levels, value: float, status: Status) -> None:
    assert levels.status(value) is status


@pytest.mark.parametrize(
    ("measured", "text"),
    [
        (Measured(label="a", value=3), "a=3;;;0"),
        (Measured(label="a", value=1.25, unit="s", levels=Levels(5, 10.5)), "a=1.25s;5;10.5;0"),
        (Measured(label="a", value=0.0004, unit="s"), "a=0s;;;0"),
        (Measured(label="a", value=1 << 60, unit="B"), "a=1152921504606846976B;;;0"),
        (Measured(label="a", value=9.5, unit="%", levels=FLOOR, maximum=100), "a=9.5%;10:;5:;0;100"),
        (Measured(label="a", value=7, levels=Levels(0, None)), "a=7;0;;0"),
    ],
)
def test_performance_data_have_the_syntax_of_the_guidelines(measured: Measured, text: str) -> None:
    assert str(measured) == text


def test_the_worst_finding_comes_first_and_decides() -> None:
    result = CheckResult()
    assert (result.status, result.summary) == (Status.OK, "")
    result.find(Status.OK, "a fact")
    assert result.summary == "a fact"
    result.find(Status.WARNING, "mild")
    result.measure("x", 9, "bad", levels=Levels(1, 2))
    assert (result.status, result.summary) == (Status.CRITICAL, "bad; mild")
    assert result.to_dict()["code"] == 2


def test_free_space_is_that_of_the_file_system(tmp_path: Path) -> None:
    space, state = free_space(LocalStorage(tmp_path)), os.statvfs(tmp_path)
    assert space is not None
    assert abs(space.free_bytes - state.f_bavail * state.f_frsize) < 1 << 30
    assert free_space(MemoryStorage({})) is None
    assert FreeSpace(1, 4).percent == 25
    assert FreeSpace(0, 0).percent == 0


def test_a_full_file_system_is_critical(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.statvfs(tmp_path)
    # 1,000 blocks of 4 KiB, 60 of them free, 20 of those for root: 40 of 980 are 4.1 %.
    full = os.statvfs_result((4096, 4096, 1000, 60, 40, *tuple(real)[5:]))
    monkeypatch.setattr(os, "statvfs", lambda path: full)
    result = CheckResult()
    measure_free_space(result, LocalStorage(tmp_path), {"free_percent": Levels(10, 5, is_floor=True)})
    assert (result.status, result.summary) == (
        Status.CRITICAL,
        "4.1 % of the file system is free (163840 bytes)",
    )
    assert [str(value) for value in result.measured] == [
        "free=4.082%;10:;5:;0;100",
        "free_bytes=163840B;;;0;4014080",
    ]
