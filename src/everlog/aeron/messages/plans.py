"""The layout of a message: a plan that is made once from its class's annotations."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from dataclasses import field as dataclass_field
from enum import Enum
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from everlog import fields as parts
from everlog.aeron.messages.declarations import NULL_INT32, NULL_INT64, Composite, Data, Message, Number, Since
from everlog.fields import Block, Enumeration, Field, VarData
from everlog.layout import LayoutError

GROUP_HEAD = struct.Struct("<HH")
"""Block length of an entry and number of entries, before a group. Source: groupSizeEncoding."""
MAX_BLOCK_BYTES = 0xFFFF
"""The longest block whose length fits 16 bits."""
_ENUMERATION_NULLS = {"i": NULL_INT32, "q": NULL_INT64, "B": 0xFF}

Convert = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Item:
    """A field of the block, which :mod:`struct` reads as one item. ``read`` makes its value and ``write`` the item;
    ``None`` if these are the same."""

    name: str
    offset: int
    code: str
    since: int
    read: Convert | None
    write: Convert | None

    @property
    def end(self) -> int:
        """The offset after the field."""
        return self.offset + struct.calcsize("<" + self.code)


@dataclass(frozen=True, slots=True)
class Part:
    """What follows the block: ``data``, or a group whose entries have the plan ``entry``."""

    name: str
    since: int
    data: Data | None
    entry: Plan | None


@dataclass(frozen=True, slots=True)
class Plan:
    """The layout of a message. Its fields are ``items``, then ``parts``. ``whole`` has all items, ``converted`` the
    indexes and readers of those whose value is not the item itself; ``newest`` is the version that has all items,
    ``defaults`` are the values of what a message lacks."""

    kind: type[Message]
    block: Block
    whole: struct.Struct
    items: tuple[Item, ...]
    converted: tuple[tuple[int, Convert], ...]
    parts: tuple[Part, ...]
    newest: int
    defaults: dict[str, Any]

    def written(self, version: int) -> Plan:
        """The plan without what later versions than ``version`` added."""
        items = tuple(item for item in self.items if item.since <= version)
        kept = tuple(part for part in self.parts if part.since <= version)
        return _plan(self.kind, self.block, items, kept, self.defaults)


def _plan(
    kind: type[Message], block: Block, items: tuple[Item, ...], after: tuple[Part, ...], defaults: dict[str, Any]
) -> Plan:
    whole = struct.Struct("<" + "".join(item.code for item in items))
    converted = tuple((index, item.read) for index, item in enumerate(items) if item.read is not None)
    newest = max((item.since for item in items), default=0)
    return Plan(kind, block, whole, items, converted, after, newest, defaults)


def block_of(kind: type[Message]) -> Block:
    """Describe a message's fields, groups and data, as declared layouts and SBE schemas are described."""
    return plan_of(kind).block


_plans: dict[type[Message], Plan] = {}


def plan_of(kind: type[Message]) -> Plan:
    """Return the plan of a message class. Raises :class:`LayoutError` for a declaration whose bytes could not be read
    back."""
    plan = _plans.get(kind)
    if plan is None:
        plan = _plans[kind] = _make_plan(kind)
    return plan


def _make_plan(kind: type[Message]) -> Plan:
    hints = get_type_hints(kind, include_extras=True)
    builder = _Builder(kind)
    for field in fields(kind):  # type: ignore[arg-type]
        builder.add(field.name, hints[field.name], field.default)
    return builder.plan()


