"""What the real archive records and does to recordings, as it replays it itself and as we read its folder."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import everlog
from everlog.core.report import Fault
from tests.interop.archive.java_archive import (
    CHECKSUM_CLASSES,
    MIXED,
    SMALL,
    ArchiveOptions,
    JavaArchive,
    Messages,
    PeerError,
    Positions,
    Signal,
    archive_tool,
    digest,
)

Start = Callable[..., JavaArchive]

CHANNEL = "aeron:ipc?term-length=64k"
SEGMENT = 128 << 10
REPLAYED = ["end_position", "length", "crc32", "reserved_value", "flags", "term_id", "term_offset"]
KILOBYTE = (992,)
"""With its header, a frame of 1 KiB: 128 of them are a segment."""


def ours(folder: Path, recording_id: int, level: str = "record") -> list[tuple[Any, ...]]:
    """All that we read of a recording, without a fault."""
    faults: list[Fault] = []
    found: list[tuple[Any, ...]] = []
    with everlog.open_store(folder) as store:
        for batch in store.scan(str(recording_id), columns=REPLAYED, level=level, on_fault=faults.append):
            found += batch.rows()
    assert faults == []
    return found


def theirs(archive: JavaArchive, recording_id: int, *, fragments: bool = False) -> list[tuple[Any, ...]]:
    """The same, as the archive replays it."""
    replay = archive.replay(recording_id, fragments=fragments)
    return [
        (m.end_position, m.length, m.crc32, m.reserved_value, m.flags, m.term_id, m.term_offset)
        for m in replay.messages
    ]


def segments(folder: Path) -> list[str]:
    return sorted(name for name in os.listdir(folder) if name.endswith(".rec"))


def kilobytes(archive: JavaArchive, count: int, channel: str = CHANNEL) -> int:
    """A stopped recording of frames of 1 KiB; its id."""
    return archive.record(channel, 5, Messages(seed=3, sizes=KILOBYTE, count=count)).recording_id


@pytest.mark.parametrize("checksum", [None, "crc32", "crc32c"])
def test_we_read_every_message_that_the_real_archive_recorded_and_extended(
    start_archive: Start, aeron_jar: Path, tmp_path: Path, checksum: str | None
) -> None:
    small, mixed = Messages(seed=1, count=400), Messages(seed=2, sizes=MIXED, count=300)
    more = Messages(seed=2, sizes=MIXED, count=100, first=300)
    with start_archive(tmp_path / "archive", ArchiveOptions(checksum=checksum)) as archive:
        first = archive.record(CHANNEL, 10, small)
        second = archive.record("aeron:udp?endpoint=localhost:24567|term-length=64k", 11, mixed)
        third = archive.extend(second.recording_id, more)
        assert (first.recording_id, second.recording_id, third.recording_id) == (0, 1, 1)
        assert third.begin == second.end
        described = archive.recordings()
        replays = [theirs(archive, 0), theirs(archive, 1)]
        fragments = theirs(archive, 1, fragments=True)
        summary = archive.replay(1, keeps_messages=False)
        assert archive.errors() == []

    assert [(d.recording_id, d.start_position, d.stop_position, d.stream_id) for d in described] == [
        (0, 0, first.end, 10),
        (1, 0, third.end, 11),
    ]
    assert [row[1:4] for row in replays[0]] == small.rows()
    assert [row[1:4] for row in replays[1]] == mixed.rows() + more.rows()
    assert (summary.count, summary.digest, summary.end) == (400, digest(mixed.rows() + more.rows()), third.end)
    assert [ours(tmp_path / "archive", 0), ours(tmp_path / "archive", 1)] == replays
    assert ours(tmp_path / "archive", 1, "frame") == fragments
    verify = ["verify", "-a"] if checksum is None else ["verify", "-a", "-checksum", CHECKSUM_CLASSES[checksum]]
    said = archive_tool(aeron_jar, tmp_path / "archive", *verify)
    assert (said.exit_code, said.stdout.splitlines()) == (0, ["(recordingId=0) OK", "(recordingId=1) OK"])


@pytest.mark.smoke
def test_a_part_of_a_recording_is_replayed_by_position_and_length(start_archive: Start, tmp_path: Path) -> None:
    with start_archive(tmp_path / "archive") as archive:
        recording_id = kilobytes(archive, 100)
        replay = archive.replay(recording_id, 10 << 10, 5 << 10)
    assert (replay.count, replay.begin, replay.end) == (5, 10 << 10, 15 << 10)
    assert replay.rows() == Messages(seed=3, sizes=KILOBYTE, count=5, first=10).rows()
    assert [message.end_position for message in replay.messages] == [11264, 12288, 13312, 14336, 15360]


def test_a_killed_archive_keeps_others_out_until_its_mark_file_goes_and_then_finds_the_end(
    start_archive: Start, tmp_path: Path
) -> None:
    folder = tmp_path / "archive"
    archive = start_archive(folder)
    # Frames of 1 KiB: Java refuses a recording whose last fragment crosses a page, which a kill leaves by chance.
    recorded = archive.record(CHANNEL, 10, Messages(seed=3, sizes=KILOBYTE, count=200), stop=False)
    archive.publish_without_waiting(0, Messages(seed=3, sizes=KILOBYTE, count=1 << 30, first=200))
    while not (folder / "0-655360.rec").exists():
        assert archive.process.poll() is None
    archive.kill()

    with pytest.raises(PeerError, match="active"):
        start_archive(folder)
    found = ours(folder, 0)
    with start_archive(folder, ArchiveOptions(forgets_owner=True)) as again:
        end = again.find(0).stop_position
        assert end >= 655360 > recorded.end
        assert again.positions(0) == Positions(0, -1, end, end)
        assert theirs(again, 0) == found
    assert [row[1:4] for row in found] == Messages(seed=3, sizes=KILOBYTE, count=len(found)).rows()


def test_maintenance_moves_positions_and_files_as_it_says(start_archive: Start, tmp_path: Path) -> None:
    folder = tmp_path / "archive"
    names = [f"0-{base}.rec" for base in range(0, 6 * SEGMENT, SEGMENT)]
    with start_archive(folder) as archive:
        assert kilobytes(archive, 5 * 128 + 10) == 0
        assert segments(folder) == names

        archive.detach(0, 2 * SEGMENT)
        assert (archive.positions(0).start, segments(folder)) == (2 * SEGMENT, names)
        assert (archive.attach(0), archive.positions(0).start) == (2, 0)
        archive.detach(0, SEGMENT)
        assert (archive.delete_detached(0), segments(folder)) == (1, names[1:])
        assert (archive.purge_segments(0, 3 * SEGMENT), segments(folder)) == (2, names[3:])
        assert archive.truncate(0, 4 * SEGMENT + 2048) == 1
        assert (archive.positions(0).stop, segments(folder)) == (4 * SEGMENT + 2048, names[3:5])
        assert theirs(archive, 0) == ours(folder, 0)
        kept = Messages(seed=3, sizes=KILOBYTE, count=128 + 2, first=3 * 128)
        assert [row[1:4] for row in ours(folder, 0)] == kept.rows()

        assert archive.purge(0) == 2
        assert (archive.recordings(), segments(folder)) == ([], [])
        assert [signal for signal in archive.signals if signal.name == "DELETE"] == [Signal("DELETE", 0, -1)] * 4


def test_segments_migrate_to_the_recording_that_goes_on_where_they_end(start_archive: Start, tmp_path: Path) -> None:
    with start_archive(tmp_path / "archive") as archive:
        source = kilobytes(archive, 128, f"{CHANNEL}|init-term-id=7|term-id=7|term-offset=0")
        target = kilobytes(archive, 100, f"{CHANNEL}|init-term-id=7|term-id=9|term-offset=0")
        assert archive.positions(target) == Positions(SEGMENT, -1, SEGMENT + (100 << 10), SEGMENT + (100 << 10))
        assert archive.migrate_segments(source, target) == 1
        assert archive.positions(target).start == 0
        assert segments(archive.folder) == ["1-0.rec", "1-131072.rec"]
        assert len(theirs(archive, target)) == 228
        assert theirs(archive, target) == ours(archive.folder, target)


def test_what_the_archive_refuses_is_told(start_archive: Start, tmp_path: Path) -> None:
    with start_archive(tmp_path / "archive") as archive:
        archive.record(CHANNEL, 10, Messages(seed=1, sizes=SMALL, count=10), stop=False)
        with pytest.raises(PeerError, match="cannot purge active recording 0"):
            archive.purge(0)
        with pytest.raises(PeerError, match="unknown recording"):
            archive.replay(7)
        assert archive.publish(0, Messages(seed=1, sizes=SMALL, count=1, first=10)).begin == 960
        assert archive.stop(0) == 1024


def test_a_folder_that_the_archive_does_not_start_on_is_refused_with_its_reason(
    start_archive: Start, tmp_path: Path
) -> None:
    folder = tmp_path / "archive"
    folder.mkdir()
    (folder / "archive.catalog").write_bytes(bytes(4096))
    with pytest.raises(PeerError, match="version"):
        start_archive(folder)


def test_a_tool_that_finds_fault_ends_with_its_exit_code(start_archive: Start, aeron_jar: Path, tmp_path: Path) -> None:
    with start_archive(tmp_path / "archive", ArchiveOptions(checksum="crc32")) as archive:
        kilobytes(archive, 10)
    told = archive_tool(aeron_jar, tmp_path / "archive", "verify", "-a", "-checksum", CHECKSUM_CLASSES["crc32c"])
    assert told.exit_code == 255
    assert "(recordingId=0) ERR: invalid Catalog checksum" in told.stdout
    # It has marked the recording as invalid, and what is invalid goes.
    assert archive_tool(aeron_jar, tmp_path / "archive", "compact", says="n").exit_code == 0
    assert segments(tmp_path / "archive") == ["0-0.rec"]
    assert archive_tool(aeron_jar, tmp_path / "archive", "compact").exit_code == 0
    assert segments(tmp_path / "archive") == []
