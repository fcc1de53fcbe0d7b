"""The check of media drivers: heartbeat, half-written files, errors, losses, failed channels."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from everlog.aeron.transport.family import DRIVER
from everlog.aeron.transport.monitoring.checking import check
from everlog.core.files.storage import LocalStorage
from everlog.core.monitoring.checking import CheckResult
from everlog.core.monitoring.levels import Levels, Status
from everlog.errors import UnsupportedVersion
from everlog.testing.storage.memory import MemoryStorage
from tests.aeron.transport.folder import driver_folder as made

MADE_MS = 1_700_000_000_000
"""Heartbeat of the folder made by hand."""
GOLDEN_MS = 1_795_242_081_855
GENEROUS = Levels(0, 0, is_floor=True)


def checked(storage: Any, now_ms: int, **given: Any) -> CheckResult:
    limits = {option.field: option.default for option in DRIVER.check_options}
    return check(storage, limits | {"free_percent": GENEROUS} | given, now_ms * 1_000_000)


def statuses(result: CheckResult) -> list[tuple[str, str]]:
    return [(finding.status.name, finding.text) for finding in result.findings]


def test_a_running_driver_is_ok() -> None:
    result = checked(MemoryStorage(made.folder()), MADE_MS + 1_500)
    assert (result.status, result.findings) == (Status.OK, [])
    assert result.summary == "running as process 4711, 0 clients, 1 publication, 1 image"
    values = [str(value) for value in result.measured]
    assert "heartbeat_age=1.5s;5;10;0" in values
    # Its error is of two seconds after 1970, its losses, too: outside of the window.
    assert "errors=0;0;;0" in values
    assert "lost_bytes=0B;;;0" in values


@pytest.mark.parametrize(
    ("age_ms", "status"),
    [(5_000, "OK"), (5_001, "WARNING"), (10_000, "WARNING"), (10_001, "CRITICAL"), (-5_001, "WARNING")],
)
def test_the_age_of_the_heartbeat_decides(age_ms: int, status: str) -> None:
    result = checked(MemoryStorage(made.folder()), MADE_MS + age_ms)
    assert result.status.name == status


def test_a_heartbeat_in_the_future_says_so() -> None:
    result = checked(MemoryStorage(made.folder()), MADE_MS - 20_000)
    assert statuses(result) == [
        ("CRITICAL", "the heartbeat of the driver (process 4711) is 20.0 s in the future: a clock is wrong")
    ]


@pytest.mark.parametrize("stopped", [Status.OK, Status.WARNING, Status.CRITICAL])
def test_a_stopped_driver_has_the_status_that_was_given(stopped: Status) -> None:
    data = made.folder()
    data["cnc.dat"] = data["cnc.dat"].replace(MADE_MS.to_bytes(8, "little"), b"\xff" * 8)
    result = checked(MemoryStorage(data), MADE_MS, stopped=stopped)
    assert result.status is stopped
    assert "the driver was stopped" in result.summary


def test_a_folder_without_cnc_says_that_nothing_runs() -> None:
    result = checked(MemoryStorage({"loss-report.dat": made.losses()}), MADE_MS)
    assert statuses(result) == [("CRITICAL", "no cnc.dat: no driver runs here")]


@pytest.mark.parametrize("data", [b"", bytes(10), made.cnc(cnc_version=0)], ids=["empty", "short", "version 0"])
@pytest.mark.parametrize(("age_s", "status"), [(2, "WARNING"), (11, "CRITICAL")])
def test_a_half_written_cnc_is_a_warning_while_it_is_young(
    tmp_path: Path, data: bytes, age_s: int, status: str
) -> None:
    file = tmp_path / "cnc.dat"
    file.write_bytes(data)
    now_ms = int(file.stat().st_mtime * 1000) + age_s * 1000
    result = checked(LocalStorage(tmp_path), now_ms)
    assert result.status.name == status
    told = {"WARNING": "the driver is starting", "CRITICAL": "the driver died while starting"}[status]
    assert result.summary.startswith(f"cnc.dat is half-written: {told} (")
    assert file.read_bytes() == data


def test_a_version_that_is_unknown_is_no_finding_but_an_error() -> None:
    with pytest.raises(UnsupportedVersion):
        checked(MemoryStorage({"cnc.dat": made.cnc(cnc_version=0x10000)}), MADE_MS)


def test_a_cut_file_is_critical() -> None:
    data = made.folder()
    data["cnc.dat"] = data["cnc.dat"][:3000]
    result = checked(MemoryStorage(data), MADE_MS)
    assert result.status is Status.CRITICAL
    assert "cnc.dat is cut: 3000 bytes of " in result.summary


def test_errors_and_losses_count_while_they_are_in_the_window() -> None:
    storage = MemoryStorage(made.folder())
    # The error and both losses were last seen 2 s after 1970; 300 and 100 bytes were lost.
    given: dict[str, Any] = {"heartbeat_age": Levels(), "error_window": 60.0}
    inside = checked(storage, 62_000, **given, lost_bytes=Levels(100, 399))
    assert statuses(inside) == [
        ("WARNING", "1 distinct error in the last 60 s"),
        ("CRITICAL", "400 bytes lost by 2 images with losses in the last 60 s"),
    ]
    assert inside.details == ["error, seen 2 times: java.lang.IllegalStateException: made up"]
    outside = checked(storage, 62_001, **given, lost_bytes=Levels(100, 399))
    assert outside.findings == []


def test_the_golden_driver_warns_of_its_two_errors(golden_archive: Callable[[str], Path]) -> None:
    storage = LocalStorage(golden_archive("transport/aeron-dir"))
    result = checked(storage, GOLDEN_MS + 626)
    assert statuses(result) == [("WARNING", "2 distinct errors in the last 3600 s")]
    assert "unresolved - endpoint=nonexistent.invalid:18399" in result.details[0]
    # Of AeronStat and LossStat: 508,512 bytes sent, 2 errors; 32,256 + 1,664 + 1,824 bytes lost.
    values = [str(value) for value in result.measured]
    assert {"bytes_sent=508512c;;;0", "error_count=2c;;;0", "lost_bytes=35744B;;;0", "clients=2;;;0"} <= set(values)
    assert "35744 bytes lost by 3 images with losses in the last 3600 s" in result.details
    strict = checked(storage, GOLDEN_MS + 626, error_count=Levels(0, 1), errors=Levels())
    assert statuses(strict) == [("CRITICAL", "2 errors since the driver started")]


def test_a_failed_channel_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    key = (7).to_bytes(4, "little") + b"aeron:x"
    failed = (6, key, b"snd-channel: aeron:udp?endpoint=a:1", -1, 0)
    monkeypatch.setattr(made, "COUNTERS", [*made.COUNTERS, failed])
    result = checked(MemoryStorage({"cnc.dat": made.cnc()}), MADE_MS)
    assert statuses(result) == [("WARNING", "channel failed: snd-channel: aeron:udp?endpoint=a:1")]
