"""Segments of several terms are cut at terms; files that are missing or short are not."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pytest

from everlog.aeron.archive.store import ArchiveStore
from everlog.core.store import Level
from everlog.testing.storage.memory import MemoryStorage

TERM, SEGMENT = 65_536, 131_072
"""Of all recordings of the golden archive that these tests use."""


@pytest.fixture
def storage(golden_archive):
    return MemoryStorage.of_folder(golden_archive("archive-basic/archive"))


def everything(store, stream, splits=None, level=Level.RECORD):
    rows, faults = [], []
    for split in [None] if splits is None else pickle.loads(pickle.dumps(splits)):
        asked = {"columns": ["position", "payload"], "on_fault": faults.append, "level": level}
        batches = store.scan(stream, **asked) if split is None else store.scan_split(split, **asked)
        rows += [(p, bytes(b)) for batch in batches for p, b in batch.rows()]
    return rows, [str(fault) for fault in faults]


def test_a_segment_is_cut_at_the_starts_of_its_terms(storage):
    store = ArchiveStore.open(storage, {})
    splits = store.splits("0", split_bytes=1)
    assert [(s.start, s.end) for s in splits[:3]] == [(0, TERM), (TERM, 2 * TERM), (2 * TERM, 3 * TERM)]
    assert (splits[-1].start, splits[-1].end) == (6 * TERM, None)
    assert sum(s.byte_count for s in splits) == 398_240
    assert [s.start for s in store.splits("0", split_bytes=SEGMENT)] == [0, SEGMENT, 2 * SEGMENT, 3 * SEGMENT]
    assert [s.start for s in store.splits("0", split_bytes=2 * SEGMENT)] == [0, 2 * SEGMENT]


@pytest.mark.parametrize("level", [Level.RECORD, Level.FRAME])
def test_terms_hold_each_message_once(storage, level):
    store = ArchiveStore.open(storage, {})
    for info in store.streams():
        splits = store.splits(info.name, split_bytes=1)
        assert everything(store, info.name, splits, level) == everything(store, info.name, None, level)


def test_a_stop_position_far_behind_the_files_makes_no_splits_of_its_own(storage, monkeypatch):
    store = ArchiveStore.open(storage, {})
    recording = store.folder.recording("0")
    sound = store.splits("0", split_bytes=1)
    monkeypatch.setattr(store.folder, "recording", lambda _: replace(recording, stop_position=4 << 40))
    splits = store.splits("0", split_bytes=1)
    assert [s.start for s in splits] == [*(s.start for s in sound), 7 * TERM]
    rows, faults = everything(store, "0", splits)
    assert rows == everything(store, "0")[0]
    assert len(faults) == 2, "what the last file lacks, and what is said to lie after it"


def test_a_missing_file_is_one_fault(storage):
    del storage.files[f"0-{SEGMENT}.rec"]
    store = ArchiveStore.open(storage, {})
    splits = store.splits("0", split_bytes=1)
    assert [s.start for s in splits] == [0, TERM, 2 * TERM, 4 * TERM, 5 * TERM, 6 * TERM]
    rows, faults = everything(store, "0", splits)
    assert (rows, faults) == everything(store, "0")
    assert len(faults) == 1


def test_a_short_file_is_one_fault(storage):
    storage.files[f"0-{SEGMENT}.rec"] = storage.files[f"0-{SEGMENT}.rec"][:1000]
    store = ArchiveStore.open(storage, {})
    rows, faults = everything(store, "0", store.splits("0", split_bytes=1))
    assert (rows, faults) == everything(store, "0")
    assert len(faults) == 1


def test_times_come_from_the_reserved_values_at_the_splits_starts(storage):
    for base, time in ((0, 5), (SEGMENT, 0), (2 * SEGMENT, 9)):
        data = bytearray(storage.files[f"0-{base}.rec"])
        data[24:32] = time.to_bytes(8, "little")
        storage.files[f"0-{base}.rec"] = bytes(data)
    store = ArchiveStore.open(storage, {"timestamp_from": "reserved_value:ms"})
    splits = store.splits("0", split_bytes=SEGMENT)[:3]
    # 0 is no time.
    assert store.split_times(splits) == [(5_000_000, None), (None, 9_000_000), (9_000_000, None)]
    plain = ArchiveStore.open(storage, {})
    assert plain.split_times(splits) == [(None, None)] * 3
