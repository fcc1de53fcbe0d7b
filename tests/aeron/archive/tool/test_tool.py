"""ArchiveTool's verbs that write: byte for byte what the original makes, where that is right."""

from __future__ import annotations

import json
import re
import struct
import time
from pathlib import Path
from typing import Any

import pytest

from everlog.aeron.archive.archive import Archive
from everlog.aeron.archive.format.segments import Naming, SegmentMap
from everlog.aeron.archive.recording.options import ArchiveOptions
from everlog.aeron.archive.store import ArchiveStore
from everlog.aeron.archive.tool.capacity import plan_capacity
from everlog.aeron.archive.tool.checksum import plan_checksum
from everlog.aeron.archive.tool.compaction import plan_compact
from everlog.aeron.archive.tool.migration import plan_migrate, position_of
from everlog.aeron.archive.tool.orphans import plan_delete_orphans
from everlog.aeron.archive.tool.states import plan_state
from everlog.aeron.archive.tool.undo import plan_undo
from everlog.core.files.storage import LocalStorage
from everlog.core.files.writable import LocalWritableStorage
from everlog.core.plan.backup import FolderBackup
from everlog.errors import (
    CorruptData,
    EverlogError,
    FileChanged,
    StoreExists,
    StoreUnavailable,
    UnknownStream,
    UsageError,
)
from everlog.testing.storage.crashing import CrashingStorage
from tests.aeron.archive.tool.archive_changes import (
    BASIC,
    GOLDEN,
    STATE_OF_12,
    VERBS,
    Verb,
    faults_of,
    files_of,
    only,
    with_invalid,
)
from tests.aeron.archive.tool.tool_archives import MARK, OLD, contents, differing

OLD_CATALOGS = [
    f"{release}-{how}" for release in ("1.7.0", "1.9.3", "1.20.0", "1.22.1", "1.24.0") for how in ("stopped", "killed")
]


def messages(storage: Any) -> dict[str, list[tuple[Any, ...]]]:
    store = ArchiveStore.open(storage, {})
    columns = ["position", "length", "crc32", "reserved_value"]
    return {
        info.name: [row for batch in store.scan(info.name, columns=columns) for row in batch.rows()]
        for info in store.streams()
    }


def names_in(listing: str) -> set[str]:
    text = (GOLDEN / "archive-basic" / listing).read_text()
    return set(re.findall(r"\S+\.(?:rec|dat|catalog)", text))


# checksum


@pytest.mark.parametrize("kind", ["crc32", "crc32c"])
def test_checksums_of_all_files_are_those_of_the_original(kind: str) -> None:
    storage = CrashingStorage(files_of(BASIC))
    plan, faults = plan_checksum(storage, kind, every=True)
    plan.apply()
    assert faults == []
    assert differing(contents(storage), files_of(f"archive-basic/archive-checksum-{kind}")) == set()
    assert plan_checksum(storage, kind, every=True)[0].is_empty


def test_without_all_only_the_last_file_of_each_recording_gets_checksums() -> None:
    storage, before = CrashingStorage(files_of(BASIC)), files_of(BASIC)
    plan_checksum(storage, "crc32")[0].apply()
    whole = files_of("archive-basic/archive-checksum-crc32")
    files: dict[str, list[int]] = {}
    for name in before:
        if name.endswith(".rec"):
            recording, number = name.removesuffix(".rec").split("-")
            files.setdefault(recording, []).append(int(number))
    last = {f"{recording}-{max(numbers)}.rec" for recording, numbers in files.items()}
    for name, data in contents(storage).items():
        assert data == (whole if name in last or name == "archive.catalog" else before)[name], name


def test_checksums_of_one_recording_leave_the_others() -> None:
    storage, before = CrashingStorage(files_of(BASIC)), files_of(BASIC)
    plan_checksum(storage, "crc32", 3, every=True)[0].apply()
    assert differing(contents(storage), before) == {"3-0.rec", "archive.catalog"}
    assert contents(storage)["3-0.rec"] == files_of("archive-basic/archive-checksum-crc32")["3-0.rec"]


