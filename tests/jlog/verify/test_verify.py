"""What verify says, beyond the golden journals: each kind of fault, with its place."""

from __future__ import annotations

import pytest

from everlog.jlog.format.faults import CODES
from everlog.jlog.store import JlogStore


def check(storage):
    report = JlogStore.open(storage, {}).verify()
    for found in report.faults:
        assert found.code in CODES
        assert found.found
        assert found.expected
        assert found.loses
        assert found.repair
    return {(f.code, f.file, f.offset) for f in report.faults if f.severity.value == "fault"}, {
        (f.code, f.file) for f in report.faults if f.severity.value == "note"
    }


@pytest.fixture
def files(make):
    """A sound journal: two finished segments, one that is written, a subscriber."""
    frames = [make.message(bytes([i]) * 50, 100 + i) for i in range(6)]
    return {
        "metastore": make.metastore(2, 130),
        "00000000": frames[0] + frames[1],
        "00000000.idx": make.index(0, 66, 0),
        "00000001": frames[2] + frames[3],
        "00000001.idx": make.index(0, 66, 0),
        "00000002": frames[4] + frames[5],
        "00000002.idx": make.index(0, 66),
        "cp.61": make.index(1)[:4] + make.index(2)[:4],
        "pre_commit": bytes(4),
    }


def test_a_sound_journal_has_nothing_to_report(make, files):
    assert check(make.folder(files)) == (set(), set())


@pytest.mark.parametrize(
    ("name", "entries", "fault"),
    [
        ("00000000.idx", (0, 67, 0), ("index-wrong", 8)),
        ("00000000.idx", (5, 66, 0), ("index-wrong", 0)),
        ("00000000.idx", (0, 66, 99, 0), ("index-past-end", 16)),
        ("00000000.idx", (0, 0), ("index-closed-early", 8)),
        ("00000002.idx", (0, 66, 0), ("index-closed-early", 16)),
        ("00000002.idx", (0, 66, 132), ("index-past-end", 16)),
    ],
)
def test_a_wrong_index_is_reported_at_the_entry(make, files, name, entries, fault):
    found, _ = check(make.folder(files | {name: make.index(*entries)}))
    assert (fault[0], name, fault[1]) in found


def test_an_index_of_odd_size_is_reported_and_a_short_one_noted(make, files):
    found, _ = check(make.folder(files | {"00000002.idx": make.index(0, 66) + b"xyz"}))
    assert found == {("index-misaligned", "00000002.idx", 16)}
    found, notes = check(make.folder(files | {"00000002.idx": make.index(0)}))
    assert (found, notes) == (set(), {("index-partial", "00000002.idx")})
    found, notes = check(make.folder(files | {"00000001.idx": make.index(0, 66)}))
    assert (found, notes) == (set(), {("index-not-closed", "00000001.idx")})


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (b"", ("checkpoint-empty", None)),
        (b"\1\0\0\0\2", ("checkpoint-size", None)),
        (bytes(9), ("checkpoint-size", None)),
        (b"\1\0\0\0\3\0\0\0", ("checkpoint-past-end", 4)),
        (b"\3\0\0\0\0\0\0\0", ("checkpoint-after-last", 0)),
    ],
)
def test_a_wrong_checkpoint_is_reported(make, files, data, fault):
    found, _ = check(make.folder(files | {"cp.61": data}))
    assert found == {(fault[0], "cp.61", fault[1])}


def test_a_checkpoint_before_the_first_segment_is_reported(make, files):
    del files["00000000"], files["00000000.idx"]
    found, _ = check(make.folder(files | {"cp.61": bytes(8)}))
    assert found == {("checkpoint-before-first", "cp.61", 0)}


def test_wrong_names_are_noted_and_wrong_checkpoint_names_reported(make, files):
    extra = {"cp.6": bytes(8), "readme.txt": b"", "0000000A": b"", "00000009.idx": b""}
    found, notes = check(make.folder(files | extra))
    assert found == {("checkpoint-name", "cp.6", None)}
    assert notes == {
        ("unknown-file", "readme.txt"),
        ("unknown-file", "0000000A"),
        ("index-without-segment", "00000009.idx"),
    }


@pytest.mark.parametrize(
    ("data", "faults"),
    [
        (b"", {("metastore-size", None)}),
        (bytes(15), {("metastore-size", None)}),
        (bytes(16), {("metastore-field", 4), ("metastore-field", 12)}),
        ("low", {("storage-log-low", 0)}),
        ("high", {("storage-log-high", 0)}),
        ("safety", {("metastore-field", 8)}),
        ("limit", {("metastore-field", 4)}),
        ("magic", {("metastore-field", 12)}),
        ("legacy", {("metastore-legacy", None)}),
    ],
)
def test_each_field_of_the_metastore_is_judged(make, files, data, faults):
    data = {
        "low": make.metastore(1, 130),
        "high": make.metastore(9, 130),
        "safety": make.metastore(2, 130, 3),
        "limit": make.metastore(2, 0),
        "magic": make.metastore(2, 130, 1, 0x663A7319),
        "legacy": make.metastore(2, 130)[:12],
    }.get(data, data)
    found, _ = check(make.folder(files | {"metastore": data}))
    assert {(code, offset) for code, file, offset in found if file == "metastore"} == faults


