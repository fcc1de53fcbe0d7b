"""``everlog cluster``, the verbs that write: ClusterTool's lines and files, what is kept, how it is undone, when it is
refused."""

from __future__ import annotations

import json
import shlex
import shutil
import tarfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import tests

GOLDEN = tests.GOLDEN / "aeron" / "cluster-3node"
SORT, SEED, INVALIDATE = "sort-recording-log", "seed-recording-log-from-snapshot", "invalidate-latest-snapshot"
UNDO = "restore-recording-log"
LOG = "recording.log"
ACTIVITY = 8 + 8  # of a mark file: behind an SBE message header, version and component
Call = Callable[..., tuple[int, list[str], str]]


def unpacked(number: int, folder: Path) -> Path:
    """A copy of a golden node's cluster folder, its archive beside it."""
    with tarfile.open(GOLDEN / f"node{number}.tar.gz") as tar:
        tar.extractall(folder, filter="data")
    return folder / f"node{number}" / "cluster"


@pytest.fixture
def node(tmp_path: Path) -> Path:
    """Node 0's."""
    return unpacked(0, tmp_path)


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def swap(path: Path, first: int, second: int) -> bytes:
    """Two entries of a recording log change places; the file as it was."""
    before = path.read_bytes()
    parts = [before[at : at + 64] for at in range(0, len(before), 64)]
    parts[first], parts[second] = parts[second], parts[first]
    path.write_bytes(b"".join(parts))
    return before


def undo_of(err: str) -> list[str]:
    """The command that a verb says undoes it."""
    (line,) = [line for line in err.splitlines() if "to undo: " in line]
    return shlex.split(line.split("to undo: ")[1])[1:]


@pytest.mark.parametrize("number", [0, 1])
def test_the_three_verbs_in_a_row_do_and_print_what_the_original_did(call: Call, tmp_path: Path, number: int) -> None:
    def golden(name: str) -> list[str]:
        """What the original printed, and its exit code."""
        return (GOLDEN / f"tool-copy-node{number}-{name}.txt").read_text().split("\n")[1:-1]

    def golden_log(name: str) -> bytes:
        return (GOLDEN / f"copy-node{number}-after-{name}-recording.log").read_bytes()

    node = unpacked(number, tmp_path)
    before = (node / LOG).read_bytes()
    code, out, err = call("cluster", node, SORT)
    # The original's 255 is a 1 here, as everywhere.
    assert (golden("sort-recording-log"), code, out) == (["rc=255"], 1, [""])
    assert ((node / LOG).read_bytes(), "already sorted" in err) == (before, True)
    _, out, _ = call("cluster", node, "recording-log")
    assert [*out[:-1], "rc=0"] == golden("after-sort-recording-log")

    code, out, err = call("cluster", node, INVALIDATE)
    assert [*out[:-1], f"rc={code}"] == golden("invalidate-latest-snapshot")
    assert (node / LOG).read_bytes() == golden_log("invalidate")
    _, out, _ = call("cluster", node, "recording-log")
    assert [*out[:-1], "rc=0"] == golden("after-invalidate-recording-log")

    code, out, err = call("cluster", node, SEED)
    assert [*out[:-1], f"rc={code}"] == golden("seed")
    assert (node / LOG).read_bytes() == golden_log("seed")
    assert (node / f"{LOG}.bak").read_bytes() == golden_log("invalidate")
    _, out, _ = call("cluster", node, "recording-log")
    assert [*out[:-1], "rc=0"] == golden("after-seed-recording-log")


def test_sorting_prints_nothing_and_ends_with_0(call: Call, node: Path) -> None:
    before = swap(node / LOG, 1, 4)
    code, out, err = call("cluster", node, SORT)
    assert (code, out, (node / LOG).read_bytes()) == (0, [""], before)
    assert "wrote recording.log: 6 entries, sorted" in err


@pytest.mark.parametrize("verb", [SORT, SEED, INVALIDATE])
def test_the_command_that_undoes_a_change_is_said_and_works(call: Call, node: Path, verb: str) -> None:
    swap(node / LOG, 1, 4)
    before = (node / LOG).read_bytes()
    code, _, err = call("cluster", node, verb)
    assert (code, (node / LOG).read_bytes() != before) == (0, True)
    after = (node / LOG).read_bytes()
    undo = undo_of(err)
    assert undo[:3] == ["cluster", str(node), UNDO]
    code, out, err = call(*undo)
    assert (code, out, (node / LOG).read_bytes()) == (0, [""], before)
    code, _, again = call(*undo)
    assert (code, "already the same as the backup" in again) == (0, True)
    assert call(*undo_of(err))[0] == 0  # the undoing is undone, too
    assert (node / LOG).read_bytes() == after


