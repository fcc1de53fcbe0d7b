"""``verify --fix``: stop positions, states and torn frames."""

from __future__ import annotations

import re
import struct
import zlib
from typing import Any

import pytest

from everlog.aeron.archive.archive import Archive
from everlog.aeron.archive.recording.options import ArchiveOptions
from everlog.aeron.archive.store import ArchiveStore
from everlog.aeron.archive.tool.orphans import plan_delete_orphans
from everlog.aeron.archive.tool.verification import plan_fix
from everlog.core.report import Fault
from everlog.testing.storage.crashing import CrashingStorage
from tests.aeron.archive.tool.archive_changes import (
    BASIC,
    GOLDEN,
    faults_of,
    files_of,
    fix,
    only,
    with_invalid,
)
from tests.aeron.archive.tool.tool_archives import MARK, contents, differing

# verify --fix


def stops(storage: Any) -> list[tuple[int, int | None, str]]:
    found = ArchiveStore.open(storage, {}).folder.recordings().values()
    return [(recording.recording_id, recording.stop_position, recording.state) for recording in found]


def described(name: str) -> list[tuple[int, int | None, str]]:
    """What ``describe-all`` of the original printed after its ``verify``."""
    text = (GOLDEN / "archive-crash" / f"tool-{name}-then-describe-all.txt").read_text()
    found = re.findall(r"recordingId=(\d+)\|.*?stopPosition=(-?\d+)\|.*\|([A-Z]+)\n", text)
    assert len(found) == 4
    return [(int(recording), int(stop), state) for recording, stop, state in found]


@pytest.mark.parametrize(
    ("name", "truncate", "golden"),
    [
        ("torn-page-plain", True, "torn-page-plain-verify"),
        ("torn-page-plain", False, "torn-page-plain-verify-n"),
        ("torn-half-plain", False, "torn-half-plain-verify"),
        ("torn-page-crc", True, "torn-page-crc-verify-checksum"),
    ],
)
def test_stop_positions_and_states_are_those_that_the_originals_verify_writes(
    name: str, truncate: bool, golden: str
) -> None:
    storage = CrashingStorage(files_of(f"archive-crash/{name}"))
    fix(storage, truncate).apply()
    assert stops(storage) == described(golden)
    assert faults_of(storage) == []
    assert fix(storage, truncate).is_empty


def test_a_frame_that_is_cut_is_zeroed_and_its_file_as_long_as_before() -> None:
    before = files_of("archive-crash/torn-page-plain")
    storage = CrashingStorage(before)
    fix(storage).apply()
    # torn-page-plain.note.txt: the last frame is at 818912, in the file that begins at 786432.
    kept = before["2-786432.rec"][: 818912 - 786432]
    assert storage.read_all("2-786432.rec") == kept.ljust(131072, b"\0")
    assert differing(contents(storage), before) == {"2-786432.rec", "archive.catalog"}


def test_a_last_file_of_zeros_is_not_taken_for_the_end() -> None:
    # The original sets the stop position to 917504, and a replay fails; the frames end at 821728.
    storage = CrashingStorage(files_of("archive-crash/torn-zeroseg-plain"))
    fix(storage).apply()
    assert (2, 821728, "VALID") in stops(storage)
    assert [fault.code for fault in faults_of(storage)] == ["segment-beyond-stop"]
    plan_delete_orphans(storage).apply()
    assert faults_of(storage) == []


