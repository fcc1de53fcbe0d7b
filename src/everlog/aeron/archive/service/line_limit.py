"""Bounds how many lines a log gets."""

from __future__ import annotations


class LineLimit:
    """Lets ``count`` lines pass in each period of ``period_s`` seconds."""

    def __init__(self, count: int, period_s: float) -> None:
        self._count = count
        self._period_s = period_s
        self._begun = float("-inf")
        self._passed = self._left_out = 0

    def take(self, now_s: float) -> int | None:
        """``None`` if the line at ``now_s`` is left out; else how many were left out before it."""
        if now_s - self._begun >= self._period_s:
            self._begun, self._passed = now_s, 0
        if self._passed >= self._count:
            self._left_out += 1
            return None
        self._passed += 1
        left_out, self._left_out = self._left_out, 0
        return left_out
