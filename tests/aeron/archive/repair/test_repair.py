"""Repair of archives: each damage is mended or told, no record that was read is lost, wherever it is stopped."""

from __future__ import annotations

import random
import struct
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import tests
from everlog.aeron.archive.folder.recordings import recording_of
from everlog.aeron.archive.format.catalog_file import load_catalog
from everlog.aeron.archive.format.segments import segment_name
from everlog.aeron.archive.repair.catalog import UNKNOWN_CHANNEL
from everlog.aeron.archive.store import ArchiveStore
from everlog.aeron.layouts import (
    ArchiveMarkHeader,
    CatalogHeader,
    DescriptorHeader,
    RecordingDescriptor,
    SbeMessageHeader,
)
from everlog.core.files.storage import Storage
from everlog.core.plan.backup import FolderBackup
from everlog.errors import FileChanged, StoreUnavailable, WriteFailed
from everlog.testing.fuzz.mutations import mutate
from everlog.testing.series import Series
from everlog.testing.storage.crashing import CrashingStorage
from everlog.testing.storage.faulty_writes import FaultyWrites, WriteFaults
from everlog.testing.storage.memory import MemoryStorage

GOLDEN = tests.GOLDEN / "aeron"
CATALOG, MARK = "archive.catalog", "archive-mark.dat"
FIRST = CatalogHeader.size
STOP_AT = FIRST + DescriptorHeader.size + RecordingDescriptor.field("stop_position").offset
MARK_VERSION_AT = SbeMessageHeader.size + ArchiveMarkHeader.field("version").offset
SEGMENT = 131072
STOP_OF_0 = 398240
"""Where recording 0 of the basic archive stops, as the real archive says."""

Files = dict[str, bytes]
Damage = Callable[[Files], None]


def unpacked(name: str) -> Files:
    return MemoryStorage.of_tar(GOLDEN / f"{name}.tar.gz").files


def put(name: str, offset: int, data: bytes) -> Damage:
    def change(files: Files) -> None:
        files[name] = files[name][:offset] + data + files[name][offset + len(data) :]

    return change


def cut(name: str, size: int) -> Damage:
    def change(files: Files) -> None:
        files[name] = files[name][:size]

    return change


def stop_at(position: int) -> Damage:
    return put(CATALOG, STOP_AT, struct.pack("<q", position))


def make(name: str, data: bytes) -> Damage:
    return lambda files: files.update({name: data})


def both(*damages: Damage) -> Damage:
    def change(files: Files) -> None:
        for damage in damages:
            damage(files)

    return change


def copy_of(source: str, name: str) -> Damage:
    return lambda files: files.update({name: files[source]})


BASIC, CRC = "archive-basic/archive", "archive-basic/archive-checksum-crc32"
MENDED: dict[str, tuple[str, Damage, set[str]]] = {
    # name: archive, what is done to it, the files that are changed
    "stop position too low": (BASIC, stop_at(1024), {CATALOG}),
    "stop position inside a frame": (BASIC, stop_at(1024 + 32), {CATALOG}),
    "stop position in zeros": (BASIC, stop_at(STOP_OF_0 + 64), {CATALOG}),
    "stop position in a file of zeros": (
        BASIC,
        both(stop_at(STOP_OF_0 + SEGMENT), make("0-524288.rec", bytes(SEGMENT))),
        {CATALOG, "0-524288.rec"},
    ),
    "no stop position": (BASIC, stop_at(-1), {CATALOG}),
    "short behind the stop": (BASIC, cut("0-393216.rec", 8000), {"0-393216.rec"}),
    "last file cut inside a frame": (BASIC, cut("0-393216.rec", 3000), {CATALOG, "0-393216.rec"}),
    "zeros behind the stop": (BASIC, make("0-524288.rec", bytes(SEGMENT)), {"0-524288.rec"}),
    "catalog entry": (BASIC, put(CATALOG, FIRST, struct.pack("<i", 7)), {CATALOG}),
    "catalog's next id": (BASIC, put(CATALOG, 8, struct.pack("<q", 3)), {CATALOG}),
    "catalog's header length": (BASIC, put(CATALOG, 4, struct.pack("<i", 99)), {CATALOG}),
    "mark file cut": (BASIC, cut(MARK, 50), {MARK}),
    "mark file of another version": (BASIC, put(MARK, MARK_VERSION_AT, struct.pack("<i", 9 << 16)), {MARK}),
    "entry's checksum": (CRC, put(CATALOG, FIRST + 8, b"\x4d\0\0\0"), {CATALOG}),
    "killed": ("archive-crash/crash-plain", lambda files: None, {CATALOG}),
    "killed, with checksums": ("archive-crash/crash-crc", lambda files: None, {CATALOG}),
    "torn page": ("archive-crash/torn-page-plain", lambda files: None, {CATALOG, "2-786432.rec"}),
    "torn page, with checksums": ("archive-crash/torn-page-crc", lambda files: None, {CATALOG, "2-655360.rec"}),
    "torn half, with checksums": ("archive-crash/torn-half-crc", lambda files: None, {CATALOG, "2-655360.rec"}),
    "segment of zeros": ("archive-crash/torn-zeroseg-plain", lambda files: None, {CATALOG, "2-917504.rec"}),
    "draft": (BASIC, make(".everlog-77", b"half"), {".everlog-77"}),
}


