"""Verifies many stores in one Spark job, with a report for each. If a family's checks can be divided, several tasks
check a large store, and the driver combines their results."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from everlog.core.report import Report, Severity, VerifyPart
from everlog.core.verification import join, parts_to_repeat
from everlog.discovery import FoundStore, find_stores
from everlog.errors import EverlogError
from everlog.pipelines.balance import balance, task_count
from everlog.pipelines.scan.options import ScanOptions, parse_options
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
"""``error`` is why a store could not be opened at all, otherwise null. ``records`` and ``bytes`` count intact
records."""

MAX_FAULTS = 10_000
"""Most faults of one part of a store, so that a completely damaged one does not fill a task's memory; ``ok`` takes all
faults into account."""
SPLIT_BYTES = 256 << 20
"""About how much of a store one part checks."""


@dataclass(frozen=True, slots=True)
class StoreToVerify:
    """A store and its family's options. Keys are given as files or environment variables, never in plain text."""

    store: FoundStore
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Todo:
    """A part of the store number ``index``."""

    index: int
    store: StoreToVerify
    part: VerifyPart


_Found = tuple[_Todo, Report | str]
"""A part's report, or the error that prevented it."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What to check, determined on the driver."""

    stores: tuple[StoreToVerify, ...]
    todo: tuple[_Todo, ...]


def verify_paths(spark: SparkSession, paths: Sequence[str], options: Mapping[str, str]) -> DataFrame:
    """Check all stores at or below the paths now; a DataFrame with a row of :data:`SCHEMA` for each. ``options`` are
    the data source's. Raises :class:`NotAStore`, :class:`UsageError`."""
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from everlog.spark.struct_types import arrow_schema

    stores = stores_to_verify(parse_options({**options, "paths": json.dumps(list(paths))}))
    schema = StructType.fromDDL(SCHEMA)
    return spark.createDataFrame(pa.Table.from_pylist(verify_stores(spark, stores), arrow_schema(schema)), schema)


def verify_stores(
    spark: SparkSession, stores: Iterable[StoreToVerify], *, tasks: int | None = None, split_bytes: int = SPLIT_BYTES
) -> list[dict[str, Any]]:
    """Check the stores where Spark runs the tasks, and return a report for each, in their order, with the names of
    :data:`SCHEMA`. ``tasks``: the number of tasks, ``None`` for one that suits the cores and the size."""
    return check(spark, plan(stores, split_bytes), tasks)


def stores_to_verify(scan: ScanOptions) -> list[StoreToVerify]:
    """The stores of a query's paths, with its options for their families."""
    from everlog.pipelines.scan.columns import family_options

    stores = find_stores(scan.paths, scan.family)
    chosen = family_options(stores, scan)
    return [StoreToVerify(store, chosen[store.family]) for store in stores]


def plan(stores: Iterable[StoreToVerify], split_bytes: int = SPLIT_BYTES) -> Plan:
    """The stores' parts of about ``split_bytes``. The data to check is not read yet."""
    stores = tuple(stores)
    return Plan(stores, tuple(part for index, store in enumerate(stores) for part in _parts(index, store, split_bytes)))


def check(spark: SparkSession, plan: Plan, tasks: int | None = None) -> list[dict[str, Any]]:
    """See :func:`verify_stores`. If damage was found that may extend over several parts, a second job checks these in
    one piece."""
    found: list[list[_Found]] = [[] for _ in plan.stores]
    for todo, outcome in _run(spark, plan.todo, tasks):
        found[todo.index].append((todo, outcome))
    again = [_Todo(i, plan.stores[i], part) for i, parts in enumerate(found) for part in parts_to_repeat(_sound(parts))]
    repeated: list[list[_Found]] = [[] for _ in plan.stores]
    for todo, outcome in _run(spark, again, tasks):
        repeated[todo.index].append((todo, outcome))
    return [_row(*one) for one in zip(plan.stores, found, repeated, strict=True)]


def _parts(index: int, store: StoreToVerify, split_bytes: int) -> list[_Todo]:
    """A store's parts. A store that can't be opened is one part, whose task reports the error."""
    try:
        with open_store(store.store.path, family=store.store.family, **store.options) as opened:
            parts = opened.verify_parts(split_bytes)
    except EverlogError:
        parts = [VerifyPart(0)]
    return [_Todo(index, store, part) for part in parts]


def _run(spark: SparkSession, todo: Sequence[_Todo], tasks: int | None) -> list[_Found]:
    """Run one job; results are in the order of ``todo``."""
    if not todo:
        return []
    context = spark.sparkContext
    count = tasks or task_count(sum(item.part.byte_count for item in todo), len(todo), context.defaultParallelism)
    groups = balance(range(len(todo)), lambda number: todo[number].part.byte_count, count)
    dealt = [[(number, todo[number]) for number in group] for group in groups]
    outcomes = dict(context.parallelize(dealt, len(dealt)).flatMap(_check).collect())
    return [(item, outcomes[number]) for number, item in enumerate(todo)]


def _check(group: list[tuple[int, _Todo]]) -> Iterator[tuple[int, Report | str]]:
    """Check a task's parts. A store with several parts in the task is opened, and its catalog read, only once."""
    from everlog.spark.workers import freeze_gc

    freeze_gc()
    with contextlib.ExitStack() as opened:
        last, store = None, None
        for number, todo in group:
            try:
                if store is None or todo.store != last:
                    opened.close()
                    last, found = todo.store, todo.store.store
                    store = opened.enter_context(open_store(found.path, family=found.family, **last.options))
                outcome: Report | str = _bounded(store.verify_part(todo.part))
            except EverlogError as error:
                outcome, store = str(error), None
            yield number, outcome


def _bounded(report: Report) -> Report:
    """Limit the number of faults, dropping notes first."""
    if len(report.faults) > MAX_FAULTS:
        report.faults.sort(key=lambda fault: fault.severity is Severity.NOTE)
        del report.faults[MAX_FAULTS:]
    return report


def _sound(found: Sequence[_Found]) -> list[tuple[VerifyPart, Report]]:
    """The parts that could be checked."""
    return [(todo.part, outcome) for todo, outcome in found if isinstance(outcome, Report)]


def _row(store: StoreToVerify, found: Sequence[_Found], repeated: Sequence[_Found]) -> dict[str, Any]:
    """A store's report, combined from its parts'. Damage never raises; a store that can't be opened has an
    ``error``."""
    path, family = store.store.path, store.store.family
    error = next((outcome for _, outcome in (*found, *repeated) if isinstance(outcome, str)), None)
    report = Report(path, family) if error else _bounded(join(path, family, _sound(found), _sound(repeated)))
    return report.to_dict() | {"ok": error is None and report.ok, "error": error}