def test_two_changes_within_a_second_are_undone_in_turn(call: Call, node: Path) -> None:
    before = (node / LOG).read_bytes()
    first = undo_of(call("cluster", node, INVALIDATE)[2])
    second = undo_of(call("cluster", node, INVALIDATE)[2])
    code, _, err = call(*first)
    assert (code, "undo later changes first" in err) == (1, True)
    assert (call(*second)[0], call(*first)[0]) == (0, 0)
    assert (node / LOG).read_bytes() == before


@pytest.mark.parametrize("verb", [SORT, SEED, INVALIDATE])
def test_a_dry_run_prints_the_plan_and_changes_nothing(call: Call, node: Path, verb: str) -> None:
    swap(node / LOG, 1, 4)
    before = files(node.parent)
    code, out, _ = call("cluster", node, verb, "--dry-run")
    assert (code, out[-2]) == (0, "dry run: nothing was changed")
    assert [line.split()[0] for line in out[:4]] == ["step", "before:", "after:", "loses:"]
    _, out, _ = call("cluster", node, verb, "--dry-run", "--json")
    shown = json.loads(out[0])
    assert (shown["changed"], shown["done"], shown["backup"], shown["undo"]) == (False, [], None, None)
    assert shown["plan"]["steps"][-1]["file"] == LOG
    assert files(node.parent) == before


def test_json_tells_what_was_done(call: Call, node: Path) -> None:
    code, out, _ = call("cluster", node, INVALIDATE, "--json")
    told = json.loads(out[0])
    assert (code, told["changed"], len(told["done"]), out[1:]) == (0, True, 1, [""])
    assert told["undo"] == f"everlog cluster {node} {UNDO} {told['backup']}"
    assert (Path(told["backup"]) / LOG).exists()
    call("cluster", node, INVALIDATE)
    code, out, _ = call("cluster", node, INVALIDATE, "--json")
    told = json.loads(out[0])
    assert (code, told["changed"], told["plan"]["empty"], told["backup"]) == (1, False, True, None)


def test_without_a_valid_snapshot_the_original_says_false(call: Call, node: Path) -> None:
    for expected in ("true", "true", "false"):
        code, out, _ = call("cluster", node, INVALIDATE)
        assert (code, out) == (int(expected == "false"), [f" invalidate latest snapshot: {expected}", ""])
    code, out, err = call("cluster", node, SEED)
    assert (code, out, "no valid snapshot" in err) == (1, [""], True)
    assert (node / LOG).exists()  # the original deletes it


def test_the_old_file_is_kept_where_it_is_wanted_or_not_at_all(call: Call, node: Path, tmp_path: Path) -> None:
    before = (node / LOG).read_bytes()
    assert call("cluster", node, INVALIDATE, "--backup", tmp_path / "kept")[0] == 0
    assert (tmp_path / "kept" / LOG).read_bytes() == before
    code, _, err = call("cluster", node, INVALIDATE, "--backup", tmp_path / "kept")
    assert (code, f"--backup must be a new or empty folder, not {tmp_path / 'kept'}" in err) == (2, True)
    assert call("cluster", node, INVALIDATE, "--backup", "x", "--no-backup")[0] == 2
    code, _, err = call("cluster", node, INVALIDATE, "--no-backup")
    assert (code, "undo" in err) == (0, False)
    assert [path.name for path in node.parent.iterdir() if "repair" in path.name] == []


