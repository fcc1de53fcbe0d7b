"""An export's folder after a crash at each operation of a commit: all of the commit is there, or nothing of it, and
nothing twice."""

from __future__ import annotations

import zlib
from pathlib import Path

import pytest

from everlog.core.files.writable import LocalWritableStorage
from everlog.errors import CorruptData, StoreUnavailable
from everlog.pipelines.export.folder import ExportFolder, placed, read_manifest
from everlog.pipelines.export.manifest import ExportedFile, ExportedStream, Manifest, Placing, StreamKey

KEY = StreamKey("/s", "1")
FOLDER = "store=%2Fs/stream=1/hour=unknown"


class Killed(BaseException):
    """The process is gone."""


class Killing(LocalWritableStorage):
    """Ends at an operation, before or after it is done."""

    def __init__(self, root: str, at: int, after: bool) -> None:
        super().__init__(root)
        self.left, self.after, self.done = at, after, 0

    def _step(self, operation):
        self.done += 1
        self.left -= 1
        if self.left == 0 and not self.after:
            raise Killed
        result = operation()
        if self.left == 0:
            raise Killed
        return result

    def publish(self, *arguments, **more):
        return self._step(lambda: super(Killing, self).publish(*arguments, **more))

    def rename(self, *arguments):
        return self._step(lambda: super(Killing, self).rename(*arguments))


class Table:
    """A Delta table's log: knows generations and the files that each has."""

    def __init__(self) -> None:
        self.commits: dict[int, list[str]] = {}

    def generation(self):
        return max(self.commits, default=None)

    def commit(self, manifest: Manifest) -> None:
        assert manifest.generation not in self.commits
        self.commits[manifest.generation] = [path for _, path in manifest.placing.files]


def staged(folder: ExportFolder, before: Manifest | None, texts: list[str]) -> Manifest:
    staging = folder.stage(f"run{texts[0]}")
    files = []
    for text in texts:
        Path(folder.path, staging, f"part-{text}.txt").write_text(text)
        files.append(ExportedFile(f"{FOLDER}/part-{text}.txt", 1, len(text), zlib.crc32(text.encode()), text, text))
    had = () if before is None else before.streams[KEY].files
    return Manifest(
        kind="jsonl",
        query={},
        columns=(),
        generation=1 if before is None else before.generation + 1,
        streams={KEY: ExportedStream("jlog", ((0, 9),), (*had, *files))},
        placing=Placing(staging, tuple((Path(file.path).name, file.path) for file in files)),
    )


def seen(path: Path) -> list[str]:
    """What somebody sees who reads the folder without the manifest."""
    return sorted(file.read_text() for file in path.glob("store=*/*/*/*"))


def told(path: Path) -> list[str]:
    """What somebody sees who asks the manifest."""
    manifest = read_manifest(str(path))
    if manifest is None:
        return []
    return sorted(Path(placed(str(path), manifest, file.path)).read_text() for file in manifest.streams[KEY].files)


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("is_delta", [False, True])
def test_a_kill_at_any_operation_leaves_all_of_a_commit_or_nothing(tmp_path: Path, is_delta: bool, after: bool) -> None:
    ends = set()
    for at in range(1, 12):
        path, table = tmp_path / f"{at}", Table()
        known = table.generation if is_delta else None
        with ExportFolder(str(path)) as folder:
            first = staged(folder, folder.load(known), ["a", "b"])
            folder.commit(first, table.commit if is_delta else None)
        assert seen(path) == told(path) == ["a", "b"]
        storage = Killing(str(path), at, after)
        try:
            with ExportFolder(str(path), storage) as folder:
                second = staged(folder, folder.load(known), ["c", "d"])
                folder.commit(second, table.commit if is_delta else None)
        except Killed:
            pass
        assert told(path) in (["a", "b"], ["a", "b", "c", "d"])
        if not is_delta:
            assert set(seen(path)) <= set(told(path)), "what is seen is committed"
        with ExportFolder(str(path)) as folder:
            manifest = folder.load(known)
            kept = told(path)
            assert seen(path) == kept
            ends.add(len(kept))
            if is_delta:
                assert manifest.generation == table.generation()
                assert len([file for files in table.commits.values() for file in files]) == len(kept)
            following = staged(folder, manifest, ["e"])
            folder.commit(following, table.commit if is_delta else None)
        assert seen(path) == told(path) == [*kept, "e"]
        assert sorted(p.name for p in (path / "_everlog").iterdir() if not p.name.startswith("staging-rune")) == [
            "lock",
            "manifest.json",
        ]
        if storage.done < at:
            break
    else:
        pytest.fail("more operations than were tried")
    # Without a table the first operation is the one that decides.
    assert ends == ({2, 4} if is_delta or not after else {4})


