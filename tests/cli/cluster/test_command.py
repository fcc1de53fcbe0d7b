"""``everlog cluster``: the lines of Aeron's ClusterTool, from folders alone; and the cluster in the common commands."""

from __future__ import annotations

import gzip
import json
import re
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

import tests
from everlog.cli.cluster.java_map import java_map_order
from tests.aeron.archive.described import write_marks
from tests.aeron.cluster import cluster_folder

TESTS = tests.ROOT / "tests"
GOLDEN = TESTS / "golden" / "aeron"
Call = Callable[..., tuple[int, list[str], str]]
Node = Callable[[str], Path]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Node:
    """The cluster folder of a golden node, or the folder of its driver."""
    root = tmp_path_factory.mktemp("nodes")

    def unpacked(name: str) -> Path:
        folder = root / name
        if not folder.exists():
            folder.mkdir(parents=True)
            with tarfile.open(GOLDEN / f"{name}.tar.gz") as tar:
                tar.extractall(folder, filter="data")
        (inner,) = folder.iterdir()
        return inner / "cluster" if (inner / "cluster").exists() else inner

    return unpacked


def printed(name: str) -> list[str]:
    """What the original printed: between the command line and the exit code."""
    return [here(line) for line in (GOLDEN / name).read_text(errors="replace").split("\n")[1:-2]]


def here(line: str) -> str:
    """Without local paths, times of day and of the last sign of life; control characters as spaces."""
    line = re.sub(r"[\x00-\x1f\x7f-\x9f]", " ", line)
    line = re.sub(r"mark file exists: \S*?([\w-]+\.dat)", r"mark file exists: \1", line)
    line = re.sub(r"activity(Timestamp=|: )[-\d: ]+", "activity", line)
    return re.sub(r"\d\d:\d\d:\d\d \(start", "NOW (start", line)


def texts(lines: list[str]) -> list[str]:
    return [here(line) for line in lines[:-1]]


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("verb", ["describe", "recording-log"])
def test_final_lines_are_those_of_the_original(call: Call, node: Node, number: int, verb: str) -> None:
    code, lines, err = call("cluster", node(f"cluster-3node/node{number}"), verb)
    assert (code, err) == (0, "")
    assert texts(lines) == printed(f"cluster-3node/tool-final-node{number}-{verb}.txt")


def test_values_of_a_node_that_was_not_kept_are_printed_as_by_the_original(call: Call, tmp_path: Path) -> None:
    # Of node 2 there is only what the tool printed: mark files with these values give the same lines.
    lines = printed("cluster-3node/tool-final-node2-describe.txt")
    write_marks(tmp_path, lines)
    code, found, err = call("cluster", tmp_path, "describe")
    assert (code, err) == (0, "")
    assert texts(found) == lines
    assert len(lines) == 5


def test_a_recording_log_of_two_services_is_printed_as_the_original_does(call: Call, node: Node) -> None:
    _, lines, _ = call("cluster", node("cluster-killed/new-leader"), "recording-log")
    assert texts(lines) == printed("cluster-killed/tool-recording-log.txt")


def test_standby_snapshots_are_printed_as_the_original_does(call: Call, tmp_path: Path) -> None:
    golden = GOLDEN / "standby-recording-log"
    (tmp_path / "recording.log").write_bytes(gzip.decompress((golden / "recording.log.gz").read_bytes()))
    lines = gzip.decompress((golden / "recording-log.txt.gz").read_bytes()).decode()
    code, found, err = call("cluster", tmp_path, "recording-log")
    assert (code, err) == (0, "")
    assert "\n".join(found) == lines
    assert (lines.count("STANDBY_SNAPSHOT"), lines.count("isValid=false")) == (14, 2)


def test_the_map_of_terms_is_printed_in_the_originals_order() -> None:
    # {1=3, 0=0} and {0=0} are golden; Java's map of the terms 0 to 9 grows twice.
    assert java_map_order([0, 1]) == [1, 0]
    assert sorted(java_map_order(range(100))) == list(range(100))
    assert sorted(java_map_order([-1, 1 << 62, 5])) == [-1, 5, 1 << 62]


