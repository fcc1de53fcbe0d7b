"""Random schemas and messages of writers older, as old and newer: what is decoded, row by row and as columns under both
kernels, is what was put in. Layouts are worked out here, apart from the code under test."""

from __future__ import annotations

import math
import random
import struct
from array import array
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

import pytest

from everlog.core.batch import Batch
from everlog.core.columns import Column, ColumnData, ColumnType
from everlog.fields import Choices, Field
from everlog.kernel import blocks, blocks_twin
from everlog.sbe import Schema, columns, parse_schema
from everlog.sbe.columns import SbeColumns, field_columns

VERSION, SCHEMA_ID = 3, 9
NUMBERS: dict[str, tuple[str, float]] = {
    "int8": ("b", -(1 << 7)),
    "int16": ("h", -(1 << 15)),
    "int32": ("i", -(1 << 31)),
    "int64": ("q", -(1 << 63)),
    "uint8": ("B", 0xFF),
    "uint16": ("H", 0xFFFF),
    "uint32": ("I", 0xFFFFFFFF),
    "uint64": ("Q", (1 << 64) - 1),
    "float": ("f", math.nan),
    "double": ("d", math.nan),
}
HEAD = "".join(
    f"<type name='{name}' primitiveType='uint16'/>" for name in ("blockLength", "templateId", "schemaId", "version")
)
TYPES = (
    f"<composite name='messageHeader'>{HEAD}</composite>"
    "<composite name='groupSizeEncoding'><type name='blockLength' primitiveType='uint16'/>"
    "<type name='numInGroup' primitiveType='uint16'/></composite>"
    "<composite name='data'><type name='length' primitiveType='uint32'/>"
    "<type name='varData' primitiveType='uint8' length='0'/></composite>"
)
Read = Callable[[bytes], Any]


@dataclass
class Part:
    """Something in a block: ``read`` makes a value of its bytes, ``inner`` are a composite's parts."""

    name: str
    at: int
    size: int
    since: int = 0
    read: Read | None = None
    inner: list[Part] | None = None


@dataclass
class Layout:
    """A block, its groups and its data."""

    parts: list[Part] = field(default_factory=list)
    size: int = 0
    groups: list[tuple[str, Layout, int]] = field(default_factory=list)
    data: list[tuple[str, int]] = field(default_factory=list)


