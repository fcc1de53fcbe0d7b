"""Holes: a file says where its next data is, and zeros are passed over without reading what was never written."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from everlog.core.files.remote import RemoteStorage
from everlog.core.files.storage import LocalStorage, ReadableFile
from everlog.core.files.writable import LocalWritableStorage
from everlog.core.files.zeros import LARGEST_BLOCK_BYTES, first_nonzero, nonzero_blocks
from everlog.testing.storage.crashing import CrashingStorage
from everlog.testing.storage.faulty import Faults, FaultyStorage
from everlog.testing.storage.faulty_writes import FaultyWrites
from everlog.testing.storage.memory import MemoryStorage

TERABYTE = 1 << 40
MIDDLE = 512 << 30


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """``sparse``: "begin", a hole, "middle" in the middle of a terabyte, a hole."""
    with open(tmp_path / "sparse", "wb") as file:
        file.write(b"begin")
        file.seek(MIDDLE + 7)
        file.write(b"middle")
        file.truncate(TERABYTE)
    return tmp_path


def test_a_local_file_says_where_data_goes_on_behind_a_hole(folder: Path) -> None:
    with LocalStorage(folder).open("sparse") as file:
        found = [file.next_data(at) for at in (0, 3, 1 << 20, MIDDLE + 7, MIDDLE + (1 << 20), TERABYTE, TERABYTE + 5)]
    assert found == [0, 3, MIDDLE, MIDDLE + 7, TERABYTE, TERABYTE, TERABYTE + 5]


def test_a_file_system_that_knows_no_holes_says_that_data_is_here(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seek = os.lseek

    def unable(fd: int, offset: int, how: int) -> int:
        if how == os.SEEK_DATA:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        return seek(fd, offset, how)

    monkeypatch.setattr(os, "lseek", unable)
    with LocalStorage(folder).open("sparse") as file:
        assert file.next_data(1 << 20) == 1 << 20


def test_storages_that_are_far_away_or_in_memory_answer_too(tmp_path: Path) -> None:
    data = b"\0" * 9000 + b"x" + b"\0" * 9000
    (tmp_path / "a").write_bytes(data)
    (tmp_path / "w").write_bytes(b"x")
    with RemoteStorage(f"local://{tmp_path}").open("a") as remote:
        assert remote.next_data(5) == 5
    crashing = CrashingStorage({"a": data})
    with crashing.open("a") as written:
        assert written.next_data(5) == 5
    memory = MemoryStorage({"a": data})
    for storage in (memory, FaultyStorage(memory)):
        with storage.open("a") as held:
            assert [held.next_data(at) for at in (0, 5, 8192, 8300, 9001, 12288, len(data), len(data) + 1)] == [
                8192, 8192, 8192, 8300, 9001, len(data), len(data), len(data) + 1,
            ]  # fmt: skip
    with FaultyWrites(LocalWritableStorage(tmp_path)).open_writable("w") as file:
        file.truncate(1 << 30)
        assert file.next_data(1 << 20) == 1 << 30


def counted(file: ReadableFile, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Lengths of the reads from now on."""
    lengths: list[int] = []
    read = os.pread

    def noting(fd: int, length: int, offset: int) -> bytes:
        lengths.append(length)
        return read(fd, length, offset)

    monkeypatch.setattr(os, "pread", noting)
    return lengths


def test_holes_of_a_terabyte_are_passed_over_with_three_small_reads(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with LocalStorage(folder).open("sparse") as file:
        lengths = counted(file, monkeypatch)
        blocks = list(nonzero_blocks(file, 0, TERABYTE))
        assert sum(lengths) <= 32 << 10
        assert [(at, block.strip(b"\0")) for at, block in blocks] == [(0, b"begin"), (MIDDLE, b"middle")]
        assert first_nonzero(file, 0, TERABYTE) == 0
        assert first_nonzero(file, 5, TERABYTE) == MIDDLE + 7
        assert first_nonzero(file, 5, MIDDLE + 7) == MIDDLE + 7
        assert first_nonzero(file, MIDDLE + 13, TERABYTE) == TERABYTE
        assert first_nonzero(file, 9, 9) == 9


@pytest.mark.parametrize("zeros", [0, 1, 4095, 4096, 4097, 12288, LARGEST_BLOCK_BYTES, 3 * LARGEST_BLOCK_BYTES + 1])
def test_zeros_that_are_written_are_passed_over_too(zeros: int) -> None:
    with CrashingStorage({"a": bytes(zeros) + b"end"}).open("a") as file:
        assert first_nonzero(file, 0, zeros + 3) == zeros
        assert first_nonzero(file, 0, zeros) == zeros
        assert b"".join(block for _, block in nonzero_blocks(file, 0, zeros + 3)).endswith(b"end")


def test_what_a_cut_took_counts_as_zeros() -> None:
    storage = FaultyStorage(MemoryStorage({"a": b"\0" * 5000 + b"x"}), Faults(cut_read=0, cut_offset=5000))
    with storage.open("a") as file:
        assert first_nonzero(file, 0, 5001) == 5001
