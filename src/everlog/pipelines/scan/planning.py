"""Plans what each task reads: splits of stores, distributed evenly over partitions."""

from __future__ import annotations

import fnmatch
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from everlog.core.concurrent_map import concurrent_map
from everlog.core.splits import Split, may_hold
from everlog.core.store import Store, StreamInfo
from everlog.discovery import FoundStore
from everlog.errors import (
    CorruptData,
    EverlogError,
    FileChanged,
    StoreUnavailable,
    UnknownStream,
    UnsupportedVersion,
)
from everlog.pipelines.balance import balance
from everlog.pipelines.scan.columns import FamilyOptions, sbe_columns
from everlog.pipelines.scan.options import TIMESTAMP_FROM, ScanOptions
from everlog.pipelines.scan.store_errors import at_store, is_left_out
from everlog.stores import open_store

MIN_PARTITION_BYTES = 16 << 20
MAX_PARTITION_BYTES = 512 << 20
"""An empty task costs about 0.1 s, the time to read tens of MiB: below the first bound a second task does not pay, and
above the second a lost task costs too much."""

TIME_SPLIT_BYTES = 4 << 20
MAX_TIME_SPLITS = 65_536
"""With a time range, a stream is split into parts of this size, but into no more than this many."""

LOG = logging.getLogger("everlog.spark")


@dataclass(frozen=True, slots=True)
class StoreSplits:
    """Splits of one store, and the options for opening it."""

    store: FoundStore
    options: Mapping[str, Any]
    splits: tuple[Split, ...]


@dataclass(frozen=True, slots=True)
class ScanTask:
    """What one task reads, in order. ``faults`` were found while the query was planned; a table of faults includes
    them."""

    parts: tuple[StoreSplits, ...]
    faults: tuple[dict[str, Any], ...] = ()

    @property
    def byte_count(self) -> int:
        """Estimate of the work in bytes."""
        return sum(split.byte_count for part in self.parts for split in part.splits)


OnError = Callable[[FoundStore, EverlogError], None]
"""Called for a store that can't be planned and is left out."""


def plan(
    stores: list[FoundStore], scan: ScanOptions, options: FamilyOptions, on_error: OnError | None = None
) -> list[ScanTask]:
    """Partitions that together hold every record of the query once. Damaged and vanished stores are errors or are left
    out, as the options say; with ``on_error`` they are passed to it instead. Raises :class:`UnknownStream` if no store
    has a requested stream, unless a store that may have it is left out."""
    found: list[tuple[FoundStore, Split]] = []
    matched: set[str] = set()
    names: list[str] = []
    is_all_known = True
    wanted: list[FoundStore] = []
    others: list[FoundStore] = []
    for store in stores:
        (wanted if scan.bounds.may_hold("store", store.path) else others).append(store)
    for store, seen in _inspect_all(wanted, scan, options):
        if isinstance(seen, EverlogError):
            _left_out(store, seen, is_left_out(scan, seen), on_error)
            is_all_known = False
            continue
        names += seen.names
        matched |= seen.matched
        found += [(store, split) for split in seen.splits]
    if is_all_known and (missing := [pattern for pattern in scan.streams if pattern not in matched]):
        # A name is valid if a store that a filter excludes has it.
        _check_names(missing, names, _inspect_all(others, scan, options))
    return balanced_tasks(found, scan, options)


def _inspect_all(
    stores: list[FoundStore], scan: ScanOptions, options: FamilyOptions
) -> Iterator[tuple[FoundStore, _Inspected | EverlogError]]:
    inspected = concurrent_map(lambda store: _inspect(store, scan, options), stores, (store.path for store in stores))
    return zip(stores, inspected, strict=True)


def _check_names(
    missing: list[str], names: list[str], others: Iterator[tuple[FoundStore, _Inspected | EverlogError]]
) -> None:
    """Raise :class:`UnknownStream` for patterns that match no stream of the ``others`` either."""
    for _, seen in others:
        if isinstance(seen, EverlogError):
            return  # it may have them, and the query does not read it
        names += seen.names
        missing = [pattern for pattern in missing if pattern not in seen.matched]
        if not missing:
            return
    found = ", ".join(map(repr, missing))
    message = f"no stream {found}; the stores have {_few(names)}"
    raise UnknownStream("stream", found=found, expected=f"a name or pattern of {_few(names)}", message=message)


@dataclass(frozen=True, slots=True)
class _Inspected:
    """What a store has: the names of its streams, the requested patterns that match some, the splits of the selected
    streams."""

    names: list[str]
    matched: set[str]
    splits: list[Split]


