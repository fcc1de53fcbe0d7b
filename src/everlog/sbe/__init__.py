"""Simple Binary Encoding (https://www.fixtrading.org/standards/sbe/): messages described by an XML schema.

``load_schema`` reads one; ``schema.decode(payload)`` gives a message as a dictionary, ``schema.encode(name, values)``
its bytes; :class:`SbeColumns` decodes the payloads of a scan's batches in bulk. See ``docs/sbe.md``.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from everlog.sbe.columns import SbeColumns as SbeColumns
    from everlog.sbe.decode import DecodedMessage as DecodedMessage
    from everlog.sbe.decode import decode_block as decode_block
    from everlog.sbe.decode import decode_texts as decode_texts
    from everlog.sbe.encode import encode_block as encode_block
    from everlog.sbe.schema import Message as Message
    from everlog.sbe.schema import Schema as Schema
    from everlog.sbe.schema import load_schema as load_schema
    from everlog.sbe.schema import parse_schema as parse_schema

_HOMES = {
    "DecodedMessage": "decode",
    "Message": "schema",
    "SbeColumns": "columns",
    "Schema": "schema",
    "decode_block": "decode",
    "decode_texts": "decode",
    "encode_block": "encode",
    "load_schema": "schema",
    "parse_schema": "schema",
}
"""Name to module: each is imported when it is asked for, so that a command that decodes nothing imports none of it."""

__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
