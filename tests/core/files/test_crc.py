"""The CRC-32 of a file with holes is that of its bytes, without reading the holes."""

from __future__ import annotations

import os
import random
import zlib
from pathlib import Path

import pytest

from everlog.core.files.crc import crc32_of, crc32_of_zeros
from everlog.core.files.storage import LocalStorage
from everlog.core.plan.backup import COPY_BYTES, FolderBackup, pieces_of
from everlog.errors import FileChanged
from everlog.testing.storage.counting import CountingStorage
from everlog.testing.storage.memory import MemoryStorage


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4095, 4096, 100_001])
@pytest.mark.parametrize("data", [b"", b"\0", b"abc", bytes(range(256))])
def test_zeros_behind_data_are_reckoned(data: bytes, count: int) -> None:
    assert crc32_of_zeros(zlib.crc32(data), count) == zlib.crc32(data + bytes(count))


def test_a_part_of_a_file_has_the_crc_of_its_bytes() -> None:
    rng = random.Random(3)
    data = b"".join(rng.choice([bytes(rng.randrange(9000)), rng.randbytes(rng.randrange(3000))]) for _ in range(40))
    with MemoryStorage({"a": data}).open("a") as file:
        for _ in range(50):
            start, end = sorted(rng.choices(range(len(data) + 1), k=2))
            assert crc32_of(file, start, end) == zlib.crc32(data[start:end])


def test_a_terabyte_with_a_hole_costs_two_small_reads(tmp_path: Path) -> None:
    with open(tmp_path / "a", "wb") as file:
        file.write(b"begin")
        file.truncate(1 << 40)
        file.seek(1 << 40)
        file.write(b"end")
    counting = CountingStorage(LocalStorage(tmp_path))
    with counting.open("a") as held:
        found = crc32_of(held, 0, (1 << 40) + 3)
    assert counting.byte_count <= 16 << 10
    assert found == zlib.crc32(b"end", crc32_of_zeros(zlib.crc32(b"begin"), (1 << 40) - 5))


def test_a_backup_of_a_file_with_a_hole_is_a_file_with_a_hole(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    with open(tmp_path / "store" / "a", "wb") as file:
        file.write(b"begin")
        file.seek(100 * COPY_BYTES + 5)
        file.write(b"end")
    counting = CountingStorage(LocalStorage(tmp_path / "store"))
    with counting.open("a") as held:
        FolderBackup(tmp_path / "kept").save("a", pieces_of(held))
        assert list(pieces_of(held, 1, 5)) == [b"egin"]
        with pytest.raises(FileChanged):
            list(pieces_of(held, 0, 102 * COPY_BYTES))
    assert counting.byte_count < 8 * COPY_BYTES
    kept = tmp_path / "kept" / "a"
    assert kept.stat().st_size == 100 * COPY_BYTES + 8
    assert kept.stat().st_blocks * 512 < 8 * COPY_BYTES
    with open(kept, "rb") as file:
        assert file.read(6) == b"begin\0"
        file.seek(-4, os.SEEK_END)
        assert file.read() == b"\0end"
