"""Recording into an archive's folder: the bytes of real archives, what each call promises, who may write."""

from __future__ import annotations

import itertools
import os
import stat
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from everlog.aeron import archive as archives
from everlog.aeron.archive import recordings as archive_module
from everlog.aeron.archive.archive import Archive
from everlog.aeron.archive.recording.options import ArchiveOptions
from everlog.errors import (
    Closed,
    EverlogError,
    NotAStore,
    StoreExists,
    UnknownStream,
    UsageError,
    WriteFailed,
)
from everlog.testing.storage.crashing import CrashingStorage
from everlog.testing.storage.faulty_writes import FaultyWrites, WriteFaults
from tests.aeron.archive.recorded import CHANNEL, MTU, SEGMENT, STREAM, TERM, opened
from tests.aeron.archive.recording.recorded_messages import read, record
from tests.aeron.frames.framed_messages import frame
from tests.aeron.frames.test_framing import ARCHIVES, golden_payload, segments_of

Unpack = Callable[[str], Path]


Truth = Callable[[str], dict[str, Any]]


MARK_BYTES = 8192 + (1 << 20)


# The folder


def test_an_archive_begins_with_a_sparse_catalog_and_a_mark_file(folder: Path, golden_archive: Unpack) -> None:
    archives.create(folder).close()
    assert sorted(path.name for path in folder.iterdir()) == ["archive-mark.dat", "archive.catalog"]
    catalog, mark = (folder / "archive.catalog"), (folder / "archive-mark.dat")
    golden = (golden_archive("archive-basic/archive") / "archive.catalog").read_bytes()
    assert catalog.read_bytes() == golden[:8] + bytes(8) + golden[16:32] + bytes((1 << 20) - 32)
    assert mark.stat().st_size == MARK_BYTES
    assert {stat.S_IMODE(path.stat().st_mode) for path in (catalog, mark)} == {0o644}
    assert catalog.stat().st_blocks * 512 <= 8192


def test_a_mark_file_has_the_layout_of_the_real_ones(folder: Path, golden_archive: Unpack) -> None:
    golden = (golden_archive("archive-basic/archive") / "archive-mark.dat").read_bytes()
    before = time.time_ns() // 1_000_000
    with archives.create(folder):
        alive = (folder / "archive-mark.dat").read_bytes()
    closed = (folder / "archive-mark.dat").read_bytes()
    activity, start, pid = struct.unpack_from("<qqq", alive, 16)
    assert before <= start <= activity <= time.time_ns() // 1_000_000
    assert pid == os.getpid()
    assert struct.unpack_from("<q", closed, 16) == struct.unpack_from("<q", golden, 16) == (-1,)
    # SBE header and version; header and error log lengths; then an archive id and four texts, which ours has not.
    assert closed[:16] == golden[:16]
    assert closed[24:40] == struct.pack("<qq", start, pid)
    assert closed[52:60] == golden[52:60] == struct.pack("<ii", 8192, 1 << 20)
    assert struct.unpack_from("<q", golden, 64) == (4711,)
    assert struct.unpack_from("<q", closed, 64) == (-1,)
    assert closed[72:136] == golden[72:136] == bytes(64)
    assert closed[136:] == bytes(MARK_BYTES - 136)


def test_the_error_log_of_a_mark_file_is_kept(folder: Path) -> None:
    archives.create(folder).close()
    with (folder / "archive-mark.dat").open("r+b") as file:
        file.seek(8192)
        file.write(b"distinct errors")
    archives.open_archive(folder).close()
    mark = (folder / "archive-mark.dat").read_bytes()
    assert len(mark) == MARK_BYTES
    assert mark[8192:8207] == b"distinct errors"


@pytest.mark.parametrize("release", ["1.20.0", "1.32.0"])
def test_the_mark_file_of_an_older_release_is_replaced(folder: Path, golden_archive: Unpack, release: str) -> None:
    old = (golden_archive(f"archive-old-releases/{release}-stopped") / "archive-mark.dat").read_bytes()
    archives.create(folder).close()
    expected = (folder / "archive-mark.dat").read_bytes()
    (folder / "archive-mark.dat").write_bytes(old)
    archives.open_archive(folder).close()
    found = (folder / "archive-mark.dat").read_bytes()
    assert found[:16] == expected[:16]
    assert found[40:8192] == expected[40:8192]
    assert len(found) >= MARK_BYTES


