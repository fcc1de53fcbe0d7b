"""A running archive, seen from outside: its mark file, and its counters in the driver."""

from __future__ import annotations

import time
from pathlib import Path

from everlog.aeron.transport.family import DRIVER
from everlog.aeron.transport.monitoring import checking as driver_checking
from everlog.core.files.storage import LocalStorage
from everlog.core.monitoring.levels import Levels, Status
from everlog.time_units import NS_PER_MS
from tests.aeron.archive.monitoring.test_monitoring import checked, samples
from tests.aeron.archive.service.served import until
from tests.cli.archive.served_archive import served


def test_a_running_archive_is_ok_and_shows_its_counters(tmp_path: Path) -> None:
    with served(tmp_path) as archive:
        recording_id, publication = archive.begin(1_001, [b"x" * 100] * 10)
        until(lambda: samples(archive.folder).get(("recording_sessions",)) == 1)
        # 10 messages of 32 + 100 bytes, padded to 160.
        until(lambda: samples(archive.folder)["recorded_bytes",] == 1_600)
        found = samples(archive.folder)
        assert (found["live",], found["counters_readable",], found["active_recordings",]) == (1, 1, 1)
        recording = ("recording_position_bytes", str(recording_id))
        assert [value for key, value in found.items() if key[:2] == recording] == [1_600]
        assert found["control_sessions",] >= 1
        assert found["replay_sessions",] == 0
        assert found["recorder_written_bytes_total",] == 1_600
        assert 0 < found["recorder_write_seconds_total",] < 60
        assert 0 < found["recorder_max_write_seconds",] <= found["recorder_write_seconds_total",]
        assert 0 < found["conductor_max_cycle_seconds",] < 60

        result = checked(archive.folder, time.time_ns() // NS_PER_MS, errors=Levels())
        assert (result.status, result.findings) == (Status.OK, [])
        values = [str(value) for value in result.measured]
        assert {"recording_sessions=1;;;0", "written_bytes=1600c;;;0", "recorded_bytes=1600B;;;0"} <= set(values)

        limits = {option.field: option.default for option in DRIVER.check_options}
        limits |= {"errors": Levels(), "free_percent": Levels(0, 0, is_floor=True)}
        driver = driver_checking.check(LocalStorage(archive.driver_folder), limits, time.time_ns())
        assert driver.findings == []
        assert "running as process" in driver.summary

        # The other archive on the same driver has counters of its own.
        other = samples(archive.secured)
        assert (other["counters_readable",], other["recording_sessions",]) == (1, 0)
        publication.close()
    assert checked(archive.folder).summary.startswith("the archive was stopped")
