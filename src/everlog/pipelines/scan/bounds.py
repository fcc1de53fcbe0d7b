"""What a row of a query must satisfy, as bounds of what is read: they leave out what can't satisfy it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from everlog.core.store import Store
from everlog.errors import UsageError

TEXTS = ("store", "stream")
"""Columns of which equality, ``in`` and ``like 'abc%'`` choose stores and streams."""
MIN_NS, MAX_NS = -(1 << 63), (1 << 63) - 1
HALF = 32
"""Of two columns that make an address the first is above that many bits of the second."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a row must satisfy. ``texts``: column to the texts of which it is one; ``starts``: column to what it begins
    with; ``numbers``: integer column to its least and greatest value; ``needed``: columns that are not null;
    ``addresses``: texts of which the address is one."""

    texts: tuple[tuple[str, frozenset[str]], ...] = ()
    starts: tuple[tuple[str, str], ...] = ()
    numbers: tuple[tuple[str, int | None, int | None], ...] = ()
    needed: frozenset[str] = frozenset()
    addresses: frozenset[str] | None = None

    def may_hold(self, column: str, value: str) -> bool:
        """Whether rows whose text ``column`` is ``value`` may pass."""
        return all(value in allowed for name, allowed in self.texts if name == column) and all(
            value.startswith(start) for name, start in self.starts if name == column
        )

    def fits(self, store: Store, columns: Iterable[str]) -> bool:
        """Whether a store of these columns may have rows that pass."""
        return self.may_hold("store", store.path) and self.needed <= set(columns)

    def range(self, store: Store, start: int | None, end: int | None) -> tuple[int | None, int | None]:
        """Addresses ``start <= address < end``, made narrower."""
        names = store.address_columns
        shift = HALF * (len(names) - 1)
        for name, low, high in self.numbers:
            if name != names[0]:
                continue
            if low is not None:
                start = max(start or 0, max(low, 0) << shift)
            if high is not None:
                behind = max(high + 1, 0) << shift
                end = behind if end is None else min(end, behind)
        if self.addresses is not None:
            found = [a for a in (_parsed(store, text) for text in self.addresses) if a is not None]
            first, behind = (min(found), max(found) + 1) if found else (0, 0)
            start, end = max(start or 0, first), behind if end is None else min(end, behind)
        return start, end


def _parsed(store: Store, text: str) -> int | None:
    try:
        return store.parse_address(text)
    except UsageError:
        return None


NO_BOUNDS = Bounds()


def bounded_times(start_ns: int | None, end_ns: int | None) -> tuple[int | None, int | None]:
    """A range of times as one of times that 64 bits of nanoseconds hold, from 1677 to 2262: what lies beyond, such as
    the year 9999 for ever, bounds nothing, or leaves nothing."""
    if start_ns is not None:
        start_ns = None if start_ns <= MIN_NS else min(start_ns, MAX_NS)
    if end_ns is not None:
        end_ns = None if end_ns > MAX_NS else max(end_ns, MIN_NS)
    return start_ns, end_ns
