"""The client on our own archive service, in one thread and in three."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from everlog.aeron.archive.client import AeronArchive
from everlog.aeron.archive.service.embedded import EmbeddedArchive
from everlog.aeron.archive.service.settings.choices import ThreadingMode
from everlog.aeron.archive.service.settings.settings import ArchiveSettings
from everlog.aeron.transport.driver.running_driver import RunningDriver
from tests.aeron.archive.client.scenarios import ClientScenarios
from tests.aeron.archive.client.scripted_archive import CONTROL


@pytest.fixture(params=["SHARED", "DEDICATED"])
def archive(request: pytest.FixtureRequest, driver: RunningDriver, tmp_path: Path) -> Iterator[AeronArchive]:
    mode: ThreadingMode = request.param
    settings = ArchiveSettings(segment_file_length=128 << 10, low_storage_space_threshold=0, threading_mode=mode)
    with (
        EmbeddedArchive(tmp_path / "archive", settings, driver_folder=driver.dir),
        AeronArchive.connect(
            control_request_channel=CONTROL, control_response_channel=CONTROL, aeron_directory_name=driver.dir
        ) as client,
    ):
        yield client


class TestRequests(ClientScenarios):
    """On our service."""
