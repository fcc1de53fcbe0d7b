"""The journal as a store: contract, addresses, ranges, splits, options, detection."""

from __future__ import annotations

import pickle
import tarfile
from pathlib import Path

import pytest

import tests
from everlog import open_store
from everlog.core.files.storage import LocalStorage
from everlog.errors import StoreUnavailable, UnknownStream, UnsupportedVersion, UsageError
from everlog.jlog.format.layouts import JlogHeader
from everlog.jlog.options import JlogOptions
from everlog.jlog.store import JlogStore
from everlog.stores import detect
from everlog.testing.contract import Subject, check_store
from everlog.testing.storage.memory import MemoryStorage

GOLDEN = tests.GOLDEN / "jlog"


def unpack(case: str, target: Path) -> Path:
    before = GOLDEN / case / "before.tar.gz"
    with tarfile.open(before if before.exists() else GOLDEN / case / "log.tar.gz") as tar:
        tar.extractall(target, filter="data")
    return target / "log"


@pytest.mark.parametrize("case", ["basic", "lz4", "e_garbage_middle_idx_kept", "e_seg_empty_closed", "empty_init"])
def test_the_store_keeps_the_contract(tmp_path, case):
    check_store(Subject(unpack(case, tmp_path)), kernels=False)


def test_the_store_keeps_the_contract_with_the_pre_commit_buffer(tmp_path):
    path = unpack("precommit_unflushed", tmp_path)
    check_store(Subject(path, family="jlog", options={"pre_commit": True}), kernels=False)


def test_an_address_is_segment_and_marker_in_hex(golden):
    store = JlogStore.open(golden("basic"), {})
    assert store.parse_address("0000000a:00000010") == (10 << 32) | 16
    assert store.parse_address("a:10") == (10 << 32) | 16
    assert store.format_address((10 << 32) | 16) == "0000000a:00000010"
    assert store.format_address(store.parse_address("ffffffff:ffffffff")) == "ffffffff:ffffffff"
    for wrong in ("", "10", "0x1:2", "1:2:3", "000000001:1", "-1:1", "1:", "１:1"):
        with pytest.raises(UsageError):
            store.parse_address(wrong)


def test_a_range_takes_its_end_out_and_may_cross_segments(golden):
    store = JlogStore.open(golden("broken_base"), {})
    whole = [r.address for r in store.read("journal")]
    assert len(whole) == 60
    for start, end in [(0, 60), (3, 3), (5, 20), (25, 27), (26, 51), (50, 59), (59, 60)]:
        upto = whole[end] if end < 60 else None
        assert [r.address for r in store.read("journal", whole[start], upto)] == whole[start:end]
    assert [r.address for r in store.read("journal", "00000000:0000001b", "00000001:00000002")] == ["00000001:00000001"]
    assert list(store.read("journal", "00000063:00000001")) == []


@pytest.mark.parametrize("case", ["broken_base", "e_idx_missing", "e_idx_longer", "e_garbage_middle_idx_kept"])
def test_a_range_gives_the_same_with_and_without_a_good_index(golden, case):
    store = JlogStore.open(golden(case), {})
    ignore = lambda fault: None  # noqa: E731
    whole = [(r.address, r.payload) for r in store.read("journal", on_fault=ignore)]
    for at in range(0, len(whole), 3):
        assert [(r.address, r.payload) for r in store.read("journal", whole[at][0], on_fault=ignore)] == whole[at:]


def test_splits_hold_every_message_once_and_can_be_sent_elsewhere(golden):
    store = JlogStore.open(golden("broken_base"), {})
    whole = [r.address for r in store.read("journal")]
    for split_bytes, count in [(1, 3), (8_700, 2), (1 << 30, 1)]:
        splits = store.splits("journal", split_bytes=split_bytes)
        assert len(splits) == count
        assert sum(split.byte_count for split in splits) == 4268 + 4375 + 1422
        got = [a for split in splits for b in store.scan_split(pickle.loads(pickle.dumps(split)), columns=["address"])
               for a in b.to_list("address")]  # fmt: skip
        assert got == whole


