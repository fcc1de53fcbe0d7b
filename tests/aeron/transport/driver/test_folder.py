"""A driver's folder: it holds one driver at a time, even if two start together, and only a driver's files are
deleted."""

from __future__ import annotations

import os
import tarfile
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import tests
from everlog.aeron.layouts import ErrorEntry
from everlog.aeron.transport.driver.folder import DriverFolder, DriverIsActive
from everlog.aeron.transport.driver.settings.configuration import Configuration
from everlog.aeron.transport.format.layouts import CncMetaData
from everlog.aeron.transport.memory.cnc_memory import CncMemory, CncSettings
from everlog.errors import NotAStore, StoreUnavailable, UnsupportedVersion
from tests.aeron.transport.memory.mounted_memory import mounted

GOLDEN = tests.GOLDEN / "aeron" / "transport" / "aeron-dir.tar.gz"
TO_DRIVER_LENGTH = 1049344
HEARTBEAT = CncMetaData.size + TO_DRIVER_LENGTH - 768 + 640
"""Of a cnc.dat with Aeron's default lengths: behind metadata, 1 MiB of commands and 640 bytes of the trailer."""
PID = 40
CNC_VERSION = 512


def write_cnc(folder: Path, heartbeat_ms: int, version: int = CNC_VERSION) -> None:
    """Write a cnc.dat as a driver leaves it, without counters and errors."""
    folder.mkdir(parents=True, exist_ok=True)
    data = bytearray(HEARTBEAT + 128)
    data[:8] = version.to_bytes(4, "little") + TO_DRIVER_LENGTH.to_bytes(4, "little")
    data[PID : PID + 8] = (4711).to_bytes(8, "little")
    data[HEARTBEAT : HEARTBEAT + 8] = heartbeat_ms.to_bytes(8, "little", signed=True)
    (folder / "cnc.dat").write_bytes(data)


def write_error(folder: Path, first_ms: int, last_ms: int) -> None:
    """Write an error observed 3 times into the cnc.dat of :func:`write_cnc`."""
    text = b"something"
    entry = ErrorEntry.pack(
        length=ErrorEntry.size + len(text),
        observation_count=3,
        last_observation_timestamp=last_ms,
        first_observation_timestamp=first_ms,
    )
    log = (entry + text).ljust(1024, b"\0")
    data = bytearray((folder / "cnc.dat").read_bytes().ljust(CncMetaData.size + TO_DRIVER_LENGTH, b"\0") + log)
    at = CncMetaData.field("error_log_buffer_length").offset
    data[at : at + 4] = len(log).to_bytes(4, "little")
    (folder / "cnc.dat").write_bytes(data)


def take(folder: Path, **settings: Any) -> tuple[DriverFolder, list[str]]:
    warnings: list[str] = []
    settings = {"driver_timeout_ms": 200} | settings
    return DriverFolder(Configuration(dir=str(folder), **settings), warnings.append), warnings


def now_ms() -> int:
    return int(time.time() * 1000)


def test_a_folder_is_made_and_stays(tmp_path: Path) -> None:
    folder, warnings = take(tmp_path / "a" / "driver")
    assert sorted(os.listdir(folder.path)) == ["images", "publications"]
    folder.close()
    folder.close()
    assert os.path.isdir(folder.path)
    assert warnings == []


def test_a_folder_is_deleted_at_the_end_where_that_is_wanted(tmp_path: Path) -> None:
    folder, _ = take(tmp_path / "driver", dir_delete_on_shutdown=True)
    write_cnc(tmp_path / "driver", 0)
    folder.close()
    assert not os.path.exists(folder.path)


def test_what_a_link_leads_to_is_emptied_and_given_back(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "driver").symlink_to(tmp_path / "real")
    folder, _ = take(tmp_path / "driver", dir_delete_on_shutdown=True)
    write_cnc(tmp_path / "driver", 0)
    folder.close()
    assert os.listdir(tmp_path / "real") == []
    take(tmp_path / "real")[0].close()


def test_a_mounted_folder_is_emptied_and_given_back(tmp_path: Path) -> None:
    (tmp_path / "driver").mkdir()
    with mounted(tmp_path / "driver", "1m"):
        folder, _ = take(tmp_path / "driver", dir_delete_on_shutdown=True)
        folder.close()
        assert os.listdir(tmp_path / "driver") == []
        take(tmp_path / "driver")[0].close()


def test_a_file_of_others_in_the_folder_outlives_the_driver(tmp_path: Path) -> None:
    write_cnc(tmp_path / "driver", 0)
    (tmp_path / "driver" / "notes.txt").write_text("mine")
    folder, _ = take(tmp_path / "driver", dir_delete_on_shutdown=True)
    folder.close()
    assert os.listdir(tmp_path / "driver") == ["notes.txt"]


def test_a_folder_that_is_no_drivers_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "home" / "publications").mkdir(parents=True)
    (tmp_path / "home" / "thesis.tex").write_text("mine")
    for settings in ({}, {"dir_delete_on_start": True}):
        with pytest.raises(NotAStore, match=r"not a media driver's folder: it has 'thesis\.tex' and no cnc\.dat"):
            take(tmp_path / "home", **settings)
    assert sorted(os.listdir(tmp_path / "home")) == ["publications", "thesis.tex"]


def test_what_a_driver_left_that_died_when_it_began_is_deleted(tmp_path: Path) -> None:
    (tmp_path / "driver").mkdir()
    CncMemory.create(tmp_path / "driver", CncSettings(counters_values_buffer_length=4096), now_ms())
    folder, warnings = take(tmp_path / "driver")
    assert sorted(os.listdir(folder.path)) == ["images", "publications"]
    assert warnings == []
    folder.close()


