"""What Aeron's own decoders say of the messages of a schema, and whether a declaration of ours says the same.

Golden files are the output of ``tests/interop/archive/CodecFacts.java``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, get_type_hints

from everlog.aeron.messages import Message, Number, block_of
from everlog.fields import Block, Enumeration

SIZES = {"B": 1, "i": 4, "q": 8}
BOOLEAN = "BooleanType"
NULL_VALUE = "NULL_VAL"


@dataclass(frozen=True)
class FieldFacts:
    """A field of a block. ``null`` is ``None`` unless the field is optional."""

    name: str
    offset: int
    size: int
    since: int
    type: str
    null: int | None


@dataclass
class Facts:
    """Of one message, or of the entries of a group."""

    name: str
    block_length: int
    template_id: int = 0
    schema_id: int = 0
    version: int = 0
    since: int = 0
    most_entries: int = 0
    head_size: int = 0
    fields: list[FieldFacts] = field(default_factory=list)
    groups: list[Facts] = field(default_factory=list)
    data: list[tuple[str, int]] = field(default_factory=list)


@dataclass
class SchemaFacts:
    """Of a schema: messages by template id, and the values of its enumerations by name."""

    messages: dict[int, Facts] = field(default_factory=dict)
    enumerations: dict[str, dict[str, int]] = field(default_factory=dict)


def read_facts(path: Path) -> SchemaFacts:
    found = SchemaFacts()
    open_blocks: list[Facts] = []
    names: dict[str, int] = {}
    for line in path.read_text().splitlines():
        kind, *words = line.split()
        if kind == "message":
            name, template_id, length, schema_id, version = words
            facts = Facts(name, int(length), int(template_id), int(schema_id), int(version))
            open_blocks = [facts]
            found.messages[facts.template_id] = facts
        elif kind == "field":
            offset, size, since = map(int, words[1:4])
            null = None if words[5] == "-" else int(words[5])
            open_blocks[-1].fields.append(FieldFacts(words[0], offset, size, since, words[4], null))
        elif kind == "group":
            head, length, most, since = map(int, words[1:])
            group = Facts(words[0], length, since=since, most_entries=most, head_size=head)
            open_blocks[-1].groups.append(group)
            open_blocks.append(group)
        elif kind == "end":
            open_blocks.pop()
        elif kind == "data":
            open_blocks[-1].data.append((words[0], int(words[1])))
        elif kind == "enum":
            names = found.enumerations[words[0]] = {}
        else:
            names[words[0]] = int(words[1])
    return found


def snake(name: str, renamed: Mapping[str, str]) -> str:
    """A name of the schema as an attribute of ours."""
    words = re.findall(r"[A-Z]?[a-z0-9]+", name)
    return "_".join(renamed.get(word.lower(), word.lower()) for word in words)


def assert_lies_as(block: Block, facts: Facts, renamed: Mapping[str, str], version: int) -> None:
    """Compare everything that ``version`` has: length, offsets, groups, and order."""
    fields = [each for _, each in block.fields() if each.since <= version]
    assert max((each.end for each in fields), default=0) == facts.block_length, block.name
    assert [(each.name, each.offset, each.size, each.since) for each in fields] == [
        (snake(each.name, renamed), each.offset, each.size, each.since) for each in facts.fields
    ], block.name
    assert all(each.code in SIZES and SIZES[each.code] == each.size for each in fields), block.name
    groups = [each for each in block.groups if each.since <= version]
    assert [(each.name, each.head_size, each.since) for each in groups] == [
        (snake(each.name, renamed), each.head_size, each.since) for each in facts.groups
    ], block.name
    for group, theirs in zip(groups, facts.groups, strict=True):
        assert_lies_as(group.block, theirs, renamed, version)
    assert [(each.name, each.since) for each in block.var_data if each.since <= version] == [
        (snake(name, renamed), since) for name, since in facts.data
    ], block.name


def assert_means_as(kind: type[Message], facts: SchemaFacts) -> None:
    """Compare the kinds of values: enumerations with their numbers, flags, nulls."""
    theirs = facts.messages[kind.template_id].fields
    for (name, number), each in zip(numbers_of(kind), theirs, strict=False):
        where = f"{kind.__name__}.{name}"
        if each.type == BOOLEAN:
            assert number.kind is bool, where
        elif each.type in facts.enumerations:
            names = dict(facts.enumerations[each.type])
            names.pop(NULL_VALUE)
            assert isinstance(number.kind, type), where
            assert issubclass(number.kind, Enum), where
            assert {member.name: member.value for member in number.kind} == names, where
        else:
            assert number.kind is None, where
            assert number.null == each.null, where


def numbers_of(kind: type[Message]) -> Iterator[tuple[str, Number]]:
    """The declared numbers of a message, in the order of its block."""
    hints: dict[str, Any] = get_type_hints(kind, include_extras=True)
    for name in kind.__dataclass_fields__:  # type: ignore[attr-defined]
        hint = hints[name]
        marks = [mark for mark in getattr(hint, "__metadata__", ()) if isinstance(mark, Number)]
        if marks:
            yield name, marks[0]


def assert_enumerations_have_a_null(kind: type[Message], facts: SchemaFacts) -> None:
    """In columns an enumeration's null is none, even where a message without a value is refused."""
    theirs = {each.offset: each.type for each in facts.messages[kind.template_id].fields}
    for _, each in block_of(kind).fields():
        if isinstance(each.labels, Enumeration):
            assert each.null == facts.enumerations[theirs[each.offset]][NULL_VALUE], each.name
