"""Opens files that must be regular, so that no FIFO blocks and no device fills the memory.

Opening a FIFO waits for its other end, and a device such as ``/dev/zero`` has no end. Both can lie in a store's folder
or be named in an option. All files whose names come from outside are opened here, without blocking, and checked before
they are read.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path

from everlog.errors import StoreUnavailable, UsageError

OPEN_FLAGS = os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK
"""Always set: opening does not block, the descriptor is not inherited and never becomes the controlling terminal."""
EXPECTED = "a regular file"
_KINDS = {
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a character device",
    stat.S_IFBLK: "a block device",
    stat.S_IFDIR: "a folder",
}
_NO_OPENING = frozenset((errno.ENXIO, errno.ENODEV, errno.EOPNOTSUPP))
"""Error numbers for sockets, and for devices without a driver."""
_DESCRIPTORS = ("/dev/fd/", "/proc/self/fd/", "/dev/stdin")
_CHUNK_BYTES = 1 << 16


class NotRegular(OSError):
    """The path exists but is not a regular file; ``strerror`` says what it is."""

    def sentence(self, path: str) -> str:
        """The error message."""
        return f"{path} is {self.strerror}, not a regular file"


def _not_regular(path: str | os.PathLike[str], mode: int) -> NotRegular:
    return NotRegular(errno.EINVAL, _KINDS.get(stat.S_IFMT(mode), "a special file"), os.fspath(path))


def open_regular(
    path: str | os.PathLike[str],
    flags: int,
    mode: int = 0o666,
    *,
    opener: Callable[[str, int, int], int] = os.open,
) -> int:
    """Open a regular file with ``flags`` and :data:`OPEN_FLAGS`; returns the descriptor. Raises :class:`NotRegular` for
    anything else, :class:`OSError` if opening fails, :class:`ValueError` if the name is not a path."""
    name = os.fspath(path)
    try:
        fd = opener(name, flags | OPEN_FLAGS, mode)
    except OSError as error:
        if error.errno in _NO_OPENING:
            check_regular(name)
        raise
    try:
        found = os.fstat(fd).st_mode
        if not stat.S_ISREG(found):
            raise _not_regular(name, found)
    except OSError:
        os.close(fd)
        raise
    return fd


def check_regular(path: str | os.PathLike[str]) -> None:
    """Check a file that another library opens by its name. Raises as :func:`open_regular` does."""
    found = os.stat(path).st_mode
    if not stat.S_ISREG(found):
        raise _not_regular(path, found)


def read_small_file(path: str | os.PathLike[str], most_bytes: int) -> bytes:
    """Read a whole file that a user named. A pipe is read to its end if it is named as a descriptor that this process
    was started with, as a shell does for ``<(command)``. Raises :class:`StoreUnavailable` if it can't be read,
    :class:`UsageError` if it is larger than ``most_bytes``."""
    name = os.fspath(path)
    try:
        fd = _open_readable(name)
    except (OSError, ValueError) as error:
        raise unreadable(name, error) from error
    data = bytearray()
    try:
        while len(data) <= most_bytes and (part := os.read(fd, min(_CHUNK_BYTES, most_bytes + 1 - len(data)))):
            data += part
    except OSError as error:
        raise unreadable(name, error) from error
    finally:
        os.close(fd)
    if len(data) > most_bytes:
        message = f"{name} is larger than {most_bytes} bytes"
        raise UsageError(name, found="a larger file", expected=f"at most {most_bytes} bytes", message=message)
    return bytes(data)


def unreadable(path: str | Path, error: OSError | ValueError) -> StoreUnavailable:
    """The error for a file that could not be opened or read."""
    if isinstance(error, ValueError):  # a NUL byte, or a character that file names can't have
        name = ascii(str(path))
        return StoreUnavailable(name, found=str(error), expected="a path", message=f"{name} is not a path: {error}")
    if isinstance(error, NotRegular):
        message = error.sentence(str(path))
        return StoreUnavailable(str(path), found=error.strerror, expected=EXPECTED, message=message)
    found = (error.strerror or str(error)).lower()
    return StoreUnavailable(str(path), found=found, message=f"{found}: {path}")


def _open_readable(name: str) -> int:
    if not name.startswith(_DESCRIPTORS):
        return open_regular(name, os.O_RDONLY)
    fd = os.open(name, os.O_RDONLY | OPEN_FLAGS)
    found = os.fstat(fd).st_mode
    if stat.S_ISFIFO(found):
        os.set_blocking(fd, True)  # the process that started this one writes to it
    elif not stat.S_ISREG(found):
        os.close(fd)
        raise _not_regular(name, found)
    return fd
