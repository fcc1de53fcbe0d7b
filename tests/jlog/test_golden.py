"""Golden journals against what the real library said of them."""

from __future__ import annotations

import json
import zlib

import pytest

import tests
from everlog.jlog.format.names import parse_index_name
from everlog.jlog.store import JlogStore

GOLDEN = tests.GOLDEN / "jlog"
CASES = sorted(path.name for path in GOLDEN.iterdir() if (path / "truth.json").exists())
INTACT = [case for case in CASES if not case.startswith("e_")]
DAMAGED = [case for case in CASES if case.startswith("e_")]

LOST = {
    "e_garbage_middle_current": {(2, 5)},
    "e_garbage_middle_idx_kept": {(1, 13)},
    "e_seg_empty_closed": {(1, marker) for marker in range(1, 26)},
    "e_trunc_bogus_noidx": {(0, 5)},
    "e_trunc_last": {(2, 9)},
    "e_trunc_last_header": {(2, 9)},
    "e_trunc_last_noidx": {(2, 9)},
    "e_trunc_then_append": {(2, 9)},
    "e_trunc_then_append_noidx": {(2, 9)},
}
"""Messages that the damage destroyed, as their descriptions in index.json say."""
APPENDED = {
    (2, 10, 1402, 40, "d6f769ef"),
    (2, 11, 1458, 40, "df1aa33c"),
    (2, 12, 1514, 40, "347eccb9"),
}
"""The three that the reference wrote behind the torn one; lengths and checksums as it read them after its repair."""

FAULTS = {
    "e_cp_after_last": {("checkpoint-after-last", "cp.6f6e65", 0)},
    "e_cp_empty": {("checkpoint-empty", "cp.6f6e65", None)},
    "e_cp_marker_too_big": {("checkpoint-past-end", "cp.6f6e65", 4)},
    "e_cp_next_segment": {("checkpoint-after-last", "cp.6f6e65", 0)},
    "e_cp_short": {("checkpoint-size", "cp.6f6e65", None)},
    "e_garbage_middle_current": {("damaged-bytes", "00000002", 671)},
    "e_garbage_middle_idx_kept": {("damaged-bytes", "00000001", 2013)},
    "e_idx_longer": {("index-past-end", "00000002.idx", 72)},
    "e_idx_longer_closed": {("index-past-end", "00000001.idx", 200)},
    "e_idx_missing": set(),
    "e_idx_not_closed": set(),
    "e_legacy_12byte": {("metastore-legacy", "metastore", None)},
    "e_legacy_12byte_noidx": {("metastore-legacy", "metastore", None)},
    "e_lz4_intact_repair": set(),
    "e_meta_empty": {("metastore-size", "metastore", None)},
    "e_meta_low": {("storage-log-low", "metastore", 0)},
    "e_meta_missing": {("metastore-missing", "metastore", None)},
    "e_meta_zero": {("metastore-field", "metastore", 4), ("metastore-field", "metastore", 12)},
    "e_seg_empty_closed": {("empty-closed-segment", "00000001", 0)},
    "e_trunc_bogus_noidx": {("merged-records", "00000000", 264)},
    "e_trunc_last": {("torn-record", "00000002", 1342), ("index-past-end", "00000002.idx", 64)},
    "e_trunc_last_header": {("torn-header", "00000002", 1342), ("index-past-end", "00000002.idx", 64)},
    "e_trunc_last_noidx": {("torn-record", "00000002", 1342)},
    "e_trunc_then_append": {("torn-record", "00000002", 1342)},
    "e_trunc_then_append_noidx": {("torn-record", "00000002", 1342)},
    "e_zero_tail": {("zero-bytes", "00000002", 1422)},
    "precommit_big_message_loses_data": {("pre-commit-lost", "pre_commit", 4)},
}
"""What verify must report, by the description of each case; those not named here have no fault."""
NOTES = {
    "null_provider": {("null-provider-empty-message", "00000000"), ("null-provider-empty-message", "00000001")},
    "e_idx_missing": {("index-missing", f"{log:08x}.idx") for log in range(3)},
    "e_idx_not_closed": {("index-not-closed", "00000001.idx")},
    "precommit_unflushed": {("pre-commit-unflushed", "pre_commit")},
}


def open_golden(golden, case, **options):
    return JlogStore.open(golden(case), options)


def read(store):
    faults = []
    rows = [
        (r.fields["log"], r.fields["marker"], r.fields["offset"], r.fields["length"], f"{zlib.crc32(r.payload):08x}")
        for r in store.read("journal", on_fault=faults.append)
    ]
    return rows, faults


@pytest.mark.parametrize("case", INTACT)
def test_every_message_of_an_intact_journal_is_read_as_the_library_wrote_it(golden, truth, case):
    store = open_golden(golden, case)
    got = [
        (
            r.address,
            r.fields["offset"],
            r.timestamp_ns,
            r.fields["length"],
            len(r.payload),
            f"{zlib.crc32(r.payload):08x}",
        )
        for r in store.read("journal")
    ]
    want = [
        (
            f"{m['segment']:08x}:{m['marker']:08x}",
            m["offset"],
            m["ts"][0] * 10**9 + m["ts"][1] * 1000,
            m["len"],
            m["len"],
            m["crc32"],
        )
        for m in truth(case)["messages"]
    ]
    assert got == want


@pytest.mark.parametrize("case", DAMAGED)
def test_every_undamaged_message_is_read_and_nothing_that_was_not_written(golden, truth, case):
    rows, _ = read(open_golden(golden, case))
    written = {tuple(row) for row in truth(case)["messages_originally_written"]}
    if case.startswith("e_trunc_then_append"):
        written |= APPENDED
    lost = LOST.get(case, set())
    assert sorted(rows) == rows
    assert set(rows) == {row for row in written if row[:2] not in lost}


