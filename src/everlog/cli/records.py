"""Formats batches as JSON lines, raw payloads, hex dumps and lines for people.

JSON lines are made column-wise: a batch's pattern of nulls gives one ``%`` template, which is applied to tuples of
column values. Only text columns are escaped; everything else is a number, hex or base64.
"""

from __future__ import annotations

from binascii import b2a_base64
from collections.abc import Callable, Iterable, Iterator
from itertools import repeat
from json.encoder import encode_basestring_ascii as quoted
from math import isfinite
from typing import TYPE_CHECKING, Any

from everlog.cli.text import printable, time_text
from everlog.core.batch import Batch
from everlog.core.columns import Column, ColumnType
from everlog.core.store import Level, Store

if TYPE_CHECKING:
    from everlog.sbe import SbeColumns

COMMON = ("timestamp_ns", "length", "crc32", "payload")
PREVIEW_BYTES = 60
PREVIEW_CHARACTERS = 240
HEX_WIDTH = 16


class JsonLines:
    """Formats a record as one JSON object a line: stream, address, timestamp_ns, length, crc32, payload, then the
    family's own columns, and with ``sbe`` the decoded payload."""

    def __init__(self, store: Store, level: Level, *, payload: bool, sbe: SbeColumns | None = None) -> None:
        own = [c.name for c in store.family_columns(level) if c.name not in COMMON]
        common = [name for name in COMMON if payload or name != "payload"]
        self._columns = [*common, *own]
        self._schema = {column.name: column for column in store.schema(level=level)}
        # Addresses (decimal, or %08x:%08x) are formatted from their integers, without a text column of addresses.
        self._address = store.address_columns
        self._sbe = sbe
        self.columns = list(dict.fromkeys([*self._address, *self._columns, *(["payload"] if sbe else [])]))

    def lines(self, stream: str, batch: Batch) -> bytes:
        """Format a batch: one line for each record."""
        address = "%d" if len(self._address) == 1 else "%08x:%08x"
        template = ['{"stream": ', quoted(stream).replace("%", "%%"), f', "address": "{address}"']
        values: list[Iterable[Any]] = [batch.to_list(name) for name in self._address]
        for name in self._columns:
            data = batch.data[name]
            label = quoted(name).replace("%", "%%")
            if data.null_count == batch.row_count:
                template.append(f", {label}: null")
                continue
            column = data.to_list(batch.row_count)
            form, convert = _json_form(self._schema[name])
            if data.null_count:
                template.append(f", {label}: %s")
                values.append(_or_null(column, form, convert))
            else:
                template.append(f", {label}: {form}")
                values.append(column if convert is None else map(convert, column))
        if self._sbe is not None:
            template.append(', "sbe": %s')
            values.append(text or "null" for text in self._sbe.json_texts(batch))
        template.append("}\n")
        return "".join(map("".join(template).__mod__, zip(*values, strict=True))).encode("ascii")


def _json_form(column: Column) -> tuple[str, Callable[[Any], str] | None]:
    """How to write a column's values: the placeholder in the template, and a conversion to apply first."""
    if column.name == "crc32":
        return '"%08x"', None
    if column.type is ColumnType.BINARY:
        return '"%s"', _base64
    if column.is_json or column.type in (ColumnType.FLOAT32, ColumnType.FLOAT64):
        return "%s", None if column.is_json else _number
    if column.type is ColumnType.UTF8:
        return "%s", quoted
    return "%d", None


def _number(value: float) -> str:
    return repr(value) if isfinite(value) else quoted(str(value))


def _base64(data: bytes) -> str:
    return b2a_base64(data, newline=False).decode("ascii")


def _or_null(column: list[Any], form: str, convert: Callable[[Any], str] | None) -> Iterator[str]:
    for value in column:
        yield "null" if value is None else form % (value if convert is None else convert(value))


class RawPayloads:
    """Formats records as their bare payloads, each followed by ``delimiter``."""

    columns = ("address", "payload")

    def __init__(self, delimiter: bytes) -> None:
        self._delimiter = delimiter

    def lines(self, stream: str, batch: Batch) -> bytes:
        """Format a batch: its payloads, concatenated."""
        if self._delimiter:
            return b"".join([payload + self._delimiter for payload in batch.to_list("payload")])
        data = batch.data["payload"]
        return bytes(data.values[: data.offsets[batch.row_count]]) if data.offsets is not None else b""


class HexDumps:
    """Formats each record as a heading and a hex dump."""

    columns = ("address", "timestamp_ns", "length", "payload")

    def lines(self, stream: str, batch: Batch) -> bytes:
        """Format a batch: a heading, a dump and an empty line for each record."""
        out = []
        for address, timestamp_ns, length, payload in _rows(batch, self.columns):
            out.append(f"{printable(stream)}  {address}  {time_text(timestamp_ns)}  {length} bytes")
            out += [hex_line(at, payload[at : at + HEX_WIDTH]) for at in range(0, len(payload), HEX_WIDTH)]
            out.append("")
        return "\n".join([*out, ""]).encode()


def hex_line(offset: int, data: bytes) -> str:
    """``00000010  68 65 6c 6c 6f ...  |hello...|``."""
    text = "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in data)
    return f"{offset:08x}  {data.hex(' '):<{3 * HEX_WIDTH - 1}}  |{text}|"


class Lines:
    """Formats a record as a line for people: stream, address, time, length and the start of the payload, decoded if
    ``sbe`` can decode it."""

    def __init__(self, *, payload: bool, sbe: SbeColumns | None = None) -> None:
        self._sbe = sbe if payload else None
        self.columns = ("address", "timestamp_ns", "length") + (("payload",) if payload else ())

    def lines(self, stream: str, batch: Batch) -> bytes:
        """Format a batch: one line for each record."""
        name = printable(stream)
        out = []
        decoded = repeat(None) if self._sbe is None else self._sbe.json_texts(batch)
        for (address, timestamp_ns, length, *payload), text in zip(_rows(batch, self.columns), decoded, strict=False):
            preview = "".join(f"  {shortened(data)}" for data in payload if data)
            if text is not None:
                preview = "  " + text[:PREVIEW_CHARACTERS] + ("..." if len(text) > PREVIEW_CHARACTERS else "")
            out.append(f"{name}  {address}  {time_text(timestamp_ns)}  {length:>8}{preview}\n")
        return "".join(out).encode()


def shortened(payload: bytes) -> str:
    """The start of a payload: as text if it is UTF-8, else in hex."""
    head = payload[:PREVIEW_BYTES]
    more = "..." if len(payload) > len(head) else ""
    try:
        text = head.decode()
    except UnicodeDecodeError as error:
        if not more or error.start < len(head) - 3:  # else only the last character was cut
            return head[: PREVIEW_BYTES // 2].hex() + ("..." if len(payload) > PREVIEW_BYTES // 2 else "")
        text = head[: error.start].decode()
    return printable(text) + more


def _rows(batch: Batch, names: Iterable[str]) -> Iterator[tuple[Any, ...]]:
    return zip(*(batch.to_list(name) for name in names), strict=True)


Formatter = JsonLines | RawPayloads | HexDumps | Lines

__all__ = ["Column", "Formatter", "HexDumps", "JsonLines", "Lines", "RawPayloads", "hex_line", "shortened"]