@pytest.mark.parametrize(
    ("offset", "data"), [(0, b"\xf0\xff\xff\xff"), (0, b"\x05\0\0\0"), (0, b"\0\0\1\0"), (6, b"\x07\0")]
)
def test_a_file_whose_frames_cant_be_followed_is_told_and_left_alone(offset: int, data: bytes) -> None:
    # The second frame of 3-0.rec: 64 bytes behind the first one, by the formula of the golden data (1 byte, 31 bytes).
    files = only(files_of(BASIC), 3, 12)
    damaged = bytearray(files["3-0.rec"])
    damaged[64 + offset : 64 + offset + len(data)] = data
    storage = CrashingStorage(files | {"3-0.rec": bytes(damaged)})
    plan, (fault,) = plan_checksum(storage, "crc32", every=True)
    assert (fault.recording_id, fault.file, fault.offset) == (3, "3-0.rec", 64)
    plan.apply()
    assert storage.read_all("3-0.rec") == damaged
    assert storage.read_all("12-0.rec") == files_of("archive-basic/archive-checksum-crc32")["12-0.rec"]


def test_a_checksum_of_no_known_kind_is_refused() -> None:
    with pytest.raises(UsageError):
        plan_checksum(CrashingStorage(files_of(BASIC)), "adler32")


# compact


def test_a_compacted_archive_is_that_of_the_original() -> None:
    storage = CrashingStorage(with_invalid(files_of(BASIC)))
    plan, result = plan_compact(storage)
    plan.apply()
    assert differing(contents(storage), files_of("archive-basic/archive-compacted")) == set()
    assert set(storage.names()) == names_in("ls-after-compact.txt")
    # tool-mark-compact.txt: deleted 2 records and reclaimed 576 bytes
    assert ([entry.recording_id for entry in result.dropped], result.reclaimed_bytes) == ([8, 12], 576)
    assert plan_compact(storage)[0].is_empty
    assert faults_of(storage) == []


def test_ids_of_recordings_that_are_taken_out_are_not_given_again() -> None:
    storage = CrashingStorage(with_invalid(only(files_of(BASIC), 12)))
    plan_compact(storage)[0].apply()
    assert struct.unpack_from("<q", storage.read_all("archive.catalog"), 8) == (14,)


# delete-orphaned-segments


def test_orphans_that_are_removed_are_those_of_the_original() -> None:
    storage = CrashingStorage(files_of(BASIC))
    plan_delete_orphans(storage).apply()
    assert set(storage.names()) == names_in("ls-after-delete-orphaned.txt")
    assert set(files_of(BASIC)) - set(storage.names()) == {"7-0.rec"}


def test_files_behind_the_stop_position_and_of_deleted_recordings_are_orphans_and_the_next_segment_is_not() -> None:
    # Recording 3 stops at 91136, within 3-0.rec; 8 is deleted; 99 is none.
    extra = {"3-131072.rec": b"x", "8-0.rec": b"", "99-0.rec": b"", "3-x.rec": b""}
    storage = CrashingStorage(files_of(BASIC) | extra)
    plan = plan_delete_orphans(storage)
    assert [step.file for step in plan.steps] == ["3-131072.rec", "7-0.rec", "8-0.rec"]
    assert [step.file for step in plan_delete_orphans(storage, 8).steps] == ["8-0.rec"]
    plan.apply()
    assert set(storage.names()) == set(files_of(BASIC)) - {"7-0.rec"} | {"99-0.rec", "3-x.rec"}
    with pytest.raises(UnknownStream):
        plan_delete_orphans(storage, 99)


# mark-valid, mark-invalid, capacity


def test_a_state_is_four_bytes_in_the_catalog_and_back() -> None:
    storage, before = CrashingStorage(files_of(BASIC)), files_of(BASIC)["archive.catalog"]
    plan_state(storage, 12, "INVALID").apply()
    after = storage.read_all("archive.catalog")
    assert [at for at in range(len(after)) if after[at] != before[at]] == [STATE_OF_12]
    assert plan_state(storage, 12, "INVALID").is_empty
    plan_state(storage, 12, "VALID").apply()
    assert contents(storage) == files_of(BASIC)


def test_a_deleted_recording_and_one_that_is_none_are_refused() -> None:
    storage = CrashingStorage(files_of(BASIC))
    for state in ("VALID", "INVALID"):
        with pytest.raises(UsageError, match="recording 8 is DELETED"):
            plan_state(storage, 8, state)
    with pytest.raises(UnknownStream):
        plan_state(storage, 14, "VALID")
    with pytest.raises(UsageError):
        plan_state(storage, 3, "DELETED")
    assert contents(storage) == files_of(BASIC)