@pytest.mark.parametrize("number", [0, 1])
def test_the_latest_snapshot_is_printed_as_the_running_node_was_asked(call: Call, node: Node, number: int) -> None:
    code, lines, _ = call("cluster", node(f"cluster-3node/node{number}"), "describe-latest-cm-snapshot")
    assert code == 0
    assert texts(lines) == printed(f"cluster-3node/tool-phase3-node{number}-describe-latest-cm-snapshot.txt")


def own_snapshot(folder: Path, *messages: bytes) -> Path:
    """A node whose consensus module's snapshot has these messages."""
    node = cluster_folder.Node.make()
    snapshot = node.snapshots[1]
    snapshot.data.clear()
    for message in messages:
        snapshot.add(message)
    return node.write(folder)


def marker(mark: int, **fields: int) -> bytes:
    return cluster_folder.raw_message("snapshot-marker", **{"type_id": 1, "log_position": 1216, "mark": mark, **fields})


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        ([marker(0, time_unit=254), marker(2)], "with time unit 254; expected a time unit of MILLIS, MICROS, NANOS"),
        ([marker(0, type_id=2), marker(2)], "of type 2 with time unit MILLIS; expected type 1, the consensus module's"),
        (
            [marker(0), marker(0), marker(2)],
            "a marker BEGIN of type 1 with time unit MILLIS; expected a marker END after it",
        ),
        ([marker(2)], "expected a marker BEGIN first"),
        (
            [b"\0" * 4 + b"\x07\0" * 2 + b"\0" * 24, marker(2)],
            "a message of schema 7; expected the cluster's schema, 111",
        ),
    ],
)
def test_a_snapshot_that_no_node_would_load_is_an_error_of_one_line(
    call: Call, tmp_path: Path, messages: list[bytes], expected: str
) -> None:
    folder = own_snapshot(tmp_path, *messages)
    code, _, err = call("cluster", folder, "describe-latest-cm-snapshot")
    assert (code, err.count("\n")) == (1, 1)
    assert err.startswith("everlog: snapshot-2 at offset ")
    assert expected in err


def test_a_message_of_a_newer_version_in_a_snapshot_is_passed_over_as_by_the_original(
    call: Call, tmp_path: Path
) -> None:
    newer = bytearray(marker(1))
    newer[2:4] = (4000).to_bytes(2, "little")
    folder = own_snapshot(tmp_path, marker(0), bytes(newer), marker(1), marker(2))
    code, lines, err = call("cluster", folder, "describe-latest-cm-snapshot")
    assert (code, lines[0]) == (0, "Snapshot: appVersion=0 timeUnit=MILLISECONDS")
    assert lines[-2].startswith("Consensus Module Snapshot End: ")
    assert "note: snapshot-2 at 96: skipped a message of unknown template 4000" in err
    code, lines, _ = call("cluster", folder, "describe-latest-cm-snapshot", "--json")
    assert (code, [json.loads(line)["kind"] for line in lines[:-1]]) == (0, ["snapshot-marker"] * 3)


@pytest.mark.parametrize("number", [0, 1])
def test_the_recovery_plan_differs_from_the_running_nodes_in_its_end_only(call: Call, node: Node, number: int) -> None:
    code, lines, _ = call("cluster", node(f"cluster-3node/node{number}"), "recovery-plan", "1")
    (then,) = printed(f"cluster-3node/tool-phase3-node{number}-recovery-plan.txt")
    then = then.replace("appendedLogPosition=-1", "appendedLogPosition=801152")
    then = then.replace("stopPosition=-1", "stopPosition=801152")
    assert (code, lines[:-1]) == (0, [then])
    assert call("cluster", node(f"cluster-3node/node{number}"), "recovery-plan")[1] == lines


def test_a_recovery_plan_for_more_services_than_have_snapshots_is_an_error(call: Call, node: Node) -> None:
    code, _, err = call("cluster", node("cluster-3node/node0"), "recovery-plan", "2")
    assert (code, "no snapshot of service 1 at position 791904" in err) == (1, True)


