"""Spark's schema of a table: its columns, and the check of a user's schema."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from pyspark.sql import types
from pyspark.sql.pandas import types as pandas_types

from everlog.core.columns import Column
from everlog.errors import UsageError
from everlog.pipelines.scan.aggregation import COUNT, FLOATS, SUM, Aggregation, check_aggregation
from everlog.pipelines.scan.columns import SPARK_TYPES

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


def arrow_schema(schema: StructType) -> pa.Schema:
    """Spark's Arrow schema, with timestamps in UTC."""
    # Before 4.2, Spark takes no zone here and uses UTC.
    takes_zone = "timezone" in inspect.signature(pandas_types.to_arrow_schema).parameters
    found: pa.Schema = pandas_types.to_arrow_schema(schema, **({"timezone": "UTC"} if takes_zone else {}))
    return found


def to_struct(columns: Iterable[Column]) -> StructType:
    """Spark's schema. Columns that always have a value are not nullable: null checks cost Spark a fifth of a scan's
    time."""
    kinds = {
        "smallint": types.ShortType(),
        "int": types.IntegerType(),
        "bigint": types.LongType(),
        "decimal(20,0)": types.DecimalType(20, 0),
        "float": types.FloatType(),
        "double": types.DoubleType(),
        "timestamp": types.TimestampType(),
        "string": types.StringType(),
        "binary": types.BinaryType(),
    }
    return types.StructType([types.StructField(c.name, kinds[SPARK_TYPES[c.type]], c.nullable) for c in columns])


def check_schema(schema: StructType, table: tuple[Column, ...]) -> None:
    """Raise :class:`UsageError` for a schema with a column that the stores don't have (names are case-sensitive) or of
    another type, or without columns."""
    if not schema.fields:  # batches without columns would have no rows
        raise UsageError("schema", found="no columns", message="the schema has no columns")
    known = {column.name: SPARK_TYPES[column.type] for column in table}
    nullable = {column.name: column.nullable for column in table}
    for field in schema.fields:
        wanted = field.dataType.simpleString()
        if field.name not in known:
            raise UsageError(
                "schema",
                found=f"column {field.name}",
                expected=f"columns out of {', '.join(known)}",
                message=f"the schema names an unknown column {field.name}; known: {', '.join(known)}",
            )
        if not field.nullable and nullable[field.name]:
            raise UsageError(f"column {field.name} of the schema", found="NOT NULL", expected="nullable")
        if known[field.name] != wanted:
            raise UsageError(f"column {field.name} of the schema", found=wanted, expected=known[field.name])


def check_groups(schema: StructType, made: StructType) -> None:
    """Raise :class:`UsageError` for a schema other than the aggregation's own: its keys and partial results belong
    together."""
    if schema.simpleString() != made.simpleString():
        raise UsageError("schema", found=schema.simpleString(), expected=made.simpleString())


def partial_schema(wanted: Aggregation, table: Iterable[Column]) -> StructType:
    """The schema of tasks' output: the keys, then the folds. Sums of integers are decimals, so that they never
    overflow."""
    known = {column.name: column for column in table}
    check_aggregation(wanted, known.values())

    def typed(name: str) -> Any:
        return to_struct([known[name]]).fields[0].dataType

    fields = [types.StructField(key.name, typed(key.column)) for key in wanted.keys]
    for fold in wanted.folds:
        if fold.kind == COUNT:
            kind: Any = types.LongType()
        elif fold.kind == SUM:
            is_float = known[str(fold.column)].type in FLOATS
            kind = types.DoubleType() if is_float else types.DecimalType(38, 0)
        else:
            kind = typed(str(fold.column))
        fields.append(types.StructField(fold.name, kind))
    return types.StructType(fields)
