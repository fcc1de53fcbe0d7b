"""Decodes SBE messages in bulk: from the payload column of a scan's batches to columns for template, fields and JSON.

The kernel turns the fixed block of one message into typed columns without a Python object per row. The JSON column has
the whole message, including groups and variable-length data, and is made message by message.
"""

from __future__ import annotations

import json
import math
from array import array
from binascii import b2a_base64
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Any

from everlog.core.batch import Batch
from everlog.core.columns import Column, ColumnData, ColumnType
from everlog.errors import CorruptData, LimitExceeded, UnknownMessage, UsageError
from everlog.fields import Enumeration, Field
from everlog.kernel import derived
from everlog.kernel.blocks import Blocks
from everlog.kernel.blocks_twin import CUT, NO_TEMPLATE, OTHER_SCHEMA, READY, SHORT
from everlog.sbe.messages import Message
from everlog.sbe.schema import Schema
from everlog.sbe.values import decoded_text

PAYLOAD = "payload"
TEMPLATE = Column(
    "sbe_template", ColumnType.UTF8, "name of the SBE message; null if the payload is not a message of the schema"
)
JSON = Column("sbe", ColumnType.UTF8, "the SBE message as a JSON object, null where it can't be decoded", is_json=True)
PREFIX = "sbe_"
MAX_SIGNED = (1 << 63) - 1

_NUMBER_TYPES = {
    "b": ColumnType.INT16,
    "B": ColumnType.INT16,
    "h": ColumnType.INT16,
    "H": ColumnType.INT32,
    "i": ColumnType.INT32,
    "I": ColumnType.INT64,
    "q": ColumnType.INT64,
    "f": ColumnType.FLOAT32,
    "d": ColumnType.FLOAT64,
}


@dataclass(frozen=True, slots=True)
class FieldColumn:
    """A field of a message's block as a column. An enum's column holds its names."""

    column: Column
    template_id: int
    field: Field

    @property
    def is_always(self) -> bool:
        """Whether every whole message has a value: the field is in the schema's first version and not optional."""
        return self.field.null is None and self.field.since == 0

    def take(self, blocks: Blocks) -> ColumnData:
        """The column's values."""
        # An array's null value applies to its elements.
        field = replace(self.field, null=None) if self.field.is_array else self.field
        picks = [(self.template_id, field)]
        if field.code == "s" or field.is_array:
            data = ColumnData(self.column.type, *blocks.texts(picks, to_nul=field.encoding is not None))
            return data if field.encoding is None else _as_utf8(data, field.encoding)
        if isinstance(field.labels, Enumeration):
            return _named(blocks, self.template_id, field, field.labels)
        kind = self.column.type
        data = ColumnData(kind, *blocks.numbers(picks, kind.code))
        if field.code == "Q" and kind is ColumnType.INT64 and data.null_count:
            self._refuse_large(blocks, data)
        return data

    def _refuse_large(self, blocks: Blocks, taken: ColumnData) -> None:
        """Raise :class:`UsageError` if a value became null because it exceeds a signed column."""
        kind = ColumnType.UINT64
        whole = ColumnData(kind, *blocks.numbers([(self.template_id, self.field)], kind.code))
        if whole.null_count != taken.null_count:
            values = whole.to_list(len(whole.values))
            raise UsageError(
                f"column {self.column.name}",
                found=str(max(value for value in values if value is not None)),
                expected=f"at most {MAX_SIGNED} in a signed column",
                hint="keep unsigned 64-bit numbers: in Spark sbeUint64=decimal",
            )