@pytest.mark.parametrize("number", [0, 1])
def test_errors_with_the_drivers_folder_are_those_of_the_original(call: Call, node: Node, number: int) -> None:
    folder, driver = node(f"cluster-3node/node{number}"), node(f"cluster-3node/aeron-dir-cnc-node{number}")
    code, lines, _ = call("cluster", folder, "errors", "--aeron-dir", driver)
    then = printed(f"cluster-3node/tool-phase3-node{number}-errors.txt")
    assert code == 0
    assert [line for line in texts(lines) if "driver error log" not in line] == [
        line for line in then if "driver error log" not in line
    ]
    code, lines, err = call("cluster", folder, "errors")
    assert (code, "can't read the media driver's errors" in err) == (1, True)


def test_pid_is_the_consensus_modules(call: Call, node: Node) -> None:
    _, lines, _ = call("cluster", node("cluster-3node/node0"), "pid")
    assert lines[:-1] == printed("cluster-3node/tool-phase3-node0-pid.txt")


@pytest.mark.parametrize(("number", "code"), [(0, 1), (1, 0)])
def test_is_leader_tells_by_the_drivers_counters(call: Call, node: Node, number: int, code: int) -> None:
    folder, driver = node(f"cluster-3node/node{number}"), node(f"cluster-3node/aeron-dir-cnc-node{number}")
    assert call("cluster", folder, "is-leader", "--aeron-dir", driver)[0] == code
    _, lines, _ = call("cluster", folder, "is-leader", "--aeron-dir", driver, "--json")
    assert json.loads(lines[0]) == {
        "is_leader": code == 0,
        "role": "FOLLOWER" if code else "LEADER",
        "election_state": 17,
    }
    assert call("cluster", folder, "is-leader")[0] == 1


def test_members_are_those_that_the_log_names(call: Call, node: Node) -> None:
    code, lines, err = call("cluster", node("cluster-3node/node0"), "list-members")
    (then,) = printed("cluster-3node/tool-phase3-node0-list-members.txt")
    assert code == 0
    assert re.findall(r"(?:leaderMemberId|memberId)=\d+", lines[0]) == re.findall(r"(?:leaderM|m)emberId=\d+", then)
    assert re.findall(r"\{id=(\d+), .*?isLeader=(\w+)", lines[0]) == re.findall(r"\{id=(\d+), .*?isLeader=(\w+)", then)
    assert "members that never led" in err


def test_members_of_an_older_version_are_those_that_its_snapshot_lists(call: Call, tmp_path: Path) -> None:
    listed = b"0,a:1,b:2|3,c:1,d:2|none|" + b"9" * 5000 + b",e:1|-1,f:1"
    members = cluster_folder.raw_message("cluster-members", (listed,))
    folder = own_snapshot(tmp_path, marker(0), members, marker(2))
    code, lines, _ = call("cluster", folder, "list-members")
    assert (code, lines[0]) == (
        0,
        "leaderMemberId=3, memberId=3, activeMembers=[ClusterMember{id=0, isLeader=false, endpoints='a:1,b:2'}, "
        "ClusterMember{id=3, isLeader=true, endpoints='c:1,d:2'}]",
    )


def test_nodes_are_compared(call: Call, node: Node, tmp_path: Path) -> None:
    nodes = [node("cluster-3node/node0"), node("cluster-3node/node1")]
    code, lines, _ = call("cluster", nodes[0], "compare", nodes[1])
    assert (code, lines[0].startswith("ok: ")) == (0, True)
    assert ", 839 records, " in lines[0]
    killed, stuck = node("cluster-killed/killed-leader"), node("cluster-killed/stuck-follower")
    code, lines, _ = call("cluster", killed, "compare", stuck, "--json")
    report = json.loads(lines[0])
    assert (code, report["ok"]) == (0, True)
    (note,) = report["faults"]
    assert note["found"] == "member 1's log ends at position 31456"
    assert note["expected"] == "251744 as on member 0, 220288 bytes more"
    assert call("cluster", nodes[0], "compare", stuck, "--json")[0] == 1  # another cluster's log
    assert call("cluster", nodes[0], "compare", tmp_path)[0] == 2
    assert call("cluster", nodes[0], "compare")[0] == 2