def test_a_hole_between_splits_is_reported_once(make):
    storage = make.folder({f"{log:08x}": make.message(b"x") for log in (0, 1, 4, 5)})
    store = JlogStore.open(storage, {})
    faults = []
    splits = store.splits("journal", split_bytes=1)
    assert len(splits) == 4
    for split in splits:
        list(store.scan_split(split, on_fault=faults.append))
    assert [(f.code, f.file) for f in faults] == [("missing-segments", "00000002")]


def test_options_are_checked(golden):
    for wrong in ({"pre_commit": "yes"}, {"nonsense": 1}):
        with pytest.raises(UsageError):
            JlogStore.open(golden("basic"), wrong)
    store = JlogStore.open(golden("basic"), {})
    with pytest.raises(UnknownStream):
        list(store.read("other"))
    with pytest.raises(UnknownStream):
        store.splits("other")


@pytest.mark.parametrize(
    ("files", "answer"),
    [
        (["metastore", "00000000"], True),
        (["metastore", "pre_commit"], True),
        (["00000007", "cp.61"], True),
        (["00000007", "00000007.idx"], True),
        (["metastore"], False),
        (["00000007"], False),
        (["cp.61"], False),
        (["pre_commit"], False),
        ([], False),
    ],
)
def test_a_journal_is_told_by_its_names(files, answer):
    assert JlogStore.detect(MemoryStorage(dict.fromkeys(files, b""))) is answer


def test_a_journal_is_told_by_a_metastore_or_a_message_alone(make):
    assert JlogStore.detect(MemoryStorage({"metastore": make.metastore()}))
    assert JlogStore.detect(MemoryStorage({"metastore": make.metastore()[:12]}))
    assert JlogStore.detect(MemoryStorage({"00000007": make.message(b"x")}))
    assert not JlogStore.detect(MemoryStorage({"00000007": b"something else"}))


@pytest.mark.parametrize("case", ["basic", "e_meta_missing", "e_meta_empty", "e_legacy_12byte", "empty_init"])
def test_golden_journals_are_detected_among_all_families(tmp_path, case):
    assert detect(LocalStorage(unpack(case, tmp_path))) == "jlog"


def test_a_journal_of_the_other_byte_order_is_refused_with_one_line(make):
    swapped = b"".join(make.metastore()[at : at + 4][::-1] for at in range(0, 16, 4))
    with pytest.raises(UnsupportedVersion, match="big-endian"):
        JlogStore.open(make.folder({"metastore": swapped}), {})


def test_a_segment_that_may_not_be_read_is_an_error_when_reading_and_a_fault_in_verify(tmp_path):
    path = unpack("basic", tmp_path)
    (path / "00000001").unlink()
    (path / "00000001").symlink_to("/etc/hostname")
    with open_store(path) as store:
        report = store.verify()
        assert "00000001" in {f.file for f in report.faults if f.severity.value == "fault"}
        faults = []
        got = [r.address for r in store.read("journal", on_fault=faults.append)]
    assert [f.file for f in faults] == ["00000001"]
    assert len(got) == 35 + 19


def test_a_segment_that_is_cut_while_it_is_read_is_a_fault(tmp_path):
    path = tmp_path / "log"
    path.mkdir()
    frame = JlogHeader.pack(magic=0x663A7318, tv_sec=5, length=1000) + bytes(1000)
    (path / "00000000").write_bytes(frame * 3000)
    faults = []
    with open_store(path, family="jlog") as store:
        batches = store.scan("journal", columns=["marker"], max_rows=100, on_fault=faults.append)
        count = next(batches).row_count
        with open(path / "00000000", "r+b") as file:
            file.truncate(1_500_000)
        count += sum(batch.row_count for batch in batches)
    assert [f.code for f in faults] == ["segment-cut-while-read", "torn-record"]
    assert count == 1_500_000 // 1016


