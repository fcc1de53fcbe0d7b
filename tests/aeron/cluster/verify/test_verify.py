"""What verify finds in nodes' folders that are wrong in one way each, and what is said of nodes that were killed."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import everlog
import tests
from everlog.aeron.cluster.format.faults import CODES
from everlog.aeron.cluster.format.recording_log import SNAPSHOT, STANDBY_SNAPSHOT, encode_entry, read_recording_log
from everlog.aeron.cluster.store import ClusterStore
from everlog.aeron.cluster.tool.replicas import compare_nodes
from everlog.errors import StoreUnavailable
from tests.aeron.cluster.cluster_folder import (
    T0,
    Node,
    Recording,
    mark_of,
    new_term,
    node_state_of,
    session_message,
    snapshot_of,
)

Unpack = Callable[[str], Path]


def found(path: Path) -> list[tuple[str, str]]:
    """Severity and code of each fault."""
    with everlog.open_store(path) as store:
        report = store.verify()
    assert {fault.code for fault in report.faults} <= CODES.keys()
    return sorted((fault.severity.value, fault.code) for fault in report.faults)


def term(number: int, base: int, end: int = -1, recording_id: int = 0) -> bytes:
    return encode_entry(
        recording_id=recording_id, leadership_term_id=number, term_base_log_position=base, log_position=end
    )


def test_a_node_made_by_hand_is_right(tmp_path: Path) -> None:
    path = Node.make().write(tmp_path)
    assert found(path) == []
    with everlog.open_store(path) as store:
        report = store.verify()
        assert (report.stream_count, report.segment_count, report.record_count) == (3, 3, 17 + 4 + 3)
        assert [record.payload for record in store.read("log")][2] == b"payload "


def test_a_term_that_is_missing_is_a_gap(tmp_path: Path) -> None:
    node = Node.make()
    node.entries[3] = term(2, node.base)
    assert ("fault", "term-gap") in found(node.write(tmp_path))


def test_a_term_that_begins_elsewhere_than_the_last_one_ended(tmp_path: Path) -> None:
    node = Node.make()
    node.entries[0] = term(0, 0, node.base - 64)
    assert found(node.write(tmp_path)) == [("fault", "term-position")]


def test_a_term_without_an_end_before_another(tmp_path: Path) -> None:
    node = Node.make()
    node.entries[0] = term(0, 0)
    assert found(node.write(tmp_path)) == [("fault", "term-position")]


def test_a_term_twice_and_of_another_recording(tmp_path: Path) -> None:
    node = Node.make()
    node.entries.insert(1, term(0, 0, node.base, recording_id=9))
    codes = {code for _, code in found(node.write(tmp_path))}
    assert {"term-duplicate", "term-recording"} <= codes


def test_an_invalid_term_of_another_recording_keeps_a_node_from_starting_too(tmp_path: Path) -> None:
    node = Node.make()
    invalid = bytearray(term(1, node.base, recording_id=8))
    invalid[47] |= 0x80
    node.entries.insert(1, bytes(invalid))
    path = node.write(tmp_path)
    assert ("fault", "term-recording") in found(path)
    with everlog.open_store(path) as store:
        info = store.info()
    assert info["recovery_plan"] is None
    assert any("offset 64: a term with recording 8; expected recording 0" in text for text in info["problems"])


def test_a_log_that_has_no_start_of_a_term(tmp_path: Path) -> None:
    node = Node.make()
    node.entries[3] = term(1, node.base, node.log.end)
    node.entries.append(term(2, node.log.end))
    node.log.add(session_message(1, b"late"))
    assert found(node.write(tmp_path)) == [("fault", "term-log")]


def test_a_term_in_the_log_that_the_recording_log_does_not_know(tmp_path: Path) -> None:
    node = Node.make()
    node.log.add(new_term(2, node.log.end, node.log.end))
    assert found(node.write(tmp_path / "newer")) == [("note", "term-log")]
    node.entries[3] = term(3, node.log.end)
    node.log.add(new_term(3, node.log.end, node.log.end))
    assert ("fault", "term-log") in found(node.write(tmp_path / "between"))


def test_a_backup_may_lack_terms(tmp_path: Path) -> None:
    node = Node.make()
    node.entries[3] = term(3, node.base + 128)
    node.files["cluster-mark.dat"] = mark_of(3, -1)
    codes = [pair for pair in found(node.write(tmp_path)) if pair[1] in ("term-gap", "term-position")]
    assert codes == [("note", "term-gap"), ("note", "term-position")]


def test_a_recording_log_made_of_a_snapshot_is_right_and_explained() -> None:
    golden = tests.GOLDEN / "aeron/cluster-3node/copy-node0-after-seed-recording.log"
    log = read_recording_log(golden.read_bytes())
    assert (log.last_term, log.latest_snapshot(), len(log.entries)) == (None, 1, 2)


def test_a_seeded_node_has_no_log_yet_and_no_unfinished_election(golden_archive: Unpack, tmp_path: Path) -> None:
    golden = tests.GOLDEN / "aeron/cluster-3node/copy-node0-after-seed-recording.log"
    path = Path(shutil.copytree(golden_archive("cluster-3node/node0"), tmp_path / "node")) / "cluster"
    (path / "recording.log").write_bytes(golden.read_bytes())
    assert found(path) == []
    text = summary(path)
    assert "The node has no log yet." in text
    assert "stood or voted" not in text
    with everlog.open_store(path) as store:
        assert [info.name for info in store.streams()] == ["snapshot-1", "snapshot-2"]


def test_a_message_of_another_term_than_the_one_begun(tmp_path: Path) -> None:
    node = Node.make()
    node.log.add(session_message(0, b"old", time=T0 + 5))
    assert found(node.write(tmp_path)) == [("fault", "term-log")]


def test_a_message_that_names_another_position_than_its_own(tmp_path: Path) -> None:
    node = Node.make()
    at = node.log.end
    node.entries[3] = term(1, node.base, at)
    node.entries.append(term(2, at))
    node.log.add(new_term(2, at + 32, at))
    assert found(node.write(tmp_path)) == [("fault", "log-position")]


def test_time_that_goes_back_is_a_note(tmp_path: Path) -> None:
    node = Node.make()
    node.log.add(session_message(1, b"early", time=T0 - 5))
    assert found(node.write(tmp_path)) == [("note", "log-time")]


def test_a_log_that_ends_before_its_snapshot(tmp_path: Path) -> None:
    node = Node.make()
    del node.log.data[node.snapshot_position - 160 :]  # the last message of the first term
    assert found(node.write(tmp_path)) == [("fault", "log-short")] * 2


def test_a_message_that_does_not_fit_its_bytes_is_given_and_told_of(tmp_path: Path) -> None:
    node = Node.make()
    at = node.log.add(session_message(1, b"")[:20])
    path = node.write(tmp_path)
    assert found(path) == [("fault", "message-undecodable")]
    faults: list[everlog.Fault] = []
    with everlog.open_store(path) as store:
        last = list(store.read("log", on_fault=faults.append))[-1]
    assert (last.fields["kind"], last.fields["position"], len(last.payload)) == ("undecodable", at, 20)
    assert [(fault.code, fault.stream, fault.address) for fault in faults] == [("message-undecodable", "log", str(at))]


def test_an_unknown_template_is_a_note(tmp_path: Path) -> None:
    node = Node.make()
    message = bytearray(session_message(1, b""))
    message[2:4] = (99).to_bytes(2, "little")
    node.log.add(bytes(message))
    message[4:6] = (500).to_bytes(2, "little")
    node.log.add(bytes(message))
    path = node.write(tmp_path)
    assert found(path) == [("note", "message-unknown")] * 2
    with everlog.open_store(path) as store:
        assert [r.fields["kind"] for r in store.read("log")][-2:] == ["unknown", "extension"]


# Snapshots


def test_a_snapshot_without_a_services_part(tmp_path: Path) -> None:
    node = Node.make()
    del node.entries[1]
    assert found(node.write(tmp_path)) == [("fault", "snapshot-incomplete")]


def test_a_services_part_without_the_consensus_modules_is_never_used(tmp_path: Path) -> None:
    node = Node.make()
    del node.entries[2]
    assert found(node.write(tmp_path)) == [("note", "snapshot-incomplete")]


def test_a_snapshot_whose_recording_is_gone(tmp_path: Path) -> None:
    node = Node.make()
    node.snapshots.pop()
    assert found(node.write(tmp_path)) == [("fault", "snapshot-missing")]


@pytest.mark.parametrize("recording_id", [0, 1, 2])
def test_a_recording_that_the_archive_does_not_give_is_read_and_told_of(tmp_path: Path, recording_id: int) -> None:
    node = Node.make()
    recording = [node.log, *node.snapshots][recording_id]
    recording.state = 0  # INVALID
    stream, code = ("log", "log-missing") if recording_id == 0 else (f"snapshot-{recording_id}", "snapshot-missing")
    path = node.write(tmp_path / "invalid")
    with everlog.open_store(path) as store:
        faults = store.verify().faults
        assert [(f.code, f.severity.value, f.stream) for f in faults] == [
            ("recording-invalid", "note", stream),
            (code, "fault", stream),
        ]
        assert faults[0].file == "../archive/archive.catalog"
        assert f"mark-valid {recording_id}" in faults[1].repair
        told: list[str] = []
        assert (
            sum(1 for _ in store.read(stream, on_fault=lambda fault: told.append(fault.code)))
            == (17, 4, 3)[recording_id]
        )
        assert told == ["recording-invalid"]
    recording.state = 2  # DELETED
    assert found(node.write(tmp_path / "deleted")) == [("fault", code)]


def test_a_marked_snapshot_may_be_marked_in_the_archive_too(tmp_path: Path) -> None:
    node = Node.make()
    for index, part in ((1, node.snapshots[0]), (2, node.snapshots[1])):
        part.state = 0
        entry = bytearray(node.entries[index])
        entry[47] |= 0x80
        node.entries[index] = bytes(entry)
    with everlog.open_store(node.write(tmp_path)) as store:
        assert {fault.severity.value for fault in store.verify().faults} == {"note"}


@pytest.mark.parametrize(("state", "name"), [(0, "INVALID"), (2, "DELETED")])
def test_a_start_with_a_log_that_the_archive_does_not_give_is_no_plan(tmp_path: Path, state: int, name: str) -> None:
    node = Node.make()
    node.log.state = state
    with everlog.open_store(node.write(tmp_path)) as store:
        info = store.info()
        assert info["recovery_plan"] is None
        assert any(f"recording 0 in state {name}" in text for text in info["problems"])


def test_a_snapshot_without_its_end(tmp_path: Path) -> None:
    node = Node.make()
    node.snapshots[1] = whole = snapshot_of(2, 1, node.snapshot_position, 0)
    del whole.data[-96:]
    assert found(node.write(tmp_path)) == [("fault", "snapshot-torn")]


def test_a_snapshot_that_was_not_stopped(tmp_path: Path) -> None:
    node = Node.make()
    node.snapshots[1].stop = False
    assert ("fault", "snapshot-torn") in found(node.write(tmp_path))


def test_a_snapshot_of_another_position_term_or_kind(tmp_path: Path) -> None:
    node = Node.make()
    node.snapshots[1] = snapshot_of(2, 2, node.snapshot_position + 32, 1)
    assert found(node.write(tmp_path)) == [("fault", "snapshot-contradicts")] * 6


def test_an_invalid_and_a_standby_snapshot_are_notes(tmp_path: Path) -> None:
    node = Node.make()
    at = node.log.end
    common = {"leadership_term_id": 1, "term_base_log_position": node.base, "log_position": at}
    node.entries += [
        encode_entry(recording_id=8, service_id=-1, type=SNAPSHOT, is_valid=False, **common),
        encode_entry(
            recording_id=1, service_id=-1, type=STANDBY_SNAPSHOT, archive_endpoint="localhost:19001", **common
        ),
    ]
    path = node.write(tmp_path)
    assert ("note", "snapshot-standby") in found(path)
    assert ("note", "snapshot-invalid") in found(path)
    with everlog.open_store(path) as store:
        assert [info.name for info in store.streams()] == ["log", "snapshot-1", "snapshot-2"]
        assert [info.name for info in store.streams(include_all=True)][-1] == "snapshot-8"
        endpoints = [entry.get("archive_endpoint") for entry in store.info()["recording_log"]]
        assert endpoints == [None] * 4 + ["localhost:19001", None]


# The other files


@pytest.mark.parametrize(
    ("name", "data", "expected"),
    [
        ("cluster-mark.dat", None, [("note", "cluster-mark-missing")]),
        ("cluster-mark.dat", b"short", [("fault", "cluster-mark")]),
        ("cluster-mark.dat", mark_of(2, -1), [("fault", "cluster-mark")]),
        ("cluster-mark.dat", mark_of(1, -1, version=1 << 16), [("fault", "cluster-mark")]),
        ("cluster-mark.dat", mark_of(1, -1, version=-1), [("fault", "component-failed")]),
        ("cluster-mark.dat", mark_of(1, -1, activity=T0), [("note", "component-killed")]),
        ("cluster-mark-service-0.dat", None, [("note", "service-mark-missing")]),
        ("node-state.dat", None, [("note", "node-state-missing")]),
        ("node-state.dat", b"", [("fault", "node-state")]),
        ("node-state.dat", node_state_of(1, 7), [("fault", "node-state")]),
        ("node-state.dat", node_state_of(-2, 0), [("fault", "node-state")]),
        ("node-state.dat", node_state_of(5, 0), [("note", "election-unfinished")]),
        ("node-state.dat", node_state_of(-1, -1), []),
    ],
)
def test_each_file_is_checked(tmp_path: Path, name: str, data: bytes | None, expected: list[tuple[str, str]]) -> None:
    node = Node.make()
    if data is None:
        del node.files[name]
    else:
        node.files[name] = data
    assert found(node.write(tmp_path)) == expected


def test_a_file_that_cant_be_read_is_told_of_once(tmp_path: Path) -> None:
    path = Node.make().write(tmp_path)
    with open(path / "recording.log", "ab") as file:
        file.truncate(1 << 29)  # over the limit of small files; its bytes are a hole
    with everlog.open_store(path) as store:
        (fault,) = (fault for fault in store.verify().faults if fault.code == "unreadable")
    assert (fault.file, fault.expected) == ("recording.log", "at most 268435456")
    assert "a copy" in fault.repair


def test_marks_of_two_members_in_one_folder(tmp_path: Path) -> None:
    node = Node.make()
    mark = bytearray(node.files["cluster-mark-service-0.dat"])
    mark[8 + 56] ^= 1
    node.files["cluster-mark-service-0.dat"] = bytes(mark)
    assert found(node.write(tmp_path)) == [("fault", "cluster-mark-differs")]


def test_without_a_recording_log_streams_are_found_by_their_first_messages(tmp_path: Path) -> None:
    node = Node.make()
    node.entries = []
    path = node.write(tmp_path)
    assert ("fault", "recording-log-missing") in found(path)
    with everlog.open_store(path) as store:
        assert [info.name for info in store.streams()] == ["log", "snapshot-1", "snapshot-2"]
        assert len(list(store.read("log"))) == 17


def test_without_a_recording_log_the_latest_log_is_the_nodes(tmp_path: Path) -> None:
    node = Node.make()
    node.entries.clear()
    seeded = Recording(3)
    seeded.add(new_term(2, 0, 0))
    node.snapshots.append(seeded)  # the log that the node began when it was seeded from a snapshot
    with everlog.open_store(node.write(tmp_path)) as store:
        assert next(stream.details["recording_id"] for stream in store.streams() if stream.name == "log") == 3


def test_without_an_archive_there_is_one_fault_and_the_rest_is_told(tmp_path: Path) -> None:
    path = Node.make().write(tmp_path)
    (tmp_path / "archive").rename(tmp_path / "elsewhere")
    assert found(path) == [("fault", "archive-missing")]
    with everlog.open_store(path) as store:
        assert store.streams()[0].details["is_missing"] is True
        with pytest.raises(everlog.CorruptData, match="no archive"):
            list(store.read("log"))
        assert store.info()["recording_log"][0]["leadership_term_id"] == 0
    with everlog.open_store(path, archive_dir=str(tmp_path / "elsewhere")) as store:
        assert len(list(store.read("log"))) == 17
    with pytest.raises(StoreUnavailable):
        everlog.open_store(path, archive_dir=str(tmp_path / "nowhere"))


def test_an_archive_inside_the_folder_is_found(tmp_path: Path) -> None:
    path = Node.make().write(tmp_path)
    (tmp_path / "archive").rename(path / "archive")
    assert found(path) == []


# In words


def summary(path: Path) -> str:
    with everlog.open_store(path) as store:
        return "\n".join(store.info()["summary"])


def test_a_killed_leader_is_told_from_a_follower_that_was(golden_archive: Unpack) -> None:
    leader = summary(golden_archive("cluster-killed/killed-leader") / "cluster")
    assert "This is member 0 of cluster 0, with 2 services." in leader
    assert "last heartbeat at 2026-11-21T13:47:19.911Z, not closed: it was killed or hangs." in leader
    assert "This node led term 0, its latest, when it died. The other members elect a new leader without it." in leader
    assert "truncates its log where the new leader's term begins" in leader
    assert "ends at position 251744, by its frames: the recording has no stop position yet." in leader
    follower = summary(golden_archive("cluster-killed/stuck-follower") / "cluster")
    assert "The latest leadership term here is 0, led by member 0; this node followed." in follower
    assert "To see whether it lags the other members, compare them" in follower
    assert "when it died" not in follower


def killed_note(path: Path) -> str:
    with everlog.open_store(path) as store:
        notes = store.verify().faults
    (text,) = [" / ".join((n.found, n.loses, n.repair)) for n in notes if n.file == "cluster-mark.dat"]
    return text


def test_verify_tells_a_killed_leader_from_a_follower_that_is_stuck(golden_archive: Unpack, tmp_path: Path) -> None:
    leader = killed_note(golden_archive("cluster-killed/killed-leader") / "cluster")
    assert leader.startswith(
        "the consensus module: last heartbeat at 2026-11-21T13:47:19.911Z, not closed; it led term 0"
    )
    assert "its log ends at position 251744" in leader
    assert "if a majority did not have them yet / none needed: the others elect a new leader; after a restart" in leader
    stuck = killed_note(golden_archive("cluster-killed/stuck-follower") / "cluster")
    assert "not closed; it followed member 0 in term 0, its latest, and its log ends at position 31456" in stuck
    assert (
        "everlog cluster DIR compare shows how many / none needed: when it restarts or resumes, it catches up" in stuck
    )
    node = Node.make()
    node.files["cluster-mark.dat"] = mark_of(1, -1, activity=T0)
    node.entries = []
    unknown = killed_note(node.write(tmp_path))
    assert unknown.endswith("not closed / nothing / none needed: a start takes over the file")


def test_a_node_that_stood_for_a_term_that_never_came_is_explained(tmp_path: Path) -> None:
    node = Node.make()
    node.files["node-state.dat"] = node_state_of(4, node.base)
    assert "It stood or voted for term 4 at 2023-11-14T22:13:20.000Z" in summary(node.write(tmp_path))


def test_times_are_in_the_clusters_unit(golden_archive: Unpack) -> None:
    folder = golden_archive("cluster-killed/new-leader")
    log = tests.GOLDEN / "aeron/cluster-killed/service-log-new-leader-0.txt"
    said = [tuple(line.split(" ")[1:3]) for line in log.read_text().splitlines()]
    with everlog.open_store(folder / "cluster") as store:
        rows = [r for r in store.read("log") if r.fields["kind"] != "cluster-action"]
    assert [(str(r.fields["end_position"]), str(r.timestamp_ns)) for r in rows] == said


# Replicas


def compare(*paths: Path) -> list[tuple[str, str]]:
    stores = [ClusterStore.open(everlog.stores.LocalStorage(path), {}) for path in paths]
    return [(fault.severity.value, fault.code) for fault in compare_nodes(stores).faults]


def member(node: Node, number: int) -> Node:
    for name, data in node.files.items():
        if "mark" in name:
            node.files[name] = data[: 8 + 56] + bytes([number]) + data[8 + 57 :]
    return node


def test_golden_replicas_agree_and_the_stuck_one_is_behind(golden_archive: Unpack) -> None:
    nodes = [golden_archive(f"cluster-3node/node{number}") / "cluster" for number in (0, 1)]
    assert compare(*nodes) == []
    names = ("killed-leader", "stuck-follower", "new-leader")
    killed, stuck, new = (golden_archive(f"cluster-killed/{name}") / "cluster" for name in names)
    assert compare(killed, stuck) == [("note", "replica-behind")]
    assert compare(killed, new) == [("note", "replica-behind")] * 2  # a term, and the log of it
    assert compare(stuck, new)[-1] == ("note", "replica-behind")


def test_one_node_twice_is_no_cluster(tmp_path: Path) -> None:
    path = Node.make().write(tmp_path)
    assert compare(path, path) == [("fault", "replica-cluster")]


def test_a_message_that_differs_is_found(tmp_path: Path) -> None:
    first = Node.make().write(tmp_path / "a")
    second = member(Node.make(payload=b"Payload "), 1).write(tmp_path / "b")
    assert compare(first, second) == [("fault", "replica-log")]


def test_terms_that_differ_are_found(tmp_path: Path) -> None:
    first = Node.make().write(tmp_path / "a")
    other = member(Node.make(), 1)
    other.entries[0] = term(0, 0, other.base - 64)
    assert ("fault", "replica-terms") in compare(first, other.write(tmp_path / "b"))


def test_snapshots_that_differ_are_a_note(tmp_path: Path) -> None:
    first = Node.make().write(tmp_path / "a")
    other = member(Node.make(), 1)
    other.snapshots[0] = snapshot_of(1, 2, other.snapshot_position, 0, b"STATE")
    assert compare(first, other.write(tmp_path / "b")) == [("note", "replica-snapshot")]


def test_a_log_whose_beginning_was_purged_is_compared_from_there_on(tmp_path: Path) -> None:
    first = Node.make().write(tmp_path / "a")
    whole = member(Node.make(), 1)
    other = whole.write(tmp_path / "b")
    catalog = bytearray((tmp_path / "b/archive/archive.catalog").read_bytes())
    start = 32 + 32 + 40
    assert catalog[start : start + 8] == bytes(8)
    catalog[start : start + 8] = whole.base.to_bytes(8, "little")
    (tmp_path / "b/archive/archive.catalog").write_bytes(catalog)
    assert compare(first, other) == []
    assert compare(other, first) == []
    assert ("note", "log-purged") in found(other)
