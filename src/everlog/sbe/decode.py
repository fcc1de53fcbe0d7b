"""Decodes SBE messages to dictionaries. The texts after fixed structs of :mod:`everlog.layout` are decoded here too.

A message is decoded as its header says, with the writer's version and block length. Fields that this version lacks, or
that the block is too short for, are ``None``; what a newer writer appended after the fields that the schema knows is
skipped. Source: FIX Simple Binary Encoding 1.0, message structure and schema extension.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from everlog.errors import CorruptData, LimitExceeded, UnknownMessage
from everlog.fields import Block, Composite, Constant, Field, Group, Member, VarData
from everlog.layout import Readable
from everlog.sbe.messages import MessageSet
from everlog.sbe.values import Convert, converter, decoded_text, item_format

MAX_VALUES = 1 << 22
"""Values of one message, over all of its groups: it bounds groups whose entries take no bytes."""


@dataclass(frozen=True, slots=True)
class DecodedMessage:
    """A decoded message. ``fields`` are plain values in schema order: numbers, text, ``None``; an enum's value by name
    (by number if it has none), a set as the list of its bits' names, an array as a list, a composite as a dictionary, a
    group as a list of dictionaries; data without an encoding as ``bytes``. ``version`` is the writer's, ``end`` the
    offset after the message."""

    template: str
    template_id: int
    version: int
    fields: dict[str, Any]
    end: int

    def as_dict(self) -> dict[str, Any]:
        """The template's name as ``template``, and the fields."""
        return {"template": self.template, **self.fields}


def decode_message(schema: MessageSet, data: Readable, at: int, where: str) -> DecodedMessage:
    """Decode the message at offset ``at``, as :meth:`Schema.decode` does."""
    header = schema.header
    end = len(data)
    if not 0 <= at <= end - header.size:
        left = f"{max(0, end - at)} bytes"
        raise CorruptData(where, offset=at, found=left, expected=f"a message header of {header.size} bytes")
    unpack, block_length_at, template_id_at, schema_id_at, version_at = _head(header.block)
    head = unpack(data, at)
    schema_id, template_id, version = head[schema_id_at], head[template_id_at], head[version_at]
    if schema_id != schema.schema_id:
        raise UnknownMessage(where, offset=at, found=f"schema id {schema_id}", expected=f"schema id {schema.schema_id}")
    message = schema.templates.get(template_id)
    if message is None:
        expected = f"a template of {schema.package or schema.where}"
        raise UnknownMessage(where, offset=at, found=f"template id {template_id}", expected=expected)
    reader = _Reader(data, end, version, where)
    fields, after = reader.read(message.block, at + header.size, head[block_length_at])
    return DecodedMessage(message.name, template_id, version, fields, after)


@lru_cache(maxsize=256)
def _head(block: Block) -> tuple[Callable[[Readable, int], tuple[Any, ...]], int, int, int, int]:
    """The function that unpacks a message header, and the indexes of its four fields in the result."""
    places = {path: place for place, (path, _) in enumerate(block.fields())}
    length, template, schema, version = (places[(n,)] for n in ("blockLength", "templateId", "schemaId", "version"))
    return _whole(block).unpack_from, length, template, schema, version


def decode_block(
    block: Block,
    data: Readable,
    at: int,
    end: int,
    *,
    block_length: int | None = None,
    version: int = 0xFFFFFFFF,
    where: str = "",
) -> tuple[dict[str, Any], int]:
    """Return the fields, groups and data of the message body at ``data[at:end]``, and the offset after it.
    ``block_length`` and ``version`` are the writer's, if they differ from this description's. Raises
    :class:`CorruptData` if the body does not fit."""
    if end > len(data):
        raise CorruptData(where, offset=at, found=f"{len(data)} bytes", expected=f"{end}")
    return _Reader(data, end, version, where).read(block, at, block.size if block_length is None else block_length)


def decode_texts(
    parts: Iterable[VarData], data: Readable, at: int, end: int, *, where: str = ""
) -> tuple[dict[str, Any], int]:
    """Variable-length data at ``data[at:end]`` by name, and the offset after it. Raises :class:`CorruptData` if it does
    not fit."""
    return _Reader(data, min(end, len(data)), 0xFFFFFFFF, where).var_data(parts, at)


