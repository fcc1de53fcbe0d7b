"""Metrics and checks of archives that the real system wrote, and of damaged ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from everlog.aeron.archive.family import ARCHIVE
from everlog.aeron.archive.monitoring.checking import check
from everlog.aeron.archive.monitoring.metrics import METRICS, ArchiveCollector
from everlog.aeron.layouts import ArchiveMarkHeader, ErrorEntry, SbeMessageHeader
from everlog.core.files.storage import LocalStorage
from everlog.core.monitoring.checking import CheckResult
from everlog.core.monitoring.levels import Levels, Status
from everlog.testing.contract import snapshot

Samples = dict[tuple[str, ...], float]
CRASH_MS = 1_795_241_413_137
"""Last heartbeat of ``crash-plain``."""
MARK = "archive-mark.dat"
RECORDED = 1_616_544
"""Sum of stop position less start position of ``describe-all``: 398240 + 176640 + 107968 + 91136 + 200544 + 164192 +
140192 + 140096 + 32672 + 0 + 140736 + 20096 + 4032, without the deleted one."""


def samples(*paths: Path) -> Samples:
    registry = CollectorRegistry()
    registry.register(ArchiveCollector(paths))
    found: Samples = {}
    for family in text_string_to_metric_families(generate_latest(registry).decode()):
        for sample in family.samples:
            labels = sorted((name, text) for name, text in sample.labels.items() if name != "path")
            found[sample.name.removeprefix("everlog_archive_"), *(text for _, text in labels)] = sample.value
    return found


def checked(path: Path, now_ms: int = CRASH_MS, **given: Any) -> CheckResult:
    limits = {option.field: option.default for option in ARCHIVE.check_options}
    limits["free_percent"] = Levels(0, 0, is_floor=True)
    return check(LocalStorage(path), limits | given, now_ms * 1_000_000)


def statuses(result: CheckResult) -> list[tuple[str, str]]:
    return [(finding.status.name, finding.text) for finding in result.findings]


def set_mark(path: Path, **fields: int) -> None:
    """Replace fields of a mark file that has an SBE header."""
    file = path / MARK
    data = bytearray(file.read_bytes())
    for name, value in fields.items():
        field = ArchiveMarkHeader.field(name)
        at = SbeMessageHeader.size + field.offset
        data[at : at + field.size] = value.to_bytes(field.size, "little", signed=True)
    file.write_bytes(data)


def test_metrics_of_a_stopped_archive(golden_archive: Callable[[str], Path]) -> None:
    path = golden_archive("archive-basic/archive")
    before = snapshot(path)
    found = samples(path)
    assert snapshot(path) == before
    assert {key[0] for key in found} <= set(METRICS)
    assert {name: found[name,] for name in ("up", "live", "mark_readable", "catalog_damaged", "counters_readable")} == {
        "up": 1,
        "live": 0,
        "mark_readable": 1,
        "catalog_damaged": 0,
        "counters_readable": 0,
    }
    assert found["info", "4711", "24047", "3.1.0"] == 1
    assert {key[1]: value for key, value in found.items() if key[0] == "recordings"} == {
        "valid": 13,
        "invalid": 0,
        "deleted": 1,
        "unknown": 0,
    }
    assert found["recorded_bytes",] == RECORDED
    files = [file.stat().st_size for file in path.glob("*.rec")]
    assert (found["segments",], found["segment_bytes",]) == (len(files), sum(files))
    assert ("heartbeat_age_seconds",) not in found


def test_metrics_of_a_killed_archive(golden_archive: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time_ns", lambda: (CRASH_MS + 30_000) * 1_000_000)
    found = samples(golden_archive("archive-crash/crash-plain"))
    assert (found["live",], found["heartbeat_age_seconds",], found["active_recordings",]) == (0, 30, 3)
    # What the real archive recovered: 30048 + 192224 + 821728 + 0.
    assert found["recorded_bytes",] == 1_044_000


def test_a_stopped_archive_is_critical_unless_it_may_be_stopped(golden_archive: Callable[[str], Path]) -> None:
    path = golden_archive("archive-basic/archive")
    before = snapshot(path)
    assert statuses(checked(path)) == [("CRITICAL", "the archive was stopped")]
    result = checked(path, stopped=Status.OK)
    assert snapshot(path) == before
    assert result.status is Status.OK
    assert result.summary == f"the archive was stopped, 13 recordings, {RECORDED} bytes recorded"
    assert "recordings=13;;;0" in [str(value) for value in result.measured]


def test_a_killed_archive_says_how_old_its_heartbeat_is(golden_archive: Callable[[str], Path]) -> None:
    result = checked(golden_archive("archive-crash/crash-plain"), CRASH_MS + 30_000)
    assert statuses(result) == [("CRITICAL", "the heartbeat of the archive (process 27110) is 30.0 s old")]
    assert result.details[1] == "3 recordings without stop position: the next start recovers it"


def test_an_archive_without_the_drivers_folder_is_ok(golden_archive: Callable[[str], Path]) -> None:
    result = checked(golden_archive("archive-crash/crash-plain"), CRASH_MS + 1_000)
    assert result.findings == []
    assert result.details[-1] == "the archive's driver in /dev/shm/aeron-gold-crash27110 can't be seen from here"


def test_a_driver_that_has_died_is_critical(
    archive_copy: Callable[[str], Path], golden_archive: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = str(golden_archive("transport/aeron-dir"))
    monkeypatch.setattr("everlog.aeron.archive.monitoring.observation.driver_folder", lambda mark: driver)
    monkeypatch.setattr("everlog.aeron.archive.monitoring.checking.driver_folder", lambda mark: driver)
    result = checked(archive_copy("archive-crash/crash-plain"), CRASH_MS + 1_000)
    assert statuses(result) == [("CRITICAL", f"the archive's driver in {driver} does not run")]


@pytest.mark.parametrize(
    ("cut", "offset"), [(0, 0), (10, 0), (8 + 127, 8)], ids=["empty", "cut in the SBE header", "cut in the block"]
)
@pytest.mark.parametrize(("age_s", "status"), [(1, Status.WARNING), (30, Status.CRITICAL)])
def test_a_half_written_mark_file(
    archive_copy: Callable[[str], Path], cut: int, offset: int, age_s: int, status: Status
) -> None:
    path = archive_copy("archive-basic/archive")
    file = path / MARK
    file.write_bytes(file.read_bytes()[:cut])
    result = checked(path, int(file.stat().st_mtime * 1000) + age_s * 1000)
    assert result.status is status
    told = "is starting" if status is Status.WARNING else "died while starting"
    assert result.summary.startswith(f"{MARK} is half-written: the archive {told} ({cut} bytes; expected a header of ")
    assert samples(path)["mark_readable",] == 0


def test_a_mark_file_whose_version_was_not_set_yet(archive_copy: Callable[[str], Path]) -> None:
    path = archive_copy("archive-basic/archive")
    set_mark(path, version=0, activity_timestamp=0)
    now_ms = int((path / MARK).stat().st_mtime * 1000) + 1_000
    assert statuses(checked(path, now_ms)) == [
        ("WARNING", f"{MARK} is half-written: the archive is starting (version 0)")
    ]


def test_a_start_that_failed(archive_copy: Callable[[str], Path]) -> None:
    path = archive_copy("archive-basic/archive")
    set_mark(path, version=-1)
    assert statuses(checked(path)) == [("CRITICAL", f"the archive failed to start ({MARK} has version -1)")]


def test_without_a_mark_file_nothing_runs(archive_copy: Callable[[str], Path]) -> None:
    path = archive_copy("archive-basic/archive")
    (path / MARK).unlink()
    assert statuses(checked(path)) == [("CRITICAL", f"no {MARK}: no archive runs here")]
    assert samples(path)["mark_readable",] == 1


def test_a_missing_or_damaged_catalog_is_critical(archive_copy: Callable[[str], Path]) -> None:
    path = archive_copy("archive-basic/archive")
    catalog = path / "archive.catalog"
    data = bytearray(catalog.read_bytes())
    catalog.unlink()
    result = checked(path, stopped=Status.OK)
    assert statuses(result) == [("CRITICAL", "the catalog is damaged: catalog-missing: no file")]
    assert result.details[0].startswith("archive.catalog: catalog-missing: no file; expected a catalog (restore it ")
    assert samples(path)["catalog_damaged",] == 1
    data[32:36] = (1 << 30).to_bytes(4, "little")  # the length of the first entry
    catalog.write_bytes(data)
    result = checked(path, stopped=Status.OK)
    assert result.status is Status.CRITICAL
    assert result.summary.startswith("the catalog is damaged: ")


def test_invalid_recordings_are_a_warning(archive_copy: Callable[[str], Path]) -> None:
    path = archive_copy("archive-basic/archive")
    catalog = path / "archive.catalog"
    data = bytearray(catalog.read_bytes())
    data[32 + 4 : 32 + 8] = bytes(4)  # the state of recording 0
    catalog.write_bytes(data)
    assert samples(path)["recordings", "invalid"] == 1
    result = checked(path, stopped=Status.OK)
    assert ("WARNING", "1 invalid recording") in statuses(result)
    relaxed = checked(path, stopped=Status.OK, invalid_recordings=Levels(1, None))
    assert "1 invalid recording" not in relaxed.summary


def test_errors_of_the_mark_file_count_while_they_are_in_the_window(archive_copy: Callable[[str], Path]) -> None:
    path = archive_copy("archive-basic/archive")
    file = path / MARK
    data = bytearray(file.read_bytes())
    header = ArchiveMarkHeader.unpack_from(data, SbeMessageHeader.size)
    text = b"io.aeron.archive.client.ArchiveException: made up\n\tat Somewhere"
    entry = ErrorEntry.pack(
        length=ErrorEntry.size + len(text),
        observation_count=3,
        first_observation_timestamp=CRASH_MS - 9_000,
        last_observation_timestamp=CRASH_MS,
    )
    data[header.header_length : header.header_length + len(entry) + len(text)] = entry + text
    file.write_bytes(data)
    found = samples(path)
    assert (found["distinct_errors",], found["error_observations_total",]) == (1, 3)
    inside = checked(path, CRASH_MS + 3_600_000, stopped=Status.OK)
    assert statuses(inside) == [("WARNING", "1 distinct error in the last 3600 s")]
    assert inside.details[-1] == "error, seen 3 times: io.aeron.archive.client.ArchiveException: made up"
    assert checked(path, CRASH_MS + 3_600_001, stopped=Status.OK).findings == []


def test_an_empty_folder_of_an_archive_that_was_expected(tmp_path: Path) -> None:
    result = checked(tmp_path)
    assert [status for status, _ in statuses(result)] == ["CRITICAL", "CRITICAL"]
    assert "no archive runs here" in result.summary
    assert "catalog-missing" in result.summary