class Generator:
    """Draws a schema, and messages with what they hold."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.order = self.draw.choice("<>")
        self.types: list[str] = []
        self.count = 0
        self.messages = [self.layout(0) for _ in range(3)]
        body = "".join(
            f"<message name='M{number}' id='{number}' blockLength='{layout.size}'>{text}</message>"
            for number, (text, layout) in enumerate(self.messages)
        )
        order = "bigEndian" if self.order == ">" else "littleEndian"
        self.text = (
            f"<messageSchema id='{SCHEMA_ID}' version='{VERSION}' byteOrder='{order}'><types>{TYPES}"
            f"{''.join(self.types)}</types>{body}</messageSchema>"
        )

    def name(self, kind: str) -> str:
        self.count += 1
        return f"{kind}{self.count}"

    def chance(self, probability: float) -> bool:
        return self.draw.random() < probability

    # Schemas

    def text_type(self, name: str) -> tuple[int, Read]:
        size, optional = self.draw.choice((1, 3, 7)), self.chance(0.4)
        encoding = self.draw.choice(("US-ASCII", "UTF-8", "ISO-8859-1"))
        null = b"~" if self.chance(0.5) else b"\0"
        more = f"presence='optional' nullValue='{null.decode()}'" if null == b"~" else "presence='optional'"
        self.types.append(
            f"<type name='{name}' primitiveType='char' length='{size}' characterEncoding='{encoding}' "
            f"{more if optional else ''}/>"
        )

        def read(data: bytes) -> str | None:
            if optional and data[:1] == null:
                return None
            return data.partition(b"\0")[0].decode(encoding, "backslashreplace")

        return size, read

    def number_type(self, name: str) -> tuple[int, Read]:
        primitive = self.draw.choice(list(NUMBERS))
        code, null = NUMBERS[primitive]
        size, count = struct.calcsize(f"<{code}"), self.draw.choice((1, 1, 1, 3))
        optional, own_null = self.chance(0.5), self.chance(0.5)
        null = 5 if own_null else null
        more = f"presence='optional' {'nullValue=' + chr(39) + '5' + chr(39) if own_null else ''}" if optional else ""
        self.types.append(f"<type name='{name}' primitiveType='{primitive}' length='{count}' {more}/>")

        def read(data: bytes) -> Any:
            found = struct.unpack(f"{self.order}{count}{code}", data)
            values = [None if optional and (v == null or (null != null and v != v)) else v for v in found]
            return values[0] if count == 1 else values

        return size * count, read

    def named_type(self, name: str) -> tuple[int, Read]:
        """An enum, or a set."""
        primitive = self.draw.choice(("uint8", "uint16", "uint32", "uint64"))
        code, null = NUMBERS[primitive]
        size, is_set = struct.calcsize(f"<{code}"), self.chance(0.5)
        names = {self.draw.randrange(8): self.name("v") for _ in range(self.draw.randrange(5))}
        kind, item = ("set", "choice") if is_set else ("enum", "validValue")
        inside = "".join(f"<{item} name='{label}'>{value}</{item}>" for value, label in names.items())
        self.types.append(f"<{kind} name='{name}' encodingType='{primitive}'>{inside}</{kind}>")

        def read(data: bytes) -> Any:
            (value,) = struct.unpack(self.order + code, data)
            if is_set:
                return [names.get(bit, bit) for bit in range(64) if value >> bit & 1]
            return names.get(value, None if value == null else value)

        return size, read

    def composite(self, name: str, depth: int) -> list[Part]:
        parts: list[Part] = []
        inside = ""
        at = 0
        for _ in range(self.draw.randint(1, 4)):
            at, offset = self.gap(at, 0.3)
            part, text = self.part(at, depth + 1)
            inside += f"<{text}{offset}/>" if part.read or part.inner else f"<{text}{offset}>9</type>"
            parts.append(part)
            at += part.size
        self.types.append(f"<composite name='{name}'>{inside}</composite>")
        return parts

    def part(self, at: int, depth: int) -> tuple[Part, str]:
        """A member of a composite, and the beginning of its element."""
        name, kind = self.name("m"), self.name("T")
        if self.chance(0.1):
            return Part(name, at, 0), f"type name='{name}' primitiveType='uint8' presence='constant'"
        if depth < 3 and self.chance(0.3):
            inner = self.composite(kind, depth)
            size = inner[-1].at + inner[-1].size
            return Part(name, at, size, inner=inner), f"ref name='{name}' type='{kind}'"
        size, read = self.draw.choice((self.text_type, self.number_type, self.named_type))(kind)
        return Part(name, at, size, read=read), f"ref name='{name}' type='{kind}'"

    def gap(self, at: int, probability: float) -> tuple[int, str]:
        if not self.chance(probability) or at == 0:
            return at, ""
        at += self.draw.randrange(4)
        return at, f" offset='{at}'"

    def layout(self, depth: int) -> tuple[str, Layout]:
        made, text, at = Layout(), "", 0
        for _ in range(self.draw.randint(0 if depth else 1, 6)):
            at, offset = self.gap(at, 0.2)
            part, element = self.part(at, 0)
            part.since = self.draw.choice((0, 0, 1, 2, 3))
            kind = element.partition("type='")[2] if part.read or part.inner else self.constant()
            text += f"<field name='{part.name}' id='{self.count}' type='{kind.rstrip(chr(39))}'{offset} "
            text += f"sinceVersion='{part.since}'/>"
            made.parts.append(part)
            at += part.size
        made.size = at + self.draw.choice((0, 0, 3))
        for _ in range(self.draw.choice((0, 0, 1, 2)) if depth < 3 else 0):
            name, since = self.name("g"), self.draw.choice((0, 0, 2))
            inside, group = self.layout(depth + 1)
            text += f"<group name='{name}' id='{self.count}' sinceVersion='{since}' blockLength='{group.size}'>"
            text += f"{inside}</group>"
            made.groups.append((name, group, since))
        for _ in range(self.draw.choice((0, 0, 1, 2))):
            name, since = self.name("d"), self.draw.choice((0, 0, 3))
            text += f"<data name='{name}' id='{self.count}' type='data' sinceVersion='{since}'/>"
            made.data.append((name, since))
        return text, made

    def constant(self) -> str:
        name = self.name("K")
        self.types.append(f"<type name='{name}' primitiveType='uint8' presence='constant'>9</type>")
        return name

    # Messages

    def message(self, layout: Layout, version: int) -> tuple[bytes, dict[str, Any]]:
        """A whole message, and its fields."""
        length = layout.size + self.draw.choice((0, 0, 4)) if self.chance(0.8) else self.draw.randint(0, layout.size)
        number = next(n for n, (_, known) in enumerate(self.messages) if known is layout)
        body, fields = self.body(layout, version, length, 0)
        return struct.pack(f"{self.order}4H", length, number, SCHEMA_ID, version) + body, fields

    def body(self, layout: Layout, version: int, length: int, since: int) -> tuple[bytes, dict[str, Any]]:
        pool = self.draw.choice((bytes(range(256)), b"\0", b"\xff", b"\5\7\0A~\x7f\xff"))
        data = bytes(self.draw.choice(pool) for _ in range(length))
        fields = self.fields(layout.parts, version, data, 0, since)
        for name, group, own in layout.groups:
            newest = max(own, since)
            if newest > version:
                fields[name] = None
                continue
            size = group.size + self.draw.choice((0, 0, 2)) if self.chance(0.8) else self.draw.randint(0, group.size)
            entries = [self.body(group, version, size, newest) for _ in range(self.draw.choice((0, 1, 3)))]
            data += struct.pack(f"{self.order}2H", size, len(entries)) + b"".join(part for part, _ in entries)
            fields[name] = [entry for _, entry in entries]
        for name, own in layout.data:
            fields[name] = None
            if max(own, since) <= version:
                fields[name] = self.draw.randbytes(self.draw.choice((0, 1, 5)))
                data += struct.pack(f"{self.order}I", len(fields[name])) + fields[name]
        return data, fields

    def fields(self, parts: list[Part], version: int, data: bytes, base: int, since: int) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for part in parts:
            newest, at = max(since, part.since), base + part.at
            if newest > version:
                made[part.name] = None
            elif part.inner is not None:
                made[part.name] = self.fields(part.inner, version, data, at, newest)
            elif part.read is None:
                made[part.name] = 9
            else:
                made[part.name] = None if at + part.size > len(data) else part.read(data[at : at + part.size])
        return made


def same(one: Any, two: Any) -> bool:
    """Equal, and of one type; not a number equals itself."""
    if isinstance(one, dict):
        return isinstance(two, dict) and list(one) == list(two) and all(same(one[key], two[key]) for key in one)
    if isinstance(one, list):
        return isinstance(two, list) and len(one) == len(two) and all(map(same, one, two))
    return type(one) is type(two) and (one == two or (one != one and two != two))


def batch_of(payloads: list[bytes]) -> Batch:
    offsets = memoryview(array("i", [0, *accumulate(map(len, payloads))]))
    data = ColumnData(ColumnType.BINARY, memoryview(b"".join(payloads)), offsets)
    return Batch((Column("payload", ColumnType.BINARY),), len(payloads), {"payload": data})


def in_column(value: Any, described: Field) -> Any:
    """What a column has for a decoded value: an enum's number as text, a set as a number, bytes of an array."""
    if isinstance(value, list) and isinstance(described.labels, Choices):
        numbers: dict[Any, Any] = {name: bit for bit, name in described.labels.bits.items()}
        total = 0
        for item in value:
            total |= 1 << int(numbers.get(item, item) or 0)
        return total
    if isinstance(value, list):
        return bytes(int(described.null or 0) & 0xFF if item is None else item & 0xFF for item in value)
    return str(value) if isinstance(value, int) and described.labels is not None else value


