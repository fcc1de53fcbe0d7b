"""The part of protobuf that the store uses: varints and length-prefixed fields, every length checked before use.

A message is declared as a table from field number to :class:`FieldSpec`; unknown fields are skipped, absent ones have
their default, of repeated ones the last counts (proto3, https://protobuf.dev/programming-guides/encoding/)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from everlog.layout import Readable

MAX_VARINT_BYTES = 10
VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5


class BadMessage(ValueError):
    """Bytes that are no protobuf message of the declared kind; ``at`` is where in them."""

    def __init__(self, at: int, reason: str) -> None:
        self.at = at
        self.reason = reason
        super().__init__(f"{reason} at byte {at}")


class Kind(Enum):
    """How a field's value is read."""

    UINT64 = "uint64"
    INT64 = "int64"
    INT32 = "int32"
    BOOL = "bool"
    TEXT = "string"
    DATA = "bytes"

    @property
    def default(self) -> Any:
        """The value of an absent field."""
        return {"string": "", "bytes": b"", "bool": False}.get(self.value, 0)

    @property
    def wire_type(self) -> int:
        """What the field's tag must say."""
        return LENGTH if self in (Kind.TEXT, Kind.DATA) else VARINT


@dataclass(frozen=True, slots=True)
class FieldSpec:
    """A declared field: the attribute it fills and its kind."""

    name: str
    kind: Kind


def read_varint(data: Readable, at: int, end: int) -> tuple[int, int]:
    """The unsigned 64-bit number at ``at`` and the offset behind it. Raises :class:`BadMessage`."""
    value = shift = 0
    for i in range(at, min(end, at + MAX_VARINT_BYTES)):
        byte = data[i]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, i + 1
        shift += 7
    raise BadMessage(at, "an unfinished number")


def fields(data: Readable, start: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """Field number, wire type, and for :data:`LENGTH` the start and end of its bytes; for :data:`VARINT` the value
    and the offset behind it; for the fixed sizes start and end. Raises :class:`BadMessage`."""
    at = start
    while at < end:
        begin = at
        tag, at = read_varint(data, at, end)
        number, wire = tag >> 3, tag & 7
        if not 0 < number < 1 << 29:
            raise BadMessage(begin, f"field number {number}")
        if wire == VARINT:
            value, at = read_varint(data, at, end)
            yield number, wire, value, at
            continue
        if wire == LENGTH:
            length, at = read_varint(data, at, end)
        elif wire == FIXED64:
            length = 8
        elif wire == FIXED32:
            length = 4
        else:
            raise BadMessage(begin, f"wire type {wire}")
        if length > end - at:
            raise BadMessage(begin, f"field {number} of {length} bytes, {end - at} left")
        yield number, wire, at, at + length
        at += length


def _signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def decode(table: Mapping[int, FieldSpec], data: Readable, start: int = 0, end: int | None = None) -> dict[str, Any]:
    """Every declared field by name. Text that is no UTF-8 has replacement characters. Raises :class:`BadMessage`."""
    values = {spec.name: spec.kind.default for spec in table.values()}
    for number, wire, first, second in fields(data, start, len(data) if end is None else end):
        spec = table.get(number)
        if spec is None:
            continue
        if wire != spec.kind.wire_type:
            raise BadMessage(start, f"field {number} ({spec.name}) with wire type {wire}")
        if spec.kind is Kind.TEXT:
            values[spec.name] = bytes(data[first:second]).decode("utf-8", "replace")
        elif spec.kind is Kind.DATA:
            values[spec.name] = bytes(data[first:second])
        elif spec.kind is Kind.BOOL:
            values[spec.name] = first != 0
        elif spec.kind is Kind.UINT64:
            values[spec.name] = first
        else:
            values[spec.name] = _signed(first, 32 if spec.kind is Kind.INT32 else 64)
    return values