def field_columns(
    message: Message, prefix: str = PREFIX, *, uint64: ColumnType = ColumnType.UINT64
) -> tuple[FieldColumn, ...]:
    """The columns of a message's block: numbers, text, enums by name, sets as numbers, arrays of single bytes as
    binary; composites' members as ``composite_member``. Constants and other arrays have none. ``uint64`` is the type
    for unsigned 64-bit numbers: ``UINT64``, or ``INT64``, which refuses numbers that are too large."""
    found: list[FieldColumn] = []
    taken: set[str] = {TEMPLATE.name}
    for path, field in message.block.fields():
        if field.is_array and field.code not in "bB":
            continue
        name = plain = prefix + "_".join(path)
        number = 1
        while name.lower() in taken:  # Spark ignores the case of names
            number += 1
            name = f"{plain}_{number}"
        taken.add(name.lower())
        found.append(FieldColumn(Column(name, _type_of(field, uint64), field.doc), message.template_id, field))
    return tuple(found)


def _type_of(field: Field, uint64: ColumnType) -> ColumnType:
    if field.code == "s" or isinstance(field.labels, Enumeration):
        return ColumnType.UTF8 if field.encoding is not None or field.labels is not None else ColumnType.BINARY
    if field.is_array:
        return ColumnType.BINARY
    return uint64 if field.code == "Q" else _NUMBER_TYPES[field.code]


def blocks_of(schema: Schema, batch: Batch) -> Blocks:
    """The kernel's view of a batch's payloads. The batch must have the column ``payload``."""
    payload = batch.column(PAYLOAD)
    assert payload.offsets is not None
    header = schema.header
    fields = (header.block_length, header.template_id, header.schema_id, header.version)
    return Blocks(payload.offsets, payload.values, batch.row_count, fields, header.size, schema.schema_id)


