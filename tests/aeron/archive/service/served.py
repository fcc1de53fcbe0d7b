"""Clients of a served archive, for tests of its process."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from everlog.aeron.archive.client import AeronArchive
from everlog.aeron.archive.folder.archive import load_mark
from everlog.aeron.archive.service.settings.settings import ArchiveSettings
from everlog.aeron.mark_file import ArchiveMark
from everlog.core.files.storage import LocalStorage

CONTROL = "aeron:ipc?term-length=64k"
CHANNEL = "aeron:ipc?term-length=64k"
STREAM = 1001
SECONDS = 20.0
SMALL: dict[str, Any] = {"segment_file_length": 128 << 10, "low_storage_space_threshold": 0}


def settings(**other: Any) -> ArchiveSettings:
    """Those of a small archive."""
    return ArchiveSettings(**SMALL | other)


def connect(driver_folder: str | Path, **options: Any) -> AeronArchive:
    """A client of the archive on this driver."""
    chosen: dict[str, Any] = {
        "control_request_channel": CONTROL,
        "control_response_channel": CONTROL,
        "aeron_directory_name": driver_folder,
        **options,
    }
    return AeronArchive.connect(**chosen)


def until(condition: Callable[[], bool], seconds: float = SECONDS) -> None:
    """Wait for something that happens later."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.002)


def record(client: AeronArchive, payloads: list[bytes], stream_id: int = STREAM) -> int:
    """Begin a recording and publish to it; returns the position after what is recorded. The recording goes on."""
    publication = client.add_recorded_exclusive_publication(CHANNEL, stream_id)
    found: list[int] = []

    def has_begun() -> bool:
        found[:] = [each.recording_id for each in client.list_recordings_for_uri("ipc", stream_id)]
        return bool(found)

    until(has_begun)
    until(lambda: publication.is_connected)
    position = 0
    for payload in payloads:
        position = publication.send(payload)
    until(lambda: client.recording_position(found[-1]) == position)
    return position


def mark_of(folder: Path) -> ArchiveMark:
    """The mark file."""
    mark = load_mark(LocalStorage(folder))
    assert mark is not None
    return mark
