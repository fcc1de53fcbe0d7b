"""A live archive in this process: its start, what it refuses, its end."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import everlog
from everlog.aeron import archive as archives
from everlog.aeron.archive.client import ArchiveTimeout, Credentials, ErrorCode
from everlog.aeron.archive.format.mark_place import MARK_NAME
from everlog.aeron.archive.recording.refusals import ArchiveError
from everlog.aeron.archive.service.counters import ARCHIVE_ERRORS_TYPE_ID
from everlog.aeron.archive.service.embedded import EmbeddedArchive
from everlog.aeron.archive.service.queries.listing import RecordingListing
from everlog.aeron.archive.service.security.rules_file import load_rules
from everlog.aeron.layouts import ArchiveMarkHeader, SbeMessageHeader
from everlog.aeron.mark_file import now_ms
from everlog.aeron.transport.client import Aeron
from everlog.aeron.transport.client.errors import DriverTimeout, RegistrationRefused
from everlog.aeron.transport.driver.running_driver import RunningDriver
from everlog.errors import StoreUnavailable
from everlog.time_units import NS_PER_MS
from tests.aeron.archive.client.scripted_archive import in_process_driver
from tests.aeron.archive.service.served import CONTROL, connect, mark_of, record, settings, until

SECRET, OTHER_SECRET = "correct-horse-battery", "staple-of-another"
RULES = f"""
allow = ["ListRecordings"]

[principal.operator]
credentials = "{SECRET}"
allow = ["*"]

