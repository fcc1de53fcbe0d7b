"""What a start does to its folder: the mark file's place, and the deletion of old recordings."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from everlog.aeron import archive as archives
from everlog.aeron.archive.format.mark_place import LINK_NAME, MARK_NAME
from everlog.aeron.archive.service.folder import delete_recordings, open_folder
from everlog.aeron.archive.writing.ownership import Ownership
from everlog.core.files.writable import LocalWritableStorage
from everlog.errors import StoreUnavailable
from tests.aeron.archive.service.served import CHANNEL, settings


def start(folder: Path, **chosen: object) -> archives.Archive:
    storage = LocalWritableStorage(folder)
    return open_folder(storage, settings(**chosen), driver_folder="/dev/shm/a", archive_id=3, liveness_timeout_s=10.0)


def filled(folder: Path) -> None:
    with start(folder) as archive:
        with archive.start_recording(CHANNEL, 1) as recorder:
            recorder.append(b"one")
        assert archive.recording(0).stop_position == 64


def test_the_mark_file_moves_to_the_folder_that_is_asked_for_and_back(tmp_path: Path) -> None:
    folder, elsewhere = tmp_path / "archive", tmp_path / "run" / "mark"
    folder.mkdir()
    filled(folder)
    with start(folder, mark_file_dir=str(elsewhere)) as archive:
        assert (folder / LINK_NAME).read_text() == os.path.realpath(elsewhere)
        assert archive.recording(0).stop_position == 64
        with pytest.raises(StoreUnavailable, match="already open in another everlog process"):
            start(folder)
        with pytest.raises(StoreUnavailable, match="already open in another everlog process"):
            start(folder, mark_file_dir=str(folder))
    assert (elsewhere / MARK_NAME).exists()
    with start(folder) as archive:  # without the property, the link file counts
        assert archive.recording(0).stop_position == 64
        assert (folder / LINK_NAME).exists()
    with start(folder, mark_file_dir=str(folder)):
        assert not (folder / LINK_NAME).exists()


def test_the_mark_file_of_a_living_archive_does_not_move(tmp_path: Path) -> None:
    with start(tmp_path):
        with pytest.raises(StoreUnavailable, match="already open in another everlog process"):
            start(tmp_path, mark_file_dir=str(tmp_path / "mark"))
        assert not (tmp_path / LINK_NAME).exists()
        assert not (tmp_path / "mark").exists()


def test_recordings_are_deleted_at_the_start_only_if_that_is_asked_for(tmp_path: Path) -> None:
    filled(tmp_path)
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "7-0.rec.del").write_text("")
    with start(tmp_path, dir_delete_on_start=False) as archive:
        assert archive.recording(0).stop_position == 64
    with start(tmp_path, dir_delete_on_start=True) as archive:
        assert list(archive.recordings()) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == [MARK_NAME, "archive.catalog", "notes.txt"]
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_recordings_of_a_living_archive_are_not_deleted(tmp_path: Path) -> None:
    filled(tmp_path)
    with start(tmp_path):
        before = sorted((path.name, path.stat().st_size) for path in tmp_path.iterdir())
        with pytest.raises(StoreUnavailable, match="already open in another everlog process"):
            start(tmp_path, dir_delete_on_start=True)
        assert sorted((path.name, path.stat().st_size) for path in tmp_path.iterdir()) == before


class Interrupted(Exception):
    """The process dies."""


def test_a_crash_while_recordings_are_deleted_leaves_files_from_which_repair_makes_an_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(tmp_path)
    storage = LocalWritableStorage(tmp_path)
    removed = []
    remove = LocalWritableStorage.remove

    def once(self: LocalWritableStorage, name: str) -> bool:
        if removed:
            raise Interrupted
        removed.append(name)
        return remove(self, name)

    monkeypatch.setattr(LocalWritableStorage, "remove", once)
    owner = Ownership.take(storage)
    with pytest.raises(Interrupted):
        delete_recordings(storage)
    owner.release()
    monkeypatch.undo()
    assert removed == ["archive.catalog"]
    assert (tmp_path / "0-0.rec").stat().st_size
    with pytest.raises(Exception, match="segment files without a catalog"):
        start(tmp_path)
    with start(tmp_path, dir_delete_on_start=True) as archive:
        assert list(archive.recordings()) == []
