"""Encodes and decodes messages without their headers: block, groups, variable-length data."""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

from everlog.aeron.messages.declarations import Data, Message
from everlog.aeron.messages.plans import GROUP_HEAD, Item, Plan, plan_of
from everlog.errors import CorruptData, UsageError
from everlog.layout import Readable

MAX_DATA_BYTES = 1 << 30
"""The longest text or data of a message (``maxValue`` of the lengths in Aeron's schemas)."""
MAX_GROUP_ENTRIES = 0xFFFE
"""Most entries of a group. The number has 16 bits, of which 65,535 stands for null."""
NEWEST = 0xFFFF
"""A version that has all fields."""


class BodyCodec:
    """Messages as one protocol lays them out. What a version after ``version`` added is not written. ``length_code`` is
    the :mod:`struct` code of the lengths of texts and bytes, which are at multiples of ``alignment``."""

    def __init__(self, version: int = NEWEST, length_code: str = "I", alignment: int = 1) -> None:
        self._version = version
        self._length = struct.Struct("<" + length_code)
        self._alignment = alignment
        self._written: dict[type[Message], Plan] = {}

    def encode(self, message: Message) -> tuple[bytearray, int]:
        """Encode a message: its bytes, and the length of their block. Characters that are not ASCII become ``?``.
        Raises :class:`UsageError` for a number that does not fit its field, for data over 1 GiB and for more than
        65,534 entries of a group."""
        plan = self._plan_of(type(message))
        body = bytearray()
        self._put(body, plan, message)
        return body, plan.whole.size

    def decode(
        self,
        kind: type[Message],
        data: Readable,
        at: int = 0,
        *,
        block_length: int | None = None,
        version: int = NEWEST,
        where: str = "message",
    ) -> Message:
        """Decode the body at offset ``at``. ``block_length`` and ``version`` are the writer's; without a length the
        block goes as far as the data. Bytes after the body are ignored. Raises :class:`CorruptData` if a length or a
        count leads out of ``data``, or a field has no such value."""
        plan = plan_of(kind)
        if block_length is None:
            block_length = min(plan.block.size, len(data) - at)
        return self._message(plan, _Source(data, version, where), at, block_length)[0]

    def _plan_of(self, kind: type[Message]) -> Plan:
        plan = self._written.get(kind)
        if plan is None:
            plan = self._written[kind] = plan_of(kind).written(self._version)
        return plan

    def _put(self, body: bytearray, plan: Plan, message: Message) -> None:
        body += _packed(plan, message)
        for part in plan.parts:
            value = getattr(message, part.name)
            if part.data is not None:
                self._put_data(body, part.name, part.data, value)
            elif part.entry is not None:
                self._put_group(body, part.name, part.entry.kind, value)

    def _put_group(self, body: bytearray, name: str, kind: type[Message], entries: tuple[Message, ...]) -> None:
        if len(entries) > MAX_GROUP_ENTRIES:
            raise UsageError(name, found=f"{len(entries)} entries", expected=f"at most {MAX_GROUP_ENTRIES}")
        plan = self._plan_of(kind)
        body += GROUP_HEAD.pack(plan.whole.size, len(entries))
        for entry in entries:
            self._put(body, plan, entry)

    def _put_data(self, body: bytearray, name: str, part: Data, value: Any) -> None:
        content = value if part.encoding is None else value.encode(part.encoding, "replace")
        if len(content) > MAX_DATA_BYTES:
            raise UsageError(name, found=f"{len(content)} bytes", expected=f"at most {MAX_DATA_BYTES}")
        if self._alignment > 1:
            body += bytes(-len(body) % self._alignment)
        body += self._length.pack(len(content))
        body += content

    def _message(self, plan: Plan, source: _Source, at: int, length: int) -> tuple[Message, int]:
        """The message, or entry of a group, whose block is at ``at``, and the offset after it."""
        end = at + length
        if end > len(source.data):
            raise source.error(at, f"{max(0, len(source.data) - at)} bytes", f"a block of {length} bytes")
        values = _items(plan, source, at, length)
        for part in plan.parts:
            # Writers of earlier versions end their messages where the part would begin.
            if part.since and (part.since > source.version or end == len(source.data)):
                value = plan.defaults[part.name]
            elif part.data is not None:
                value, end = self._data(part.name, part.data, source, end)
            elif part.entry is not None:
                value, end = self._entries(part.name, part.entry, source, end)
            values.append(value)
        return plan.kind(*values), end

    def _entries(self, name: str, plan: Plan, source: _Source, at: int) -> tuple[tuple[Message, ...], int]:
        start = at + GROUP_HEAD.size
        if start > len(source.data):
            raise source.error(at, f"no {name}", f"the number of {name}")
        length, count = GROUP_HEAD.unpack_from(source.data, at)
        room = len(source.data) - start
        if count > MAX_GROUP_ENTRIES or count * max(length, 1) > room:
            found = f"{count} {name} of {length} bytes"
            raise source.error(at, found, f"at most {MAX_GROUP_ENTRIES}, in {room} bytes")
        entries, end = [], start
        for _ in range(count):
            entry, end = self._message(plan, source, end, length)
            entries.append(entry)
        return tuple(entries), end

    def _data(self, name: str, part: Data, source: _Source, at: int) -> tuple[Any, int]:
        data = source.data
        at += -at % self._alignment
        start = at + self._length.size
        room = len(data) - start
        if room < 0:
            raise source.error(at, f"no {name}", f"the length of {name}")
        (length,) = self._length.unpack_from(data, at)
        if not 0 <= length <= room or length > MAX_DATA_BYTES:
            expected = f"0 to {min(room, MAX_DATA_BYTES)} bytes"
            raise source.error(at, f"{name} of {length} bytes", expected)
        end = start + length
        content = bytes(data[start:end])
        return (content if part.encoding is None else content.decode(part.encoding, "replace")), end


