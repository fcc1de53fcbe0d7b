"""Files named from outside: opened without waiting, and read up to a limit."""

from __future__ import annotations

import os
import pickle
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from everlog.core.files.regular_files import NotRegular, check_regular, open_regular, read_small_file
from everlog.core.files.storage import LocalStorage, is_missing
from everlog.core.files.writable import LocalWritableStorage
from everlog.errors import StoreUnavailable, UsageError, WriteFailed

pytestmark = pytest.mark.timeout(20)


def make_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(f"/proc/self/cwd/{path.name}" if len(str(path)) > 100 else str(path))


NOT_REGULAR: dict[str, tuple[Callable[[Path], object], str]] = {
    "fifo": (os.mkfifo, "a FIFO"),
    "socket": (make_socket, "a socket"),
    "folder": (os.mkdir, "a folder"),
    "device": (lambda path: path.symlink_to("/dev/zero"), "a character device"),
}


@pytest.fixture(params=sorted(NOT_REGULAR))
def odd(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, str]:
    """Something that is no regular file, and what it is called."""
    make, kind = NOT_REGULAR[request.param]
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "odd"
    make(path)
    return path, kind


def test_what_is_no_regular_file_is_named_and_neither_waited_for_nor_read(odd: tuple[Path, str]) -> None:
    path, kind = odd
    with pytest.raises(StoreUnavailable, match=f"is {kind}, not a regular file"):
        read_small_file(path, 100)
    for refused in (lambda: open_regular(path, os.O_RDONLY), lambda: check_regular(path)):
        with pytest.raises(NotRegular) as error:
            refused()
        assert (error.value.strerror, error.value.filename) == (kind, str(path))
        assert pickle.loads(pickle.dumps(error.value)).strerror == kind


def test_a_store_with_such_a_thing_among_its_files_names_it(odd: tuple[Path, str]) -> None:
    path, kind = odd
    expected = "a symbolic link" if path.is_symlink() else kind
    with pytest.raises(StoreUnavailable, match=f"is {expected}") as error:
        LocalStorage(path.parent).open(path.name)
    if not path.is_symlink():
        assert not is_missing(error.value)
    with pytest.raises(WriteFailed, match=r"is a symbolic link|is a directory|is a FIFO|is a socket"):
        LocalWritableStorage(path.parent).open_writable(path.name)


def test_a_file_is_read_up_to_the_limit_and_not_beyond(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_bytes(b"k" * 100_000)
    assert read_small_file(path, 100_000) == b"k" * 100_000
    with pytest.raises(UsageError, match=r"key is larger than 99999 bytes"):
        read_small_file(path, 99_999)


def test_no_more_is_read_of_a_huge_file_than_tells_that_it_is_too_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "key"
    path.touch()
    os.truncate(path, 1 << 40)
    asked: list[int] = []
    read = os.read
    monkeypatch.setattr(os, "read", lambda fd, length: (asked.append(length), read(fd, length))[1])
    with pytest.raises(UsageError):
        read_small_file(path, 1 << 20)
    assert sum(asked) == (1 << 20) + 1


@pytest.mark.parametrize(
    ("name", "found"), [("no\0name", "null byte"), ("no\ud800name", "surrogates"), ("nowhere", "no such file")]
)
def test_a_name_that_no_file_has_is_an_error_that_says_so(name: str, found: str) -> None:
    with pytest.raises(StoreUnavailable, match=found) as error:
        read_small_file(name, 100)
    str(error.value).encode()


def test_a_pipe_that_a_shell_hands_over_is_read_to_its_end() -> None:
    """``--encryption-key-file <(command)``"""
    reading, writing = os.pipe()
    writer = threading.Thread(target=lambda: (os.write(writing, b"my"), os.write(writing, b"key"), os.close(writing)))
    writer.start()
    try:
        assert read_small_file(f"/dev/fd/{reading}", 100) == b"mykey"
    finally:
        writer.join()
        os.close(reading)


def test_a_descriptor_that_is_no_pipe_is_refused_like_its_name() -> None:
    fd = os.open("/dev/zero", os.O_RDONLY)
    try:
        with pytest.raises(StoreUnavailable, match="is a character device, not a regular file"):
            read_small_file(f"/dev/fd/{fd}", 100)
    finally:
        os.close(fd)