class SbeColumns:
    """Adds decoded columns to batches.

    ``message`` names the message whose block becomes typed columns, ``None`` for none. ``on_problem`` gets one line per
    template for each kind of payload that can't be decoded, the first time it occurs; its row has nulls. With
    ``keep_rows``, which filters a batch to the rows whose byte is 1, only rows remain that hold this message with all
    the fields that it always has; those columns then have no nulls. ``uint64`` as in :func:`field_columns`: with
    ``INT64``, ``extend`` raises :class:`UsageError` for a number that is too large. Raises :class:`UsageError` if the
    schema lacks the message.
    """

    def __init__(
        self,
        schema: Schema,
        message: str | None = None,
        on_problem: Callable[[str], None] | None = None,
        *,
        keep_rows: Callable[[Batch, memoryview], Batch] | None = None,
        uint64: ColumnType = ColumnType.UINT64,
    ) -> None:
        self.schema = schema
        chosen = schema.message(message) if message else None
        self._fields = {c.column.name: c for c in field_columns(chosen, uint64=uint64)} if chosen else {}
        self._on_problem = on_problem
        self._keep_rows = keep_rows if chosen else None
        self._template_id = chosen.template_id if chosen else NO_TEMPLATE
        self._least_length = max((c.field.end for c in self._fields.values() if c.is_always), default=0)
        self._reported: set[tuple[int, str]] = set()
        self.columns = self._all_columns()
        """All that ``extend`` can add: the template's name, the fields of the chosen message, the JSON text."""

    def _all_columns(self) -> tuple[Column, ...]:
        if self._keep_rows is None:
            return (TEMPLATE, *(field.column for field in self._fields.values()), JSON)
        always = (replace(field.column, nullable=not field.is_always) for field in self._fields.values())
        return (replace(TEMPLATE, nullable=False), *always, JSON)

    @property
    def needs_payload(self) -> bool:
        """Whether payloads must be read even if none of ``columns`` is wanted."""
        return self._keep_rows is not None

    @property
    def default_columns(self) -> tuple[Column, ...]:
        """The cheap columns: without the JSON text if a message was chosen."""
        return self.columns[:-1] if self._fields else self.columns

    def extend(self, batch: Batch, names: Collection[str]) -> Batch:
        """The batch with the columns in ``names`` added, and filtered by ``keep_rows``. It must have the column
        ``payload``."""
        wanted = [column for column in self.columns if column.name in names]
        if not wanted and self._keep_rows is None:
            return batch
        blocks = blocks_of(self.schema, batch)
        self._report_headers(blocks)
        if self._keep_rows is not None and (whole := blocks.whole(self._template_id, self._least_length)) is not None:
            self._report_short(blocks, whole)
            batch = self._keep_rows(batch, whole)
            blocks = blocks_of(self.schema, batch)
        data = dict(batch.data)
        for column in wanted:
            if column.name == TEMPLATE.name:
                data[column.name] = self._template_names(blocks)
            elif column.name == JSON.name:
                data[column.name] = _text_column(list(self.json_texts(batch)))
            else:
                data[column.name] = self._fields[column.name].take(blocks)
        return Batch((*batch.schema, *wanted), batch.row_count, data)

    def objects(self, batch: Batch) -> Iterator[dict[str, Any] | None]:
        """Each payload as ``{"template": name, **fields}``; ``None`` if it can't be decoded."""
        payload = batch.column(PAYLOAD)
        assert payload.offsets is not None
        data = memoryview(payload.values)
        for start, end in pairwise(payload.offsets[: batch.row_count + 1].tolist()):
            try:
                yield self.schema.decode(data[start:end]).as_dict()
            except CorruptData as error:
                self._report_error(error, data[start:end])
                yield None

    def json_texts(self, batch: Batch) -> Iterator[str | None]:
        """``objects`` as JSON in ASCII."""
        return (None if fields is None else to_json(fields) for fields in self.objects(batch))

    def _template_names(self, blocks: Blocks) -> ColumnData:
        names = {number: message.name.encode() for number, message in self.schema.templates.items()}
        templates = blocks.templates
        return ColumnData(ColumnType.UTF8, *derived.named_text(templates, None, names, derived.AS_NULL, len(templates)))

    # What can't be decoded

    def _report_headers(self, blocks: Blocks) -> None:
        if self._on_problem is None:
            return
        for template_id, status in sorted(_header_kinds(blocks)):
            if status == SHORT:
                self._report(-1, "short", f"shorter than a message header of {self.schema.header.size} bytes")
            elif status == OTHER_SCHEMA:
                self._report(-1, "schema", f"of another schema than id {self.schema.schema_id}")
            elif template_id not in self.schema.templates:
                self._report(template_id, "template", f"of template {template_id}, which the schema does not have")
            elif status == CUT:
                self._report(template_id, "cut", "shorter than its block")
            else:
                assert status == READY

    def _report_short(self, blocks: Blocks, whole: memoryview) -> None:
        """Report messages that are left out because their block ends before a field that all of them have."""
        if self._on_problem is None or (self._template_id, "block") in self._reported:
            return
        rows = zip(blocks.templates.tolist(), blocks.statuses.tolist(), whole.tolist(), strict=True)
        if (self._template_id, READY, 0) in rows:
            self._report(self._template_id, "block", f"of a block shorter than {self._least_length} bytes")

    def _report_error(self, error: CorruptData, payload: memoryview) -> None:
        if self._on_problem is None:
            return
        header = self.schema.header
        if len(payload) < header.size:
            self._report(-1, "short", f"shorter than a message header of {header.size} bytes")
            return
        fields = (header.template_id, header.schema_id)
        template_id, schema_id = (
            int.from_bytes(payload[f.offset : f.end], "big" if f.big_endian else "little") for f in fields
        )
        if schema_id != self.schema.schema_id:
            self._report(-1, "schema", f"of another schema than id {self.schema.schema_id}")
        elif isinstance(error, UnknownMessage):
            self._report(template_id, "template", f"of template {template_id}, which the schema does not have")
        else:
            kind = "limit" if isinstance(error, LimitExceeded) else "cut"
            self._report(template_id, kind, f"damaged: {error}")

    def _report(self, template_id: int, kind: str, what: str) -> None:
        if self._on_problem is None or (template_id, kind) in self._reported:
            return
        self._reported.add((template_id, kind))
        message = self.schema.templates.get(template_id)
        name = f"{message.name}: " if message is not None else ""
        self._on_problem(f"SBE: {name}a payload is {what}; it and others of this kind are not decoded")


