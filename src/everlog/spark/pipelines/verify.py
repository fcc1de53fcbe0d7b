"""Verify many stores in one Spark job: a row for each store, its faults in it. A large store is checked by several
tasks where its family's checks can be parted."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from everlog.core.report import Report, Severity, VerifyPart
from everlog.core.verification import join
from everlog.errors import EverlogError
from everlog.spark.discovery import FoundStore, find_stores
from everlog.spark.options import ScanOptions, parse_options
from everlog.spark.pipelines.spread import TASKS_PER_CORE, spread
from everlog.stores import open_store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_FAULT = (
    "code string, severity string, file string, offset bigint, found string, expected string, loses string, "
    "repair string, stream string, address string"
)
SCHEMA = (
    "store string, family string, ok boolean, streams bigint, segments bigint, records bigint, bytes bigint, "
    f"error string, faults array<struct<{_FAULT.replace(' ', ':').replace(',:', ',')}>>"
)
"""``error`` is why a store could not be opened at all, else null. ``records`` and ``bytes`` are of what was found
whole."""

MAX_FAULTS = 10_000
"""Of one part of a store, so that one that is all damage does not fill a task's memory; ``ok`` counts all of them."""
SPLIT_BYTES = 256 << 20
"""About how much of a store one part checks."""


@dataclass(frozen=True, slots=True)
class StoreToVerify:
    """A store and its family's options. Keys are given as files or environment variables, never as such."""

    store: FoundStore
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Todo:
    """A part of the store number ``index``."""

    index: int
    store: StoreToVerify
    part: VerifyPart


_Found = tuple[_Todo, Report | None, str]
"""A part's report, or why there is none."""


def verify_stores(
    spark: SparkSession, stores: Iterable[StoreToVerify], *, tasks: int | None = None, split_bytes: int = SPLIT_BYTES
) -> DataFrame:
    """One row of :data:`SCHEMA` for each store, in any order. What there is to check is looked up now, on the driver;
    the stores are checked where Spark runs the tasks, when the result is asked for. ``tasks``: how many, ``None`` for
    some for each core."""
    context = spark.sparkContext
    todo = [part for index, store in enumerate(stores) for part in _parts(index, store, split_bytes)]
    count = tasks or context.defaultParallelism * TASKS_PER_CORE
    hands = spread(todo, lambda item: item.part.byte_count, count)
    checked = context.parallelize(hands, len(hands)).flatMap(_check)
    rows = checked.groupByKey(min(len(hands), context.defaultParallelism)).map(_row)
    return spark.createDataFrame(rows, SCHEMA)


def verify_paths(spark: SparkSession, paths: Sequence[str], options: Mapping[str, str]) -> DataFrame:
    """:func:`verify_stores` for all stores at or below the paths; ``options`` are the data source's. Raises
    :class:`NotAStore`, :class:`UsageError`."""
    return verify_stores(spark, stores_to_verify(parse_options({**options, "paths": json.dumps(list(paths))})))


def stores_to_verify(scan: ScanOptions) -> list[StoreToVerify]:
    """The stores that a query's paths lead to, with its options for their families."""
    from everlog.spark.schema import family_options

    stores = find_stores(scan.paths, scan.family)
    chosen = family_options(stores, scan)
    return [StoreToVerify(store, chosen[store.family]) for store in stores]


def _parts(index: int, store: StoreToVerify, split_bytes: int) -> list[_Todo]:
    """One that can't be opened is one part: the task tells why."""
    try:
        with open_store(store.store.path, family=store.store.family, **store.options) as opened:
            parts = opened.verify_parts(split_bytes)
    except EverlogError:
        parts = [VerifyPart(0)]
    return [_Todo(index, store, part) for part in parts]


def _check(hand: list[_Todo]) -> Iterator[tuple[int, _Found]]:
    """What a task does."""
    for todo in hand:
        try:
            with open_store(todo.store.store.path, family=todo.store.store.family, **todo.store.options) as store:
                report = store.verify_part(todo.part)
        except EverlogError as error:
            yield todo.index, (todo, None, str(error))
        else:
            yield todo.index, (todo, _bounded(report), "")


def _bounded(report: Report) -> Report:
    """At most so many faults, before notes."""
    if len(report.faults) > MAX_FAULTS:
        report.faults.sort(key=lambda fault: fault.severity is Severity.NOTE)
        del report.faults[MAX_FAULTS:]
    return report


def _row(item: tuple[int, Iterable[_Found]]) -> tuple[Any, ...]:
    """A store's row out of its parts. Damage never raises; a store that can't be opened is a row with an ``error``."""
    found = sorted(item[1], key=lambda one: (one[0].part.context is not None, repr(one[0].part.context)))
    todo = found[0][0].store
    empty: tuple[Any, ...] = (todo.store.path, todo.store.family, False, 0, 0, 0, 0)
    error = next((text for _, report, text in found if report is None), None)
    if error is not None:
        return (*empty, error, [])
    try:
        with open_store(todo.store.path, family=todo.store.family, **todo.options) as store:
            report = _bounded(join(store, [(part.part, report) for part, report, _ in found if report is not None]))
    except EverlogError as gone:
        return (*empty, str(gone), [])
    counts = report.stream_count, report.segment_count, report.record_count, report.byte_count
    faults = [tuple(fault.to_dict()[name] for name in _FIELDS) for fault in report.faults]
    return (todo.store.path, todo.store.family, report.ok, *counts, None, faults)


_FIELDS = [part.split()[0] for part in _FAULT.split(", ")]
