"""What a declaration makes of numbers, and declarations that no bytes could be read back with."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Annotated, Any, ClassVar

import pytest

from everlog.aeron.messages import (
    NULL_INT32,
    NULL_INT64,
    BodyCodec,
    Composite,
    Flag,
    Int32,
    Int64,
    Message,
    Number,
    Since,
    Text,
    UInt8,
    block_of,
)
from everlog.errors import CorruptData, UsageError
from everlog.fields import Enumeration
from everlog.layout import Layout, LayoutError, u8, u16


class Fruit(IntEnum):
    APPLE = 0
    PEAR = 3


class Grade(Enum):
    FINE = 1
    POOR = 2


class DateLayout(Layout, size=4, source="made up"):
    """A day."""

    year: int = u16(0)
    month: int = u8(2)
    day: int = u8(3)


def read_date(date: DateLayout) -> str:
    if not 1 <= date.month <= 12:
        raise ValueError(f"month {date.month}")
    return f"{date.year}-{date.month}-{date.day}"


def write_date(text: str) -> bytes:
    year, month, day = map(int, text.split("-"))
    return DateLayout.pack(year=year, month=month, day=day)


@dataclass(frozen=True, slots=True)
class Crate(Message):
    """Of every kind of number."""

    fruit: Annotated[Fruit, Number("i", kind=Fruit)]
    grade: Annotated[Grade | None, Number("i", kind=Grade, null=NULL_INT32)]
    picked: Annotated[str, Composite(DateLayout, read_date, write_date)]
    weight: Annotated[int | None, Number("q", null=NULL_INT64)]
    rows: Annotated[UInt8, "of the crate", Since(2)] = 0


BODIES = BodyCodec()
BYTES = struct.pack("<iiHBBqB", 3, 2, 2024, 5, 17, 900, 4)
CRATE = Crate(Fruit.PEAR, Grade.POOR, "2024-5-17", 900, 4)


def decode(data: bytes, kind: type[Message] = Crate, **options: Any) -> Message:
    return BODIES.decode(kind, data, **options)


def test_each_number_is_a_value_of_its_kind() -> None:
    assert decode(BYTES) == CRATE
    assert BODIES.encode(CRATE) == (BYTES, len(BYTES))


def test_a_null_is_none_both_ways() -> None:
    data = struct.pack("<iiHBBqB", 0, NULL_INT32, 1, 1, 1, NULL_INT64, 0)
    crate = Crate(Fruit.APPLE, None, "1-1-1", None)
    assert decode(data) == crate
    assert BODIES.encode(crate)[0] == data


@pytest.mark.parametrize(
    ("at", "put", "found"), [(0, 1, "fruit 1"), (4, 9, "grade 9"), (8, 13 << 16, "month 13"), (0, NULL_INT32, "fruit")]
)
def test_a_number_that_is_no_value_is_refused_with_its_place(at: int, put: int, found: str) -> None:
    data = bytearray(BYTES)
    struct.pack_into("<i", data, at, put)
    for end in (len(data), len(data) - 1):  # also where the block lacks its last field
        with pytest.raises(CorruptData, match=found) as raised:
            decode(bytes(data[:end]))
        assert raised.value.offset == at


def test_a_value_that_has_no_number_is_refused() -> None:
    with pytest.raises(UsageError, match="can't encode"):
        BODIES.encode(Crate(Fruit.APPLE, None, "1-999-1", None))


def test_the_description_has_names_nulls_and_meanings() -> None:
    fields = [field for _, field in block_of(Crate).fields()]
    assert [(field.name, field.offset, field.type_name) for field in fields] == [
        ("fruit", 0, "i32"),
        ("grade", 4, "i32"),
        ("year", 8, "u16"),
        ("month", 10, "u8"),
        ("day", 11, "u8"),
        ("weight", 12, "i64"),
        ("rows", 20, "u8"),
    ]
    assert fields[0].labels == Enumeration({0: "APPLE", 3: "PEAR"})
    # An enumeration always has a null in SBE, even if a message without it is refused.
    assert [field.null for field in fields] == [NULL_INT32, NULL_INT32, None, None, None, NULL_INT64, None]
    assert (fields[-1].doc, fields[-1].since) == ("of the crate", 2)


# Lengths as a driver's commands have them


@dataclass(frozen=True, slots=True)
class Note(Message):
    """Two texts."""

    number: Int32
    first: Text
    second: Text


def test_lengths_are_aligned_and_signed_where_a_protocol_has_them_so() -> None:
    bodies = BodyCodec(length_code="i", alignment=4)
    data = struct.pack("<ii", 1, 3) + b"abc" + b"\0" + struct.pack("<i", 2) + b"de"
    assert bodies.encode(Note(1, "abc", "de")) == (data, 4)
    assert bodies.decode(Note, data) == Note(1, "abc", "de")
    with pytest.raises(CorruptData, match="first of -2 bytes"):
        bodies.decode(Note, struct.pack("<iii", 1, -2, 0))


# Declarations


@dataclass(frozen=True, slots=True)
class WithoutDefault(Message):
    number: Annotated[Int32, Since(2)]


@dataclass(frozen=True, slots=True)
class Inserted(Message):
    number: Annotated[Int32, Since(2)] = 0
    other: Int32 = 0


@dataclass(frozen=True, slots=True)
class NumberAfterText(Message):
    text: Text
    number: Int32


@dataclass(frozen=True, slots=True)
class Car(Message):
    number: Int32


@dataclass(frozen=True, slots=True)
class GroupAfterText(Message):
    text: Text
    cars: tuple[Car, ...]


@dataclass(frozen=True, slots=True)
class EmptyEntry(Message):
    number: Annotated[Int32, Since(2)] = 0


@dataclass(frozen=True, slots=True)
class WithEmptyEntries(Message):
    entries: tuple[EmptyEntry, ...]


@dataclass(frozen=True, slots=True)
class Plain(Message):
    number: int


@dataclass(frozen=True, slots=True)
class Pair(Message):
    cars: tuple[Car, Car]


@pytest.mark.parametrize(
    ("kind", "found"),
    [
        (WithoutDefault, "it needs a default"),
        (Inserted, "after a field of version 2"),
        (NumberAfterText, "numbers come before"),
        (GroupAfterText, "a group comes before"),
        (WithEmptyEntries, "begins with a number"),
        (Plain, "neither a number"),
        (Pair, "neither a number"),
    ],
)
def test_a_declaration_that_could_not_be_read_back_is_refused(kind: type[Message], found: str) -> None:
    with pytest.raises(LayoutError, match=found):
        block_of(kind)


@dataclass(frozen=True, slots=True)
class Base(Message):
    template_id: ClassVar[int] = 1
    first: Int64


@dataclass(frozen=True, slots=True)
class Derived(Base):
    second: Flag


def test_a_class_inherits_the_fields_of_its_base() -> None:
    assert [(field.name, field.offset) for _, field in block_of(Derived).fields()] == [("first", 0), ("second", 8)]
