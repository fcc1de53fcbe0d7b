"""What structs and messages are made of: one description behind all of their decoders, encoders and columns.

A fixed struct is declared as a class (:mod:`everlog.layout`), the messages of an SBE schema are read from its XML
(:mod:`everlog.sbe.schema`). Both end as a :class:`Block`: fields at fixed offsets, behind them repeating groups, behind
those data of variable length. Names and order follow FIX Simple Binary Encoding 1.0
(https://www.fixtrading.org/standards/sbe/), of which a fixed struct is the smallest case.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, overload

_SIZES = {"b": 1, "B": 1, "h": 2, "H": 2, "i": 4, "I": 4, "q": 8, "Q": 8, "f": 4, "d": 8, "s": 1, "x": 1}
_TYPE_NAMES = {
    "b": "i8",
    "B": "u8",
    "h": "i16",
    "H": "u16",
    "i": "i32",
    "I": "u32",
    "q": "i64",
    "Q": "u64",
    "f": "f32",
    "d": "f64",
    "s": "bytes",
    "x": "-",
}


class Row(Protocol):
    """What a :class:`Field` takes its value from when it is looked up in an instance: a decoded struct."""

    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Enumeration:
    """Names of a field's values. ``is_char``: the values are characters."""

    names: Mapping[int, str]
    is_char: bool = False


@dataclass(frozen=True, slots=True)
class Choices:
    """Names of a field's bits, by number from the least significant one."""

    bits: Mapping[int, str]


@dataclass(slots=True)
class Field:
    """One field: ``code`` is its :mod:`struct` code, ``count`` above 1 for byte strings, gaps and arrays.

    ``since`` is the version of the schema that brought it, ``null`` the value that stands for none (not a number means
    any such), ``encoding`` that of text, where it is some. ``time_unit`` is that of a schema's field with a time.
    """

    offset: int
    code: str
    count: int = 1
    doc: str = ""
    name: str = ""
    index: int = -1
    big_endian: bool = False
    since: int = 0
    null: int | float | None = None
    labels: Enumeration | Choices | None = None
    encoding: str | None = None
    time_unit: str | None = None

    @property
    def size(self) -> int:
        """Bytes."""
        return _SIZES[self.code] * self.count

    @property
    def end(self) -> int:
        """Offset of the first byte after the field."""
        return self.offset + self.size

    @property
    def is_gap(self) -> bool:
        """Bytes that the format leaves free."""
        return self.code == "x"

    @property
    def is_array(self) -> bool:
        """Several numbers."""
        return self.count != 1 and self.code not in "sx"

    @property
    def type_name(self) -> str:
        """``u32``, ``i64``, ``bytes[12]``, ..."""
        name = _TYPE_NAMES[self.code]
        name += f"[{self.count}]" if self.code in "sx" or self.is_array else ""
        return name + (" big-endian" if self.big_endian else "")

    @property
    def order(self) -> str:
        """:mod:`struct`'s character for the byte order."""
        return ">" if self.big_endian else "<"

    @property
    def format(self) -> str:
        """:mod:`struct` format without byte order."""
        return f"{self.count}{self.code}" if self.code in "sx" or self.is_array else self.code

    @overload
    def __get__(self, instance: None, owner: type) -> Field: ...
    @overload
    def __get__(self, instance: Row, owner: type) -> Any: ...
    def __get__(self, instance: Row | None, owner: type) -> Any:
        return self if instance is None else instance.values[self.index]


@dataclass(frozen=True, slots=True)
class Constant:
    """A value that the schema holds and no message carries."""

    name: str
    value: int | float | str
    since: int = 0


@dataclass(frozen=True, slots=True)
class Composite:
    """Several members under one name. Their offsets are of the block, not of the composite."""

    name: str
    members: tuple[Member, ...]
    since: int = 0


Member = Field | Constant | Composite


@dataclass(frozen=True, slots=True)
class VarData:
    """Data of variable length: a length, then from ``data_offset`` on so many bytes. ``encoding``: of text; ``None``
    where it is bytes."""

    name: str
    length: Field
    data_offset: int
    encoding: str | None = None
    since: int = 0


@dataclass(frozen=True, slots=True)
class Group:
    """Entries of one block each. Before them ``head_size`` bytes tell the block's length, as the writer's schema had
    it, and their number."""

    name: str
    block_length: Field
    count: Field
    head_size: int
    block: Block
    since: int = 0


@dataclass(frozen=True, eq=False)
class Block:
    """``size`` bytes of fields, then groups, then variable data. Two are equal when they are the same object."""

    name: str
    size: int
    members: tuple[Member, ...]
    groups: tuple[Group, ...] = ()
    var_data: tuple[VarData, ...] = ()

    def fields(self) -> Iterator[tuple[tuple[str, ...], Field]]:
        """All fields, those of composites too, each with the names that lead to it."""
        return _leaves(self.members, ())


def _leaves(members: tuple[Member, ...], path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Field]]:
    for member in members:
        if isinstance(member, Field):
            yield (*path, member.name), member
        elif isinstance(member, Composite):
            yield from _leaves(member.members, (*path, member.name))
