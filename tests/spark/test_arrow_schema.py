"""Arrow's schema of a table, from each Spark that is supported."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.pandas import types
from pyspark.sql.types import LongType, StructField, StructType, TimestampType

import everlog.spark
from everlog.core.columns import Column
from everlog.pipelines.scan.arrow_batches import columns_schema
from everlog.pipelines.scan.columns import SPARK_TYPES
from everlog.spark.struct_types import arrow_schema, to_struct

SCHEMA = StructType([StructField("timestamp", TimestampType()), StructField("length", LongType(), nullable=False)])
EXPECTED = pa.schema([("timestamp", pa.timestamp("us", tz="UTC")), pa.field("length", pa.int64(), nullable=False)])


def of_spark_4_1(
    schema: StructType,
    error_on_duplicated_field_names_in_struct: bool = False,
    timestamp_utc: bool = True,
    prefers_large_types: bool = False,
) -> pa.Schema:
    """Its parameters."""
    assert schema is SCHEMA
    assert timestamp_utc
    return EXPECTED


def test_timestamps_are_in_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    assert arrow_schema(SCHEMA) == EXPECTED
    monkeypatch.setattr(types, "to_arrow_schema", of_spark_4_1)
    assert arrow_schema(SCHEMA) == EXPECTED


def test_columns_have_the_types_that_spark_gives_them() -> None:
    columns = [
        Column(f"{kind.name}{nullable}", kind, nullable=nullable) for kind in SPARK_TYPES for nullable in (True, False)
    ]
    assert columns_schema(columns) == arrow_schema(to_struct(columns))


def test_nothing_else_asks_spark_for_a_schema() -> None:
    """Its parameters are not the same in all versions."""
    (package,) = everlog.spark.__path__
    found = {path.name for path in Path(package).rglob("*.py") if "to_arrow_schema" in path.read_text()}
    assert found == {"struct_types.py"}