def damaged(name: str) -> Files:
    archive, damage, _ = MENDED[name]
    files = unpacked(archive)
    damage(files)
    return files


def open_archive(storage: Storage) -> ArchiveStore:
    return ArchiveStore.open(storage, {})


def records(storage: CrashingStorage) -> dict[str, list[tuple[int, bytes]]]:
    store = open_archive(storage)
    return {
        info.name: [(r.fields["position"], r.payload) for r in store.read(info.name, on_fault=lambda fault: None)]
        for info in store.streams()
    }


def lost(before: dict[str, list[tuple[int, bytes]]], storage: CrashingStorage) -> list[tuple[str, int]]:
    after = records(storage)
    return [(name, r[0]) for name, found in before.items() for r in set(found) - set(after.get(name, []))]


def stop_of(storage: CrashingStorage, recording_id: int) -> int | None:
    catalog, _ = load_catalog(storage)
    assert catalog is not None
    (found,) = [recording_of(e).stop_position for e in catalog.entries if e.recording_id == recording_id]
    return found


@pytest.mark.parametrize("name", MENDED)
def test_what_can_be_mended_is_and_no_record_is_lost(name: str) -> None:
    files = damaged(name)
    storage = CrashingStorage(files)
    before = records(storage)
    plan = open_archive(storage).plan_repair()
    assert {key: storage.read_all(key) for key in storage.names()} == files, "a plan changes nothing"
    assert {step.file for step in plan.steps} == MENDED[name][2]
    assert plan.unrepaired == ()
    plan.apply()
    assert lost(before, storage) == []
    report = open_archive(storage).verify()
    assert report.ok, [str(fault) for fault in report.faults]
    assert open_archive(storage).plan_repair().is_empty


@pytest.mark.parametrize(
    ("name", "stop"),
    [
        ("stop position too low", STOP_OF_0),
        ("stop position inside a frame", STOP_OF_0),
        ("stop position in zeros", STOP_OF_0),
        ("stop position in a file of zeros", STOP_OF_0),
        ("no stop position", STOP_OF_0),
        ("catalog entry", STOP_OF_0),
        ("short behind the stop", STOP_OF_0),
    ],
)
def test_the_stop_position_is_again_where_the_real_archive_had_it(name: str, stop: int) -> None:
    storage = CrashingStorage(damaged(name))
    open_archive(storage).plan_repair().apply()
    assert stop_of(storage, 0) == stop
    whole = CrashingStorage(unpacked(BASIC))
    assert records(storage)["0"] == records(whole)["0"]


def test_a_stop_position_terabytes_away_costs_no_name_of_a_file_that_is_not_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    files = unpacked(BASIC)
    stop_at(4 << 40)(files)
    names = 0

    def counting(recording_id: int, number: int) -> str:
        nonlocal names
        names += 1
        assert names < 10_000
        return segment_name(recording_id, number)

    monkeypatch.setattr("everlog.aeron.archive.format.segments.segment_name", counting)
    plan = open_archive(CrashingStorage(files)).plan_repair()
    assert names > 0
    assert plan.steps or plan.unrepaired


