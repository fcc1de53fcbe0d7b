"""Recording logs sorted, started anew, without their latest snapshot: the bytes that ClusterTool leaves, or what is
right where it loses something."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tests
from everlog.aeron.cluster.format.recording_log import (
    MAX_ENDPOINT_BYTES,
    SNAPSHOT,
    STANDBY_SNAPSHOT,
    TERM,
    Entry,
    encode_entry,
    read_recording_log,
)
from everlog.aeron.cluster.tool.recording_log_changes import (
    Change,
    invalidate_latest_snapshot,
    seed_from_snapshot,
    sort_entries,
)
from everlog.core.report import Severity
from everlog.errors import CorruptData, UsageError

GOLDEN = tests.GOLDEN / "aeron"
NODES = GOLDEN / "cluster-3node"
SORT, SEED, INVALIDATE = "sort-recording-log", "seed-recording-log-from-snapshot", "invalidate-latest-snapshot"
DO: dict[str, Callable[[bytes], Change | None]] = {
    SORT: sort_entries,
    SEED: seed_from_snapshot,
    INVALIDATE: invalidate_latest_snapshot,
}
Truth = Callable[[str], dict[str, Any]]
Unpack = Callable[[str], Path]

SAME = [
    (case, verb)
    for case, verbs in {
        "allinvalid": (SORT, INVALIDATE),
        "empty": (SORT, INVALIDATE),
        "incomplete": (SORT, SEED, INVALIDATE),
        "longest": (SEED, INVALIDATE),
        "mixed": (SORT,),
        "nosnap": (SORT, INVALIDATE),
        "noterm": (SORT, SEED),
        "own_and_standby": (SEED, INVALIDATE),
        "removed": (SORT, INVALIDATE),
        "services3": (SORT, SEED, INVALIDATE),
        "short48": (),
        "sorted": (SORT, SEED, INVALIDATE),
        "standby": (SEED, INVALIDATE),
        "standby2": (),
        "tworec": (SORT,),
        "type5": (SEED,),
        "unsorted": (SORT, SEED, INVALIDATE),
        "unsorted_invalid": (SEED, INVALIDATE),
    }.items()
    for verb in verbs
]
"""Where the original's result is right. The tests below have each of the others."""


def before(case: dict[str, Any]) -> bytes:
    return base64.b64decode(case["before"])


def after(case: dict[str, Any], verb: str) -> bytes:
    return base64.b64decode(case[verb]["after"])


def changed(verb: str, data: bytes) -> bytes:
    change = DO[verb](data)
    return data if change is None else change.data


def entries(data: bytes) -> list[Entry]:
    """In the file's order."""
    log = read_recording_log(data)
    assert log.faults == []
    return sorted(log.entries, key=lambda entry: entry.entry_index)


def test_every_case_is_compared_or_told_apart(golden_truth: Truth) -> None:
    assert {case for case, _ in SAME} | {"missing", "short48", "standby2"} == golden_truth("recording-logs").keys()


@pytest.mark.parametrize(("case", "verb"), SAME)
def test_the_bytes_are_those_of_the_original(golden_truth: Truth, case: str, verb: str) -> None:
    golden = golden_truth("recording-logs")[case]
    assert changed(verb, before(golden)) == after(golden, verb)


@pytest.mark.parametrize("verb", [SORT, INVALIDATE])
def test_the_originals_exit_code_tells_whether_anything_changed(golden_truth: Truth, verb: str) -> None:
    golden = golden_truth("recording-logs")
    cases = {case for case, same in SAME if same == verb}
    found = {case for case in cases if DO[verb](before(golden[case])) is not None}
    assert found == {case for case in cases if golden[case][verb]["exit_code"] == 0}


@pytest.mark.parametrize("number", [0, 1])
def test_a_golden_nodes_recording_log_changes_as_it_did_in_the_original(golden_archive: Unpack, number: int) -> None:
    data = (golden_archive(f"cluster-3node/node{number}") / "cluster" / "recording.log").read_bytes()
    assert sort_entries(data) is None
    invalidated = (NODES / f"copy-node{number}-after-invalidate-recording.log").read_bytes()
    assert changed(INVALIDATE, data) == invalidated
    # The golden file was made of the copy whose latest snapshot had been marked: it is of the first.
    assert changed(SEED, invalidated) == (NODES / f"copy-node{number}-after-seed-recording.log").read_bytes()


def test_sorting_leaves_marked_snapshots_marked(golden_truth: Truth) -> None:
    golden = golden_truth("recording-logs")["unsorted_invalid"]
    expected = bytearray(after(golden, SORT))
    for index in (4, 5):  # recordings 4 and 3, which the original has made valid again
        assert expected[64 * index + 47] == 0
        expected[64 * index + 47] = 0x80
    assert changed(SORT, before(golden)) == expected