def test_an_archive_is_made_once(folder: Path) -> None:
    with archives.create(folder, segment_length=SEGMENT) as made:
        made.start_recording(CHANNEL, STREAM).append(b"kept")
    with pytest.raises(StoreExists, match="is already an archive"):
        archives.create(folder)
    with archives.create(folder, exist_ok=True) as again:
        assert read(again) == [b"kept"]
        assert again.recovered == []
        assert again.path == str(folder)


def test_a_folder_without_a_catalog_is_no_archive(tmp_path: Path) -> None:
    with pytest.raises(NotAStore, match=r"no catalog.*\(everlog\.aeron\.archive\.create makes a new archive\)"):
        archives.open_archive(tmp_path)
    (tmp_path / "0-0.rec").write_bytes(bytes(SEGMENT))
    with pytest.raises(StoreExists, match="segment files without a catalog"):
        archives.create(tmp_path)
    with pytest.raises(NotAStore, match=r"\(everlog repair makes a catalog of the segment files\)"):
        archives.open_archive(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["0-0.rec"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("durability", "buffered"),
        ("durability", "certain"),
        ("file_sync_level", 3),
        ("file_sync_level", -1),
        ("catalog_file_sync_level", 3),
        ("segment_length", 65535),
        ("segment_length", 32 << 10),
        ("segment_length", 2 << 30),
        ("checksum", "md5"),
        ("checksum", "auto"),
        ("catalog_capacity", 8),
        ("liveness_timeout_s", -1),
        ("liveness_timeout_s", float("nan")),
        ("flush_interval_s", -0.1),
        ("flush_interval_s", 4000),
        ("no_such_option", 1),
    ],
)
def test_options_that_make_no_sense_are_refused_before_anything_is_made(folder: Path, name: str, value: Any) -> None:
    with pytest.raises(UsageError, match=name if name != "catalog_capacity" else "capacity"):
        archives.create(folder, **{name: value})
    assert not folder.exists()


def test_sync_levels_and_durability_are_two_names_for_one_thing() -> None:
    assert ArchiveOptions().durability == "written"
    assert ArchiveOptions(durability="synced").file_sync_level == 1
    assert ArchiveOptions(file_sync_level=2).durability == "synced"
    assert ArchiveOptions(file_sync_level=2).catalog_file_sync_level == 2
    assert ArchiveOptions(catalog_file_sync_level=1).durability == "written"
    with pytest.raises(UsageError, match="file_sync_level"):
        ArchiveOptions(durability="synced", file_sync_level=0)
    with pytest.raises(UsageError, match="catalog_file_sync_level"):
        ArchiveOptions(file_sync_level=1, catalog_file_sync_level=0)


# The bytes


def golden_stream(notes: dict[str, Any], prefix: str = "") -> list[tuple[bytes, int]]:
    """Payloads and reserved values that the generator published."""
    names = ("extendSeed", "extendSizes", "extendMessageCount") if prefix else ("seed", "sizes", "messageCount")
    seed, sizes, count = (notes[name] for name in names)
    return [(golden_payload(seed, sizes, index), seed << 32 | index) for index in range(count)]


def wishes_of(recording: dict[str, Any]) -> dict[str, Any]:
    names = {"initial_term_id": "initialTermId", "term_length": "termBufferLength", "mtu_length": "mtuLength"}
    names |= {"session_id": "sessionId", "source_identity": "sourceIdentity"}
    return {ours: recording[theirs] for ours, theirs in names.items()}


DELETED = {
    "recordingId": 8,
    "startTimestamp": 1795241333386,
    "stopTimestamp": 1795241333389,
    "initialTermId": 1251992352,
    "termBufferLength": 65536,
    "mtuLength": 1408,
    "sessionId": -1458262091,
    "streamId": 1009,
    "originalChannel": "aeron:ipc?term-length=64k|session-id=-1458262091",
    "sourceIdentity": "aeron:ipc",
}


"""As ArchiveTool describes it; the archive's own truth does not list it."""


