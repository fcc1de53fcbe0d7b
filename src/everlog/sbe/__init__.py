"""Simple Binary Encoding (https://www.fixtrading.org/standards/sbe/): messages described by an XML schema.

``load_schema`` reads one; ``schema.decode(payload)`` gives a message as a dictionary, ``schema.encode(name, values)``
its bytes; :class:`SbeColumns` decodes the payloads of a scan's batches in bulk. See ``docs/sbe.md``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from everlog.lazy import lazy_names

if TYPE_CHECKING:
    from everlog.sbe.columns import SbeColumns as SbeColumns
    from everlog.sbe.decode import DecodedMessage as DecodedMessage
    from everlog.sbe.decode import decode_block as decode_block
    from everlog.sbe.decode import decode_texts as decode_texts
    from everlog.sbe.encode import encode_block as encode_block
    from everlog.sbe.messages import Message as Message
    from everlog.sbe.schema import Schema as Schema
    from everlog.sbe.schema import load_schema as load_schema
    from everlog.sbe.schema import parse_schema as parse_schema
else:
    _homes = {
        "DecodedMessage": "everlog.sbe.decode",
        "Message": "everlog.sbe.schema",
        "SbeColumns": "everlog.sbe.columns",
        "Schema": "everlog.sbe.schema",
        "decode_block": "everlog.sbe.decode",
        "decode_texts": "everlog.sbe.decode",
        "encode_block": "everlog.sbe.encode",
        "load_schema": "everlog.sbe.schema",
        "parse_schema": "everlog.sbe.schema",
    }
    # Each is imported on first use, so that commands that decode nothing import none of them.
    __getattr__, __dir__, __all__ = lazy_names(__name__, _homes)
