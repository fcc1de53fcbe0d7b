"""Commands that change something go on where nobody reads their output any more."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import Any, TextIO, cast


@contextlib.contextmanager
def ignoring_broken_pipe() -> Iterator[None]:
    """A block whose work does not end where stdout's reader goes away, as ``head`` does: what it would print from then
    on is dropped, and the exit code is that of the work. Reading commands end there instead."""
    before = sys.stdout
    sys.stdout = cast(TextIO, _Unread(before))
    try:
        yield
    finally:
        sys.stdout = before


class _Unread:
    """A text stream that drops what its reader does not take."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """As :meth:`TextIO.write`."""
        with self._dropping():
            return self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        """As :meth:`TextIO.flush`."""
        with self._dropping():
            self._stream.flush()

    @contextlib.contextmanager
    def _dropping(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:
            # What is still buffered, and all that follows, goes nowhere: it must not fail again.
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, self._stream.fileno())
            os.close(null)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
