"""Parses SBE schemas: from XML to messages, each a :class:`~everlog.fields.Block` with a template id.

Source: FIX Simple Binary Encoding 1.0, message schema, as understood by Real Logic's sbe-tool and hence Aeron.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from everlog.errors import InvalidSchema
from everlog.fields import Block, Composite, Field, Group, Member, VarData
from everlog.layout import Readable
from everlog.sbe.decode import DecodedMessage, decode_message
from everlog.sbe.encode import encode_message
from everlog.sbe.messages import Header, Message, MessageSet
from everlog.sbe.types import MAX_BLOCK_BYTES, Place, Types, text_encoding
from everlog.sbe.xml import Element, parse_xml, read_schema_file

HEADER_TYPE = "messageHeader"
DIMENSION_TYPE = "groupSizeEncoding"
HEADER_FIELDS = ("blockLength", "templateId", "schemaId", "version")
_UNSIGNED = "BHI"


class Schema(MessageSet):
    """A message schema that encodes and decodes. Can be pickled."""

    __slots__ = ()

    def decode(self, payload: Readable, at: int = 0, *, where: str = "SBE message") -> DecodedMessage:
        """Decode the message whose header is at ``payload[at:]``; bytes after the message are ignored.

        Raises :class:`UnknownMessage` for another schema or an unknown template, :class:`CorruptData` if the message
        does not fit its bytes, :class:`LimitExceeded` for more than ``MAX_VALUES`` values.
        """
        return decode_message(self, payload, at, where)

    def encode(self, name: str, values: Mapping[str, Any]) -> bytes:
        """A message with its header, in this version of the schema. Optional fields may be omitted, as may groups and
        variable-length data, which are then empty. Raises :class:`UsageError` for a value that is missing, unknown or
        does not fit."""
        return encode_message(self, self.message(name), values)


def load_schema(path: str | Path, *, allow_includes: bool = False) -> Schema:
    """Read a schema file. ``allow_includes`` permits including files in the same folder.

    Raises :class:`InvalidSchema` if the file is not a schema, has a document type or exceeds a limit, and
    :class:`StoreUnavailable` if it can't be read.
    """
    path = Path(path)

    def include(reference: str) -> tuple[bytes, str]:
        if reference in ("", ".", "..") or any(mark in reference for mark in "/\\:%\0"):
            raise InvalidSchema(
                str(path), found=f"include of {reference!r}", expected="the name of a file in the same folder"
            )
        return read_schema_file(path.parent / reference), str(path.parent / reference)

    return _schema(parse_xml(read_schema_file(path), str(path), include if allow_includes else None), str(path))


def parse_schema(data: bytes | str, *, name: str = "schema") -> Schema:
    """A schema from its XML, without includes. Raises :class:`InvalidSchema`."""
    return _schema(parse_xml(data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data, name), name)


def _schema(root: Element, where: str) -> Schema:
    if root.tag != "messageSchema":
        raise root.error(f"<{root.tag}>", "<messageSchema>")
    order = root.get("byteOrder", "littleEndian")
    if order not in ("littleEndian", "bigEndian"):
        raise root.error(f"byteOrder {order!r}", "littleEndian or bigEndian")
    types = Types(root, big_endian=order == "bigEndian")
    header = _header(root, types)
    messages: dict[str, Message] = {}
    templates: dict[int, Message] = {}
    for element in root.named("message"):
        message = Message(
            element.require("name"),
            element.number("id"),
            _block(element, types, element.require("name"), 0),
            element.number("sinceVersion", 0),
            element.number("deprecated", 0),
        )
        if message.name in messages or message.template_id in templates:
            raise element.error(f"a second message {message.name} or id {message.template_id}", "one of each")
        messages[message.name] = templates[message.template_id] = message
    return Schema(
        where,
        root.get("package", "") or "",
        root.number("id"),
        root.number("version", 0),
        order == "bigEndian",
        header,
        messages,
        templates,
    )


def _header(root: Element, types: Types) -> Header:
    name = root.get("headerType") or HEADER_TYPE
    composite, size = _composite(types, name, root)
    fields = [_unsigned(composite, part, root) for part in HEADER_FIELDS]
    return Header(Block(name, size, composite.members), *fields)


def _composite(types: Types, name: str, user: Element) -> tuple[Composite, int]:
    member, size = types.put(types.named(name, user), Place(name))
    if not isinstance(member, Composite):
        raise user.error(f"type {name}", "a composite")
    return member, size


def _unsigned(composite: Composite, name: str, user: Element, codes: str = _UNSIGNED) -> Field:
    for member in composite.members:
        if isinstance(member, Field) and member.name == name and member.code in codes and member.count == 1:
            return member
    raise user.error(f"composite {composite.name}", f"{name} in it, an unsigned number of at most 32 bits")


def _block(element: Element, types: Types, name: str, since: int) -> Block:
    """The block, groups and data of a message or of a group's entries."""
    members: list[Member] = []
    groups: list[Group] = []
    data: list[VarData] = []
    names: set[str] = set()
    end = 0
    for child in element.named("field", "group", "data"):
        own = child.require("name")
        if own in names:
            raise child.error(f"a second {own} in {name}", "one of each name")
        names.add(own)
        version = max(since, child.number("sinceVersion", 0))
        if child.tag == "data":
            data.append(_var_data(child, types, own, version))
        elif data or (groups and child.tag == "field"):
            raise child.error(f"<{child.tag}> {own} after groups or data", "fields, then groups, then data")
        elif child.tag == "group":
            groups.append(_group(child, types, own, version))
        else:
            member, end = _member(child, types, own, version, end)
            members.append(member)
    size = element.number("blockLength", 0) or end
    if not end <= size <= MAX_BLOCK_BYTES:
        raise element.error(f"blockLength {size} of {name}", f"{end} to {MAX_BLOCK_BYTES}")
    return Block(name, size, tuple(members), tuple(groups), tuple(data))


def _member(child: Element, types: Types, name: str, since: int, end: int) -> tuple[Member, int]:
    """A field placed after the one that ends at ``end``, and its own end."""
    start = child.number("offset", 0) or end
    if start < end:
        raise child.error(f"offset {start} of {name}", f"{end} or more, after the field before it")
    kind = types.named(child.require("type"), child)
    place = Place(
        name,
        start,
        since,
        child.get("presence"),
        child.get("valueRef"),
        child.get("description") or "",
        child.get("timeUnit"),
    )
    member, size = types.put(kind, place)
    return member, start + size


def _group(child: Element, types: Types, name: str, since: int) -> Group:
    head, size = _composite(types, child.get("dimensionType") or DIMENSION_TYPE, child)
    length, count = _unsigned(head, "blockLength", child), _unsigned(head, "numInGroup", child, "BHIbhi")
    return Group(name, length, count, size, _block(child, types, name, since), since)


def _var_data(child: Element, types: Types, name: str, since: int) -> VarData:
    kind = child.require("type")
    composite, _ = _composite(types, kind, child)
    length = _unsigned(composite, "length", child)
    body = next((m for m in composite.members if isinstance(m, Field) and m.name == "varData"), None)
    if body is None or body.size > 1 or body.offset < length.end:
        raise child.error(f"composite {kind}", "varData in it, of one byte each, after length")
    own = next((e for e in types.named(kind, child).named("type") if e.get("name") == "varData"), None)
    encoding = body.encoding
    if encoding is None and own is not None and own.get("characterEncoding"):
        encoding = text_encoding(own, own.require("characterEncoding"))
    return VarData(name, length, body.offset, encoding, since)
