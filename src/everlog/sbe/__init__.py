"""Simple Binary Encoding (https://www.fixtrading.org/standards/sbe/): messages described by an XML schema.

``load_schema`` reads one; ``schema.decode(payload)`` gives a message as a dictionary, ``schema.encode(name, values)``
its bytes; :class:`SbeColumns` decodes the payloads of a scan's batches in bulk. See ``docs/sbe.md``.
"""

from everlog.sbe.decode import DecodedMessage, decode_block, decode_texts
from everlog.sbe.encode import encode_block
from everlog.sbe.schema import Message, Schema, load_schema, parse_schema

__all__ = [
    "DecodedMessage",
    "Message",
    "Schema",
    "decode_block",
    "decode_texts",
    "encode_block",
    "load_schema",
    "parse_schema",
]
