"""Decodes the fixed blocks of SBE messages into columns, in plain Python: the specification of ``_blocks.pyx``.

A batch's payloads are one column of bytes. Each payload may be a message: a header with the block's length, the
template, schema and version, followed by the block. :class:`Blocks` reads all headers once; each field of a template
can then be decoded into a column with one value per payload.
"""

from __future__ import annotations

import math
import struct
from array import array
from collections.abc import Sequence
from itertools import pairwise

from everlog.fields import Field
from everlog.kernel.columns_twin import Taken

READY, SHORT, OTHER_SCHEMA, CUT = range(4)
"""Status of a payload: a message of the schema; shorter than a header; of another schema; shorter than its block."""

NO_TEMPLATE = -1

Pick = tuple[int, Field]
"""A template id, and the field of its messages that goes into a column."""

_OUT_CODES = {"b": "hq", "B": "hq", "h": "hq", "H": "iq", "i": "iq", "I": "q", "q": "q", "Q": "Qq", "f": "f", "d": "d"}


def check_pick(field: Field, code: str) -> None:
    """Raises :class:`ValueError` if a column of type ``code`` can't hold the field."""
    if field.count != 1 or code not in _OUT_CODES.get(field.code, ""):
        raise ValueError(f"{field.name}: {field.type_name} does not fit a column of {code}")


class Blocks:
    """The messages in a column of ``count`` payloads: ``values[offsets[i]:offsets[i + 1]]``.

    ``header`` has the header's fields block length, template id, schema id and version, unsigned and of at most 32
    bits; ``header_size`` is its length in bytes. Raises :class:`ValueError` if an offset lies outside the values.
    """

    def __init__(
        self,
        offsets: memoryview,
        values: memoryview,
        count: int,
        header: Sequence[Field],
        header_size: int,
        schema_id: int,
    ) -> None:
        ends = offsets[: count + 1].tolist()
        if len(ends) != count + 1 or ends[0] < 0 or ends[-1] > len(values) or any(a > b for a, b in pairwise(ends)):
            raise ValueError("offsets lie outside the values")
        if any(field.code not in "BHI" or field.count != 1 or field.end > header_size for field in header):
            raise ValueError("a header must have four unsigned fields of at most 32 bits")
        self._values = bytes(values)
        self._count = count
        self._messages: list[tuple[int, int, int, int] | None] = []  # block's start and length, template, version
        self._templates, self._statuses = array("q"), bytearray()
        readers = [(struct.Struct(field.order + field.code), field.offset) for field in header]
        for start, end in pairwise(ends):
            status, template = SHORT, NO_TEMPLATE
            message = None
            if end - start >= header_size:
                length, found, schema, version = (r.unpack_from(self._values, start + at)[0] for r, at in readers)
                status = OTHER_SCHEMA
                if schema == schema_id:
                    template, status = found, CUT
                    if length <= end - start - header_size:
                        status, message = READY, (start + header_size, length, template, version)
            self._statuses.append(status)
            self._templates.append(template)
            self._messages.append(message)

    @property
    def templates(self) -> memoryview:
        """Each payload's template id as a 64-bit number; ``NO_TEMPLATE`` if it is no message of this schema."""
        return memoryview(self._templates)

    @property
    def statuses(self) -> memoryview:
        """Each payload's status, one byte each."""
        return memoryview(bytes(self._statuses))

    @property
    def common(self) -> int:
        """The template of all payloads if all are whole messages of the same one, else ``NO_TEMPLATE``."""
        found = set(self._templates)
        return found.pop() if len(found) == 1 and not any(self._statuses) else NO_TEMPLATE

    def whole(self, template_id: int, length: int) -> memoryview | None:
        """Which payloads are messages of a template with a block of at least ``length`` bytes: one byte each, 1 or 0;
        ``None`` if all are."""
        found = bytes(m is not None and m[2] == template_id and m[1] >= length for m in self._messages)
        return None if all(found) else memoryview(found)

    def numbers(self, picks: Sequence[Pick], code: str) -> Taken:
        """Decode a column of numbers (``h``, ``i``, ``q``, ``Q``, ``f``, ``d``). A value is null if the payload is no
        message of a picked template, lacks the field, or has its null value; in a column of ``q`` also if it exceeds
        the largest signed number. Values at nulls are undefined. Raises :class:`ValueError` if a field does not fit."""
        for _, field in picks:
            check_pick(field, code)
        out = array(code, bytes(struct.calcsize(f"<{code}") * self._count))
        bits = bytearray((self._count + 7) // 8)
        for template, field in picks:
            reader = struct.Struct(field.order + field.code)
            for i, start in self._places(template, field):
                (value,) = reader.unpack_from(self._values, start)
                if not _is_null(value, field) and not (code == "q" and value >= 1 << 63):
                    out[i] = value
                    bits[i >> 3] |= 1 << (i & 7)
        nulls = self._count - sum(byte.bit_count() for byte in bits)
        return memoryview(out), None, memoryview(bytes(bits)) if nulls else None, nulls

    def texts(self, picks: Sequence[Pick], *, to_nul: bool) -> Taken:
        """Decode a column of byte fields, cut at the first NUL if ``to_nul``. A value is null as in ``numbers``; it has
        the field's null value if its first byte is that value."""
        held: dict[int, bytes] = {}
        for template, field in picks:
            for i, start in self._places(template, field):
                value = self._values[start : start + field.size]
                if field.null is None or value[:1] != bytes((int(field.null),)):
                    held[i] = value.partition(b"\0")[0] if to_nul else value
        ends, bits = array("i", [0]), bytearray((self._count + 7) // 8)
        for i in range(self._count):
            ends.append(ends[-1] + len(held.get(i, b"")))
            bits[i >> 3] |= (i in held) << (i & 7)
        nulls = self._count - len(held)
        data = b"".join(held[i] for i in sorted(held))
        return memoryview(data), memoryview(ends), memoryview(bytes(bits)) if nulls else None, nulls

    def _places(self, template: int, field: Field) -> list[tuple[int, int]]:
        """Row and offset of the field in each message that has it."""
        return [
            (i, message[0] + field.offset)
            for i, message in enumerate(self._messages)
            if message is not None and message[2] == template and field.since <= message[3] and field.end <= message[1]
        ]


def _is_null(value: float, field: Field) -> bool:
    null = field.null
    if null is None:
        return False
    if isinstance(null, float) and math.isnan(null):
        return value != value
    return value == null
