"""Fixtures of the tests in this folder."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from everlog.aeron import archive as archives
from everlog.aeron.archive.archive import Archive
from tests.aeron.archive.recorded import CHANNEL, SEGMENT, STREAM
from tests.aeron.archive.recording.recorded_messages import HOLD, run


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "archive"


@pytest.fixture
def store(folder: Path) -> Iterator[Archive]:
    with archives.create(folder, segment_length=SEGMENT, liveness_timeout_s=0) as made:
        yield made


@pytest.fixture
def theirs(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process, which has the archive open and records."""
    with archives.create(folder, segment_length=SEGMENT) as made:
        made.start_recording(CHANNEL, STREAM).append(b"first")
    process = run(HOLD, str(folder))
    assert process.stdout is not None
    assert process.stdout.readline() == "open\n"
    yield process
    process.kill()
    process.wait()
    process.stdout.close()
    assert process.stdin is not None
    process.stdin.close()
