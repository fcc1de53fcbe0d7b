"""Monitoring of a running archive, the real one and ours: ``everlog metrics`` and ``check`` say what AeronStat and
ArchiveTool say."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from everlog.aeron.archive.folder.archive import load_mark
from everlog.aeron.archive.monitoring.observation import driver_folder as driver_of
from everlog.aeron.archive.service.server import ArchiveServer
from everlog.aeron.archive.service.settings.settings import ArchiveSettings
from everlog.aeron.transport.driver.settings.configuration import Configuration
from everlog.core.files.storage import LocalStorage
from everlog.core.monitoring.levels import Levels, Status
from tests.aeron.archive.monitoring.test_monitoring import checked, samples
from tests.interop.archive.java_archive import SMALL, ArchiveOptions, JavaArchive, Messages, archive_tool
from tests.interop.transport.java_transport import tool

pytestmark = pytest.mark.peer

CHANNEL = "aeron:ipc?term-length=64k"
COUNTER = re.compile(r" *\d+: +([\d,-]+) - (.*)")
LABELS = {
    "Archive Errors": "errors_total",
    "Archive Control Sessions": "control_sessions",
    "Archive Recording Sessions": "recording_sessions",
    "Archive Replay Sessions": "replay_sessions",
    "archive-recorder total write bytes": "recorder_written_bytes_total",
    "archive-replayer total read bytes": "replayer_read_bytes_total",
}
"""Beginnings of labels, as AeronStat prints them, and the metric of each."""


@pytest.fixture
def server(tmp_path: Path, driver_folder: Path) -> Iterator[ArchiveServer]:
    """Ours, with its own driver."""
    settings = ArchiveSettings(
        control_channel="aeron:udp?endpoint=localhost:0", segment_file_length=128 << 10, low_storage_space_threshold=0
    )
    driver = Configuration(
        dir=str(driver_folder), spies_simulate_connection=True, dir_delete_on_start=True, dir_delete_on_shutdown=True
    )
    with ArchiveServer.launch(tmp_path / "archive", settings, driver=driver) as started:
        yield started


@pytest.fixture(params=["java", "ours"])
def archive(
    request: pytest.FixtureRequest, start_archive: Callable[..., JavaArchive], tmp_path: Path
) -> tuple[Path, JavaArchive, bool]:
    """The folder of a running archive, the real client of it, and whether the archive is ours."""
    folder = tmp_path / "archive"
    if request.param == "java":
        return folder, start_archive(folder), False
    started: ArchiveServer = request.getfixturevalue("server")
    options = ArchiveOptions(driver_folder=Path(started.driver_folder), archive=CHANNEL, answers=CHANNEL)
    return folder, start_archive(tmp_path / "unused", options), True


def printed(jar: Path, folder: Path) -> dict[str, int]:
    """Values by metric, as AeronStat prints them."""
    mark = load_mark(LocalStorage(folder))
    assert mark is not None
    done = tool(jar, "io.aeron.samples.AeronStat", "watch=false", properties={"aeron.dir": driver_of(mark)})
    assert done.exit_code == 0, done.stderr
    found = {}
    for line in done.stdout.splitlines():
        match = COUNTER.fullmatch(line)
        for begin, name in LABELS.items():
            if match is not None and match[2].startswith(begin):
                found[name] = int(match[1].replace(",", ""))
        if match is not None and match[2].startswith("rec-pos: "):
            found[f"recording {match[2].split()[1]}"] = int(match[1].replace(",", ""))
    return found


def settled(folder: Path) -> dict[tuple[str, ...], float]:
    """The metrics, once the recorder has written what was published."""
    deadline = time.monotonic() + 10
    before = samples(folder)
    while time.monotonic() < deadline:
        time.sleep(0.5)
        now = samples(folder)
        if now["recorded_bytes",] == before["recorded_bytes",] > 0:
            return now
        before = now
    raise AssertionError(before)


def test_metrics_of_a_running_archive_are_what_aerons_tools_print(
    aeron_jar: Path, archive: tuple[Path, JavaArchive, bool]
) -> None:
    folder, client, is_ours = archive
    stopped = client.record(CHANNEL, 10, Messages(seed=1, sizes=SMALL, count=50))
    going = client.record(CHANNEL, 11, Messages(seed=2, sizes=SMALL, count=50), stop=False)
    found, theirs = settled(folder), printed(aeron_jar, folder)
    names = set(LABELS.values())
    assert {key[0]: value for key, value in found.items() if key[0] in names} == {
        name: value for name, value in theirs.items() if name in names
    }
    # The real one shares its driver's counter of errors, as ArchivingMediaDriver makes it, and has none of its own.
    assert names - theirs.keys() <= {"errors_total"}
    assert ("errors_total" in theirs) is is_ours
    assert theirs["recording_sessions"] == 1
    assert theirs["recorder_written_bytes_total"] > 0
    positions = {key[1]: value for key, value in found.items() if key[0] == "recording_position_bytes"}
    assert positions == {str(going.recording_id): theirs[f"recording {going.recording_id}"]}
    lengths = [client.find(stopped.recording_id).stop_position, positions[str(going.recording_id)]]
    assert found["recorded_bytes",] == sum(lengths)

    pid = archive_tool(aeron_jar, folder, "pid").stdout.strip()
    assert any(key[0] == "info" and pid in key for key in found)
    result = checked(folder, time.time_ns() // 1_000_000, errors=Levels())
    assert (result.status, result.findings) == (Status.OK, [])
    assert f"running as process {pid}" in result.summary


def test_a_killed_archive_is_critical_after_ten_seconds(
    start_archive: Callable[..., JavaArchive], tmp_path: Path
) -> None:
    folder = tmp_path / "archive"
    client = start_archive(folder)
    client.record(CHANNEL, 10, Messages(seed=1, sizes=SMALL, count=50), stop=False)
    client.kill()
    now_ms = time.time_ns() // 1_000_000
    assert checked(folder, now_ms + 11_000).status is Status.CRITICAL