def test_a_segment_that_is_deleted_before_it_is_read_is_a_fault_and_reading_goes_on(tmp_path):
    path = unpack("basic", tmp_path)
    with open_store(path) as store:
        whole = [r.fields["log"] for r in store.read("journal")]
        faults = []
        records = store.scan("journal", columns=["log"], max_rows=1, on_fault=faults.append)
        logs = next(records).to_list("log")
        (path / "00000001").unlink()
        for batch in records:
            logs += batch.to_list("log")
        assert store.verify().record_count == len(logs)
    assert 1 in whole
    assert logs == [log for log in whole if log != 1]
    assert [(f.code, f.file) for f in faults] == [("segment-gone-while-read", "00000001")]


def test_a_hole_in_a_listing_that_was_made_while_segments_were_deleted_is_no_fault(make, monkeypatch):
    storage = make.folder({f"{log:08x}": make.message(b"%d" % log) for log in (3, 4)})
    torn = make.folder({f"{log:08x}": make.message(b"%d" % log) for log in (0, 3, 4)})
    listings = [torn.entries, storage.entries, storage.entries]
    monkeypatch.setattr(storage, "entries", lambda: listings.pop(0)() if len(listings) > 1 else listings[0]())
    store = JlogStore(storage, JlogOptions())
    faults = []
    assert [r.payload for r in store.read("journal", on_fault=faults.append)] == [b"3", b"4"]
    assert faults == []


@pytest.mark.parametrize("written", [1, 15, 16, 17, 1015])
def test_a_message_that_is_being_written_is_left_to_the_next_reading(tmp_path, monkeypatch, written):
    path = tmp_path / "log"
    path.mkdir()
    frame = JlogHeader.pack(magic=0x663A7318, tv_sec=5, length=1000) + bytes(1000)
    (path / "00000000").write_bytes(frame * 2 + frame[:written])

    def write_on(_seconds):
        (path / "00000000").write_bytes(frame * 3)

    monkeypatch.setattr("everlog.jlog.reading.segments.time.sleep", write_on)
    with open_store(path, family="jlog") as store:
        faults = []
        assert sum(1 for _ in store.read("journal", on_fault=faults.append)) == 2
        assert faults == []
        assert sum(1 for _ in store.read("journal", on_fault=faults.append)) == 3
        assert faults == []


def test_a_writer_is_waited_for_once_however_many_messages_are_torn(make, monkeypatch):
    waits = []
    monkeypatch.setattr("everlog.jlog.reading.segments.time.sleep", waits.append)
    torn = JlogHeader.pack(magic=0x663A7318, tv_sec=5, length=1 << 29)  # ends far behind the data
    storage = make.folder({"00000000": (make.message(b"a") + make.message(b"b") + torn) * 20 + make.message(b"end")})
    faults = []
    assert sum(1 for _ in JlogStore(storage, JlogOptions()).read("journal", on_fault=faults.append)) == 41
    assert [fault.code for fault in faults] == ["torn-record"] * 20
    assert len(waits) == 1


def test_a_missing_folder_is_unavailable(tmp_path):
    with pytest.raises(StoreUnavailable):
        open_store(tmp_path / "nowhere", family="jlog")


@pytest.mark.parametrize("log", [0x3FFFFFFF, 0x40000000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFE, 0xFFFFFFFF])
def test_segments_of_any_number_are_read(make, log):
    segment = b"".join(make.message(payload) for payload in (b"a", b"b", b"c"))
    storage = make.folder({"metastore": make.metastore(log), f"{log:08x}": segment})
    with open_store(storage) as store:
        assert [record.payload for record in store.read("journal")] == [b"a", b"b", b"c"]
        start, end = f"{log:08x}:00000002", f"{log:08x}:00000003"
        assert [record.payload for record in store.read("journal", start, end)] == [b"b"]