class Noting(LocalWritableStorage):
    """Notes what it does, one folder's names after the other."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.done: list[tuple[str, str]] = []

    def publish(self, name, *arguments, **more):
        self.done.append(("publish", name))
        return super().publish(name, *arguments, **more)

    def rename(self, draft, name):
        self.done.append(("rename", name))
        super().rename(draft, name)

    def sync_folder(self, folder=""):
        self.done.append(("sync", folder))
        super().sync_folder(folder)

    def synced(self, last: tuple[str, str] | None = None) -> set[str]:
        """Folders behind an operation, or in all."""
        start = 0 if last is None else max(at for at, step in enumerate(self.done) if step == last)
        return {name for step, name in self.done[start:] if step == "sync"}


ABOVE = {FOLDER, "store=%2Fs/stream=1", "store=%2Fs", ""}


def test_every_name_of_a_commit_is_on_disk_when_it_returns(tmp_path: Path) -> None:
    storage = Noting(str(tmp_path))
    with ExportFolder(str(tmp_path), storage) as folder:
        folder.commit(staged(folder, None, ["a", "b"]))
    begun = storage.done.index(("publish", "_everlog/manifest.json"))
    assert {name for step, name in storage.done[:begun] if step == "sync"} >= {"_everlog/staging-runa", "_everlog", ""}
    assert "_everlog" in storage.synced(("publish", "_everlog/manifest.json"))
    assert storage.synced(("rename", f"{FOLDER}/part-b.txt")) >= ABOVE


@pytest.mark.parametrize("killed_at", [2, 3])
def test_names_that_a_killed_run_gave_are_on_disk_before_its_manifest_is_replaced(
    tmp_path: Path, killed_at: int
) -> None:
    """They may not be, and the next manifest tells nothing of the staged files any more."""
    with pytest.raises(Killed), ExportFolder(str(tmp_path), Killing(str(tmp_path), killed_at, after=True)) as folder:
        folder.commit(staged(folder, None, ["a", "b"]))
    storage = Noting(str(tmp_path))
    with ExportFolder(str(tmp_path), storage) as folder:
        folder.load()
    assert storage.synced() >= ABOVE


def test_behind_a_run_that_came_to_its_end_nothing_is_synced_again(tmp_path: Path) -> None:
    with ExportFolder(str(tmp_path)) as folder:
        manifest = staged(folder, None, ["a", "b"])
        folder.commit(manifest)
        folder.unstage(manifest.placing.staging)
    storage = Noting(str(tmp_path))
    with ExportFolder(str(tmp_path), storage) as folder:
        assert folder.load().generation == 1
    assert storage.done == []


def test_a_table_that_took_the_commit_before_a_crash_gets_it_once(tmp_path: Path) -> None:
    """Killed between the table's commit and ours."""
    table = Table()

    def commit_and_die(manifest: Manifest) -> None:
        table.commit(manifest)
        raise Killed

    with ExportFolder(str(tmp_path)) as folder, pytest.raises(Killed):
        folder.commit(staged(folder, None, ["a"]), commit_and_die)
    assert told(tmp_path) == []
    with ExportFolder(str(tmp_path)) as folder:
        assert folder.load(table.generation).generation == 1
    assert told(tmp_path) == seen(tmp_path) == ["a"]


def test_a_table_that_did_not_take_the_commit_leaves_no_file(tmp_path: Path) -> None:
    def die(manifest: Manifest) -> None:
        raise Killed

    with ExportFolder(str(tmp_path)) as folder, pytest.raises(Killed):
        folder.commit(staged(folder, None, ["a"]), die)
    assert seen(tmp_path) == ["a"], "the file has its name already; the table does not know it"
    with ExportFolder(str(tmp_path)) as folder:
        assert folder.load(Table().generation) is None
    assert seen(tmp_path) == []


def test_a_damaged_manifest_is_told_and_nothing_is_removed(tmp_path: Path) -> None:
    with ExportFolder(str(tmp_path)) as folder:
        folder.commit(staged(folder, None, ["a"]))
    file = tmp_path / "_everlog" / "manifest.json"
    file.write_bytes(file.read_bytes()[:50])
    with ExportFolder(str(tmp_path)) as folder, pytest.raises(CorruptData):
        folder.load()
    assert seen(tmp_path) == ["a"]


def test_one_process_at_a_time(tmp_path: Path) -> None:
    with ExportFolder(str(tmp_path)), pytest.raises(StoreUnavailable):
        ExportFolder(str(tmp_path))
    ExportFolder(str(tmp_path)).close()
