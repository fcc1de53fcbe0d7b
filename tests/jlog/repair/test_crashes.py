"""A repair that is stopped at any point, and begun again, ends as one that was not; nothing is lost between."""

from __future__ import annotations

import errno
import struct

import pytest

import tests
from everlog.errors import WriteFailed
from everlog.jlog.repair.planning import plan_repair
from everlog.jlog.repair.steps import DRAFT_PREFIX
from everlog.jlog.store import JlogStore
from everlog.testing.series import Series
from everlog.testing.storage.crashing import CrashingStorage
from everlog.testing.storage.faulty_writes import FaultyWrites, WriteFaults

GOLDEN = tests.GOLDEN / "jlog"
CASES = [
    "e_cp_after_last",
    "e_garbage_middle_idx_kept",
    "e_idx_longer",
    "e_legacy_12byte",
    "e_meta_missing",
    "e_meta_zero",
    "e_seg_empty_closed",
    "e_trunc_bogus_noidx",
    "e_trunc_last",
    "e_trunc_then_append",
    "precommit_big_message_loses_data",
    "many",
]
SEEDS = range(4)


@pytest.fixture
def broken(golden, make):
    """A golden journal, or ``many``: all kinds of damage at once."""

    def files(case):
        if case != "many":
            return golden(case).files
        frames = [make.message(bytes([i]) * (20 + i), 100 + i) for i in range(20)]
        waiting = [make.message(bytes([0x70 + i]) * 9, 300 + i) for i in range(3)]
        buffer = waiting[0] + b"\xee" * 7 + waiting[1] + waiting[2][:20]
        offsets = [sum(map(len, frames[:n])) for n in range(5)]
        return {
            "metastore": make.metastore(1, 150, 9),
            "00000000": b"".join(frames[:2]) + b"\xee" * len(frames[2]) + b"".join(frames[3:5]),
            "00000000.idx": make.index(*offsets, 0),
            "00000001": frames[5][:30],
            "00000002": frames[6] + frames[7][:30] + frames[8] + frames[9] + bytes(40),
            "00000003": frames[10] + frames[11],
            "00000003.idx": make.index(0, 5),
            "00000004": frames[12] + frames[13][:9],
            "00000009.idx": make.index(0),
            "cp.61": struct.pack("<II", 0, 4),
            "cp.62": struct.pack("<II", 1, 1),
            "cp.63": struct.pack("<II", 2, 3),
            "cp.64": struct.pack("<II", 4, 2),
            "cp.65": b"",
            "cp.66": struct.pack("<II", 3, 7),
            "pre_commit": len(buffer).to_bytes(4, "little") + buffer.ljust(128, b"\0"),
        }

    return files


class Watched:
    """What the journal holds, as reading and its subscribers see it."""

    def __init__(self, storage):
        records = list(JlogStore.open(storage, {}).read("journal", on_fault=lambda fault: None))
        with_buffer = list(JlogStore.open(storage, {"pre_commit": True}).read("journal", on_fault=lambda fault: None))
        self.contents = [(r.timestamp_ns, r.payload) for r in records]
        self.waiting = {(r.timestamp_ns, r.payload) for r in with_buffer}
        self.left = {}
        for name in storage.names():
            if name.startswith("cp.") and storage.size(name) == 8:
                place = struct.unpack("<II", storage.read_all(name))
                left = [r for r in records if (r.fields["log"], r.fields["marker"]) > place]
                self.left[name] = {(r.timestamp_ns, r.payload) for r in left}

    def lost_of(self, before):
        """What was there ``before`` and is not here, or is skipped by a subscriber."""
        lost = [] if self.contents == before.contents else ["messages"]
        lost += [] if self.waiting >= before.waiting else ["waiting messages"]
        return lost + [name for name, left in before.left.items() if not self.left[name] >= left]


def faults(storage):
    found = JlogStore.open(storage, {}).verify().faults
    return [f.code for f in found if f.severity.value == "fault" and f.code != "missing-segments"]


def finish(storage, before, where):
    plan_repair(storage).apply()
    after = Watched(storage)
    assert after.lost_of(before) == [], where
    assert faults(storage) == [], where
    assert plan_repair(storage).is_empty, where
    assert not [name for name in storage.names() if name.startswith(DRAFT_PREFIX)], where


def moments(storage):
    """Apply the repair; the folder as it is, by then, after each change, killed and after power cuts.

    A write of some bytes in place, of a checkpoint or the metastore, is not torn by a kill: half of it is looked at for
    drafts only.
    """
    found = []

    def look(what):
        if what == "half a write" and not any(name.startswith(DRAFT_PREFIX) for name in storage.names()):
            return
        number = len(found)
        found.append((f"{number}: killed after {what}", storage.kill()))
        found.extend((f"{number}: power cut {seed} after {what}", storage.crash(number << 8 | seed)) for seed in SEEDS)

    plan = plan_repair(storage)
    storage.after_each = look
    plan.apply()
    storage.after_each = None
    return found


@pytest.mark.parametrize("case", CASES)
def test_a_repair_that_is_stopped_anywhere_is_finished_by_the_next_one(broken, case, series: Series):
    before = Watched(CrashingStorage(broken(case)))
    storage = CrashingStorage(broken(case))
    found = moments(storage)
    assert len(found) > len(SEEDS)
    assert Watched(storage).lost_of(before) == []
    for where, crashed in series.points(found):
        assert Watched(crashed).lost_of(before) == [], where
        finish(crashed, before, where)


@pytest.mark.parametrize("case", CASES)
def test_a_power_cut_after_a_repair_takes_nothing_of_it_back(broken, case):
    storage = CrashingStorage(broken(case))
    plan_repair(storage).apply()
    repaired = {name: storage.read_all(name) for name in storage.names()}
    for seed in range(20):
        crashed = storage.crash(seed)
        assert {name: crashed.read_all(name) for name in crashed.names()} == repaired, seed


@pytest.mark.parametrize("count", [1, 1 << 30])
@pytest.mark.parametrize("case", CASES)
def test_a_disk_that_fails_at_any_write_leaves_the_journal_no_worse(broken, case, count, series: Series):
    before = Watched(CrashingStorage(broken(case)))
    for number in series.numbers():
        storage = CrashingStorage(broken(case))
        faulty = FaultyWrites(storage)
        plan = plan_repair(faulty)
        start = faulty.operation_count
        # a write in place of some bytes is done or not
        faulty.faults = WriteFaults(fail_at=start + number, count=count, error=errno.ENOSPC, part_bytes=0)
        try:
            plan.apply()
        except WriteFailed:
            where = f"{number}: {faulty.failed[0]}"
            assert Watched(storage).lost_of(before) == [], where
            finish(storage, before, where)
            continue
        break
    assert number >= 2


def test_a_writer_goes_on_after_a_crash_and_nothing_of_it_is_skipped(broken, make):
    """Checkpoints are moved before the bytes are cut: else what is written behind a cut would be taken for done."""
    files = {
        "metastore": make.metastore(),
        "00000000": make.message(b"one" * 9, 100) + make.message(b"two" * 9, 101)[:-2],
        "cp.61": struct.pack("<II", 0, 2),
    }
    new = make.message(b"three", 102)
    for where, crashed in moments(CrashingStorage(files)):
        data = crashed.read_all("00000000")
        end = len(make.message(b"one" * 9))
        if len(data) > end:
            continue
        with crashed.open_writable("00000000") as file:
            file.write_at(end, new)
        assert Watched(crashed).left["cp.61"] == {(102 * 10**9, b"three")}, where
