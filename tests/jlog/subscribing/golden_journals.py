"""Journals that the C library wrote, and their payloads."""

from __future__ import annotations

import tarfile
from pathlib import Path

import tests

GOLDEN = tests.GOLDEN / "jlog"


def unpack(case: str, folder: Path) -> Path:
    before = GOLDEN / case / "before.tar.gz"
    with tarfile.open(before if before.exists() else GOLDEN / case / "log.tar.gz") as tar:
        tar.extractall(folder, filter="data")
    return folder / "log"


def payloads(subscriber) -> list[bytes]:
    return [message.payload for message in subscriber]
