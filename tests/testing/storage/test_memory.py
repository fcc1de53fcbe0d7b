"""The folder in memory behaves as the one on disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from everlog.core.files.storage import LocalStorage, Storage
from everlog.errors import EverlogError
from everlog.testing.storage.memory import MemoryStorage


@pytest.fixture(params=["disk", "memory"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    (tmp_path / "sub" / "deep").mkdir(parents=True)
    (tmp_path / "empty").mkdir()
    (tmp_path / "a").write_bytes(b"0123456789")
    (tmp_path / "sub" / "b").write_bytes(b"xyz")
    return LocalStorage(tmp_path) if request.param == "disk" else MemoryStorage.of_folder(tmp_path)


def test_folders_and_files_are_listed(storage: Storage) -> None:
    listed = {e.name: (e.is_file, e.is_dir, e.size if e.is_file else 0) for e in storage.entries()}
    assert listed == {"a": (True, False, 10), "sub": (False, True, 0), "empty": (False, True, 0)}
    assert sorted(storage.names("sub")) == ["b", "deep"]
    assert storage.names("empty") == []
    assert storage.exists("sub/b")
    assert not storage.exists("sub/c")


def test_files_are_read_in_parts_and_whole(storage: Storage) -> None:
    assert storage.read_all("sub/b") == b"xyz"
    assert storage.size("a") == 10
    with storage.open("a") as file:
        assert file.read_at(8, 5) == b"89"
        buffer = bytearray(4)
        assert file.read_into(7, memoryview(buffer)) == 3
        assert file.size() == 10


@pytest.mark.parametrize("name", ["nothing", "sub/nothing", "../a", "/a"])
def test_what_is_not_there_is_an_error(storage: Storage, name: str) -> None:
    with pytest.raises(EverlogError):
        storage.open(name)
