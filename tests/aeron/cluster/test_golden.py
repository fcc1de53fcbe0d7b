"""The log, snapshots and files of the golden cluster nodes, against what the service and Aeron's tools wrote down."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import everlog
import tests
from everlog.aeron.cluster.format.node_state_file import read_node_state
from everlog.aeron.cluster.format.recording_log import TYPE_NAMES, read_recording_log
from everlog.aeron.cluster.store import ClusterStore

Unpack = Callable[[str], Path]
GOLDEN = tests.GOLDEN / "aeron" / "cluster-3node"
COLUMNS = ["kind", "position", "end_position", "timestamp_ns", "cluster_session_id", "length", "crc32", "fields"]


def open_node(golden_archive: Unpack, number: int) -> ClusterStore:
    store = everlog.open_store(golden_archive(f"cluster-3node/node{number}") / "cluster")
    assert isinstance(store, ClusterStore)
    return store


def service_lines(number: int, *kinds: str) -> list[tuple[str, dict[str, str]]]:
    """What the service of a node wrote down of the messages that it got."""
    found = []
    for line in (GOLDEN / f"service-log-{number}.txt").read_text().splitlines():
        kind, *parts = line.split(" ")
        if kind in kinds:
            found.append((kind, dict(part.split("=", 1) for part in parts)))
    return found


def rows(store: everlog.Store, stream: str, **options: Any) -> list[dict[str, Any]]:
    found = []
    for batch in store.scan(stream, columns=COLUMNS, **options):
        found += [dict(zip(COLUMNS, row, strict=True)) for row in batch.rows()]
    return found


def session_text(session_id: int | None) -> str | None:
    """Sessions of services have negative ids."""
    return "service" if session_id is not None and session_id < 0 else session_id and str(session_id)


@pytest.mark.parametrize("node", [0, 1])
def test_every_message_that_a_service_got_is_read(golden_archive: Unpack, node: int) -> None:
    with open_node(golden_archive, node) as store:
        found = rows(store, "log")
    expected = []
    for kind, said in service_lines(node, "msg", "open", "close", "timer", "newTerm"):
        position, timestamp_ns = int(said["logPosition"]), int(said["ts"]) * 1_000_000
        session = said.get("session")
        length, crc = (int(said["len"]), int(said["crc"])) if kind == "msg" else (None, None)
        expected.append((kind, position, timestamp_ns, session, length, crc))
    kinds = {
        "session-message": "msg",
        "session-open": "open",
        "session-close": "close",
        "timer": "timer",
        "new-leadership-term": "newTerm",
    }
    seen = [
        (
            kinds[row["kind"]],
            row["end_position"],
            row["timestamp_ns"],
            session_text(row["cluster_session_id"]),
            *((row["length"], row["crc32"]) if row["kind"] == "session-message" else (None, None)),
        )
        for row in found
        if row["kind"] != "cluster-action"
    ]
    assert len(expected) == 792 + 3 + 1 + 39 + 2
    assert seen == expected


def test_fields_are_those_that_the_service_was_told(golden_archive: Unpack) -> None:
    with open_node(golden_archive, 1) as store:
        found = [(row["kind"], row["fields"] and json.loads(row["fields"])) for row in rows(store, "log")]
    assert {fields for kind, fields in found if kind == "session-message"} == {None}
    timers = [fields for kind, fields in found if kind == "timer"]
    assert timers == [{"correlation_id": int(said["correlationId"])} for _, said in service_lines(1, "timer")]
    opened = [fields for kind, fields in found if kind == "session-open"]
    for fields, (_, said) in zip(opened, service_lines(1, "open"), strict=True):
        assert fields["response_stream_id"] == int(said["respStream"])
        assert fields["response_channel"] == said["respChannel"]
        assert fields["encoded_principal"] == said["principal"] == ""
    terms = [fields for kind, fields in found if kind == "new-leadership-term"]
    for fields, (_, said) in zip(terms, service_lines(1, "newTerm"), strict=True):
        assert fields == {
            "log_position": int(said["logPosition"]),
            "term_base_log_position": int(said["termBaseLogPosition"]),
            "leader_member_id": int(said["leader"]),
            "log_session_id": int(said["logSessionId"]),
            "time_unit": "MILLIS",
            "app_version": int(said["appVersion"]),
        }
    assert [fields for kind, fields in found if kind == "session-close"] == [{"close_reason": "CLIENT_ACTION"}]
    actions = [fields for kind, fields in found if kind == "cluster-action"]
    positions = [int(said["logPosition"]) for _, said in service_lines(1, "snapshot")]
    assert actions == [{"log_position": at, "action": "SNAPSHOT", "flags": 0} for at in positions]


def test_a_services_snapshot_ends_with_what_the_service_wrote(golden_archive: Unpack) -> None:
    with open_node(golden_archive, 0) as store:
        found = rows(store, "snapshot-3")
        (state,) = [r.payload for r in store.read("snapshot-3") if r.fields["kind"] == "state"]
    kinds = [row["kind"] for row in found]
    assert kinds == ["snapshot-marker", "client-session", "client-session", "snapshot-marker", "state"]
    (_, said) = service_lines(0, "snapshot")[1]
    numbers = [int.from_bytes(state[at : at + 8], "little", signed=True) for at in (0, 8, 16)]
    assert numbers == [int(said["count"]), int(said["hash"]), int(said["nextTimer"])]


def test_the_consensus_modules_snapshot_has_the_timers_that_the_tool_lists(golden_archive: Unpack) -> None:
    text = (GOLDEN / "tool-phase3-node0-describe-latest-cm-snapshot.txt").read_text()
    with open_node(golden_archive, 0) as store:
        found = rows(store, "snapshot-4")
    timers = [json.loads(row["fields"]) for row in found if row["kind"] == "scheduled-timer"]
    listed = re.findall(r"Timer: correlationId=(\d+) deadline=(\d+)", text)
    assert [(str(t["correlation_id"]), str(t["deadline"])) for t in timers] == listed
    assert len(listed) == 37
    sessions = [row["cluster_session_id"] for row in found if row["kind"] == "cluster-session"]
    assert [str(number) for number in sessions] == re.findall(r"clusterSessionId=(\d+) correlationId", text)
    assert Counter(row["kind"] for row in found)["snapshot-marker"] == 2


@pytest.mark.parametrize("node", [0, 1])
def test_the_recording_log_has_the_entries_that_the_tool_prints(golden_archive: Unpack, node: int) -> None:
    printed = (GOLDEN / f"tool-final-node{node}-recording-log.txt").read_text()
    with open_node(golden_archive, node) as store:
        log = store.folder.recording_log
    assert log.faults == []
    assert printed_entries(printed) == [entry_texts(entry) for entry in log.entries]


@pytest.mark.parametrize("name", ["invalidate", "seed"])
def test_a_recording_log_that_a_tool_changed_is_read_as_the_tool_does(name: str) -> None:
    log = read_recording_log((GOLDEN / f"copy-node0-after-{name}-recording.log").read_bytes())
    printed = (GOLDEN / f"tool-copy-node0-after-{name}-recording-log.txt").read_text()
    assert log.faults == []
    assert printed_entries(printed) == [entry_texts(entry) for entry in log.entries]


def printed_entries(text: str) -> list[list[str]]:
    return [re.findall(r"=([^,}]+)", entry) for entry in re.findall(r"Entry\{[^}]*\}", text)]


def entry_texts(entry: Any) -> list[str]:
    values = [*entry[:6], TYPE_NAMES[entry.type], str(entry.is_valid).lower(), entry.entry_index]
    return [str(value) for value in values]


@pytest.mark.parametrize("node", [0, 1])
def test_the_node_state_is_what_the_node_said(golden_archive: Unpack, node: int) -> None:
    said = json.loads((GOLDEN / f"node{node}-node-state.json").read_text())
    state = read_node_state((golden_archive(f"cluster-3node/node{node}") / "cluster/node-state.dat").read_bytes())
    assert (state.candidate_term_id, state.timestamp, state.log_position) == tuple(said.values())
    assert (state.version, state.schema_version) == ("0.3.0", 10)


def test_the_mark_file_has_the_error_that_the_tool_prints(golden_archive: Unpack) -> None:
    with open_node(golden_archive, 0) as store:
        mark = store.folder.mark()
    assert mark is not None
    assert (mark.component, mark.header.member_id, mark.header.pid, mark.is_closed) == (
        "CONSENSUS_MODULE",
        0,
        24604,
        True,
    )
    (error,) = mark.errors
    assert (error.observation_count, error.text) == (
        1,
        "io.aeron.cluster.client.ClusterEvent: WARN - leader heartbeat timeout\n",
    )
    assert error.first_observation_timestamp % 1000 == 311


def test_streams_are_the_log_and_the_snapshots(golden_archive: Unpack) -> None:
    with open_node(golden_archive, 0) as store:
        found = {info.name: (info.first, info.end, info.details.get("service")) for info in store.streams()}
    assert found == {
        "log": ("0", "801152", None),
        "snapshot-1": ("0", "512", "service-0"),
        "snapshot-2": ("0", "1056", "consensus-module"),
        "snapshot-3": ("0", "512", "service-0"),
        "snapshot-4": ("0", "3040", "consensus-module"),
    }


def test_a_scan_may_begin_and_end_anywhere(golden_archive: Unpack) -> None:
    with open_node(golden_archive, 0) as store:
        whole = rows(store, "log")
        part = rows(store, "log", start="614464", end="614561")
    assert [row["kind"] for row in part] == ["new-leadership-term", "session-message"]
    assert part == [row for row in whole if 614464 <= row["position"] < 614561]
    assert part[0]["timestamp_ns"] == 1795242293509_000_000
