"""Shared memory in plain Python, for a single process: the specification of :mod:`everlog.kernel._memory`. Python has
no ordered access, so transport between processes needs the compiled module."""

from __future__ import annotations

import mmap
import os
from struct import Struct
from typing import NoReturn

from everlog.layout import Readable

_I32, _I64 = Struct("<i"), Struct("<q")


class Memory:
    """A block of ``length`` bytes: private memory, a mapped file, or a part of another memory, which it keeps alive. A
    file stays mapped until the last object that refers to the memory or to a view of it is gone, so no access can hit
    an unmapped page.

    All access is checked: it raises ``IndexError`` outside the memory, ``ValueError`` if an atomic or ordered access is
    at an offset that is no multiple of its size, ``TypeError`` if read-only memory is written. Numbers are signed and
    little-endian.
    """

    def __init__(self, view: memoryview) -> None:
        self._view = view
        self.length = len(view)
        self.writable = not view.readonly

    @staticmethod
    def allocate(length: int) -> Memory:
        """Allocate private memory, zeroed and aligned to a page."""
        if length < 0:
            raise ValueError(f"memory can't have {length} bytes")
        return Memory(memoryview(bytearray(length)))

    @staticmethod
    def map(fd: int, length: int, *, writable: bool = True) -> Memory:
        """Map the first ``length`` bytes of an open file; its descriptor may be closed afterwards. Raises
        ``ValueError`` if the file is shorter, or ``OSError``. Truncating a mapped file, or a full disk, causes a SIGBUS
        on access: map only files that their owner never truncates and whose blocks are allocated
        (``posix_fallocate``)."""
        if length <= 0:
            raise ValueError(f"can't map {length} bytes")
        size = os.fstat(fd).st_size
        if size < length:
            raise ValueError(f"can't map {length} bytes of a file of {size} bytes")
        access = mmap.ACCESS_WRITE if writable else mmap.ACCESS_READ
        return Memory(memoryview(mmap.mmap(fd, length, access=access)))

    def use_huge_pages(self, offset: int, length: int) -> bool:
        """Ask the kernel to move a part of a mapped file to 2 MiB pages (``MADV_COLLAPSE``, Linux 6.1).

        All processes that map the file then use these pages. A 2 MiB block that has no page in memory yet stays as it
        is. The part must begin at a multiple of 2 MiB, as maps of 2 MiB or more do. Returns true if every whole 2 MiB
        block of the part is now on such pages. The file's content does not change.
        """
        self._check(offset, length)
        return False

    def __len__(self) -> int:
        return self.length

    def view(self) -> memoryview:
        """The whole memory as bytes. The view keeps the memory alive."""
        return self._view

    def __reduce__(self) -> NoReturn:
        raise TypeError("memory belongs to one process and can't be pickled")

    def slice(self, offset: int, length: int) -> Memory:
        """A part of the memory; it shares the bytes."""
        self._check(offset, length)
        return Memory(self._view[offset : offset + length])

    def get_i32(self, offset: int) -> int:
        """Read a number, unordered."""
        self._check(offset, 4)
        value: int = _I32.unpack_from(self._view, offset)[0]
        return value

    def get_i64(self, offset: int) -> int:
        """Read a number, unordered."""
        self._check(offset, 8)
        value: int = _I64.unpack_from(self._view, offset)[0]
        return value

    def put_i32(self, offset: int, value: int) -> None:
        """Write a number, unordered."""
        self._check_write(offset, 4)
        _I32.pack_into(self._view, offset, value)

    def put_i64(self, offset: int, value: int) -> None:
        """Write a number, unordered."""
        self._check_write(offset, 8)
        _I64.pack_into(self._view, offset, value)

    def get_i32_acquire(self, offset: int) -> int:
        """Read a number before any later read or write (acquire)."""
        self._check_atomic(offset, 4)
        return self.get_i32(offset)

    def get_i64_acquire(self, offset: int) -> int:
        """Read a number before any later read or write (acquire)."""
        self._check_atomic(offset, 8)
        return self.get_i64(offset)

    def put_i32_release(self, offset: int, value: int) -> None:
        """Write a number after all earlier reads and writes (release)."""
        self._check_atomic(offset, 4)
        self.put_i32(offset, value)

    def put_i64_release(self, offset: int, value: int) -> None:
        """Write a number after all earlier reads and writes (release)."""
        self._check_atomic(offset, 8)
        self.put_i64(offset, value)

    def put_i32_volatile(self, offset: int, value: int) -> None:
        """Write a number, sequentially consistent with all volatile and atomic access."""
        self._check_atomic(offset, 4)
        self.put_i32(offset, value)

    def put_i64_volatile(self, offset: int, value: int) -> None:
        """Write a number, sequentially consistent with all volatile and atomic access."""
        self._check_atomic(offset, 8)
        self.put_i64(offset, value)

    def get_and_add_i32(self, offset: int, delta: int) -> int:
        """Add atomically, with wrap-around. Returns the value before."""
        self._check_atomic(offset, 4)
        old = self.get_i32(offset)
        self.put_i32(offset, (old + delta + (1 << 31)) % (1 << 32) - (1 << 31))
        return old

    def get_and_add_i64(self, offset: int, delta: int) -> int:
        """Add atomically, with wrap-around. Returns the value before."""
        self._check_atomic(offset, 8)
        old = self.get_i64(offset)
        self.put_i64(offset, (old + delta + (1 << 63)) % (1 << 64) - (1 << 63))
        return old

    def compare_and_set_i32(self, offset: int, expected: int, value: int) -> bool:
        """Write ``value`` if the current value is ``expected``, atomically. Returns whether it was."""
        self._check_atomic(offset, 4)
        if self.get_i32(offset) != expected:
            return False
        self.put_i32(offset, value)
        return True

    def compare_and_set_i64(self, offset: int, expected: int, value: int) -> bool:
        """Write ``value`` if the current value is ``expected``, atomically. Returns whether it was."""
        self._check_atomic(offset, 8)
        if self.get_i64(offset) != expected:
            return False
        self.put_i64(offset, value)
        return True

    @staticmethod
    def acquire_fence() -> None:
        """Complete earlier reads before any later read or write."""

    @staticmethod
    def release_fence() -> None:
        """Complete earlier reads and writes before any later write."""

    @staticmethod
    def fence() -> None:
        """Complete all earlier access before any later access."""

    def read(self, offset: int, length: int) -> bytes:
        """Copy ``length`` bytes out of the memory."""
        self._check(offset, length)
        return bytes(self._view[offset : offset + length])

    def write(self, offset: int, data: Readable) -> None:
        """Write bytes, unordered."""
        part = memoryview(data).cast("B") if isinstance(data, memoryview) else data
        self._check_write(offset, len(part))
        self._view[offset : offset + len(part)] = part

    def zero(self, offset: int, length: int) -> None:
        """Write zeros."""
        self._check_write(offset, length)
        self._view[offset : offset + length] = bytes(length)

    def _check(self, offset: int, length: int) -> None:
        if offset < 0 or length < 0 or offset > self.length - length:
            raise IndexError(f"{length} bytes at offset {offset} are outside a memory of {self.length} bytes")

    def _check_write(self, offset: int, length: int) -> None:
        if not self.writable:
            raise TypeError("this memory is read-only")
        self._check(offset, length)

    def _check_atomic(self, offset: int, size: int) -> None:
        self._check(offset, size)
        if offset % size:
            raise ValueError(f"offset {offset} is not a multiple of {size}")


class BlockSink:
    """Takes blocks out of shared memory, in a loop that reads them. Compiled sinks are called without the GIL."""

    def take(self, block: memoryview, most: int) -> int:
        """Take up to ``most`` bytes from the beginning of ``block``, but at least one frame. Returns the number of
        bytes that are done with, or 0 if it takes nothing. The block may change while it is read."""
        return 0
