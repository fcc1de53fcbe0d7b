"""Converts a field's bytes to a Python value and back: numbers, text, lists, names of enums and of a set's bits."""

from __future__ import annotations

import codecs
import math
import struct
from collections.abc import Callable, Iterable
from typing import Any

from everlog.errors import UsageError
from everlog.fields import Choices, Enumeration, Field

Convert = Callable[[Any], Any]


def item_format(field: Field) -> str:
    """The :mod:`struct` format that reads a field as one item; an array of numbers is read as bytes."""
    return f"{field.size}s" if field.is_array else field.format


def converter(field: Field) -> Convert | None:
    """The function that converts the item to a value; ``None`` if the item is the value."""
    if field.is_array:
        return _array(field)
    if field.code == "s":
        return _text(field) if field.encoding is not None else None
    if isinstance(field.labels, Enumeration):
        return _named(field.labels, field.null)
    if isinstance(field.labels, Choices):
        return _chosen(field.labels)
    if field.null is None:
        return None
    if isinstance(field.null, float) and math.isnan(field.null):
        return lambda item: None if item != item else item
    null = field.null
    return lambda item: None if item == null else item


def _array(field: Field) -> Convert:
    unpack = struct.Struct(field.order + field.format).unpack
    null = field.null
    if null is None:
        return lambda item: list(unpack(item))
    if isinstance(null, float) and math.isnan(null):
        return lambda item: [None if value != value else value for value in unpack(item)]
    return lambda item: [None if value == null else value for value in unpack(item)]


def _text(field: Field) -> Convert:
    encoding, is_optional = field.encoding or "ascii", field.null is not None
    null = bytes((int(field.null),)) if field.null is not None else b""

    def convert(item: bytes) -> str | None:
        if is_optional and (item[:1] == null or not item):
            return None
        return decoded_text(item.partition(b"\0")[0], encoding)

    return convert


_BYTE_ORDERS: dict[str, tuple[str, tuple[bytes, ...]]] = {
    "utf16": ("utf-16-be", (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)),
    "utf32": ("utf-32-be", (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)),
}
"""The encoding to use without a byte order mark, and the marks."""


def decoded_text(data: bytes, encoding: str) -> str:
    """Decode a text; bytes that are invalid in the encoding become ``\\xNN``, so that nothing is lost. UTF-16 and
    UTF-32 without a byte order mark are big endian (RFC 2781), as in Java."""
    named, marks = _BYTE_ORDERS.get(encoding.replace("-", "").replace("_", ""), ("", ()))
    if marks and not data.startswith(marks):
        encoding = named
    return data.decode(encoding, "backslashreplace")


def _named(labels: Enumeration, null: int | float | None) -> Convert:
    names, is_char = labels.names, labels.is_char

    def convert(item: int) -> str | int | None:
        name = names.get(item)
        if name is not None:
            return name
        if item == null:
            return None
        return chr(item) if is_char else item

    return convert


def _chosen(labels: Choices) -> Convert:
    bits = labels.bits
    return lambda item: [bits.get(bit, bit) for bit in range(item.bit_length()) if item >> bit & 1]


# Back to bytes


def pack_field(field: Field, value: Any) -> bytes:
    """A field's bytes; ``None`` stands for null. Raises :class:`UsageError` for a value that the field can't hold."""
    try:
        return _pack(field, value)
    except (struct.error, OverflowError, TypeError, ValueError) as error:
        if isinstance(error, UsageError):
            raise
        raise UsageError(
            f"field {field.name}", found=repr(value)[:80], expected=f"a value for {field.type_name}"
        ) from None


def _pack(field: Field, value: Any) -> bytes:
    if field.is_array:
        items = [field.null if item is None and field.null is not None else item for item in _items(field, value)]
        return struct.pack(field.order + field.format, *items)
    if field.code == "s":
        return _pack_text(field, value)
    if value is None:
        if field.null is None:
            raise _missing(field)
        value = field.null
    elif isinstance(field.labels, Enumeration):
        value = _value_of(field, field.labels, value)
    elif isinstance(field.labels, Choices) and not isinstance(value, int):
        value = sum(1 << bit for bit in {_bit(field, field.labels, item) for item in value})
    return struct.pack(field.order + field.format, value)


def _missing(field: Field) -> UsageError:
    where = f"field {field.name}"
    return UsageError(where, found="no value", expected="given", message=f"{where} needs a value: it is not optional")


def _items(field: Field, value: Any) -> list[Any]:
    if value is None and field.null is not None:
        return [field.null] * field.count
    items = list(value)
    if len(items) != field.count:
        raise UsageError(f"field {field.name}", found=f"{len(items)} values", expected=f"{field.count} values")
    return items


def _pack_text(field: Field, value: Any) -> bytes:
    if value is None:
        if field.null is None:
            raise _missing(field)
        data = bytes((int(field.null),)) * field.count
    elif isinstance(value, bytes | bytearray):
        data = bytes(value)
    else:
        data = str(value).encode(field.encoding or "ascii")
    if len(data) > field.count:
        raise UsageError(f"field {field.name}", found=f"{len(data)} bytes", expected=f"at most {field.count} bytes")
    return data.ljust(field.count, b"\0")


def _value_of(field: Field, labels: Enumeration, value: Any) -> int:
    if isinstance(value, str):
        for number, name in labels.names.items():
            if name == value:
                return number
        if labels.is_char and len(value) == 1:
            return ord(value)
        raise UsageError(f"field {field.name}", found=repr(value)[:80], expected=_some(labels.names.values()))
    return int(value)


def _bit(field: Field, labels: Choices, item: Any) -> int:
    for bit, name in labels.bits.items():
        if name == item:
            return bit
    if isinstance(item, int) and 0 <= item < 8 * field.size:
        return item
    raise UsageError(f"field {field.name}", found=repr(item)[:80], expected=_some(labels.bits.values()))


def _some(names: Iterable[str]) -> str:
    return f"one of {', '.join(list(names)[:20])}"
