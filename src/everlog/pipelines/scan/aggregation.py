"""Aggregation at the source: tasks fold records into groups where they are read, and only groups go through Spark.

Spark takes rows of a Python data source one by one, which costs more for small messages than reading them. With an
aggregation, a task returns a row for each group, with exact partial results, and Spark merges these.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from everlog.core.columns import Column, ColumnType
from everlog.core.json_text import parse_json
from everlog.errors import UsageError

UNITS = {"second": 10**9, "minute": 60 * 10**9, "hour": 3600 * 10**9, "day": 86_400 * 10**9}
"""Units of a key such as ``minute(timestamp)``, in nanoseconds; days are in UTC."""
COUNT, SUM, MIN, MAX, AVG = "count", "sum", "min", "max", "avg"
_CALL = re.compile(r"(\w+)\(\s*(\w+|\*)\s*\)")
FLOATS = (ColumnType.FLOAT32, ColumnType.FLOAT64)
_NUMBERS = (ColumnType.INT16, ColumnType.INT32, ColumnType.INT64, ColumnType.UINT64, *FLOATS)
TIMESTAMP = "timestamp"


@dataclass(frozen=True, slots=True)
class Key:
    """What to group by: a column, or with ``unit_ns`` its time rounded down to a multiple of that."""

    name: str
    column: str
    unit_ns: int = 0


@dataclass(frozen=True, slots=True)
class Fold:
    """A column of partial results: ``kind`` is ``count``, ``sum``, ``min`` or ``max``; without ``column`` it counts
    rows."""

    name: str
    kind: str
    column: str | None


@dataclass(frozen=True, slots=True)
class Value:
    """A column of the result and the partial results that it is made of: one, or sum and count for an average."""

    name: str
    kind: str
    folds: tuple[Fold, ...]


@dataclass(frozen=True, slots=True)
class Aggregation:
    """The keys to group by and the values to compute."""

    keys: tuple[Key, ...]
    values: tuple[Value, ...]

    @property
    def folds(self) -> tuple[Fold, ...]:
        """The columns of partial results, without duplicates."""
        return tuple(dict.fromkeys(fold for value in self.values for fold in value.folds))

    @property
    def columns(self) -> tuple[str, ...]:
        """The records' columns to read."""
        times = ("timestamp_ns" if key.unit_ns else key.column for key in self.keys)
        return tuple(dict.fromkeys((*times, *(fold.column for fold in self.folds if fold.column is not None))))


def parse_aggregation(name: str, text: str) -> Aggregation:
    """Parse JSON: an object with ``by`` and ``values``, see :func:`aggregate`. Raises :class:`UsageError`."""
    try:
        given = parse_json(text)
        by, values = given["by"], given["values"]
        named = by if isinstance(by, dict) else {None: by}
        keys = (
            [_key(one, None) for one in by]
            if isinstance(by, list)
            else [_key(expression, alias) for alias, expression in named.items()]
        )
        found = [_value(alias, call) for alias, call in values.items()]
    except (ValueError, TypeError, KeyError, AttributeError):
        expected = '{"by": ["stream", "minute(timestamp)"], "values": {"messages": "count"}}'
        raise UsageError(name, found=repr(text), expected=expected) from None
    names = [key.name for key in keys] + [value.name for value in found]
    if not found or len({n.lower() for n in names}) < len(names):
        expected = "at least one value, and names without duplicates"
        raise UsageError(name, found=", ".join(names) or "nothing", expected=expected)
    return Aggregation(tuple(keys), tuple(_apart(value, {key.name.lower() for key in keys}) for value in found))


def _apart(value: Value, keys: set[str]) -> Value:
    """The value with partial results renamed so that none has a key's name: both are columns of the tasks' output."""
    return replace(value, folds=tuple(replace(fold, name=_free(fold.name, keys)) for fold in value.folds))


def _free(name: str, taken: set[str]) -> str:
    while name.lower() in taken:
        name += "_"
    return name


def _key(expression: str, alias: str | None) -> Key:
    call = _CALL.fullmatch(expression.strip())
    if call is None:
        return Key(alias or expression.strip(), expression.strip())
    unit, column = call[1].lower(), call[2]
    if unit not in UNITS or column != TIMESTAMP:
        expected = f"a column, or {' or '.join(f'{unit}({TIMESTAMP})' for unit in UNITS)}"
        raise UsageError("by", found=expression, expected=expected)
    return Key(alias or unit, TIMESTAMP, UNITS[unit])


def _value(name: str, expression: str) -> Value:
    call = _CALL.fullmatch(expression.strip())
    kind, column = (expression.strip().lower(), "*") if call is None else (call[1].lower(), call[2])
    if kind == COUNT and column == "*":
        return Value(name, COUNT, (Fold("rows", COUNT, None),))
    if kind not in (COUNT, SUM, MIN, MAX, AVG) or column == "*" or call is None:
        expected = "count, count(COLUMN), sum(COLUMN), min(COLUMN), max(COLUMN) or avg(COLUMN)"
        raise UsageError("values", found=expression, expected=expected)
    kinds = (SUM, COUNT) if kind == AVG else (kind,)
    return Value(name, kind, tuple(Fold(f"{part}_of_{column}", part, column) for part in kinds))


def check_aggregation(wanted: Aggregation, table: Iterable[Column]) -> dict[str, ColumnType]:
    """The types of the columns to read. Raises :class:`UsageError` for a column that the stores don't have, or that
    can't be aggregated like this."""
    types = {column.name: column.type for column in table}
    asked = [("by", key.column) for key in wanted.keys]
    asked += [("values", fold.column) for fold in wanted.folds if fold.column is not None]
    for where, name in asked:
        if name not in types:
            message = f"{where}: no column {name}; the columns are {', '.join(types)}"
            raise UsageError(where, found=name, expected=f"one of {', '.join(types)}", message=message)
    for key in wanted.keys:
        if types[key.column] in FLOATS:
            message = f"by: can't group by {key.column}, a floating-point number"
            raise UsageError("by", found=key.column, expected="a column of no floating-point type", message=message)
    for fold in wanted.folds:
        kind = None if fold.column is None else types[fold.column]
        fits = _NUMBERS if fold.kind == SUM else (*_NUMBERS, ColumnType.TIMESTAMP_US)
        if fold.kind in (SUM, MIN, MAX) and kind not in fits:
            what = "a number" if fold.kind == SUM else f"a number or {TIMESTAMP}"
            found = f"{fold.kind}({fold.column})"
            message = f"values: {found} needs {what}"
            raise UsageError("values", found=found, expected=what, message=message)
    return {name: types[name] for name in wanted.columns}
