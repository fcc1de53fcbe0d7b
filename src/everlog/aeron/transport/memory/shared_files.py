"""Files that processes share as memory: made whole under another name, mapped once, and given their name when they are
ready. A file may take seconds to make on a busy machine; other processes give up on one that is there and not ready.

A page of a mapped file that the file system can't provide kills who touches it (SIGBUS). So blocks are there before a
file is mapped (``posix_fallocate``), but for files that are asked for as sparse, and a full file system is an error
of who makes the file.

Long files are on huge pages where the kernel has them to give: a client walks through its terms from end to end, and
each page of 4 KiB costs it a fault, a walk through the page table, and a new start of the processor's prefetcher.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from everlog.core.files.regular_files import open_regular, unreadable
from everlog.core.files.writable import DRAFT_PREFIX
from everlog.errors import CorruptData, StoreExists, StoreUnavailable, WriteFailed
from everlog.kernel.memory import Memory

HUGE_PAGE = 2 << 20
_STEP = 16 * HUGE_PAGE
MAX_SECONDS = 0.5
"""About so long for a file's huge pages: a virtual machine may have to get them from its host, and clients wait."""

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@dataclass(frozen=True, slots=True)
class FileDraft:
    """A new file that nobody looks for yet, mapped. ``path``: the name that it will have."""

    path: Path
    memory: Memory

    def publish(self) -> None:
        """Give the file its name. Raises :class:`WriteFailed`; the draft is gone then."""
        try:
            os.rename(_draft_path(self.path), self.path)
        except OSError as problem:
            self.discard()
            raise WriteFailed(str(self.path), found=problem.strerror, expected="a new file") from problem

    def discard(self) -> None:
        """Delete the file, which was not published."""
        _draft_path(self.path).unlink(missing_ok=True)


def _draft_path(path: Path) -> Path:
    return path.with_name(DRAFT_PREFIX + path.name)


def create_file(
    path: Path, length: int, *, sparse: bool = False, prepare: Callable[[Memory], None] | None = None
) -> Memory:
    """A new file, mapped: zeros and what ``prepare`` writes, before it has its name. Otherwise as
    :func:`draft_file`."""
    draft = draft_file(path, length, sparse=sparse)
    if prepare is not None:
        try:
            prepare(draft.memory)
        except BaseException:
            draft.discard()
            raise
    draft.publish()
    return draft.memory


def draft_file(path: Path, length: int, *, sparse: bool = False) -> FileDraft:
    """A new file of zeros, without its name. Raises :class:`StoreExists` where there is one, :class:`WriteFailed` where
    there is no room: then nothing is left of it. ``sparse``: blocks come as they are written, and the caller sees to
    it that there is room for them."""
    draft = _draft_path(path)
    try:
        if os.path.lexists(path):
            raise FileExistsError
        fd = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    except FileExistsError:
        raise StoreExists(str(path), found="a file of that name", expected="none") from None
    except OSError as problem:
        raise WriteFailed(str(path), found=problem.strerror, expected="a new file") from problem
    try:
        return FileDraft(path, _sparse(fd, length) if sparse else _allocated(fd, length))
    except OSError as problem:
        os.unlink(draft)
        hint = "free some, or ask for shorter buffers" if problem.errno in _FULL else None
        expected = f"room for {length} bytes"
        raise WriteFailed(str(path), found=problem.strerror, expected=expected, hint=hint) from problem
    finally:
        os.close(fd)


def _sparse(fd: int, length: int) -> Memory:
    os.ftruncate(fd, length)
    return Memory.map(fd, length)


def _allocated(fd: int, length: int) -> Memory:
    memory = _on_huge_pages(fd, length) if length >= HUGE_PAGE else None
    os.posix_fallocate(fd, 0, length)
    return Memory.map(fd, length) if memory is None else memory


def _on_huge_pages(fd: int, length: int) -> Memory:
    """A new file, mapped, with huge pages where the kernel gives them. It does where a block has a page already, which
    is written, not touched: a full file system must be an error."""
    os.ftruncate(fd, length)
    memory = Memory.map(fd, length)
    whole = length - length % HUGE_PAGE
    give_up = time.monotonic() + MAX_SECONDS
    for begin in range(0, whole, _STEP):
        end = min(begin + _STEP, whole)
        for offset in range(begin, end, HUGE_PAGE):
            os.pwrite(fd, b"\0", offset)
        if not memory.use_huge_pages(begin, end - begin) or time.monotonic() > give_up:
            break
    return memory


def map_file(path: Path, *, minimum: int, maximum: int, writable: bool = True) -> Memory:
    """A file that another process made, mapped as long as it is now. Raises :class:`StoreUnavailable` where it can't be
    opened, :class:`CorruptData` where it has not ``minimum`` to ``maximum`` bytes."""
    try:
        fd = open_regular(path, os.O_RDWR if writable else os.O_RDONLY)
    except (OSError, ValueError) as problem:  # a name with a NUL in it
        raise unreadable(path, problem) from problem
    try:
        length = os.fstat(fd).st_size
        if not minimum <= length <= maximum:
            raise CorruptData(str(path), found=f"{length} bytes", expected=f"{minimum} to {maximum}")
        return Memory.map(fd, length, writable=writable)
    except (OSError, ValueError) as problem:
        raise StoreUnavailable(str(path), found=str(problem), expected="a file that can be mapped") from problem
    finally:
        os.close(fd)
