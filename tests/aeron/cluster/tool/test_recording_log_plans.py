"""A node's recording log is changed whole or not at all, never under a node that runs, and can be brought back."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from everlog.aeron.cluster.format.recording_log import SNAPSHOT, encode_entry
from everlog.aeron.cluster.tool.recording_log_plans import (
    plan_invalidate,
    plan_restore,
    plan_seed,
    plan_sort,
    refuse_live,
)
from everlog.core.files.storage import LocalStorage
from everlog.core.files.writable import LocalWritableStorage
from everlog.core.plan.backup import FolderBackup
from everlog.core.plan.plan import RepairPlan
from everlog.errors import CorruptData, FileChanged, StoreUnavailable, UsageError, WriteFailed
from everlog.testing.storage.crashing import CrashingStorage
from everlog.testing.storage.faulty_writes import FaultyWrites, WriteFaults
from everlog.testing.storage.memory import MemoryStorage
from tests.aeron.cluster.cluster_folder import T0, Node, mark_of

LOG, BAK = "recording.log", "recording.log.bak"
Plan = Callable[..., RepairPlan]
PLANS: list[Plan] = [plan_sort, plan_seed, plan_invalidate]
TERMS = {"recording_id": 0, "term_base_log_position": 0, "log_position": 64}
SEEDS = range(6)


def unsorted() -> bytes:
    """Term 1 before term 0, which has a snapshot."""
    _, service, own, _ = Node.make().entries
    term_0, term_1 = (encode_entry(leadership_term_id=term, **TERMS) for term in range(2))
    return term_1 + service + own + term_0


def folder(**files: bytes) -> dict[str, bytes]:
    return {LOG: unsorted(), **Node.make().files, **files}


class Kept:
    """A backup in memory; ``fails``: at the save with that number."""

    def __init__(self, fails: int | None = None) -> None:
        self.saved: dict[str, bytes] = {}
        self.fails = fails

    def save(self, name: str, pieces: Any) -> None:
        if len(self.saved) == self.fails:
            raise WriteFailed(name, found="no space left on device")
        self.saved[name] = b"".join(pieces)


def contents(storage: Any) -> tuple[bytes, bytes | None]:
    return storage.read_all(LOG), storage.read_all(BAK) if storage.exists(BAK) else None


def result(plan: Plan) -> tuple[bytes, bytes | None]:
    storage = CrashingStorage(folder())
    plan(storage).apply()
    return contents(storage)


# What the three do to a folder


@pytest.mark.parametrize("plan", PLANS)
def test_planning_changes_nothing_and_applying_only_what_was_planned(plan: Plan, tmp_path: Path) -> None:
    node = Node.make()
    node.entries = [unsorted()]
    path = node.write(tmp_path)
    before = {file.name: file.read_bytes() for file in path.iterdir()}
    planned = plan(LocalStorage(path))
    assert {file.name: file.read_bytes() for file in path.iterdir()} == before
    done = planned.apply()
    after = {file.name: file.read_bytes() for file in path.iterdir()}
    assert {name for name in after if after[name] != before.get(name)} == {step.file for step in planned.steps}
    assert [line.split(":")[0] for line in done] == [f"wrote {step.file}" for step in planned.steps]
    assert after[LOG] == result(plan)[0] != before[LOG]


def test_a_new_start_keeps_the_old_file_beside_it_as_the_original_does() -> None:
    storage, kept = CrashingStorage(folder(**{BAK: b"of an earlier one"})), Kept()
    plan_seed(storage).apply(backup=kept)
    assert storage.read_all(BAK) == unsorted()
    assert (kept.saved[BAK], kept.saved[LOG]) == (b"of an earlier one", unsorted())
    assert plan_seed(storage).is_empty  # and a second time the copy is not written over
    stopped = CrashingStorage(folder(**{BAK: unsorted()}))  # between the copy and the new file
    assert [step.file for step in plan_seed(stopped).steps] == [LOG]


@pytest.mark.parametrize("plan", PLANS)
def test_the_new_file_has_the_old_ones_mode(plan: Plan, tmp_path: Path) -> None:
    path = Node.make().write(tmp_path)
    (path / LOG).write_bytes(unsorted())
    (path / LOG).chmod(0o604)
    plan(LocalStorage(path)).apply()
    assert [(path / name).stat().st_mode & 0o777 for name in (LOG, BAK) if (path / name).exists()][-1] == 0o604
    assert (path / LOG).stat().st_mode & 0o777 == 0o604


@pytest.mark.parametrize("plan", PLANS)
def test_a_file_that_would_be_another_users_is_left(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = Node.make().write(tmp_path)
    (path / LOG).write_bytes(unsorted())
    owner = (path / LOG).stat().st_uid
    with monkeypatch.context() as patch:
        patch.setattr(os, "geteuid", lambda: owner + 1)
        with pytest.raises(StoreUnavailable, match=f"owned by user {owner}; expected owner {owner + 1}"):
            plan(LocalStorage(path)).apply()
    assert (path / LOG).read_bytes() == unsorted()
    assert not (path / BAK).exists()


@pytest.mark.parametrize("plan", PLANS)
def test_a_file_that_root_replaces_keeps_its_owner_and_group(plan: Plan, tmp_path: Path, owners: Any) -> None:
    path = Node.make().write(tmp_path)
    (path / LOG).write_bytes(unsorted())
    owners.seem(path / LOG, 1, 2)
    plan(LocalStorage(path)).apply()
    assert owners.given[-1] == (1, 2)
    assert (path / LOG).read_bytes() != unsorted()


def test_a_new_start_wants_a_part_of_each_service() -> None:
    files = folder(**{"cluster-mark-service-1.dat": mark_of(2, 1)})
    with pytest.raises(CorruptData, match="no snapshot of service 1 at position"):
        plan_seed(CrashingStorage(files))
    assert len(plan_seed(CrashingStorage(files), service_count=1).steps) == 2


def test_the_only_snapshot_of_a_purged_log_stays_valid() -> None:
    storage = CrashingStorage(folder())
    assert not plan_invalidate(storage, log_start=0).is_empty
    with pytest.raises(CorruptData, match="a log that begins at position 32; expected a log from position 0"):
        plan_invalidate(storage, log_start=32)


def two_snapshots() -> bytes:
    """Term 0 with snapshots of service 0 and the consensus module: recordings 1 and 2 at 64, 3 and 4 at 128."""
    out = encode_entry(recording_id=0, leadership_term_id=0, term_base_log_position=0, log_position=-1)
    for recording_id, position, service_id in ((1, 64, 0), (2, 64, -1), (3, 128, 0), (4, 128, -1)):
        out += encode_entry(
            recording_id=recording_id,
            leadership_term_id=0,
            term_base_log_position=0,
            log_position=position,
            service_id=service_id,
            type=SNAPSHOT,
        )
    return out


def test_what_the_next_snapshot_lacks_is_said_before_this_one_is_marked() -> None:
    def loses(data: bytes, given: set[int] | None) -> str:
        return plan_invalidate(CrashingStorage({LOG: data}), given=given).steps[0].loses

    data = two_snapshots()
    for enough in (None, {0, 1, 2, 3, 4}, {1, 2}):
        assert loses(data, enough) == "this snapshot: a start loads the one at position 64 and replays from there"
    assert "which fails: no recording 1 of service-0 in the archive; invalidate that" in loses(data, {0, 2, 3})
    assert "which fails: no snapshot of service-0; invalidate" in loses(data[:64] + data[128:], None)


def test_a_new_start_wants_the_recordings_of_its_snapshot() -> None:
    storage = CrashingStorage({LOG: two_snapshots()})
    for enough in (None, {3, 4}):
        assert not plan_seed(storage, given=enough).is_empty
    with pytest.raises(CorruptData, match="no recording 3 of service-0 in the archive"):
        plan_seed(storage, given={0, 1, 2, 4})


def test_nothing_to_change_is_an_empty_plan() -> None:
    files = {LOG: b"".join(Node.make().entries[:1])}
    assert plan_sort(CrashingStorage(files)).is_empty
    assert plan_invalidate(CrashingStorage(files)).is_empty
    assert plan_seed(CrashingStorage({LOG: result(plan_seed)[0]})).is_empty


@pytest.mark.parametrize("plan", PLANS)
def test_without_a_recording_log_or_a_local_folder_nothing_is_planned(plan: Plan) -> None:
    with pytest.raises(StoreUnavailable, match=r"no recording\.log in"):
        plan(CrashingStorage())
    with pytest.raises(UsageError, match="not a local folder"):
        plan(MemoryStorage({LOG: unsorted()}))


# Nodes at work


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("name", ["cluster-mark.dat", "cluster-mark-service-0.dat"])
def test_nothing_is_changed_while_a_component_runs(plan: Plan, name: str) -> None:
    component, service = (1, -1) if name == "cluster-mark.dat" else (2, 0)
    storage = CrashingStorage(folder(**{name: mark_of(component, service, T0)}))
    for now in (T0, T0 + 10_000):
        with pytest.raises(StoreUnavailable, match=r"is running \(process 42\)"):
            plan(storage, now_ms=lambda now=now: now).apply()
    assert contents(storage) == (unsorted(), None)
    plan(storage, now_ms=lambda: T0 + 10_001).apply()  # it died without a word
    assert contents(storage) == result(plan)


def test_a_node_that_starts_after_planning_is_seen() -> None:
    storage = CrashingStorage(folder())
    plan = plan_sort(storage, now_ms=lambda: T0)
    storage.publish("cluster-mark.dat", mark_of(1, -1, T0), replace=True)
    with pytest.raises(StoreUnavailable, match="is running"):
        plan.apply()


def test_a_mark_file_that_cant_be_read_does_not_pass_for_a_dead_node() -> None:
    with pytest.raises(CorruptData, match=r"cluster-mark.dat at offset 0: 5 bytes") as caught:
        refuse_live(CrashingStorage(folder(**{"cluster-mark.dat": b"short"})))
    assert caught.value.hint is not None
    assert "if it is not, move this file away" in caught.value.hint
    assert "nothing was changed" in caught.value.hint


@pytest.mark.parametrize("plan", PLANS)
def test_nothing_is_changed_while_a_process_has_the_file_open(plan: Plan) -> None:
    storage = CrashingStorage(folder())
    planned = plan(storage)
    with storage.open(LOG), pytest.raises(StoreUnavailable, match="open in another process"):
        planned.apply()
    assert contents(storage) == (unsorted(), None)


class Silent(CrashingStorage):
    """A system that does not tell who has a file open."""

    def is_open_elsewhere(self, name: str) -> bool | None:
        return None


def test_two_changes_at_once_exclude_each_other() -> None:
    storage = Silent(folder())
    planned = plan_sort(storage)
    with storage.open_writable(LOG) as other:
        assert other.lock()
        with pytest.raises(StoreUnavailable, match="another process is changing it"):
            planned.apply()
    plan_invalidate(storage).apply()
    with pytest.raises(FileChanged, match="as when the change was planned"):
        planned.apply()


def test_a_file_that_was_replaced_while_the_backup_was_written_is_left() -> None:
    storage = CrashingStorage(folder())

    class Slow(Kept):
        def save(self, name: str, pieces: Any) -> None:
            if name == LOG:
                storage.publish(LOG, b"another", replace=True)

    with pytest.raises(FileChanged, match="other content, 7 bytes"):
        plan_sort(storage).apply(backup=Slow())
    assert storage.read_all(LOG) == b"another"


# Faults and crashes


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("plan", PLANS)
def test_whatever_fails_the_old_or_the_new_file_stands_and_the_error_says_which(plan: Plan, error: int) -> None:
    new, bak = result(plan)
    files = [step.file for step in plan(CrashingStorage(folder())).steps]
    operations = [(file, operation) for file in files for operation in ("open", "lock", "publish", "sync_folder")]
    for number, (file, operation) in enumerate(operations):
        inner = CrashingStorage(folder())
        storage = FaultyWrites(inner, WriteFaults(fail_at=number, error=error))
        with pytest.raises(WriteFailed) as caught:
            plan(storage).apply()
        assert storage.failed[0].split()[0] == operation
        is_written = operation == "sync_folder"
        assert contents(inner)[0] == (new if file == LOG and is_written else unsorted()), (file, operation)
        assert contents(inner)[1] == (bak if file == LOG or is_written else None), (file, operation)
        assert f"({file} is {'the new file' if is_written else 'unchanged'}" in str(caught.value)
        storage.faults = WriteFaults()
        plan(storage).apply()  # once more, on a disk that is whole again
        assert contents(inner) == (new, bak)
    plan(FaultyWrites(CrashingStorage(folder()), WriteFaults(fail_at=len(operations)))).apply()


@pytest.mark.parametrize("plan", PLANS)
def test_what_could_not_be_kept_is_not_changed(plan: Plan) -> None:
    steps = len(plan(CrashingStorage(folder(**{BAK: b"former"}))).steps)
    for fails in range(1 + steps):
        storage = CrashingStorage(folder(**{BAK: b"former"}))
        with pytest.raises(WriteFailed, match="no space left"):
            plan(storage).apply(backup=Kept(fails))
        assert storage.read_all(LOG) == unsorted()
    plan(storage).apply(backup=Kept(1 + steps))


@pytest.mark.parametrize("plan", PLANS)
def test_a_crash_anywhere_leaves_the_old_or_the_new_file_and_the_next_run_ends_it(plan: Plan) -> None:
    new, bak = result(plan)
    moments: list[tuple[str, CrashingStorage]] = []
    storage = CrashingStorage(folder())

    def look(what: str) -> None:
        moments.append((f"killed after {what}", storage.kill()))
        for seed in SEEDS:
            for ordered in (False, True):
                crashed = storage.crash(len(moments) << 8 | seed, ordered_names=ordered)
                moments.append((f"power cut {seed} after {what}", crashed))

    planned = plan(storage)
    storage.after_each = look
    planned.apply()
    storage.after_each = None
    assert len(moments) > 6 * len(planned.steps)
    assert {contents(crashed)[0] for _, crashed in moments} == {unsorted(), new}
    for where, crashed in moments:
        now = contents(crashed)
        assert now[1] in (None, bak), where
        if now[0] == new:
            assert now[1] == bak, where  # the copy is on disk first
        plan(crashed).apply()
        assert contents(crashed) == (new, bak), where


@pytest.mark.parametrize("plan", PLANS)
def test_a_power_cut_after_a_change_takes_nothing_of_it_back(plan: Plan) -> None:
    storage = CrashingStorage(folder())
    plan(storage).apply()
    for seed in range(50):
        assert contents(storage.crash(seed)) == result(plan)


# Bringing back


def changed(plan: Plan, tmp_path: Path) -> tuple[Path, FolderBackup]:
    path = Node.make().write(tmp_path)
    (path / LOG).write_bytes(unsorted())
    backup = FolderBackup(tmp_path / "kept")
    plan(LocalStorage(path)).apply(backup=backup)
    return path, backup


@pytest.mark.parametrize("plan", PLANS)
def test_what_was_changed_is_brought_back_and_back_again(plan: Plan, tmp_path: Path) -> None:
    path, backup = changed(plan, tmp_path)
    new = (path / LOG).read_bytes()
    undo = plan_restore(LocalStorage(path), LocalStorage(backup.path))
    again = FolderBackup(tmp_path / "kept-by-undo")
    undo.apply(backup=again)
    assert (path / LOG).read_bytes() == unsorted()
    assert plan_restore(LocalStorage(path), LocalStorage(backup.path)).is_empty
    plan_restore(LocalStorage(path), LocalStorage(again.path)).apply()
    assert (path / LOG).read_bytes() == new


def test_what_a_node_wrote_since_is_not_thrown_away(tmp_path: Path) -> None:
    path, backup = changed(plan_sort, tmp_path)
    with open(path / LOG, "ab") as file:
        file.write(encode_entry(leadership_term_id=2, **TERMS))
    with pytest.raises(FileChanged, match="written since the change"):
        plan_restore(LocalStorage(path), LocalStorage(backup.path))


def test_a_node_that_runs_gets_nothing_brought_back(tmp_path: Path) -> None:
    path, backup = changed(plan_sort, tmp_path)
    (path / "cluster-mark.dat").write_bytes(mark_of(1, -1, T0))
    undo = plan_restore(LocalStorage(path), LocalStorage(backup.path), now_ms=lambda: T0)
    with pytest.raises(StoreUnavailable, match="is running"):
        undo.apply()


@pytest.mark.parametrize("damage", ["log", "plan", "list", "other", "deep", "huge", "none"])
def test_a_folder_that_is_no_backup_is_refused(tmp_path: Path, damage: str) -> None:
    path, backup = changed(plan_sort, tmp_path)
    kept, plan = Path(backup.path) / LOG, Path(backup.path) / "plan.json"
    before = (path / LOG).read_bytes()
    if damage == "log":
        kept.write_bytes(kept.read_bytes()[:-1])
    elif damage == "none":
        kept.unlink()
    else:
        other = json.dumps({"steps": [{"file": "another"}]})
        deep, huge = "[" * 100_000, " " * (1 << 20) + "{}"
        plan.write_text({"plan": "{", "list": "[]", "other": other, "deep": deep, "huge": huge}[damage])
    with pytest.raises((CorruptData, StoreUnavailable)):
        plan_restore(LocalWritableStorage(path), LocalStorage(backup.path))
    assert (path / LOG).read_bytes() == before
