"""A table's columns: those of the families whose stores a query reads, and the selection that it returns."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from everlog.core.columns import Column, ColumnType, pick
from everlog.core.options import option_names
from everlog.core.store import Level
from everlog.discovery import FoundStore
from everlog.errors import CorruptData, EverlogError, FileChanged, StoreUnavailable, UnsupportedVersion, UsageError
from everlog.pipelines.scan.arrow_batches import keep_rows
from everlog.pipelines.scan.options import FAMILY_OPTIONS, ScanOptions
from everlog.pipelines.scan.store_errors import at_store, is_left_out
from everlog.sbe.columns import JSON, SbeColumns
from everlog.stores import FAMILIES, open_store, store_class

ON_REQUEST = frozenset({"crc32"})
"""Columns that are read only if they are named, since they are expensive."""

SPARK_TYPES = {
    ColumnType.INT16: "smallint",
    ColumnType.INT32: "int",
    ColumnType.INT64: "bigint",
    ColumnType.UINT64: "decimal(20,0)",
    ColumnType.FLOAT32: "float",
    ColumnType.FLOAT64: "double",
    ColumnType.TIMESTAMP_US: "timestamp",
    ColumnType.UTF8: "string",
    ColumnType.BINARY: "binary",
}
"""Spark's name of each type. Spark has no unsigned, nanosecond or dictionary columns."""

_HEAD = ("store", "family", "stream", "address", "timestamp", "timestamp_ns", "length", "payload")

FamilyOptions = Mapping[str, Mapping[str, Any]]
"""Options for opening stores, by family."""


def family_options(stores: Iterable[FoundStore], scan: ScanOptions) -> dict[str, dict[str, Any]]:
    """The given options by the families that know them. Raises :class:`UsageError` for an option that none of the
    stores' families knows."""
    families = list(dict.fromkeys(store.family for store in stores))
    known = {family: option_names(store_class(family).options_class) for family in families}
    spark_names = {field: name for name, (field, _) in FAMILY_OPTIONS.items()}
    for field in scan.family_options:
        if not any(field in names for names in known.values()):
            name = f"option {spark_names.get(field, field)}"
            found = " or ".join(families)
            message = f"{name} does not apply to stores of {found}"
            raise UsageError(name, found=found, expected="another family", message=message)
    chosen = {f: {k: v for k, v in scan.family_options.items() if k in known[f]} for f in families}
    for family, options in chosen.items():
        if "max_age" in options and "now_ns" in known[family]:
            options["now_ns"] = time.time_ns()  # all tasks compute ages relative to the same moment
    return chosen


def table_columns(stores: Iterable[FoundStore], scan: ScanOptions, options: FamilyOptions) -> tuple[Column, ...]:
    """All columns of the stores' families, the common ones first; a column that some family lacks is nullable. Raises
    :class:`UsageError` if two families have a column of the same name with different types."""
    by_family: dict[str, list[FoundStore]] = {}
    for store in stores:
        by_family.setdefault(store.family, []).append(store)
    families = sorted(by_family, key=list(FAMILIES).index)
    looked = {family: _family_columns(by_family[family], scan, options[family]) for family in families}
    tables = [table for table in looked.values() if isinstance(table, tuple)]
    for failed in looked.values():
        if isinstance(failed, EverlogError) and not (tables and is_left_out(scan, failed)):
            raise failed
    columns: dict[str, Column] = {}
    for table in tables:
        for column in table:
            other = columns.setdefault(column.name, column)
            if other.type is not column.type:
                raise UsageError(
                    f"column {column.name}",
                    found=f"{SPARK_TYPES[other.type]} and {SPARK_TYPES[column.type]}",
                    expected="stores with one type for it",
                    message=f"column {column.name} has different types, {SPARK_TYPES[other.type]} and "
                    f"{SPARK_TYPES[column.type]}; read one family at a time",
                )
    always = set.intersection(*({column.name for column in table if not column.nullable} for table in tables))
    columns = {name: replace(column, nullable=name not in always) for name, column in columns.items()}
    names = [name for name in _HEAD if name in columns]
    own = tuple(columns[name] for name in names + [name for name in columns if name not in names])
    sbe = sbe_columns(scan)
    return own if sbe is None else own + sbe.columns


def sbe_columns(scan: ScanOptions, on_problem: Callable[[str], None] | None = None) -> SbeColumns | None:
    """The decoder of payloads, if the query asks for one. Raises :class:`UsageError` for an unknown message."""
    if scan.sbe_schema is None or scan.level is Level.FRAME:  # then the schema is only used for the times
        return None
    chosen = keep_rows if scan.sbe_only else None
    return SbeColumns(scan.sbe_schema, scan.sbe_message, on_problem, keep_rows=chosen, uint64=scan.sbe_uint64)


def _family_columns(
    members: list[FoundStore], scan: ScanOptions, options: Mapping[str, Any]
) -> tuple[Column, ...] | EverlogError:
    """The family's columns, which any of its stores gives, or the first store's error if none opens."""
    first_error: EverlogError | None = None
    for member in members:
        try:
            with open_store(member.path, family=member.family, **options) as store:
                return store.schema(level=scan.level)
        except (CorruptData, UnsupportedVersion, StoreUnavailable, FileChanged) as error:
            first_error = first_error or at_store(member, error)
    assert first_error is not None
    return first_error


def default_columns(table: tuple[Column, ...], scan: ScanOptions) -> tuple[Column, ...]:
    """The columns that the option ``columns`` selects; without it all except those of :data:`ON_REQUEST`, and without
    the JSON text if a message has typed columns."""
    if scan.columns is not None:
        return pick(table, scan.columns)
    left_out = ON_REQUEST | ({JSON.name} if scan.sbe_message is not None else set())
    return tuple(column for column in table if column.name not in left_out)
