"""Batches of a scan as Arrow record batches with exactly the schema that Spark expects, sharing their memory."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from everlog.core.batch import Batch
from everlog.core.columns import Column, ColumnData, ColumnType
from everlog.errors import UsageError

if TYPE_CHECKING:
    import pyarrow as pa


def columns_schema(columns: Iterable[Column]) -> pa.Schema:
    """The columns with the types that Spark uses for them, times in UTC."""
    import pyarrow as pa

    types = {
        ColumnType.INT16: pa.int16(),
        ColumnType.INT32: pa.int32(),
        ColumnType.INT64: pa.int64(),
        ColumnType.UINT64: pa.decimal128(20, 0),
        ColumnType.FLOAT32: pa.float32(),
        ColumnType.FLOAT64: pa.float64(),
        ColumnType.TIMESTAMP_US: pa.timestamp("us", tz="UTC"),
        ColumnType.UTF8: pa.string(),
        ColumnType.BINARY: pa.binary(),
    }
    return pa.schema([pa.field(column.name, types[column.type], column.nullable) for column in columns])


class ArrowBatches:
    """Makes record batches of one Arrow schema. A column that a batch lacks is null: in a mixed table it belongs to
    another family."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self._fields = [
            (field.name, field.type, field.nullable) for field in schema
        ]  # pyarrow creates field objects at each access
        self._nulls: dict[str, pa.Array] = {}

    def convert(self, batch: Batch) -> pa.RecordBatch:
        """The batch's columns without copying (except that unsigned 64-bit numbers become decimals); columns outside
        the schema are left out."""
        import pyarrow as pa

        rows = batch.row_count
        arrays = []
        for name, kind, nullable in self._fields:
            data = batch.data.get(name)
            if not nullable and (data is None or data.null_count):
                message = f"column {name} has a null, but Spark's schema says NOT NULL"
                raise UsageError(f"column {name}", found="a null", expected="values", message=message)
            arrays.append(self._null(name, kind, rows) if data is None else to_array(kind, data, rows))
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _null(self, name: str, kind: pa.DataType, rows: int) -> pa.Array:
        import pyarrow as pa

        held = self._nulls.get(name)
        if held is None or len(held) < rows:
            held = self._nulls[name] = pa.nulls(rows, kind)
        return held[:rows]


def to_array(kind: pa.DataType, data: ColumnData, rows: int) -> pa.Array:
    """A column without copying (except that unsigned 64-bit numbers become decimals)."""
    import pyarrow as pa

    buffers: list[Any] = (
        [data.validity, data.values] if data.offsets is None else [data.validity, data.offsets, data.values]
    )
    held = [None if part is None else pa.py_buffer(part) for part in buffers]
    if data.type is ColumnType.UINT64:  # Spark has no unsigned numbers
        held[1] = _widened(data.values, rows)
    return pa.Array.from_buffers(kind, rows, held, data.null_count)


def _widened(values: memoryview, rows: int) -> pa.Buffer:
    """Unsigned 64-bit numbers as decimals, which are 128-bit integers, low half first. A cast takes ten times as
    long."""
    import numpy as np
    import pyarrow as pa

    wide = np.zeros((rows, 2), dtype="<u8")
    wide[:, 0] = np.frombuffer(values, dtype="<u8", count=rows)
    return pa.py_buffer(wide)


def keep_rows(batch: Batch, mask: memoryview) -> Batch:
    """The rows whose byte in ``mask`` is 1; the other bytes are 0."""
    import pyarrow as pa

    chosen = pa.Array.from_buffers(pa.uint8(), batch.row_count, [None, pa.py_buffer(mask)]).cast(pa.bool_())
    kept = pa.record_batch(batch).filter(chosen)
    return Batch(batch.schema, kept.num_rows, {c.name: _data_of(c.type, kept.column(c.name)) for c in batch.schema})


def _data_of(kind: ColumnType, array: pa.Array) -> ColumnData:
    """A column over an array's memory. The array must have offset 0, as a new one has."""
    parts = [None if part is None else memoryview(part).cast("B") for part in array.buffers()]
    validity = parts[0] if array.null_count else None
    values = memoryview(b"") if parts[-1] is None else parts[-1]
    if kind.width:
        numbers: Any = values[: len(array) * kind.width].cast(kind.code)
        return ColumnData(kind, numbers, None, validity, array.null_count)
    assert parts[1] is not None
    return ColumnData(kind, values, parts[1].cast("i"), validity, array.null_count)


def in_time(
    batch: pa.RecordBatch, times: ColumnData, rows: int, start_ns: int | None, end_ns: int | None
) -> pa.RecordBatch:
    """The rows with ``start_ns <= timestamp_ns < end_ns``, and those without a time."""
    mask = time_mask(times, rows, start_ns, end_ns)
    return batch if mask is None else batch.filter(mask)


def time_mask(times: ColumnData, rows: int, start_ns: int | None, end_ns: int | None) -> pa.Array | None:
    """Which rows are in the range or have no time; ``None`` for all rows."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if times.null_count == rows:
        return None
    values = to_array(pa.int64(), times, rows)
    keep = None
    if start_ns is not None:
        keep = pc.greater_equal(values, start_ns)
    if end_ns is not None:
        before = pc.less(values, end_ns)
        keep = before if keep is None else pc.and_(keep, before)
    return None if keep is None else pc.fill_null(keep, True)
