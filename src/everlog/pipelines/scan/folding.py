"""A task of an aggregation: folds the batches of its splits into groups."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from everlog.core.batch import Batch
from everlog.core.columns import ColumnData, ColumnType
from everlog.pipelines.scan.aggregation import COUNT, MAX, MIN, SUM, Aggregation, Fold, Key
from everlog.pipelines.scan.arrow_batches import time_mask, to_array
from everlog.pipelines.scan.options import ScanOptions
from everlog.pipelines.scan.planning import ScanTask
from everlog.pipelines.scan.reading import scan_task

if TYPE_CHECKING:
    import pyarrow as pa

BATCH_ROWS = 65_536
"""More than for Spark: larger batches cost less to group."""
MAX_PARTIAL_ROWS = 1 << 17
"""Groups of several batches are kept separately up to this many rows of a stream, then merged."""
MAX_GROUPS = 1 << 18
"""With more groups than this over all streams, the task outputs them to bound its memory; Spark merges them."""
OUTPUT_ROWS = 16_384
CONSTANT = ("store", "family", "stream")
"""Columns with one value in a split, which need no grouping."""
_SAFE = (1 << 63) - 1


def fold_task(task: ScanTask, schema: pa.Schema, scan: ScanOptions) -> Iterator[pa.RecordBatch]:
    """Batches of groups with the columns of ``schema``: keys and partial results. A group may occur more than once.
    Damage and losses are errors or warnings, as for records."""
    wanted = scan.aggregation
    assert wanted is not None
    groups: dict[tuple[str, ...], _Groups] = {}
    total, limit = 0, MAX_GROUPS + MAX_PARTIAL_ROWS
    names = [name for name in wanted.columns if name not in CONSTANT]
    for part, split, batch in scan_task(task, names, scan, max_rows=BATCH_ROWS):
        known = (part.store.path, part.store.family, split.stream)
        constant = tuple(known[CONSTANT.index(key.column)] for key in wanted.keys if key.column in CONSTANT)
        held = groups.get(constant)
        if held is None:
            held = groups[constant] = _Groups(wanted, schema)
        before = held.row_count
        held.add(batch, scan)
        if held.row_count > MAX_PARTIAL_ROWS:
            held.merge()
        total += held.row_count - before
        if total > limit:
            total = _merge_all(groups)
            if total > MAX_GROUPS:
                yield from _give(groups, wanted, schema)
                groups.clear()
                total = 0
    yield from _give(groups, wanted, schema)


def _merge_all(groups: dict[tuple[str, ...], _Groups]) -> int:
    """Merge all groups; returns their number."""
    for held in groups.values():
        held.merge()
    return sum(held.row_count for held in groups.values())


def _give(groups: dict[tuple[str, ...], _Groups], wanted: Aggregation, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    for constant, held in groups.items():
        held.merge()
        for table in held.tables:
            given = iter(constant)
            arrays = []
            for key in wanted.keys:
                kind = schema.field(key.name).type
                is_constant = key.column in CONSTANT
                arrays.append(pa.repeat(pa.scalar(next(given), kind), len(table)) if is_constant else table[_key(key)])
            arrays += [table[fold.name] for fold in wanted.folds]
            yield from pa.table(arrays, schema=schema).combine_chunks().to_batches(OUTPUT_ROWS)


@dataclass(slots=True)
class _Groups:
    """Groups with the same constants: tables of partial results, merged from time to time."""

    wanted: Aggregation
    schema: pa.Schema
    tables: list[pa.Table] = field(default_factory=list)
    row_count: int = 0

    def add(self, batch: Batch, scan: ScanOptions) -> None:
        """Fold a batch."""
        import pyarrow as pa

        arrays: dict[str, Any] = {}
        for key in self._keys():
            arrays[_key(key)] = _key_array(key, batch, self.schema.field(key.name).type)
        for name in {fold.column for fold in self.wanted.folds if fold.column is not None}:
            arrays[name] = _value_array(name, batch)
        rows = pa.table(arrays) if arrays else pa.table({"nothing": pa.nulls(batch.row_count)})
        if scan.has_time_range:
            mask = time_mask(batch.data["timestamp_ns"], batch.row_count, scan.start_ns, scan.end_ns)
            rows = rows if mask is None else rows.filter(mask)
        if len(rows):
            self._keep(self._fold(rows))

    def _keys(self) -> list[Key]:
        return [key for key in self.wanted.keys if key.column not in CONSTANT]

    def _fold(self, rows: pa.Table) -> pa.Table:
        import pyarrow as pa

        asked: list[Any] = []
        for fold in self.wanted.folds:
            if fold.column is None:
                asked.append(([], "count_all"))
            elif fold.kind == SUM:
                rows = _made_safe(rows, fold)
                asked.append((_summed(fold), "sum"))
            elif fold.kind in (MIN, MAX) and pa.types.is_floating(rows[fold.column].type):
                rows = _without_nan(rows, fold)
                asked.append((_bounded(fold), fold.kind))
            else:
                asked.append((fold.column, fold.kind))
        keys = [_key(key) for key in self._keys()]
        found = rows.group_by(keys, use_threads=False).aggregate(asked)
        results = dict(zip(_result_names(asked), self.wanted.folds, strict=True))
        columns = {fold.name: found[name].cast(self.schema.field(fold.name).type) for name, fold in results.items()}
        return pa.table({**{name: found[name] for name in keys}, **columns})

    def _keep(self, found: pa.Table) -> None:
        self.tables.append(found)
        self.row_count += len(found)

    def merge(self) -> None:
        """Merge the tables into one."""
        import pyarrow as pa

        if len(self.tables) < 2:
            return
        kinds = {COUNT: "sum"}
        folds = self.wanted.folds
        asked = [(fold.name, kinds.get(fold.kind, fold.kind)) for fold in folds]
        keys = [_key(key) for key in self._keys()]
        found = pa.concat_tables(self.tables).group_by(keys, use_threads=False).aggregate(asked)
        columns = {
            fold.name: found[f"{fold.name}_{kind}"].cast(self.schema.field(fold.name).type)
            for fold, (_, kind) in zip(folds, asked, strict=True)
        }
        self.tables = [pa.table({**{name: found[name] for name in keys}, **columns})]
        self.row_count = len(self.tables[0])


def _result_names(asked: list[Any]) -> list[str]:
    return [how if not name else f"{name}_{how}" for name, how in asked]


def _key(key: Key) -> str:
    """A key's column name in tables; folds have their names of the schema there."""
    return f"key {key.name}"


