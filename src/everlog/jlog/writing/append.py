"""Appending: compiled on local files, else its twin :mod:`everlog.jlog.writing.append_twin`, which says what it
does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from everlog.core.files.writable import WritableFile
from everlog.errors import UsageError
from everlog.jlog.format.framing import MAX_MESSAGE_BYTES
from everlog.jlog.writing import append_twin as twin
from everlog.jlog.writing.append_twin import AS_STORED as AS_STORED
from everlog.jlog.writing.append_twin import DONE as DONE
from everlog.jlog.writing.append_twin import ENDED as ENDED
from everlog.jlog.writing.append_twin import FULL as FULL
from everlog.jlog.writing.append_twin import MAX_TIME_US as MAX_TIME_US
from everlog.jlog.writing.append_twin import MOVED as MOVED
from everlog.jlog.writing.append_twin import NOW as NOW
from everlog.jlog.writing.append_twin import UNKNOWN as UNKNOWN
from everlog.kernel import load

if TYPE_CHECKING:
    from everlog.jlog.writing.append_twin import Appender as Appender
    from everlog.jlog.writing.append_twin import BufferAppender as BufferAppender
else:
    _module = load("everlog.jlog.writing._append", "everlog.jlog.writing.append_twin")
    Appender, BufferAppender = _module.Appender, _module.BufferAppender


def appender(segment: WritableFile, metastore: WritableFile, log: int, magic: int, end: int, marker: int) -> Appender:
    """See :class:`everlog.jlog.writing.append_twin.Appender`."""
    kind = Appender if _is_local(segment) and _is_local(metastore) else twin.Appender
    return kind(segment, metastore, log, magic, end, marker)


def buffer_appender(file: WritableFile, magic: int, used: int, capacity: int) -> BufferAppender:
    """See :class:`everlog.jlog.writing.append_twin.BufferAppender`."""
    kind = BufferAppender if _is_local(file) else twin.BufferAppender
    return kind(file, magic, used, capacity)


def _is_local(file: WritableFile) -> bool:
    return hasattr(file, "fileno")


def microseconds_of(timestamp_ns: int) -> int:
    """A timestamp as it is kept. Raises :class:`UsageError` for one before 1970."""
    if timestamp_ns < 0:
        raise UsageError("timestamp_ns", found=str(timestamp_ns), expected="at least 0")
    return timestamp_ns // 1000


def check_length(length: int) -> None:
    """Raises :class:`UsageError` for a payload that is too long."""
    if length > MAX_MESSAGE_BYTES:
        raise UsageError("message", found=f"{length} bytes", expected=f"at most {MAX_MESSAGE_BYTES}")
