"""Repair of journals with whatever damage: what could be read is there, nobody skips, one repair is enough."""

from __future__ import annotations

import random
import struct

import pytest

import tests
from everlog.errors import UnsupportedVersion
from everlog.jlog.repair.planning import plan_repair
from everlog.jlog.store import JlogStore
from everlog.testing.fuzz.mutations import mutate
from everlog.testing.series import Series
from everlog.testing.storage.crashing import CrashingStorage

GOLDEN = tests.GOLDEN / "jlog"
CASES = sorted(path.name for path in GOLDEN.iterdir() if path.is_dir())
SEEDS = 60


def records(storage):
    found = JlogStore.open(storage, {}).read("journal", on_fault=lambda fault: None)
    return [((r.fields["log"], r.fields["marker"]), (r.timestamp_ns, r.payload)) for r in found]


def left_for(found, place):
    return [content for address, content in found if address > place]


def is_within(part, whole):
    rest = iter(whole)
    return all(any(item == other for other in rest) for item in part)


def checkpoints(storage):
    return {
        name: struct.unpack("<II", storage.read_all(name))
        for name in storage.names()
        if name.startswith("cp.") and storage.size(name) == 8
    }


@pytest.mark.parametrize("case", CASES)
def test_a_repair_loses_nothing_that_could_be_read(golden, case, series: Series):
    for seed in range(series.rounds(SEEDS)):
        files, what = mutate(golden(case).files, random.Random(f"{case} {seed}"))
        where = f"{case}, seed {seed}: {what}"
        storage = CrashingStorage(files)
        try:
            before = records(storage)
        except UnsupportedVersion:
            continue
        places = checkpoints(storage)
        plan = plan_repair(storage)
        plan.apply()
        after = records(storage)
        assert [content for _, content in after] == [content for _, content in before], where
        moved = checkpoints(storage)
        for name, place in places.items():
            assert is_within(left_for(before, place), left_for(after, moved[name])), (where, name)
        found = {f.code for f in JlogStore.open(storage, {}).verify().faults if f.severity.value == "fault"}
        assert found - {"missing-segments"} <= {fault.code for fault in plan.unrepaired}, where
        assert plan_repair(storage).is_empty, where
