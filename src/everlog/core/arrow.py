"""Exports columns to Arrow without a copy, through the Arrow PyCapsule interface.

``nanoarrow``, a small package, builds the C structures; it is imported only here. pyarrow, polars, pandas and duckdb
take the result.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from everlog.core.columns import Column, ColumnData, ColumnType
from everlog.errors import MissingDependency


def _nanoarrow() -> Any:
    try:
        import nanoarrow
    except ImportError as error:
        raise MissingDependency(
            "Arrow output",
            found="nanoarrow is not installed",
            hint="pip install 'everlog[arrow]'",
            message="Arrow output needs nanoarrow",
        ) from error
    return nanoarrow


def _types() -> dict[ColumnType, Any]:
    na = _nanoarrow()
    return {
        ColumnType.INT16: na.int16(),
        ColumnType.INT32: na.int32(),
        ColumnType.INT64: na.int64(),
        ColumnType.UINT64: na.uint64(),
        ColumnType.FLOAT32: na.float32(),
        ColumnType.FLOAT64: na.float64(),
        ColumnType.TIMESTAMP_US: na.timestamp("us", "UTC"),
        ColumnType.UTF8: na.string(),
        ColumnType.BINARY: na.binary(),
    }


def arrow_schema(schema: tuple[Column, ...]) -> Any:
    """A ``nanoarrow`` schema: a struct of nullable fields."""
    types = _types()
    return _nanoarrow().struct({c.name: types[c.type] for c in schema})


def schema_capsule(schema: tuple[Column, ...]) -> object:
    """The PyCapsule named ``arrow_schema``."""
    return arrow_schema(schema).__arrow_c_schema__()


def array_capsules(
    schema: tuple[Column, ...], row_count: int, data: Mapping[str, ColumnData], requested_schema: object | None
) -> tuple[object, object]:
    """PyCapsules of the schema and of a struct array over the batch's own buffers."""
    from nanoarrow.c_array import c_array_from_buffers

    na = _nanoarrow()
    types = _types()
    children = []
    for column in schema:
        held = data[column.name]
        buffers: list[Any] = [held.validity]
        if held.offsets is not None:
            buffers.append(held.offsets)
        buffers.append(held.values)
        children.append(
            c_array_from_buffers(
                na.c_schema(types[column.type]), row_count, buffers, null_count=held.null_count, move=False
            )
        )
    array = c_array_from_buffers(
        na.c_schema(arrow_schema(schema)), row_count, [None], children=children, null_count=0, move=True
    )
    schema_part, array_part = array.__arrow_c_array__(requested_schema)
    return schema_part, array_part
