"""Files that processes share: whole before anyone sees them, or not there."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from everlog.aeron.transport.memory.log_memory import LogMemory, LogParameters
from everlog.aeron.transport.memory.shared_files import HUGE_PAGE, create_file, draft_file, map_file
from everlog.errors import StoreExists, StoreUnavailable, WriteFailed
from everlog.kernel.memory import Memory
from tests.aeron.transport.memory.mounted_memory import mounted


@pytest.mark.parametrize("length", [4096, HUGE_PAGE - 4096, HUGE_PAGE, 40 * HUGE_PAGE + 4096])
def test_a_file_has_all_its_blocks_and_no_more(length: int) -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        memory = create_file(Path(folder) / "log", length)
        found = (Path(folder) / "log").stat()
        assert (len(memory), found.st_size, found.st_blocks * 512) == (length, length, length)
        assert not any(memory.view())


def test_a_sparse_file_has_no_blocks() -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        create_file(Path(folder) / "log", 4 * HUGE_PAGE, sparse=True)
        assert (Path(folder) / "log").stat().st_blocks == 0
        with pytest.raises(StoreExists):
            create_file(Path(folder) / "log", 4096)


def test_a_file_has_its_name_when_all_is_in_it(tmp_path: Path) -> None:
    seen: list[tuple[str, int]] = []

    def prepare(memory: Memory) -> None:
        seen.extend((path.name, path.stat().st_size) for path in tmp_path.iterdir())
        memory.write(0, b"ready")

    create_file(tmp_path / "log", 4096, prepare=prepare)
    assert seen == [(".everlog-log", 4096)]
    assert [path.name for path in tmp_path.iterdir()] == ["log"]
    assert (tmp_path / "log").read_bytes()[:5] == b"ready"


def test_nothing_is_left_of_a_file_that_could_not_be_prepared(tmp_path: Path) -> None:
    def prepare(memory: Memory) -> None:
        memory.write(4096, b"behind its end")

    with pytest.raises(IndexError):
        create_file(tmp_path / "log", 4096, prepare=prepare)
    assert list(tmp_path.iterdir()) == []


def test_a_log_buffer_has_its_metadata_when_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = {"correlation_id": 7, "session_id": 1, "stream_id": 10, "initial_term_id": 3}
    parameters = LogParameters(**ids, term_length=64 << 10, mtu_length=1408)
    rename, seen = os.rename, []

    def look_and_rename(draft: Path, name: Path) -> None:
        seen.append(LogMemory.map(draft).term_length)
        rename(draft, name)

    monkeypatch.setattr(os, "rename", look_and_rename)
    LogMemory.create(tmp_path / "7.logbuffer", parameters)
    assert seen == [64 << 10]


@pytest.mark.parametrize("size", ["1m", "9m", "65m"])
def test_nothing_is_left_of_a_file_that_finds_no_room(size: str, tmp_path: Path) -> None:
    with mounted(tmp_path, size) as folder:
        with pytest.raises(WriteFailed, match="room for"):
            create_file(folder / "log", 66 << 20)
        assert list(folder.iterdir()) == []
        create_file(folder / "log", 512 << 10)  # there is room again


def test_a_file_that_can_not_be_created_is_an_error_that_says_why(tmp_path: Path) -> None:
    path = tmp_path / "none" / "log"
    with pytest.raises(WriteFailed) as raised:
        create_file(path, 4096)
    assert str(raised.value) == f"can't create {path}: No such file or directory"


def test_a_draft_that_can_not_get_its_name_is_deleted(tmp_path: Path) -> None:
    draft = draft_file(tmp_path / "log", 4096)
    (tmp_path / "log").mkdir()
    with pytest.raises(WriteFailed, match=r"^can't create .*/log: Is a directory$"):
        draft.publish()
    assert [path.name for path in tmp_path.iterdir()] == ["log"]


@pytest.mark.parametrize("name", ["none", "a\0b", "x" * 300, "."])
def test_a_name_that_no_file_to_share_has_is_an_error(name: str, tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match=r"no such file|invalid|null|name too long|is a directory"):
        map_file(tmp_path / name, minimum=1, maximum=4096)