class _Reader:
    """Decodes one message. Nothing is read beyond ``end``."""

    def __init__(self, data: Readable, end: int, version: int, where: str) -> None:
        self._data = data
        self._end = end
        self._version = version
        self._where = where
        self._left = MAX_VALUES

    def read(self, block: Block, at: int, length: int) -> tuple[dict[str, Any], int]:
        """A block of ``length`` bytes with its groups and data, and the offset after them."""
        if not 0 <= at <= self._end - length:
            raise self._error(at, f"{max(0, self._end - at)} bytes", f"a block of {length} bytes")
        fields = self._fields(block, at, length)
        at += length
        for group in block.groups:
            if group.since > self._version:
                fields[group.name] = None
                continue
            fields[group.name], at = self._group(group, at)
        if block.var_data:
            texts, at = self.var_data(block.var_data, at)
            fields.update(texts)
        return fields, at

    def _fields(self, block: Block, at: int, length: int) -> dict[str, Any]:
        plan = plan_of(block)
        self._left -= plan.cost
        if self._left < 0:
            raise LimitExceeded(
                self._where, offset=at, found="too many values", expected=f"at most {MAX_VALUES} in a message"
            )
        if self._version >= plan.newest and length >= plan.reach:
            return plan.build(plan.whole.unpack_from(self._data, at))
        return self._partly(block.members, at, length)

    def _partly(self, members: tuple[Member, ...], at: int, length: int) -> dict[str, Any]:
        """As the plan does, field by field: some are absent."""
        made: dict[str, Any] = {}
        for member in members:
            if member.since > self._version:
                made[member.name] = None
            elif isinstance(member, Constant):
                made[member.name] = member.value
            elif isinstance(member, Composite):
                made[member.name] = self._partly(member.members, at, length)
            elif member.end > length:
                made[member.name] = None
            else:
                (item,) = struct.unpack_from(member.order + item_format(member), self._data, at + member.offset)
                convert = converter(member)
                made[member.name] = item if convert is None else convert(item)
        return made

    def _group(self, group: Group, at: int) -> tuple[list[dict[str, Any]], int]:
        if at + group.head_size > self._end:
            raise self._error(at, f"{self._end - at} bytes", f"the size of group {group.name}")
        length, count = (self._number(field, at) for field in (group.block_length, group.count))
        start, at = at, at + group.head_size
        if count < 0 or count * max(length, 1 if _is_bounded(group.block, self._version) else 0) > self._end - at:
            found = f"{count} entries of {length} bytes in group {group.name}"
            raise self._error(start, found, f"what fits {self._end - at} bytes")
        entries = []
        for _ in range(count):
            entry, at = self.read(group.block, at, length)
            entries.append(entry)
        return entries, at

    def var_data(self, parts: Iterable[VarData], at: int) -> tuple[dict[str, Any], int]:
        """Texts and bytes by name, and the offset after them."""
        made: dict[str, Any] = {}
        for part in parts:
            if part.since > self._version:
                made[part.name] = None
                continue
            if at + part.data_offset > self._end:
                raise self._error(at, f"{max(0, self._end - at)} bytes", f"the length of {part.name}")
            length = self._number(part.length, at)
            at += part.data_offset
            if length > self._end - at:
                raise self._error(at, f"{part.name} of {length} bytes", f"at most {self._end - at}")
            data = bytes(self._data[at : at + length])
            made[part.name] = data if part.encoding is None else decoded_text(data, part.encoding)
            at += length
        return made, at

    def _number(self, field: Field, at: int) -> int:
        (value,) = struct.unpack_from(field.order + field.format, self._data, at + field.offset)
        return int(value)

    def _error(self, at: int, found: str, expected: str) -> CorruptData:
        return CorruptData(self._where, offset=at, found=found, expected=expected)


def _is_bounded(block: Block, version: int) -> bool:
    """Whether each entry takes bytes even if its block is empty."""
    return any(group.since <= version for group in block.groups) or any(v.since <= version for v in block.var_data)


@dataclass(frozen=True, slots=True)
class Plan:
    """How to read a block with all fields present. ``whole`` returns one item per field, ``build`` makes the dictionary
    from them. The plan applies from version ``newest`` and length ``reach`` on. ``cost`` is the number of values."""

    whole: struct.Struct
    build: Callable[[tuple[Any, ...]], dict[str, Any]]
    newest: int
    reach: int
    cost: int


@lru_cache(maxsize=4096)
def plan_of(block: Block) -> Plan:
    """The plan of a block, cached."""
    leaves = _leaves(block)
    steps, newest, _ = _steps(block.members, 0)
    return Plan(
        _whole(block),
        lambda items: _build(steps, items),
        newest,
        max((f.end for f in leaves), default=0),
        len(leaves) + 1,
    )


def _leaves(block: Block) -> list[Field]:
    return [field for _, field in block.fields()]


@lru_cache(maxsize=4096)
def _whole(block: Block) -> struct.Struct:
    parts, at, order = [], 0, "<"
    for field in _leaves(block):
        parts.append(f"{field.offset - at}x{item_format(field)}")
        at, order = field.end, field.order
    return struct.Struct(order + "".join(parts))


_Step = tuple[str, int | None, Convert | None, Any]
"""Name; index of the item, or ``None``; its converter; else a constant, or the steps of a composite."""


class _Nested(tuple[_Step, ...]):
    """Steps of a composite; the class distinguishes them from a constant."""


def _steps(members: tuple[Member, ...], index: int) -> tuple[_Nested, int, int]:
    steps: list[_Step] = []
    newest = 0
    for member in members:
        newest = max(newest, member.since)
        if isinstance(member, Field):
            steps.append((member.name, index, converter(member), None))
            index += 1
        elif isinstance(member, Constant):
            steps.append((member.name, None, None, member.value))
        else:
            inner, version, index = _steps(member.members, index)
            newest = max(newest, version)
            steps.append((member.name, None, None, inner))
    return _Nested(steps), newest, index


def _build(steps: _Nested, items: tuple[Any, ...]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for name, index, convert, value in steps:
        if index is None:
            made[name] = _build(value, items) if type(value) is _Nested else value
        else:
            item = items[index]
            made[name] = item if convert is None else convert(item)
    return made
