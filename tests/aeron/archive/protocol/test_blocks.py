"""Every message of the control protocol against Aeron's own decoders: ids, lengths, offsets, versions, order.

The golden file is the output of ``tests/interop/archive/CodecFacts.java``."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import pytest

from everlog.aeron.archive.protocol.codec import CODEC, SCHEMA_ID, SCHEMA_VERSION
from everlog.aeron.archive.protocol.recording_events import EVENTS
from everlog.aeron.archive.protocol.requests import REQUESTS
from everlog.aeron.archive.protocol.responses import RESPONSES
from everlog.aeron.messages import Message, block_of
from tests import GOLDEN

FACTS = GOLDEN / "aeron" / "archive-messages-1.51.0.txt"
KINDS = (*REQUESTS, *RESPONSES, *EVENTS)
OF_THE_CATALOG = {"CatalogHeader", "RecordingDescriptorHeader"}
"""Templates of the same schema that are never sent."""
RENAMED = {"src": "source", "dst": "target"}
SIZES = {"i": 4, "q": 8}


@dataclass(frozen=True)
class Facts:
    """Of one message: fields as (name, offset, length, since), data as (name, since)."""

    name: str
    template_id: int
    block_length: int
    schema_id: int
    version: int
    fields: list[tuple[str, int, int, int]] = field(default_factory=list)
    data: list[tuple[str, int]] = field(default_factory=list)


def read_facts() -> dict[int, Facts]:
    found: dict[int, Facts] = {}
    for line in FACTS.read_text().splitlines():
        kind, name, *words = line.split()
        numbers = [int(word) for word in words]
        if kind == "message":
            template_id, block_length, schema_id, version = numbers
            facts = found[template_id] = Facts(name, template_id, block_length, schema_id, version)
        elif kind == "field":
            facts.fields.append((name, numbers[0], numbers[1], numbers[2]))
        else:
            facts.data.append((name, numbers[0]))
    return found


FOUND = read_facts()


def ours(name: str) -> str:
    """A name of the schema as an attribute of ours."""
    words = re.findall(r"[A-Z]?[a-z0-9]+", name)
    return "_".join(RENAMED.get(word.lower(), word.lower()) for word in words)


def test_every_template_of_the_schema_has_a_class_and_no_two_share_one() -> None:
    templates = {number for number, facts in FOUND.items() if facts.name not in OF_THE_CATALOG}
    assert sorted(kind.template_id for kind in KINDS) == sorted(templates)


def test_the_schema_is_that_of_the_decoders() -> None:
    assert {(facts.schema_id, facts.version) for facts in FOUND.values()} == {(SCHEMA_ID, SCHEMA_VERSION)}
    assert (CODEC.schema_id, CODEC.version) == (SCHEMA_ID, SCHEMA_VERSION)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_message_lies_as_aeron_lays_it(kind: type[Message]) -> None:
    block, facts = block_of(kind), FOUND[kind.template_id]
    assert block.size == facts.block_length
    fields = [(each.name, each.offset, each.size, each.since) for _, each in block.fields()]
    assert fields == [(ours(name), *places) for name, *places in facts.fields]
    assert [(each.name, each.since) for each in block.var_data] == [(ours(name), since) for name, since in facts.data]
    assert all(each.code in SIZES and SIZES[each.code] == each.size for _, each in block.fields())


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_what_a_later_version_added_has_a_default(kind: type[Message]) -> None:
    """Else a message of an earlier version could not be read."""
    block = block_of(kind)
    later = {each.name for _, each in block.fields() if each.since} | {
        each.name for each in block.var_data if each.since
    }
    declared = kind.__dataclass_fields__  # type: ignore[attr-defined]
    assert [name for name in sorted(later) if declared[name].default is declared[name].default_factory] == []