@pytest.mark.parametrize("durability", ["written", "synced"])
@pytest.mark.parametrize("checksum", ARCHIVES)
def test_the_same_messages_give_the_same_archive_as_the_real_one(
    folder: Path,
    golden_archive: Unpack,
    golden_truth: Truth,
    monkeypatch: pytest.MonkeyPatch,
    checksum: str,
    durability: str,
) -> None:
    truth = golden_truth("archive-basic/truth")
    golden = golden_archive(ARCHIVES[checksum])
    recordings = sorted([*truth["recordings"], DELETED], key=lambda recording: recording["recordingId"])
    now = itertools.chain.from_iterable((r["startTimestamp"], r["stopTimestamp"]) for r in recordings)
    monkeypatch.setattr(archive_module, "now_ms", lambda: next(now))
    with archives.create(folder, segment_length=128 << 10, checksum=checksum, durability=durability) as made:
        for recording in recordings:
            record_as(made, recording, truth["allNotes"][str(recording["recordingId"])])
    for recording in truth["recordings"]:
        assert segments_of(folder, recording) == segments_of(golden, recording), recording["recordingId"]
    found = {path.name: path.stat().st_size for path in folder.iterdir()}
    assert found == {path.name: path.stat().st_size for path in golden.iterdir()}
    ours, theirs = (folder / "archive.catalog").read_bytes(), (golden / "archive.catalog").read_bytes()
    assert ours == theirs
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o644}


def record_as(made: Archive, recording: dict[str, Any], notes: dict[str, Any]) -> None:
    """One recording of the golden archive, by the calls in turn."""
    stream_options = wishes_of(recording)
    number = recording["recordingId"]
    if number == 4:
        stream_options["session_id"] = None
    recorder = made.start_recording(recording["originalChannel"], recording["streamId"], **stream_options)
    assert recorder.recording_id == number
    is_synced = made.options.durability == "synced"  # then message by message would take long
    record(recorder, golden_stream(notes), way=1 + number % 3 if is_synced else number % 4)
    if number == 4:
        assert recorder.recorded_position == notes["firstStopPosition"]
        made_now = archive_module.now_ms
        archive_module.now_ms = lambda: 0  # the first stop's time is not kept
        recorder.stop()
        archive_module.now_ms = made_now
        ids = {"control_session_id": 806469474, "correlation_id": 139}  # as ArchiveTool describes it
        recorder = made.extend_recording(4, notes["extendChannel"], session_id=notes["extendSessionId"], **ids)
        record(recorder, golden_stream(notes, "extend"), way=1)
    recorder.stop()
    if number == 5:
        assert made.truncate_recording(5, notes["truncatePosition"]) == notes["truncateResult"]
    if number == 6:
        assert made.purge_segments(6, 262144) == notes["purgeSegmentsResult"]
    if number == 7:
        made.detach_segments(7, 131072)
    if number == 8:
        assert made.purge_recording(8) == notes["purgeResult"]


# What is there


def test_recordings_are_listed_by_id_channel_and_stream(store: Archive) -> None:
    for stream_id, alias in [(1, "a"), (2, "b"), (1, "ab"), (1, "c")]:
        store.start_recording(f"aeron:ipc?term-length=64k|alias={alias}", stream_id, session_id=stream_id * 10).stop()
    store.purge_recording(3)

    def ids(**how: Any) -> list[int]:
        return [recording.recording_id for recording in store.recordings(**how)]

    assert ids() == [0, 1, 2]
    assert ids(stream_id=1) == [0, 2]
    assert ids(channel_fragment="alias=a") == [0, 2]
    assert ids(channel_fragment="alias=ab", stream_id=2) == []
    assert ids(from_recording_id=1, count=1) == [1]
    assert ids(count=0) == []
    last = store.find_last_matching_recording
    assert last("alias=a", 1).recording_id == 2  # type: ignore[union-attr]
    assert last("alias=a", 1, session_id=10, min_recording_id=2).recording_id == 2  # type: ignore[union-attr]
    assert last("alias=a", 1, min_recording_id=3) is None
    assert last("alias=a", 1, session_id=20) is None
    assert last("", 3) is None
    assert store.recording(1).stream_id == 2
    with pytest.raises(UnknownStream):
        store.recording(7)


def test_positions_tell_what_is_active(store: Archive) -> None:
    recorder = store.start_recording(CHANNEL, STREAM, position=4096)
    recorder.append(b"x")
    assert (store.start_position(0), store.stop_position(0), store.recorded_position(0)) == (4096, None, 4160)
    recorder.stop()
    assert (store.start_position(0), store.stop_position(0), store.recorded_position(0)) == (4096, 4160, 4160)


# Extending and stopping


def test_a_recording_is_extended_by_another_session(store: Archive, folder: Path) -> None:
    recorder = store.start_recording(CHANNEL, STREAM)
    recorder.append(b"one")
    assert recorder.stop() == 64
    extended = store.extend_recording(0)
    assert extended.append(b"two") == 128
    extended.stop()
    (session,) = {record.fields["session_id"] for record in store.replay(0, 64)}
    assert session == store.recording(0).session_id != -99
    assert read(store) == [b"one", b"two"]


