"""Following a store that others write: how far each stream has grown, and where a part of it may end.

A :class:`Follower` remembers how far it has got, so that polling costs what is new, not what exists. It only reads. A
record that is still being written does not count: every address that a follower returns is that of a record, or the end
after the last complete one.
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
"""Records per batch while the size of a part is measured."""


@dataclass(frozen=True, slots=True)
class StreamExtent:
    """The part of a stream that exists: records with ``first <= address < end``. ``is_unknown``: the stream is empty
    and the store does not know what it held. ``is_rewritten``: since the last poll it was cut and has grown past its
    old end again. ``was_recreated``: the stream was recreated since the last poll."""

    first: int
    end: int
    is_unknown: bool = False
    is_rewritten: bool = False
    was_recreated: bool = False


@dataclass(frozen=True, slots=True)
class Cut:
    """A part of a stream that ends before ``address``. The counts are 0 if only reading would determine them."""

    address: int
    record_count: int
    byte_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CutLimit:
    """Upper limits of a part; ``None``: unlimited. One record is always taken, whatever its size."""

    records: int | None = None
    byte_count: int | None = None


class Follower(ABC):
    """Follows one store. Not thread-safe."""

    @abstractmethod
    def poll(self) -> dict[str, StreamExtent]:
        """The streams as they are now. Raises :class:`~everlog.errors.StoreUnavailable` if the store is gone."""

    @abstractmethod
    def cut(self, stream: str, start: int, end: int, limit: CutLimit) -> Cut:
        """Where a part that begins at ``start`` must end to keep to the limit, at most ``end``. The part has at least
        one record, if one exists."""

    @abstractmethod
    def splits(self, stream: str, start: int, end: int, *, split_bytes: int = DEFAULT_SPLIT_BYTES) -> list[Split]:
        """As :meth:`Store.splits`, for bounds that this follower returned."""

    @abstractmethod
    def parse_address(self, text: str) -> int:
        """As :meth:`Store.parse_address`."""

    @abstractmethod
    def format_address(self, address: int) -> str:
        """As :meth:`Store.format_address`."""

    def is_complete(self, stream: str, address: int) -> bool:
        """Whether a stream that ``poll`` did not find is known to have had nothing from ``address`` on."""
        return False

    def align(self, stream: str, address: int, extent: StreamExtent) -> int:
        """The first address from ``address`` on at which a record begins, or the end. By default any will do."""
        return min(max(address, extent.first), extent.end)

    def restart(self, address: int, extent: StreamExtent) -> int:
        """Where a reader that had reached ``address`` goes on when the stream now ends before it. By default at the
        first record: the stream was recreated."""
        return extent.first

    def byte_count(self, stream: str, start: int, end: int) -> int | None:
        """Approximate bytes between two addresses; ``None`` if only reading would determine them."""
        return None

    def record_count(self, stream: str, start: int, end: int) -> int | None:
        """Approximate records between two addresses; ``None`` if only reading would determine them."""
        return None

    def close(self) -> None:  # noqa: B027 - most followers keep nothing open
        """Release what is open."""


def cut_by_scan(store: Store, split: Split, limit: CutLimit) -> Cut:
    """As :meth:`Follower.cut`, by scanning the addresses and lengths in ``split``, which must have an end. Reads what
    fits and one record more."""
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
    """Batches of record addresses and lengths. If two columns make an address, the first is the upper 32 bits."""
    rows = CUT_ROWS if limit.records is None else min(CUT_ROWS, limit.records + 1)
    *high, low = store.address_columns
    for batch in store.scan_split(split, columns=[*high, low, "length"], max_rows=rows, on_fault=_ignore):
        addresses = batch.data[low].to_list(batch.row_count)
        for name in high:
            addresses = [a << 32 | b for a, b in zip(batch.data[name].to_list(batch.row_count), addresses, strict=True)]
        yield addresses, batch.data["length"].to_list(batch.row_count)


def _ignore(fault: Fault) -> None:
    """Drop a fault here: the reader of the part reports it."""


class StoreFollower(Follower):
    """Follows a store of any family by listing its streams again: each poll costs as much as ``ls``."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def poll(self) -> dict[str, StreamExtent]:
        """See :meth:`Follower.poll`. Streams whose end is unknown are left out."""
        self._store.storage.forget()
        found = {}
        for info in self._store.streams():
            if info.end is not None:
                end = self._store.parse_address(info.end)
                first = None if info.first is None else self._store.parse_address(info.first)
                found[info.name] = StreamExtent(end if info.record_count == 0 else first or 0, end)
        return found

    def cut(self, stream: str, start: int, end: int, limit: CutLimit) -> Cut:
        """See :meth:`Follower.cut`; scans the part."""
        return cut_by_scan(self._store, Split(stream, start, end, 0), limit)

    def splits(self, stream: str, start: int, end: int, *, split_bytes: int = DEFAULT_SPLIT_BYTES) -> list[Split]:
        return self._store.splits(stream, start=start, end=end, split_bytes=split_bytes)

    def parse_address(self, text: str) -> int:
        return self._store.parse_address(text)

    def format_address(self, address: int) -> str:
        return self._store.format_address(address)

    def close(self) -> None:
        """Close the store."""
        self._store.close()
