"""Catalogs that a crash leaves."""

from __future__ import annotations

import pytest

from everlog.testing.storage.crashing import CrashingStorage
from tests.aeron.archive.recorded import CHANNEL, STREAM, opened, quiet


class _Died(BaseException):
    """The process dies here."""


def killed_while_it_starts_a_recording(storage: CrashingStorage) -> CrashingStorage:
    """The folder after a kill between the next recording id and the entry's header."""
    archive = opened(storage)
    after: list[CrashingStorage] = []
    count = 0

    def note(what: str) -> None:
        nonlocal count
        count += what == "write"
        if count == 3:
            after.append(storage.kill())
            raise _Died

    storage.after_each = note
    with pytest.raises(_Died):
        archive.start_recording(CHANNEL, STREAM)
    storage.after_each = None
    archive.abandon()
    return after[0]


def test_recordings_whose_addition_was_interrupted_one_after_the_other_leave_a_catalog_that_can_be_opened(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    quiet(monkeypatch)
    storage = CrashingStorage()
    with opened(storage) as archive:
        archive.start_recording(CHANNEL, STREAM).stop()
    for _ in range(3):
        storage = killed_while_it_starts_a_recording(storage)
    with opened(storage) as archive:
        assert [each.recording_id for each in archive.recordings()] == [0]
        assert archive.start_recording(CHANNEL, STREAM).recording_id == 4
