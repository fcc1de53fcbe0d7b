"""A segment file that lacks bytes of the padding at its end."""

from __future__ import annotations

from pathlib import Path

import pytest

from everlog.aeron import archive
from everlog.stores import open_store

TERM = SEGMENT = 65536
PAYLOAD = b"x" * 992  # with its header 1024 bytes: 63 of them, then 1024 bytes are left
LONG = b"y" * 1001


@pytest.mark.parametrize("lacking", [1, 31, 32, 900])
def test_nothing_is_lost_of_the_next_segment(tmp_path: Path, lacking: int) -> None:
    """The message that does not fit into the first term begins the second one, behind 1024 bytes of padding."""
    with (
        archive.create(tmp_path, segment_length=SEGMENT) as store,
        store.start_recording("aeron:ipc", 1, term_length=TERM) as recorder,
    ):
        for _ in range(63):
            recorder.append(PAYLOAD)
        recorder.append(LONG)
        recorder.append(b"last")
    file = tmp_path / "0-0.rec"
    assert file.stat().st_size == SEGMENT
    file.write_bytes(file.read_bytes()[:-lacking])
    faults = []
    with open_store(tmp_path) as store:
        found = [bytes(record.payload) for record in store.read("0", on_fault=faults.append)]
        report = store.verify()
    assert found == [PAYLOAD] * 63 + [LONG, b"last"]
    (fault,) = faults
    assert (fault.code, fault.file, fault.offset) == ("segment-short", "0-0.rec", SEGMENT - lacking)
    assert (fault.found, fault.loses) == (f"{SEGMENT - lacking} bytes", "nothing")
    assert report.record_count == 65
    assert [f.code for f in report.faults] == ["segment-short"]
