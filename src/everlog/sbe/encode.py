"""Encodes dictionaries as SBE messages, in the schema's own version. Padding is zeros; texts are padded with zeros.

The output of :mod:`everlog.sbe.decode` can be encoded again: the values may include constants if they equal the
schema's.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import Any

from everlog.errors import UsageError
from everlog.fields import Block, Composite, Constant, Field, Group, Member, VarData
from everlog.sbe.messages import Message, MessageSet
from everlog.sbe.values import pack_field


def encode_message(schema: MessageSet, message: Message, values: Mapping[str, Any]) -> bytes:
    """Encode a message, as :meth:`Schema.encode` does."""
    header = schema.header
    own = {
        header.block_length.name: message.block.size,
        header.template_id.name: message.template_id,
        header.schema_id.name: schema.schema_id,
        header.version.name: schema.version,
        "numGroups": len(message.block.groups),
        "numVarDataFields": len(message.block.var_data),
    }
    names = {member.name for member in header.block.members}
    head = encode_block(header.block, {name: value for name, value in own.items() if name in names})
    return head + encode_block(message.block, values)


def encode_block(block: Block, values: Mapping[str, Any]) -> bytes:
    """The body of a message: fields, groups, data. Raises :class:`UsageError` for a value that is missing, unknown or
    does not fit."""
    known = {part.name for part in (*block.members, *block.groups, *block.var_data)}
    if unknown := sorted(values.keys() - known):
        raise _unknown(block.name, unknown)
    body = bytearray(block.size)
    _put_members(body, block.members, values, block.name)
    parts = [bytes(body)]
    parts += [_group(group, values.get(group.name)) for group in block.groups]
    parts += [_var_data(part, values.get(part.name)) for part in block.var_data]
    return b"".join(parts)


def _unknown(where: str, names: Iterable[object]) -> UsageError:
    text = ", ".join(map(str, names))
    message = f"the schema has no {text} in {where}"
    return UsageError(where, found=f"a value for {text}", expected="names that the schema has", message=message)


def _put_members(body: bytearray, members: tuple[Member, ...], values: Mapping[str, Any], where: str) -> None:
    for member in members:
        value = values.get(member.name)
        if isinstance(member, Constant):
            if value is not None and value != member.value:
                raise UsageError(
                    f"{where}.{member.name}", found=repr(value)[:80], expected=f"the constant {member.value!r}"
                )
        elif isinstance(member, Composite):
            inner = {} if value is None else value
            if not isinstance(inner, Mapping):
                raise UsageError(
                    f"{where}.{member.name}", found=repr(value)[:80], expected="a mapping of values by name"
                )
            if unknown := sorted(inner.keys() - {part.name for part in member.members}):
                raise _unknown(f"{where}.{member.name}", unknown)
            _put_members(body, member.members, inner, f"{where}.{member.name}")
        else:
            body[member.offset : member.end] = pack_field(member, value)


def _group(group: Group, entries: Any) -> bytes:
    rows = [] if entries is None else list(entries)
    head = bytearray(group.head_size)
    _put_number(head, group.block_length, group.block.size, f"block length of {group.name}")
    _put_number(head, group.count, len(rows), f"number of entries of {group.name}")
    return bytes(head) + b"".join(encode_block(group.block, row) for row in rows)


def _var_data(part: VarData, value: Any) -> bytes:
    if value is None:
        data = b""
    elif isinstance(value, str):
        try:
            data = value.encode(encoding := part.encoding or "utf-8")
        except UnicodeEncodeError:
            expected = f"characters that {encoding} can encode"
            raise UsageError(part.name, found=repr(value)[:80], expected=expected) from None
    elif isinstance(value, bytes | bytearray | memoryview):
        data = bytes(value)
    else:
        raise UsageError(part.name, found=repr(value)[:80], expected="text or bytes")
    head = bytearray(part.data_offset)
    _put_number(head, part.length, len(data), f"length of {part.name}")
    return bytes(head) + data


def _put_number(head: bytearray, field: Field, value: int, what: str) -> None:
    try:
        struct.pack_into(field.order + field.format, head, field.offset, value)
    except struct.error:
        message = f"{what} {value} does not fit {field.type_name}"
        raise UsageError(what, found=str(value), expected=f"a {field.type_name}", message=message) from None