def test_the_catalog_becomes_longer_and_never_shorter() -> None:
    storage, before = CrashingStorage(files_of(BASIC)), files_of(BASIC)["archive.catalog"]
    assert plan_capacity(storage, 100_000).is_empty
    plan_capacity(storage, 2_000_000).apply()
    assert storage.read_all("archive.catalog") == before + bytes(2_000_000 - len(before))
    assert faults_of(storage) == faults_of(CrashingStorage(files_of(BASIC)))
    for wrong in (31, 1 << 31):
        with pytest.raises(UsageError):
            plan_capacity(storage, wrong)


# migrate


def test_a_catalog_of_version_2_becomes_that_of_the_original() -> None:
    storage = CrashingStorage(files_of("archive-old/v2-before"))
    plan_migrate(storage)[0].apply()
    after, expected = contents(storage), files_of("archive-old/v3-after-migrate")
    assert differing(after, expected) == {"archive.catalog"}
    # `verify` was run there later: it set time and stop position of recording 8, which has no files, at 2208 and 2224.
    ours, theirs = after["archive.catalog"], expected["archive.catalog"]
    assert [at for at in range(len(theirs)) if ours[at : at + 1] != theirs[at : at + 1]] == [
        *(2208, 2209, 2210),
        *(2224, 2225, 2226),
    ]
    assert len(ours) == len(theirs)


def test_an_archive_of_1_22_becomes_that_of_the_original() -> None:
    storage = CrashingStorage(files_of(f"{OLD}1.22.1-killed"))
    plan_migrate(storage)[0].apply()
    assert differing(contents(storage), files_of(f"{OLD}1.22.1-killed-migrated")) == set()


def test_an_archive_of_1_9_becomes_that_of_the_original_but_for_the_names_it_gets_wrong() -> None:
    storage = CrashingStorage(files_of(f"{OLD}1.9.3-stopped"))
    plan_migrate(storage)[0].apply()
    after, expected = contents(storage), files_of(f"{OLD}1.9.3-stopped-migrated")
    wrong = {"3-327680.rec": "3-196608.rec", "3-458752.rec": "3-327680.rec", "3-589824.rec": "3-458752.rec"}
    assert {wrong.get(name, name): data for name, data in expected.items()} == after


@pytest.mark.parametrize("name", OLD_CATALOGS)
def test_after_a_migration_the_same_messages_are_read(name: str) -> None:
    storage = CrashingStorage(files_of(f"{OLD}{name}"))
    before = messages(storage)
    plan_migrate(storage)[0].apply()
    assert messages(storage) == before
    assert sum(map(len, before.values())) > 0
    assert faults_of(storage) == []
    info = ArchiveStore.open(storage, {}).info()
    assert info["catalog"]["version"] == "3.0.0"
    assert (info["mark_file"] or {"version": "3.0.0"})["version"] == "3.0.0"
    assert plan_migrate(storage)[0].is_empty


@pytest.mark.parametrize("name", ["1.32.0-stopped"])
def test_an_archive_of_version_3_needs_no_migration(name: str) -> None:
    plan, found = plan_migrate(CrashingStorage(files_of(f"{OLD}{name}")))
    assert plan.is_empty
    assert found.versions == ()


def test_invalid_recordings_are_renamed_too_and_stay_invalid() -> None:
    files = files_of(f"{OLD}1.9.3-stopped")
    catalog = bytearray(files["archive.catalog"])
    catalog[1024 * 4 + 4] = 0  # recording 3
    storage = CrashingStorage(files | {"archive.catalog": bytes(catalog)})
    plan_migrate(storage)[0].apply()
    assert {name for name in storage.names() if name.startswith("3-")} == {
        *("3-196608.rec", "3-327680.rec", "3-458752.rec")
    }
    assert ArchiveStore.open(storage, {}).folder.recording("3").state == "INVALID"


