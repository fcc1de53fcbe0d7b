"""Shared memory: the compiled class and its twin do the same."""

from __future__ import annotations

import ctypes
import gc
import os
import pickle
import random
import tempfile
from pathlib import Path
from typing import Any

import pytest

from everlog.kernel import _memory, memory_twin

KINDS = pytest.mark.parametrize("kind", [_memory.Memory, memory_twin.Memory], ids=["compiled", "twin"])


@KINDS
def test_numbers_are_signed_and_little_endian(kind: Any) -> None:
    memory = kind.allocate(64)
    memory.put_i32(4, -2)
    memory.put_i64_release(8, -(1 << 62))
    assert memory.read(0, 16) == b"\0\0\0\0\xfe\xff\xff\xff" + b"\0\0\0\0\0\0\0\xc0"
    assert memory.get_i32(4) == memory.get_i32_acquire(4) == -2
    assert memory.get_i64(8) == memory.get_i64_acquire(8) == -(1 << 62)
    memory.put_i32_release(4, 7)
    memory.put_i32_volatile(0, 9)
    memory.put_i64_volatile(16, 1 << 40)
    assert memory.read(0, 8) == b"\x09\0\0\0\x07\0\0\0"
    assert memory.get_i64(16) == 1 << 40


@KINDS
def test_adding_gives_what_was_there_and_wraps(kind: Any) -> None:
    memory = kind.allocate(16)
    assert memory.get_and_add_i64(0, (1 << 63) - 1) == 0
    assert memory.get_and_add_i64(0, 2) == (1 << 63) - 1
    assert memory.get_i64(0) == -(1 << 63) + 1
    assert memory.get_and_add_i32(8, (1 << 31) - 1) == 0
    assert memory.get_and_add_i32(8, 1) == (1 << 31) - 1
    assert memory.get_i32(8) == -(1 << 31)


@KINDS
def test_a_number_is_exchanged_only_where_it_is_what_was_expected(kind: Any) -> None:
    memory = kind.allocate(16)
    assert memory.compare_and_set_i64(0, 0, 5) is True
    assert memory.compare_and_set_i64(0, 0, 6) is False
    assert memory.get_i64(0) == 5
    assert memory.compare_and_set_i32(8, 1, 6) is False
    assert memory.compare_and_set_i32(8, 0, 6) is True
    assert memory.get_i32(8) == 6


@KINDS
def test_nothing_outside_is_touched(kind: Any) -> None:
    memory = kind.allocate(16)
    for call in (
        lambda: memory.get_i32(13),
        lambda: memory.get_i64(-8),
        lambda: memory.put_i64(9, 1),
        lambda: memory.read(0, 17),
        lambda: memory.read(8, -1),
        lambda: memory.write(10, b"1234567"),
        lambda: memory.zero(16, 1),
        lambda: memory.slice(8, 9),
        lambda: memory.get_and_add_i64(16, 1),
        lambda: memory.read((1 << 63) - 1, 2),
    ):
        with pytest.raises(IndexError):
            call()
    assert memory.read(0, 16) == bytes(16)


@KINDS
def test_ordered_access_needs_an_aligned_place(kind: Any) -> None:
    memory = kind.allocate(16)
    for call in (
        lambda: memory.get_i32_acquire(2),
        lambda: memory.put_i64_release(4, 1),
        lambda: memory.get_and_add_i64(4, 1),
        lambda: memory.compare_and_set_i32(1, 0, 1),
    ):
        with pytest.raises(ValueError, match="multiple of"):
            call()


@KINDS
def test_a_slice_shares_its_bytes_and_keeps_them(kind: Any) -> None:
    memory = kind.allocate(4096)
    part = memory.slice(1024, 64).slice(8, 16)
    memory.write(1032, b"abc")
    del memory
    gc.collect()
    assert part.length == len(part) == 16
    assert part.read(0, 4) == b"abc\0"
    view = part.view()
    part.zero(0, 2)
    del part
    assert bytes(view[:4]) == b"\0\0c\0"