@pytest.mark.parametrize(
    ("stream_options", "found"),
    [
        ({"term_length": 128 << 10}, "term length 131072"),
        ({"mtu_length": 4096}, "MTU 4096"),
        ({"initial_term_id": 8}, "initial term id 8"),
        ({"position": 0}, "join position 0"),
        ({"position": 96}, "join position 96"),
        ({"channel": "aeron:ipc?term-length=128k"}, "131072"),
        ({"channel": "aeron:ipc?init-term-id=7|term-id=7|term-offset=128"}, "128"),
    ],
)
def test_an_extension_that_does_not_fit_is_refused(store: Archive, stream_options: dict[str, Any], found: str) -> None:
    with store.start_recording(CHANNEL, STREAM) as recorder:
        recorder.append(b"one")
    before = Path(store.path, "archive.catalog").read_bytes()
    with pytest.raises(UsageError, match=found):
        store.extend_recording(0, **stream_options)
    assert Path(store.path, "archive.catalog").read_bytes() == before
    store.extend_recording(0, position=64, term_length=TERM, mtu_length=MTU, initial_term_id=7).stop()


def test_only_a_stopped_valid_recording_is_extended(store: Archive) -> None:
    recorder = store.start_recording(CHANNEL, STREAM)
    with pytest.raises(UsageError, match="active"):
        store.extend_recording(0)
    recorder.stop()
    store._catalog.set_state(0, "INVALID")
    with pytest.raises(UsageError, match="INVALID"):
        store.extend_recording(0)
    store._catalog.set_state(0, "DELETED")
    with pytest.raises(EverlogError, match="DELETED"):
        store.extend_recording(0)
    with pytest.raises(UnknownStream):
        store.extend_recording(1)


def test_a_recorder_is_stopped_once_and_then_takes_nothing(store: Archive) -> None:
    recorder = store.start_recording(CHANNEL, STREAM)
    recorder.append(b"x")
    assert (recorder.stop(), recorder.stop(), recorder.is_stopped) == (64, 64, True)
    block = frame(64, b"y")
    for call in (
        lambda: recorder.append(b"y"),
        lambda: recorder.append_many([b"y"]),
        lambda: recorder.append_block(block),
        lambda: recorder.offer(b"y"),
        recorder.flush,
        recorder.sync,
    ):
        with pytest.raises(UsageError, match="recorder of recording 0 is closed"):
            call()
    assert read(store) == [b"x"]


def test_a_closed_archive_does_nothing(folder: Path) -> None:
    made = archives.create(folder, segment_length=SEGMENT)
    recorder = made.start_recording(CHANNEL, STREAM)
    recorder.append(b"x")
    replay = made.replay(0)
    made.close()
    made.close()
    with pytest.raises(UsageError, match="recorder of recording 0 is closed"):
        recorder.append(b"y")
    assert list(replay) == []
    for call in (
        made.recordings,
        lambda: made.recording(0),
        lambda: made.start_recording(CHANNEL, STREAM),
        lambda: made.extend_recording(0),
        lambda: made.replay(0),
        lambda: made.find_last_matching_recording("", STREAM),
        lambda: made.listen(print),
        lambda: made.truncate_recording(0, 0),
    ):
        with pytest.raises(Closed, match=r"^archive is closed$"):
            call()
    with archives.open_archive(folder) as again:
        assert (again.recovered, again.stop_position(0)) == ([], 64)


def test_close_ends_everything_and_raises_the_first_error() -> None:
    disk = FaultyWrites(CrashingStorage())
    made = opened(disk)
    recorders = [made.start_recording(CHANNEL, STREAM) for _ in range(3)]
    for recorder in recorders:
        recorder.offer(b"x" * 100)
    disk.faults = WriteFaults(fail_at=disk.operation_count, operations=frozenset({"write", "sync"}))
    disk.operation_count = disk.faults.fail_at or 0
    with pytest.raises(WriteFailed) as caught:
        made.close()
    assert disk.failed == [f"write {caught.value.where}"]
    with opened(disk) as again:
        lost = int(caught.value.where[0])
        assert again.recovered == []
        assert [again.stop_position(number) for number in range(3)] == [0 if n == lost else 160 for n in range(3)]


def test_a_misspelt_stream_option_is_refused(store: Archive) -> None:
    options: dict[str, Any] = {"term_lenght": 65536}
    with pytest.raises(UsageError, match=r"unknown option .term_lenght.; known: .*term_length"):
        store.start_recording(CHANNEL, STREAM, **options)