def test_a_second_driver_of_ours_is_refused_at_once_also_when_it_may_delete(tmp_path: Path) -> None:
    first, _ = take(tmp_path / "driver")
    for settings in ({}, {"dir_delete_on_start": True}):
        with pytest.raises(DriverIsActive, match="an active media driver"):
            take(tmp_path / "driver", **settings)
    first.close()
    take(tmp_path / "driver")[0].close()


def test_of_many_that_start_together_one_has_the_folder(tmp_path: Path) -> None:
    start, found = threading.Barrier(8), []

    def race() -> None:
        start.wait()
        try:
            found.append(take(tmp_path / "driver", dir_delete_on_start=True)[0])
        except DriverIsActive:
            found.append(None)

    racers = [threading.Thread(target=race) for _ in range(8)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join(20)
    (winner,) = [folder for folder in found if folder is not None]
    assert len(found) == 8
    winner.close()


def test_another_programs_live_driver_is_refused_with_its_process(tmp_path: Path) -> None:
    write_cnc(tmp_path / "driver", now_ms())
    with pytest.raises(DriverIsActive, match=r"process 4711, heartbeat \d+ ms ago \(stop that driver"):
        take(tmp_path / "driver", driver_timeout_ms=10_000)
    assert (tmp_path / "driver" / "cnc.dat").exists()


@pytest.mark.parametrize("age_ms", [10_001, None])
def test_what_a_dead_or_closed_driver_left_is_taken_away(tmp_path: Path, age_ms: int | None) -> None:
    write_cnc(tmp_path / "driver", -1 if age_ms is None else now_ms() - age_ms)
    (tmp_path / "driver" / "publications").mkdir()
    (tmp_path / "driver" / "publications" / "3.logbuffer").write_bytes(bytes(100))
    folder, warnings = take(tmp_path / "driver", driver_timeout_ms=10_000)
    assert sorted(os.listdir(folder.path)) == ["images", "publications"]
    assert os.listdir(tmp_path / "driver" / "publications") == []
    assert warnings == []
    folder.close()


def test_a_crashed_driver_may_start_again_at_once_when_it_deletes_on_start(tmp_path: Path) -> None:
    write_cnc(tmp_path / "driver", now_ms())
    folder, warnings = take(tmp_path / "driver", dir_delete_on_start=True, driver_timeout_ms=10_000)
    assert not (tmp_path / "driver" / "cnc.dat").exists()
    assert warnings == []
    folder.close()


def test_a_file_that_stays_without_a_version_is_taken_for_a_dead_drivers_after_the_timeout(tmp_path: Path) -> None:
    write_cnc(tmp_path / "driver", now_ms(), version=0)
    begun = time.monotonic()
    folder, (warning,) = take(tmp_path / "driver", driver_timeout_ms=200)
    assert time.monotonic() - begun >= 0.2
    assert warning.startswith("assuming a dead driver: ")
    folder.close()


def test_a_driver_of_another_version_may_live_so_it_is_refused(tmp_path: Path) -> None:
    write_cnc(tmp_path / "driver", now_ms(), version=0x0300)
    with pytest.raises(UnsupportedVersion, match=r"version 0\.3\.0"):
        take(tmp_path / "driver")
    take(tmp_path / "driver", dir_delete_on_start=True)[0].close()


def test_a_folder_that_exists_is_warned_of_where_that_is_wanted(tmp_path: Path) -> None:
    (tmp_path / "driver").mkdir()
    folder, warnings = take(tmp_path / "driver", dir_warn_if_exists=True)
    assert warnings == [f"{tmp_path / 'driver'} exists"]
    folder.close()
    folder, warnings = take(tmp_path / "new", dir_warn_if_exists=True)
    assert warnings == []
    folder.close()


def test_a_place_that_cannot_be_had_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreUnavailable, match=r"file/driver: not a directory"):
        take(tmp_path / "file" / "driver")


def test_errors_of_the_driver_before_are_kept_beside_the_folder(tmp_path: Path) -> None:
    with tarfile.open(GOLDEN) as tar:
        tar.extractall(tmp_path, filter="data")
    (source,) = (path.parent for path in tmp_path.rglob("cnc.dat"))
    source.rename(tmp_path / "driver")
    folder, (warning,) = take(tmp_path / "driver")
    folder.close()
    (log,) = tmp_path.glob("driver-*-error.log")
    assert warning == f"existing errors saved to: {log}"
    observed = [line for line in log.read_text().splitlines() if " observations from " in line]
    printed = (GOLDEN.parent / "ErrorStat.txt").read_text().splitlines()
    counts = [line.split()[0] for line in printed if " observations from " in line]
    assert [line.split()[0] for line in observed] == counts
    assert len(counts) > 0


@pytest.mark.parametrize("timestamp", [1, 1 << 50, (1 << 63) - 1])
def test_an_error_of_a_time_that_no_calendar_has_keeps_no_driver_from_starting(tmp_path: Path, timestamp: int) -> None:
    write_cnc(tmp_path / "driver", -1)
    write_error(tmp_path / "driver", -(1 << 63), timestamp)
    take(tmp_path / "driver")[0].close()
    (log,) = tmp_path.glob("driver-*-error.log")
    lines = log.read_text().splitlines()
    assert lines[0] == "***"
    assert lines[1].startswith(f"3 observations from {-(1 << 63)} ms to ")
    assert lines[1].endswith(" for:")
    assert lines[2] == " something"
    assert (lines[1].find(f"to {timestamp} ms") >= 0) == (timestamp > 1)
