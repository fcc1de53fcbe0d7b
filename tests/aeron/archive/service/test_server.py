"""A live archive as a child process."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from everlog.aeron import archive as archives
from everlog.aeron.archive.client import AeronArchive
from everlog.aeron.archive.service.embedded import EmbeddedArchive
from everlog.aeron.archive.service.server import ArchiveServer
from everlog.aeron.mark_file import now_ms
from everlog.aeron.transport.driver.running_driver import RunningDriver
from everlog.aeron.transport.driver.settings.configuration import Configuration
from everlog.aeron.transport.format.cnc_file import CncFile
from everlog.core.files.storage import LocalStorage
from everlog.errors import StoreUnavailable, UsageError
from tests.aeron.archive.client.scripted_archive import in_process_driver
from tests.aeron.archive.service.served import CONTROL, connect, mark_of, record, settings, until

PAYLOADS = [b"one", b"two", b"three"]
RECOVERED = ["set the stop positions of 1 recordings in archive.catalog"]


@pytest.fixture(scope="module")
def driver() -> Iterator[RunningDriver]:
    with in_process_driver() as running:
        yield running


def replayed(client: AeronArchive, recording_id: int = 0) -> list[bytes]:
    with client.replay_messages(recording_id, CONTROL, 4000) as messages:
        return [payload for payload, _ in messages]


def test_a_child_serves_refuses_others_and_ends_in_good_order_at_sigterm(driver: RunningDriver, tmp_path: Path) -> None:
    with ArchiveServer.launch(tmp_path, settings(archive_id=5), driver_folder=driver.dir) as server:
        assert (server.archive_id, server.control_channels, server.recovered) == (5, [CONTROL], [])
        assert server.driver_folder == driver.dir
        assert server.pid != os.getpid()
        assert mark_of(tmp_path).header.pid == server.pid
        # The parent's tools and other archives are refused, and the child goes on.
        with pytest.raises(StoreUnavailable, match="already open in another everlog process"):
            archives.open_archive(tmp_path)
        with pytest.raises(StoreUnavailable, match="already open in another everlog process"):
            ArchiveServer.launch(tmp_path, settings(), driver_folder=driver.dir, in_process=True)
        with pytest.raises(StoreUnavailable, match="an archive with id 5 on this driver is running"):
            ArchiveServer.launch(tmp_path / "other", settings(archive_id=5), driver_folder=driver.dir, in_process=True)
        with connect(driver.dir) as client:
            end = record(client, PAYLOADS)
            os.kill(server.pid, signal.SIGTERM)
            assert server.wait(20)
        assert not server.is_running
    assert mark_of(tmp_path).header.activity_timestamp == -1
    with ArchiveServer.launch(tmp_path, settings(archive_id=5), driver_folder=driver.dir, in_process=True) as again:
        assert again.recovered == []
        with connect(driver.dir) as client:
            assert client.stop_position(0) == end
            assert replayed(client) == PAYLOADS


def test_an_archive_that_is_killed_keeps_its_folder_a_while_and_the_next_one_recovers(
    driver: RunningDriver, tmp_path: Path
) -> None:
    server = ArchiveServer.launch(tmp_path, settings(), driver_folder=driver.dir)
    client = connect(driver.dir)
    end = record(client, PAYLOADS)
    server.kill()
    killed_ms = now_ms()
    assert not server.is_running
    client.close()
    with pytest.raises(StoreUnavailable, match=rf"is owned by process {server.pid}, active \d\.\d s ago"):
        ArchiveServer.launch(tmp_path, settings(), driver_folder=driver.dir, in_process=True)
    while True:
        try:
            again = EmbeddedArchive(tmp_path, settings(), driver_folder=driver.dir, liveness_timeout_s=0.2)
            break
        except StoreUnavailable:
            assert now_ms() - killed_ms < 20_000
            time.sleep(0.05)
    with again:
        assert again.recovered == RECOVERED
        with connect(driver.dir) as client:
            assert client.stop_position(0) == end
            assert replayed(client) == PAYLOADS


def test_refusals_of_a_child_are_raised_here(driver: RunningDriver, tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text('[principal.me]\ncredentials = "hidden"\nallow = ["Nothing"]\n')
    with pytest.raises(UsageError, match=r"rules\.toml: principal me must be .*, not request 'Nothing'") as refused:
        ArchiveServer.launch(tmp_path / "archive", driver_folder=driver.dir, security_file=str(rules))
    assert "hidden" not in repr(refused.value)
    assert not (tmp_path / "archive").exists()


def test_a_driver_to_use_and_another_one_to_start_exclude_each_other(tmp_path: Path) -> None:
    configuration = Configuration(dir=str(tmp_path / "mine"))
    with pytest.raises(UsageError, match="give driver_folder for a driver that runs already, or driver to start one"):
        ArchiveServer.launch(tmp_path, driver_folder=tmp_path / "other", driver=configuration)


def test_an_archive_in_this_process_can_not_be_killed(driver: RunningDriver, tmp_path: Path) -> None:
    server = ArchiveServer.launch(tmp_path, settings(), driver_folder=driver.dir, in_process=True)
    with server, pytest.raises(UsageError, match="can't be killed"):
        server.kill()
    assert not server.is_running
    assert server.wait(0)


def test_warnings_of_a_security_file_that_others_can_read_reach_the_caller(
    driver: RunningDriver, tmp_path: Path
) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text('default = "allow"\n')
    rules.chmod(0o644)
    warnings: list[str] = []
    with ArchiveServer.launch(
        *(tmp_path / "archive", settings()),
        driver_folder=driver.dir,
        security_file=str(rules),
        in_process=True,
        warn=warnings.append,
    ):
        assert len(warnings) == 1
        assert "chmod 600" in warnings[0]


@pytest.mark.long  # ten seconds are the client's patience with its driver
def test_with_a_driver_of_its_own_it_ends_when_that_driver_is_killed(tmp_path: Path) -> None:
    shared = tempfile.mkdtemp(prefix="everlog-server-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
    driver = Configuration(dir=f"{shared}/driver", ipc_term_buffer_length=64 << 10)
    try:
        server = ArchiveServer.launch(tmp_path, settings(), driver=driver)
        assert server.driver_folder == driver.dir
        client = connect(driver.dir)
        record(client, PAYLOADS)
        os.kill(driver_pid(driver.dir), signal.SIGKILL)
        assert server.wait(30)
        client.close()
        server.close()
        # The archive has given its folder back, without stop positions.
        with archives.open_archive(tmp_path) as again:
            assert again.recovered == RECOVERED
            assert [record.payload for record in again.replay(0)] == PAYLOADS
    finally:
        shutil.rmtree(shared, ignore_errors=True)


def driver_pid(folder: str) -> int:
    with CncFile.open(LocalStorage(Path(folder))) as cnc:
        return cnc.header.pid


@pytest.mark.long
def test_nothing_of_a_child_outlives_its_server_object(driver: RunningDriver, tmp_path: Path) -> None:
    server = ArchiveServer.launch(tmp_path, settings(), driver_folder=driver.dir)
    server.close()
    server.close()
    until(lambda: not os.path.exists(f"/proc/{server.pid}"))
    assert not server.is_running
