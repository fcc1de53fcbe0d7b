"""How much of a long series of checks a run does: all of it, or a fixed part.

A series tries every crash point, every byte or many seeds. ``EVERLOG_EFFORT`` says which part of each series runs: 1 is
all of it; the default is a quick run's. A part is the same in every run: every n-th point, the first n seeds."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import count
from typing import TypeVar

T = TypeVar("T")

VARIABLE = "EVERLOG_EFFORT"
QUICK = 0.05
"""The part that runs where ``EVERLOG_EFFORT`` is not set."""


class Series:
    """The part of a series that ``effort``, above 0 and at most 1, asks for."""

    def __init__(self, effort: float) -> None:
        if not 0 < effort <= 1:
            raise ValueError(f"{VARIABLE} must be above 0 and at most 1, not {effort}")
        self.effort = effort
        self.stride = round(1 / effort) | 1
        """One point in so many is tried. It is odd, so that a series whose points alternate shows both kinds."""

    @classmethod
    def from_environment(cls) -> Series:
        """Raises :class:`ValueError` if ``EVERLOG_EFFORT`` is set to anything but a number above 0 and at most 1."""
        return cls(float(os.environ.get(VARIABLE, QUICK)))

    def rounds(self, full: int) -> int:
        """How many of ``full`` repetitions, seeds or examples run; at least one."""
        return max(1, round(full * self.effort))

    def points(self, full: Sequence[T]) -> Sequence[T]:
        """Every n-th of the points, and the last one."""
        chosen = list(full[:: self.stride])
        if full and (len(full) - 1) % self.stride:
            chosen.append(full[-1])
        return chosen

    def numbers(self) -> Iterator[int]:
        """The numbers of operations at which to fail, from 0 on without an end: the caller stops after the last
        operation."""
        return count(0, self.stride)
