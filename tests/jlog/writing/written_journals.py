"""Reads what a writer wrote."""

from __future__ import annotations

import tarfile
from pathlib import Path

import everlog
import tests

GOLDEN = tests.GOLDEN / "jlog"


def unpack(case: str, folder: Path) -> Path:
    with tarfile.open(GOLDEN / case / "log.tar.gz") as tar:
        tar.extractall(folder, filter="data")
    return folder / "log"


def read(path: Path) -> list[bytes]:
    with everlog.open_store(path) as store:
        return [record.payload for record in store.read("journal")]


def payload(i: int, n: int) -> bytes:
    """The golden journals' payloads, by their formula."""
    return bytes((i * 131 + j * 7 + (j >> 8) * 13) & 255 for j in range(n))