def test_a_frame_that_its_files_end_cuts_off_is_not_read_as_a_whole_one_with_zeros() -> None:
    storage = CrashingStorage(damaged("last file cut inside a frame"))
    before = records(storage)
    plan = open_archive(storage).plan_repair()
    assert any("of recording 0, which are not on disk" in line for line in plan.loses)
    plan.apply()
    assert records(storage) == before
    assert len(storage.read_all("0-393216.rec")) == SEGMENT
    assert stop_of(storage, 0) == before["0"][-1][0] + 32 * -(-(32 + len(before["0"][-1][1])) // 32)


def test_a_file_that_is_short_in_the_middle_is_told_and_left() -> None:
    files = unpacked(BASIC)
    cut("0-262144.rec", 66536)(files)
    plan = open_archive(CrashingStorage(files)).plan_repair()
    assert plan.is_empty
    assert [fault.code for fault in plan.unrepaired] == ["segment-short"]


def test_frames_behind_the_stop_that_do_not_follow_it_are_kept_aside_and_never_without_a_backup(tmp_path: Path) -> None:
    files = unpacked(BASIC)
    copy_of("0-0.rec", "0-655360.rec")(files)
    storage = CrashingStorage(files)
    assert open_archive(storage).plan_repair().apply() == ["left 0-655360.rec: no backup to move it to"]
    assert storage.read_all("0-655360.rec") == files["0-0.rec"]
    backup = FolderBackup(tmp_path / "kept")
    open_archive(storage).plan_repair().apply(backup=backup)
    assert "0-655360.rec" not in storage.names()
    assert (tmp_path / "kept" / "0-655360.rec").read_bytes() == files["0-0.rec"]
    assert open_archive(storage).verify().ok


def test_files_that_may_be_misnamed_are_not_taken_for_too_many() -> None:
    """A migration of Aeron's that misnamed files: some are missing, others are behind the stop."""
    plan = open_archive(CrashingStorage(unpacked("archive-old-releases/1.9.3-stopped-migrated"))).plan_repair()
    assert plan.is_empty
    assert {fault.code for fault in plan.unrepaired} == {"segment-beyond-stop", "segment-missing", "unset-frame"}


@pytest.mark.parametrize("catalog", [None, bytes(1 << 20), b"torn"])
def test_a_catalog_that_is_gone_is_made_of_what_the_files_tell(catalog: bytes | None) -> None:
    whole = records(CrashingStorage(unpacked(BASIC)))
    files = unpacked(BASIC)
    del files[CATALOG]
    if catalog is not None:
        files[CATALOG] = catalog
    storage = CrashingStorage(files)
    plan = open_archive(storage).plan_repair()
    assert plan.loses == [f"{CATALOG}: channel, source, times and session of those found by their files"]
    # Of recording 10 there is a file, and no frame in it.
    assert [(fault.code, fault.file) for fault in plan.unrepaired] == [("segment-orphaned", "10-0.rec")]
    plan.apply()
    store = open_archive(storage)
    assert [f.code for f in store.verify().faults] == ["segment-orphaned"]
    assert {s.name: s.details["channel"] for s in store.streams()}["0"] == UNKNOWN_CHANNEL
    found = records(storage)
    # Detached segments and those behind a truncation are not told from others by files alone: nothing less is there.
    assert [(n, r) for n, all_ in whole.items() for r in set(all_) - set(found.get(n, []))] == []
    assert store.folder.catalog is not None
    assert store.folder.catalog.header.next_recording_id > 11
    assert store.plan_repair().is_empty


def test_a_recording_whose_entry_is_damaged_keeps_its_mtu_and_the_others_every_byte() -> None:
    files = unpacked("archive-old-releases/1.32.0-stopped")
    before = [recording_of(e) for e in load_catalog(MemoryStorage(files))[0].entries]  # type: ignore[union-attr]
    put(CATALOG, FIRST, struct.pack("<i", 7))(files)
    storage = CrashingStorage(files)
    open_archive(storage).plan_repair().apply()
    catalog, _ = load_catalog(storage)
    assert catalog is not None
    after = [recording_of(e) for e in catalog.entries]
    assert [r.mtu_length for r in after] == [r.mtu_length for r in before]
    assert [(r.start_position, r.stop_position, r.term_buffer_length, r.segment_file_length) for r in after] == [
        (r.start_position, r.stop_position, r.term_buffer_length, r.segment_file_length) for r in before
    ]
    kept = [(e.head, e.body) for e in catalog.entries][1:]
    assert kept == [(r.entry.head, r.entry.body) for r in before[1:] if r.entry is not None]


def test_what_there_are_verbs_for_is_told_with_the_verb_and_left() -> None:
    files = unpacked(BASIC)
    copy_of("0-0.rec", "77-0.rec")(files)
    put(CATALOG, FIRST + DescriptorHeader.field("state").offset, struct.pack("<i", 0))(files)
    plan = open_archive(CrashingStorage(files)).plan_repair()
    assert plan.is_empty
    assert {fault.code: fault.repair for fault in plan.unrepaired} == {
        "segment-orphaned": "restore the catalog from a copy, or move the file away",
        "recording-invalid": "everlog archive DIR mark-valid 0",
    }


def test_a_frame_that_may_be_torn_and_can_not_be_told_stays_and_is_told() -> None:
    storage = CrashingStorage(unpacked("archive-crash/torn-half-plain"))
    plan = open_archive(storage).plan_repair()
    assert [(fault.code, fault.address) for fault in plan.unrepaired] == [("torn-frame", "817664")]
    plan.apply()
    assert stop_of(storage, 2) == 818816  # as the real archive has it


@pytest.mark.parametrize("name", ["archive-old-releases/1.20.0-killed", "archive-old/v2-before"])
def test_an_old_catalog_is_to_be_migrated_first(name: str) -> None:
    assert open_archive(CrashingStorage(unpacked(name))).plan_repair().is_empty


def alive(files: Files) -> None:
    at = SbeMessageHeader.size + ArchiveMarkHeader.field("activity_timestamp").offset
    put(MARK, at, struct.pack("<q", time.time_ns() // 1_000_000))(files)


def test_an_archive_that_runs_is_refused_when_planning_and_when_applying() -> None:
    files = damaged("torn page")
    storage = CrashingStorage(files)
    plan = open_archive(storage).plan_repair()
    running = damaged("torn page")
    alive(running)
    with pytest.raises(StoreUnavailable, match="an archive is running in"):
        open_archive(CrashingStorage(running)).plan_repair()
    with storage.open_writable(MARK) as file:
        file.write_at(0, running[MARK])
    with pytest.raises(StoreUnavailable, match="an archive is running in"):
        plan.apply()
    assert {name: storage.read_all(name) for name in storage.names()} == {**files, MARK: running[MARK]}


def test_a_process_that_has_the_catalog_open_is_refused() -> None:
    storage = CrashingStorage(damaged("torn page"))
    plan = open_archive(storage).plan_repair()
    with storage.open(CATALOG), pytest.raises(StoreUnavailable, match="is open in another process"):
        plan.apply()


@pytest.mark.parametrize("name", ["2-786432.rec", CATALOG])
def test_a_file_that_has_changed_since_is_refused(name: str) -> None:
    files = damaged("torn page")
    storage = CrashingStorage(files)
    plan = open_archive(storage).plan_repair()
    with storage.open_writable(name) as file:
        if name == CATALOG:
            index = 2  # recording 2's entry
            at = load_catalog(storage)[0].entries[index].offset + STOP_AT - FIRST  # type: ignore[union-attr]
            file.write_at(at, struct.pack("<q", 818912))
        else:
            file.write_at(818912 - 786432 + 64, b"more")
    changed = {key: storage.read_all(key) for key in storage.names()}
    with pytest.raises(FileChanged):
        plan.apply()
    assert {key: storage.read_all(key) for key in storage.names()} == changed


def test_the_backup_has_what_was_taken_out_and_written_over(tmp_path: Path) -> None:
    files = damaged("torn page")
    storage = CrashingStorage(files)
    backup = FolderBackup(tmp_path / "kept")
    open_archive(storage).plan_repair().apply(backup=backup)
    kept = {path.name: path.read_bytes() for path in (tmp_path / "kept").iterdir()}
    assert kept.keys() == {"plan.json", CATALOG, "2-786432.rec@32480"}
    assert files[CATALOG].startswith(kept[CATALOG])
    assert not any(files[CATALOG][len(kept[CATALOG]) :])
    torn = kept["2-786432.rec@32480"]
    assert files["2-786432.rec"][32480:] == torn.ljust(SEGMENT - 32480, b"\0")


# Stopped anywhere

WORK = "archive-old-releases/1.32.0-killed"
STOP_OF_SMALL = 144256
"""Of recording 0, which was stopped."""


def broken(case: str) -> Files:
    """Archives of small segments, so that each moment of a repair can be looked at."""
    files = unpacked(WORK)
    if case == "catalog gone":
        del files[CATALOG]
    elif case == "entry damaged":
        put(CATALOG, FIRST, struct.pack("<i", 7))(files)
    elif case == "stop in zeros":
        stop_at(196608)(files)
        make("0-196608.rec", bytes(65536))(files)
        cut(MARK, 50)(files)
    elif case == "stop too low":
        stop_at(1024)(files)
        make("0-262144.rec", bytes(65536))(files)
    elif case == "cut":
        cut("0-131072.rec", 10_000)(files)
        make(f"2-{1 << 20}.rec", bytes(65536))(files)
    return files


CASES = ["catalog gone", "entry damaged", "stop in zeros", "stop too low", "cut"]


def finish(storage: CrashingStorage, before: dict[str, list[tuple[int, bytes]]], where: str) -> None:
    open_archive(storage).plan_repair().apply()
    assert lost(before, storage) == [], where
    assert open_archive(storage).verify().ok, where
    assert open_archive(storage).plan_repair().is_empty, where
    assert not [name for name in storage.names() if name.startswith(".everlog")], where


@pytest.mark.parametrize("case", CASES)
def test_a_repair_that_is_stopped_anywhere_is_finished_by_the_next_one(case: str, series: Series) -> None:
    storage = CrashingStorage(broken(case))
    before = records(storage)
    plan = open_archive(storage).plan_repair()
    moments: list[tuple[str, CrashingStorage]] = []

    def look(what: str) -> None:
        number = len(moments)
        moments.append((f"{number}: killed after {what}", storage.kill()))
        for seed in range(3):
            moments.append((f"{number}: power cut {seed} after {what}", storage.crash(number << 8 | seed)))

    storage.after_each = look
    plan.apply()
    storage.after_each = None
    finish(storage, before, "not stopped")
    assert len(moments) > 20
    for where, crashed in series.points(moments):
        assert lost(before, crashed) == [], where
        finish(crashed, before, where)


@pytest.mark.parametrize("count", [1, 1 << 30])
@pytest.mark.parametrize("case", CASES)
def test_a_disk_that_fails_at_any_operation_leaves_the_archive_no_worse(case: str, count: int, series: Series) -> None:
    before = records(CrashingStorage(broken(case)))
    for number in series.numbers():
        storage = CrashingStorage(broken(case))
        plan = open_archive(FaultyWrites(storage, WriteFaults(fail_at=number, count=count, part_bytes=0))).plan_repair()
        try:
            plan.apply()
        except WriteFailed:
            assert lost(before, storage) == [], number
            finish(storage, before, str(number))
            continue
        break
    assert number > 5


@pytest.mark.parametrize("name", [WORK, "archive-crash/torn-half-crc"])
def test_whatever_is_wrong_a_repair_loses_no_record_and_the_next_one_has_nothing_to_do(
    name: str, series: Series
) -> None:
    whole = unpacked(name)
    for seed in range(series.rounds(40)):
        files, words = mutate(whole, random.Random(seed))
        storage = CrashingStorage(files)
        before = records(storage)
        plan = open_archive(storage).plan_repair()
        plan.apply()
        if not any("after a hole" in line for line in plan.loses):
            assert lost(before, storage) == [], (seed, words)
        assert open_archive(storage).plan_repair().is_empty, (seed, words)


def test_the_same_store_sees_what_a_repair_has_changed() -> None:
    storage = CrashingStorage(damaged("torn page"))
    store = open_archive(storage)
    store.plan_repair().apply()
    assert store.verify().faults == []
    assert {info.name: info.end for info in store.streams()}["2"] == "818912"
