"""What each task reads: splits of stores, several to a partition, as even as they can be dealt out."""

from __future__ import annotations

import fnmatch
import heapq
import logging
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql.datasource import InputPartition

from everlog.core.store import Split, Store, StreamInfo
from everlog.errors import CorruptData, EverlogError, UnknownStream, UnsupportedVersion
from everlog.spark.discovery import FoundStore
from everlog.spark.options import SKIP, ScanOptions
from everlog.spark.schema import FamilyOptions
from everlog.stores import open_store

MIN_PARTITION_BYTES = 16 << 20
MAX_PARTITION_BYTES = 512 << 20
"""An empty task costs about 0.1 s, in which tens of MiB are read: below the first bound a second task does not pay,
and above the second a lost task costs too much."""

LOG = logging.getLogger("everlog.spark")


@dataclass(frozen=True, slots=True)
class StoreSplits:
    """Splits of one store and how to open it."""

    store: FoundStore
    options: Mapping[str, Any]
    splits: tuple[Split, ...]


class StorePartition(InputPartition):  # type: ignore[misc]
    """All that a task needs: it reads the splits in order. Spark sends it, pickled, to where the task runs."""

    def __init__(self, index: int, parts: tuple[StoreSplits, ...]) -> None:
        super().__init__(index)
        self.parts = parts

    @property
    def byte_count(self) -> int:
        """Estimate of the work."""
        return sum(split.byte_count for part in self.parts for split in part.splits)


def plan(stores: list[FoundStore], scan: ScanOptions, options: FamilyOptions) -> list[StorePartition]:
    """Partitions that hold every record of the query once. Raises :class:`UnknownStream` when no store has a stream
    that was asked for."""
    found: list[tuple[FoundStore, Split]] = []
    matched: set[str] = set()
    names: list[str] = []
    for store in stores:
        try:
            with open_store(store.path, family=store.family, **options[store.family]) as opened:
                streams = opened.streams(include_all=scan.include_all)
                names += [stream.name for stream in streams]
                chosen = list(_chosen(streams, scan, matched))
                found += [(store, split) for split in _splits(opened, chosen, scan)]
        except (CorruptData, UnsupportedVersion) as error:
            if scan.on_fault != SKIP:
                raise _at_store(store, error) from error
            LOG.warning("%s left out: %s", store.path, error)
    if missing := [pattern for pattern in scan.streams if pattern not in matched]:
        raise UnknownStream(
            "stream", found=", ".join(map(repr, missing)), expected=f"a name or pattern of {_few(names)}"
        )
    return deal(found, scan, options)


def _at_store(store: FoundStore, error: EverlogError) -> EverlogError:
    if error.where.startswith(store.path):
        return error
    return type(error)(
        f"{store.path}/{error.where}", offset=error.offset, found=error.found, expected=error.expected, hint=error.hint
    )


def _few(names: list[str]) -> str:
    distinct = sorted(set(names))
    return ", ".join(distinct[:20]) + (f" and {len(distinct) - 20} more" if len(distinct) > 20 else "") or "no streams"


def _chosen(streams: list[StreamInfo], scan: ScanOptions, matched: set[str]) -> Iterator[StreamInfo]:
    for stream in streams:
        fitting = [p for p in scan.streams if p == stream.name or fnmatch.fnmatchcase(stream.name, p)]
        matched.update(fitting)
        if fitting or not scan.streams:
            yield stream


def _splits(store: Store, streams: list[StreamInfo], scan: ScanOptions) -> Iterator[Split]:
    start = None if scan.start is None else store.parse_address(scan.start)
    end = None if scan.end is None else store.parse_address(scan.end)
    for stream in streams:
        if scan.has_time_range and not _may_be_in_time(stream, scan):
            continue
        yield from store.splits(stream.name, start=start, end=end, split_bytes=scan.split_bytes)


def _may_be_in_time(stream: StreamInfo, scan: ScanOptions) -> bool:
    """Whether a stream's descriptor, where it tells when the stream began and ended, leaves room for records in the
    range."""
    began, ended = stream.details.get("start_timestamp"), stream.details.get("stop_timestamp")
    after = isinstance(ended, int) and ended > 0 and scan.start_ns is not None and (ended + 1) * 10**6 <= scan.start_ns
    before = isinstance(began, int) and began > 0 and scan.end_ns is not None and began * 10**6 >= scan.end_ns
    return not (after or before)


def partition_count(byte_count: int, split_count: int, wanted: int | None = None, cores: int | None = None) -> int:
    """How many partitions to make: near the count of cores, fewer for little data, more for very much."""
    if wanted is None:
        cores = cores or os.cpu_count() or 1
        wanted = max(min(cores, byte_count // MIN_PARTITION_BYTES), -(-byte_count // MAX_PARTITION_BYTES))
    return max(1, min(wanted, split_count))


def deal(found: list[tuple[FoundStore, Split]], scan: ScanOptions, options: FamilyOptions) -> list[StorePartition]:
    """Largest first to the partition that has least; inside a partition in the order they were found."""
    if not found:
        return []
    total = sum(split.byte_count for _, split in found)
    count = partition_count(total, len(found), scan.partitions)
    heap = [(0, index) for index in range(count)]
    hands: list[list[int]] = [[] for _ in range(count)]
    for number in sorted(range(len(found)), key=lambda n: (-found[n][1].byte_count, n)):
        held, index = heapq.heappop(heap)
        hands[index].append(number)
        # Each split counts a little, so that many empty ones are dealt out too.
        heapq.heappush(heap, (held + found[number][1].byte_count + 4096, index))
    return [
        StorePartition(index, _by_store([found[n] for n in sorted(hand)], options)) for index, hand in enumerate(hands)
    ]


def _by_store(hand: list[tuple[FoundStore, Split]], options: FamilyOptions) -> tuple[StoreSplits, ...]:
    stores: dict[FoundStore, list[Split]] = {}
    for store, split in hand:
        stores.setdefault(store, []).append(split)
    return tuple(StoreSplits(store, options[store.family], tuple(splits)) for store, splits in stores.items())