@pytest.mark.parametrize(
    ("case", "offsets"),
    [("standby", (320, 384, 448)), ("own_and_standby", (192, 256, 320, 384)), ("longest", (8256, 8320))],
)
def test_sorting_leaves_nothing_of_an_endpoint_in_other_entries(
    golden_truth: Truth, case: str, offsets: tuple[int, ...]
) -> None:
    golden = golden_truth("recording-logs")[case]
    expected = bytearray(after(golden, SORT))
    for offset in offsets:
        assert any(expected[offset + 48 : offset + 64])
        expected[offset + 48 : offset + 64] = bytes(16)
    found = changed(SORT, before(golden))
    for at in range(0, len(found), 64):
        assert found[at : at + 64] == expected[at : at + 64], at


@pytest.mark.parametrize("case", ["allinvalid", "empty", "nosnap", "removed", "standby2"])
def test_where_there_is_no_snapshot_to_start_from_the_file_is_not_deleted(golden_truth: Truth, case: str) -> None:
    golden = golden_truth("recording-logs")[case]
    assert golden[SEED]["after"] is None  # the original deleted it
    with pytest.raises(CorruptData, match="no valid snapshot"):
        seed_from_snapshot(before(golden))


def test_a_services_snapshot_of_another_position_is_neither_taken_nor_marked(golden_truth: Truth) -> None:
    data = before(golden_truth("recording-logs")["mixed"])
    marked = [(entry.recording_id, entry.is_valid) for entry in entries(changed(INVALIDATE, data))]
    assert marked == [(0, True), (1, True), (5, False)]
    assert [entry.recording_id for entry in entries(changed(SEED, data))] == [5]
    with pytest.raises(CorruptData, match="no snapshot of service 0 at position 2048"):
        seed_from_snapshot(data, 1)


def test_all_parts_of_a_snapshot_in_two_standbys_are_marked(golden_truth: Truth) -> None:
    golden = golden_truth("recording-logs")["standby2"]
    assert [entry.is_valid for entry in entries(changed(INVALIDATE, before(golden)))] == [True] + [False] * 4
    assert [entry.is_valid for entry in entries(after(golden, INVALIDATE))] == [True, True, False, False, False]
    found, original = entries(changed(SORT, before(golden))), entries(after(golden, SORT))
    assert [entry[:7] for entry in found] == [entry[:7] for entry in original]


def test_a_snapshot_of_a_term_that_is_not_there_stays_valid(golden_truth: Truth) -> None:
    golden = golden_truth("recording-logs")["noterm"]
    assert "no matching term for snapshot" in golden[INVALIDATE]["error"]
    with pytest.raises(CorruptData, match="a snapshot of term 0 without that term"):
        invalidate_latest_snapshot(before(golden))


def test_terms_of_two_recordings_do_not_keep_from_a_new_start(golden_truth: Truth) -> None:
    golden = golden_truth("recording-logs")["tworec"]
    assert "invalid TERM recordingId=9" in golden[SEED]["error"]
    found = entries(changed(SEED, before(golden)))
    assert [(entry.recording_id, entry.log_position) for entry in found] == [(1, 0), (2, 0)]
    assert [entry.is_valid for entry in entries(changed(INVALIDATE, before(golden)))] == [True, False, False, True]


def test_a_last_entry_without_its_padding_counts(golden_truth: Truth) -> None:
    # The original overlooks it until an entry is written behind it.
    data = before(golden_truth("recording-logs")["short48"])
    assert len(data) == 176
    assert [entry.recording_id for entry in entries(changed(SEED, data))] == [1, 2]
    assert changed(INVALIDATE, data)[47::64] == b"\x00\x80\x80"


@pytest.mark.parametrize("left", [48, 49, 63])
def test_padding_that_was_cut_is_a_fault_and_is_written_again(golden_truth: Truth, left: int) -> None:
    # With 49 to 63 bytes of the last entry a node throws when it reads the file, with 48 it does not see the entry.
    whole = before(golden_truth("recording-logs")["short48"]).ljust(192, b"\0")
    cut = whole[: 128 + left]
    (fault,) = read_recording_log(cut).faults
    assert (fault.code, fault.severity, fault.offset) == ("recording-log-size", Severity.FAULT, 128)
    assert "sort-recording-log" in fault.repair
    change = sort_entries(cut)
    assert change is not None
    assert (change.data, change.loses) == (whole, "nothing")
    assert change.before == f"3 entries; the last one lacks {64 - left} bytes of padding"
    assert changed(INVALIDATE, cut) == changed(INVALIDATE, whole)
    seeded = seed_from_snapshot(cut)
    assert seeded is not None
    assert (seeded.before, "unreadable" in seeded.loses) == ("3 entries", False)


def test_an_endpoints_entry_gets_its_padding_back() -> None:
    entry = encode_entry(
        recording_id=1,
        leadership_term_id=0,
        term_base_log_position=0,
        log_position=64,
        type=STANDBY_SNAPSHOT,
        archive_endpoint="h" * 20,
    )
    assert changed(SORT, entry[:72]) == entry
    with pytest.raises(CorruptData, match="without a valid endpoint"):
        sort_entries(entry[:71])


@pytest.mark.parametrize("verb", [SORT, INVALIDATE])
def test_an_entry_that_cant_be_read_is_not_lost(golden_truth: Truth, verb: str) -> None:
    data = before(golden_truth("recording-logs")["type5"])
    with pytest.raises(CorruptData, match=r"recording.log at offset 64: entry type 5") as caught:
        DO[verb](data)
    assert "seed-recording-log-from-snapshot" in str(caught.value.hint)


