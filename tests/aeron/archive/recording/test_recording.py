"""Recording into an archive's folder: the bytes of real archives, what each call promises, who may write."""

from __future__ import annotations

import array
import gc
import itertools
import os
import signal
import stat
import struct
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from everlog.aeron import archive as archives
from everlog.aeron.archive import recordings as archive_module
from everlog.aeron.archive.archive import Archive
from everlog.aeron.archive.recording.events import (
    Event,
    RecordingProgress,
    RecordingSignal,
    RecordingStarted,
    RecordingStopped,
    SignalEvent,
)
from everlog.aeron.archive.recording.options import ArchiveOptions
from everlog.aeron.archive.writing import heartbeat
from everlog.aeron.family_options import Checksum
from everlog.errors import (
    Closed,
    CorruptData,
    EverlogError,
    NotAStore,
    StoreExists,
    StoreUnavailable,
    UnknownStream,
    UsageError,
    WriteFailed,
)
from everlog.testing.storage.crashing import CrashingStorage
from everlog.testing.storage.faulty_writes import FaultyWrites, WriteFaults
from tests.aeron.archive.recorded import CHANNEL, MTU, SEGMENT, STREAM, TERM, opened
from tests.aeron.frames.test_framing import ARCHIVES, frame, golden_payload, padding, segments_of

Unpack = Callable[[str], Path]
Truth = Callable[[str], dict[str, Any]]
MARK_BYTES = 8192 + (1 << 20)


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
    with pytest.raises(StoreExists, match="is already an archive"):
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


# Messages


def test_each_call_tells_the_position_behind_what_it_recorded(store: Archive, kernel: str) -> None:
    recorder = store.start_recording(CHANNEL, STREAM)
    # Frames are a header of 32 bytes and the payload, up to the next multiple of 32.
    assert recorder.append(b"a" * 32) == 64
    assert recorder.append(b"", 7) == 96
    assert recorder.append_many([b"b", bytearray(b"c" * 33), memoryview(b"d")], [1, -(1 << 63), (1 << 63) - 1]) == 320
    assert recorder.append_column(b"xyyz", array.array("i", [0, 1, 3, 4]), array.array("q", [4, 5, 6])) == 512
    assert recorder.append_column(b"w", array.array("q", [0, 1])) == 576
    assert recorder.append_many([]) == 576
    assert recorder.append(b"e" * (MTU - 32 + 1)) == 576 + MTU + 64
    assert recorder.position == recorder.recorded_position == store.recorded_position(0) == 2048
    records = list(store.replay(0))
    assert [r.payload for r in records[:9]] == [
        *(b"a" * 32, b"", b"b", b"c" * 33, b"d", b"x", b"yy", b"z", b"w"),
    ]
    assert [r.fields["reserved_value"] for r in records] == [0, 7, 1, -(1 << 63), (1 << 63) - 1, 4, 5, 6, 0, 0]
    assert [int(r.address) for r in records] == [0, 64, 96, 160, 256, 320, 384, 448, 512, 576]
    assert {(r.fields["session_id"], r.fields["stream_id"], r.fields["term_id"]) for r in records} == {(-99, STREAM, 7)}


