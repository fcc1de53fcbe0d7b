"""The part of protobuf that the store uses: varints and length-prefixed fields, every length checked before use.

A message is declared as a table from field number to :class:`FieldSpec`; unknown fields are skipped, absent ones are
left to the default of their attribute, of repeated ones the last counts (proto3,
https://protobuf.dev/programming-guides/encoding/)."""

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
    """How a field's value is read. ``wire_type`` is what the field's tag must say."""

    UINT64 = "uint64", VARINT
    INT64 = "int64", VARINT
    INT32 = "int32", VARINT
    BOOL = "bool", VARINT
    TEXT = "string", LENGTH
    DATA = "bytes", LENGTH

    wire_type: int

    def __init__(self, name: str, wire_type: int) -> None:
        self.wire_type = wire_type


@dataclass(frozen=True, slots=True)
class FieldSpec:
    """A declared field: the attribute it fills and its kind."""

    name: str
    kind: Kind

    def check(self, wire: int, at: int) -> None:
        """Raises :class:`BadMessage` for a field of another wire type, in a message at ``at``."""
        if wire != self.kind.wire_type:
            raise BadMessage(at, f"field {self.name} with wire type {wire}")


def read_varint(data: Readable, at: int, end: int) -> tuple[int, int]:
    """The unsigned 64-bit number at ``at`` and the offset behind it. Raises :class:`BadMessage`."""
    if at < end and (value := data[at]) < 0x80:  # as most are
        return value, at + 1
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
        tag, at = data[at], at + 1
        if tag >= 0x80:
            tag, at = read_varint(data, begin, end)
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
    """The declared fields that are there, by name. Text that is no UTF-8 has replacement characters. Raises
    :class:`BadMessage`."""
    values: dict[str, Any] = {}
    for number, wire, first, second in fields(data, start, len(data) if end is None else end):
        spec = table.get(number)
        if spec is None:
            continue
        spec.check(wire, start)
        name, kind = spec.name, spec.kind
        if kind is Kind.TEXT:
            values[name] = bytes(data[first:second]).decode("utf-8", "replace")
        elif kind is Kind.DATA:
            values[name] = bytes(data[first:second])
        elif kind is Kind.BOOL:
            values[name] = first != 0
        elif kind is Kind.UINT64:
            values[name] = first
        else:
            values[name] = _signed(first, 32 if kind is Kind.INT32 else 64)
    return values
