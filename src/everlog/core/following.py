"""Following a store that others write: how far each stream has come, and where a part of it may end.

A :class:`Follower` remembers how far it has looked, so that a look costs what is new, not what is there. It only reads.
A record that is being written is not part of what is there, so every address that a follower gives is that of a record,
or the end behind the last whole one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate

from everlog.core.report import Fault
from everlog.core.splits import Split
from everlog.core.store import DEFAULT_SPLIT_BYTES, Store

CUT_ROWS = 16_384
"""Records that are looked at in one piece while a part is measured."""


@dataclass(frozen=True, slots=True)
class StreamExtent:
    """What of a stream is there: records with ``first <= address < end``. ``is_unknown``: there is nothing, nor does
    the store tell what was. ``is_rewritten``: since the look before it was cut, and has grown again past where it
    ended; ``was_recreated``: it is another one than at the look before."""

    first: int
    end: int
    is_unknown: bool = False
    is_rewritten: bool = False
    was_recreated: bool = False


@dataclass(frozen=True, slots=True)
class Cut:
    """A part of a stream that ends before ``address``: how many records and bytes it has, as far as that is known
    without reading them (else 0)."""

    address: int
    record_count: int
    byte_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CutLimit:
    """How much a part may have; ``None``: any number. One record is taken whatever its size."""

    records: int | None = None
    byte_count: int | None = None


class Follower(ABC):
    """One store, followed. Not for several threads at once."""

    @abstractmethod
    def poll(self) -> dict[str, StreamExtent]:
        """The streams as they are now. Raises :class:`~everlog.errors.StoreUnavailable` where the store is gone."""

    @abstractmethod
    def cut(self, stream: str, start: int, end: int, limit: CutLimit) -> Cut:
        """Where the part of ``start`` to ``end`` ends that keeps to a limit; ``end`` where all of it does. It has at
        least one record, if there is one."""

    @abstractmethod
    def splits(self, stream: str, start: int, end: int, *, split_bytes: int = DEFAULT_SPLIT_BYTES) -> list[Split]:
        """As :meth:`Store.splits`, of a part whose bounds a follower gave."""

    @abstractmethod
    def parse_address(self, text: str) -> int:
        """As :meth:`Store.parse_address`."""

    @abstractmethod
    def format_address(self, address: int) -> str:
        """As :meth:`Store.format_address`."""

    def is_complete(self, stream: str, address: int) -> bool:
        """Of a stream that ``poll`` did not find: whether it is known that it had nothing from ``address`` on."""
        return False

    def align(self, stream: str, address: int, extent: StreamExtent) -> int:
        """Of an address that somebody chose: the nearest one from there on at which a record begins, or the end. By
        default any address will do."""
        return min(max(address, extent.first), extent.end)

    def restart(self, address: int, extent: StreamExtent) -> int:
        """Of a stream that ends before ``address``, where a reader was: where what it has not read begins. By default
        at the first record: the stream was made anew."""
        return extent.first

    def byte_count(self, stream: str, start: int, end: int) -> int | None:
        """About how many bytes are between two addresses; ``None`` where only reading would tell."""
        return None

    def record_count(self, stream: str, start: int, end: int) -> int | None:
        """About how many records are between two addresses; ``None`` where only reading would tell."""
        return None

    def close(self) -> None:  # noqa: B027 - most followers keep nothing open
        """Give back what is open."""


def cut_by_scan(store: Store, split: Split, limit: CutLimit) -> Cut:
    """As :meth:`Follower.cut`, by a scan of the addresses and lengths in ``split``, which has an end: as much of it as
    fits, and one record more."""
    assert split.end is not None
    count = size = 0
    for addresses, lengths in _measured(store, split, limit):
        sizes = list(accumulate(lengths, initial=size))
        fits = len(lengths)
        if limit.byte_count is not None:
            fits = max(bisect_right(sizes, limit.byte_count) - 1, 0 if count else 1)
        if limit.records is not None:
            fits = min(fits, limit.records - count)
        if fits < len(lengths):
            return Cut(addresses[fits], count + fits, sizes[fits])
        count, size = count + fits, sizes[-1]
    return Cut(split.end, count, size)


def _measured(store: Store, split: Split, limit: CutLimit) -> Iterator[tuple[list[int], list[int]]]:
    """Addresses and lengths of records, piece by piece. Of two columns that make an address the first is above 32 bits
    of the second."""
    rows = CUT_ROWS if limit.records is None else min(CUT_ROWS, limit.records + 1)
    *high, low = store.address_columns
    for batch in store.scan_split(split, columns=[*high, low, "length"], max_rows=rows, on_fault=_pass):
        addresses = batch.data[low].to_list(batch.row_count)
        for name in high:
            addresses = [a << 32 | b for a, b in zip(batch.data[name].to_list(batch.row_count), addresses, strict=True)]
        yield addresses, batch.data["length"].to_list(batch.row_count)


def _pass(fault: Fault) -> None:
    """Damage is told by those who read the part."""


class StoreFollower(Follower):
    """Follows a store of any family by looking at its streams anew: each look costs what ``ls`` costs."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def poll(self) -> dict[str, StreamExtent]:
        """See :meth:`Follower.poll`. Streams of which no end is known are left out."""
        self._store.storage.forget()
        found = {}
        for info in self._store.streams():
            if info.end is not None:
                end = self._store.parse_address(info.end)
                first = None if info.first is None else self._store.parse_address(info.first)
                found[info.name] = StreamExtent(end if info.record_count == 0 else first or 0, end)
        return found

    def cut(self, stream: str, start: int, end: int, limit: CutLimit) -> Cut:
        """By a scan."""
        return cut_by_scan(self._store, Split(stream, start, end, 0), limit)

    def splits(self, stream: str, start: int, end: int, *, split_bytes: int = DEFAULT_SPLIT_BYTES) -> list[Split]:
        """Those of the store."""
        return self._store.splits(stream, start=start, end=end, split_bytes=split_bytes)

    def parse_address(self, text: str) -> int:
        """As the store does."""
        return self._store.parse_address(text)

    def format_address(self, address: int) -> str:
        """As the store does."""
        return self._store.format_address(address)

    def close(self) -> None:
        """Close the store."""
        self._store.close()
