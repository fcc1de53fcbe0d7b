"""Every message of the cluster's schema against Aeron's own decoders: ids, lengths, offsets, versions, groups, order,
values."""

from __future__ import annotations

import pytest

from everlog.aeron.cluster.protocol.codec import CODEC, MESSAGES, SCHEMA_ID, SCHEMA_VERSION
from everlog.aeron.messages import MAX_GROUP_ENTRIES, Message, block_of
from tests import GOLDEN
from tests.aeron.codec_facts import assert_enumerations_have_a_null, assert_lies_as, assert_means_as, read_facts

FACTS = read_facts(GOLDEN / "aeron" / "cluster-codecs-1.51.0.txt")


def test_every_template_of_the_schema_has_a_class_of_its_name() -> None:
    names = {number: facts.name for number, facts in FACTS.messages.items()}
    assert {kind.template_id: kind.__name__ for kind in MESSAGES} == names
    assert len(MESSAGES) == len(names) == 54


def test_the_schema_is_that_of_the_decoders() -> None:
    assert {(facts.schema_id, facts.version) for facts in FACTS.messages.values()} == {(SCHEMA_ID, SCHEMA_VERSION)}
    assert (CODEC.schema_id, CODEC.version) == (SCHEMA_ID, SCHEMA_VERSION)


@pytest.mark.parametrize("kind", MESSAGES, ids=lambda kind: kind.__name__)
def test_a_message_lies_as_aeron_lays_it(kind: type[Message]) -> None:
    assert_lies_as(block_of(kind), FACTS.messages[kind.template_id], {}, SCHEMA_VERSION)


@pytest.mark.parametrize("kind", MESSAGES, ids=lambda kind: kind.__name__)
def test_enumerations_flags_and_nulls_are_aerons(kind: type[Message]) -> None:
    assert_means_as(kind, FACTS)
    assert_enumerations_have_a_null(kind, FACTS)


def test_groups_are_where_aeron_has_them_and_as_long_as_it_allows() -> None:
    groups = {(facts.name, group.name) for facts in FACTS.messages.values() for group in facts.groups}
    assert groups == {
        ("BackupResponse", "snapshots"),
        ("ClusterMembersExtendedResponse", "activeMembers"),
        ("ClusterMembersExtendedResponse", "passiveMembers"),
        ("SnapshotRecordings", "snapshots"),
        ("StandbySnapshot", "snapshots"),
    }
    most = {group.most_entries for facts in FACTS.messages.values() for group in facts.groups}
    assert most == {MAX_GROUP_ENTRIES}
