"""Messages of Aeron's SBE schemas as values: a message is a frozen dataclass, and its annotations are its layout.

::

    @dataclass(frozen=True, slots=True)
    class StopReplay(Message):
        '''Stop a replay.'''

        template_id: ClassVar[int] = 7
        control_session_id: Int64
        correlation_id: Int64
        replay_session_id: Int64

Numbers take the places of the block in the order of their declaration, without gaps; texts and bytes follow it, each
after its length. A field that a later schema version added says so (``number("i", since=7)``) and has a default, which
a message of an earlier version gets. :class:`MessageCodec` encodes and decodes the messages of one schema.

Source: FIX Simple Binary Encoding 1.0, as Aeron's codecs use it: little-endian, header of four 16-bit numbers.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from dataclasses import MISSING, dataclass, fields
from enum import Enum
from typing import Annotated, Any, ClassVar, get_type_hints

from everlog.aeron.layouts import SbeMessageHeader
from everlog.errors import CorruptData, UnknownMessage, UsageError
from everlog.fields import Block, Field, VarData
from everlog.layout import Readable

_HEADER = SbeMessageHeader.struct
HEADER_LENGTH = SbeMessageHeader.size
_LENGTH = struct.Struct("<I")
MAX_DATA_BYTES = 1 << 30
"""The longest text or data of a message (``maxValue`` of the lengths in Aeron's schemas)."""


@dataclass(frozen=True, slots=True)
class Number:
    """A field of the block. ``code`` is its :mod:`struct` code, ``since`` the schema version that added it; ``kind``
    makes the value, and raises :class:`ValueError` for a number that has none."""

    code: str
    since: int = 0
    kind: Callable[[int], Any] | None = None


@dataclass(frozen=True, slots=True)
class Data:
    """Variable-length data behind the block. ``encoding`` is that of a text, ``None`` for bytes."""

    encoding: str | None
    since: int = 0


Int32 = Annotated[int, Number("i")]
Int64 = Annotated[int, Number("q")]
Flag = Annotated[bool, Number("i", kind=bool)]
Text = Annotated[str, Data("ascii")]
Bytes = Annotated[bytes, Data(None)]


class Message:
    """Base of all messages: a frozen dataclass with a ``template_id``."""

    template_id: ClassVar[int]
    __slots__ = ()


@dataclass(frozen=True, slots=True)
class _Plan:
    """How a message class is encoded. ``whole`` has all numbers, ``newest`` is the version that has all of them."""

    block: Block
    whole: struct.Struct
    numbers: tuple[tuple[str, int, Number], ...]
    """Name, offset and declaration of each number."""
    data: tuple[tuple[str, Data], ...]
    newest: int
    defaults: dict[str, Any]


_plans: dict[type[Message], _Plan] = {}


def _plan_of(kind: type[Message]) -> _Plan:
    plan = _plans.get(kind)
    if plan is None:
        plan = _plans[kind] = _make_plan(kind)
    return plan


def _make_plan(kind: type[Message]) -> _Plan:
    hints = get_type_hints(kind, include_extras=True)
    numbers: list[tuple[str, int, Number]] = []
    data: list[tuple[str, Data]] = []
    defaults: dict[str, Any] = {}
    at = 0
    for field in fields(kind):  # type: ignore[arg-type]
        (declared,) = hints[field.name].__metadata__
        if isinstance(declared, Number):
            numbers.append((field.name, at, declared))
            at += struct.calcsize("<" + declared.code)
        else:
            data.append((field.name, declared))
        if field.default is not MISSING:
            defaults[field.name] = field.default
    block = Block(
        kind.__name__,
        at,
        tuple(Field(offset, number.code, name=name, since=number.since) for name, offset, number in numbers),
        (),
        tuple(VarData(name, Field(0, "I", name="length"), 4, part.encoding, part.since) for name, part in data),
    )
    whole = struct.Struct("<" + "".join(number.code for _, _, number in numbers))
    newest = max([number.since for _, _, number in numbers], default=0)
    return _Plan(block, whole, tuple(numbers), tuple(data), newest, defaults)


def block_of(kind: type[Message]) -> Block:
    """Return the description of a message's fields."""
    return _plan_of(kind).block


class MessageCodec:
    """The messages of one schema. Messages are written in ``version``; every version is read: what a newer writer
    appended is skipped, what an older one lacks gets its default."""

    def __init__(self, schema_id: int, version: int, kinds: Iterable[type[Message]]) -> None:
        self.schema_id = schema_id
        self.version = version
        self._kinds = {kind.template_id: kind for kind in kinds}

    def encode(self, message: Message) -> bytes:
        """Encode a message with its header. Characters that are not ASCII become ``?``. Raises :class:`UsageError` for
        a number that does not fit its field, and for data over 1 GiB."""
        plan = _plan_of(type(message))
        try:
            block = plan.whole.pack(*(_number_of(getattr(message, name)) for name, _, _ in plan.numbers))
        except struct.error as error:
            where = type(message).__name__
            raise UsageError(where, found=str(message), message=f"can't encode {message}: {error}") from None
        parts = [_HEADER.pack(len(block), message.template_id, self.schema_id, self.version), block]
        for name, data in plan.data:
            value = getattr(message, name)
            content = value if data.encoding is None else value.encode(data.encoding, "replace")
            if len(content) > MAX_DATA_BYTES:
                raise UsageError(name, found=f"{len(content)} bytes", expected=f"at most {MAX_DATA_BYTES}")
            parts += [_LENGTH.pack(len(content)), content]
        return b"".join(parts)

    def decode(self, data: Readable, where: str = "message") -> Message:
        """Decode a message. Raises :class:`UnknownMessage` for another schema and for a template that the schema lacks,
        :class:`CorruptData` if a length leads out of ``data`` or a value is none of its field's."""
        if len(data) < HEADER_LENGTH:
            expected = f"a header of {HEADER_LENGTH} bytes"
            raise CorruptData(where, offset=0, found=f"{len(data)} bytes", expected=expected)
        length, template_id, schema_id, version = _HEADER.unpack_from(data)
        if schema_id != self.schema_id:
            raise UnknownMessage(where, found=f"schema id {schema_id}", expected=f"schema id {self.schema_id}")
        kind = self._kinds.get(template_id)
        if kind is None:
            raise UnknownMessage(where, found=f"template id {template_id}", expected="a template of the schema")
        end = HEADER_LENGTH + length
        if end > len(data):
            found, expected = f"{len(data) - HEADER_LENGTH} bytes", f"a block of {length} bytes"
            raise CorruptData(where, offset=HEADER_LENGTH, found=found, expected=expected)
        plan = _plan_of(kind)
        values = _numbers(plan, data, length, version, where)
        for name, part in plan.data:
            # The writers of the versions before a text end their messages where it would begin.
            if part.since > version or (part.since and end == len(data)):
                values[name] = plan.defaults[name]
            else:
                values[name], end = _data(name, part, data, end, where)
        return kind(**values)


def _number_of(value: Any) -> int:
    return int(value.value if isinstance(value, Enum) else value)


def _numbers(plan: _Plan, data: Readable, length: int, version: int, where: str) -> dict[str, Any]:
    values: dict[str, Any] = {}
    is_whole = version >= plan.newest and length >= plan.block.size
    items = plan.whole.unpack_from(data, HEADER_LENGTH) if is_whole else None
    for index, (name, offset, number) in enumerate(plan.numbers):
        if items is not None:
            value = items[index]
        elif number.since <= version and offset + struct.calcsize("<" + number.code) <= length:
            (value,) = struct.unpack_from("<" + number.code, data, HEADER_LENGTH + offset)
        elif name in plan.defaults:
            values[name] = plan.defaults[name]
            continue
        else:
            found, expected = f"a block of {length} bytes", f"{plan.block.name}.{name} at {offset}"
            raise CorruptData(where, offset=HEADER_LENGTH, found=found, expected=expected)
        try:
            values[name] = value if number.kind is None else number.kind(value)
        except ValueError:
            at, found = HEADER_LENGTH + offset, f"{name} {value}"
            raise CorruptData(where, offset=at, found=found, expected=f"a value of {plan.block.name}.{name}") from None
    return values


def _data(name: str, part: Data, data: Readable, at: int, where: str) -> tuple[Any, int]:
    start = at + _LENGTH.size
    if start > len(data):
        raise CorruptData(where, offset=at, found=f"{len(data) - at} bytes", expected=f"the length of {name}")
    (length,) = _LENGTH.unpack_from(data, at)
    if length > min(len(data) - start, MAX_DATA_BYTES):
        found = f"{name} of {length} bytes"
        raise CorruptData(where, offset=at, found=found, expected=f"at most {len(data) - start} bytes")
    content = bytes(data[start : start + length])
    return (content if part.encoding is None else content.decode(part.encoding, "replace")), start + length