def _summed(fold: Fold) -> str:
    return f"sum {fold.column}"


def _bounded(fold: Fold) -> str:
    return f"bounded {fold.column}"


def _without_nan(rows: pa.Table, fold: Fold) -> pa.Table:
    """Append the column for min and max with NaN replaced by null. Arrow skips NaN unless there is nothing else, and
    Spark, which merges, treats it as the largest number: without this, the result would depend on how the work is
    distributed."""
    import pyarrow.compute as pc

    name, values = _bounded(fold), rows[fold.column]
    if name in rows.column_names:
        return rows
    return rows.append_column(name, pc.if_else(pc.is_nan(values), None, values))


def _made_safe(rows: pa.Table, fold: Fold) -> pa.Table:
    """Append the column to sum, as decimals if the sum of integers may exceed 64 bits."""
    import pyarrow as pa
    import pyarrow.compute as pc

    values = rows[fold.column]
    if pa.types.is_integer(values.type):
        ends = pc.min_max(values).as_py()
        largest = max(abs(ends["min"] or 0), abs(ends["max"] or 0))
        if largest * len(rows) > _SAFE:
            values = values.cast(pa.decimal128(38, 0))
    elif pa.types.is_decimal(values.type):
        values = values.cast(pa.decimal128(38, 0))
    name = _summed(fold)
    return rows if name in rows.column_names else rows.append_column(name, values)


def _key_array(key: Key, batch: Batch, kind: pa.DataType) -> pa.Array:
    import pyarrow as pa

    if not key.unit_ns:
        data = batch.data.get(key.column)
        return pa.nulls(batch.row_count, kind) if data is None else to_array(kind, data, batch.row_count)
    times = batch.data.get("timestamp_ns")
    if times is None or times.null_count == batch.row_count:
        return pa.nulls(batch.row_count, kind)
    import numpy as np

    floor = np.frombuffer(times.values, dtype=np.int64, count=batch.row_count) // key.unit_ns * (key.unit_ns // 1000)
    return to_array(
        kind, ColumnData(ColumnType.INT64, memoryview(floor.data), None, times.validity, times.null_count), len(floor)
    )


def _value_array(name: str, batch: Batch) -> pa.Array:
    import pyarrow as pa

    if name in CONSTANT:  # not read, like keys; every record has one, and texts can only be counted
        return pa.repeat(pa.scalar(1, pa.int64()), batch.row_count)
    data = batch.data.get(name)
    if data is None:
        return pa.nulls(batch.row_count, pa.int64())
    return to_array(_arrow_types()[data.type](), data, batch.row_count)


@functools.cache
def _arrow_types() -> dict[ColumnType, Any]:
    import pyarrow as pa

    return {
        ColumnType.INT16: pa.int16,
        ColumnType.INT32: pa.int32,
        ColumnType.INT64: pa.int64,
        ColumnType.UINT64: lambda: pa.decimal128(20, 0),
        ColumnType.FLOAT32: pa.float32,
        ColumnType.FLOAT64: pa.float64,
        ColumnType.TIMESTAMP_US: lambda: pa.timestamp("us", tz="UTC"),
        ColumnType.UTF8: pa.string,
        ColumnType.BINARY: pa.binary,
    }
