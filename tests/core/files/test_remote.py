"""Stores behind URLs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest

from everlog import stores
from everlog.core.files import remote
from everlog.core.files.remote import RemoteStorage
from everlog.core.files.storage import Entry
from everlog.errors import MissingDependency, NotAStore, StoreUnavailable, UsageError
from everlog.testing.contract import Subject, check_failing_reads, read_rows
from everlog.testing.toy.store import toy_line

URL = "memory://shelf/store"


@pytest.fixture
def shelf() -> Iterator[fsspec.AbstractFileSystem]:
    files = fsspec.filesystem("memory")
    files.pipe("/shelf/store/a.toy", b"".join(toy_line(n, n, "t", b"%d" % n) for n in range(100)))
    files.pipe("/shelf/store/inner/b", b"0123456789")
    yield files
    files.rm("/shelf", recursive=True)


def test_a_store_opens_by_its_url(shelf: object) -> None:
    with stores.open_store(URL) as store:
        assert store.path == URL
        assert [row[8] for row in read_rows(store, "a")] == [b"%d" % n for n in range(100)]


def test_a_local_file_url_reads_like_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.toy").write_bytes(toy_line(1, None, None, b"x"))
    with stores.open_store(tmp_path.as_uri()) as store:
        assert len(read_rows(store, "a")) == 1


def test_a_folder_lists_files_and_folders(shelf: object) -> None:
    storage = RemoteStorage(URL)
    found = {entry.name: (entry.is_file, entry.is_dir) for entry in storage.entries()}
    assert found == {"a.toy": (True, False), "inner": (False, True)}
    assert storage.names("inner") == ["b"]
    assert storage.size("inner/b") == 10
    assert [storage.exists(name) for name in ("", "a.toy", "inner", "inner/b", "inner/c", "no/b")] == [
        True, True, True, True, False, False,
    ]  # fmt: skip


def test_a_folder_that_can_not_be_listed_now_is_not_taken_for_a_missing_one(
    shelf: fsspec.AbstractFileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = RemoteStorage(URL)

    def down(*_: object, **__: object) -> None:
        raise ConnectionError("the endpoint does not answer")

    monkeypatch.setattr(type(shelf), "ls", down)
    with pytest.raises(StoreUnavailable, match=r"inner.*does not answer"):
        storage.exists("inner/b")


def test_a_look_for_a_file_does_not_go_through_the_list_of_all(shelf: object, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = RemoteStorage(URL)
    storage.names()
    taken = 0
    next_of = RemoteStorage.entries

    def counted(self: RemoteStorage, folder: str = "") -> Iterator[Entry]:
        nonlocal taken
        for entry in next_of(self, folder):
            taken += 1
            yield entry

    monkeypatch.setattr(RemoteStorage, "entries", counted)
    assert not storage.exists("none")
    assert storage.exists("a.toy")
    assert taken == 0


def test_reads_in_any_place_agree_with_the_bytes(shelf: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "BLOCK_BYTES", 3)
    with RemoteStorage(URL).open("inner/b") as file:
        for offset in range(12):
            for length in range(12):
                assert file.read_at(offset, length) == b"0123456789"[offset : offset + length]
        buffer = bytearray(5)
        assert file.read_into(7, memoryview(buffer)) == 3
        assert buffer == b"789\0\0"


def test_only_a_few_blocks_are_kept(shelf: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "BLOCK_BYTES", 1)
    with RemoteStorage(URL).open("inner/b") as file:
        file.read_at(0, 10)
        assert len(file._blocks) == remote.KEPT_BLOCKS


def test_a_file_that_was_cut_gives_what_is_left(shelf: fsspec.AbstractFileSystem) -> None:
    with RemoteStorage(URL).open("inner/b") as file:
        shelf.pipe("/shelf/store/inner/b", b"012")
        assert file.read_at(0, 10) == b"012"
        assert file.size() == 10


def test_names_can_not_leave_the_folder(shelf: object) -> None:
    for name in ("../x", "/etc/passwd", "a\0b"):
        with pytest.raises(NotAStore):
            RemoteStorage(URL).open(name)


def test_what_is_missing_or_no_folder_is_said_in_one_line(shelf: object) -> None:
    with pytest.raises(StoreUnavailable, match="no such file or directory"):
        RemoteStorage("memory://shelf/nothing")
    with pytest.raises(NotAStore, match="is a file; give the store's folder"):
        RemoteStorage(URL + "/a.toy")
    with pytest.raises(StoreUnavailable, match="no such file or directory"):
        RemoteStorage(URL).open("nothing")
    with pytest.raises(UsageError, match="a URL that fsspec knows"):
        RemoteStorage("nosuchprotocol://x")


def test_without_fsspec_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(MissingDependency, match=r"pip install 'everlog\[remote\]'"):
        RemoteStorage(URL)


def test_failing_reads_of_a_local_copy_give_no_bogus_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.toy").write_bytes(b"".join(toy_line(n, n, "t", b"%d" % n) for n in range(100)))
    check_failing_reads(Subject(tmp_path))
