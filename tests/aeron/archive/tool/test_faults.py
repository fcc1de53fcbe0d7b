"""ArchiveTool's verbs on disks that fail, and broken off at any point: the folder reads as well as before, or the same
verb finishes its work."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from everlog.aeron.archive.format.catalog import read_catalog
from everlog.aeron.archive.tool.undo import plan_undo
from everlog.core.files.storage import LocalStorage
from everlog.core.files.writable import DRAFT_PREFIX
from everlog.core.plan.backup import FolderBackup
from everlog.errors import EverlogError, WriteFailed
from everlog.testing.series import Series
from everlog.testing.storage.crashing import CrashingStorage
from everlog.testing.storage.faulty_writes import FaultyWrites, WriteFaults
from tests.aeron.archive.tool.archive_changes import VERBS, Verb, faults_of

Signs = set[tuple[str, str | None]]
SEEDS = range(3)


def contents(storage: Any) -> dict[str, bytes]:
    """Without drafts, which a crash may leave."""
    return {name: storage.read_all(name) for name in storage.names() if not name.startswith(DRAFT_PREFIX)}


def without_entry_checksums(files: dict[str, bytes]) -> dict[str, bytes]:
    """An entry's checksum is taken out before its fields change; broken off there, it stays out."""
    data = bytearray(files["archive.catalog"])
    for entry in read_catalog(bytes(data)).entries:
        data[entry.offset + 8 : entry.offset + 12] = bytes(4)
    return files | {"archive.catalog": bytes(data)}


def signs(storage: Any) -> Signs:
    """What is wrong, and with which recording."""
    return {(fault.code, fault.stream) for fault in faults_of(storage)}


class Outcome:
    """What a verb makes of its folder, and what is wrong before and after it."""

    def __init__(self, verb: Verb) -> None:
        storage = CrashingStorage(verb.files())
        self.before = signs(storage)
        verb.plan(storage).apply()
        self.files = contents(storage)
        self.after = signs(storage)


_outcomes: dict[str, Outcome] = {}


def outcome(verb: Verb) -> Outcome:
    if verb.name not in _outcomes:
        _outcomes[verb.name] = Outcome(verb)
    return _outcomes[verb.name]


def check_and_finish(storage: CrashingStorage, verb: Verb) -> None:
    """Nothing is worse than before or after the verb; and the verb finishes."""
    expected = outcome(verb)
    if verb.is_readable:
        assert signs(storage) <= expected.before | expected.after
    verb.plan(storage).apply()
    if verb.name == "verify --fix":
        assert without_entry_checksums(contents(storage)) == without_entry_checksums(expected.files)
    else:
        assert contents(storage) == expected.files


@pytest.mark.parametrize("count", [1, 1000], ids=["once", "for good"])
@pytest.mark.parametrize("verb", VERBS, ids=str)
def test_whatever_fails_the_error_says_so_and_the_verb_finishes_when_the_disk_is_whole(
    verb: Verb, count: int, series: Series
) -> None:
    for number in series.numbers():
        inner = CrashingStorage(verb.files())
        plan = verb.plan(inner)
        storage = FaultyWrites(inner, WriteFaults(fail_at=number, count=count))
        for step in plan.steps:
            object.__setattr__(step, "storage", storage)
        try:
            plan.apply()
        except WriteFailed:
            assert storage.failed
        else:
            assert not storage.failed
            break
        check_and_finish(inner, verb)
    assert number >= 2


@pytest.mark.parametrize("verb", VERBS, ids=str)
def test_a_verb_that_is_killed_at_any_point_can_be_run_again(verb: Verb, series: Series) -> None:
    left: list[CrashingStorage] = []
    storage = CrashingStorage(verb.files())
    plan = verb.plan(storage)
    storage.after_each = lambda _: left.append(storage.kill())
    plan.apply()
    storage.after_each = None
    assert len(left) >= 2
    for folder in series.points(left):
        check_and_finish(folder, verb)


@pytest.mark.long
@pytest.mark.parametrize("verb", VERBS, ids=str)
def test_after_a_power_cut_at_any_point_the_verb_can_be_run_again(verb: Verb, series: Series) -> None:
    # Names appear in the order in which they were given, as on file systems with a journal: see docs/durability.md.
    left: list[CrashingStorage] = []
    storage = CrashingStorage(verb.files())
    plan = verb.plan(storage)
    storage.after_each = lambda _: left.extend(storage.crash(seed, ordered_names=True) for seed in SEEDS)
    plan.apply()
    storage.after_each = None
    for folder in series.points(left):
        check_and_finish(folder, verb)


@pytest.mark.long
@pytest.mark.parametrize("verb", [verb for verb in VERBS if "migrate" not in verb.name], ids=str)
def test_without_a_journal_only_renamed_files_are_at_risk(verb: Verb, series: Series) -> None:
    left: list[CrashingStorage] = []
    storage = CrashingStorage(verb.files())
    plan = verb.plan(storage)
    storage.after_each = lambda _: left.extend(storage.crash(seed) for seed in SEEDS)
    plan.apply()
    storage.after_each = None
    for folder in series.points(left):
        check_and_finish(folder, verb)


@pytest.mark.parametrize("verb", VERBS, ids=str)
def test_a_verb_that_was_done_is_on_disk(verb: Verb) -> None:
    storage = CrashingStorage(verb.files())
    verb.plan(storage).apply()
    for seed in range(10):
        assert contents(storage.crash(seed)) == outcome(verb).files


class FullBackup:
    """Fails at the save with that number."""

    def __init__(self, fails: int) -> None:
        self.fails = fails
        self.count = 0

    def save(self, name: str, pieces: Any) -> None:
        self.count += 1
        if self.count > self.fails:
            raise WriteFailed(name, found="no space left on device")
        for _ in pieces:
            pass


@pytest.mark.parametrize("verb", VERBS, ids=str)
def test_what_could_not_be_kept_is_not_removed_nor_written_over(verb: Verb, series: Series) -> None:
    storage = CrashingStorage(verb.files())
    with pytest.raises(WriteFailed):
        verb.plan(storage).apply(backup=FullBackup(0))
    assert contents(storage) == verb.files()
    for fails in series.numbers():
        storage = CrashingStorage(verb.files())
        try:
            verb.plan(storage).apply(backup=FullBackup(fails))
        except WriteFailed:
            check_and_finish(storage, verb)
        else:
            break
    assert contents(storage) == outcome(verb).files


@pytest.mark.parametrize("verb", VERBS, ids=str)
def test_a_verb_that_was_broken_off_is_undone_and_an_undo_that_was_broken_off_goes_on(
    verb: Verb, tmp_path: Path, series: Series
) -> None:
    before = verb.files()
    for number in series.numbers():
        storage = CrashingStorage(before)
        plan = verb.plan(storage)
        failing = FaultyWrites(storage, WriteFaults(fail_at=number, count=1000))
        for step in plan.steps:
            object.__setattr__(step, "storage", failing)
        kept = tmp_path / f"kept-{number}"
        try:
            plan.apply(backup=FolderBackup(kept))
        except EverlogError:
            pass
        else:
            break
        failing.faults = WriteFaults()
        undo = plan_undo(storage, LocalStorage(str(kept)))
        broken = FaultyWrites(storage, WriteFaults(fail_at=number // 2, count=1000))
        for step in undo.steps:
            object.__setattr__(step, "storage", broken)
        try:
            undo.apply()
        except WriteFailed:
            plan_undo(storage, LocalStorage(str(kept))).apply()
        assert contents(storage) == before, number