def check_columns(schema: Schema, payloads: list[bytes], decoded: list[tuple[str, dict[str, Any]]]) -> None:
    for message in schema.messages.values():
        decoder = SbeColumns(schema, message.name)
        made = decoder.extend(batch_of(payloads), [c.name for c in decoder.columns if c.name != "sbe"])
        paths = [(p, f) for p, f in message.block.fields() if not f.is_array or f.code in "bB"]
        for (path, described), chosen in zip(paths, field_columns(message), strict=True):
            for value, (name, fields) in zip(made.to_list(chosen.column.name), decoded, strict=False):
                expected: Any = fields if name == message.name else None
                for step in path:
                    expected = None if expected is None else expected[step]
                found = bytes(value) if isinstance(value, memoryview) else value
                assert same(found, in_column(expected, described)), (path, found, expected)


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("kernel", [blocks.Blocks, blocks_twin.Blocks], ids=["built", "twin"])
def test_what_was_put_in_comes_out_as_rows_and_as_columns(
    seed: int, kernel: type[blocks_twin.Blocks], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Generator(seed)
    schema = parse_schema(made.text)
    payloads, decoded = [], []
    is_one_kind = made.chance(0.3)
    for _ in range(20):
        number = 0 if is_one_kind else made.draw.randrange(3)
        version = VERSION if is_one_kind else made.draw.randrange(VERSION + 2)
        payload, fields = made.message(made.messages[number][1], version)
        found = schema.decode(payload)
        assert same(found.fields, fields), made.text
        assert (found.template, found.version, found.end) == (f"M{number}", version, len(payload))
        payloads.append(payload)
        decoded.append((found.template, fields))
    others = [] if is_one_kind else [b"", b"abc", *(payload[: made.draw.randrange(8)] for payload in payloads[:3])]
    monkeypatch.setattr(columns, "Blocks", kernel)
    check_columns(schema, payloads + others, decoded)
