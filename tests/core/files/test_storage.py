"""The storage seam: read-only, inside its folder, and one clear error for what the system refuses."""

from __future__ import annotations

import errno
import os
import pickle
from pathlib import Path
from typing import Any

import pytest

from everlog.core.files import storage as seam
from everlog.core.files.storage import LocalStorage, is_folder
from everlog.errors import CorruptData, EverlogError, FileChanged, NotAStore, StoreUnavailable


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "store"
    (root / "sub").mkdir(parents=True)
    (root / "a.dat").write_bytes(b"0123456789")
    (tmp_path / "secret").write_bytes(b"outside")
    return root


@pytest.mark.parametrize("name", ["../secret", "/etc/passwd", "sub/../../secret", "a\0b"])
def test_no_name_leads_out_of_the_folder(folder: Path, name: str) -> None:
    storage = LocalStorage(folder)
    with pytest.raises(NotAStore, match="is not a name inside "):
        storage.open(name)


def test_a_link_out_of_the_folder_is_not_followed(folder: Path) -> None:
    (folder / "link").symlink_to(folder.parent / "secret")
    (folder / "inner").symlink_to("a.dat")
    storage = LocalStorage(folder)
    with pytest.raises(StoreUnavailable, match="symbolic link"):
        storage.open("link")
    found = {e.name: e.is_file for e in storage.entries()}
    assert found == {"a.dat": True, "inner": True, "link": False, "sub": False}
    assert storage.read_all("inner") == b"0123456789"


def test_a_fifo_does_not_hang_the_reader(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    with pytest.raises(StoreUnavailable, match="is a FIFO, not a regular file"):
        LocalStorage(folder).open("pipe")


def test_a_missing_folder_and_a_file_are_told_apart(folder: Path) -> None:
    with pytest.raises(StoreUnavailable, match="no such file"):
        LocalStorage(folder / "nowhere")
    with pytest.raises(NotAStore, match="is a file; give the store's folder"):
        LocalStorage(folder / "a.dat")


@pytest.mark.parametrize("number", [errno.ESTALE, errno.EIO, errno.EACCES])
def test_a_look_that_fails_is_not_taken_for_a_missing_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    (folder / "there").write_bytes(b"data")
    storage = LocalStorage(folder)
    assert [storage.exists(name) for name in ("there", "not", "there/below", "n" * 300, "")] == [
        True, False, False, False, True,
    ]  # fmt: skip
    stat = os.stat

    def failing(path: Any, *arguments: Any, **options: Any) -> os.stat_result:
        if str(path).endswith("/there"):
            raise OSError(number, os.strerror(number), path)
        return stat(path, *arguments, **options)

    monkeypatch.setattr(os, "stat", failing)
    with pytest.raises(StoreUnavailable, match=f"^{os.strerror(number).lower()}: .*there$"):
        storage.exists("there")
    with pytest.raises(StoreUnavailable, match=r"there$"):
        is_folder(str(folder / "there"))
    assert storage.exists("")
    assert not storage.exists("not")
    assert [is_folder(str(folder / name)) for name in ("", "not")] == [True, False]


def test_an_entry_that_can_not_be_looked_at_is_an_error_and_one_that_went_is_not(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Found:
        name, path = "there", str(folder / "there")

        def is_symlink(self) -> bool:
            return False

        def is_dir(self) -> bool:
            return False

        def stat(self) -> os.stat_result:
            raise OSError(self.number, os.strerror(self.number))

        number = errno.ENOENT

    class Scan:
        def __enter__(self) -> Any:
            return iter([Found()])

        def __exit__(self, *_: object) -> None:
            pass

    storage = LocalStorage(folder)
    monkeypatch.setattr(os, "scandir", lambda path: Scan())
    assert [(entry.name, entry.is_file) for entry in storage.entries()] == [("there", False)]
    monkeypatch.setattr(Found, "number", errno.EIO)
    with pytest.raises(StoreUnavailable, match="input/output error"):
        list(storage.entries())


def test_reads_are_short_only_at_the_end(folder: Path) -> None:
    with LocalStorage(folder).open("a.dat") as file:
        assert file.read_at(4, 3) == b"456"
        assert file.read_at(8, 10) == b"89"
        assert file.read_at(100, 10) == b""
        buffer = bytearray(6)
        assert file.read_into(7, memoryview(buffer)) == 3
        assert buffer == b"789\0\0\0"


def test_a_file_that_was_cut_since_is_an_error(folder: Path) -> None:
    with LocalStorage(folder).open("a.dat") as file:
        os.truncate(folder / "a.dat", 3)
        with pytest.raises(FileChanged, match=r"cut while being read: 3 bytes at offset [0-9]+, expected 10 bytes"):
            file.read_exactly(0, 10)


def test_an_error_keeps_its_fields_between_processes() -> None:
    error = CorruptData("7-0.rec", offset=4096, found="frame_length -17", expected="32..65536", hint="cut it")
    copy = pickle.loads(pickle.dumps(error))
    assert str(copy) == "7-0.rec at offset 4096: frame_length -17; expected 32..65536 (cut it)"
    assert (copy.where, copy.offset, copy.exit_code, copy.hint) == ("7-0.rec", 4096, 1, "cut it")
    assert EverlogError.exit_code == 2


def test_a_file_whose_closing_was_interrupted_closes_no_other_one(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    close = os.close

    def interrupted(descriptor: int) -> None:
        close(descriptor)
        raise KeyboardInterrupt

    file = LocalStorage(folder).open("a.dat")
    with monkeypatch.context() as patched:
        patched.setattr(seam.os, "close", interrupted)
        with pytest.raises(KeyboardInterrupt):
            file.close()
    with LocalStorage(folder).open("a.dat") as other:  # has the same descriptor
        file.close()
        assert other.read_at(0, 2) == b"01"
