"""Recovery of archives that were killed: the ends that real archives find at a restart, better ones where they refuse
or err, and nothing half done wherever it is stopped."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from typing import Any

import pytest

import tests
from everlog.aeron.archive import Archive, ArchiveOptions
from everlog.aeron.archive.format.catalog_file import load_catalog
from everlog.aeron.archive.repair.ends import recover_end
from everlog.aeron.archive.repair.recovery import plan_recovery
from everlog.aeron.archive.store import ArchiveStore
from everlog.aeron.layouts import CatalogHeader, DescriptorHeader, RecordingDescriptor
from everlog.errors import CorruptData, UnsupportedVersion, WriteFailed
from everlog.testing.series import Series
from everlog.testing.storage.crashing import CrashingStorage
from everlog.testing.storage.faulty_writes import FaultyWrites, WriteFaults
from everlog.testing.storage.memory import MemoryStorage
from tests.aeron.archive.recorded import CHANNEL, STREAM, opened

SEGMENT = 131072
TERM = 65536
GOLDEN = tests.GOLDEN / "aeron"


def unpacked(name: str) -> dict[str, bytes]:
    return MemoryStorage.of_tar(GOLDEN / f"{name}.tar.gz").files


def stops(storage: CrashingStorage) -> dict[int, int]:
    catalog, _ = load_catalog(storage)
    assert catalog is not None
    return {entry.recording_id: entry.stop_position for entry in catalog.entries}


def recover(storage: CrashingStorage, **options: Any) -> list[str]:
    return plan_recovery(ArchiveStore.open(storage, {}).folder, **options).apply()


@pytest.mark.parametrize(
    ("name", "truth"),
    [
        ("crash-plain", "truth-plain-after-restart"),
        ("crash-crc", "truth-crc-after-restart"),
        ("torn-half-plain", "truth-torn-half-plain-after-restart"),
        ("torn-page-plain", "truth-torn-page-plain-after-verify-y-and-restart"),
        ("torn-page-crc", "truth-torn-page-crc-after-verify-y-and-restart"),
    ],
)
def test_recordings_stop_where_the_real_archive_lets_them(
    golden_truth: Callable[[str], dict[str, Any]], name: str, truth: str
) -> None:
    storage = CrashingStorage(unpacked(f"archive-crash/{name}"))
    recover(storage)
    expected = {r["recordingId"]: r["stopPosition"] for r in golden_truth(f"archive-crash/{truth}")["recordings"]}
    assert stops(storage) == expected
    assert ArchiveStore.open(storage, {}).verify().ok


def test_a_frame_whose_checksum_is_wrong_is_cut_where_the_real_archive_keeps_it(
    golden_truth: Callable[[str], dict[str, Any]],
) -> None:
    storage = CrashingStorage(unpacked("archive-crash/torn-half-crc"))
    done = recover(storage)
    truth = golden_truth("archive-crash/truth-torn-half-crc-after-restart")["recordings"]
    assert {r["recordingId"]: r["stopPosition"] for r in truth} == {0: 30048, 1: 186336, 2: 732224, 3: 0}
    assert stops(storage) == {0: 30048, 1: 186336, 2: 731072, 3: 0}  # the frame at 731072 is torn: see its note
    assert not any(storage.read_all("2-655360.rec")[731072 - 655360 :])
    assert len(storage.read_all("2-655360.rec")) == SEGMENT
    assert [line.split()[0] for line in done] == ["erased", "set"]
    # The fragments before it stay: their positions may have been acknowledged.
    assert [f.code for f in ArchiveStore.open(storage, {}).verify().faults] == ["incomplete-message"]


def test_a_file_of_zeros_behind_the_end_goes_where_the_real_archive_takes_its_end_for_the_stop_position() -> None:
    storage = CrashingStorage(unpacked("archive-crash/torn-zeroseg-plain"))
    assert "2-917504.rec" in storage.names()
    recover(storage)
    assert stops(storage)[2] == 821728  # as the real archive finds without that file; with it, 917504
    assert "2-917504.rec" not in storage.names()
    assert {"2-786432.rec", "3-0.rec"} <= set(storage.names())


def test_the_file_of_zeros_that_begins_at_the_end_stays_and_is_lengthened() -> None:
    """The original makes it as soon as the one before is full."""
    files = unpacked("archive-crash/crash-plain")
    files["3-0.rec"] = bytes(1000)
    storage = CrashingStorage(files)
    recover(storage)
    assert storage.read_all("3-0.rec") == bytes(SEGMENT)
    assert stops(storage)[3] == 0


def full_segment(channel: str = "aeron:ipc?term-length=64k") -> CrashingStorage:
    """A recording that fills one segment, when its owner is killed before the next file is there."""
    storage = CrashingStorage()
    with Archive.create(storage, ArchiveOptions(segment_length=SEGMENT, durability="synced")) as made:
        recorder = made.start_recording(channel, 10)
        recorder.append_many([bytes([7]) * 992] * (SEGMENT // 1024))
        killed = storage.kill()
    killed.remove(f"0-{recorder.position}.rec")
    return killed


def test_behind_the_last_position_of_a_stream_no_file_is_made() -> None:
    first = (1 << 31) - SEGMENT // TERM
    storage = full_segment(f"aeron:ipc?term-length=64k|init-term-id=0|term-id={first}|term-offset=0")
    end = (1 << 31) * TERM
    assert recover(storage)[0].startswith("set ")
    assert stops(storage) == {0: end}
    assert [name for name in storage.names() if name.endswith(".rec")] == [f"0-{end - SEGMENT}.rec"]


def test_behind_a_full_segment_the_file_is_made_in_which_writing_goes_on() -> None:
    """Its owner was killed before that; ArchiveTool would take the recording for invalid."""
    storage = full_segment()
    done = recover(storage)
    assert done[0] == f"created 0-{SEGMENT}.rec: {SEGMENT} bytes of zeros"
    assert storage.read_all(f"0-{SEGMENT}.rec") == bytes(SEGMENT)
    assert stops(storage) == {0: SEGMENT}
    store = ArchiveStore.open(storage, {})
    assert store.verify().faults == []
    assert plan_recovery(store.folder).is_empty


def test_a_crash_while_that_file_is_made_is_finished_by_the_next_recovery() -> None:
    storage = full_segment()
    moments: list[CrashingStorage] = []

    def look(_: str) -> None:
        moments.extend([storage.kill(), *(storage.crash(len(moments) << 8 | seed) for seed in range(6))])

    storage.after_each = look
    recover(storage)
    storage.after_each = None
    assert len(moments) > 20
    for crashed in moments:
        recover(crashed)
        assert crashed.read_all(f"0-{SEGMENT}.rec") == bytes(SEGMENT)
        assert stops(crashed) == {0: SEGMENT}


# The last two frames, at every byte and bit


def offsets(data: bytes) -> list[int]:
    """Where frames begin in a segment that begins with one, and where the last one ends."""
    found = [0]
    while found[-1] + 32 <= len(data) and any(data[found[-1] : found[-1] + 32]):
        found.append(found[-1] + (int.from_bytes(data[found[-1] : found[-1] + 4], "little") + 31 & -32))
    return found


def last_frames(data: bytes) -> tuple[int, int, int]:
    """Offsets of the last two frames of a segment that begins with one, and of the end."""
    first, second, end = offsets(data)[-3:]
    return first, second, end


def end_of(files: dict[str, bytes], recording_id: int, **changed: bytes) -> int:
    store = ArchiveStore.open(MemoryStorage({**files, **changed}), {})
    return recover_end(store.folder, store.folder.recordings()[recording_id]).stop_position


CASES = [
    ("archive-crash/crash-plain", 2, "2-786432.rec"),
    ("archive-crash/crash-crc", 2, "2-655360.rec"),
    ("archive-old-releases/1.32.0-killed", 1, None),
]


def case(name: str, recording_id: int, last: str | None) -> tuple[dict[str, bytes], str, int]:
    files = unpacked(name)
    numbers = sorted(int(n.split("-")[1][:-4]) for n in files if n.startswith(f"{recording_id}-"))
    found = f"{recording_id}-{numbers[-1]}.rec"
    assert last in (None, found)
    return files, found, numbers[-1]


@pytest.mark.long
@pytest.mark.parametrize(("name", "recording_id", "last"), CASES)
def test_a_file_that_ends_anywhere_in_the_last_two_frames_is_cut_at_the_last_whole_one(
    name: str, recording_id: int, last: str | None, series: Series
) -> None:
    files, last, base = case(name, recording_id, last)
    first, second, end = last_frames(files[last])
    for size in series.points(range(first, end + 1)):
        expected = end if size == end else second if size >= second else first
        assert end_of(files, recording_id, **{last: files[last][:size]}) == base + expected, size


def test_zeros_from_any_byte_of_the_last_two_frames_on_cut_the_torn_one_where_there_are_checksums(
    series: Series,
) -> None:
    files, last, base = case("archive-crash/crash-crc", 2, None)
    data = files[last]
    first, second, end = last_frames(data)
    for at in series.points(range(first, end)):
        torn = data[:at] + bytes(len(data) - at)
        begin = first if at < second else second
        behind = second if at < second else end
        expected = behind if torn[begin:behind] == data[begin:behind] else begin
        assert end_of(files, 2, **{last: torn}) == base + expected, at


@pytest.mark.long
def test_each_bit_of_the_last_frame_that_is_flipped_cuts_it_and_of_the_one_before_costs_nothing(series: Series) -> None:
    files, last, base = case("archive-crash/crash-crc", 2, None)
    data = files[last]
    first, second, end = last_frames(data)
    # Version, flags and reserved value are under no checksum; of the length only what leads to another place shows.
    free = {4, 5, *range(24, 32)}
    for number in series.points(range(8 * first, 8 * end)):
        at, bit = divmod(number, 8)
        flipped = data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :]
        found = end_of(files, 2, **{last: flipped}) - base
        if at < second or at - second in free:
            assert found == end, (at, bit)
        elif at == second:
            length = int.from_bytes(flipped[second : second + 4], "little")
            is_same = second + ((length + 31) & -32) == end and not any(data[second + length : end])
            assert found == (end if is_same else second), (at, bit)
        else:
            assert found == second, (at, bit)


# What is no torn tail, and what is


def test_a_hole_is_the_end_even_when_frames_follow() -> None:
    files, last, base = case("archive-crash/crash-crc", 2, None)
    data, places = files[last], offsets(files[last])
    hole = places[10]
    storage = CrashingStorage({**files, last: data[:hole] + bytes(32) + data[hole + 32 :]})
    plan = plan_recovery(ArchiveStore.open(storage, {}).folder)
    assert "frames after a hole" in plan.steps[0].before
    assert "never synced" in plan.loses[0]
    plan.apply()
    assert stops(storage)[2] == base + hole
    assert storage.read_all(last) == data[:hole] + bytes(len(data) - hole)


def test_files_behind_a_hole_at_a_files_beginning_go() -> None:
    files, last, base = case("archive-crash/crash-crc", 2, None)
    storage = CrashingStorage({**files, last: bytes(32) + files[last][32:], f"2-{base + SEGMENT}.rec": bytes(SEGMENT)})
    recover(storage)
    assert stops(storage)[2] == base
    assert storage.read_all(last) == bytes(SEGMENT)  # it begins at the end
    assert f"2-{base + SEGMENT}.rec" not in storage.names()
    assert ArchiveStore.open(storage, {}).verify().ok


@pytest.mark.parametrize("damage", [(8, b"\x01\x02\x03"), (0, b"\xef\xff\xff\xff"), (40, b"\xff\x00\xff")])
def test_a_damaged_frame_with_good_ones_behind_it_is_no_torn_tail_and_stays(damage: tuple[int, bytes]) -> None:
    files, last, _ = case("archive-crash/crash-crc", 2, None)
    offset, written = damage
    at = offsets(files[last])[10] + offset
    damaged = files[last][:at] + written + files[last][at + len(written) :]
    storage = CrashingStorage({**files, last: damaged})
    recover(storage)
    assert stops(storage)[2] == 733984
    assert storage.read_all(last) == damaged


def test_a_last_frame_of_negative_length_is_cut() -> None:
    files, last, base = case("archive-crash/crash-plain", 2, None)
    _, second, _ = last_frames(files[last])
    damaged = files[last][:second] + struct.pack("<i", -1408) + files[last][second + 4 :]
    assert end_of(files, 2, **{last: damaged}) == base + second


def test_frames_that_were_recorded_without_checksums_behind_ones_with_them_are_no_torn_ones() -> None:
    """An archive that was not configured for checksums extended the recording: their session ids are session ids."""
    files, last, _ = case("archive-crash/crash-crc", 2, None)
    data = bytearray(files[last])
    for at in offsets(files[last])[-6:-1]:
        data[at + 12 : at + 16] = struct.pack("<i", 77)
    assert end_of(files, 2, **{last: bytes(data)}) == 733984


def test_checksums_of_catalog_entries_are_renewed() -> None:
    files = unpacked("archive-basic/archive-checksum-crc32")
    data = bytearray(files["archive.catalog"])
    body = CatalogHeader.size + DescriptorHeader.size
    for name in ("stop_timestamp", "stop_position"):
        data[body + RecordingDescriptor.field(name).offset : body + RecordingDescriptor.field(name).end] = b"\xff" * 8
    length = int.from_bytes(data[CatalogHeader.size : CatalogHeader.size + 4], "little")
    crc = zlib.crc32(data[body : body + length]).to_bytes(4, "little")
    at = CatalogHeader.size + DescriptorHeader.field("checksum").offset
    data[at : at + 4] = crc
    storage = CrashingStorage({**files, "archive.catalog": bytes(data)})
    assert ArchiveStore.open(storage, {}).verify().ok
    recover(storage)
    assert stops(storage)[0] == 398240
    after = storage.read_all("archive.catalog")
    assert after[at : at + 4] == zlib.crc32(after[body : body + length]).to_bytes(4, "little") != crc
    assert len(after) == len(data)


def test_a_catalog_that_is_old_or_missing_is_refused_and_nothing_is_changed() -> None:
    for files, error, hint in (
        (unpacked("archive-old-releases/1.20.0-killed"), UnsupportedVersion, "migrate"),
        ({"1-0.rec": bytes(65536)}, CorruptData, "everlog repair"),
    ):
        storage = CrashingStorage(files)
        with pytest.raises(error, match=hint):
            recover(storage)
        assert {name: storage.read_all(name) for name in storage.names()} == files


# Stopped anywhere


def broken() -> dict[str, bytes]:
    """A killed archive of small segments: a torn frame and a file of zeros behind recording 2, a short last file of
    recording 1."""
    files, last, base = case("archive-old-releases/1.32.0-killed", 2, None)
    _, second, end = last_frames(files[last])
    torn = files[last][:end] + files[last][second : second + 8] + bytes(12) + b"torn"
    files[last] = torn.ljust(len(files[last]), b"\0")
    files[f"2-{base + 65536}.rec"] = bytes(65536)
    _, other, number = case("archive-old-releases/1.32.0-killed", 1, None)
    files[other] = files[other][: last_frames(files[other])[2] + 100]
    assert number == 131072
    return files


def records(storage: CrashingStorage) -> dict[str, list[tuple[str, bytes]]]:
    store = ArchiveStore.open(storage, {})
    return {
        info.name: [(r.address, r.payload) for r in store.read(info.name, on_fault=lambda fault: None)]
        for info in store.streams()
    }


def is_recovered(storage: CrashingStorage, before: dict[str, list[tuple[str, bytes]]]) -> bool:
    store = ArchiveStore.open(storage, {})
    assert stops(storage) == {0: 144256, 1: 161376, 2: 306432}
    assert plan_recovery(store.folder).is_empty
    assert store.verify().faults == []
    assert sorted(storage.names()) == sorted(broken().keys() - {"2-327680.rec"})
    return records(storage) == before


def test_a_recovery_that_is_stopped_anywhere_is_finished_by_the_next_one(series: Series) -> None:
    before = records(CrashingStorage(broken()))
    storage = CrashingStorage(broken())
    plan = plan_recovery(ArchiveStore.open(storage, {}).folder)
    moments: list[tuple[str, CrashingStorage]] = []

    def look(what: str) -> None:
        number = len(moments)
        moments.append((f"{number}: killed after {what}", storage.kill()))
        for seed in range(6):
            moments.append((f"{number}: power cut {seed} after {what}", storage.crash(number << 8 | seed)))

    storage.after_each = look
    plan.apply()
    storage.after_each = None
    assert is_recovered(storage, before)
    assert len(moments) > 60
    for where, crashed in series.points(moments):
        assert records(crashed) == before, where
        recover(crashed)
        assert is_recovered(crashed, before), where


def test_a_power_cut_after_a_recovery_takes_nothing_of_it_back() -> None:
    storage = CrashingStorage(broken())
    recover(storage)
    recovered = {name: storage.read_all(name) for name in storage.names()}
    for seed in range(10):
        crashed = storage.crash(seed)
        assert {name: crashed.read_all(name) for name in crashed.names()} == recovered, seed


@pytest.mark.parametrize("count", [1, 1 << 30])
def test_a_disk_that_fails_at_any_operation_of_a_recovery_leaves_what_the_next_one_finishes(
    count: int, series: Series
) -> None:
    before = records(CrashingStorage(broken()))
    for number in series.numbers():
        storage = CrashingStorage(broken())
        faulty = FaultyWrites(storage, WriteFaults(fail_at=number, count=count, part_bytes=0))
        plan = plan_recovery(ArchiveStore.open(faulty, {}).folder)
        try:
            plan.apply()
        except WriteFailed:
            where = f"{number}: {faulty.failed[0]}"
            assert records(storage) == before, where
            recover(storage)
            assert is_recovered(storage, before), where
            continue
        break
    assert number > 10


def test_a_power_cut_after_a_kill_and_a_recovery_takes_nothing_that_the_catalog_counts_on() -> None:
    storage = CrashingStorage()
    archive = opened(storage, durability="synced")
    recorder = archive.start_recording(CHANNEL, STREAM)
    recorder.append(b"synced")
    killed: list[CrashingStorage] = []
    storage.after_each = lambda what: killed.append(storage.kill()) if what == "write" else None
    recorder.append(b"written, and not synced when the process dies")
    storage.after_each = None
    archive.close()
    with opened(killed[0], durability="synced") as archive:
        stop = archive.stop_position(0)
    assert stop is not None
    for seed in range(20):
        with opened(killed[0].crash(seed), durability="synced") as archive:
            assert archive.stop_position(0) == stop
            assert [record.payload for record in archive.replay(0)][-1].startswith(b"written")
