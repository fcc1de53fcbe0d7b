"""Decodes and encodes the part of protobuf that the store uses. Every length is checked before use.

A message is declared as a table from field number to :class:`FieldSpec`. As in proto3, unknown fields are skipped,
absent fields keep their attribute's default, and the last of repeated fields counts
(https://protobuf.dev/programming-guides/encoding/)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from everlog.layout import Readable

MAX_VARINT_BYTES = 10
VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5


class BadMessage(ValueError):
    """Raised for bytes that are not a protobuf message of the declared kind. ``at`` is the offset of the error."""

    def __init__(self, at: int, reason: str) -> None:
        self.at = at
        self.reason = reason
        super().__init__(f"{reason} at byte {at}")


class Kind(Enum):
    """A field's type. ``wire_type`` is the wire type that the field's tag must have."""

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
        """Check the wire type of a field of the message at ``at``. Raises :class:`BadMessage` if it is wrong."""
        if wire != self.kind.wire_type:
            raise BadMessage(at, f"field {self.name} with wire type {wire}")


def read_varint(data: Readable, at: int, end: int) -> tuple[int, int]:
    """Read the unsigned 64-bit varint at ``at``; return it and the offset after it. Raises :class:`BadMessage` if it is
    unfinished."""
    if at < end and (value := data[at]) < 0x80:  # the common case: one byte
        return value, at + 1
    value = shift = 0
    for i in range(at, min(end, at + MAX_VARINT_BYTES)):
        byte = data[i]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, i + 1
        shift += 7
    raise BadMessage(at, "an unfinished varint")


def fields(data: Readable, start: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield each field's number, its wire type, and two numbers: for :data:`VARINT` the value and the offset after it,
    otherwise the start and end of the field's bytes. Raises :class:`BadMessage` if the bytes are malformed."""
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
    """Return the declared fields that are present, by name. Text that is not UTF-8 gets replacement characters. Raises
    :class:`BadMessage` if the bytes are malformed."""
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


def varint(value: int) -> bytes:
    """Encode a whole number as a varint; negative ones as their 64 bits in two's complement."""
    value &= 0xFFFFFFFFFFFFFFFF
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def tag(number: int, wire: int) -> bytes:
    """Encode the tag that precedes a field."""
    return varint(number << 3 | wire)


def encode(table: Mapping[int, FieldSpec], values: Mapping[str, Any]) -> bytes:
    """Encode the declared fields in the order of their numbers. Fields with their default value (0, empty, false) are
    left out, as in proto3."""
    out = bytearray()
    for number, spec in sorted(table.items()):
        value = values[spec.name]
        if not value:
            continue
        out += tag(number, spec.kind.wire_type)
        if spec.kind.wire_type == VARINT:
            out += varint(int(value))
            continue
        data = value.encode() if spec.kind is Kind.TEXT else bytes(value)
        out += varint(len(data))
        out += data
    return bytes(out)
