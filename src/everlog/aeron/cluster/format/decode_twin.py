"""Decodes cluster messages into columns, in plain Python. This is the specification of ``_decode.pyx``, and its
replacement if that is not built.

The input is a batch of messages as a column of bytes (``offsets`` and ``values``), as the archive's scan yields it. A
session message's payload is the client's payload after the header; for all other kinds it is the whole message. A field
is null if the message's kind lacks it or if the writer's block is too short to contain it.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from itertools import pairwise

from everlog.aeron.cluster.format import messages
from everlog.aeron.cluster.format.messages import (
    BY_TEMPLATE,
    EXTENSION,
    KINDS,
    SESSION_MESSAGE,
    STATE,
    TYPES,
    UNDECODABLE,
    UNKNOWN,
    MessageType,
)
from everlog.aeron.cluster.protocol.codec import SCHEMA_ID
from everlog.errors import CorruptData
from everlog.layout import Readable

Taken = tuple[memoryview, memoryview | None, memoryview | None, int]
"""A column's values, offsets, validity and null count."""
NAMES = ("timestamp_ns", "length", "payload", "kind", "leadership_term_id", "cluster_session_id", "fields")
_NUMBERS = {"leadership_term_id": "leadership_term_id", "cluster_session_id": "cluster_session_id"}
MAX_INT64 = (1 << 63) - 1


@dataclass(slots=True)
class Decoder:
    """Decodes into the columns ``names``. ``unit_ns`` is the cluster's time unit in nanoseconds. ``undecodable`` lists
    the rows of the last batch whose messages are malformed."""

    names: frozenset[str]
    unit_ns: int
    undecodable: list[int] = field(default_factory=list)

    def decode(self, offsets: memoryview, values: memoryview, count: int, state_row: int) -> dict[str, Taken]:
        """Decode a batch of ``count`` messages. The rows from ``state_row`` on are a service's own state."""
        ends = offsets[: count + 1].tolist()
        rows = [_Row(values[a:b], i >= state_row, self.unit_ns) for i, (a, b) in enumerate(pairwise(ends))]
        self.undecodable = [i for i, row in enumerate(rows) if row.kind == UNDECODABLE]
        out: dict[str, Taken] = {}
        for name in self.names:
            if name == "payload":
                out[name] = _spans([bytes(row.payload) for row in rows])
            elif name == "kind":
                out[name] = _spans([KINDS[row.kind].encode() for row in rows])
            elif name == "fields":
                out[name] = _spans([row.fields for row in rows])
            elif name == "length":
                out[name] = _numbers([len(row.payload) for row in rows])
            else:
                out[name] = _numbers([row.numbers.get(name) for row in rows])
        return out


class _Row:
    """One message: its kind, numbers by column, payload and JSON fields."""

    def __init__(self, data: memoryview, is_state: bool, unit_ns: int) -> None:
        self.numbers: dict[str, int | None] = {}
        self.fields: bytes | None = None
        self.payload: Readable = data
        self.kind = STATE
        if is_state:
            return
        try:
            message = messages.decode_fields(data)
        except CorruptData:
            self.kind = UNDECODABLE
            return
        if message is None:
            self.kind = UNKNOWN if int.from_bytes(data[4:6], "little") == SCHEMA_ID else EXTENSION
            return
        item = BY_TEMPLATE[int.from_bytes(data[2:4], "little")]
        self.kind = TYPES.index(item)
        for name, source in _NUMBERS.items():
            self.numbers[name] = message.fields.get(source)
        time = message.fields.get("timestamp")
        if time is not None and abs(time) <= MAX_INT64 // unit_ns:
            self.numbers["timestamp_ns"] = time * unit_ns
        if item is SESSION_MESSAGE:
            self.payload = data[message.end :]
        else:
            self.fields = messages.fields_json(message).encode()


def fields_text(item: MessageType, data: bytes) -> bytes | None:
    """Return a message's fields as JSON, or ``None`` if it is malformed. The compiled decoder calls it for types with
    variable-length data."""
    try:
        message = messages.decode_fields(data)
    except CorruptData:
        return None
    assert message is not None, item
    return messages.fields_json(message).encode()


def _numbers(items: list[int | None] | list[int]) -> Taken:
    validity, nulls = _validity(items)
    return memoryview(array("q", [0 if item is None else item for item in items])), None, validity, nulls


def _spans(items: list[bytes | None] | list[bytes]) -> Taken:
    validity, nulls = _validity(items)
    ends = array("i", [0])
    for item in items:
        ends.append(ends[-1] + len(item or b""))
    return memoryview(b"".join(item or b"" for item in items)), memoryview(ends), validity, nulls


def _validity(items: list[int | None] | list[int] | list[bytes | None] | list[bytes]) -> tuple[memoryview | None, int]:
    nulls = sum(item is None for item in items)
    if not nulls:
        return None, 0
    bits = bytearray((len(items) + 7) // 8)
    for i, item in enumerate(items):
        if item is not None:
            bits[i >> 3] |= 1 << (i & 7)
    return memoryview(bytes(bits)), nulls
