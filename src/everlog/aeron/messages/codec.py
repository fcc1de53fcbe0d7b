"""Encodes and decodes the messages of an SBE schema, with their headers."""

from __future__ import annotations

from collections.abc import Iterable

from everlog.aeron.layouts import SbeMessageHeader
from everlog.aeron.messages.bodies import BodyCodec
from everlog.aeron.messages.declarations import Message
from everlog.errors import CorruptData, UnknownMessage
from everlog.layout import Readable

_HEADER = SbeMessageHeader.struct
HEADER_LENGTH = SbeMessageHeader.size


class MessageCodec:
    """The messages of one schema. Messages are written in ``version``: what later versions added is left out. Every
    version is read: what a newer writer appended is skipped, what an older one lacks gets its default."""

    def __init__(self, schema_id: int, version: int, kinds: Iterable[type[Message]]) -> None:
        self.schema_id = schema_id
        self.version = version
        self._bodies = BodyCodec(version)
        self._by_id = {kind.template_id: kind for kind in kinds}

    def encode(self, message: Message) -> bytes:
        """Encode a message with its header. Raises what :meth:`BodyCodec.encode` raises."""
        body, block_length = self._bodies.encode(message)
        return _HEADER.pack(block_length, message.template_id, self.schema_id, self.version) + body

    def decode(self, data: Readable, where: str = "message") -> Message:
        """Decode a message. Raises :class:`UnknownMessage` for another schema and for a template that the schema lacks,
        :class:`CorruptData` if a length leads out of ``data`` or a field has no such value."""
        if len(data) < HEADER_LENGTH:
            expected = f"a header of {HEADER_LENGTH} bytes"
            raise CorruptData(where, offset=0, found=f"{len(data)} bytes", expected=expected)
        block_length, template_id, schema_id, version = _HEADER.unpack_from(data)
        if schema_id != self.schema_id:
            raise UnknownMessage(where, found=f"schema id {schema_id}", expected=f"schema id {self.schema_id}")
        kind = self._by_id.get(template_id)
        if kind is None:
            raise UnknownMessage(where, found=f"template id {template_id}", expected="a template of the schema")
        return self._bodies.decode(kind, data, HEADER_LENGTH, block_length=block_length, version=version, where=where)
