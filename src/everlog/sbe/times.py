"""Takes records' times from a field of their SBE messages, for stores that record no times.

``sbe:FIELD`` or ``sbe:FIELD:UNIT`` names the source: a field of that name (``composite.member`` inside a composite) in
the fixed block of any message, counted in ``ns``, ``us``, ``ms`` or ``s`` since 1970. Without a unit the field's
``timeUnit`` in the schema applies, or else nanoseconds.
"""

from __future__ import annotations

from pathlib import Path

from everlog.core.batch import Batch
from everlog.core.columns import ColumnData, ColumnType
from everlog.errors import UsageError
from everlog.fields import Field
from everlog.kernel import derived as kernel
from everlog.sbe.columns import blocks_of
from everlog.sbe.schema import Schema, load_schema

PREFIX = "sbe:"
UNITS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
_SCHEMA_UNITS = {"nanosecond": "ns", "microsecond": "us", "millisecond": "ms", "second": "s"}
MAX_TIME_NS = (1 << 63) - 1
_OPTION = "timestamp_from"


def split_source(source: str) -> tuple[str, str | None]:
    """Split ``sbe:FIELD[:UNIT]`` into field and unit. Raises :class:`UsageError`."""
    field, colon, unit = source.removeprefix(PREFIX).partition(":")
    if not source.startswith(PREFIX) or not field or (colon and unit not in UNITS):
        raise UsageError(
            _OPTION, found=repr(source), expected=f"sbe:FIELD or sbe:FIELD:UNIT with a UNIT of {', '.join(UNITS)}"
        )
    return field, unit or None


class SbeTimes:
    """Extracts the times of a batch's payloads. Raises :class:`UsageError` if no message of the schema has the field as
    a whole number, or if no unit is given and the messages' units differ."""

    def __init__(self, schema: Schema | str | Path, source: str) -> None:
        self.schema = schema if isinstance(schema, Schema) else load_schema(schema)
        name, unit = split_source(source)
        self._picks = list(self._fields(name))
        if not self._picks:
            expected = f"a whole number in the block of a message of {self.schema.where}"
            message = f"{_OPTION}: no message of {self.schema.where} has a whole number {name!r} in its block"
            raise UsageError(_OPTION, found=f"field {name!r}", expected=expected, message=message)
        units = {unit} if unit else {_SCHEMA_UNITS.get(field.time_unit or "", "ns") for _, field in self._picks}
        if len(units) > 1:
            found = f"{name!r} in {' and '.join(sorted(units))}"
            message = f"{_OPTION}: the unit of {name!r} differs between messages ({', '.join(sorted(units))})"
            raise UsageError(_OPTION, found=found, expected="one unit", hint=f"name it: sbe:{name}:ns", message=message)
        self._factor = UNITS[units.pop()]

    def _fields(self, name: str) -> list[tuple[int, Field]]:
        return [
            (message.template_id, field)
            for message in self.schema.messages.values()
            for path, field in message.block.fields()
            if ".".join(path) == name and field.count == 1 and field.code in "bBhHiIqQ" and field.labels is None
        ]

    def of(self, batch: Batch) -> ColumnData:
        """Nanoseconds since 1970 for each payload of the batch: null if it is not such a message, is cut, lacks the
        field, has its null value, or if the time exceeds 64 bits of nanoseconds."""
        data = ColumnData(ColumnType.INT64, *blocks_of(self.schema, batch).numbers(self._picks, "q"))
        if self._factor > 1 and batch.row_count:
            most = MAX_TIME_NS // self._factor
            if max(data.values) > most or min(data.values) < -most:
                _null_beyond(data, most)
            data.values = kernel.multiply(data.values, self._factor, batch.row_count)
        return data


def _null_beyond(data: ColumnData, most: int) -> None:
    """Make times null that exceed 64 bits of nanoseconds."""
    rows = len(data.values)
    bits = bytearray(b"\xff" * ((rows + 7) // 8)) if data.validity is None else bytearray(data.validity)
    for i, value in enumerate(data.values.tolist()):
        if not -most <= value <= most:
            bits[i >> 3] &= ~(1 << (i & 7))
    data.validity = memoryview(bytes(bits))
    data.null_count = rows - sum(bits[i >> 3] >> (i & 7) & 1 for i in range(rows))