def test_a_new_start_says_that_it_leaves_out_what_cant_be_read(golden_truth: Truth) -> None:
    change = seed_from_snapshot(before(golden_truth("recording-logs")["type5"]))
    assert change is not None
    assert "1 unreadable" in change.before
    assert "entry type 5" in change.loses


def test_a_new_start_from_a_new_start_changes_nothing() -> None:
    assert seed_from_snapshot((NODES / "copy-node0-after-seed-recording.log").read_bytes()) is None


def test_what_a_change_does_is_said() -> None:
    data = (NODES / "copy-node0-after-invalidate-recording.log").read_bytes()
    change = invalidate_latest_snapshot(data)
    assert change is not None
    snapshot = "the snapshot of term 0 at position 128736 (service-0 recording 1, consensus-module recording 2)"
    assert change.before == f"valid: {snapshot}"
    assert change.loses == "the only snapshot: a start replays the log from its beginning"
    seeded = seed_from_snapshot(data)
    assert seeded is not None
    assert (seeded.before, seeded.after) == ("6 entries", f"{snapshot}, now at position 0")


def test_an_endpoint_may_fill_an_entry_and_no_more() -> None:
    fields: dict[str, Any] = {
        "recording_id": 1,
        "leadership_term_id": 0,
        "term_base_log_position": 0,
        "log_position": 64,
        "type": STANDBY_SNAPSHOT,
    }
    assert len(encode_entry(**fields, archive_endpoint="h" * MAX_ENDPOINT_BYTES)) == 4096
    for wrong in ("h" * (MAX_ENDPOINT_BYTES + 1), "hö"):
        with pytest.raises(UsageError, match="archive_endpoint"):
            encode_entry(**fields, archive_endpoint=wrong)


@st.composite
def recording_logs(draw: st.DrawFn) -> bytes:
    """Terms and snapshots in any order, some marked as invalid, some in standbys."""
    out = []
    for _ in range(draw(st.integers(0, 8))):
        kind = draw(st.sampled_from([TERM, SNAPSHOT, SNAPSHOT, STANDBY_SNAPSHOT]))
        base = draw(st.integers(0, 3)) * 64
        out.append(
            encode_entry(
                recording_id=0 if kind == TERM else draw(st.integers(1, 99)),
                leadership_term_id=draw(st.integers(0, 3)),
                term_base_log_position=base,
                log_position=base + draw(st.integers(0, 3)) * 32,
                timestamp=draw(st.integers(0, 9)),
                service_id=-1 if kind == TERM else draw(st.integers(-1, 2)),
                type=kind,
                is_valid=draw(st.booleans()),
                archive_endpoint="h" * draw(st.sampled_from([1, 11, 12, 13, 76, 77, 500])) if kind == 2 else "",
            )
        )
    return b"".join(out)


@given(recording_logs())
def test_sorting_keeps_every_entry_and_is_done_once(data: bytes) -> None:
    def content(data: bytes) -> list[tuple[Any, ...]]:
        return [(*entry[:8], entry.archive_endpoint) for entry in read_recording_log(data).entries]

    new = changed(SORT, data)
    assert content(new) == content(data)
    assert [(*e[:8], e.archive_endpoint) for e in entries(new)] == content(data)
    assert sort_entries(new) is None
    assert len(new) == len(data)


@given(recording_logs())
def test_snapshots_are_marked_from_the_latest_on_until_none_is_left(data: bytes) -> None:
    terms = b"".join(
        encode_entry(recording_id=0, leadership_term_id=term, term_base_log_position=0, log_position=0)
        for term in range(4)
    )
    data += terms
    for _ in range(20):
        change = invalidate_latest_snapshot(data)
        if change is None:
            break
        pairs = [(a, b) for a, b in zip(entries(data), entries(change.data), strict=True) if a != b]
        assert all(a._replace(is_valid=False) == b and a.type != TERM for a, b in pairs)
        assert len({a.log_position for a, _ in pairs}) == 1
        assert sum(a != b for a, b in zip(data, change.data, strict=True)) == len(pairs)  # a bit each
        data = change.data
    assert invalidate_latest_snapshot(data) is None
    assert not any(e.is_valid and e.type != TERM and e.service_id == -1 for e in entries(data))


@given(recording_logs(), st.data())
def test_damaged_recording_logs_are_refused_or_changed_and_never_crash(data: bytes, choices: st.DataObject) -> None:
    damaged = bytearray(data)
    for _ in range(choices.draw(st.integers(0, 3))):
        if damaged:
            damaged[choices.draw(st.integers(0, len(damaged) - 1))] = choices.draw(st.integers(0, 255))
    cut = bytes(damaged[: choices.draw(st.integers(0, len(damaged)))])
    for change in DO.values():
        try:
            new = change(cut)
        except CorruptData:
            continue
        if new is not None:
            assert read_recording_log(new.data).faults == [] or change is invalidate_latest_snapshot
