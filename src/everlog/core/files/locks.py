"""Locks and leases of the operating system, and what they reveal about a file's users.

On Linux, open file description locks are used: a process's ordinary ``fcntl`` locks vanish when *any* descriptor of the
file is closed, so a reader in another thread would unlock a writer. They conflict with ordinary ``fcntl`` locks, of
other processes and of this one.

A lease is granted only while nobody has the file open in a way that conflicts with it, so requesting one and returning
it shows whether somebody has (``fcntl(2)``: F_SETLEASE; Linux, the file's owner or root).
"""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import struct
import sys
from enum import Enum

from everlog.core.files.storage import open_patiently

_IS_LINUX = sys.platform.startswith("linux")
_GET_LOCK, _SET_LOCK, _SET_LOCK_WAIT = (36, 37, 38) if _IS_LINUX else (fcntl.F_GETLK, fcntl.F_SETLK, fcntl.F_SETLKW)
"""``F_OFD_GETLK``, ``F_OFD_SETLK`` and ``F_OFD_SETLKW``, which Python before 3.13 does not name."""
_FLOCK = struct.Struct("hhqqi4x")


class Lease(Enum):
    """Kinds of file leases. READ excludes processes that have the file open for writing; WRITE excludes every other
    process that has it open."""

    READ = (os.O_RDONLY, fcntl.F_RDLCK)
    WRITE = (os.O_RDWR, fcntl.F_WRLCK)


def set_lock(fd: int, kind: int, *, wait: bool) -> bool:
    """Lock a whole file (``F_WRLCK``) or unlock it (``F_UNLCK``); False if another holder has the lock and ``wait`` is
    false. Raises :class:`OSError`."""
    try:
        if _IS_LINUX:
            fcntl.fcntl(fd, _SET_LOCK_WAIT if wait else _SET_LOCK, _FLOCK.pack(kind, os.SEEK_SET, 0, 0, 0))
        else:
            command = {fcntl.F_UNLCK: fcntl.LOCK_UN, fcntl.F_WRLCK: fcntl.LOCK_EX}[kind]
            fcntl.lockf(fd, command if wait or kind == fcntl.F_UNLCK else command | fcntl.LOCK_NB)
    except OSError as error:
        if not wait and error.errno in (errno.EAGAIN, errno.EACCES):
            return False
        raise
    return True


def is_locked(path: str) -> bool:
    """Whether the file is locked at this moment. Takes no lock and needs no write permission. False if the system can't
    say (not Linux)."""
    if not _IS_LINUX:
        return False
    try:
        fd = open_patiently(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        found = fcntl.fcntl(fd, _GET_LOCK, _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
    except OSError:
        return False
    finally:
        os.close(fd)
    return bool(_FLOCK.unpack(found)[0] != fcntl.F_UNLCK)


def gets_lease(path: str, lease: Lease) -> bool | None:
    """Whether the system grants a lease on a file; it is returned at once. ``None`` if that can't be determined."""
    if not _IS_LINUX:
        return None
    flags, kind = lease.value
    try:
        fd = open_patiently(path, flags | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        # If somebody opens the file at this moment, the system signals this process. SIGIO would kill it.
        fcntl.fcntl(fd, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(fd, fcntl.F_SETLEASE, kind)
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except OSError as error:
        return False if error.errno == errno.EAGAIN else None
    finally:
        os.close(fd)
    return True
