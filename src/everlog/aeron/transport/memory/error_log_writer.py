"""Writes a distinct error log: each error once, with the number and times of its observations. Source: Agrona,
DistinctErrorLog. :mod:`everlog.aeron.error_log` reads it."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Hashable, Iterator
from typing import Protocol

from everlog.aeron.error_log import ENTRY_ALIGNMENT
from everlog.aeron.frames.constants import align
from everlog.aeron.layouts import ErrorEntry

_COUNT = ErrorEntry.field("observation_count").offset
_LAST = ErrorEntry.field("last_observation_timestamp").offset
_FIRST = ErrorEntry.field("first_observation_timestamp").offset
MAX_CAUSES = 16
"""Most causes of an error that are compared."""


class LogMemory(Protocol):
    """What the log is written to: shared memory (:class:`~everlog.kernel.memory.Memory`), or a part of a file."""

    @property
    def length(self) -> int:
        """Bytes."""

    def write(self, offset: int, data: bytes) -> None:
        """Write bytes."""

    def put_i64(self, offset: int, value: int) -> None:
        """Write a number."""

    def put_i32_release(self, offset: int, value: int) -> None:
        """Write a number after all that was written before."""

    def put_i64_release(self, offset: int, value: int) -> None:
        """Write a number after all that was written before."""

    def get_and_add_i32(self, offset: int, delta: int) -> int:
        """Add to a number. Returns the number before."""


class DistinctErrorLog:
    """The only writer of the memory, which is zero from ``start`` on. Thread-safe."""

    def __init__(self, memory: LogMemory, start: int = 0) -> None:
        self._memory = memory
        self._next = start
        self._offsets: dict[Hashable, int] = {}
        self._lock = threading.Lock()

    def record(self, error: BaseException | str, now_ms: int, first_line: str | None = None) -> bool:
        """Record an observation at ``now_ms`` since 1970. Errors of the same type, message and place count as one, and
        so do equal texts. ``first_line`` precedes Python's text of the error. Returns ``False`` if a new error does not
        fit."""
        key = error if isinstance(error, str) else tuple(_identity(error))
        with self._lock:
            at = self._offsets.get(key)
            if at is None:
                at = self._append(_text(error, first_line), now_ms)
                if at is None:
                    return False
                self._offsets[key] = at
        # The time is written last: to readers, 0 marks an incomplete entry.
        self._memory.get_and_add_i32(at + _COUNT, 1)
        self._memory.put_i64_release(at + _LAST, now_ms)
        return True

    def _append(self, text: bytes, now_ms: int) -> int | None:
        memory, at = self._memory, self._next
        length = ErrorEntry.size + len(text)
        if length > memory.length - at:
            return None
        memory.write(at + ErrorEntry.size, text)
        memory.put_i64(at + _FIRST, now_ms)
        self._next = align(at + length, ENTRY_ALIGNMENT)
        memory.put_i32_release(at, length)
        return at


def _identity(error: BaseException) -> Iterator[Hashable]:
    """The key that identifies an error with its causes."""
    current: BaseException | None = error
    for _ in range(MAX_CAUSES):
        if current is None:
            return
        yield f"{type(current).__module__}.{type(current).__qualname__}"
        yield str(current)
        yield tuple((frame.f_code, line) for frame, line in traceback.walk_tb(current.__traceback__))
        current = current.__cause__ or (None if current.__suppress_context__ else current.__context__)


def _text(error: BaseException | str, first_line: str | None) -> bytes:
    """The error's text, its message first, as in Java: tools show the first line."""
    if isinstance(error, str):
        return error.encode("utf-8", "replace")
    said = traceback.format_exception_only(error)
    trace = traceback.format_exception(error)[: -len(said)]
    if first_line is not None:
        said = [f"{first_line}\n", *said] if trace else [first_line]
    return "".join(said + trace).encode("utf-8", "replace")
