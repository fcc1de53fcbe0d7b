"""Golden journals, unpacked once, and hand-made ones."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tests
from everlog.testing.storage.memory import MemoryStorage

GOLDEN = tests.GOLDEN / "jlog"
PLAIN = 0x663A7318
NULL = 0x15106A00
LZ4 = 0x15106A01


def archive_of(case: str) -> Path:
    """The tar file of a case: of a damaged one, as it was before any repair."""
    before = GOLDEN / case / "before.tar.gz"
    return before if before.exists() else GOLDEN / case / "log.tar.gz"


@pytest.fixture
def golden() -> Callable[[str], MemoryStorage]:
    """A golden journal's folder, in memory."""
    return lambda case: MemoryStorage.of_tar(archive_of(case))


@pytest.fixture
def truth() -> Callable[[str], dict[str, Any]]:
    """What the real library said of a golden journal."""
    return lambda case: json.loads((GOLDEN / case / "truth.json").read_text())


def message(payload: bytes, time: int = 1_700_000_000, usec: int = 0, magic: int = PLAIN) -> bytes:
    """A framed message of a plain journal."""
    return struct.pack("<IIII", magic, time, usec, len(payload)) + payload


def stored(payload: bytes, length: int, time: int = 1_700_000_000, magic: int = NULL) -> bytes:
    """A framed message of a compressed journal, with the payload as stored."""
    return struct.pack("<IIIII", magic, time, 0, length, len(payload)) + payload


def metastore(log: int = 0, limit: int = 1 << 20, safety: int = 1, magic: int = PLAIN) -> bytes:
    """A metastore."""
    return struct.pack("<IIII", log, limit, safety, magic)


def index(*offsets: int) -> bytes:
    """An index."""
    return struct.pack(f"<{len(offsets)}Q", *offsets)


def folder(files: dict[str, bytes]) -> MemoryStorage:
    """A journal's folder in memory, with a metastore unless there is one."""
    return MemoryStorage({"metastore": metastore()} | files, root="made by hand")


@pytest.fixture
def make() -> Any:
    """The makers above, as one namespace."""
    from types import SimpleNamespace

    return SimpleNamespace(
        message=message,
        stored=stored,
        metastore=metastore,
        index=index,
        folder=folder,
        PLAIN=PLAIN,
        NULL=NULL,
        LZ4=LZ4,
    )


class HandMade:
    """A journal's folder on disk, written with plain file calls, as a C process does."""

    def __init__(self, path: Path, *, magic: int = PLAIN, safety: int = 1) -> None:
        self.path = path
        self.magic = magic
        self.safety = safety
        path.mkdir()
        self.store_log(0)

    def store_log(self, log: int) -> None:
        """Say in the metastore that ``log`` is written now."""
        name = self.path / "metastore"
        with name.open("r+b" if name.exists() else "wb") as file:
            file.write(metastore(log, 4096, self.safety, self.magic))

    def append(self, log: int, *payloads: bytes, raw: bytes = b"") -> None:
        """Append messages (and ``raw`` bytes behind them) to a segment, which is made where it is not there."""
        with (self.path / f"{log:08x}").open("ab") as file:
            file.write(b"".join(message(payload) for payload in payloads) + raw)

    def roll(self, log: int) -> None:
        """Make segment ``log`` and say that it is written now, in the C library's order."""
        (self.path / f"{log:08x}").touch()
        self.store_log(log)

    def segments(self, *lists: list[bytes], first: int = 0) -> None:
        """Segments from ``first`` on, the last of them being written."""
        for log, payloads in enumerate(lists, first):
            self.append(log, *payloads)
        self.store_log(first + len(lists) - 1)

    def put_checkpoint(self, name: bytes, log: int, marker: int) -> Path:
        """A subscriber, as the C library writes it."""
        file = self.path / f"cp.{name.hex()}"
        file.write_bytes(struct.pack("<II", log, marker))
        return file

    def checkpoint(self, name: bytes) -> tuple[int, ...]:
        """A subscriber's segment and number."""
        return struct.unpack("<II", (self.path / f"cp.{name.hex()}").read_bytes())

    def names(self) -> list[str]:
        """What is in the folder, but for the metastore."""
        return sorted(entry.name for entry in self.path.iterdir() if entry.name != "metastore")


@pytest.fixture
def by_hand(tmp_path: Path) -> HandMade:
    """An empty journal, written by hand."""
    return HandMade(tmp_path / "by-hand")