@dataclass(slots=True)
class _Builder:
    """Collects the fields of one class in the order of their declaration. ``newest`` are the latest versions of fields,
    groups and data so far: a schema only appends to each."""

    kind: type[Message]
    items: list[Item] = dataclass_field(default_factory=list)
    members: list[parts.Member] = dataclass_field(default_factory=list)
    groups: list[parts.Group] = dataclass_field(default_factory=list)
    texts: list[VarData] = dataclass_field(default_factory=list)
    after: list[Part] = dataclass_field(default_factory=list)
    defaults: dict[str, Any] = dataclass_field(default_factory=dict)
    newest: dict[str, int] = dataclass_field(default_factory=dict)
    at: int = 0

    def add(self, name: str, hint: Any, default: Any) -> None:
        """Add a field with its annotation and its default, ``MISSING`` if it has none."""
        where = f"{self.kind.__name__}.{name}"
        declared, since, doc = _declared(hint, where)
        if default is not MISSING:
            self.defaults[name] = default
        elif since:
            raise LayoutError(f"{where}: versions before {since} lack it, so it needs a default")
        if isinstance(declared, Data):
            self._check_order("data", since, where)
            self.texts.append(VarData(name, Field(0, "I", name="length"), 4, declared.encoding, since))
            self.after.append(Part(name, since, declared, None))
        elif isinstance(declared, Number | Composite):
            self._check_order("field", since, where)
            if self.after:
                raise LayoutError(f"{where}: numbers come before groups, texts and bytes")
            item, member = _item(name, self.at, declared, since, doc)
            self.items.append(item)
            self.members.append(member)
            self.at = item.end
        else:
            self._check_order("group", since, where)
            if self.texts:
                raise LayoutError(f"{where}: a group comes before all texts and bytes")
            entry = plan_of(declared)
            self.groups.append(_group(name, entry, since))
            self.after.append(Part(name, since, None, entry))

    def _check_order(self, place: str, since: int, where: str) -> None:
        newest = self.newest.get(place, 0)
        if since < newest:
            raise LayoutError(f"{where}: of version {since}, after a {place} of version {newest}")
        self.newest[place] = since

    def plan(self) -> Plan:
        """The finished plan."""
        name = self.kind.__name__
        if self.at > MAX_BLOCK_BYTES:
            raise LayoutError(f"{name}: a block of {self.at} bytes, over {MAX_BLOCK_BYTES}")
        block = Block(name, self.at, tuple(self.members), tuple(self.groups), tuple(self.texts))
        return _plan(self.kind, block, tuple(self.items), tuple(self.after), self.defaults)


def _declared(hint: Any, where: str) -> tuple[Number | Composite | Data | type[Message], int, str]:
    """A field's declaration (of a group: the class of its entries), the version that added it, and its meaning."""
    base, *marks = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    since = max((mark.version for mark in marks if isinstance(mark, Since)), default=0)
    doc = " ".join(mark for mark in marks if isinstance(mark, str))
    for mark in marks:
        if isinstance(mark, Number | Composite | Data):
            return mark, since, doc
    entry, *rest = get_args(base) or (base,)
    if get_origin(base) is tuple and rest == [...] and issubclass(entry, Message):
        return entry, since, doc
    raise LayoutError(f"{where}: its annotation is neither a number, a composite, data nor a group")


def _group(name: str, entry: Plan, since: int) -> parts.Group:
    if not entry.items or entry.items[0].since:
        # Each entry takes bytes, so that a message bounds how many there are.
        raise LayoutError(f"{entry.block.name}: an entry of a group begins with a number that all versions have")
    head = Field(0, "H", name="blockLength"), Field(2, "H", name="numInGroup")
    return parts.Group(name, *head, GROUP_HEAD.size, entry.block, since)


def _item(name: str, at: int, declared: Number | Composite, since: int, doc: str) -> tuple[Item, parts.Member]:
    if isinstance(declared, Composite):
        layout = declared.layout
        inner = tuple(
            Field(at + each.offset, each.code, each.count, each.doc, each.name, since=since)
            for each in layout.fields
            if not each.is_gap
        )
        item = Item(name, at, f"{layout.size}s", since, _composite_reader(declared), declared.write)
        return item, parts.Composite(name, inner, since)
    kind = declared.kind
    names = _names(kind)
    null = declared.null if names is None or declared.null is not None else _ENUMERATION_NULLS[declared.code]
    field = Field(at, declared.code, doc=doc, name=name, since=since, null=null, labels=names)
    return Item(name, at, declared.code, since, _reader(declared), _writer(declared)), field


def _names(kind: Convert | None) -> Enumeration | None:
    if not (isinstance(kind, type) and issubclass(kind, Enum)):
        return None
    return Enumeration({member.value: member.name for member in kind})


def _composite_reader(declared: Composite) -> Convert:
    layout, read = declared.layout, declared.read
    return lambda data: read(layout.unpack_from(data))


def _reader(declared: Number) -> Convert | None:
    kind, null = declared.kind, declared.null
    if null is None:
        return kind
    if kind is None:
        return lambda item: None if item == null else item
    return lambda item: None if item == null else kind(item)


def _writer(declared: Number) -> Convert | None:
    kind, null = declared.kind, declared.null
    is_plain = not (isinstance(kind, type) and issubclass(kind, Enum)) or issubclass(kind, int)
    if null is None:
        return None if is_plain else lambda value: value.value
    if is_plain:
        return lambda value: null if value is None else value
    return lambda value: null if value is None else value.value
