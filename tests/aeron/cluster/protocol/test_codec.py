"""Every message of the cluster's schema as the encoders of Aeron 1.51.0 wrote it, those of the log and of snapshots as
older releases wrote them, too; and damaged bytes."""

from __future__ import annotations

import base64
import gzip
import json
import random
import re
from collections import Counter
from dataclasses import replace
from enum import IntEnum
from typing import Any, get_args, get_type_hints

import pytest

import tests
from everlog.aeron.cluster.protocol.codec import MESSAGES, SCHEMA_VERSION, decode, decode_known, encode
from everlog.aeron.cluster.protocol.consensus import BackupResponse, NewLeadershipTerm, Snapshot
from everlog.aeron.cluster.protocol.log import ClusterActionRequest
from everlog.aeron.cluster.protocol.services import JoinLog, ServiceTerminationPosition
from everlog.aeron.cluster.protocol.sessions import SessionConnectRequest, SessionEvent
from everlog.aeron.cluster.protocol.snapshot import ClusterSession, ConsensusModule
from everlog.aeron.cluster.protocol.values import ClusterAction, EventCode
from everlog.aeron.messages import NULL_INT64, Message, Number, block_of
from everlog.errors import CorruptData, UnknownMessage

GOLDEN = tests.GOLDEN / "aeron" / "cluster-messages"
KINDS = {kind.__name__: kind for kind in MESSAGES}
NEED_A_VALUE = ("close_reason", "action", "change_type", "mark")
"""Enumerations that are not optional: without a value a message is refused."""


def lines_of(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in gzip.decompress((GOLDEN / f"{name}.jsonl.gz").read_bytes()).splitlines()]


PROTOCOL = lines_of("protocol-1.51.0")


def snake(name: str) -> str:
    return re.sub(r"[A-Z]", lambda found: f"_{found[0].lower()}", name)


def message_of(kind: type[Message], fields: dict[str, Any]) -> Message:
    """A message of ours with the values that Java's encoders were given."""
    hints = get_type_hints(kind, include_extras=True)
    values = {snake(name): value_of(hints[snake(name)], value) for name, value in fields.items()}
    return kind(**values)


def value_of(hint: Any, value: Any) -> Any:
    base, *marks = get_args(hint)
    if isinstance(value, list) and isinstance(base, type) and issubclass(base, Message):
        return tuple(message_of(base, entry) for entry in value)
    if isinstance(value, list):
        return bytes(value)
    number = next((mark for mark in marks if isinstance(mark, Number)), None)
    if number is not None and isinstance(number.kind, type) and issubclass(number.kind, IntEnum) and value is not None:
        return number.kind[value]
    return value


def test_there_are_three_of_each_message_of_the_schema() -> None:
    assert Counter(line["message"] for line in PROTOCOL) == dict.fromkeys(KINDS, 3)


@pytest.mark.parametrize("line", PROTOCOL, ids=lambda line: line["message"])
def test_a_message_is_read_and_written_as_aeron_does(line: dict[str, Any]) -> None:
    data = bytes.fromhex(line["bytes"])
    expected = message_of(KINDS[line["message"]], line["fields"])
    assert decode(data) == expected
    assert encode(expected) == data


@pytest.mark.parametrize("release", ["1.20.0", "1.32.0", "1.51.0"])
def test_messages_of_older_releases_have_defaults_for_what_they_lack(release: str) -> None:
    for line in lines_of(release):
        kind, data = KINDS[line["message"]], bytes.fromhex(line["bytes"])
        hints = get_type_hints(kind, include_extras=True)
        fields = {snake(name): value for name, value in line["fields"].items()}
        lacking = [name for name in NEED_A_VALUE if name in fields and fields[name] is None]
        if lacking and kind is not ClusterSession:
            with pytest.raises(CorruptData, match=lacking[0]):
                decode(data)
            continue
        if "encoded_principal" in fields:
            fields["encoded_principal"] = list(base64.b64decode(fields["encoded_principal"]))
        expected = kind(**{name: value_of(hints[name], value) for name, value in fields.items()})
        assert decode(data) == expected
        if release == "1.51.0":
            payload = base64.b64decode(line["payload"]) if line["payload"] else b""
            assert encode(expected) + payload == data


