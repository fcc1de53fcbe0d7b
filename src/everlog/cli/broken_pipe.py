"""Lets commands that change something finish after the reader of their output has gone."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import Any, TextIO, cast


@contextlib.contextmanager
def ignoring_broken_pipe() -> Iterator[None]:
    """Within the block, a closed stdout (``| head``) does not end the work: further output is dropped, and the exit
    code is that of the work. Commands that only read end at a closed pipe instead."""
    before = sys.stdout
    sys.stdout = cast(TextIO, _DroppingStream(before))
    try:
        yield
    finally:
        sys.stdout = before


class _DroppingStream:
    """A text stream that drops its output once its reader has gone."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write text, or drop it once the reader is gone."""
        with self._dropping():
            return self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        """Flush the stream, or do nothing once the reader is gone."""
        with self._dropping():
            self._stream.flush()

    @contextlib.contextmanager
    def _dropping(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:
            # Buffered and later output goes to /dev/null, so that it does not fail again.
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, self._stream.fileno())
            os.close(null)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
