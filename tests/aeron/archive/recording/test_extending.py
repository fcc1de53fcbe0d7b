"""Going on with recordings whose channel says with which publication they began."""

from __future__ import annotations

from pathlib import Path

import pytest

import everlog
from everlog.aeron import archive
from everlog.errors import UsageError

CHANNEL = "aeron:ipc?term-length=64k|session-id=-77|init-term-id=3|term-id=5|term-offset=4096"


def test_another_publication_goes_on_where_the_first_one_stopped(tmp_path: Path) -> None:
    with archive.create(tmp_path / "a", segment_length=1 << 17) as store:
        with store.start_recording(CHANNEL, 10) as recorder:
            assert recorder.append(bytes(32)) == 2 * 65536 + 4096 + 64
        with store.extend_recording(0, session_id=8) as recorder:
            assert recorder.append(bytes(32)) == 2 * 65536 + 4096 + 128
        details = store.recording(0).details
        assert (details["session_id"], details["original_channel"]) == (8, CHANNEL)
        assert (details["start_position"], details["stop_position"]) == (135168, 135296)


def test_a_channel_that_is_given_must_join_where_the_recording_stops(tmp_path: Path) -> None:
    with archive.create(tmp_path / "a", segment_length=1 << 17) as store:
        with store.start_recording(CHANNEL, 10) as recorder:
            recorder.append(bytes(32))
        with pytest.raises(UsageError, match="position"):
            store.extend_recording(0, CHANNEL)
        there = CHANNEL.replace("4096", "4160").replace("-77", "9")
        with store.extend_recording(0, there) as recorder:
            recorder.append(bytes(32))
        assert store.recording(0).session_id == 9


def mixed(folder: Path, session_ids: tuple[int, ...]) -> None:
    """100 messages with checksums, then 100 of each session without."""
    with (
        archive.create(folder, segment_length=1 << 20, checksum="crc32") as store,
        store.start_recording("aeron:ipc?term-length=64k", 1) as recorder,
    ):
        recorder.append_many([b"0-%d" % number for number in range(100)])
    for session_id in session_ids:
        with archive.open_archive(folder) as store, store.extend_recording(0, session_id=session_id) as recorder:
            recorder.append_many([b"%d-%d" % (session_id, number) for number in range(100)])


@pytest.mark.parametrize("session_ids", [(7,), (7, 8)], ids=["one", "two"])
def test_extensions_without_checksums_are_read_although_the_first_frames_have_some(
    tmp_path: Path, session_ids: tuple[int, ...]
) -> None:
    mixed(tmp_path / "a", session_ids)
    expected = [b"%d-%d" % (session_id, number) for session_id in (0, *session_ids) for number in range(100)]
    with everlog.open_store(str(tmp_path / "a")) as reader:
        assert [record.payload for record in reader.read("0")] == expected
        assert not [fault for fault in reader.verify().faults if fault.file.endswith(".rec")]
    with archive.open_archive(tmp_path / "a") as store:
        assert [record.payload for record in store.replay(0)] == expected


def test_a_damaged_frame_between_equal_ones_is_told_although_its_checksum_is_theirs(tmp_path: Path) -> None:
    with (
        archive.create(tmp_path / "a", segment_length=1 << 20, checksum="crc32") as store,
        store.start_recording("aeron:ipc?term-length=64k", 1) as recorder,
    ):
        recorder.append_many([b"equal"] * 9)
    with (tmp_path / "a" / "0-0.rec").open("r+b") as file:
        file.seek(4 * 64 + 32)
        file.write(b"E")
    with everlog.open_store(str(tmp_path / "a")) as reader:
        assert [fault.code for fault in reader.verify().faults] == ["frame-checksum"]
