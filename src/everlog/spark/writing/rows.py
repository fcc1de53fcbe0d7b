"""The columns that are written: which are taken, and how a batch of them becomes one of a staged part."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from everlog.errors import UsageError
from everlog.spark.writing.options import AERON, JLOG
from everlog.spark.writing.staging import NUMBER, ORDER, PAYLOAD

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

TIMESTAMP, TIMESTAMP_NS, RESERVED_VALUE = "timestamp", "timestamp_ns", "reserved_value"
COLUMNS = {JLOG: (PAYLOAD, TIMESTAMP, TIMESTAMP_NS), AERON: (PAYLOAD, RESERVED_VALUE)}
TYPES = {
    PAYLOAD: ("binary", "string"),
    TIMESTAMP: ("timestamp",),
    TIMESTAMP_NS: ("bigint",),
    RESERVED_VALUE: ("bigint", "int", "smallint", "tinyint"),
}
ORDERED = ("bigint", "int", "smallint", "tinyint", "string", "binary", "timestamp", "date", "decimal")
END_NS = (1 << 32) * 10**9
"""A journal's times have 32 bits of seconds."""


@dataclass(frozen=True, slots=True)
class RowLayout:
    """Which column, by number, is what; ``None`` for none."""

    family: str
    payload: int
    timestamp: int | None = None
    timestamp_ns: int | None = None
    reserved_value: int | None = None
    order: int | None = None

    @classmethod
    def of(cls, schema: StructType, family: str, order_by: str | None) -> RowLayout:
        """Raises :class:`UsageError` for a column that is missing, of another type, or not taken: nothing is left out
        silently."""
        numbers = {field.name.lower(): number for number, field in enumerate(schema.fields)}
        kinds = {field.name.lower(): field.dataType.simpleString() for field in schema.fields}
        order = None if order_by is None else order_by.lower()
        if PAYLOAD not in numbers:
            raise UsageError("columns", found=", ".join(numbers) or "none", expected=f"{PAYLOAD}, binary or string")
        if order is not None:
            if order not in numbers:
                raise UsageError("option orderBy", found=str(order_by), expected=f"one of {', '.join(numbers)}")
            if kinds[order].split("(")[0] not in ORDERED:
                raise UsageError("option orderBy", found=kinds[order], expected=f"a column of {', '.join(ORDERED)}")
        taken = COLUMNS[family]
        if others := [name for name in numbers if name not in taken and name != order]:
            hint = f"select({', '.join(repr(name) for name in taken if name in numbers)}) leaves the others out"
            expected = f"{', '.join(taken)}, which a store of {family} holds"
            raise UsageError("columns", found=", ".join(others), expected=expected, hint=hint)
        for name in taken:
            if name in numbers and kinds[name] not in TYPES[name]:
                raise UsageError(f"column {name}", found=kinds[name], expected=" or ".join(TYPES[name]))
        own = {name: numbers.get(name) for name in (TIMESTAMP, TIMESTAMP_NS, RESERVED_VALUE) if name in taken}
        return cls(family, numbers[PAYLOAD], order=None if order is None else numbers[order], **own)


def to_staged(batches: Iterable[pa.RecordBatch], layout: RowLayout) -> Iterator[pa.RecordBatch]:
    """Batches of a staged part; with an order, sorted by it, which takes all rows of the task in memory. Raises
    :class:`UsageError` for a null where there must be a value, and for a time that a journal can't hold."""
    staged = (_convert(batch, layout) for batch in batches if batch.num_rows)
    return staged if layout.order is None else _sorted(list(staged))


def _convert(batch: pa.RecordBatch, layout: RowLayout) -> pa.RecordBatch:
    import pyarrow as pa

    payload = batch.column(layout.payload)
    if payload.null_count:
        raise UsageError(f"column {PAYLOAD}", found="a null", expected="a message")
    arrays = {PAYLOAD: payload.cast(pa.binary()), NUMBER: _numbers(batch, layout)}
    if layout.order is not None:
        order = arrays[ORDER] = batch.column(layout.order)
        if order.null_count:
            raise UsageError("option orderBy", found="a null in its column", expected="values")
        arrays[PAYLOAD] = arrays[PAYLOAD].cast(pa.large_binary())  # all of a task may be over 2 GiB
    return pa.RecordBatch.from_arrays(list(arrays.values()), names=list(arrays))


def _numbers(batch: pa.RecordBatch, layout: RowLayout) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    if layout.family == AERON:
        if layout.reserved_value is None:
            return pa.nulls(batch.num_rows, pa.int64())
        return batch.column(layout.reserved_value).cast(pa.int64())
    times = pa.nulls(batch.num_rows, pa.int64())
    if layout.timestamp is not None:
        times = pc.multiply_checked(batch.column(layout.timestamp).cast(pa.timestamp("us")).cast(pa.int64()), 1000)
    if layout.timestamp_ns is not None:
        times = pc.coalesce(batch.column(layout.timestamp_ns), times)
    if times.null_count < len(times):
        bounds = pc.min_max(times).as_py()
        for time_ns in bounds.values():
            if not 0 <= time_ns < END_NS:
                raise UsageError(f"column {TIMESTAMP_NS}", found=str(time_ns), expected="a time from 1970 to 2106")
    return times


def _sorted(batches: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa
    import pyarrow.compute as pc

    if batches:
        table = pa.Table.from_batches(batches)
        yield from table.take(pc.sort_indices(table, sort_keys=[(ORDER, "ascending")])).to_batches()