def _inspect(store: FoundStore, scan: ScanOptions, options: FamilyOptions) -> _Inspected | EverlogError:
    """Inspect a store. Its errors are returned: of stores inspected concurrently, the first error in order counts."""
    matched: set[str] = set()
    try:
        with open_store(store.path, family=store.family, **options[store.family]) as opened:
            streams = opened.planned_streams(include_all=scan.include_all)
            chosen = list(_chosen(streams, scan, matched))
            return _Inspected([stream.name for stream in streams], matched, list(_splits(opened, chosen, scan)))
    except (CorruptData, UnsupportedVersion, StoreUnavailable, FileChanged) as error:
        return error


def _left_out(store: FoundStore, error: EverlogError, is_allowed: bool, on_error: OnError | None) -> None:
    if on_error is not None:
        on_error(store, error)
    elif is_allowed:
        LOG.warning("%s left out: %s", store.path, error)
    else:
        raise at_store(store, error) from error


def _few(names: list[str]) -> str:
    distinct = sorted(set(names))
    return ", ".join(distinct[:20]) + (f" and {len(distinct) - 20} more" if len(distinct) > 20 else "") or "no streams"


def _chosen(streams: list[StreamInfo], scan: ScanOptions, matched: set[str]) -> Iterator[StreamInfo]:
    for stream in streams:
        fitting = [p for p in scan.streams if p == stream.name or fnmatch.fnmatchcase(stream.name, p)]
        matched.update(fitting)
        if (fitting or not scan.streams) and scan.bounds.may_hold("stream", stream.name):
            yield stream


def _column_names(store: Store, scan: ScanOptions) -> set[str]:
    """All columns in which rows of the store may have a value."""
    sbe = sbe_columns(scan)
    own = {column.name for column in store.schema(level=scan.level)}
    return own if sbe is None else own | {column.name for column in sbe.columns}


def _splits(store: Store, streams: list[StreamInfo], scan: ScanOptions) -> Iterator[Split]:
    if not scan.bounds.fits(store, _column_names(store, scan)):
        return
    start = None if scan.start is None else store.parse_address(scan.start)
    end = None if scan.end is None else store.parse_address(scan.end)
    start, end = scan.bounds.range(store, start, end)
    if start is not None and end is not None and start >= end:
        return
    for stream in streams:
        if scan.has_time_range:
            if TIMESTAMP_FROM in scan.family_options or _may_be_in_time(stream, scan):
                yield from _splits_in_time(store, stream, start, end, scan)
        else:
            yield from store.splits(stream.name, start=start, end=end, split_bytes=scan.split_bytes)


def _splits_in_time(
    store: Store, stream: StreamInfo, start: int | None, end: int | None, scan: ScanOptions
) -> list[Split]:
    """Small splits, without those that can't hold records in the range; large splits if none can be left out."""
    small = min(scan.split_bytes, max(TIME_SPLIT_BYTES, stream.byte_count // MAX_TIME_SPLITS))
    splits = store.splits(stream.name, start=start, end=end, split_bytes=small)
    times = store.split_times(splits) if splits else []
    kept = may_hold(splits, times, scan.start_ns, scan.end_ns, scan.slack_ns)
    if len(kept) < len(splits) or small == scan.split_bytes:
        return kept
    return store.splits(stream.name, start=start, end=end, split_bytes=scan.split_bytes)


def _may_be_in_time(stream: StreamInfo, scan: ScanOptions) -> bool:
    """Whether the start and stop times in a stream's descriptor, if there are any, allow records in the range."""
    began, ended = stream.details.get("start_timestamp"), stream.details.get("stop_timestamp")
    after = isinstance(ended, int) and ended > 0 and scan.start_ns is not None and (ended + 1) * 10**6 <= scan.start_ns
    before = isinstance(began, int) and began > 0 and scan.end_ns is not None and began * 10**6 >= scan.end_ns
    return not (after or before)


def partition_count(byte_count: int, split_count: int, wanted: int | None = None, cores: int | None = None) -> int:
    """The number of partitions: near the number of cores, fewer for little data, more for very much."""
    if wanted is None:
        cores = cores or os.cpu_count() or 1
        wanted = max(min(cores, byte_count // MIN_PARTITION_BYTES), -(-byte_count // MAX_PARTITION_BYTES))
    return max(1, min(wanted, split_count))


def balanced_tasks(found: list[tuple[FoundStore, Split]], scan: ScanOptions, options: FamilyOptions) -> list[ScanTask]:
    """Distribute splits over tasks of about the same size, the largest first; a task keeps the order of ``found``."""
    if not found:
        return []
    total = sum(split.byte_count for _, split in found)
    count = partition_count(total, len(found), scan.partitions)
    groups = balance(found, lambda pair: pair[1].byte_count, count)
    return [ScanTask(_by_store(group, options)) for group in groups]


def _by_store(group: list[tuple[FoundStore, Split]], options: FamilyOptions) -> tuple[StoreSplits, ...]:
    stores: dict[FoundStore, list[Split]] = {}
    for store, split in group:
        stores.setdefault(store, []).append(split)
    return tuple(StoreSplits(store, options[store.family], tuple(splits)) for store, splits in stores.items())
