"""Every message of the control protocol against Aeron's own decoders: ids, lengths, offsets, versions, order,
enumerations."""

from __future__ import annotations

import pytest

from everlog.aeron.archive.protocol.codec import CODEC, MESSAGES, SCHEMA_ID, SCHEMA_VERSION
from everlog.aeron.messages import Message, block_of
from tests import GOLDEN
from tests.aeron.codec_facts import assert_enumerations_have_a_null, assert_lies_as, numbers_of, read_facts

FACTS = read_facts(GOLDEN / "aeron" / "archive-messages-1.51.0.txt")
OF_THE_CATALOG = {"CatalogHeader", "RecordingDescriptorHeader"}
"""Templates of the same schema that are never sent."""
RENAMED = {"src": "source", "dst": "target"}


def test_every_template_of_the_schema_has_a_class_and_no_two_share_one() -> None:
    templates = {number for number, facts in FACTS.messages.items() if facts.name not in OF_THE_CATALOG}
    assert sorted(kind.template_id for kind in MESSAGES) == sorted(templates)


def test_the_schema_is_that_of_the_decoders() -> None:
    assert {(facts.schema_id, facts.version) for facts in FACTS.messages.values()} == {(SCHEMA_ID, SCHEMA_VERSION)}
    assert (CODEC.schema_id, CODEC.version) == (SCHEMA_ID, SCHEMA_VERSION)


@pytest.mark.parametrize("kind", MESSAGES, ids=lambda kind: kind.__name__)
def test_a_message_lies_as_aeron_lays_it(kind: type[Message]) -> None:
    assert_lies_as(block_of(kind), FACTS.messages[kind.template_id], RENAMED, SCHEMA_VERSION)


@pytest.mark.parametrize("kind", MESSAGES, ids=lambda kind: kind.__name__)
def test_an_enumerations_values_are_aerons(kind: type[Message]) -> None:
    theirs = {each.offset: each.type for each in FACTS.messages[kind.template_id].fields}
    offsets = {each.name: each.offset for _, each in block_of(kind).fields()}
    for name, number in numbers_of(kind):
        of_theirs = FACTS.enumerations.get(theirs[offsets[name]])
        assert (number.kind is None) == (of_theirs is None), name
        if number.kind not in (None, bool):
            assert isinstance(number.kind, type)
            ours = {value: number.kind(value) for value in of_theirs.values() if value >= 0}  # type: ignore[union-attr]
            assert len(ours) == len(number.kind.__members__)  # type: ignore[attr-defined]
    assert_enumerations_have_a_null(kind, FACTS)
