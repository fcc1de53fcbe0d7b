"""Large slices are cut at records by their index."""

from __future__ import annotations

import pickle

import pytest

from everlog.nats_streaming.reading import splitting


def everything(store, splits=None):
    """Rows and faults of a scan, or of scans of splits that went through pickle."""
    rows, faults = [], []
    for split in [None] if splits is None else pickle.loads(pickle.dumps(splits)):
        asked = {"columns": ["sequence", "offset", "payload"], "on_fault": faults.append}
        batches = store.scan("foo", **asked) if split is None else store.scan_split(split, **asked)
        rows += [(s, o, bytes(p)) for batch in batches for s, o, p in batch.rows()]
    return rows, sorted(str(fault) for fault in faults)


@pytest.fixture
def tiny_pieces(monkeypatch):
    monkeypatch.setattr(splitting, "MIN_PIECE_BYTES", 1)


@pytest.mark.usefixtures("tiny_pieces")
@pytest.mark.parametrize("split_bytes", [1, 200, 1000, 1 << 20])
def test_pieces_hold_the_same_messages(made, opened, tmp_path, split_bytes):
    dat, idx = made.slice(range(1, 61))
    second, second_idx = made.slice(range(61, 81))
    store = opened(made.store(tmp_path / "s", dat_1=dat, idx_1=idx, dat_2=second, idx_2=second_idx))
    splits = store.splits("foo", split_bytes=split_bytes)
    assert everything(store, splits) == everything(store)
    assert [row[0] for row in everything(store, splits)[0]] == list(range(1, 81))
    assert (len(splits) > 2) == (split_bytes < len(dat))
    middle = store.splits("foo", start=30, end=35, split_bytes=split_bytes)
    assert [row[0] for row in everything(store, middle)[0]] == [30, 31, 32, 33, 34]


@pytest.mark.usefixtures("tiny_pieces")
def test_damage_is_told_by_the_piece_in_which_it_lies(made, opened, tmp_path):
    dat, idx = made.slice(range(1, 61))
    damaged = bytearray(dat)
    damaged[dat.index(b"message 31")] ^= 1
    store = opened(made.store(tmp_path / "s", dat_1=bytes(damaged), idx_1=idx))
    splits = store.splits("foo", split_bytes=300)
    rows, faults = everything(store, splits)
    assert len(splits) > 5
    assert [row[0] for row in rows] == [k for k in range(1, 61) if k != 31]
    assert len(faults) == 1
    assert (rows, faults) == everything(store)


@pytest.mark.usefixtures("tiny_pieces")
def test_a_slice_without_an_index_is_not_cut(made, opened, tmp_path):
    dat, _ = made.slice(range(1, 61))
    store = opened(made.store(tmp_path / "s", dat_1=dat))
    assert len(store.splits("foo", split_bytes=100)) == 1
    assert len(everything(store, store.splits("foo", split_bytes=100))[0]) == 60


def test_times_of_splits_are_those_of_their_slices(made, opened, tmp_path):
    files = {}
    for k in range(3):
        files[f"dat_{k + 1}"], files[f"idx_{k + 1}"] = made.slice(range(10 * k + 1, 10 * k + 11))
    store = opened(made.store(tmp_path / "s", **files))
    splits = store.splits("foo", split_bytes=1)
    second = 10**9
    assert store.split_times(splits) == [
        (10**18 + 1 * second, 10**18 + 10 * second),
        (10**18 + 11 * second, 10**18 + 20 * second),
        (10**18 + 21 * second, 10**18 + 30 * second),
    ]


def test_a_lost_slice_has_no_time_so_that_it_is_told_by_a_scan_of_any_time(made, opened, tmp_path):
    dat, idx = made.slice(range(1, 11))
    _, lost = made.slice(range(11, 21))
    store = opened(made.store(tmp_path / "s", dat_1=dat, idx_1=idx, idx_2=lost))
    splits = store.splits("foo", split_bytes=1)
    assert store.split_times(splits) == [(None, None)]
    assert len(everything(store, splits)[1]) == 1
