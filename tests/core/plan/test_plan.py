"""Plans and backups, whatever the family."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from everlog.core.plan.backup import FolderBackup
from everlog.core.plan.plan import RepairPlan
from everlog.core.plan.step import RepairStep
from everlog.errors import FileChanged, WriteFailed


@dataclass(frozen=True, kw_only=True)
class Step(RepairStep):
    """Writes down that it was checked and done."""

    log: list[str] = field(default_factory=list)
    is_stale: bool = False

    def check(self) -> None:
        if self.is_stale:
            raise FileChanged(self.file)
        self.log.append(f"check {self.file}")

    def apply(self, backup: object) -> str:
        self.log.append(f"apply {self.file}")
        return f"did {self.file}"


def plan_of(*steps: Step) -> RepairPlan:
    return RepairPlan("store", "toy", steps)


def test_all_steps_are_checked_before_the_first_is_done() -> None:
    log: list[str] = []
    steps = [Step(file=name, before="old", after="new", log=log) for name in "ab"]
    told: list[tuple[str, int, int]] = []
    done = plan_of(*steps).apply(lambda *progress: told.append(progress))
    assert done == ["did a", "did b"]
    assert log == ["check a", "check b", "apply a", "apply b"]
    assert told == [("repair a", 0, 2), ("repair b", 1, 2)]


def test_a_step_that_can_not_be_done_stops_all(tmp_path: Path) -> None:
    log: list[str] = []
    first = Step(file="a", before="old", after="new", log=log)
    stale = Step(file="b", before="old", after="new", log=log, is_stale=True)
    backup = FolderBackup(tmp_path / "kept")
    with pytest.raises(FileChanged):
        plan_of(first, stale).apply(backup=backup)
    assert log == ["check a"]
    assert not backup.is_made
    assert not (tmp_path / "kept").exists()


def test_a_plan_tells_what_it_loses() -> None:
    plan = plan_of(
        Step(file="a", before="old", after="new"), Step(file="b", before="1", after="2", loses="one message")
    )
    assert plan.loses == ["b: one message"]
    assert not plan.is_empty
    assert plan_of().is_empty
    assert plan.to_dict() == {
        "store": "store",
        "family": "toy",
        "empty": False,
        "steps": [
            {"file": "a", "before": "old", "after": "new", "loses": "nothing"},
            {"file": "b", "before": "1", "after": "2", "loses": "one message"},
        ],
        "remains": [],
    }


def test_the_plan_is_kept_before_the_first_step_is_done(tmp_path: Path) -> None:
    plan = plan_of(Step(file="a", before="old", after="new"))
    plan.apply(backup=FolderBackup(tmp_path / "kept"))
    assert json.loads((tmp_path / "kept" / "plan.json").read_text()) == plan.to_dict()


def test_a_backup_overwrites_nothing(tmp_path: Path) -> None:
    for content in (b"one", b"two", b"three"):
        FolderBackup(tmp_path).save("name", [content[:1], content[1:]])
    kept = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    assert kept == {"name": b"one", "name.2": b"two", "name.3": b"three"}


def test_a_backup_lies_beside_the_store_and_is_made_when_it_is_needed(tmp_path: Path) -> None:
    store = tmp_path / "store"
    store.mkdir()
    backup = FolderBackup.beside(f"{store}/")
    assert re.fullmatch(rf"{re.escape(str(store))}\.repair-\d{{8}}T\d{{6}}Z", backup.path)
    assert not Path(backup.path).exists()
    backup.save("name", [b"bytes"])
    assert Path(backup.path, "name").stat().st_mode & 0o777 == 0o600


def test_a_backup_that_can_not_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(WriteFailed, match="choose another folder"):
        FolderBackup(tmp_path / "file" / "kept").save("name", [b""])
