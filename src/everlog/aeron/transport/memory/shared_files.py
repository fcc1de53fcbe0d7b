"""Files that processes share as memory: created under a temporary name, mapped once, and renamed when ready. Creating a
file may take seconds on a busy machine; other processes would give up on an unfinished one.

If the file system can't provide a page of a mapped file, touching it kills the process (SIGBUS). So blocks are
allocated before a file is mapped (``posix_fallocate``), except for sparse files, and a full file system is an error of
the process that creates the file.

Long files use huge pages if the kernel grants them: a client walks through its terms from end to end, and each page of
4 KiB costs a fault, a page table walk, and a restart of the CPU's prefetcher.
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
"""Time limit for getting a file's huge pages: a virtual machine may have to get them from its host, and clients
wait."""

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@dataclass(frozen=True, slots=True)
class FileDraft:
    """A new file under its temporary name, mapped. ``path`` is its final name."""

    path: Path
    memory: Memory

    def publish(self) -> None:
        """Give the file its final name, instead of a file that has it by now. Raises :class:`WriteFailed` and deletes
        the draft if that fails."""
        try:
            os.rename(_draft_path(self.path), self.path)
        except OSError as problem:
            self.discard()
            raise _not_created(self.path, problem) from problem

    def discard(self) -> None:
        """Delete the file, which was not published."""
        _draft_path(self.path).unlink(missing_ok=True)


def _draft_path(path: Path) -> Path:
    return path.with_name(DRAFT_PREFIX + path.name)


def _not_created(path: Path, problem: OSError) -> WriteFailed:
    reason = problem.strerror
    message = f"can't create {path}: {reason}"
    return WriteFailed(str(path), found=reason, expected="a file that can be created", message=message)


def create_file(
    path: Path, length: int, *, sparse: bool = False, prepare: Callable[[Memory], None] | None = None
) -> Memory:
    """Create and map a file of zeros plus what ``prepare`` writes before it gets its name. Otherwise like
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
    """Create a file of zeros under a temporary name. Raises :class:`StoreExists` if the file exists,
    :class:`WriteFailed` if it can't be created or the disk is full; then nothing is left of it. With ``sparse``, blocks
    are allocated on first write; the caller ensures that there is space."""
    draft = _draft_path(path)
    try:
        if os.path.lexists(path):
            raise FileExistsError
        fd = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    except FileExistsError:
        raise StoreExists(str(path), found="file exists", message=f"{path} already exists") from None
    except OSError as problem:
        raise _not_created(path, problem) from problem
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
    """Map a new file, with huge pages if the kernel grants them, which it does only for blocks that already have a
    page. The pages are allocated by writing to the file, not to its memory, so that a full file system is an error."""
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
    """Map another process's file at its current length. Raises :class:`StoreUnavailable` if it can't be opened,
    :class:`CorruptData` if it does not have ``minimum`` to ``maximum`` bytes."""
    try:
        fd = open_regular(path, os.O_RDWR if writable else os.O_RDONLY)
    except (OSError, ValueError) as problem:  # a name with a NUL in it
        raise unreadable(path, problem) from problem
    try:
        length = os.fstat(fd).st_size
        if not minimum <= length <= maximum:
            raise CorruptData(str(path), found=f"{length} bytes", expected=f"{minimum} to {maximum} bytes")
        return Memory.map(fd, length, writable=writable)
    except (OSError, ValueError) as problem:
        found = getattr(problem, "strerror", None) or str(problem)
        raise StoreUnavailable(str(path), found=found, expected="a file that can be mapped") from problem
    finally:
        os.close(fd)
