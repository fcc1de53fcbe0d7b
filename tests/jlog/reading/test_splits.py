"""Large segments are cut where their index says that messages begin, and nothing is lost if it is wrong."""

from __future__ import annotations

import pickle

import pytest

from everlog.jlog.reading import splitting
from everlog.jlog.store import JlogStore

CASES = [
    "basic",
    "broken_base",
    "e_garbage_middle_current",
    "e_garbage_middle_idx_kept",
    "e_idx_longer",
    "e_idx_missing",
    "e_idx_not_closed",
    "e_trunc_then_append",
    "e_trunc_last",
    "e_zero_tail",
    "lz4",
    "null_provider",
]


@pytest.fixture
def tiny_pieces(monkeypatch):
    monkeypatch.setattr(splitting, "MIN_PIECE_BYTES", 1)


def everything(store, splits=None):
    """Rows and faults of a scan, or of scans of splits that went through pickle."""
    rows, faults = [], []
    whole = [None] if splits is None else pickle.loads(pickle.dumps(splits))
    for split in whole:
        asked = {"columns": ["address", "offset", "payload"], "on_fault": faults.append}
        batches = store.scan("journal", **asked) if split is None else store.scan_split(split, **asked)
        rows += [(a, o, bytes(p)) for batch in batches for a, o, p in batch.rows()]
    return rows, [str(fault) for fault in faults]


@pytest.mark.usefixtures("tiny_pieces")
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("split_bytes", [1, 300, 2000])
def test_pieces_of_golden_journals_hold_the_same_messages_and_faults(golden, case, split_bytes):
    store = JlogStore.open(golden(case), {})
    splits = store.splits("journal", split_bytes=split_bytes)
    assert everything(store, splits) == everything(store)
    if case in ("basic", "broken_base", "e_garbage_middle_idx_kept", "e_idx_longer"):
        assert any(split.context.piece is not None for split in splits)


@pytest.mark.usefixtures("tiny_pieces")
def test_a_range_of_addresses_takes_only_the_pieces_it_needs(golden):
    store = JlogStore.open(golden("broken_base"), {})
    rows, _ = everything(store)
    start, end = store.parse_address(rows[40][0]), store.parse_address(rows[50][0])
    splits = store.splits("journal", start=start, end=end, split_bytes=100)
    assert everything(store, splits)[0] == rows[40:50]
    assert len(splits) < len(store.splits("journal", split_bytes=100)) / 3


def test_pieces_are_of_equal_size_and_small_segments_are_not_cut(make):
    message = make.message(bytes(1008))  # 1024 bytes with its header
    index = make.index(*range(0, 1024 * 1024, 1024))
    store = JlogStore.open(make.folder({"00000000": message * 1024, "00000000.idx": index, "00000001": message}), {})
    pieces = [split.context.piece for split in store.splits("journal", split_bytes=256 << 10)]
    assert [(p.start, p.marker, p.end) for p in pieces[:4]] == [
        (0, 1, 262144),
        (262144, 257, 524288),
        (524288, 513, 786432),
        (786432, 769, None),
    ]
    assert pieces[4:] == [None]
    assert len(store.splits("journal", split_bytes=1)) == 17  # 64 KiB are the least


@pytest.mark.usefixtures("tiny_pieces")
def test_an_index_that_lies_loses_no_message(make):
    data = b"".join(make.message(b"%03d" % i) for i in range(100))  # 19 bytes each
    store = JlogStore.open(make.folder({"00000000": data}), {})
    truth = [row[2] for row in everything(store)[0]]
    assert truth == [b"%03d" % i for i in range(100)]
    lies = [
        [19 * i for i in range(100) if i != 40],  # one is not in it, so that numbers behind it are wrong
        [19 * i + (i > 60) for i in range(99)],  # offsets that are not where messages begin
        [*range(0, 19 * 50, 19), *range(19 * 49, 19 * 99, 19)],  # one twice
        [0] * 100,
        [2**63] * 100,
    ]
    for lie in lies:
        lying = JlogStore.open(make.folder({"00000000": data, "00000000.idx": make.index(*lie)}), {})
        for split_bytes in (30, 200, 1000):
            rows, faults = everything(lying, lying.splits("journal", split_bytes=split_bytes))
            assert [row[2] for row in rows] == truth
            assert faults == []


@pytest.mark.usefixtures("tiny_pieces")
def test_a_damaged_message_before_a_cut_is_told_although_the_file_goes_on(make):
    messages = [make.message(b"%03d" % i) for i in range(100)]
    messages[48] = messages[48][:12] + b"\xff\xff\x00\x00" + messages[48][16:]  # its length leads behind the end
    files = {"00000000": b"".join(messages), "00000000.idx": make.index(*range(0, 1900, 19))}
    store = JlogStore.open(make.folder(files), {})
    whole, told = everything(store)
    for split_bytes in (19, 100, 931, 950):
        rows, faults = everything(store, store.splits("journal", split_bytes=split_bytes))
        assert [row[2] for row in rows] == [row[2] for row in whole] == [b"%03d" % i for i in range(100) if i != 48]
        assert faults == told
        assert len(faults) == 1


def test_times_of_splits_are_those_of_their_first_messages(make):
    files = {f"{log:08x}": make.message(b"x", 1000 + log, 7) + make.message(b"y", 2000) for log in range(3)}
    store = JlogStore.open(make.folder(files | {"00000003": b"rubbish that is no message"}), {})
    splits = store.splits("journal", split_bytes=1)
    times = [1_000_000_007_000, 1_001_000_007_000, 1_002_000_007_000]
    assert store.split_times(splits) == [(times[0], times[1]), (times[1], times[2]), (times[2], None), (None, None)]


def test_a_hole_has_no_time_so_that_it_is_told_by_a_scan_of_any_time(make):
    store = JlogStore.open(make.folder({f"{log:08x}": make.message(b"x", 1000 + log) for log in (0, 2, 3)}), {})
    times = store.split_times(store.splits("journal", split_bytes=1))
    assert times == [(1_000 * 10**9, 1_002 * 10**9), (None, 1_003 * 10**9), (1_003 * 10**9, None)]
