"""Cut and changed files: no crash, no hang, nothing that was not written, everything whole that can be told to be."""

from __future__ import annotations

import random
import time

import pytest

from everlog.errors import EverlogError
from everlog.jlog.monitoring.health import WARNINGS
from everlog.jlog.store import JlogStore
from everlog.testing.series import Series
from everlog.testing.storage.memory import MemoryStorage

SMALL = ["basic", "broken_base", "e_garbage_middle_current", "e_legacy_12byte", "e_trunc_then_append_noidx", "lz4"]
BUFFERED = "precommit_unflushed"


def messages(storage, **options):
    """Address and payload of each message, and the faults."""
    faults = []
    store = JlogStore.open(storage, options)
    return [(r.address, r.payload) for r in store.read("journal", on_fault=faults.append)], faults


def with_file(storage, name, data):
    return MemoryStorage(storage.files | {name: data}, root=storage.root)


def exercise(storage):
    """Everything that looks at bytes; only errors of the tree may come out."""
    try:
        store = JlogStore.open(storage, {"pre_commit": True})
    except EverlogError:
        return []
    rows = [(r.address, r.payload) for r in store.read("journal", on_fault=lambda _: None)]
    store.streams()
    total = sum(len(data) for data in storage.files.values())
    for subscriber in store.info()["subscribers"]:
        assert 0 <= (subscriber["lag_messages"] or 0) <= len(rows) + total // 16
        assert 0 <= (subscriber["lag_bytes"] or 0) <= total
        assert (subscriber["lag_seconds"] or 0) >= 0
    assert all(fault.code in WARNINGS for fault in store.warnings())
    report = store.verify()
    assert report.record_count <= len(rows)
    assert JlogStore.detect(storage) in (True, False)
    return rows


@pytest.mark.parametrize("case", SMALL)
def test_a_segment_cut_at_any_byte_gives_the_messages_before_the_cut(golden, case, series: Series):
    storage = golden(case)
    whole, _ = messages(storage)
    name = max(n for n in storage.files if len(n) == 8 and storage.files[n])
    data = storage.files[name]
    ends = {}
    for record in JlogStore.open(storage, {}).read("journal", on_fault=lambda _: None):
        if f"{record.fields['log']:08x}" == name:
            ends[record.address] = record.fields["offset"]
    starts = sorted(ends.values())
    before = [row for row in whole if not row[0].startswith(name)]
    step = 1 if case.startswith("e_trunc") else 7
    for cut in series.points(range(0, len(data), step)):
        rows, _ = messages(with_file(storage, name, data[:cut]))
        count = sum(1 for start, following in zip(starts, [*starts[1:], len(data)], strict=True) if following <= cut)
        assert set(rows) <= set(whole), cut
        if case.startswith(("e_trunc", "e_garbage")):
            assert rows[: len(before)] == before
        else:
            assert rows == before + [row for row in whole if row[0].startswith(name)][:count], cut


@pytest.mark.parametrize("case", SMALL)
def test_one_changed_bit_of_a_segment_costs_at_most_the_message_it_is_in(golden, case, series: Series):
    dice = random.Random(case)
    storage = golden(case)
    whole, _ = messages(storage)
    is_damaged = case.startswith("e_") and "legacy" not in case
    for name in [n for n in storage.files if len(n) == 8 and storage.files[n]]:
        data = storage.files[name]
        spots = [(dice.randrange(len(data)), dice.randrange(8)) for _ in range(120)]
        for at, bit in series.points(spots):
            changed = bytearray(data)
            changed[at] ^= 1 << bit
            rows, _ = messages(with_file(storage, name, bytes(changed)))
            known = dict(whole)
            if is_damaged:  # a message lost beside the damage leaves one number for both
                assert len({payload for _, payload in rows} - set(known.values())) <= 1
                assert len(set(known.values()) - {payload for _, payload in rows}) <= 2
                continue
            wrong = [row for row in rows if known.get(row[0]) != row[1]]
            lost = known.keys() - {row[0] for row in rows}
            assert len(wrong) <= 1, (name, at, bit)
            assert len(lost) + len(wrong) <= 1, (name, at, bit, lost)


@pytest.mark.parametrize("case", ["basic", "lz4", "e_legacy_12byte", BUFFERED])
def test_no_cut_of_any_file_is_more_than_an_error(golden, case, series: Series):
    storage = golden(case)
    for name, data in storage.files.items():
        for cut in series.points(range(0, len(data), max(1, len(data) // 24))):
            exercise(with_file(storage, name, data[:cut]))


@pytest.mark.parametrize("case", ["basic", "lz4", "e_legacy_12byte", BUFFERED])
def test_no_changed_bit_of_any_file_is_more_than_an_error(golden, case, series: Series):
    dice = random.Random(case)
    storage = golden(case)
    for name, data in storage.files.items():
        for _ in range(series.rounds(24) if data else 0):
            changed = bytearray(data)
            changed[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
            exercise(with_file(storage, name, bytes(changed)))


def test_a_changed_index_never_changes_what_is_read(golden):
    dice = random.Random(3)
    storage = golden("broken_base")
    whole, _ = messages(storage)
    for name in [n for n in storage.files if n.endswith(".idx")]:
        data = storage.files[name]
        for _ in range(60):
            changed = bytearray(data)
            changed[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
            assert messages(with_file(storage, name, bytes(changed)))[0] == whole
            assert messages(with_file(storage, name, bytes(data[: dice.randrange(len(data))])))[0] == whole


def seconds(storage):
    start = time.process_time()
    exercise(storage)
    return time.process_time() - start


@pytest.mark.parametrize(
    "unit",
    [
        b"\x18\x73\x3a\x66",
        b"\x18\x73\x3a\x66" + bytes(12),
        b"\x18\x73\x3a\x66\x01\0\0\0\0\0\0\0\x20\0\0\0",
        b"\x18\x73\x3a\x66\x01\0\0\0\0\0\0\0\x11\0\0\0",
        b"\x18\x73\x3a\x66\x01\0\0\0\0\0\0\0\0\0\x10\0",
        b"\0",
        b"\xaa",
    ],
    ids=["magics", "empty messages", "overlapping", "overlapping by one", "reaching far", "zeros", "garbage"],
)
def test_hostile_data_is_read_in_linear_time(make, unit):
    small, large = (make.folder({"00000000": (unit * size)[:size]}) for size in (1 << 15, 1 << 18))
    assert seconds(large) < 30 * max(seconds(small), 0.05)


def test_a_long_chain_inside_a_message_does_not_cost_a_search_for_each_link(make):
    inner = b"".join(make.message(b"") for _ in range(20_000))
    for tail in (b"", b"!", make.message(b"")[:-1]):
        outer = make.message(inner + tail, 1_600_000_000)
        assert seconds(make.folder({"00000000": outer + make.message(b"next")})) < 5
