"""Archives that tests record into, on storages of every kind, and what is read from them again."""

from __future__ import annotations

from typing import Any

import pytest

from everlog.aeron.archive.archive import Archive
from everlog.aeron.archive.recording.options import ArchiveOptions
from everlog.aeron.archive.store import ArchiveStore
from everlog.aeron.archive.writing import heartbeat
from everlog.core.files.storage import Storage
from everlog.core.files.writable import WritableStorage
from everlog.errors import EverlogError
from everlog.testing.storage.ledger import Ledger

TERM = SEGMENT = 64 << 10
MTU = 1408
CHANNEL = "aeron:ipc?term-length=64k|init-term-id=7|session-id=-99"
STREAM = 1001
CALM: dict[str, Any] = {"segment_length": SEGMENT, "catalog_capacity": 4096, "liveness_timeout_s": 0}
"""Small files; an owner that was killed keeps the folder no longer than the test knows of it."""


def opened(storage: WritableStorage, **options: Any) -> Archive:
    """An archive; it is made if it is not there."""
    return Archive.create(storage, ArchiveOptions(**(CALM | options)), exist_ok=True)


def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """No heartbeat among the operations that are counted."""
    monkeypatch.setattr(heartbeat, "INTERVAL_S", 3600.0)


def recordings(storage: Storage) -> dict[int, list[bytes]]:
    """All messages, past what is damaged, by recording."""
    with ArchiveStore.open(storage, {}) as store:
        return {
            int(info.name): [record.payload for record in store.read(info.name, on_fault=lambda fault: None)]
            for info in store.streams()
        }


def faults(storage: Storage) -> list[str]:
    """What verify finds, without notes."""
    with ArchiveStore.open(storage, {}) as store:
        return [str(fault) for fault in store.verify().faults if fault.severity.value == "fault"]


def payload(number: int, size: int = 100) -> bytes:
    """Sizes around those of sectors and pages, some of several fragments. None ends in zeros."""
    text = b"message %d." % number
    return text + bytes([97 + number % 26]) * (size * (1, 4, 20, 9)[number % 4])


class Ledgers:
    """A ledger for each recording, by its id; and errors that no ledger has."""

    def __init__(self) -> None:
        self.ledgers: dict[int, Ledger] = {}
        self.errors: list[EverlogError] = []

    def of(self, recording_id: int) -> Ledger:
        """That of one recording."""
        return self.ledgers.setdefault(recording_id, Ledger())

    def copy(self) -> Ledgers:
        """As they are now."""
        new = Ledgers()
        new.errors = list(self.errors)
        new.ledgers = {number: ledger.copy() for number, ledger in self.ledgers.items()}
        return new

    @property
    def all_errors(self) -> list[EverlogError]:
        """Of all."""
        return [*self.errors, *(error for ledger in self.ledgers.values() for error in ledger.errors)]

    def complaints(self, found: dict[int, list[bytes]], **how: bool) -> list[str]:
        """What is wrong with what was read."""
        return [
            f"recording {number}: {text}"
            for number, ledger in self.ledgers.items()
            for text in ledger.complaints(found.get(number, []), **how)
        ]
