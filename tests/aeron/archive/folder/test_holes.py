"""An archive's files with holes of a terabyte: what was never written is not read."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from everlog.aeron.archive.store import ArchiveStore
from everlog.core.files.storage import LocalStorage
from everlog.core.report import Fault
from everlog.testing.made.archive import MadeRecording, frame, write_archive
from everlog.testing.system_calls import SystemCalls

TERABYTE = 1 << 40


def lengthened(file: Path) -> None:
    """A hole behind what is there."""
    os.truncate(file, TERABYTE)


def emptied(file: Path) -> None:
    """Nothing but a hole."""
    file.write_bytes(b"")
    os.truncate(file, TERABYTE)


def parted(file: Path) -> None:
    """A hole in the middle."""
    data = file.read_bytes()
    with open(file, "wb") as parts:
        parts.write(data[: len(data) // 2])
        parts.seek(TERABYTE)
        parts.write(data[len(data) // 2 :])


@pytest.mark.parametrize("make_hole", [lengthened, emptied, parted])
@pytest.mark.parametrize("name", ["archive.catalog", "archive-mark.dat", "0-0.rec"])
def test_a_repair_is_planned_without_reading_holes(
    archive_copy: Callable[[str], Path], name: str, make_hole: Callable[[Path], None]
) -> None:
    folder = archive_copy("archive-crash/crash-plain")
    assert (folder / name).exists()
    make_hole(folder / name)
    with SystemCalls(limit=6000, max_bytes=64 << 20), ArchiveStore.open(LocalStorage(folder), {}) as store:
        store.streams()
        store.info()
        plan = store.plan_repair()
    assert (folder / name).stat().st_size >= TERABYTE
    if name == "archive-mark.dat":
        assert [step.file for step in plan.steps][:1] == [name]
    if name == "archive.catalog" and make_hole is emptied:
        assert plan.steps[0].file == name


@pytest.mark.parametrize("is_active", [True, False])
def test_files_that_were_allocated_and_not_written_are_not_read(tmp_path: Path, is_active: bool) -> None:
    """64 files of a gigabyte, with a message at the start and, where the recording was stopped, one far behind."""
    length, count = 1 << 30, 64
    recording = MadeRecording(0, count, is_active=is_active, segment_length=length)
    folder = write_archive(tmp_path / "archive", [recording])
    for number in range(count):
        with open(folder / f"0-{number * length}.rec", "wb") as file:
            if number == 0:
                file.write(frame(0, b"first"))
            if number == count - 1 and not is_active:
                file.seek(length - 128)
                file.write(frame(count * length - 128, b"last"))
            file.truncate(length)
    end = count * length - 64
    if not is_active:
        catalog = (folder / "archive.catalog").read_bytes()
        new = catalog.replace(recording.end.to_bytes(8, "little"), end.to_bytes(8, "little"))
        (folder / "archive.catalog").write_bytes(new)
    faults: list[Fault] = []
    with SystemCalls(limit=40_000, max_bytes=64 << 20), ArchiveStore.open(LocalStorage(folder), {}) as store:
        assert len(store.streams()) == 1
        payloads = [record.payload for record in store.read("0", on_fault=faults.append)]
        codes = {fault.code for fault in store.verify().faults}
        store.plan_repair()
    if is_active:
        assert (payloads, faults) == ([b"first"], [])
        assert "segment-empty" in codes
    else:
        assert payloads == [b"first", b"last"]
        assert [(fault.code, fault.loses) for fault in faults] == [("unset-frame", f"positions 64 to {end - 64}")]