def test_a_message_is_as_long_as_an_eighth_of_a_term(store: Archive, kernel: str) -> None:
    recorder = store.start_recording(CHANNEL, STREAM)
    assert recorder.max_message_length == TERM // 8
    for refused in (
        lambda: recorder.append(bytes(TERM // 8 + 1)),
        lambda: recorder.append_many([b"fits", bytes(TERM // 8 + 1)]),
        lambda: recorder.offer(bytes(TERM // 8 + 1)),
    ):
        with pytest.raises(UsageError, match="8193"):
            refused()
    assert recorder.position == recorder.recorded_position == 0
    recorder.append(b"x" * (TERM // 8))
    assert [len(message) for message in read(store)] == [TERM // 8]


@pytest.mark.parametrize("payload", ["text", 5, None, [1]])
def test_what_is_no_message_is_refused(store: Archive, kernel: str, payload: Any) -> None:
    recorder = store.start_recording(CHANNEL, STREAM)
    with pytest.raises(UsageError):
        recorder.append(payload)
    with pytest.raises(UsageError):
        recorder.append(b"", 1 << 63)
    assert recorder.append(b"good") == 64
    assert read(store) == [b"good"]


@pytest.mark.parametrize(
    "call",
    [
        lambda recorder: recorder.append_many(None),
        lambda recorder: recorder.append_many(b"abc"),
        lambda recorder: recorder.append_many(iter([b"abc"])),
        lambda recorder: recorder.append_column(None, None),
        lambda recorder: recorder.append_column(b"abc", [0, 3]),
        lambda recorder: recorder.append_block("text"),
    ],
)
def test_arguments_of_another_type_are_told_by_name(store: Archive, kernel: str, call: Callable[[Any], Any]) -> None:
    recorder = store.start_recording(CHANNEL, STREAM)
    with pytest.raises(UsageError, match=r"payloads|offsets|block"):
        call(recorder)
    assert recorder.append(b"good") == 64


@pytest.mark.parametrize(
    ("channel", "stream", "stream_options", "name"),
    [
        (5, STREAM, {}, "channel"),
        (b"aeron:ipc", STREAM, {}, "channel"),
        (CHANNEL, "1001", {}, "stream_id"),
        (CHANNEL, 1.5, {}, "stream_id"),
        (CHANNEL, 1 << 40, {}, "stream_id"),
        ("aeron:ipc", STREAM, {"term_length": "65536"}, "term_length"),
        ("aeron:ipc", STREAM, {"term_length": 65537}, "term_length"),
        (CHANNEL, STREAM, {"mtu_length": "1408"}, "mtu_length"),
        (CHANNEL, STREAM, {"mtu_length": 1409}, "mtu_length"),
        (CHANNEL, STREAM, {"mtu_length": TERM // 8 + 32}, "mtu_length"),
        (CHANNEL, STREAM, {"position": 32.0}, "position"),
        (CHANNEL, STREAM, {"position": 33}, "position"),
        (CHANNEL, STREAM, {"source_identity": 4}, "source_identity"),
        (CHANNEL, STREAM, {"control_session_id": "4"}, "control_session_id"),
        (CHANNEL, STREAM, {"correlation_id": 1 << 63}, "correlation_id"),
    ],
)
def test_a_stream_that_can_not_be_is_refused_before_there_is_a_recording(
    store: Archive, channel: Any, stream: Any, stream_options: dict[str, Any], name: str
) -> None:
    with pytest.raises(UsageError, match=name):
        store.start_recording(channel, stream, **stream_options)
    assert list(store.recordings()) == []


@pytest.mark.parametrize(
    "stream_options", [{"control_session_id": "4"}, {"correlation_id": -1 << 64}, {"session_id": 1.0}]
)
def test_an_extension_with_ids_that_can_not_be_changes_nothing(
    store: Archive, folder: Path, stream_options: dict[str, Any]
) -> None:
    store.start_recording(CHANNEL, STREAM).stop()
    before = (folder / "archive.catalog").read_bytes()
    with pytest.raises(UsageError, match=next(iter(stream_options))):
        store.extend_recording(0, **stream_options)
    assert (folder / "archive.catalog").read_bytes() == before


@pytest.mark.parametrize("durability", ["written", "synced"])
def test_an_error_in_the_middle_of_many_tells_how_many_are_recorded(folder: Path, durability: str) -> None:
    with archives.create(folder, segment_length=SEGMENT, durability=durability) as made:
        recorder = made.start_recording(CHANNEL, STREAM)
        with pytest.raises(UsageError) as caught:
            recorder.append_many([b"one", b"two", "three", b"four"])
        assert caught.value.appended == 2
        with pytest.raises(UsageError) as caught:
            recorder.append_column(b"abc", array.array("i", [0, 1, 9]))
        assert caught.value.appended == 1
        assert recorder.recorded_position == 192
        assert read(made) == [b"one", b"two", b"a"]


def test_a_segment_that_is_full_is_followed_by_the_next_one_made_ahead(
    store: Archive, folder: Path, kernel: str
) -> None:
    recorder = store.start_recording(CHANNEL, STREAM)
    for _ in range(63):
        recorder.append(bytes(992))
    assert not (folder / f"0-{SEGMENT}.rec").exists()
    recorder.append(bytes(992))
    ahead = folder / f"0-{SEGMENT}.rec"
    assert (ahead.stat().st_size, ahead.stat().st_blocks) == (SEGMENT, 0)
    assert recorder.stop() == SEGMENT
    assert [path.name for path in sorted(folder.glob("*.rec"))] == ["0-0.rec", f"0-{SEGMENT}.rec"]


def test_a_recording_may_begin_in_mid_term_and_in_a_later_segment(store: Archive, folder: Path, kernel: str) -> None:
    recorder = store.start_recording(CHANNEL, STREAM, position=3 * TERM + 4096)
    assert recorder.append(b"first") == 3 * TERM + 4096 + 64
    assert recorder.stop() == 3 * TERM + 4160
    data = (folder / f"0-{3 * TERM}.rec").read_bytes()
    expected = frame(0, b"first", term_id=10, term_offset=4096)
    assert data == bytes(4096) + expected + bytes(SEGMENT - 4096 - len(expected))
    assert (store.start_position(0), store.stop_position(0)) == (3 * TERM + 4096, 3 * TERM + 4160)
    assert read(store) == [b"first"]


def test_blocks_are_recorded_as_they_are(store: Archive, folder: Path, kernel: str) -> None:
    first = frame(0, b"one") + frame(64, b"two", reserved=9) + frame(128, b"", kind=0, length=96)
    recorder = store.start_recording(CHANNEL, STREAM)
    assert recorder.append_block(first) == 224
    rest = frame(224, b"r" * (TERM - 224 - 32 - 64)) + padding(TERM - 64)
    assert recorder.append_block(rest + bytes(32) + frame(TERM, b"next")) == TERM + 64
    data = (folder / "0-0.rec").read_bytes()
    assert data[:128] == first[:128]
    assert data[128:160] == frame(128, b"", kind=0, length=96)
    assert data[160:224] == bytes(64)
    assert (folder / f"0-{TERM}.rec").read_bytes()[:64] == frame(TERM, b"next")


def test_a_block_with_a_wrong_frame_is_refused_with_its_place(store: Archive, kernel: str) -> None:
    recorder = store.start_recording(CHANNEL, STREAM)
    recorder.append(b"before")
    with pytest.raises(CorruptData) as caught:
        recorder.append_block(frame(64, b"good") + frame(256, b"another place"))
    assert caught.value.offset == 64
    assert recorder.append(b"behind") == 128
    assert read(store) == [b"before", b"behind"]
    filled = frame(128, b"f" * 1000) + frame(1184, b"", kind=0, length=TERM - 1184)
    with pytest.raises(CorruptData) as caught:
        recorder.append_block(filled + bytes(TERM - 1184 - 32) + frame(TERM, b"a") + frame(TERM, b"twice"))
    assert caught.value.offset == TERM - 128 + 64
    assert recorder.recorded_position == TERM


def test_what_is_offered_is_recorded_by_flush(folder: Path, kernel: str) -> None:
    with archives.create(folder, segment_length=SEGMENT, flush_interval_s=3600) as made:
        recorder = made.start_recording(CHANNEL, STREAM)
        assert [recorder.offer(b"one"), recorder.offer(b"two", 5)] == [64, 128]
        assert (recorder.position, recorder.recorded_position) == (128, 0)
        assert read(made) == []
        assert recorder.flush() == recorder.recorded_position == 128
        recorder.offer(b"three")
        assert recorder.append(b"four") == recorder.recorded_position == 256
        recorder.offer(b"five")
    with archives.open_archive(folder) as again:
        assert read(again) == [b"one", b"two", b"three", b"four", b"five"]


@pytest.mark.parametrize("durability", ["written", "synced"])
def test_what_is_offered_is_recorded_a_moment_later_by_itself(folder: Path, durability: str) -> None:
    with archives.create(folder, segment_length=SEGMENT, flush_interval_s=0.01, durability=durability) as made:
        recorders = [made.start_recording(CHANNEL, STREAM) for _ in range(3)]
        for recorder in recorders:
            recorder.offer(b"one")
        until(lambda: [recorder.recorded_position for recorder in recorders] == [64, 64, 64])
        recorders[1].offer(b"two")
        until(lambda: recorders[1].recorded_position == 128)


def until(is_so: Callable[[], bool], seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.005)


def test_offered_messages_that_were_lost_are_told_to_the_next_call() -> None:
    """Else the positions that offer gave would seem to be recorded when others take their place."""
    disk = FaultyWrites(CrashingStorage())
    with opened(disk, flush_interval_s=0.01) as made:
        one, two = made.start_recording(CHANNEL, STREAM), made.start_recording(CHANNEL, STREAM)
        one.append(b"before")
        disk.faults = WriteFaults(fail_at=disk.operation_count, operations=frozenset({"write"}), count=1)
        disk.operation_count = disk.faults.fail_at or 0
        assert one.offer(b"lost") == 128
        until(lambda: disk.failed == ["write 0-0.rec"])
        two.offer(b"not lost")
        until(lambda: two.recorded_position == 64)
        with pytest.raises(WriteFailed, match="no space"):
            one.append(b"refused")
        assert one.append(b"behind") == 128
        assert read(made) == [b"before", b"behind"]
        disk.faults = WriteFaults(fail_at=disk.operation_count, operations=frozenset({"write"}), count=1)
        one.offer(b"lost, too")
        until(lambda: len(disk.failed) == 2)
        disk.faults = WriteFaults()
        with pytest.raises(WriteFailed, match="no space"):
            one.stop()
        assert made.stop_position(0) == 128


def test_many_threads_share_a_recorder(folder: Path) -> None:
    with archives.create(folder, segment_length=SEGMENT, durability="synced") as made:
        recorder = made.start_recording(CHANNEL, STREAM)

        def work(name: int) -> None:
            for number in range(30):
                recorder.append(b"%d:%d" % (name, number) + b"." * 500)

        threads = [threading.Thread(target=work, args=(name,)) for name in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        found = [message.partition(b".")[0].split(b":") for message in read(made)]
    for name in range(8):
        assert [int(number) for who, number in found if int(who) == name] == list(range(30))


def test_threads_on_the_short_way_lose_nothing(store: Archive, kernel: str) -> None:
    recorder = store.start_recording(CHANNEL, STREAM)
    ends: list[int] = []

    def work(name: int) -> None:
        ends.extend(recorder.append(b"%d:%d" % (name, number)) for number in range(400))

    threads = [threading.Thread(target=work, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    recorder.append_many([b"9:0", b"9:1"])
    for thread in threads:
        thread.join()
    found = [message.split(b":") for message in read(store)]
    assert len(set(ends)) == 1600
    for name, count in [(0, 400), (1, 400), (2, 400), (3, 400), (9, 2)]:
        assert [int(number) for who, number in found if int(who) == name] == list(range(count))


# Replaying


def recorded(store: Archive, count: int = 200, size: int = 1000) -> list[bytes]:
    messages = [b"%d." % number + b"." * size for number in range(count)]
    with store.start_recording(CHANNEL, STREAM) as recorder:
        recorder.append_many(messages)
    return messages


def test_a_replay_begins_at_any_frame_and_is_as_long_as_asked_for(store: Archive) -> None:
    messages = recorded(store)
    ends = [0, *(record.fields["end_position"] for record in store.replay(0))]
    assert read(store, 0, ends[7]) == messages[7:]
    assert read(store, 0, ends[7], ends[9] - ends[7]) == messages[7:9]
    assert read(store, 0, ends[150]) == messages[150:]
    assert read(store, 0, ends[-1]) == []
    assert read(store, 0, 0, 0) == []
    assert read(store, 0, 0, 1 << 60) == messages
    batches = list(store.replay(0, ends[100]).batches(["payload"]))
    assert sum(batch.row_count for batch in batches) == 100


@pytest.mark.parametrize("position", [-32, 32, 33, 1 << 40, 64 << 10])
def test_a_replay_begins_nowhere_but_at_a_frame_of_the_recording(store: Archive, position: int) -> None:
    recorded(store, count=3)
    with pytest.raises(UsageError, match=rf"position .*{position}\b") as refused:
        store.replay(0, position)
    assert "recording 0" in str(refused.value)


def test_a_replay_of_an_unknown_recording_or_of_a_negative_length_is_refused(store: Archive) -> None:
    recorded(store, count=1)
    with pytest.raises(UnknownStream):
        store.replay(1)
    with pytest.raises(UsageError, match="length"):
        store.replay(0, 0, -1)


def test_positions_of_another_type_are_told_by_name(store: Archive) -> None:
    recorded(store, count=1)
    store.start_recording(CHANNEL, STREAM).stop()
    text: Any = "0"
    for call in (
        lambda: store.replay(0, text),
        lambda: store.truncate_recording(1, text),
        lambda: store.purge_segments(0, text),
        lambda: store.detach_segments(0, text),
    ):
        with pytest.raises(UsageError, match="position must be a whole number, not '0'"):
            call()
    with pytest.raises(UsageError, match="length must be a whole number, not '0'"):
        store.replay(0, 0, text)


def test_a_replay_follows_a_recording_until_it_stops(store: Archive) -> None:
    recorder = store.start_recording(CHANNEL, STREAM)
    recorder.append(b"before")
    found: list[bytes] = []
    replays = [store.replay(0, follow=True) for _ in range(3)]

    def follow(replay: Any) -> None:
        found.extend(record.payload for record in replay)

    threads = [threading.Thread(target=follow, args=(replay,)) for replay in replays]
    for thread in threads:
        thread.start()
    for number in range(300):
        recorder.append(b"%d" % number + b"." * 700)
        if number % 50 == 0:
            recorder.offer(b"offered")
            recorder.sync()
    recorder.stop()
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()
    assert len(found) == 3 * 307
    assert found.count(b"before") == 3
    assert found.count(b"offered") == 18


@pytest.mark.parametrize("way", ["append", "append_many", "flush", "sync", "stop", "close"])
def test_whoever_follows_is_woken_by_each_way_to_record(store: Archive, way: str) -> None:
    recorder = store.start_recording(CHANNEL, STREAM)
    replay = store.replay(0, follow=True)
    found: list[bytes] = []
    thread = threading.Thread(target=lambda: found.extend(record.payload for record in replay))
    thread.start()
    until(lambda: recorder.is_watched)
    if way == "append":
        recorder.append(b"x")
    elif way == "append_many":
        recorder.append_many([b"x"])
    elif way in ("flush", "sync"):
        recorder.offer(b"x")
        getattr(recorder, way)()
    if way == "close":
        replay.close()
    elif way == "stop":
        recorder.stop()
    else:
        until(lambda: found == [b"x"])
        recorder.stop()
    thread.join(20)
    assert not thread.is_alive()
    assert not recorder.is_watched


def test_a_replay_that_follows_ends_when_nothing_comes_in_time(store: Archive) -> None:
    recorder = store.start_recording(CHANNEL, STREAM)
    recorder.append(b"only")
    begun = time.monotonic()
    assert [record.payload for record in store.replay(0, follow=True, timeout_s=0.05)] == [b"only"]
    assert 0.04 < time.monotonic() - begun < 10


def test_a_message_that_is_not_whole_yet_is_given_when_it_is(store: Archive) -> None:
    recorder = store.start_recording(CHANNEL, STREAM, mtu_length=64)
    recorder.append_block(frame(0, b"whole") + frame(64, b"b" * 32, flags=0x80))
    replay = store.replay(0, follow=True)
    records = iter(replay)
    assert next(records).payload == b"whole"
    thread = threading.Timer(0.05, lambda: recorder.append_block(frame(128, b"e" * 20, flags=0x40)))
    thread.start()
    assert next(records).payload == b"b" * 32 + b"e" * 20
    thread.join()
    recorder.append_block(frame(192, b"c" * 32, flags=0x80))
    recorder.stop()
    assert next(records, None) is None
    told: list[Any] = []
    assert list(store.replay(0, 192).batches(["payload"], on_fault=told.append)) == []
    assert [(fault.code, fault.address) for fault in told] == [("incomplete-message", "192")]


def test_a_last_message_of_zeros_is_given_while_the_recording_is_active(store: Archive) -> None:
    recorder = store.start_recording(CHANNEL.replace("64k", "256k"), STREAM, mtu_length=16 << 10)
    follower = iter(store.replay(0, follow=True, timeout_s=10))
    recorder.append_block(frame(0, bytes(12 << 10)))
    assert next(follower).payload == bytes(12 << 10)
    assert read(store) == [bytes(12 << 10)]
    end = recorder.recorded_position
    assert read(store, 0, end) == []
    recorder.append(b"behind it")
    assert next(follower).payload == b"behind it"
    assert read(store) == [bytes(12 << 10), b"behind it"]


def test_replays_at_once_do_not_disturb_each_other(store: Archive) -> None:
    messages = recorded(store)
    first, second = iter(store.replay(0)), iter(store.replay(0, 0))
    for message in messages:
        assert next(first).payload == message
        assert next(second).payload == message
    assert next(first, None) is None


def test_damage_is_an_error_or_told_and_passed_over(store: Archive, folder: Path) -> None:
    messages = recorded(store, count=60)
    with (folder / "0-0.rec").open("r+b") as file:
        file.seek(10 * 1056)
        file.write(b"\xff" * 4)
    with pytest.raises(CorruptData):
        read(store)
    told: list[Any] = []
    batches = list(store.replay(0).batches(["payload"], on_fault=told.append))
    found = [payload for batch in batches for payload in batch.to_list("payload")]
    assert found == [*messages[:10], *messages[11:]]
    assert [fault.address for fault in told] == ["10560"]


def test_a_replay_of_a_recording_with_checksums_checks_them(folder: Path) -> None:
    with archives.create(folder, segment_length=SEGMENT, checksum="crc32c") as made:
        recorded(made, count=20)
        with (folder / "0-0.rec").open("r+b") as file:
            file.seek(5000)
            file.write(b"!")
        with pytest.raises(CorruptData, match="checksum"):
            read(made)


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


# Events


def test_listeners_are_told_what_happens_as_it_does(store: Archive) -> None:
    told: list[Event] = []
    end = store.listen(told.append)
    recorder = store.start_recording(CHANNEL, STREAM)
    recorder.append(b"x")
    recorder.append_many([b"y", b"z"])
    recorder.offer(b"o")
    recorder.sync()
    recorder.stop()
    store.extend_recording(0, session_id=4).stop()
    end()
    store.extend_recording(0).stop()
    assert told == [
        RecordingStarted(0, 0, -99, STREAM, CHANNEL, "aeron:ipc"),
        SignalEvent(0, 0, RecordingSignal.START),
        RecordingProgress(0, 0, 64),
        RecordingProgress(0, 0, 192),
        RecordingProgress(0, 0, 256),
        RecordingStopped(0, 0, 256),
        SignalEvent(0, 256, RecordingSignal.STOP),
        RecordingStarted(0, 0, 4, STREAM, "aeron:ipc?term-length=64k", "aeron:ipc"),
        SignalEvent(0, 256, RecordingSignal.EXTEND),
        RecordingStopped(0, 0, 256),
        SignalEvent(0, 256, RecordingSignal.STOP),
    ]


def test_events_as_an_iterator_join_progress_that_nobody_has_taken(store: Archive) -> None:
    recorder = store.start_recording(CHANNEL, STREAM)
    with store.events() as events:
        for _ in range(10):
            recorder.append(b"x")
        assert events.take(5) == RecordingProgress(0, 0, 640)
        assert events.take(0.01) is None
        recorder.append(b"x")
        recorder.stop()
        store.close()
        assert list(events) == [
            RecordingProgress(0, 0, 704),
            RecordingStopped(0, 0, 704),
            SignalEvent(0, 704, RecordingSignal.STOP),
        ]
        assert events.take() is None


def test_a_listener_that_fails_or_calls_back_does_no_harm(store: Archive, caplog: pytest.LogCaptureFixture) -> None:
    recorder = store.start_recording(CHANNEL, STREAM)

    def fail(event: Event) -> None:
        raise ValueError("a listener's own fault")

    def call_back(event: Event) -> None:
        if isinstance(event, RecordingStopped):
            assert recorder.stop() == 64
            store.extend_recording(event.recording_id)

    store.listen(fail)
    store.listen(call_back)
    recorder.append(b"x")
    recorder.stop()
    assert store.stop_position(0) is None  # extended by the listener
    assert "a listener failed" in caplog.text


def test_nobody_waits_for_events_of_a_closed_archive(store: Archive) -> None:
    events = store.events()
    waiting = threading.Thread(target=lambda: list(events))
    waiting.start()
    store.close()
    waiting.join(20)
    assert not waiting.is_alive()
    with pytest.raises(Closed, match="archive is closed"):
        store.events()


def test_streams_of_events_that_were_closed_are_let_go(store: Archive) -> None:
    kept = store.events()
    with store.events() as events:
        gone = weakref.ref(events)
    del events
    gc.collect()
    assert gone() is None
    store.close()
    assert list(kept) == []


# The end of a stream


@pytest.mark.parametrize("durability", ["written", "synced"])
@pytest.mark.parametrize("segment", [SEGMENT, 4 * SEGMENT])
@pytest.mark.parametrize("way", ["append", "append_many", "offer", "append_block"])
def test_a_stream_ends_at_its_max_position(folder: Path, kernel: str, durability: str, segment: int, way: str) -> None:
    end = TERM << 31
    with archives.create(folder, segment_length=segment, durability=durability) as made:
        recorder = made.start_recording("aeron:ipc?term-length=64k|init-term-id=5", STREAM, position=end - TERM)
        last = recorder.append_many([b"x" * 992] * 63)
        assert last == end - 1024

        def go_on() -> None:
            if way == "append_many":
                recorder.append_many([b"y" * 992, b"z"])
            elif way == "offer":
                recorder.offer(b"y" * 992)
                recorder.offer(b"z")
            else:
                recorder.append(b"y" * 992)
                if way == "append":
                    recorder.append(b"z")
                recorder.append_block(struct.pack("<I", 32).ljust(32, b"\0"))

        with pytest.raises(WriteFailed, match=f"max position exceeded: {end} is reached") as raised:
            go_on()
        if way == "append_many":
            assert raised.value.appended == 1
        for _ in range(2):
            with pytest.raises(WriteFailed, match="max position exceeded"):
                recorder.append(b"z")
        assert recorder.flush() == recorder.sync() == recorder.stop() == end
        assert read(made) == [b"x" * 992] * 63 + [b"y" * 992]
        with pytest.raises(UsageError, match="position"):
            made.extend_recording(0)
        with pytest.raises(UsageError, match=f"to {end - 32}"):
            made.start_recording("aeron:ipc?term-length=64k", STREAM, position=end)
    assert len(list(folder.glob("*.rec"))) == 1


def test_a_message_that_does_not_fit_before_the_max_position_is_refused(folder: Path, kernel: str) -> None:
    end = TERM << 31
    with archives.create(folder, segment_length=SEGMENT) as made:
        with made.start_recording("aeron:ipc?term-length=64k", STREAM, position=end - 64) as recorder:
            with pytest.raises(WriteFailed, match="max position exceeded"):
                recorder.append(b"x" * 100)
            assert recorder.recorded_position == end
        assert read(made) == []


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


# Owners


def run(code: str, *arguments: str, **how: Any) -> subprocess.Popen[str]:
    """A process of its own."""
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments], stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True, **how
    )


HOLD = """
import sys
from everlog.aeron import archive
found = archive.open_archive(sys.argv[1], liveness_timeout_s=0)
recorder = found.extend_recording(0)
recorder.append(b"theirs")
print("open", flush=True)
sys.stdin.readline()
try:
    recorder.append(b"too late")
    print("appended", flush=True)
except Exception as error:
    print(type(error).__name__, error, flush=True)
"""


@pytest.fixture
def theirs(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process, which has the archive open and records."""
    with archives.create(folder, segment_length=SEGMENT) as made:
        made.start_recording(CHANNEL, STREAM).append(b"first")
    process = run(HOLD, str(folder))
    assert process.stdout is not None
    assert process.stdout.readline() == "open\n"
    yield process
    process.kill()
    process.wait()
    process.stdout.close()
    assert process.stdin is not None
    process.stdin.close()


def test_a_second_owner_is_refused_with_the_reason(folder: Path, theirs: subprocess.Popen[str]) -> None:
    before = {path.name: path.read_bytes() for path in folder.glob("*.*") if path.name != "archive-mark.dat"}
    with pytest.raises(StoreUnavailable, match="already open in another everlog process"):
        archives.open_archive(folder, liveness_timeout_s=0)
    with pytest.raises(StoreUnavailable, match="already open in another everlog process"):
        archives.create(folder, exist_ok=True)
    assert {name: (folder / name).read_bytes() for name in before} == before


def test_who_was_killed_keeps_the_folder_for_the_timeout(folder: Path, theirs: subprocess.Popen[str]) -> None:
    theirs.kill()
    theirs.wait()
    with pytest.raises(StoreUnavailable, match=rf"process {theirs.pid}, active \d+\.\d s ago"):
        archives.open_archive(folder)
    deadline = time.monotonic() + 20
    while True:
        try:
            with archives.open_archive(folder, liveness_timeout_s=0.3) as again:
                assert again.recovered == ["set the stop positions of 1 recordings in archive.catalog"]
                assert read(again) == [b"first", b"theirs"]
                return
        except StoreUnavailable:
            assert time.monotonic() < deadline
            time.sleep(0.05)


def test_segments_that_were_purged_are_not_missed_by_a_sync(store: Archive, kernel: str) -> None:
    recorder = store.start_recording(CHANNEL, STREAM)
    for _ in range(200):
        recorder.append(b"x" * 1000)
    assert store.purge_segments(0, store.purge_position(0, keep_bytes=0)) > 0
    assert recorder.sync() == recorder.append(b"y") - 64
    assert recorder.sync() == recorder.recorded_position


def test_an_archive_goes_on_when_the_process_goes_to_another_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(heartbeat, "INTERVAL_S", 0.05)
    with archives.create("archive", segment_length=SEGMENT) as made, made.start_recording(CHANNEL, STREAM) as recorder:
        monkeypatch.chdir(tmp_path / "elsewhere")
        time.sleep(0.2)
        for _ in range(100):
            recorder.append(b"x" * 1000)
        assert made.path == str(tmp_path / "archive")
    assert not os.listdir(tmp_path / "elsewhere")
    with archives.open_archive(tmp_path / "archive") as again:
        assert len(read(again)) == 100


def java_mark(folder: Path, *, ago_ms: int, pid: int = 4242) -> None:
    """The mark file as an archive in Java has it that said ``ago_ms`` ago that it lives; nobody holds a lock."""
    with (folder / "archive-mark.dat").open("r+b") as file:
        now = time.time_ns() // 1_000_000 - ago_ms
        file.seek(16)
        file.write(struct.pack("<qqq", now, now - 1000, pid))


def test_an_archive_in_java_is_known_by_its_mark_file_alone(folder: Path) -> None:
    archives.create(folder).close()
    java_mark(folder, ago_ms=3000)
    with pytest.raises(StoreUnavailable, match=r"owned by process 4242, active 3\.\d s ago"):
        archives.open_archive(folder)
    java_mark(folder, ago_ms=10_500)
    archives.open_archive(folder).close()


@pytest.mark.long
def test_an_owner_that_lost_the_folder_while_it_was_stopped_writes_no_more(
    folder: Path, theirs: subprocess.Popen[str]
) -> None:
    """As an archive in Java takes over what was silent for ten seconds; it does not know our lock."""
    os.kill(theirs.pid, signal.SIGSTOP)
    time.sleep(3)
    java_mark(folder, ago_ms=0)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert theirs.stdin is not None
    assert theirs.stdout is not None
    theirs.stdin.write("\n")
    theirs.stdin.flush()
    os.kill(theirs.pid, signal.SIGCONT)
    said = theirs.stdout.readline()
    assert said.startswith("StoreUnavailable"), said
    assert "has another owner: this archive was silent for too long" in said
    theirs.wait(20)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_a_forked_child_has_a_closed_archive_and_its_parent_goes_on(folder: Path, kernel: str) -> None:
    with archives.create(folder, segment_length=SEGMENT) as made:
        recorder = made.start_recording(CHANNEL, STREAM)
        recorder.append(b"one")
        recorder.offer(b"two")
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                others = [os.open(os.devnull, os.O_RDWR) for _ in range(20)]  # numbers of the files that were closed
                for call in (lambda: recorder.append(b"child's"), recorder.flush, made.recordings):
                    with pytest.raises(StoreUnavailable, match="a forked child"):
                        call()
                made.close()
                code = 0 if others else 2
            finally:
                os._exit(code)
        assert os.waitpid(pid, 0)[1] == 0
        with pytest.raises(StoreUnavailable, match="already open in another everlog process"):
            archives.open_archive(folder, liveness_timeout_s=0)
        recorder.append(b"three")
        assert read(made) == [b"one", b"two", b"three"]


def test_a_failed_opening_leaves_a_folder_that_can_be_opened_at_once() -> None:
    inner = CrashingStorage()
    opened(inner).close()
    for fail_at in range(8):
        disk = FaultyWrites(inner, WriteFaults(fail_at=fail_at))
        try:
            opened(disk, liveness_timeout_s=10).close()
        except WriteFailed:
            opened(inner, liveness_timeout_s=10).close()


@pytest.mark.parametrize("kind", ["none", "crc32", "crc32c"])
def test_a_checksum_of_none_is_the_one_that_the_catalogs_entries_have(folder: Path, kind: Checksum) -> None:
    with archives.create(folder, segment_length=SEGMENT, checksum=kind) as made:
        made.start_recording(CHANNEL, STREAM).append(b"kept")
    with archives.open_archive(folder, checksum=None) as again:
        assert again.options.checksum == kind
        assert read(again) == [b"kept"]


def test_a_misspelt_stream_option_is_refused(store: Archive) -> None:
    options: dict[str, Any] = {"term_lenght": 65536}
    with pytest.raises(UsageError, match=r"unknown option .term_lenght.; known: .*term_length"):
        store.start_recording(CHANNEL, STREAM, **options)
