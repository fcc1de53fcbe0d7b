"""Memory that processes share, in Python: what :mod:`everlog.kernel._memory` does, for one process alone, because
Python has no ordered access: transport between processes needs the compiled module."""

from __future__ import annotations

import mmap
import os
from struct import Struct
from typing import NoReturn

from everlog.layout import Readable

_I32, _I64 = Struct("<i"), Struct("<q")


class Memory:
    """``length`` bytes at one place: private, of a mapped file, or a part of another memory, which it keeps alive. A
    map ends when the last who holds it, or a view of it, is gone; nothing ends it earlier, so no access meets a hole.

    All access is checked: ``IndexError`` outside the memory, ``ValueError`` for an atomic or ordered one at an offset
    that is no multiple of its size, ``TypeError`` for a write to what is read-only. Numbers are signed and
    little-endian.
    """

    def __init__(self, view: memoryview) -> None:
        self._view = view
        self.length = len(view)
        self.writable = not view.readonly

    @staticmethod
    def allocate(length: int) -> Memory:
        """Private memory, zeroed, at a page's start."""
        if length < 0:
            raise ValueError(f"memory of {length} bytes")
        return Memory(memoryview(bytearray(length)))

    @staticmethod
    def map(fd: int, length: int, *, writable: bool = True) -> Memory:
        """The first ``length`` bytes of an open file, which may be closed then. Raises ``ValueError`` for a file that
        is shorter, ``OSError``. Who cuts the file later causes a SIGBUS: only for files that their owner never cuts,
        and whose blocks are there (``posix_fallocate``)."""
        if length <= 0:
            raise ValueError(f"a map of {length} bytes")
        size = os.fstat(fd).st_size
        if size < length:
            raise ValueError(f"a map of {length} bytes of a file of {size}")
        access = mmap.ACCESS_WRITE if writable else mmap.ACCESS_READ
        return Memory(memoryview(mmap.mmap(fd, length, access=access)))

    def use_huge_pages(self, offset: int, length: int) -> bool:
        """Have the kernel put a part of a mapped file on pages of 2 MiB (``MADV_COLLAPSE``, Linux 6.1), as far as it
        has such: all processes that map the file have them then. A block of 2 MiB without any page yet stays as it is,
        any other becomes whole. True if all of the part, but for a rest that is shorter, is on such pages; what is in
        the file is the same either way. A map of 2 MiB or more begins at a multiple of that; so must the part."""
        self._check(offset, length)
        return False

    def __len__(self) -> int:
        return self.length

    def view(self) -> memoryview:
        """All of it, as bytes; keeps it alive."""
        return self._view

    def __reduce__(self) -> NoReturn:
        raise TypeError("memory is of one process: it can't be pickled")

    def slice(self, offset: int, length: int) -> Memory:
        """A part of it, which shares its bytes."""
        self._check(offset, length)
        return Memory(self._view[offset : offset + length])

    def get_i32(self, offset: int) -> int:
        """A number, in no order with other access."""
        self._check(offset, 4)
        value: int = _I32.unpack_from(self._view, offset)[0]
        return value

    def get_i64(self, offset: int) -> int:
        """A number, in no order with other access."""
        self._check(offset, 8)
        value: int = _I64.unpack_from(self._view, offset)[0]
        return value

    def put_i32(self, offset: int, value: int) -> None:
        """Write a number, in no order with other access."""
        self._check_write(offset, 4)
        _I32.pack_into(self._view, offset, value)

    def put_i64(self, offset: int, value: int) -> None:
        """Write a number, in no order with other access."""
        self._check_write(offset, 8)
        _I64.pack_into(self._view, offset, value)

    def get_i32_acquire(self, offset: int) -> int:
        """A number, before whatever is read or written next."""
        self._check_atomic(offset, 4)
        return self.get_i32(offset)

    def get_i64_acquire(self, offset: int) -> int:
        """A number, before whatever is read or written next."""
        self._check_atomic(offset, 8)
        return self.get_i64(offset)

    def put_i32_release(self, offset: int, value: int) -> None:
        """Write a number behind whatever was read or written before."""
        self._check_atomic(offset, 4)
        self.put_i32(offset, value)

    def put_i64_release(self, offset: int, value: int) -> None:
        """Write a number behind whatever was read or written before."""
        self._check_atomic(offset, 8)
        self.put_i64(offset, value)

    def put_i32_volatile(self, offset: int, value: int) -> None:
        """Write a number, in one order with all volatile and atomic access."""
        self._check_atomic(offset, 4)
        self.put_i32(offset, value)

    def put_i64_volatile(self, offset: int, value: int) -> None:
        """Write a number, in one order with all volatile and atomic access."""
        self._check_atomic(offset, 8)
        self.put_i64(offset, value)

    def get_and_add_i32(self, offset: int, delta: int) -> int:
        """Add, atomically, and wrap; gives what was there."""
        self._check_atomic(offset, 4)
        old = self.get_i32(offset)
        self.put_i32(offset, (old + delta + (1 << 31)) % (1 << 32) - (1 << 31))
        return old

    def get_and_add_i64(self, offset: int, delta: int) -> int:
        """Add, atomically, and wrap; gives what was there."""
        self._check_atomic(offset, 8)
        old = self.get_i64(offset)
        self.put_i64(offset, (old + delta + (1 << 63)) % (1 << 64) - (1 << 63))
        return old

    def compare_and_set_i32(self, offset: int, expected: int, value: int) -> bool:
        """Write ``value`` where ``expected`` is, atomically; whether it was."""
        self._check_atomic(offset, 4)
        if self.get_i32(offset) != expected:
            return False
        self.put_i32(offset, value)
        return True

    def compare_and_set_i64(self, offset: int, expected: int, value: int) -> bool:
        """Write ``value`` where ``expected`` is, atomically; whether it was."""
        self._check_atomic(offset, 8)
        if self.get_i64(offset) != expected:
            return False
        self.put_i64(offset, value)
        return True

    @staticmethod
    def acquire_fence() -> None:
        """What was read before is read before whatever is read or written next."""

    @staticmethod
    def release_fence() -> None:
        """What was read or written before is done before whatever is written next."""

    @staticmethod
    def fence() -> None:
        """All access before comes before all access behind."""

    def read(self, offset: int, length: int) -> bytes:
        """A copy of some bytes."""
        self._check(offset, length)
        return bytes(self._view[offset : offset + length])

    def write(self, offset: int, data: Readable) -> None:
        """Write some bytes, in no order with other access."""
        part = memoryview(data).cast("B") if isinstance(data, memoryview) else data
        self._check_write(offset, len(part))
        self._view[offset : offset + len(part)] = part

    def zero(self, offset: int, length: int) -> None:
        """Write zeros."""
        self._check_write(offset, length)
        self._view[offset : offset + length] = bytes(length)

    def _check(self, offset: int, length: int) -> None:
        if offset < 0 or length < 0 or offset > self.length - length:
            raise IndexError(f"{length} bytes at {offset} of memory of {self.length}")

    def _check_write(self, offset: int, length: int) -> None:
        if not self.writable:
            raise TypeError("this memory is read-only")
        self._check(offset, length)

    def _check_atomic(self, offset: int, size: int) -> None:
        self._check(offset, size)
        if offset % size:
            raise ValueError(f"offset {offset} is no multiple of {size}")
