"""What a query's rows must satisfy, as bounds that let a scan skip what can't satisfy it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from everlog.core.store import Store
from everlog.errors import UsageError

TEXTS = ("store", "stream")
"""Columns whose equality, ``in`` and ``like 'abc%'`` filters select stores and streams."""
MIN_NS, MAX_NS = -(1 << 63), (1 << 63) - 1
HALF = 32
"""In an address of two columns, the first is shifted left by this many bits."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a row must satisfy. ``texts``: column -> the allowed texts; ``starts``: column -> a prefix; ``numbers``:
    integer column -> its least and greatest value; ``needed``: columns that are not null; ``addresses``: the allowed
    addresses as texts."""

    texts: tuple[tuple[str, frozenset[str]], ...] = ()
    starts: tuple[tuple[str, str], ...] = ()
    numbers: tuple[tuple[str, int | None, int | None], ...] = ()
    needed: frozenset[str] = frozenset()
    addresses: frozenset[str] | None = None

    def may_hold(self, column: str, value: str) -> bool:
        """Whether rows whose text ``column`` is ``value`` may satisfy the bounds."""
        return all(value in allowed for name, allowed in self.texts if name == column) and all(
            value.startswith(start) for name, start in self.starts if name == column
        )

    def fits(self, store: Store, columns: Iterable[str]) -> bool:
        """Whether a store with these columns may have rows that satisfy the bounds."""
        return self.may_hold("store", store.path) and self.needed <= set(columns)

    def range(self, store: Store, start: int | None, end: int | None) -> tuple[int | None, int | None]:
        """The range of addresses ``start <= address < end``, narrowed by the bounds."""
        names = store.address_columns
        shift = HALF * (len(names) - 1)
        for name, low, high in self.numbers:
            if name != names[0]:
                continue
            if low is not None:
                start = max(start or 0, max(low, 0) << shift)
            if high is not None:
                limit = max(high + 1, 0) << shift
                end = limit if end is None else min(end, limit)
        if self.addresses is not None:
            found = [a for a in (_parsed(store, text) for text in self.addresses) if a is not None]
            first, limit = (min(found), max(found) + 1) if found else (0, 0)
            start, end = max(start or 0, first), limit if end is None else min(end, limit)
        return start, end


def _parsed(store: Store, text: str) -> int | None:
    try:
        return store.parse_address(text)
    except UsageError:
        return None


NO_BOUNDS = Bounds()


def bounded_times(start_ns: int | None, end_ns: int | None) -> tuple[int | None, int | None]:
    """Clip a range of times to what 64-bit nanoseconds can hold, 1677 to 2262. A bound beyond that, such as the year
    9999 for "for ever", excludes nothing or everything."""
    if start_ns is not None:
        start_ns = None if start_ns <= MIN_NS else min(start_ns, MAX_NS)
    if end_ns is not None:
        end_ns = None if end_ns > MAX_NS else max(end_ns, MIN_NS)
    return start_ns, end_ns
