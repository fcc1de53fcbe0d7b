"""A progress line on stderr, drawn only on a terminal, at most ten times a second."""

from __future__ import annotations

import contextlib
import sys
import time
from types import TracebackType
from typing import Self

from everlog.cli.text import is_terminal, printable

SECONDS_BETWEEN = 0.1
BAR_WIDTH = 24


class ProgressLine:
    """``progress(what, done, total)`` draws the line; leaving the ``with`` block wipes it. Draws nothing unless stderr
    is a terminal."""

    def __init__(self) -> None:
        self._shown = is_terminal(sys.stderr)
        self._next = time.monotonic() + SECONDS_BETWEEN  # short work shows nothing
        self._drawn = False

    @property
    def is_shown(self) -> bool:
        """Whether progress is drawn. If not, callers need not compute the total in advance."""
        return self._shown

    def __call__(self, what: str, done: int, total: int) -> None:
        """Draw the line, if it is time to. ``done`` and ``total`` are in any unit; ``total`` 0 means unknown."""
        if not self._shown or time.monotonic() < self._next:
            return
        self._next = time.monotonic() + SECONDS_BETWEEN
        share = min(1.0, done / total) if total > 0 else 0.0
        bar = "#" * round(share * BAR_WIDTH)
        _draw(f"\r\x1b[K[{bar:<{BAR_WIDTH}}] {share:4.0%} {printable(what)[:40]}")
        self._drawn = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._drawn:
            _draw("\r\x1b[K")


def _draw(text: str) -> None:
    with contextlib.suppress(OSError):  # the work continues after the terminal has hung up
        sys.stderr.write(text)
        sys.stderr.flush()
