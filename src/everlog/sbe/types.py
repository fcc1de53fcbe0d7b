"""The types of an SBE schema, placed in a block: fields, composites, constants.

Source: FIX Simple Binary Encoding 1.0, field encoding and schema; where it is silent, Real Logic's sbe-tool (null
values and ranges by primitive type, offsets in composites, a field's presence overriding its type's).
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass, replace

from everlog.errors import InvalidSchema
from everlog.fields import Choices, Composite, Constant, Enumeration, Field, Member
from everlog.sbe.xml import Element

MAX_MEMBERS = 100_000
MAX_NESTING = 16
MAX_BLOCK_BYTES = 1 << 20
"""Limits of a schema: fields in all messages with composites expanded, nesting of composites, bytes of a block."""

PRIMITIVES: dict[str, tuple[str, int | float]] = {
    "char": ("s", 0),
    "int8": ("b", -(1 << 7)),
    "int16": ("h", -(1 << 15)),
    "int32": ("i", -(1 << 31)),
    "int64": ("q", -(1 << 63)),
    "uint8": ("B", (1 << 8) - 1),
    "uint16": ("H", (1 << 16) - 1),
    "uint32": ("I", (1 << 32) - 1),
    "uint64": ("Q", (1 << 64) - 1),
    "float": ("f", float("nan")),
    "double": ("d", float("nan")),
}
"""Name to :mod:`struct` code and default null value."""

_ENCODINGS = re.compile(
    r"(us-)?ascii|utf-?(8|16|32)([-_]?[lb]e)?|iso[-_]?8859[-_]\d\d?|latin-?1|(windows-|cp)125\d|gb(k|18030|2312)"
    r"|big5|shift[-_]jis|euc[-_](jp|kr)"
)
_NUMBER = re.compile(r"[+-]?\d{1,20}")


@dataclass(frozen=True, slots=True)
class Place:
    """Where and how a type is used: name, offset, the version that added it, and the presence and value that the user
    of the type gives (``None``: as the type says)."""

    name: str
    offset: int = 0
    since: int = 0
    presence: str | None = None
    value_ref: str | None = None
    doc: str = ""
    time_unit: str | None = None
    path: tuple[str, ...] = ()


class Types:
    """The named types of a schema. ``big_endian``: the byte order of all numbers."""

    def __init__(self, root: Element, *, big_endian: bool) -> None:
        self._big_endian = big_endian
        self._by_name: dict[str, Element] = {}
        # Keyed by the element's id: all fields of an enum share its names.
        self._enums: dict[int, tuple[str, int | float, Enumeration]] = {}
        self._numbers: dict[int, dict[str, int]] = {}
        self._left = MAX_MEMBERS
        for section in root.named("types"):
            for element in section.named("type", "composite", "enum", "set"):
                name = element.require("name")
                if name in self._by_name:
                    raise element.error(f"a second type {name}", "one of each name")
                self._by_name[name] = element

    def named(self, name: str, user: Element) -> Element:
        """A type's element, also for primitive types. Raises :class:`InvalidSchema`, at the line of ``user``."""
        if name in self._by_name:
            return self._by_name[name]
        if name in PRIMITIVES:
            return Element("type", {"name": name, "primitiveType": name}, user.where)
        raise user.error(f"type {name!r}", "a type of the schema")

    def put(self, element: Element, place: Place) -> tuple[Member, int]:
        """Place a type in a block; returns its member and size in bytes."""
        self._left -= 1
        if self._left < 0:
            raise element.error("too many fields", f"at most {MAX_MEMBERS} with composites expanded")
        since = max(place.since, element.number("sinceVersion", 0))
        place = replace(place, since=since, doc=place.doc or element.get("description") or "")
        member, size = {"type": self._plain, "enum": self._enum, "set": self._set, "composite": self._composite}[
            element.tag
        ](element, place)
        if place.offset + size > MAX_BLOCK_BYTES:
            raise element.error(f"{place.name} up to byte {place.offset + size}", f"blocks of {MAX_BLOCK_BYTES} bytes")
        return member, size

    def _plain(self, element: Element, place: Place) -> tuple[Member, int]:
        code, null = _primitive(element, element.require("primitiveType"))
        presence = _presence(element, place.presence or element.get("presence"))
        if presence == "constant":
            return Constant(place.name, self._constant(element, place, code), place.since), 0
        field = self._field(place, code, element.number("length", 1))
        if presence == "optional":
            text = element.get("nullValue")
            field.null = null if text is None else _value(element, text, code)
        if code == "s":
            field.encoding = text_encoding(element, element.get("characterEncoding") or "US-ASCII")
        return field, field.size

    def _field(self, place: Place, code: str, count: int) -> Field:
        if count > MAX_BLOCK_BYTES:
            raise InvalidSchema(place.name, found=f"length {count}", expected=f"at most {MAX_BLOCK_BYTES}")
        return Field(
            place.offset,
            code,
            count,
            place.doc,
            place.name,
            big_endian=self._big_endian,
            since=place.since,
            time_unit=place.time_unit,
        )

    def _constant(self, element: Element, place: Place, code: str) -> int | float | str:
        reference = place.value_ref or element.get("valueRef")
        if reference is not None:
            _, value, is_char = self._referenced(element, reference)
            return chr(value) if is_char else value
        if not element.text:
            raise element.error(f"constant {place.name} without a value", "a value or a valueRef")
        if code == "s":
            return element.text
        return _value(element, element.text, code)

    def _referenced(self, user: Element, reference: str) -> tuple[str, int, bool]:
        """Resolve ``Enum.value``: the value's name, its number, and whether it stands for a character."""
        name, _, wanted = reference.partition(".")
        element = self.named(name, user)
        if element.tag == "enum":
            enum = self._names(element)[2]
            numbers = self._numbers.setdefault(id(element), {})
            if not numbers:
                for number, known in enum.names.items():
                    numbers.setdefault(known, number)  # the first of several with the same name
            if wanted in numbers:
                return wanted, numbers[wanted], enum.is_char
        raise user.error(f"valueRef {reference!r}", "an enum and one of its values, as ENUM.VALUE")

    def _encoding(self, element: Element) -> tuple[str, int | float]:
        """The struct code of an enum's or set's values, and its null value."""
        name = element.require("encodingType")
        if name in PRIMITIVES:
            return PRIMITIVES[name]
        named = self.named(name, element)
        if named.tag != "type" or named.number("length", 1) != 1:
            raise element.error(f"encodingType {name}", "a primitive type, or a type of length 1")
        code, null = _primitive(named, named.require("primitiveType"))
        text = named.get("nullValue")
        return code, null if text is None else _value(named, text, code)

    def _names(self, element: Element) -> tuple[str, int | float, Enumeration]:
        """An enum's struct code, null value and names."""
        if id(element) not in self._enums:
            self._enums[id(element)] = self._read_names(element)
        return self._enums[id(element)]

    def _read_names(self, element: Element) -> tuple[str, int | float, Enumeration]:
        code, null = self._encoding(element)
        if code in "fd":
            raise element.error("an enum of floating-point numbers", "characters or whole numbers")
        if (text := element.get("nullValue")) is not None:
            null = _value(element, text, code)
        names: dict[int, str] = {}
        for value in element.named("validValue"):
            names.setdefault(int(_value(value, value.text, code)), value.require("name"))
        is_char = code == "s"
        return "B" if is_char else code, null, Enumeration(names, is_char)

    def _enum(self, element: Element, place: Place) -> tuple[Member, int]:
        if _presence(element, place.presence or element.get("presence")) == "constant":
            reference = place.value_ref or element.get("valueRef")
            if reference is None:
                raise element.error(f"constant {place.name} without a value", "a valueRef")
            return Constant(place.name, self._referenced(element, reference)[0], place.since), 0
        code, null, names = self._names(element)
        field = self._field(place, code, 1)
        field.null, field.labels = null, names
        return field, field.size

    def _set(self, element: Element, place: Place) -> tuple[Member, int]:
        code, _ = self._encoding(element)
        if code not in "BHIQ":
            raise element.error(f"a set of {element.get('encodingType')}", "unsigned numbers")
        field = self._field(place, code, 1)
        bits: dict[int, str] = {}
        for choice in element.named("choice"):
            bit = int(_value(choice, choice.text, "B"))
            if bit >= 8 * field.size:
                raise choice.error(f"bit {bit}", f"one of the {8 * field.size} that the set has")
            bits.setdefault(bit, choice.require("name"))
        field.labels = Choices(bits)
        return field, field.size

    def _composite(self, element: Element, place: Place) -> tuple[Member, int]:
        own = element.require("name")
        if own in place.path or len(place.path) >= MAX_NESTING:
            raise element.error(f"composite {own} inside itself", f"other composites, at most {MAX_NESTING} deep")
        members: list[Member] = []
        names: set[str] = set()
        end = 0
        for child in element.named("type", "enum", "set", "composite", "ref"):
            name = child.require("name")
            if name in names:
                raise child.error(f"a second {name} in {own}", "one of each name")
            names.add(name)
            start = child.number("offset", end)
            if start < end:
                raise child.error(f"offset {start}", f"{end} or more, after the member before it")
            since = max(place.since, child.number("sinceVersion", 0))
            kind = self.named(child.require("type"), child) if child.tag == "ref" else child
            inner = Place(name, place.offset + start, since, path=(*place.path, own))
            member, size = self.put(kind, inner)
            members.append(member)
            end = start + size
        return Composite(place.name, tuple(members), place.since), end


