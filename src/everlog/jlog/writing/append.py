"""Selects the compiled appender on local files, else its twin :mod:`everlog.jlog.writing.append_twin`, which documents
both."""

from __future__ import annotations

from typing import TYPE_CHECKING

from everlog.core.files.writable import WritableFile
from everlog.errors import UsageError, WrongType
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
    """Create the compiled appender for local files, else its twin."""
    kind = Appender if _is_local(segment) and _is_local(metastore) else twin.Appender
    return kind(segment, metastore, log, magic, end, marker)


def buffer_appender(file: WritableFile, magic: int, used: int, capacity: int) -> BufferAppender:
    """Create the compiled buffer appender for local files, else its twin."""
    kind = BufferAppender if _is_local(file) else twin.BufferAppender
    return kind(file, magic, used, capacity)


def _is_local(file: WritableFile) -> bool:
    return hasattr(file, "fileno")


def microseconds_of(timestamp_ns: int) -> int:
    """Converts a timestamp to the microseconds that a header stores. Raises :class:`UsageError` before 1970, and
    :class:`WrongType` if it is not an integer."""
    try:
        if timestamp_ns < 0:
            raise UsageError("timestamp_ns", found=str(timestamp_ns), expected="at least 0")
        return timestamp_ns // 1000
    except TypeError as error:
        raise WrongType("timestamp_ns", found=repr(timestamp_ns), expected="an integer") from error


def check_length(length: int) -> None:
    """Raises :class:`UsageError` if a payload is too long."""
    if length > MAX_MESSAGE_BYTES:
        raise UsageError(
            "message",
            found=f"{length} bytes",
            expected=f"at most {MAX_MESSAGE_BYTES}",
            message=f"message has {length} bytes; at most {MAX_MESSAGE_BYTES} are allowed",
        )
