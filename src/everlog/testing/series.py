"""Chooses how much of a long series of checks a run does: all of it, or a fixed fraction.

A series tries every crash point, every byte or many seeds. ``EVERLOG_EFFORT`` is the fraction of each series that runs:
1 runs all of it; the default is for a quick run. The same fraction selects the same checks in every run: every n-th
point, the first n seeds."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import count
from typing import TypeVar

T = TypeVar("T")

VARIABLE = "EVERLOG_EFFORT"
QUICK = 0.05
"""The fraction that runs if ``EVERLOG_EFFORT`` is not set."""


class Series:
    """Selects the fraction ``effort``, above 0 and at most 1, of a series."""

    def __init__(self, effort: float) -> None:
        if not 0 < effort <= 1:
            raise ValueError(f"{VARIABLE} must be above 0 and at most 1, not {effort}")
        self.effort = effort
        self.stride = round(1 / effort) | 1
        """Every ``stride``-th point is tried. It is odd, so that a series whose points alternate shows both kinds."""

    @classmethod
    def from_environment(cls) -> Series:
        """Read ``EVERLOG_EFFORT``. Raises :class:`ValueError` unless it is a number above 0 and at most 1."""
        return cls(float(os.environ.get(VARIABLE, QUICK)))

    def rounds(self, full: int) -> int:
        """Return how many of ``full`` repetitions, seeds or examples run; at least one."""
        return max(1, round(full * self.effort))

    def points(self, full: Sequence[T]) -> Sequence[T]:
        """Return every n-th of the points, and the last one."""
        chosen = list(full[:: self.stride])
        if full and (len(full) - 1) % self.stride:
            chosen.append(full[-1])
        return chosen

    def numbers(self) -> Iterator[int]:
        """Yield the numbers of the operations that shall fail, from 0 without end: the caller stops after the last
        operation."""
        return count(0, self.stride)