def test_a_magic_that_is_not_that_of_the_messages_is_reported_for_each_segment(make, files):
    found, _ = check(make.folder(files | {"metastore": make.metastore(2, 130, 1, make.LZ4)}))
    assert found == {("magic-differs", f"0000000{n}", 0) for n in range(3)}


def test_a_finished_segment_that_is_too_short_is_noted(make, files):
    assert check(make.folder(files | {"metastore": make.metastore(2, 133)}))[1] == {
        ("segment-short", "00000000"),
        ("segment-short", "00000001"),
    }


def test_missing_and_emptied_segments_are_reported(make, files):
    del files["00000001"], files["00000001.idx"]
    assert ("missing-segments", "00000001", None) in check(make.folder(files | {"cp.61": bytes(8)}))[0]
    found, _ = check(make.folder(files | {"00000001": b""}))
    assert found == {("empty-closed-segment", "00000001", 0)}


def test_a_short_write_with_others_behind_it_is_reported_once(make, files):
    data = files["00000002"]
    torn = data[:100] + make.message(b"behind" * 10, 200)
    found, _ = check(make.folder(files | {"00000002": torn, "00000002.idx": make.index(0)}))
    assert found == {("torn-record", "00000002", 66)}


def pre_commit(used, content, capacity=200):
    return used.to_bytes(4, "little") + content.ljust(capacity, b"\0")


def test_a_pre_commit_buffer_is_checked_in_all_its_states(make, files):
    waiting = make.message(b"waiting", 900)
    cases = [
        (b"", set(), {"pre-commit-size"}),
        (b"\1\2", {("pre-commit-size", None)}, set()),
        (pre_commit(0, b""), set(), set()),
        (pre_commit(23, waiting), set(), {"pre-commit-unflushed"}),
        (pre_commit(23 + 16, waiting * 2), {("pre-commit-damaged", 27)}, {"pre-commit-unflushed"}),
        (pre_commit(24, waiting), {("pre-commit-damaged", 27)}, {"pre-commit-unflushed"}),
        (pre_commit(0x7FFF_FFFF, waiting * 9, 207), {("pre-commit-overrun", 0)}, {"pre-commit-unflushed"}),
    ]
    for data, faults, notes in cases:
        found, noted = check(make.folder(files | {"pre_commit": data}))
        assert found == {(code, "pre_commit", offset) for code, offset in faults}, data[:40]
        assert noted == {(code, "pre_commit") for code in notes}, data[:40]


def test_messages_that_wait_and_are_in_the_journal_already_are_reported(make, files):
    last = files["00000002"][66:]
    found, _ = check(make.folder(files | {"pre_commit": pre_commit(66, last)}))
    assert found == {("pre-commit-duplicate", "pre_commit", 4)}


def test_flushed_messages_that_never_reached_the_journal_are_reported(make, files):
    flushed = make.message(b"flushed", 105)
    assert check(make.folder(files | {"pre_commit": pre_commit(0, flushed)}))[0] == {
        ("pre-commit-lost", "pre_commit", 4)
    }
    assert check(make.folder(files | {"pre_commit": pre_commit(0, files["00000002"])}))[0] == set()


def test_flushed_messages_older_than_what_is_kept_are_not_missed(make, files):
    del files["00000000"], files["00000000.idx"]
    old = make.message(b"flushed", 50)
    assert check(make.folder(files | {"pre_commit": pre_commit(0, old)}))[0] == set()


def test_an_empty_message_of_the_null_provider_is_noted(make):
    data = make.stored(b"a", 1) + make.stored(bytes(16_384), 0) + make.stored(bytes(16_384), 0)
    storage = make.folder({"00000000": data, "metastore": make.metastore(magic=make.NULL)})
    found, notes = check(storage)
    assert found == set()
    assert ("null-provider-empty-message", "00000000") in notes


def test_progress_is_told_in_bytes(golden):
    told = []
    JlogStore.open(golden("basic"), {}).verify(lambda what, done, total: told.append((what, done, total)))
    assert told
    assert all(0 <= done <= total == 10560 for _, done, total in told)


def test_nothing_else_than_known_codes_is_documented():
    assert all(code == code.lower() and " " not in code and text.endswith(".") for code, text in CODES.items())