def _header_kinds(blocks: Blocks) -> set[tuple[int, int]]:
    """Each template and status that occurs. Most batches have only one or a few, which is found without visiting each
    row."""
    if blocks.common != NO_TEMPLATE:
        return {(blocks.common, READY)}
    templates, statuses = blocks.templates, blocks.statuses
    rows = len(templates)
    if rows == 0:
        return set()
    if statuses.tobytes() != statuses[:1].tobytes() * rows:
        return set(zip(templates.tolist(), statuses.tolist(), strict=True))
    is_one = templates.tobytes() == templates[:1].tobytes() * rows
    return {(template_id, statuses[0]) for template_id in ([templates[0]] if is_one else set(templates.tolist()))}


def to_json(fields: dict[str, Any]) -> str:
    """A decoded message as JSON in ASCII: bytes in base64; numbers that JSON lacks as ``"NaN"``, ``"Infinity"``,
    ``"-Infinity"``."""
    try:
        return json.dumps(fields, default=_plain, allow_nan=False)
    except ValueError:
        return json.dumps(_finite(fields), default=_plain)


def _plain(value: Any) -> str:
    if isinstance(value, bytes):
        return b2a_base64(value, newline=False).decode("ascii")
    raise TypeError(type(value))


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def _text_column(items: list[str | None]) -> ColumnData:
    data = [b"" if item is None else item.encode("utf-8", "backslashreplace") for item in items]
    return _bytes_column(ColumnType.UTF8, data, [item is not None for item in items])


def _bytes_column(kind: ColumnType, items: list[bytes], present: list[bool]) -> ColumnData:
    ends = array("i", [0, *accumulate(map(len, items))])
    nulls = len(items) - sum(present)
    validity = memoryview(_bits(present)) if nulls else None
    return ColumnData(kind, memoryview(b"".join(items)), memoryview(ends), validity, nulls)


def _bits(present: Iterable[bool]) -> bytes:
    flags = list(present)
    bits = bytearray((len(flags) + 7) // 8)
    for i, flag in enumerate(flags):
        bits[i >> 3] |= flag << (i & 7)
    return bytes(bits)


def _as_utf8(data: ColumnData, encoding: str) -> ColumnData:
    """Convert text in another encoding to UTF-8."""
    assert data.offsets is not None
    rows = len(data.offsets) - 1
    if bytes(data.values).isascii() and not encoding.startswith(("utf-16", "utf16", "utf-32", "utf32")):
        return data
    ends = data.offsets.tolist()
    items = [
        decoded_text(bytes(data.values[a:b]), encoding).encode("utf-8", "backslashreplace") for a, b in pairwise(ends)
    ]
    made = _bytes_column(ColumnType.UTF8, items, [True] * rows)
    return ColumnData(ColumnType.UTF8, made.values, made.offsets, data.validity, data.null_count)


def _named(blocks: Blocks, template_id: int, field: Field, labels: Enumeration) -> ColumnData:
    """An enum's values by name. A value without a name is its number, or its character, as text; a null value that has
    a name is that name."""
    names = {_signed(value): name.encode("utf-8", "backslashreplace") for value, name in labels.names.items()}
    if field.null is not None and _signed(int(field.null)) in names:
        field = replace(field, null=None)
    is_unsigned = field.code == "Q"
    others = derived.AS_CHARACTER if labels.is_char else derived.AS_UNSIGNED if is_unsigned else derived.AS_NUMBER
    # Widened to 64 bits: names are looked up by 64-bit numbers.
    values, _, validity, _ = blocks.numbers([(template_id, field)], "Q" if is_unsigned else "q")
    made = derived.named_text(values.cast("B").cast("q"), validity, names, others, len(values))
    return ColumnData(ColumnType.UTF8, *made)


def _signed(value: int) -> int:
    """The 64-bit number of the same bits."""
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)


__all__ = ["JSON", "TEMPLATE", "FieldColumn", "SbeColumns", "blocks_of", "field_columns", "to_json"]
