"""Every message of a cluster's log and snapshots, as the encoders of three versions of Aeron wrote it."""

from __future__ import annotations

import base64
import gzip
import importlib
import json
import re
from array import array
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import everlog
import tests
from everlog.aeron.cluster.format import decode_twin
from everlog.aeron.cluster.format.messages import KINDS, TYPES, decode_fields
from tests.aeron.cluster.cluster_folder import Node, raw_message

GOLDEN = tests.GOLDEN / "aeron" / "cluster-messages"
VERSIONS = {"1.20.0": (3, 78), "1.32.0": (6, 78), "1.51.0": (16, 84)}
KIND_OF = {
    "SessionMessageHeader": "session-message",
    "TimerEvent": "timer",
    "SessionOpenEvent": "session-open",
    "SessionCloseEvent": "session-close",
    "ClusterActionRequest": "cluster-action",
    "NewLeadershipTermEvent": "new-leadership-term",
    "MembershipChangeEvent": "membership-change",
    "SnapshotMarker": "snapshot-marker",
    "ClientSession": "client-session",
    "ClusterSession": "cluster-session",
    "Timer": "scheduled-timer",
    "ConsensusModule": "consensus-module",
    "ClusterMembers": "cluster-members",
    "PendingMessageTracker": "pending-message-tracker",
}
COLUMN_FIELDS = ("leadership_term_id", "timestamp", "cluster_session_id")
DECODERS = [importlib.import_module("everlog.aeron.cluster.format._decode").Decoder, decode_twin.Decoder]


class Written:
    """A message as it was put in."""

    def __init__(self, line: str) -> None:
        said = json.loads(line)
        self.kind = KIND_OF[said["message"]]
        self.version: int = said["version"]
        self.data = bytes.fromhex(said["bytes"])
        self.payload = None if said["payload"] is None else base64.b64decode(said["payload"])
        self.fields: dict[str, Any] = {snake(name): value for name, value in said["fields"].items()}

    def row(self, unit_ns: int) -> dict[str, Any]:
        """What its row of columns is to be."""
        time = self.fields.get("timestamp")
        time_ns = None if time is None else time * unit_ns
        others = {name: value for name, value in self.fields.items() if name not in COLUMN_FIELDS}
        payload = self.data if self.payload is None else self.payload
        return {
            "kind": self.kind,
            "leadership_term_id": self.fields.get("leadership_term_id"),
            "cluster_session_id": self.fields.get("cluster_session_id"),
            "timestamp_ns": time_ns if time_ns is not None and -(1 << 63) < time_ns < 1 << 63 else None,
            "payload": payload,
            "length": len(payload),
            "fields": None if self.kind == "session-message" else others,
        }


def snake(name: str) -> str:
    return re.sub(r"[A-Z]", lambda found: f"_{found[0].lower()}", name)


def written(release: str) -> list[Written]:
    return [Written(line) for line in gzip.decompress((GOLDEN / f"{release}.jsonl.gz").read_bytes()).splitlines()]


def columns_of(decoder: type, found: list[Written], unit_ns: int) -> Iterator[dict[str, Any]]:
    """Rows of the columns that a decoder makes of messages."""
    ends = array("i", [0])
    for message in found:
        ends.append(ends[-1] + len(message.data))
    made = decoder(frozenset(decode_twin.NAMES), unit_ns)
    values = memoryview(b"".join(message.data for message in found))
    columns = made.decode(memoryview(ends), values, len(found), len(found))
    assert made.undecodable == []
    for index in range(len(found)):
        yield {name: cell(column, index) for name, column in columns.items()}


def cell(column: Any, index: int) -> Any:
    values, offsets, validity, _ = column
    if validity is not None and not validity[index >> 3] >> (index & 7) & 1:
        return None
    return values[index] if offsets is None else bytes(values[offsets[index] : offsets[index + 1]])


@pytest.mark.parametrize("release", VERSIONS)
def test_messages_are_of_all_kinds_and_of_the_versions_that_they_say(release: str) -> None:
    version, count = VERSIONS[release]
    found = written(release)
    assert {message.version for message in found} == {version}
    assert {int.from_bytes(message.data[6:8], "little") for message in found} == {version}
    lacking = set() if version == 16 else {"pending-message-tracker"}
    assert Counter(message.kind for message in found) == {item.kind: 6 for item in TYPES if item.kind not in lacking}
    assert len(found) == count
    assert set(KIND_OF.values()) == {item.kind for item in TYPES} == set(KINDS[: len(TYPES)])


@pytest.mark.parametrize("release", VERSIONS)
def test_a_message_is_decoded_as_it_was_put_in(release: str) -> None:
    for message in written(release):
        decoded = decode_fields(message.data)
        assert decoded is not None
        fields = {
            name: base64.b64encode(value).decode() if isinstance(value, bytes) else value
            for name, value in decoded.fields.items()
        }
        assert (decoded.kind, decoded.version, fields) == (message.kind, message.version, message.fields)
        assert message.data[decoded.end :] == (message.payload or b"")


@pytest.mark.parametrize("unit_ns", [1, 1_000_000])
@pytest.mark.parametrize("decoder", DECODERS)
@pytest.mark.parametrize("release", VERSIONS)
def test_both_decoders_make_columns_of_what_was_put_in(release: str, decoder: type, unit_ns: int) -> None:
    found = written(release)
    for row, message in zip(columns_of(decoder, found, unit_ns), found, strict=True):
        expected = message.row(unit_ns)
        row["kind"] = row["kind"].decode()
        row["fields"] = row["fields"] and json.loads(row["fields"])
        assert row == expected


def test_a_log_with_a_change_of_membership_is_read_and_sound(tmp_path: Path) -> None:
    node = Node.make()
    at = node.log.end
    change = raw_message(
        "membership-change",
        (b"0,a:1,b:2,c:3,d:4,e:5|1,f:1,g:2,h:3,i:4,j:5",),
        leadership_term_id=1,
        log_position=at + 128,
        timestamp=1_700_000_000_005,
        leader_member_id=3,
        cluster_size=2,
        change_type=1,
        member_id=1,
    )
    node.log.add(change)
    with everlog.open_store(node.write(tmp_path)) as store:
        *_, first = store.read("log")
        assert store.verify().ok
    assert (first.address, first.fields["kind"]) == (str(at), "membership-change")
    assert first.timestamp_ns == 1_700_000_000_005_000_000
    assert json.loads(first.fields["fields"]) == {
        "log_position": at + 128,
        "leader_member_id": 3,
        "cluster_size": 2,
        "change_type": "QUIT",
        "member_id": 1,
        "cluster_members": "0,a:1,b:2,c:3,d:4,e:5|1,f:1,g:2,h:3,i:4,j:5",
    }