@KINDS
def test_maps_of_a_file_see_each_other_and_the_file(kind: Any, tmp_path: Path) -> None:
    path = tmp_path / "shared"
    path.write_bytes(bytes(8192))
    descriptor = os.open(path, os.O_RDWR)
    one, two = kind.map(descriptor, 8192), kind.map(descriptor, 8192, writable=False)
    os.close(descriptor)
    one.put_i64_release(4096, 77)
    assert two.get_i64_acquire(4096) == 77
    assert path.read_bytes()[4096] == 77
    for call in (lambda: two.put_i32(0, 1), lambda: two.write(0, b"1"), lambda: two.zero(0, 1)):
        with pytest.raises(TypeError):
            call()
    assert not two.writable
    assert one.writable


@KINDS
def test_a_file_that_is_too_short_is_not_mapped(kind: Any, tmp_path: Path) -> None:
    path = tmp_path / "short"
    path.write_bytes(bytes(100))
    with path.open("r+b") as file, pytest.raises(ValueError, match="a file of 100"):
        kind.map(file.fileno(), 101)


@KINDS
def test_memory_does_not_leave_its_process(kind: Any) -> None:
    with pytest.raises(TypeError, match="one process"):
        pickle.dumps(kind.allocate(8))


@KINDS
def test_fences_change_nothing(kind: Any) -> None:
    memory = kind.allocate(8)
    memory.put_i64(0, 5)
    assert [memory.acquire_fence(), memory.release_fence(), kind.fence(), memory.get_i64(0)] == [None, None, None, 5]


@KINDS
def test_a_part_that_is_garbage_in_a_ring_frees_only_what_is_its_own(kind: Any) -> None:
    memory = kind.allocate(8192)
    memory.put_i64(64, 5)
    for _ in range(100):
        ring: list[Any] = [memory.slice(64, 128)]
        ring.append(ring)
        del ring
        gc.collect(0)
    assert memory.get_i64(64) == 5


HUGE = 2 << 20


def address_of(memory: _memory.Memory) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(memory.view()))


def mapped_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGESIZE")


@pytest.mark.parametrize("length", [HUGE, HUGE + 1, 3 * HUGE + 4096])
def test_a_long_map_begins_where_a_huge_page_can_and_leaves_nothing(length: int, tmp_path: Path) -> None:
    path = tmp_path / "long"
    path.touch()
    os.truncate(path, length)
    with path.open("r+b") as file:
        before = mapped_bytes()
        for _ in range(100):
            memory = _memory.Memory.map(file.fileno(), length)
            assert address_of(memory) % HUGE == 0
            memory.put_i32(length // 8 * 8 - 8, 5)
            assert mapped_bytes() - before < 2 * length
            del memory
        assert mapped_bytes() - before < length


@KINDS
def test_huge_pages_change_nothing_in_a_file(kind: Any) -> None:
    with tempfile.TemporaryFile(dir="/dev/shm") as file:
        content = random.Random(7).randbytes(2 * HUGE + 4096)
        file.write(content)
        file.flush()
        memory = kind.map(file.fileno(), len(content))
        other = kind.map(file.fileno(), len(content))
        memory.use_huge_pages(0, len(content))
        assert memory.read(0, len(content)) == other.read(0, len(content)) == content
        memory.put_i64_release(HUGE, 12)
        assert other.get_i64_acquire(HUGE) == 12


def test_huge_pages_are_asked_for_whole_blocks_of_a_map_only(tmp_path: Path) -> None:
    path = tmp_path / "long"
    path.write_bytes(bytes(2 * HUGE))
    with path.open("r+b") as file:
        memory = _memory.Memory.map(file.fileno(), 2 * HUGE)
    assert memory.use_huge_pages(0, HUGE - 1) is False
    assert memory.use_huge_pages(4096, HUGE) is False
    assert _memory.Memory.allocate(HUGE).use_huge_pages(0, HUGE) is False
    with pytest.raises(IndexError):
        memory.use_huge_pages(HUGE, HUGE + 1)