def test_what_the_original_left_when_it_was_broken_off_is_taken_up() -> None:
    # In its first step, 0.x to 1.x: index n of recording 3, which starts behind 196608, becomes 131072 + n * 131072.
    files = files_of(f"{OLD}1.9.3-stopped")
    files["3-131072.rec"] = files.pop("3-0.rec")
    files["3-262144.rec"] = files.pop("3-1.rec")
    files["0-131072.rec"] = files.pop("0-1.rec")
    files["migration-0-to-65536.dat"] = b""
    whole, broken = CrashingStorage(files_of(f"{OLD}1.9.3-stopped")), CrashingStorage(files)
    for storage in (whole, broken):
        plan_migrate(storage)[0].apply()
    assert contents(broken) == contents(whole)


@pytest.mark.parametrize(
    ("start", "naming", "numbers"),
    [
        # segment 128 KiB, term 64 KiB; number -> position. Worked out by hand: the first segment begins at the term of
        # the start, 196608; its number in 1.x is 131072.
        (200_000, Naming.INDEX, {0: 196608, 1: 327680, 131072: 196608, 262144: 327680, 196608: 196608, 327680: 327680}),
        (
            200_000,
            Naming.START_SEGMENT,
            {131072: 196608, 262144: 327680, 196608: 196608, 0: None, 1: None, 65536: None},
        ),
        (200_000, Naming.POSITION, {131072: None, 196608: 196608, 65536: None}),
        (70_016, Naming.INDEX, {0: 65536, 1: 196608, 131072: 196608, 65536: 65536}),
        (70_016, Naming.START_SEGMENT, {0: 65536, 131072: 196608, 65536: 65536}),
        (0, Naming.INDEX, {0: 0, 1: 131072, 131072: 131072, 65536: None}),
        (262_144, Naming.START_SEGMENT, {262144: 262144, 393216: 393216, 131072: None}),
    ],
)
def test_a_number_tells_which_name_a_file_has(start: int, naming: Naming, numbers: dict[int, int | None]) -> None:
    segments = SegmentMap(3, start, 65536, 131072, naming)
    assert {number: position_of(number, segments, naming) for number in numbers} == numbers


def test_files_that_are_not_what_they_are_called_are_refused() -> None:
    files = files_of(f"{OLD}1.9.3-stopped")
    swapped = files | {"0-1.rec": files["0-2.rec"], "0-2.rec": files["0-1.rec"]}
    storage = CrashingStorage(swapped)
    with pytest.raises(CorruptData, match=r"0-1\.rec .*a frame of term"):
        plan_migrate(storage)
    twice = CrashingStorage(files | {"0-131072.rec": files["0-1.rec"]})
    with pytest.raises(StoreExists, match=r"0-131072\.rec"):
        plan_migrate(twice)
    numbered = CrashingStorage(files | {"0-65536.rec": b""})
    with pytest.raises(CorruptData, match="number 65536"):
        plan_migrate(numbered)
    assert contents(storage) == swapped


# Undo


def undo_folder(tmp_path: Path, verb: Verb) -> tuple[LocalWritableStorage, Path]:
    (tmp_path / "archive").mkdir()
    for name, data in verb.files().items():
        (tmp_path / "archive" / name).write_bytes(data)
    storage = LocalWritableStorage(str(tmp_path / "archive"))
    verb.plan(storage).apply(backup=FolderBackup(tmp_path / "kept"))
    return storage, tmp_path / "kept"


def verb_called(name: str) -> Verb:
    return next(verb for verb in VERBS if verb.name == name)


def test_what_was_removed_is_kept_by_a_link_and_costs_no_space(tmp_path: Path) -> None:
    (tmp_path / "archive").mkdir()
    for name, data in verb_called("compact").files().items():
        (tmp_path / "archive" / name).write_bytes(data)
    inode = (tmp_path / "archive" / "12-0.rec").stat().st_ino
    storage = LocalWritableStorage(str(tmp_path / "archive"))
    plan_compact(storage)[0].apply(backup=FolderBackup(tmp_path / "kept"))
    assert (tmp_path / "kept" / "12-0.rec").stat().st_ino == inode
    assert {p.name for p in (tmp_path / "kept").iterdir()} == {"12-0.rec", "archive.catalog", "plan.json"}


def test_an_undo_does_not_overwrite_what_came_after(tmp_path: Path) -> None:
    storage, kept = undo_folder(tmp_path, verb_called("compact"))
    plan_state(storage, 3, "INVALID").apply()
    before = contents(storage)
    with pytest.raises(FileChanged, match=r"undo later changes first"):
        plan_undo(storage, LocalStorage(str(kept))).apply()
    assert contents(storage) == before