# Versions


def header(kind: type[Message], length: int, version: int) -> bytes:
    return b"".join(number.to_bytes(2, "little") for number in (length, kind.template_id, 111, version))


@pytest.mark.parametrize(
    ("kind", "version", "length", "expected"),
    [
        (SessionConnectRequest, 1, 12, SessionConnectRequest(0, 0, None)),
        (SessionEvent, 12, 36, SessionEvent(0, 0, 0, 0, EventCode.OK, None, None)),
        (NewLeadershipTerm, 14, 88, NewLeadershipTerm(*(0,) * 11, None, False, NULL_INT64)),
        (BackupResponse, 9, 56, BackupResponse(*(0,) * 8)),
        (ConsensusModule, 2, 8, ConsensusModule(0)),
        (JoinLog, 15, 36, JoinLog(*(0,) * 5, False, 0, None)),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_block_of_an_older_version_is_shorter(
    kind: type[Message], version: int, length: int, expected: Message
) -> None:
    assert decode(header(kind, length, version) + bytes(length) + bytes(12)) == expected


def test_what_is_newer_than_the_written_version_is_read_and_not_written() -> None:
    """Version 17, after 1.51.0, asks for an acknowledgement of a termination."""
    newer = header(ServiceTerminationPosition, 12, 17) + (96).to_bytes(8, "little") + (1).to_bytes(4, "little")
    message = decode(newer)
    assert message == ServiceTerminationPosition(96, True)
    assert encode(message) == header(ServiceTerminationPosition, 8, SCHEMA_VERSION) + (96).to_bytes(8, "little")


def test_other_schemas_and_templates_are_told_from_damage() -> None:
    data = bytearray(encode(ClusterActionRequest(1, 96, 5, ClusterAction.SNAPSHOT, 0)))
    assert decode_known(bytes(data)) is not None
    for at in (2, 4):
        other = bytearray(data)
        other[at] = 99
        assert decode_known(bytes(other)) is None
        with pytest.raises(UnknownMessage):
            decode(bytes(other))
    with pytest.raises(CorruptData):
        decode_known(bytes(data[:20]))


# Lies


@pytest.mark.parametrize("count", [2, 0xFFFE, 0xFFFF])
def test_a_hostile_number_of_snapshots_is_refused_before_any_is_made(count: int) -> None:
    data = bytearray(encode(BackupResponse(*(0,) * 9, (Snapshot(*(0,) * 6),), "")))
    at = 8 + block_of(BackupResponse).size + 2
    data[at : at + 2] = count.to_bytes(2, "little")
    with pytest.raises(CorruptData, match=f"{count} snapshots of 44 bytes"):
        decode(bytes(data))


@pytest.mark.parametrize("seed", range(8))
def test_damaged_messages_are_read_or_refused(seed: int) -> None:
    generator = random.Random(seed)
    for line in PROTOCOL:
        data = bytearray.fromhex(line["bytes"])
        for _ in range(generator.randrange(1, 4)):
            at = generator.randrange(len(data))
            data[at : at + generator.choice((1, 4))] = generator.randbytes(generator.choice((0, 1, 4)))
        try:
            message = decode(bytes(data))
        except (CorruptData, UnknownMessage):
            continue
        assert isinstance(message, MESSAGES)


@pytest.mark.parametrize("line", PROTOCOL[2::3], ids=lambda line: line["message"])
def test_a_message_that_is_cut_anywhere_is_refused_or_lacks_what_came_later(line: dict[str, Any]) -> None:
    data = bytes.fromhex(line["bytes"])
    whole: Any = decode(data)
    for length in range(len(data)):
        try:
            message = decode(data[:length])
        except CorruptData:
            continue
        # The only data of the schema that a later version added.
        assert isinstance(message, SessionConnectRequest)
        assert message == replace(whole, client_info="")