class _Source(NamedTuple):
    """What is decoded: the bytes, their writer's version, and what an error calls them."""

    data: Readable
    version: int
    where: str

    def error(self, at: int, found: str, expected: str) -> CorruptData:
        """The error for the bytes at an offset."""
        return CorruptData(self.where, offset=at, found=found, expected=expected)


def _packed(plan: Plan, message: Message) -> bytes:
    """The block."""
    try:
        return plan.whole.pack(
            *[
                getattr(message, item.name) if item.write is None else item.write(getattr(message, item.name))
                for item in plan.items
            ]
        )
    except (struct.error, OSError, ValueError) as error:
        where = type(message).__name__
        raise UsageError(where, found=str(message), message=f"can't encode {message}: {error}") from None


def _items(plan: Plan, source: _Source, at: int, length: int) -> list[Any]:
    """The values of the block's fields."""
    if source.version < plan.newest or length < plan.whole.size:
        return _those_there(plan, source, at, length)
    values = list(plan.whole.unpack_from(source.data, at))
    for index, read in plan.converted:
        try:
            values[index] = read(values[index])
        except ValueError as error:
            raise _no_value(plan, plan.items[index], source, at, values[index], error) from None
    return values


def _those_there(plan: Plan, source: _Source, at: int, length: int) -> list[Any]:
    """Like :func:`_items`, field by field. Those that the writer's version or block lacks get their defaults."""
    values = []
    for item in plan.items:
        if item.since <= source.version and item.end <= length:
            (value,) = struct.unpack_from("<" + item.code, source.data, at + item.offset)
            try:
                values.append(value if item.read is None else item.read(value))
            except ValueError as error:
                raise _no_value(plan, item, source, at, value, error) from None
        elif item.name in plan.defaults:
            values.append(plan.defaults[item.name])
        else:
            expected = f"{plan.block.name}.{item.name} at {item.offset}"
            raise source.error(at, f"a block of {length} bytes", expected)
    return values


def _no_value(plan: Plan, item: Item, source: _Source, at: int, value: Any, error: ValueError) -> CorruptData:
    found = str(error) if isinstance(value, bytes) else f"{item.name} {value}"
    return source.error(at + item.offset, found, f"a value of {plan.block.name}.{item.name}")