[principal.viewer]
credentials = "{OTHER_SECRET}"
"""


@pytest.fixture(scope="module")
def driver() -> Iterator[RunningDriver]:
    with in_process_driver() as running:
        yield running


def archive_counters(driver: RunningDriver) -> list[str]:
    with Aeron.connect(driver.dir) as aeron:
        return [counter.label for counter in aeron.counters if 100 <= counter.type_id <= 113]


def test_an_archive_serves_from_its_start_to_its_end(driver: RunningDriver, tmp_path: Path) -> None:
    folder = tmp_path / "new" / "archive"
    with EmbeddedArchive(folder, settings(archive_id=42), driver_folder=driver.dir) as running:
        assert running.is_running
        assert running.recovered == []
        assert running.control_channels == [CONTROL]
        with connect(driver.dir) as client:
            assert client.archive_id == running.archive_id == 42
            end = record(client, [b"one", b"two"])
        mark = mark_of(folder)
        assert mark.is_live(now_ms())
        assert (mark.header.pid, mark.header.archive_id) == (os.getpid(), 42)
        assert mark.texts["local_control_channel"] == CONTROL
        assert mark.texts["aeron_directory"] == driver.dir
    assert not running.is_running
    assert running.wait(0)
    assert running.failure is None
    assert mark_of(folder).header.activity_timestamp == -1
    with archives.open_archive(folder) as closed:
        assert closed.recovered == []
        assert closed.stop_position(0) == end
    running.close()
    assert archive_counters(driver) == []


def test_a_second_archive_on_the_folder_is_refused_and_leaves_nothing(driver: RunningDriver, tmp_path: Path) -> None:
    with EmbeddedArchive(tmp_path, settings(archive_id=1), driver_folder=driver.dir):
        before = archive_counters(driver)
        with pytest.raises(StoreUnavailable, match="already open in another everlog process"):
            EmbeddedArchive(tmp_path, settings(archive_id=2), driver_folder=driver.dir)
        until(lambda: archive_counters(driver) == before)


def test_a_second_archive_with_the_same_id_is_refused_before_it_takes_its_folder(
    driver: RunningDriver, tmp_path: Path
) -> None:
    with EmbeddedArchive(tmp_path / "first", settings(archive_id=7), driver_folder=driver.dir):
        with pytest.raises(StoreUnavailable, match="an archive with id 7 on this driver is running") as refused:
            EmbeddedArchive(tmp_path / "second", settings(archive_id=7), driver_folder=driver.dir)
        assert str(refused.value.hint).startswith("give each archive of a driver its own id")
        assert not (tmp_path / "second").exists()
    with EmbeddedArchive(tmp_path / "second", settings(archive_id=7), driver_folder=driver.dir) as second:
        assert second.is_running


def test_a_folder_whose_mark_file_says_that_a_java_archive_is_alive_is_refused(
    driver: RunningDriver, tmp_path: Path
) -> None:
    archives.create(tmp_path).close()
    data = bytearray((tmp_path / MARK_NAME).read_bytes())
    field = ArchiveMarkHeader.field("activity_timestamp")
    at = SbeMessageHeader.size + field.offset
    data[at : at + 8] = now_ms().to_bytes(8, "little")
    (tmp_path / MARK_NAME).write_bytes(data)
    with pytest.raises(StoreUnavailable, match=r"is owned by process \d+, active 0\.\d s ago"):
        EmbeddedArchive(tmp_path, settings(), driver_folder=driver.dir)
    assert (tmp_path / MARK_NAME).read_bytes() == data


@pytest.mark.long
def test_without_a_driver_the_folder_is_not_touched(tmp_path: Path) -> None:
    with pytest.raises(DriverTimeout, match="no media driver runs in"):
        EmbeddedArchive(tmp_path / "archive", settings(), driver_folder=tmp_path / "driver")
    assert not (tmp_path / "archive").exists()


def test_a_control_channel_that_the_driver_refuses_gives_the_folder_back(driver: RunningDriver, tmp_path: Path) -> None:
    wrong = settings(control_channel="aeron:udp?endpoint=192.0.2.1:8010|interface=192.0.2.1")
    with pytest.raises(RegistrationRefused):
        EmbeddedArchive(tmp_path, wrong, driver_folder=driver.dir)
    until(lambda: archive_counters(driver) == [])
    with EmbeddedArchive(tmp_path, settings(), driver_folder=driver.dir) as running:
        assert running.is_running


def test_a_control_channel_with_port_0_shows_the_port_that_it_got(driver: RunningDriver, tmp_path: Path) -> None:
    chosen = settings(control_channel="aeron:udp?endpoint=127.0.0.1:0")
    with EmbeddedArchive(tmp_path, chosen, driver_folder=driver.dir) as running:
        network, local = running.control_channels
        assert local == CONTROL
        assert network.startswith("aeron:udp?endpoint=127.0.0.1:")
        assert not network.endswith(":0")
        with connect(
            driver.dir, control_request_channel=network, control_response_channel="aeron:udp?endpoint=127.0.0.1:0"
        ) as client:
            assert client.archive_id == running.archive_id


def test_a_driver_that_ends_ends_the_archive_and_the_next_start_recovers_its_recordings(tmp_path: Path) -> None:
    ended: list[bool] = []
    with in_process_driver() as driver:
        running = EmbeddedArchive(
            tmp_path, settings(), driver_folder=driver.dir, on_end=lambda: ended.append(running.is_running)
        )
        client = connect(driver.dir)
        end = record(client, [b"one", b"two", b"three"])
    assert running.wait(20)
    client.close()
    until(lambda: bool(ended))
    assert ended == [False]
    assert isinstance(running.failure, DriverTimeout)
    running.close()
    # Nobody has written the stop position, and the folder is free at once.
    with everlog.open_store(tmp_path) as store:
        assert next(iter(store.streams())).details["stop_position"] is None
    assert any(
        "everlog.aeron.transport.client.errors.DriverTimeout" in error.text for error in mark_of(tmp_path).errors
    )
    with in_process_driver() as driver, EmbeddedArchive(tmp_path, settings(), driver_folder=driver.dir) as again:
        assert again.recovered == ["set the stop positions of 1 recordings in archive.catalog"]
        with connect(driver.dir) as client:
            assert client.stop_position(0) == end
            with client.replay_messages(0, CONTROL, 4000) as messages:
                assert [payload for payload, _ in messages] == [b"one", b"two", b"three"]


# Errors


def test_errors_that_answer_no_request_are_counted_logged_and_in_the_mark_file(
    driver: RunningDriver, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR, "everlog.aeron.archive")
    with EmbeddedArchive(tmp_path, settings(), driver_folder=driver.dir), Aeron.connect(driver.dir) as aeron:
        control = aeron.add_publication(CONTROL, 10)
        until(lambda: control.is_connected)
        wrong = SbeMessageHeader.pack(block_length=0, template_id=2, schema_id=99, version=1)
        for _ in range(3):
            assert control.offer(wrong) > 0
        (counter,) = [each for each in aeron.counters if each.type_id == ARCHIVE_ERRORS_TYPE_ID]
        until(lambda: aeron.counters.value(counter.counter_id) == 3)
        (error,) = mark_of(tmp_path).errors
        assert error.observation_count == 3
        assert "schema id 99" in error.text
        assert abs(error.last_observation_timestamp - now_ms()) < 60_000
        assert sum("schema id 99" in line for line in caplog.messages) == 3


# Security


def test_a_session_that_fails_ends_and_leaves_its_client_able_to_ask_again(
    driver: RunningDriver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(listing: RecordingListing, now_ns: int) -> int:
        raise RuntimeError("a fault of the archive")

    with (
        EmbeddedArchive(tmp_path, settings(archive_id=1), driver_folder=driver.dir) as running,
        connect(driver.dir) as client,
    ):
        record(client, [b"one"])
        with monkeypatch.context() as patch:
            patch.setattr(RecordingListing, "do_work", failing)
            patch.setattr(client._core.link.session, "_timeout_ns", 500 * NS_PER_MS)
            with pytest.raises(ArchiveTimeout):
                list(client.list_recordings())
        assert [each.recording_id for each in client.list_recordings()] == [0]
        assert running.is_running


@pytest.fixture(scope="module")
def secured(driver: RunningDriver, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedArchive]:
    folder = tmp_path_factory.mktemp("secured")
    path = folder / "rules.toml"
    path.write_text(RULES)
    path.chmod(0o600)
    rules = load_rules(str(path))
    with EmbeddedArchive(
        folder / "archive",
        settings(),
        driver_folder=driver.dir,
        authenticator=rules.authenticator,
        authorisation=rules.authorisation,
    ) as running:
        yield running


def test_who_has_the_right_credentials_may_do_what_the_rules_allow(
    secured: EmbeddedArchive, driver: RunningDriver
) -> None:
    with connect(driver.dir, credentials_supplier=Credentials(SECRET.encode())) as operator:
        record(operator, [b"secret"])
    with connect(driver.dir, credentials_supplier=Credentials(OTHER_SECRET.encode())) as viewer:
        assert [each.recording_id for each in viewer.list_recordings()] == [0]
        with pytest.raises(ArchiveError, match="unauthorised action") as refused:
            viewer.stop_position(0)
        assert refused.value.code is ErrorCode.UNAUTHORISED_ACTION
        assert len(list(viewer.list_recordings())) == 1  # the session goes on


@pytest.mark.parametrize("credentials", [b"", b"wrong", SECRET.encode() + b"x", SECRET.encode()[:-1]])
def test_who_has_wrong_credentials_is_rejected_and_no_output_has_any_secret(
    secured: EmbeddedArchive,
    driver: RunningDriver,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
    credentials: bytes,
) -> None:
    caplog.set_level(logging.DEBUG)
    with pytest.raises(ArchiveError, match="authentication rejected") as refused:
        connect(driver.dir, credentials_supplier=Credentials(credentials))
    assert refused.value.code is ErrorCode.AUTHENTICATION_REJECTED
    printed = capfd.readouterr()
    files = [path.read_bytes() for path in secured.folder.iterdir() if path.is_file()]
    seen = [caplog.text, printed.out, printed.err, repr(refused.value), *archive_counters(driver)]
    for secret in {SECRET, OTHER_SECRET, *([credentials.decode()] if credentials else [])}:
        assert not any(secret in text for text in seen)
        assert not any(secret.encode() in data for data in files)
