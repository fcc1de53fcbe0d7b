"""The columns to write, and the conversion of a batch of them to a batch of a staged part."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from everlog.core.appending.family import PAYLOAD, RESERVED_VALUE, TIMESTAMP, TIMESTAMP_NS
from everlog.errors import UsageError
from everlog.pipelines.append.options import appending_of
from everlog.pipelines.append.staging import NUMBER, ORDER

if TYPE_CHECKING:
    import pyarrow as pa

TYPES = {
    PAYLOAD: ("binary", "string"),
    TIMESTAMP: ("timestamp",),
    TIMESTAMP_NS: ("bigint",),
    RESERVED_VALUE: ("bigint", "int", "smallint", "tinyint"),
}
ORDERED = ("bigint", "int", "smallint", "tinyint", "string", "binary", "timestamp", "date", "decimal")
END_NS = (1 << 32) * 10**9
"""A journal's times have 32-bit seconds."""


@dataclass(frozen=True, slots=True)
class RowLayout:
    """The number of each column, or ``None``. ``has_times``: a message's number is its time, not its reserved value."""

    has_times: bool
    payload: int
    timestamp: int | None = None
    timestamp_ns: int | None = None
    reserved_value: int | None = None
    order: int | None = None

    @classmethod
    def of(cls, fields: Sequence[tuple[str, str]], family: str, order_by: str | None) -> RowLayout:
        """Make the layout for ``fields``, pairs of a name and Spark's type name. Raises :class:`UsageError` for a
        column that is missing, of a wrong type, or not supported: nothing is left out silently."""
        numbers = {name.lower(): number for number, (name, _) in enumerate(fields)}
        if len(numbers) < len(fields):
            names = [name for name, _ in fields]
            twice = [name for name in names if sum(name.lower() == other.lower() for other in names) > 1]
            expected = "names that differ in more than the case of letters"
            raise UsageError(
                "columns",
                found=", ".join(twice),
                expected=expected,
                message=f"columns {', '.join(twice)} differ only in case",
            )
        kinds = {name.lower(): kind for name, kind in fields}
        order = None if order_by is None else order_by.lower()
        if PAYLOAD not in numbers:
            found = ", ".join(numbers) or "none"
            message = f"no column {PAYLOAD} (binary or string) among {found}"
            raise UsageError("columns", found=found, expected=f"{PAYLOAD}, binary or string", message=message)
        if order is not None:
            if order not in numbers:
                raise UsageError("option orderBy", found=str(order_by), expected=f"one of {', '.join(numbers)}")
            if kinds[order].split("(")[0] not in ORDERED:
                raise UsageError("option orderBy", found=kinds[order], expected=f"a column of {', '.join(ORDERED)}")
        taken = appending_of(family).columns
        if others := [name for name in numbers if name not in taken and name != order]:
            hint = f"use select({', '.join(repr(name) for name in taken if name in numbers)})"
            expected = f"{', '.join(taken)}, which a store of {family} holds"
            message = f"a store of {family} holds {', '.join(taken)}, not {', '.join(others)}"
            raise UsageError("columns", found=", ".join(others), expected=expected, message=message, hint=hint)
        for name in taken:
            if name in numbers and kinds[name] not in TYPES[name]:
                raise UsageError(f"column {name}", found=kinds[name], expected=" or ".join(TYPES[name]))
        own = {name: numbers.get(name) for name in (TIMESTAMP, TIMESTAMP_NS, RESERVED_VALUE) if name in taken}
        return cls(TIMESTAMP_NS in taken, numbers[PAYLOAD], order=None if order is None else numbers[order], **own)


def to_staged(batches: Iterable[pa.RecordBatch], layout: RowLayout) -> Iterator[pa.RecordBatch]:
    """Batches for a staged part. With an order they are sorted, which loads all rows of the task into memory. Raises
    :class:`UsageError` for a null in a required column, and for a time that a journal can't hold."""
    staged = _converted(batches, layout)
    return staged if layout.order is None else _sorted(list(staged))


def _converted(batches: Iterable[pa.RecordBatch], layout: RowLayout) -> Iterator[pa.RecordBatch]:
    rows = 0
    for batch in batches:
        if batch.num_rows:
            yield _convert(batch, layout, rows)
            rows += batch.num_rows


def _convert(batch: pa.RecordBatch, layout: RowLayout, rows_before: int) -> pa.RecordBatch:
    import pyarrow as pa

    payload = batch.column(layout.payload)
    if payload.null_count:
        raise UsageError(
            f"column {PAYLOAD}", found="a null", message=f"column {PAYLOAD} has a null; every row needs a message"
        )
    arrays = {PAYLOAD: payload.cast(pa.binary()), NUMBER: _numbers(batch, layout, rows_before)}
    if layout.order is not None:
        order = arrays[ORDER] = batch.column(layout.order)
        if order.null_count:
            raise UsageError("option orderBy", found="a null", message="the column of option orderBy has a null")
        arrays[PAYLOAD] = arrays[PAYLOAD].cast(pa.large_binary())  # a task's payloads may exceed 2 GiB in total
    return pa.RecordBatch.from_arrays(list(arrays.values()), names=list(arrays))


def _numbers(batch: pa.RecordBatch, layout: RowLayout, rows_before: int) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    if not layout.has_times:
        if layout.reserved_value is None:
            return pa.nulls(batch.num_rows, pa.int64())
        return batch.column(layout.reserved_value).cast(pa.int64())
    times = pa.nulls(batch.num_rows, pa.int64())
    if layout.timestamp_ns is not None:
        times = batch.column(layout.timestamp_ns)
        _check_times(TIMESTAMP_NS, times, END_NS, rows_before)
    if layout.timestamp is not None:
        micros = batch.column(layout.timestamp).cast(pa.timestamp("us")).cast(pa.int64())
        # Convert only needed values: 64-bit nanoseconds end in 2262, Spark's timestamps do not.
        micros = pc.if_else(times.is_null(), micros, None)
        _check_times(TIMESTAMP, micros, END_NS // 1000, rows_before)
        times = pc.coalesce(times, pc.multiply_checked(micros, 1000))
    return times


def _check_times(name: str, times: pa.Array, end: int, rows_before: int) -> None:
    import pyarrow.compute as pc

    wrong = pc.indices_nonzero(pc.or_(pc.less(times, 0), pc.greater_equal(times, end)))
    if len(wrong):
        row = wrong[0].as_py()
        unit = "ns" if name == TIMESTAMP_NS else "us"
        found = f"{times[row].as_py()} {unit} since 1970 in row {rows_before + row} of a partition"
        raise UsageError(f"column {name}", found=found, expected="a time from 1970 to 2106")


def _sorted(batches: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa
    import pyarrow.compute as pc

    if batches:
        table = pa.Table.from_batches(batches)
        yield from table.take(pc.sort_indices(table, sort_keys=[(ORDER, "ascending")])).to_batches()
