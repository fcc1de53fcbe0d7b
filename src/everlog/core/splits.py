"""Parts of streams that are scanned by themselves, and what is known of the times in them without reading them: a query
over a range of times leaves out what can't be in it."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple


@dataclass(frozen=True, slots=True)
class Split:
    """A part of a stream that can be scanned by itself, in another process too: records with ``start <= address <
    end`` (``None``: to the end). ``byte_count`` is an estimate of the work. ``context`` is the family's own, small
    and picklable: what a scan needs to know so that it does not read the catalog again.
    """

    stream: str
    start: int | None
    end: int | None
    byte_count: int
    context: Any = None


class SplitTimes(NamedTuple):
    """Times in nanoseconds since 1970; ``None`` where nothing is known. ``first_ns`` is of the first record,
    ``last_ns`` of the last one or of one behind it. Between them times rise, except where a clock was set back."""

    first_ns: int | None = None
    last_ns: int | None = None

    def may_hold(self, start_ns: int | None, end_ns: int | None, slack_ns: int = 0) -> bool:
        """Whether a record with ``start_ns <= time < end_ns`` may be there, if clocks were never set back by more than
        ``slack_ns``."""
        low, high = sorted(t for t in self if t is not None) if None not in self else self
        is_before = high is not None and start_ns is not None and high + slack_ns < start_ns
        is_behind = low is not None and end_ns is not None and low - slack_ns >= end_ns
        return not (is_before or is_behind)


def from_firsts(firsts: Sequence[int | None]) -> list[SplitTimes]:
    """Splits of which only the first record's time is known: the next one's is the bound."""
    return [SplitTimes(a, b) for a, b in itertools.pairwise([*firsts, None])]


def may_hold(
    splits: Sequence[Split], times: Sequence[SplitTimes], start_ns: int | None, end_ns: int | None, slack_ns: int
) -> list[Split]:
    """The splits that may hold records of the range."""
    return [s for s, known in zip(splits, times, strict=True) if known.may_hold(start_ns, end_ns, slack_ns)]