@pytest.mark.parametrize(
    "verb",
    ["describe", "describe-latest-cm-snapshot", "errors", "list-members", "pid", "recording-log", "recovery-plan"],
)
def test_every_verb_has_json(call: Call, node: Node, verb: str) -> None:
    _, lines, _ = call("cluster", node("cluster-killed/new-leader"), verb, "--json")
    assert len(lines) > 1
    assert all(isinstance(json.loads(line), dict) for line in lines[:-1])


def test_damage_is_a_warning_and_exit_code_1(call: Call, node: Node, tmp_path: Path) -> None:
    (tmp_path / "recording.log").write_bytes((node("cluster-3node/node0") / "recording.log").read_bytes()[:-30])
    code, lines, err = call("cluster", tmp_path, "recording-log")
    assert (code, lines[0].count("Entry{")) == (1, 5)
    assert "recording-log-size" in err
    assert call("cluster", tmp_path, "pid")[0] == 2
    assert call("cluster", tmp_path, "recovery-plan")[0] == 2
    assert call("cluster", tmp_path / "nowhere", "pid")[0] == 2
    code, lines, _ = call("cluster", tmp_path, "describe-latest-cm-snapshot")
    assert code in (1, 2)


@pytest.mark.parametrize("verb", ["recording-log", "recovery-plan", "describe-latest-cm-snapshot"])
def test_a_recording_log_that_is_missing_or_damaged_is_told_of(call: Call, tmp_path: Path, verb: str) -> None:
    folder = cluster_folder.Node.make().write(tmp_path)
    log = folder / "recording.log"
    assert call("cluster", folder, verb)[0] == 0
    data = bytearray(log.read_bytes())
    data[44] = 9  # the type of the first entry
    log.write_bytes(data)
    code, lines, err = call("cluster", folder, verb)
    assert (code, len(lines) > 1, err.count("recording-log-entry")) == (1, True, 1)
    log.unlink()
    code, lines, err = call("cluster", folder, verb)
    assert (code, lines, f"no recording log: {log}" in err) == (2, [""], True)


def test_read_prints_one_decoded_message_a_line(call: Call, node: Node) -> None:
    code, lines, _ = call(
        "read", node("cluster-3node/node0"), "--stream", "log", "--json", "--limit", 4, "--no-payload"
    )
    rows = [json.loads(line) for line in lines[:-1]]
    assert code == 0
    assert rows[1] == {
        "stream": "log",
        "address": "96",
        "timestamp_ns": 1795242281939000000,
        "length": 115,
        "crc32": f"{1454722298:08x}",
        "position": 96,
        "end_position": 256,
        "kind": "session-open",
        "leadership_term_id": 0,
        "cluster_session_id": 1,
        "fields": {
            "correlation_id": 6,
            "response_stream_id": 102,
            "response_channel": "aeron:udp?rejoin=false|endpoint=localhost:35090|term-length=64k",
            "encoded_principal": "",
        },
    }
    assert (rows[3]["kind"], rows[3]["length"], rows[3]["crc32"], rows[3]["fields"]) == (
        "session-message",
        1,
        f"{2366072709:08x}",
        None,
    )


def test_the_archive_may_be_elsewhere(call: Call, node: Node, tmp_path: Path) -> None:
    folder = node("cluster-3node/node0")
    (tmp_path / "recording.log").write_bytes((folder / "recording.log").read_bytes())
    code, lines, err = call("ls", tmp_path, "--json")
    assert (code, json.loads(lines[0])["details"]["is_missing"]) == (0, True)
    code, _, err = call("read", tmp_path, "--stream", "log")
    assert (code, "archive-missing" in err) == (1, True)
    archive = folder.parent / "archive"
    code, lines, _ = call("read", tmp_path, "--stream", "log", "--archive-dir", archive)
    assert (code, len(lines)) == (0, 840)
    code, lines, _ = call("cluster", "--archive-dir", archive, tmp_path, "recovery-plan", "1")
    assert (code, lines[0].startswith("RecoveryPlan[lastLeadershipTermId=1, ")) == (0, True)
