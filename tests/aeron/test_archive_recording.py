"""Recording into an archive's folder: the bytes of real archives, what each call promises, who may write."""

from __future__ import annotations

import array
import itertools
import os
import stat
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from recorded import CHANNEL, SEGMENT, STREAM
from test_framing import ARCHIVES, golden_payload, segments_of

from everlog.aeron import archive as archives
from everlog.aeron import framing_twin
from everlog.aeron.archive import archive as archive_module
from everlog.aeron.archive import recorder as recorder_module
from everlog.aeron.archive.archive import Archive
from everlog.aeron.archive.options import ArchiveOptions
from everlog.errors import (
    NotAStore,
    StoreExists,
    UsageError,
)

Unpack = Callable[[str], Path]
Truth = Callable[[str], dict[str, Any]]
MARK_BYTES = 8192 + (1 << 20)


@pytest.fixture(params=["compiled", "twin"])
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both framers, and both short ways."""
    if request.param == "twin":
        monkeypatch.setattr(archive_module, "Framer", framing_twin.Framer)
        monkeypatch.setattr(recorder_module, "Tail", framing_twin.Tail)
    return str(request.param)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "archive"


@pytest.fixture
def store(folder: Path) -> Iterator[Archive]:
    with archives.create(folder, segment_length=SEGMENT, liveness_timeout_s=0) as made:
        yield made


def read(found: Archive, recording_id: int = 0, *where: int) -> list[bytes]:
    return [record.payload for record in found.replay(recording_id, *where)]


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
    with pytest.raises(StoreExists, match="found an archive"):
        archives.create(folder)
    with archives.create(folder, exist_ok=True) as again:
        assert read(again) == [b"kept"]
        assert again.recovered == []
        assert again.path == str(folder)


def test_a_folder_without_a_catalog_is_no_archive(tmp_path: Path) -> None:
    with pytest.raises(NotAStore, match="no catalog"):
        archives.open_archive(tmp_path)
    (tmp_path / "0-0.rec").write_bytes(bytes(SEGMENT))
    with pytest.raises(StoreExists, match="segment files without a catalog"):
        archives.create(tmp_path)
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
    wishes = wishes_of(recording)
    number = recording["recordingId"]
    if number == 4:
        wishes["session_id"] = None
    recorder = made.start_recording(recording["originalChannel"], recording["streamId"], **wishes)
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


def record(recorder: Any, messages: list[tuple[bytes, int]], way: int) -> None:
    payloads, reserved = [m[0] for m in messages], [m[1] for m in messages]
    if way == 0:
        for payload, value in messages:
            recorder.append(payload, value)
    elif way == 1:
        recorder.append_many(payloads, reserved)
    elif way == 2:
        offsets = array.array("i", itertools.accumulate(map(len, payloads), initial=0))
        recorder.append_column(b"".join(payloads), offsets, array.array("q", reserved))
    else:
        for payload, value in messages:
            recorder.offer(payload, value)
        recorder.flush()
