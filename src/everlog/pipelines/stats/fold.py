"""Folds one stream's records into a few numbers for each bucket, with arrays: a task of ``stats`` does this with each
batch. Nothing here depends on Spark, and only numbers are kept of a record.

A bucket is a range of time, or of addresses for records without a time. Sizes and intervals are counted by value,
rounded down to 10 significant bits (at most 0.2 % below), so that percentiles over any buckets can be computed from
counts. Least and greatest values are exact.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

SIGNIFICANT_BITS = 10
CODE_BITS = 17
MAX_BUCKET = 1 << 45
"""Larger bucket numbers, which only damaged times and positions have, become the last one."""
MAX_GAPS = 10_000
"""Most gaps of one split; further ones are only counted."""
WAITING_ROWS = 1 << 19
"""Rows that may wait before they are added up with earlier ones."""
NO_LEAST, NO_MOST = (1 << 63) - 1, -(1 << 63)
"""Placeholders for missing least and greatest values."""


def encode(values: Int64s) -> Int64s:
    """Encode non-negative values as codes below 2**17 that keep their 10 highest bits."""
    bits = np.frexp(values.astype(np.float64))[1].astype(np.int64)
    shift = np.maximum(bits - SIGNIFICANT_BITS, 0)
    return (shift << SIGNIFICANT_BITS) + (values >> shift)


def decode(codes: Int64s) -> Int64s:
    """The least value of each code."""
    return (codes & ((1 << SIGNIFICANT_BITS) - 1)) << (codes >> SIGNIFICANT_BITS)


class Groups:
    """Columns of numbers reduced by key, batch by batch: ``reducers`` has one of ``np.add``, ``np.minimum``,
    ``np.maximum`` for each column."""

    def __init__(self, *reducers: np.ufunc) -> None:
        self._reducers = reducers
        self._held: list[tuple[Int64s, list[Int64s]]] = []
        self._waiting = 0

    def add(self, keys: Int64s, *columns: Int64s) -> None:
        """Add a row for each key; keys may repeat, in any order."""
        if not len(keys):
            return
        self._held.append(self._reduce(keys, columns))
        self._waiting += len(self._held[-1][0])
        if self._waiting > max(WAITING_ROWS, len(self._held[0][0])):
            self.rows()

    def rows(self) -> tuple[Int64s, list[Int64s]]:
        """All keys in ascending order, and their columns."""
        if not self._held:
            return np.zeros(0, np.int64), [np.zeros(0, np.int64) for _ in self._reducers]
        if len(self._held) > 1:
            keys = np.concatenate([keys for keys, _ in self._held])
            columns = [np.concatenate(parts) for parts in zip(*(c for _, c in self._held), strict=True)]
            self._held = [self._reduce(keys, columns)]
        self._waiting = 0
        return self._held[0]

    def _reduce(self, keys: Int64s, columns: Sequence[Int64s]) -> tuple[Int64s, list[Int64s]]:
        if not (keys[1:] >= keys[:-1]).all():
            order = np.argsort(keys, kind="stable")
            keys, columns = keys[order], [column[order] for column in columns]
        starts = _starts(keys)
        reduced = [reducer.reduceat(column, starts) for reducer, column in zip(self._reducers, columns, strict=True)]
        return keys[starts], reduced


def _starts(keys: Int64s) -> npt.NDArray[np.intp]:
    """Where each run of equal keys begins."""
    return np.flatnonzero(np.concatenate((np.ones(min(len(keys), 1), np.bool_), keys[1:] != keys[:-1])))


class Counts:
    """The count of each value in each bucket."""

    def __init__(self) -> None:
        self._groups = Groups(np.add)

    def add(self, buckets: Int64s, values: Int64s) -> None:
        """Add a non-negative value for each bucket number."""
        keys = np.sort((buckets << CODE_BITS) | encode(values))  # much faster than sorting rows
        starts = _starts(keys)
        self._groups.add(keys[starts], np.diff(starts, append=len(keys)))

    def rows(self) -> tuple[Int64s, Int64s, Int64s]:
        """Bucket numbers, values, counts."""
        keys, (counts,) = self._groups.rows()
        return keys >> CODE_BITS, decode(keys & ((1 << CODE_BITS) - 1)), counts


TOTALS = ("records", "bytes", "smallest", "largest", "first_ns", "last_ns", "shortest_ns", "longest_ns", "backwards")
_TOTALS = (np.add, np.add, np.minimum, np.maximum, np.minimum, np.maximum, np.minimum, np.maximum, np.add)


class Buckets:
    """The numbers of each bucket of one axis: the columns :data:`TOTALS`, and counts of sizes and intervals.
    ``shortest_ns`` and ``longest_ns`` are intervals between a record and the one before it; ``backwards`` counts
    records that are older than the one before."""

    def __init__(self, width: int) -> None:
        self.width = width
        self.totals = Groups(*_TOTALS)
        self.sizes = Counts()
        self.intervals = Counts()

    def add(self, along: Int64s, lengths: Int64s, before: Int64s | None = None, is_behind: Bools | None = None) -> None:
        """Add records at times or addresses ``along``. For times, ``before`` is the time of the record before each,
        valid if ``is_behind`` is set."""
        buckets = np.clip(along // self.width, -MAX_BUCKET, MAX_BUCKET)
        ones = np.ones(len(buckets), np.int64)
        self.sizes.add(buckets, lengths)
        low, high = ones * NO_LEAST, ones * NO_MOST
        if before is None or is_behind is None:
            self.totals.add(buckets, ones, lengths, lengths, lengths, low, high, low, high, ones * 0)
            return
        between = along - before
        is_forward = is_behind & (between >= 0)
        is_backward = is_behind & (between < 0)
        self.intervals.add(buckets[is_forward], between[is_forward])
        shortest, longest = np.where(is_forward, between, NO_LEAST), np.where(is_forward, between, NO_MOST)
        backwards = is_backward.astype(np.int64)
        self.totals.add(buckets, ones, lengths, lengths, lengths, along, along, shortest, longest, backwards)

    def add_interval(self, at_ns: int, between_ns: int) -> None:
        """Add the interval between the last record of one split and the first of the next."""
        bucket = np.clip(np.array([at_ns // self.width], np.int64), -MAX_BUCKET, MAX_BUCKET)
        low, high, none, one = (np.array([value], np.int64) for value in (NO_LEAST, NO_MOST, 0, 1))
        if between_ns < 0:
            self.totals.add(bucket, none, none, low, high, low, high, low, high, one)
            return
        between = np.array([between_ns], np.int64)
        self.intervals.add(bucket, between)
        self.totals.add(bucket, none, none, low, high, low, high, between, between, none)


@dataclass(frozen=True, slots=True)
class Gap:
    """Missing addresses between two existing records, and their number."""

    after: int
    before: int
    missing: int
    after_ns: int | None
    before_ns: int | None


@dataclass(frozen=True, slots=True)
class Record:
    """A record's address and time."""

    address: int
    time_ns: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Records:
    """A batch of one stream's records, in order. ``times`` are nanoseconds since 1970, valid if ``timed`` is set;
    ``clients`` are the senders' numbers, if the family has them (0: none)."""

    addresses: Int64s
    lengths: Int64s
    times: Int64s
    timed: Bools
    clients: Int64s | None = None

    def where(self, keep: Bools) -> Records:
        """The selected records."""
        if keep.all():
            return self
        clients = None if self.clients is None else self.clients[keep]
        times, timed = self.times[keep], self.timed[keep]
        return Records(
            addresses=self.addresses[keep], lengths=self.lengths[keep], times=times, timed=timed, clients=clients
        )

    def record(self, index: int) -> Record:
        """The record at an index."""
        time = int(self.times[index]) if self.timed[index] else None
        return Record(int(self.addresses[index]), time)