@pytest.mark.parametrize("mark", ["cluster-mark.dat", "cluster-mark-service-0.dat"])
@pytest.mark.parametrize("verb", [SORT, SEED, INVALIDATE])
def test_a_node_that_runs_is_left_alone(call: Call, node: Path, verb: str, mark: str) -> None:
    swap(node / LOG, 1, 4)
    with open(node / mark, "r+b") as file:
        file.seek(ACTIVITY)
        assert file.read(8) == b"\xff" * 8  # it was closed
        file.seek(ACTIVITY)
        file.write((time.time_ns() // 1_000_000).to_bytes(8, "little"))
    before = files(node.parent)
    code, out, err = call("cluster", node, verb)
    assert (code, out, "stop the node first" in err) == (2, [""], True)
    code, out, err = call("cluster", node, verb, "--dry-run")
    assert (code, out[-2], "stop the node first" in err) == (2, "dry run: nothing was changed", True)
    assert files(node.parent) == before


def test_where_the_system_does_not_tell_who_has_the_file_open_that_is_said(
    call: Call, node: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from everlog.core.files.writable import LocalWritableStorage

    note = "can't check whether another process has recording.log open"
    assert note not in call("cluster", node, INVALIDATE)[2]
    monkeypatch.setattr(LocalWritableStorage, "is_open_elsewhere", lambda self, name: None)
    code, _, err = call("cluster", node, INVALIDATE)
    assert (code, note in err) == (0, True)


def test_the_only_snapshot_of_a_purged_log_is_left_alone(call: Call, node: Path) -> None:
    # The log's recording begins at 131072, behind the first snapshot.
    catalog = node.parent / "archive" / "archive.catalog"
    data = bytearray(catalog.read_bytes())
    # The first entry: its header is 32 bytes, the start position is 40 bytes into the block behind it.
    data[32 + 32 + 40 : 32 + 32 + 48] = (131_072).to_bytes(8, "little")
    catalog.write_bytes(data)
    code, out, err = call("cluster", node, INVALIDATE)
    assert (code, out) == (1, [""])
    assert "a log that begins at position 131072" in err
    assert "from position 128736" in err
    shutil.rmtree(catalog.parent)
    assert call("cluster", node, INVALIDATE)[0] == 0  # where the archive is not here, that can't be told


def test_a_snapshot_that_the_archive_does_not_give_is_told_of_or_refused(call: Call, node: Path) -> None:
    def mark_deleted(recording_id: int) -> None:
        catalog = node.parent / "archive" / "archive.catalog"
        data, at = bytearray(catalog.read_bytes()), 32
        for _ in range(recording_id):
            at += (32 + int.from_bytes(data[at : at + 4], "little") + 63) // 64 * 64
        data[at + 4] = 2
        catalog.write_bytes(data)

    before = (node / LOG).read_bytes()
    mark_deleted(2)  # the consensus module's part of the first snapshot
    code, out, err = call("cluster", node, INVALIDATE)
    assert (code, out) == (0, [" invalidate latest snapshot: true", ""])
    assert "loses: recording.log: this snapshot" in err
    assert "128736" in err
    assert "no recording 2 of consensus-module in the archive" in err
    changed = (node / LOG).read_bytes()
    code, out, err = call("cluster", node, SEED)
    assert (code, out, (node / LOG).read_bytes()) == (1, [""], changed)
    assert "no recording 2 of consensus-module in the archive" in err
    assert not (node / f"{LOG}.bak").exists()
    (node / LOG).write_bytes(before)
    assert call("cluster", node, SEED)[0] == 0  # the latest one is whole


def test_a_service_count_may_be_given(call: Call, node: Path) -> None:
    code, _, err = call("cluster", node, SEED, "2")
    assert (code, "no snapshot of service 1 at position 791904" in err) == (1, True)
    assert call("cluster", node, SEED, "1")[0] == 0
    code, _, err = call("cluster", node, SEED)
    assert (code, "already has only the latest snapshot" in err) == (0, True)


def test_what_is_no_node_or_no_backup_is_refused(call: Call, node: Path, tmp_path: Path) -> None:
    assert call("cluster", tmp_path, SORT)[0] == 2
    assert call("cluster", node, UNDO, tmp_path / "nothing")[0] == 2
    assert call("cluster", node, UNDO, node.parent / "archive")[0] == 2
    (node / LOG).unlink()
    assert [call("cluster", node, verb)[0] for verb in (SORT, SEED, INVALIDATE)] == [2, 2, 2]


def test_a_backup_inside_of_the_node_s_folder_is_refused(call: Call, node: Path) -> None:
    before = files(node)
    for way in ([], ["--dry-run"]):
        code, _, err = call("cluster", node, INVALIDATE, "--backup", node / "kept", *way)
        assert (code, "--backup must be a folder outside the store" in err) == (2, True)
    assert files(node) == before


def test_who_interrupts_a_change_is_told_where_the_old_file_is(
    call: Call, node: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from everlog.core.files.writable import LocalWritableStorage

    publish = LocalWritableStorage.publish

    def interrupt(self: LocalWritableStorage, name: str, data: bytes, **how: bool) -> bool:
        if name == LOG:
            raise KeyboardInterrupt
        return publish(self, name, data, **how)

    monkeypatch.setattr(LocalWritableStorage, "publish", interrupt)
    code, _, err = call("cluster", node, INVALIDATE)
    assert (code, "the change was interrupted; the old file is kept in" in err) == (130, True)


def test_a_failure_says_where_the_old_file_is(call: Call, node: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from everlog.core.files.writable import LocalWritableStorage
    from everlog.errors import WriteFailed

    publish = LocalWritableStorage.publish

    def full(self: LocalWritableStorage, name: str, data: bytes, **how: bool) -> bool:
        if name == LOG:
            raise WriteFailed(name, found="no space left on device")
        return publish(self, name, data, **how)

    monkeypatch.setattr(LocalWritableStorage, "publish", full)
    before = (node / LOG).read_bytes()
    code, out, err = call("cluster", node, SEED)
    assert (code, out, (node / LOG).read_bytes()) == (2, [""], before)
    assert "recording.log is unchanged" in err
    (kept,) = [path for path in node.parent.iterdir() if "repair" in path.name]
    assert f"the old file is kept in {kept}" in err
    assert (kept / LOG).read_bytes() == before
