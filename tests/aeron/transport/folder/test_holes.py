"""A media driver's files with holes: what was never written is not read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from everlog.aeron.transport.format.layouts import CncMetaData, LogMetaData
from everlog.aeron.transport.store import DriverStore
from everlog.core.files.storage import LocalStorage
from everlog.core.report import Fault
from everlog.testing.made.driver import FRAME_LENGTH, TERM_LENGTH, write_driver
from everlog.testing.system_calls import SystemCalls

GIGABYTE = 1 << 30


@pytest.mark.parametrize(("is_image", "has_counters"), [(True, True), (True, False), (False, True)])
def test_terms_of_a_gigabyte_with_one_frame_are_not_read(tmp_path: Path, is_image: bool, has_counters: bool) -> None:
    folder = write_driver(tmp_path / "driver", publications=not is_image, images=is_image)
    (path,) = folder.rglob("*.logbuffer")
    whole = path.read_bytes()
    metadata = bytearray(whole[3 * TERM_LENGTH :])
    at = LogMetaData.field("term_length").offset
    metadata[at : at + 4] = GIGABYTE.to_bytes(4, "little")
    with open(path, "wb") as file:
        file.write(whole[:FRAME_LENGTH])
        file.seek(3 * GIGABYTE)
        file.write(metadata)
    if not has_counters:
        (folder / "cnc.dat").unlink()
    stream = f"{path.parent.name}/{path.stem}"
    faults: list[Fault] = []
    with SystemCalls(limit=1000, max_bytes=32 << 20), DriverStore.open(LocalStorage(folder), {}) as store:
        assert [info.name for info in store.streams()] == [stream]
        assert [record.payload for record in store.read(stream, on_fault=faults.append)] == [bytes(range(32))]
        assert store.verify().ok is has_counters


def test_room_for_counters_that_was_never_used_is_not_read(tmp_path: Path) -> None:
    folder = write_driver(tmp_path / "driver", publications=2)
    data = bytearray((folder / "cnc.dat").read_bytes())
    metadata_bytes = 3 << 29
    for name, length in (
        ("counters_metadata_buffer_length", metadata_bytes),
        ("counters_values_buffer_length", metadata_bytes // 4),
    ):
        at = CncMetaData.field(name).offset
        data[at : at + 4] = length.to_bytes(4, "little")
    (folder / "cnc.dat").write_bytes(data)
    os.truncate(folder / "cnc.dat", 2 << 30)
    with SystemCalls(limit=1000, max_bytes=32 << 20), DriverStore.open(LocalStorage(folder), {}) as store:
        store.info()
        codes = {fault.code for fault in store.verify().faults}
    assert "counters-missing" not in codes
    assert "counter-hidden" not in codes