def test_session_ids_are_not_put_where_somebody_has_written_since(tmp_path: Path) -> None:
    storage = LocalWritableStorage(str(tmp_path))
    options = ArchiveOptions(segment_length=1 << 16, catalog_capacity=4096, liveness_timeout_s=0)
    with (
        Archive.create(storage, options) as archive,
        archive.start_recording("aeron:ipc?term-length=64k", 1) as recorder,
    ):
        recorder.append_many([b"first"] * 50)
    kept = tmp_path.with_name("kept")
    plan_checksum(storage, "crc32", 0)[0].apply(backup=FolderBackup(kept))
    with Archive.open(storage, options) as archive:
        archive.truncate_recording(0, 20 * 64)  # the first 20 could still be undone: all or none
        with archive.extend_recording(0) as recorder:
            recorder.append(b"A" * 1000)
    before = contents(storage)
    with pytest.raises(FileChanged, match="undo later changes first"):
        plan_undo(storage, LocalStorage(str(kept))).apply()
    assert contents(storage) == before


@pytest.mark.parametrize(
    "plan",
    [
        b"",
        b"[]",
        b"{}",
        b'{"family": "jlog", "steps": []}',
        b'{"family": "aeron-archive", "steps": [{"file": "a", "before": "", "after": "", "undo": {"kind": "x"}}]}',
        b'{"family": "aeron-archive", "steps": [{"file": 5, "before": "", "after": "", "undo": {"kind": "write"}}]}',
        b"[" * 100_000,
    ],
)
def test_a_folder_with_another_plan_is_no_backup(tmp_path: Path, plan: bytes) -> None:
    (tmp_path / "plan.json").write_bytes(plan)
    with pytest.raises(CorruptData, match=r"plan\.json"):
        plan_undo(CrashingStorage(files_of(BASIC)), LocalStorage(str(tmp_path)))


@pytest.mark.parametrize(
    ("file", "how"),
    [
        ("archive.catalog", {"kind": "write", "offset": "1", "old": "00", "new": "01"}),
        ("archive.catalog", {"kind": "write", "offset": 1, "old": "zz", "new": "01"}),
        ("archive.catalog", {"kind": "write", "offset": 1, "old": "00" * 65, "new": "01" * 65}),
        ("archive.catalog", {"kind": "shorten", "size": "0"}),
        ("archive.catalog", {"kind": "rename", "names": [["x"]]}),
        ("archive.catalog", {"kind": "restore", "files": [["../../x", 5]]}),
        ("../x", {"kind": "remove-empty"}),
        ("archive.catalog", {"kind": "put", "from": "/etc/passwd", "offset": 0}),
    ],
)
def test_a_plan_that_makes_no_sense_changes_nothing(tmp_path: Path, file: str, how: dict[str, Any]) -> None:
    step = {"file": file, "before": "", "after": "", "undo": how}
    (tmp_path / "plan.json").write_text(json.dumps({"family": "aeron-archive", "steps": [step]}))
    storage = CrashingStorage(only(files_of(BASIC), 3))
    before = contents(storage)
    with pytest.raises(EverlogError):
        plan_undo(storage, LocalStorage(str(tmp_path))).apply()
    assert contents(storage) == before


def test_a_link_file_says_where_the_mark_file_is(tmp_path: Path) -> None:
    (tmp_path / "archive").mkdir()
    (tmp_path / "marks").mkdir()
    for name, data in only(files_of(BASIC), 3).items():
        (tmp_path / ("marks" if name == MARK else "archive") / name).write_bytes(data)
    (tmp_path / "archive" / "archive-mark.lnk").write_text(f"{tmp_path / 'marks'}\n")
    storage = LocalWritableStorage(str(tmp_path / "archive"))
    assert not plan_state(storage, 3, "INVALID").is_empty
    with (tmp_path / "marks" / MARK).open("r+b") as file:
        file.seek(16)
        file.write(struct.pack("<q", time.time_ns() // 1_000_000))
    with pytest.raises(StoreUnavailable, match="an archive is running in"):
        plan_state(storage, 3, "INVALID")


def test_the_store_reads_the_same_before_and_after_checksums() -> None:
    storage = CrashingStorage(files_of(BASIC))
    before = messages(storage)
    plan_checksum(storage, "crc32c", every=True)[0].apply()
    assert messages(storage) == before