@pytest.mark.parametrize("checksum", ["auto", "crc32"])
@pytest.mark.parametrize("count", [1, 2])
def test_a_last_frame_with_others_behind_it_or_without_a_checksum_is_not_zeroed(checksum: str, count: int) -> None:
    # Two with different session ids and no checksum, behind ten with checksums: no crash leaves that.
    storage = CrashingStorage()
    options = ArchiveOptions(segment_length=1 << 16, catalog_capacity=4096, liveness_timeout_s=0, checksum="crc32")
    with (
        Archive.create(storage, options) as archive,
        archive.start_recording("aeron:ipc?term-length=64k", 1, session_id=9) as recorder,
    ):
        recorder.append_many([b"message %d" % number for number in range(12)])
    with storage.open_writable("0-0.rec") as file:
        for number in range(12 - count, 12):
            file.write_at(number * 64 + 12, (9 if count == 1 else number).to_bytes(4, "little"))
    before = storage.read_all("0-0.rec")
    faults = [Fault("frame-checksum", "0-0.rec", (12 - count) * 64, "one", "another", stream="0")]
    plan_fix(storage, {0: faults}, truncates=lambda _: True, checksum=checksum).plan.apply()
    assert storage.read_all("0-0.rec") == before


def test_a_truncation_that_broke_off_is_not_taken_back() -> None:
    left: list[CrashingStorage] = []
    storage = CrashingStorage()
    options = ArchiveOptions(segment_length=1 << 16, catalog_capacity=4096, liveness_timeout_s=0)
    with Archive.create(storage, options) as archive:
        with archive.start_recording("aeron:ipc?term-length=64k", 1) as recorder:
            recorder.append_many([b"x" * 1000] * 200)
        storage.after_each = lambda _: left.append(storage.kill())
        archive.truncate_recording(0, 65536)
        storage.after_each = None
    pending = [folder for folder in left if ArchiveStore.open(folder, {}).folder.recordings()[0].truncation_pending]
    assert pending
    for folder in pending:
        folder.remove(MARK)  # else it counts as running
        fixes = plan_fix(folder, {0: []}, truncates=lambda _: True)
        assert fixes.plan.is_empty
        assert "truncation was interrupted" in fixes.verdicts[0].note


def test_an_entry_with_a_checksum_has_the_right_one_afterwards() -> None:
    storage = CrashingStorage(files_of("archive-crash/crash-crc"))
    fix(storage).apply()
    catalog = ArchiveStore.open(storage, {}).folder.catalog
    assert catalog is not None
    assert [entry.checksum & 0xFFFFFFFF for entry in catalog.entries] == [
        zlib.crc32(entry.body) for entry in catalog.entries
    ]


def test_damage_makes_a_recording_invalid_and_sound_frames_make_it_valid_again() -> None:
    files = only(files_of(BASIC), *(n for n in range(14) if n != 8))
    damaged = bytearray(files["3-0.rec"])
    damaged[64 + 8] ^= 1  # the term offset of the second frame
    storage = CrashingStorage(with_invalid(files) | {"3-0.rec": bytes(damaged)})
    fix(storage).apply()
    states = {recording: state for recording, _, state in stops(storage)}
    assert (states.pop(3), states.pop(8)) == ("INVALID", "DELETED")
    assert set(states.values()) == {"VALID"}  # 12, too
    with storage.open_writable("3-0.rec") as file:
        file.write_at(0, files["3-0.rec"])
    fix(storage).apply()
    assert (3, 91136, "VALID") in stops(storage)


def test_a_stop_position_behind_the_last_frame_comes_down_and_one_before_it_goes_up() -> None:
    before = files_of(BASIC)
    for stop in (91136 + 4096, 91136 - 64):
        catalog = bytearray(before["archive.catalog"])
        at = catalog.index(struct.pack("<q", 91136))
        catalog[at : at + 8] = struct.pack("<q", stop)
        storage = CrashingStorage(only(before, 3) | {"archive.catalog": bytes(catalog)})
        plan = fix(storage)
        assert [step.file for step in plan.steps if "recording 3 " in step.before] == ["archive.catalog"]
        plan.apply()
        assert (3, 91136, "VALID") in stops(storage)


def test_a_recording_whose_last_file_is_gone_becomes_invalid_and_keeps_its_stop_position() -> None:
    files = files_of(BASIC)
    del files["4-131072.rec"]
    storage = CrashingStorage(files)
    fix(storage).apply()
    assert (4, 200544, "INVALID") in stops(storage)
