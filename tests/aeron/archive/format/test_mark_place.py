"""Archives whose mark file is in another folder, which a link file names."""

from __future__ import annotations

import os
import struct
import time
from pathlib import Path

import pytest

import everlog
from everlog.aeron import archive as archives
from everlog.aeron.archive.store import ArchiveStore
from everlog.aeron.archive.tool.folder import alone
from everlog.core.files.storage import LocalStorage
from everlog.errors import StoreUnavailable
from tests.aeron.archive.recorded import CHANNEL, SEGMENT, STREAM

MARK, LINK = "archive-mark.dat", "archive-mark.lnk"


@pytest.fixture
def marks(tmp_path: Path) -> Path:
    return tmp_path / "marks"


@pytest.fixture
def folder(tmp_path: Path, marks: Path) -> Path:
    """As an archive that was killed leaves it, with its mark file elsewhere."""
    found = tmp_path / "archive"
    with archives.create(found, segment_length=SEGMENT) as store, store.start_recording(CHANNEL, STREAM) as recorder:
        recorder.append(b"one")
    marks.mkdir()
    os.replace(found / MARK, marks / MARK)
    (found / LINK).write_text(f"{marks}\n")
    return found


def say_alive(marks: Path, ago_ms: int = 0) -> None:
    with (marks / MARK).open("r+b") as file:
        now = time.time_ns() // 1_000_000 - ago_ms
        file.seek(16)
        file.write(struct.pack("<qqq", now, now - 1000, 4242))


def is_live(folder: Path) -> bool:
    with everlog.open_store(folder) as store:
        assert isinstance(store, ArchiveStore)
        return store.folder.is_live()


def test_an_archive_that_runs_is_not_opened_beside_it(folder: Path, marks: Path) -> None:
    say_alive(marks)
    before = {path: path.read_bytes() for path in (*folder.iterdir(), *marks.iterdir())}
    assert is_live(folder)
    with pytest.raises(StoreUnavailable, match=r"owned by process 4242, active .*remove archive-mark\.lnk"):
        archives.open_archive(folder)
    assert {path: path.read_bytes() for path in (*folder.iterdir(), *marks.iterdir())} == before


def test_an_owner_has_the_linked_mark_file(folder: Path, marks: Path) -> None:
    say_alive(marks, ago_ms=10_500)
    with archives.open_archive(folder) as store:
        assert is_live(folder)
        assert not (folder / MARK).exists()
        with pytest.raises(StoreUnavailable, match="already open in another everlog process"):
            archives.open_archive(folder, liveness_timeout_s=0)
        writes = "another everlog process writes to"
        with pytest.raises(StoreUnavailable, match=writes), alone(LocalStorage(folder)):
            pass
        say_alive(marks)  # an archive in Java took it over
        time.sleep(1.5)
        with pytest.raises(StoreUnavailable, match="another owner"):
            store.start_recording(CHANNEL, STREAM)
    assert is_live(folder)


def test_a_folder_of_mark_files_that_is_gone_is_made_again(folder: Path, marks: Path) -> None:
    (marks / MARK).unlink()
    marks.rmdir()
    assert not is_live(folder)
    with archives.open_archive(folder):
        assert is_live(folder)
    assert os.listdir(marks) == [MARK]
    assert not is_live(folder)


@pytest.mark.parametrize("path", ["", "marks", "/a\0b"])
def test_a_link_that_leads_nowhere_is_refused(folder: Path, path: str) -> None:
    (folder / LINK).write_text(path)
    assert not is_live(folder)
    before = sorted(os.listdir(folder))
    with pytest.raises(StoreUnavailable, match=r"archive-mark\.lnk"):
        archives.open_archive(folder)
    assert sorted(os.listdir(folder)) == before


def test_a_copy_reads_without_the_folder_of_its_link(folder: Path, tmp_path: Path) -> None:
    (folder / LINK).write_text(str(tmp_path / "nowhere"))
    with everlog.open_store(folder) as store:
        assert [record.payload for record in store.read("0")] == [b"one"]
        assert [fault.code for fault in store.verify().faults] == ["mark-file-missing"]