MissingBetween = Callable[[int, int], int]
"""Returns how many records are missing between two consecutive addresses of a stream."""


@dataclass(slots=True, kw_only=True)
class StreamFold:
    """Folds one stream's records, batch after batch, in order. ``missing`` finds gaps; it is ``None`` if addresses need
    not be consecutive (Aeron: there may be padding between two messages). ``start_ns`` and ``end_ns`` are a time range,
    see :meth:`add`. ``ends_ns``: the times of the first and the last record that has one, each ``None`` if it is out of
    the range; ``None`` before there is any."""

    by_time: Buckets
    by_position: Buckets
    missing: MissingBetween | None = None
    start_ns: int | None = None
    end_ns: int | None = None
    first: Record | None = None
    last: Record | None = None
    ends_ns: tuple[int | None, int | None] | None = None
    gaps: list[Gap] = field(default_factory=list)
    gap_count: int = 0
    clients: Groups = field(default_factory=lambda: Groups(np.add, np.add))

    def add(self, records: Records) -> None:
        """Add records. Those outside the time range are only searched for gaps; those without a time always count as
        inside. An interval counts if both records are in the range and no other record with a time is between them."""
        if not len(records.addresses):
            return
        self._find_gaps(records)
        self.first = self.first or records.record(0)
        self.last = records.record(-1)
        timed = records.where(records.timed)
        if len(timed.times):
            self._add_timed(timed)
        records = self._in_range(records)
        rest = records.where(~records.timed)
        if len(rest.addresses):
            self.by_position.add(rest.addresses, rest.lengths)
        if records.clients is not None and len(records.clients):
            ones = np.ones(len(records.clients), np.int64)
            self.clients.add(records.clients, ones, records.lengths)

    def _add_timed(self, timed: Records) -> None:
        times, keep = timed.times, self._is_in_range(timed)
        first_ns, last_ns = self.ends_ns or (None, None)
        before = np.concatenate(([times[0] if last_ns is None else last_ns], times[:-1]))
        is_behind = np.concatenate(([last_ns is not None], keep[:-1]))
        if keep.any():
            self.by_time.add(times[keep], timed.lengths[keep], before[keep], is_behind[keep])
        if self.ends_ns is None:
            first_ns = int(times[0]) if keep[0] else None
        self.ends_ns = first_ns, int(times[-1]) if keep[-1] else None

    def _in_range(self, records: Records) -> Records:
        return records.where(self._is_in_range(records))

    def _is_in_range(self, records: Records) -> Bools:
        keep = np.ones(len(records.times), np.bool_)
        if self.start_ns is not None:
            keep &= ~records.timed | (records.times >= self.start_ns)
        if self.end_ns is not None:
            keep &= ~records.timed | (records.times < self.end_ns)
        return keep

    def _find_gaps(self, records: Records) -> None:
        if self.missing is None:
            return
        addresses = records.addresses
        for index in np.flatnonzero(addresses[1:] - addresses[:-1] != 1).tolist():
            self._gap(records.record(index), records.record(index + 1))
        if self.last is not None:
            self._gap(self.last, records.record(0))

    def _gap(self, after: Record, before: Record) -> None:
        assert self.missing is not None
        count = self.missing(after.address, before.address)
        if count:
            self.gap_count += 1
            if len(self.gaps) < MAX_GAPS:
                self.gaps.append(Gap(after.address, before.address, count, after.time_ns, before.time_ns))
