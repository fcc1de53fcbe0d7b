"""Declare a struct once: fields, offsets, size, source.

A layout is a class whose attributes are fields at fixed offsets::

    class JlogHeader(Layout, size=16, title="Message header", source="jlog.h: _jlog_message_header"):
        '''Header before each message.'''

        magic: int = u32(0, "equals the metastore's hdr_magic")
        tv_sec: int = u32(4, "seconds since the epoch")
        tv_usec: int = u32(8)
        length: int = u32(12, "payload bytes")

``JlogHeader.length`` is the :class:`Field` (its ``offset`` is written nowhere else), ``JlogHeader.unpack_from(data,
at).length`` a value. A hole or an overlap is an error at import; bytes that the format leaves unused are declared
with :func:`gap`. ``tools/generate_layouts.py`` generates the tables in ``docs/formats`` and the offsets that compiled
code uses (``_layouts.pxi``) from these classes. Like an SBE message, each class has a :class:`~everlog.fields.Block`:
``JlogHeader.block``.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, ClassVar, Self

from everlog.errors import FileChanged
from everlog.fields import Block, Enumeration, VarData
from everlog.fields import Field as Field

Readable = bytes | bytearray | memoryview


class LayoutError(TypeError):
    """A declaration with a hole, an overlap or a wrong size."""


def _field(code: str) -> Any:
    def declare(offset: int, doc: str = "", *, names: Mapping[int, str] | None = None, null: int | None = None) -> Any:
        """``names``: the names of an enumeration's values; ``null``: the value that stands for null."""
        return Field(offset, code, doc=doc, labels=None if names is None else Enumeration(names), null=null)

    return declare


u8, i8 = _field("B"), _field("b")
u16, i16 = _field("H"), _field("h")
u32, i32 = _field("I"), _field("i")
u64, i64 = _field("Q"), _field("q")


def fixed_bytes(offset: int, count: int, doc: str = "") -> Any:
    """A byte string of fixed length."""
    return Field(offset, "s", count, doc)


def gap(offset: int, count: int, doc: str = "") -> Any:
    """Bytes without meaning: padding or reserved."""
    return Field(offset, "x", count, doc)


def texts(*names: str) -> tuple[VarData, ...]:
    """ASCII texts after a struct, each preceded by its length (uint32, little-endian), as in Aeron's SBE schemas."""
    return tuple(VarData(name, Field(0, "I", name="length"), 4, "ascii") for name in names)


class Layout:
    """Base of all layouts. A struct has ``size`` bytes; ``var_data`` names the length-prefixed texts that follow an SBE
    block."""

    size: ClassVar[int]
    title: ClassVar[str]
    source: ClassVar[str]
    fields: ClassVar[tuple[Field, ...]]
    block: ClassVar[Block]
    var_data: ClassVar[tuple[VarData, ...]]
    struct: ClassVar[struct.Struct]
    values: tuple[Any, ...]
    __slots__ = ("values",)

    registry: ClassVar[list[type[Layout]]] = []

    def __init_subclass__(
        cls,
        *,
        size: int,
        source: str,
        title: str = "",
        var_data: tuple[str, ...] = (),
        big_endian: bool = False,
    ) -> None:
        cls.size, cls.source, cls.title = size, source, title or cls.__name__
        cls.var_data = texts(*var_data)
        declared = [(name, value) for name, value in vars(cls).items() if isinstance(value, Field)]
        declared.sort(key=lambda pair: pair[1].offset)
        at, index, formats, fields = 0, 0, [], []
        for name, field in declared:
            if field.offset != at:
                kind = "hole" if field.offset > at else "overlap"
                raise LayoutError(
                    f"{cls.__name__}.{name}: {kind}, it starts at {field.offset}, the field before it ends at {at}"
                )
            field.name = name
            field.big_endian = big_endian
            if not field.is_gap:
                field.index = index
                index += 1
            formats.append(field.format)
            fields.append(field)
            at = field.end
        if at != size:
            raise LayoutError(f"{cls.__name__}: the fields end at {at}, but size is {size}")
        cls.fields = tuple(fields)
        cls.block = Block(cls.__name__, size, tuple(f for f in fields if not f.is_gap), (), cls.var_data)
        cls.struct = struct.Struct((">" if big_endian else "<") + "".join(formats))
        Layout.registry.append(cls)

    def __init__(self, values: tuple[Any, ...]) -> None:
        self.values = values

    @classmethod
    def field(cls, name: str) -> Field:
        """A field's declaration. Raises :class:`LayoutError` if no field has this name."""
        for field in cls.fields:
            if field.name == name:
                return field
        raise LayoutError(f"{cls.__name__} has no field {name}")

    @classmethod
    def unpack_from(cls, data: Readable, offset: int = 0) -> Self:
        """Read one struct. Raises :class:`FileChanged` if fewer than ``size`` bytes are left: callers compare lengths
        first, so the file must have been cut since."""
        try:
            return cls(cls.struct.unpack_from(data, offset))
        except struct.error:
            left = max(0, len(data) - offset)
            found, expected = f"{left} bytes", f"{cls.size} bytes"
            message = f"{cls.title} is cut short: {found}, expected {expected}"
            raise FileChanged(cls.title, found=found, expected=expected, message=message) from None

    @classmethod
    def pack(cls, **values: Any) -> bytes:
        """The bytes of one struct; fields that are not named are 0."""
        known = {field.name for field in cls.fields if not field.is_gap}
        if unknown := values.keys() - known:
            raise LayoutError(f"{cls.__name__} has no field {', '.join(sorted(unknown))}")
        row = [values.get(f.name, b"" if f.code == "s" else 0) for f in cls.fields if not f.is_gap]
        return cls.struct.pack(*row)

    def as_dict(self) -> dict[str, Any]:
        """Field names and values, in offset order."""
        return {f.name: self.values[f.index] for f in type(self).fields if not f.is_gap}

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and isinstance(other, Layout) and self.values == other.values

    def __hash__(self) -> int:
        return hash((type(self), self.values))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in self.as_dict().items())})"
