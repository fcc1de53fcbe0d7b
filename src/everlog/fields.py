"""The parts of structs and messages: one description from which decoders, encoders and columns are made.

A fixed struct is declared as a class (:mod:`everlog.layout`); the messages of an SBE schema are read from its XML
(:mod:`everlog.sbe.schema`). Both end as a :class:`Block`: fields at fixed offsets, then repeating groups, then
variable-length data. Names and order follow FIX Simple Binary Encoding 1.0 (https://www.fixtrading.org/standards/sbe/);
a fixed struct is its smallest case.
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
    """A decoded struct, from which a :class:`Field` takes its value when it is looked up in an instance."""

    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Enumeration:
    """The names of a field's values. ``is_char``: the values are characters."""

    names: Mapping[int, str]
    is_char: bool = False


@dataclass(frozen=True, slots=True)
class Choices:
    """The names of a field's bits, numbered from the least significant one."""

    bits: Mapping[int, str]


@dataclass(slots=True)
class Field:
    """One field: ``code`` is its :mod:`struct` code, ``count`` is above 1 for byte strings, gaps and arrays.

    ``since`` is the schema version that added the field, ``null`` the value that stands for null (NaN means any NaN),
    ``encoding`` the character encoding of a text field, ``time_unit`` the schema's unit of a time field.
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
        """Size in bytes."""
        return _SIZES[self.code] * self.count

    @property
    def end(self) -> int:
        """Offset of the first byte after the field."""
        return self.offset + self.size

    @property
    def is_gap(self) -> bool:
        """Whether the format leaves these bytes unused."""
        return self.code == "x"

    @property
    def is_array(self) -> bool:
        """Whether the field holds several numbers."""
        return self.count != 1 and self.code not in "sx"

    @property
    def type_name(self) -> str:
        """``u32``, ``i64``, ``bytes[12]``, ..."""
        name = _TYPE_NAMES[self.code]
        name += f"[{self.count}]" if self.code in "sx" or self.is_array else ""
        return name + (" big-endian" if self.big_endian else "")

    @property
    def order(self) -> str:
        """The :mod:`struct` character of the byte order."""
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
    """A value that is fixed in the schema and not part of any message."""

    name: str
    value: int | float | str
    since: int = 0


@dataclass(frozen=True, slots=True)
class Composite:
    """Several members under one name. Their offsets count from the start of the block, not of the composite."""

    name: str
    members: tuple[Member, ...]
    since: int = 0


Member = Field | Constant | Composite


@dataclass(frozen=True, slots=True)
class VarData:
    """Variable-length data: a length field, then that many bytes from ``data_offset`` on. ``encoding`` is that of a
    text, ``None`` for bytes."""

    name: str
    length: Field
    data_offset: int
    encoding: str | None = None
    since: int = 0


@dataclass(frozen=True, slots=True)
class Group:
    """A repeating group, each entry one block. A head of ``head_size`` bytes precedes the entries and holds their
    number and the block length in the writer's schema."""

    name: str
    block_length: Field
    count: Field
    head_size: int
    block: Block
    since: int = 0


@dataclass(frozen=True, eq=False)
class Block:
    """``size`` bytes of fields, then groups, then variable-length data. Compared by identity."""

    name: str
    size: int
    members: tuple[Member, ...]
    groups: tuple[Group, ...] = ()
    var_data: tuple[VarData, ...] = ()

    def fields(self) -> Iterator[tuple[tuple[str, ...], Field]]:
        """All fields, including those inside composites, each with the path of names that leads to it."""
        return _leaves(self.members, ())


def _leaves(members: tuple[Member, ...], path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Field]]:
    for member in members:
        if isinstance(member, Field):
            yield (*path, member.name), member
        elif isinstance(member, Composite):
            yield from _leaves(member.members, (*path, member.name))