@pytest.mark.parametrize("case", DAMAGED)
def test_reading_reports_damage_of_the_data_where_it_is(golden, case):
    _, faults = read(open_golden(golden, case))
    of_data = {f for f in FAULTS[case] if f[1].startswith("0000000") and not f[1].endswith(".idx")}
    assert {(f.code, f.file, f.offset) for f in faults} == of_data


@pytest.mark.parametrize("case", CASES)
def test_verify_reports_the_faults_of_each_journal_and_no_others(golden, case):
    report = open_golden(golden, case).verify()
    faults = {(f.code, f.file, f.offset) for f in report.faults if f.severity.value == "fault"}
    assert faults == FAULTS.get(case, set())
    assert report.exit_code == (1 if FAULTS.get(case) else 0)
    notes = {(f.code, f.file) for f in report.faults if f.severity.value == "note"}
    assert notes >= NOTES.get(case, set())
    assert {code for code, _ in notes} <= {code for code, _ in NOTES.get(case, set())} | {
        "index-missing",
        "index-partial",
    }


@pytest.mark.parametrize("case", CASES)
def test_verify_counts_what_reading_gives(golden, case):
    store = open_golden(golden, case)
    report = store.verify()
    assert report.record_count == len(read(store)[0])
    sizes = [size["size"] for name, size in files_of(case).items() if len(name) == 8]
    assert (report.segment_count, report.byte_count) == (len(sizes), sum(sizes))


def files_of(case):
    truth = json.loads((GOLDEN / case / "truth.json").read_text())
    return truth.get("before", truth)["files"]


@pytest.mark.parametrize("case", CASES)
def test_info_tells_metastore_subscribers_and_indexes_as_the_library_left_them(golden, truth, case):
    info = open_golden(golden, case).info()
    said = truth(case).get("before") or truth(case)
    if case not in ("e_meta_zero",) and said.get("metastore"):
        meta = said["metastore"]
        assert info["metastore"]["storage_log"] == meta["storage_log"]
        assert info["metastore"]["segment_limit_bytes"] == meta["unit_limit"]
        assert info["metastore"]["safety"] == ["unsafe", "almost_safe", "safe"][meta["safety"]]
        assert info["metastore"]["magic"] == meta["hdr_magic"]
    places = {s["name"]: (s["file"], s["log"], s["marker"]) for s in info["subscribers"]}
    assert places == {
        name: (sub["file"], sub.get("log"), sub.get("marker")) for name, sub in said["subscribers"].items()
    }
    states = {s["log"]: s["index"] for s in info["segments"]}
    for name, idx in said["idx"].items():
        log = parse_index_name(name)
        if not case.startswith("e_"):
            assert states[log] == ("closed" if idx["closed"] else "open")
    if "pre_commit" in said:
        state = said["pre_commit"]
        assert info["pre_commit"] == {"capacity_bytes": state["capacity"], "used_bytes": state["used"]}
    else:
        assert info["pre_commit"] is None


@pytest.mark.parametrize("case", INTACT)
def test_ls_knows_the_first_and_last_address_and_the_count(golden, truth, case):
    (info,) = open_golden(golden, case).streams()
    messages = truth(case)["messages"]
    assert (info.name, info.family, info.record_count) == ("journal", "jlog", len(messages))
    if not messages:
        assert (info.first, info.last, info.end) == (None, None, None)
        return
    first, last = messages[0], messages[-1]
    assert info.first == f"{first['segment']:08x}:{first['marker']:08x}"
    assert info.last == f"{last['segment']:08x}:{last['marker']:08x}"
    assert info.end == f"{last['segment']:08x}:{last['marker'] + 1:08x}"
    assert info.byte_count == sum(s["size"] for s in truth(case)["segments"])


def test_what_waits_in_the_pre_commit_buffer_is_read_when_asked_for(golden, truth):
    store = open_golden(golden, "precommit_unflushed", pre_commit=True)
    got = [
        (r.address, r.fields["offset"], r.timestamp_ns, r.fields["length"], f"{zlib.crc32(r.payload):08x}")
        for r in store.read("journal")
    ]
    assert got == [
        (f"00000000:{i + 1:08x}", m["offset"], m["ts"][0] * 10**9 + m["ts"][1] * 1000, m["len"], m["crc32"])
        for i, m in enumerate(truth("precommit_unflushed")["pre_commit"]["messages"])
    ]


def test_lag_is_what_the_library_would_still_give_a_subscriber(golden):
    info = open_golden(golden, "basic").info()
    # 90 messages; alpha has read 12, beta 55, ~tail 30 (index.json)
    assert {s["name"]: s["lag"] for s in info["subscribers"]} == {"alpha": 78, "beta": 35, "~tail": 60}
    assert {s["name"]: s["transient"] for s in info["subscribers"]} == {"alpha": False, "beta": False, "~tail": True}
    assert [s["pending_readers"] for s in info["segments"]] == [2, 3, 3]


def test_pending_readers_are_those_that_the_original_counts(golden, truth):
    info = open_golden(golden, "basic").info()
    (said,) = [c["stdout"] for c in truth("basic")["jlogctl"] if c["args"] == ["data", "-j", "log"]]
    counts = {line.split()[0]: int(line.split("] ")[1].split()[0]) for line in said.splitlines() if line.strip()}
    assert {s["file"]: s["pending_readers"] for s in info["segments"]} == counts
