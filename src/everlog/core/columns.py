"""Columns of a scan: names, types, and values as plain buffers.

Buffers follow the Arrow columnar format (https://arrow.apache.org/docs/format/Columnar.html): little-endian values,
32-bit offsets for ``utf8`` and ``binary``, validity as a bitmap in which bit 1 means present. So they become Arrow
arrays without a copy (:mod:`everlog.core.arrow`), and this module does not need Arrow.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise
from typing import Any, Literal

from everlog.errors import UsageError, WrongType

MAX_BATCH_ROWS = 16_384
MAX_BATCH_BYTES = 4 << 20
"""Limits of a batch. A larger record makes a batch of its own."""


ValueCode = Literal["h", "i", "q", "Q", "f", "d", "B"]

_CODES: dict[str, ValueCode] = {
    "h": "h",
    "i": "i",
    "q": "q",
    "Q": "Q",
    "f": "f",
    "d": "d",
    "timestamp[us]": "q",
    "utf8": "B",
    "binary": "B",
}
_WIDTHS = {"h": 2, "i": 4, "f": 4, "B": 0}


class ColumnType(Enum):
    """The column types of scans; each maps to one Arrow and one Spark type. ``code`` is the :class:`memoryview` format
    of the values buffer (bytes for variable-length types), ``width`` the bytes per value (0 for variable-length types).
    """

    code: ValueCode
    width: int

    INT16 = "h"
    INT32 = "i"
    INT64 = "q"
    UINT64 = "Q"
    FLOAT32 = "f"
    FLOAT64 = "d"
    TIMESTAMP_US = "timestamp[us]"
    UTF8 = "utf8"
    BINARY = "binary"

    def __init__(self, name: str) -> None:
        self.code = _CODES[name]
        self.width = _WIDTHS.get(self.code, 8)


@dataclass(frozen=True, slots=True)
class Column:
    """A column's name, type and meaning. ``nullable``: whether a record may lack a value; Spark reads a column without
    nulls faster. ``is_json``: the text is JSON in ASCII, and is printed as JSON."""

    name: str
    type: ColumnType
    doc: str = ""
    nullable: bool = True
    is_json: bool = False


@dataclass(slots=True)
class ColumnData:
    """The values of one column. ``values`` is one-dimensional in the type's code; ``offsets`` (row_count + 1 int32
    values) is set only for ``utf8`` and ``binary``; ``validity`` only if some values are null, ``null_count`` of them.
    """

    type: ColumnType
    values: memoryview
    offsets: memoryview | None = None
    validity: memoryview | None = None
    null_count: int = 0

    def to_list(self, row_count: int) -> list[Any]:
        """Python values: int, float, str, bytes or ``None``."""
        if self.null_count and self.null_count == row_count:
            return [None] * row_count
        out: list[Any]
        if self.offsets is None:
            out = self.values[:row_count].tolist()
        else:
            data = bytes(self.values[: self.offsets[row_count]])
            ends = self.offsets[: row_count + 1].tolist()
            out = [data[a:b] for a, b in pairwise(ends)]
            if self.type is ColumnType.UTF8:
                out = [item.decode("utf-8", "replace") for item in out]
        if self.null_count and self.validity is not None:
            bits = self.validity
            out = [v if bits[i >> 3] >> (i & 7) & 1 else None for i, v in enumerate(out)]
        return out


def null_column(kind: ColumnType, row_count: int) -> ColumnData:
    """A column of nulls."""
    validity = memoryview(bytes((row_count + 7) // 8))
    if kind.width:
        values: Any = memoryview(bytes(row_count * kind.width)).cast("B").cast(kind.code)
        return ColumnData(kind, values, None, validity, row_count)
    return ColumnData(kind, memoryview(b""), memoryview(bytes(4 * (row_count + 1))).cast("i"), validity, row_count)


def pick(schema: tuple[Column, ...], names: Sequence[str] | None) -> tuple[Column, ...]:
    """The columns of ``schema`` named in ``names``, in that order; all of them for ``None``. Raises :class:`UsageError`
    for an unknown or repeated name, :class:`WrongType` for a single text."""
    if names is None:
        return schema
    if isinstance(names, str):
        raise WrongType("columns", found=repr(names), expected="a list of names")
    by_name = {c.name: c for c in schema}
    if len(set(names)) < len(names):
        repeated = ", ".join(repr(name) for name, count in Counter(names).items() if count > 1)
        message = f"columns repeat {repeated}; name each once"
        raise UsageError("columns", found=repeated, expected="each name once", message=message)
    if missing := [n for n in names if n not in by_name]:
        found, known = ", ".join(map(repr, missing)), ", ".join(by_name)
        message = f"no column {found}; columns are {known}"
        raise UsageError("columns", found=found, expected=f"some of {known}", message=message)
    return tuple(by_name[n] for n in names)
