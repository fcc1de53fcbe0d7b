"""A driver for all tests of replays, and a service for each."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from everlog.aeron.transport.driver.media_driver import MediaDriver
from everlog.aeron.transport.driver.running_driver import RunningDriver
from tests.aeron.archive.service.replay.replay_world import TERM, World


@pytest.fixture(scope="session")
def replay_driver() -> Iterator[RunningDriver]:
    shared = "/dev/shm" if os.path.isdir("/dev/shm") else None
    parent = tempfile.mkdtemp(prefix="everlog-replay-", dir=shared)
    options: Any = {
        "timer_interval_ns": 10_000_000,
        "ipc_term_buffer_length": TERM,
        "publication_linger_timeout_ns": 50_000_000,
    }
    # In a process of its own: other tests look at this one's threads.
    with MediaDriver.launch(dir=f"{parent}/driver", counter_values_buffer_length=1 << 20, **options) as running:
        yield running
    shutil.rmtree(parent, ignore_errors=True)


@pytest.fixture
def world(replay_driver: RunningDriver, tmp_path: Path) -> Iterator[World]:
    made = World(replay_driver, tmp_path / "archive")
    yield made
    made.close()
