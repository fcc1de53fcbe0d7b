"""What the annotations of a message say about its fields."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from everlog.layout import Layout

NULL_INT32 = -(1 << 31)
NULL_INT64 = -(1 << 63)
"""What SBE writes for an absent number or enumeration value."""


@dataclass(frozen=True, slots=True)
class Number:
    """A field of the block. ``code`` is its :mod:`struct` code. ``kind`` makes the value, and raises
    :class:`ValueError` for a number that has none; ``null`` is the number that stands for ``None``."""

    code: str
    kind: Callable[[int], Any] | None = None
    null: int | None = None


@dataclass(frozen=True, slots=True)
class Composite:
    """Several numbers of the block that make one value. ``read`` makes it from the decoded struct, and raises
    :class:`ValueError` for a struct without a value; ``write`` makes the struct's bytes."""

    layout: type[Layout]
    read: Callable[[Any], Any]
    write: Callable[[Any], bytes]


@dataclass(frozen=True, slots=True)
class Data:
    """Variable-length data after the block. ``encoding`` is that of a text, ``None`` for bytes."""

    encoding: str | None


@dataclass(frozen=True, slots=True)
class Since:
    """The schema version that added a field, a group or data."""

    version: int


UInt8 = Annotated[int, Number("B")]
Int32 = Annotated[int, Number("i")]
Int64 = Annotated[int, Number("q")]
Flag = Annotated[bool, Number("i", kind=bool)]
Text = Annotated[str, Data("ascii")]
Bytes = Annotated[bytes, Data(None)]


class Message:
    """Base of all messages, and of the entries of their groups: frozen dataclasses. Messages of an SBE schema have a
    ``template_id``."""

    template_id: ClassVar[int]
    __slots__ = ()
