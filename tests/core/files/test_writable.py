"""The seam for writing, on a local folder."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import stat
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from everlog.core.files import writable
from everlog.core.files.writable import LocalWritableStorage, locked, make_folder, write_failed
from everlog.errors import NotAStore, WriteFailed

IS_LINUX = sys.platform.startswith("linux")
POSIX_LOCKER = """
import fcntl, sys
with open(sys.argv[1], "r+b") as file:
    fcntl.lockf(file, fcntl.LOCK_EX)
    print("locked", flush=True)
    sys.stdin.read()
"""
HOLDER = """
import sys
from everlog.core.files.writable import LocalWritableStorage
file = LocalWritableStorage(sys.argv[1]).open_writable("f")
print(file.hold(), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def storage(tmp_path: Path) -> LocalWritableStorage:
    (tmp_path / "f").write_bytes(b"content")
    return LocalWritableStorage(tmp_path)


def test_an_ordinary_lock_of_another_process_excludes_ours(storage: LocalWritableStorage, tmp_path: Path) -> None:
    other = subprocess.Popen(
        [sys.executable, "-c", POSIX_LOCKER, str(tmp_path / "f")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert other.stdout is not None
    assert other.stdin is not None
    other.stdout.readline()
    with storage.open_writable("f") as file:
        assert not file.lock(wait=False)
        other.stdin.close()
        assert file.lock()
    other.wait()


def test_our_lock_excludes_ordinary_ones(storage: LocalWritableStorage, tmp_path: Path) -> None:
    with storage.open_writable("f") as file, open(tmp_path / "f", "r+b") as other:
        with locked(file), pytest.raises(BlockingIOError):
            fcntl.lockf(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if sys.platform.startswith("linux"):
            fcntl.lockf(other, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_closing_another_descriptor_keeps_the_lock(storage: LocalWritableStorage, tmp_path: Path) -> None:
    with storage.open_writable("f") as file, storage.open_writable("f") as other:
        file.lock()
        open(tmp_path / "f", "rb").close()
        assert other.lock(wait=False) is not IS_LINUX  # elsewhere locks belong to the process, as the docs say


def test_two_threads_exclude_each_other(storage: LocalWritableStorage) -> None:
    inside, most = 0, 0

    def work() -> None:
        nonlocal inside, most
        with storage.open_writable("f") as file:
            for _ in range(50):
                with locked(file):
                    inside += 1
                    most = max(most, inside)
                    time.sleep(0.0001)
                    inside -= 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1


def test_a_held_file_is_free_when_its_process_dies(storage: LocalWritableStorage, tmp_path: Path) -> None:
    other = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert other.stdout is not None
    assert other.stdout.readline() == b"True\n"
    with storage.open_writable("f") as file:
        assert not file.hold()
        other.kill()
        other.communicate()
        assert file.hold()


def forked(work: Callable[[], None]) -> int:
    """A child that does the work, says so, and lives until it is killed."""
    ready = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            work()
            os.write(ready[1], b".")
            time.sleep(60)
        finally:
            os._exit(1)
    os.close(ready[1])
    assert os.read(ready[0], 1) == b"."
    os.close(ready[0])
    return pid


def end(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


@pytest.mark.parametrize("take", ["lock", "hold"])
@pytest.mark.parametrize("is_hooked", [True, False])
def test_closing_gives_the_lock_back_beside_a_child_that_has_the_file_too(
    storage: LocalWritableStorage, monkeypatch: pytest.MonkeyPatch, take: str, is_hooked: bool
) -> None:
    file = storage.open_writable("f")
    assert getattr(file, take)()
    if not is_hooked:  # as it is before the child has closed it
        monkeypatch.setattr(writable, "_files", weakref.WeakSet())
    child = forked(lambda: None)
    try:
        with storage.open_writable("f") as other:
            assert other.lock(wait=False) is (take != "lock")
            assert other.hold() is (take != "hold")
        file.close()
        with storage.open_writable("f") as other:
            assert other.lock(wait=False)
            assert other.hold()
    finally:
        end(child)


@pytest.mark.parametrize("take", ["lock", "hold"])
def test_a_lock_ends_with_its_process_beside_a_child_of_it(
    storage: LocalWritableStorage, tmp_path: Path, take: str
) -> None:
    def work() -> None:
        file = storage.open_writable("f")
        assert getattr(file, take)()
        (tmp_path / "child").write_text(str(forked(lambda: None)))
        os.kill(os.getpid(), signal.SIGKILL)

    pid = os.fork()
    if pid == 0:
        try:
            work()
        finally:
            os._exit(1)
    assert os.waitpid(pid, 0)[1] == signal.SIGKILL
    try:
        with storage.open_writable("f") as other:
            assert other.lock(wait=False)
            assert other.hold()
    finally:
        os.kill(int((tmp_path / "child").read_text()), signal.SIGKILL)


def test_a_child_that_closes_the_file_leaves_the_locks_to_its_parent(storage: LocalWritableStorage) -> None:
    file = storage.open_writable("f")
    assert file.lock()
    assert file.hold()
    child = forked(file.close)
    try:
        with storage.open_writable("f") as other:
            assert not other.lock(wait=False)
            assert not other.hold()
    finally:
        end(child)
        file.close()


def test_whether_a_file_still_has_its_name(storage: LocalWritableStorage) -> None:
    with storage.open_writable("f") as file:
        assert file.is_current()
        assert storage.publish("f", b"new", replace=True)
        assert not file.is_current()
        with storage.open_writable("f") as new:
            assert new.is_current()
            assert storage.remove("f")
            assert not new.is_current()


def test_publishing_shows_the_whole_file_or_none(storage: LocalWritableStorage, tmp_path: Path) -> None:
    old = os.umask(0o077)
    try:
        assert storage.publish("new", b"12345678", replace=False, mode=0o640, sync=True)
    finally:
        os.umask(old)
    assert oct((tmp_path / "new").stat().st_mode & 0o777) == "0o640"
    assert not storage.publish("new", b"other", replace=False)
    assert (tmp_path / "new").read_bytes() == b"12345678"
    assert storage.publish("new", b"other", replace=True)
    assert (tmp_path / "new").read_bytes() == b"other"
    assert sorted(storage.names()) == ["f", "new"]


def test_whether_a_file_is_open_elsewhere(storage: LocalWritableStorage, tmp_path: Path) -> None:
    if not IS_LINUX:
        assert storage.is_open_elsewhere("f") is None
        return
    assert storage.is_open_elsewhere("f") is False
    with open(tmp_path / "f", "rb"):
        assert storage.is_open_elsewhere("f") is True
    assert storage.is_open_elsewhere("f") is False
    assert storage.is_open_elsewhere("absent") is None


def test_whether_a_file_is_open_for_writing(storage: LocalWritableStorage, tmp_path: Path) -> None:
    if not IS_LINUX:
        assert storage.is_open_for_writing("f") is None
        return
    with open(tmp_path / "f", "rb"):
        assert storage.is_open_for_writing("f") is False
    with open(tmp_path / "f", "r+b"):
        assert storage.is_open_for_writing("f") is True
    assert storage.is_open_for_writing("f") is False
    assert storage.is_open_for_writing("absent") is None


def test_a_folder_is_made_inside_and_an_existing_one_is_left(storage: LocalWritableStorage, tmp_path: Path) -> None:
    storage.make_folder("inside")
    (tmp_path / "inside" / "file").write_bytes(b"x")
    storage.make_folder("inside")
    assert storage.names("inside") == ["file"]
    with pytest.raises(NotAStore):
        storage.make_folder("../outside")


def test_files_are_written_cut_and_deleted(storage: LocalWritableStorage, tmp_path: Path) -> None:
    with storage.open_writable("f") as file:
        file.write_at(7, memoryview(b" and more"))
        file.truncate(11)
        file.sync()
        assert file.read_at(0, 100) == b"content and"
    assert storage.remove("f")
    assert not storage.remove("f")
    storage.sync_folder()
    with pytest.raises(WriteFailed, match="no such file"):
        storage.open_writable("f")


def test_what_is_no_regular_file_is_not_opened(storage: LocalWritableStorage, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "f")
    (tmp_path / "folder").mkdir()
    for name in ("pipe", "link", "folder"):
        with pytest.raises(WriteFailed):
            storage.open_writable(name)
    for name in ("../f", "/f", "a/../../f"):
        with pytest.raises(NotAStore):
            storage.open_writable(name, create=True)


def test_an_exclusive_file_must_be_new(storage: LocalWritableStorage) -> None:
    with pytest.raises(WriteFailed, match="exists"):
        storage.open_writable("f", create=True, exclusive=True)
    storage.open_writable("g", create=True, exclusive=True).close()


def test_a_full_disk_says_what_to_do() -> None:
    error = write_failed("00000000", OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
    assert (error.where, error.found) == ("00000000", os.strerror(errno.ENOSPC).lower())
    assert "free space" in str(error)


def test_whether_a_file_may_be_written_on(storage: LocalWritableStorage, tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"x")
    if not IS_LINUX:
        assert storage.may_be_written("f", 60) is True
        return
    assert storage.may_be_written("f", 60) is False
    with path.open("rb"):
        assert storage.may_be_written("f", 60) is False
    with path.open("r+b"):
        assert storage.may_be_written("f", 60) is True
        assert storage.may_be_written("f", 0) is False
        for long_ago in (time.time() - 61, time.time() + 61):
            os.utime(path, (long_ago, long_ago))
            assert storage.may_be_written("f", 60) is False
    assert storage.may_be_written("absent", 60) is False


@pytest.mark.parametrize("asks", ["is_open_elsewhere", "may_be_written"])
def test_a_process_that_opens_a_file_while_it_is_asked_about_opens_it_and_ends_nobody(
    storage: LocalWritableStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asks: str
) -> None:
    """The system signals it to who asks, and refuses the opening until the answer is there."""
    (tmp_path / "f").write_bytes(b"x")
    if not IS_LINUX:  # nobody is asked
        assert storage.is_open_elsewhere("f") is None
        return
    control = fcntl.fcntl
    openers: list[subprocess.Popen[str]] = []
    code = (
        "import sys; from everlog.core.files.writable import LocalWritableStorage; print('go', flush=True); "
        "LocalWritableStorage(sys.argv[1]).open_writable('f').close()"
    )

    def slowly(fd: int, command: int, argument: Any = 0) -> Any:
        if (command, argument) == (fcntl.F_SETLEASE, fcntl.F_UNLCK):
            opener = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True)
            openers.append(opener)
            assert opener.stdout is not None
            assert opener.stdout.readline() == "go\n"
            time.sleep(0.2)
        return control(fd, command, argument)

    monkeypatch.setattr(fcntl, "fcntl", slowly)
    answer = storage.is_open_elsewhere("f") if asks == "is_open_elsewhere" else storage.may_be_written("f", 60)
    assert answer is False
    [opener] = openers
    assert opener.wait() == 0


@pytest.mark.parametrize("root", ["folder", "./folder", "folder/", ".", "../{name}/folder"])
def test_a_folder_stays_the_one_it_was_when_the_process_goes_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, root: str
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    storage = LocalWritableStorage(root.format(name=tmp_path.name))
    folder = tmp_path / "folder" if "folder" in root else tmp_path
    with storage.open_writable("a", create=True) as file:
        monkeypatch.chdir(tmp_path / "elsewhere")
        assert file.is_current()
        storage.publish("b", b"", replace=False, sync=True)
    assert storage.root.startswith(str(tmp_path))
    assert os.path.samefile(storage.root, folder)
    assert {"a", "b"} <= set(os.listdir(folder))


def test_a_file_whose_name_can_not_be_looked_at_was_not_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any, **options: Any) -> None:
        raise PermissionError(errno.EACCES, "permission denied")

    with LocalWritableStorage(tmp_path).open_writable("a", create=True) as file:
        with monkeypatch.context() as patch:
            patch.setattr("everlog.core.files.writable.os.stat", refuse)
            with pytest.raises(WriteFailed, match="permission denied"):
                file.is_current()
        assert file.is_current()
    assert not file.is_current()


def test_a_folder_that_is_made_is_on_disk_with_those_above_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced = []
    monkeypatch.setattr(os, "fsync", lambda fd: synced.append(os.fstat(fd).st_ino))

    def inodes(*folders: Path) -> set[int]:
        return {folder.stat().st_ino for folder in folders}

    make_folder(str(tmp_path / "a" / "b" / "c"), 0o700)
    assert set(synced) == inodes(tmp_path, tmp_path / "a", tmp_path / "a" / "b")
    assert stat.S_IMODE((tmp_path / "a" / "b" / "c").stat().st_mode) == 0o700
    synced.clear()
    make_folder(str(tmp_path / "a" / "b" / "c"))
    assert set(synced) == inodes(tmp_path / "a" / "b"), "who made it may have been killed before"
    synced.clear()
    monkeypatch.chdir(tmp_path)
    make_folder("d")
    make_folder("d/..")
    assert set(synced) == inodes(tmp_path, tmp_path / "d")


def test_a_folder_that_can_t_be_made_or_synced_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(WriteFailed, match=r"can't write .*file/a: "):
        make_folder(str(tmp_path / "file" / "a"))

    def fail(fd: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(WriteFailed, match="input/output error"):
        make_folder(str(tmp_path / "a"))


def test_a_name_in_a_folder_inside_is_synced_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").mkdir()
    synced = []
    monkeypatch.setattr(os, "fsync", lambda fd: synced.append(os.fstat(fd).st_ino))
    storage = LocalWritableStorage(tmp_path)
    storage.publish("a/one", b"1", replace=False, sync=True)
    assert synced == [(tmp_path / "a").stat().st_ino]


def test_a_file_that_root_puts_in_anothers_place_has_its_owner(tmp_path: Path, owners: Any) -> None:
    storage = LocalWritableStorage(tmp_path)
    owners.seem(tmp_path, 3, 4)
    storage.publish("f", b"1", replace=True)
    assert owners.given == [(3, 4)], "a new one is the folder's owner's"
    owners.seem(tmp_path / "f", 1, 2)
    storage.publish("f", b"2", replace=True, mode=0o604)
    assert owners.given[1:] == [(1, 2)]
    assert stat.S_IMODE((tmp_path / "f").stat().st_mode) == 0o604
