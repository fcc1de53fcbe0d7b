"""Splits: parts of streams that are scanned separately.

Each tells what is known of its times without reading it, so that a query over a time range skips the splits outside.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple


@dataclass(frozen=True, slots=True)
class Split:
    """A part of a stream that can be scanned on its own, also in another process: records with ``start <= address <
    end`` (``None``: unbounded). ``byte_count`` estimates the work. ``context`` belongs to the family, is small and
    picklable, and saves the scan from reading the catalog again."""

    stream: str
    start: int | None
    end: int | None
    byte_count: int
    context: Any = None


class SplitTimes(NamedTuple):
    """The times of a split in nanoseconds since 1970; ``None`` if unknown. ``first_ns`` is the first record's time,
    ``last_ns`` that of the last record or a later one. Times rise between them, unless a clock was set back."""

    first_ns: int | None = None
    last_ns: int | None = None

    def may_hold(self, start_ns: int | None, end_ns: int | None, slack_ns: int = 0) -> bool:
        """Whether a record with ``start_ns <= time < end_ns`` may be in the split, provided that no clock was set back
        by more than ``slack_ns``."""
        low, high = sorted(t for t in self if t is not None) if None not in self else self
        is_before = high is not None and start_ns is not None and high + slack_ns < start_ns
        is_after = low is not None and end_ns is not None and low - slack_ns >= end_ns
        return not (is_before or is_after)


def from_firsts(firsts: Sequence[int | None]) -> list[SplitTimes]:
    """Times of consecutive splits from the times of their first records: each split is bounded by the next one's."""
    return [SplitTimes(a, b) for a, b in itertools.pairwise([*firsts, None])]


def may_hold(
    splits: Sequence[Split], times: Sequence[SplitTimes], start_ns: int | None, end_ns: int | None, slack_ns: int
) -> list[Split]:
    """The splits that may hold records of the time range."""
    return [s for s, known in zip(splits, times, strict=True) if known.may_hold(start_ns, end_ns, slack_ns)]
