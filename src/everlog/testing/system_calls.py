"""Counts this process's file system calls: tests compare the counts with a bound instead of measuring time."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, Self

from everlog.testing.storage.counting import TooManyCalls

_COUNTED = ("open", "stat", "lstat", "fstat", "lseek", "pread", "preadv", "listdir", "scandir", "readlink")


class SystemCalls:
    """Counts calls of :mod:`os` functions by name while the ``with`` block runs; ``byte_count`` is the number of bytes
    read. Each entry that ``scandir`` yields counts as a ``stat``. Raises :class:`TooManyCalls` after more than
    ``limit`` calls or ``max_bytes`` bytes."""

    def __init__(self, limit: int | None = None, max_bytes: int | None = None) -> None:
        self.calls: Counter[str] = Counter()
        self.byte_count = 0
        self.limit = limit
        self.max_bytes = max_bytes
        self._originals: dict[str, Callable[..., Any]] = {}

    @property
    def count(self) -> int:
        """The number of calls of all kinds."""
        return self.calls.total()

    def __enter__(self) -> Self:
        for name in _COUNTED:
            self._originals[name] = getattr(os, name)
            setattr(os, name, self._counting(name, self._originals[name]))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for name, original in self._originals.items():
            setattr(os, name, original)

    def _counting(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            self._note(name)
            found = original(*arguments, **named)
            if name in ("pread", "preadv"):
                self._read(found if isinstance(found, int) else len(found))
            return _Entries(found, self._note) if name == "scandir" else found

        return call

    def _note(self, name: str) -> None:
        self.calls[name] += 1
        if self.limit is not None and self.count > self.limit:
            raise TooManyCalls(f"over {self.limit} calls: {dict(self.calls)}")

    def _read(self, byte_count: int) -> None:
        self.byte_count += byte_count
        if self.max_bytes is not None and self.byte_count > self.max_bytes:
            raise TooManyCalls(f"over {self.max_bytes} bytes read")


class _Entries:
    """The result of ``os.scandir``; counts its entries."""

    def __init__(self, found: Any, note: Callable[[str], None]) -> None:
        self._found = found
        self._note = note

    def __iter__(self) -> Iterator[Any]:
        for entry in self._found:
            self._note("stat")
            yield entry

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._found.close()

    def close(self) -> None:
        """Close the folder."""
        self._found.close()
