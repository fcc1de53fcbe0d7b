"""Scan batches: rows as columns of plain buffers, which Arrow takes without a copy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from everlog.core.arrow import array_capsules, schema_capsule
from everlog.core.columns import Column, ColumnData
from everlog.errors import UsageError


@dataclass(slots=True)
class Batch:
    """Rows of a scan, stored by column in the order of ``schema``. Implements the Arrow PyCapsule interface: pyarrow,
    polars, nanoarrow and pandas take it without a copy, e.g. ``pyarrow.record_batch(batch)``."""

    schema: tuple[Column, ...]
    row_count: int
    data: dict[str, ColumnData]

    def column(self, name: str) -> ColumnData:
        """One column's buffers. Raises :class:`UsageError` for a column that the scan did not request."""
        try:
            return self.data[name]
        except KeyError:
            names = ", ".join(c.name for c in self.schema)
            message = f"no column {name!r} in this batch, which has {names}"
            raise UsageError("column", found=repr(name), expected=f"one of {names}", message=message) from None

    def to_list(self, name: str) -> list[Any]:
        """One column's values as Python objects."""
        return self.column(name).to_list(self.row_count)

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """Rows as tuples in the order of ``schema``, for small results rather than bulk."""
        return zip(*(self.data[c.name].to_list(self.row_count) for c in self.schema), strict=True)

    def __arrow_c_schema__(self) -> object:
        return schema_capsule(self.schema)

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]:
        return array_capsules(self.schema, self.row_count, self.data, requested_schema)