def _primitive(element: Element, name: str) -> tuple[str, int | float]:
    if name not in PRIMITIVES:
        raise element.error(f"primitiveType {name!r}", f"one of {', '.join(PRIMITIVES)}")
    return PRIMITIVES[name]


def _presence(element: Element, presence: str | None) -> str:
    if presence not in (None, "required", "optional", "constant"):
        raise element.error(f"presence {presence!r}", "required, optional or constant")
    return presence or "required"


def _value(element: Element, text: str, code: str) -> int | float:
    """A number in an attribute or text; for a character its code."""
    if code == "s":
        if len(text) != 1 or ord(text) > 0xFF:
            raise element.error(f"character {text!r}", "one character")
        return ord(text)
    try:
        if code in "fd":  # rounded to the type's precision
            return float(struct.unpack(f"<{code}", struct.pack(f"<{code}", float(text)))[0])
        if _NUMBER.fullmatch(text.strip()):
            return _in_range(int(text), code)
    except (ValueError, OverflowError):
        pass
    raise element.error(f"value {text!r}", "a number that its type can hold")


def _in_range(value: int, code: str) -> int:
    bits = {"b": 8, "h": 16, "i": 32, "q": 64}[code.lower()]
    low, high = (0, (1 << bits) - 1) if code.isupper() else (-(1 << bits - 1), (1 << bits - 1) - 1)
    if not low <= value <= high:
        raise ValueError(value)
    return value


def text_encoding(element: Element, name: str) -> str:
    """Python's name of a character encoding. Raises :class:`InvalidSchema` for an unknown one."""
    plain = name.strip().lower()
    if not _ENCODINGS.fullmatch(plain):
        raise element.error(f"characterEncoding {name!r}", "a known one, such as US-ASCII, UTF-8 or ISO-8859-1")
    try:
        "".encode(plain)
    except LookupError:
        raise element.error(f"characterEncoding {name!r}", "a known one, such as US-ASCII or UTF-8") from None
    return plain
