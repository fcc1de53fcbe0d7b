"""A scripted archive with a driver, and clients of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from everlog.aeron.archive.client import AeronArchive
from everlog.aeron.transport.driver.running_driver import RunningDriver
from tests.aeron.archive.client.scripted_archive import CONTROL, ScriptedArchive, in_process_driver


@pytest.fixture(scope="module")
def driver() -> Iterator[RunningDriver]:
    with in_process_driver() as running:
        yield running


@pytest.fixture
def archive(driver: RunningDriver) -> Iterator[ScriptedArchive]:
    running = ScriptedArchive(driver.dir)
    yield running
    running.close()


@pytest.fixture
def place(driver: RunningDriver) -> dict[str, Any]:
    """The options of a client."""
    return {
        "control_request_channel": CONTROL,
        "control_response_channel": CONTROL,
        "aeron_directory_name": driver.dir,
    }


@pytest.fixture
def connect(archive: ScriptedArchive, place: dict[str, Any]) -> Iterator[Callable[..., AeronArchive]]:
    """Connects a client with these options; all are closed with the test."""
    with ExitStack() as opened:
        yield lambda **settings: opened.enter_context(AeronArchive.connect(**place | settings))
