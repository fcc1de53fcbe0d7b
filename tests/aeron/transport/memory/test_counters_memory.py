"""Counters: bytes by hand after Agrona's drawings and beside a Java driver's, rest before reuse, limits, and numbers
that no counter has."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from everlog.aeron.transport.format.counters import parse_counters
from everlog.aeron.transport.memory.cnc_memory import CncMemory
from everlog.aeron.transport.memory.counters_memory import AtomicCounter, Counters
from everlog.errors import CorruptData, LimitExceeded, UsageError
from everlog.kernel.memory import Memory

NOT_FREE = (1 << 63) - 1


def counters(count: int = 4, reuse_timeout_ms: int = 1000) -> Counters:
    return Counters(Memory.allocate(512 * count), Memory.allocate(128 * count), reuse_timeout_ms)


def test_a_counter_is_a_record_of_metadata_and_one_of_values() -> None:
    all_of = counters()
    all_of.allocate(7, b"first", "one", now_ms=0)
    counter = all_of.allocate(
        1001, b"\1\2", "label", registration_id=11, owner_id=12, reference_id=13, value=14, now_ms=0
    )
    assert (counter.id, counter.offset) == (1, 128)
    head = struct.pack("<iiq2s", 1, 1001, NOT_FREE, b"\1\2")
    assert all_of.metadata.read(512, 18) == head
    assert all_of.metadata.read(512 + 18, 110) == bytes(110)
    assert all_of.metadata.read(512 + 128, 9) == struct.pack("<i5s", 5, b"label")
    assert all_of.values.read(128, 32) == struct.pack("<qqqq", 14, 11, 12, 13)
    found = list(parse_counters(all_of.metadata.view(), all_of.values.view()))
    assert [(c.label, c.value, c.registration_id, c.owner_id, c.reference_id) for c in found] == [
        ("one", 0, 0, 0, 0),
        ("label", 14, 11, 12, 13),
    ]


def test_a_freed_counter_rests_before_it_is_used_again_and_then_is_new() -> None:
    all_of = counters()
    counter = all_of.allocate(7, b"key", "label", registration_id=1, owner_id=2, reference_id=3, value=4, now_ms=10)
    counter.close(5_000)
    assert counter.is_closed
    assert all_of.state(0) == -1
    assert all_of.metadata.read(8, 8) == struct.pack("<q", 6_000)
    assert all_of.key(0) == bytes(112)
    assert all_of.allocate(7, b"", "x", now_ms=5_999).id == 1
    again = all_of.allocate(8, b"", "y", now_ms=6_000)
    assert again.id == 0
    assert all_of.values.read(0, 32) == bytes(32)
    assert all_of.label(0) == "y"
    assert all_of.type_id(0) == 8
    counter.close(7_000)
    assert all_of.state(0) == 1, "closed twice frees once"


def test_counters_are_used_again_in_the_order_in_which_they_were_freed() -> None:
    all_of = counters(3)
    made = [all_of.allocate(1, b"", "", now_ms=0) for _ in range(3)]
    assert all_of.available_count == 0
    with pytest.raises(LimitExceeded, match=r"aeron\.counters\.buffer\.length"):
        all_of.allocate(1, b"", "", now_ms=0)
    made[2].close(1)
    made[0].close(2)
    all_of.now_ms = 1_001
    assert all_of.available_count == 1
    assert [all_of.allocate(1, b"", "", now_ms=2_000).id for _ in range(2)] == [2, 0]
    assert all_of.used_count == 3


def test_a_clock_that_went_back_keeps_no_counters_that_are_freed_from_then_on() -> None:
    all_of = counters(3)
    made = [all_of.allocate(1, b"", "", now_ms=3_600_000) for _ in range(3)]
    made[0].close(3_600_000)
    made[1].close(5_000)
    made[2].close(5_500)
    with pytest.raises(LimitExceeded):
        all_of.allocate(1, b"", "", now_ms=5_999)
    assert all_of.allocate(1, b"", "", now_ms=6_000).id == 1
    with pytest.raises(LimitExceeded):
        all_of.allocate(1, b"", "", now_ms=6_000)
    assert all_of.allocate(1, b"", "", now_ms=6_500).id == 2
    assert all_of.allocate(1, b"", "", now_ms=3_601_000).id == 0


def test_keys_and_labels_that_are_too_long_are_cut_off() -> None:
    all_of = counters()
    counter = all_of.allocate(1, b"k" * 113, "l" * 381, now_ms=0)
    assert all_of.key(counter.id) == b"k" * 112
    assert all_of.label(counter.id) == "l" * 380
    assert all_of.state(1) == 0
    all_of.append_label(counter.id, "more")
    assert all_of.label(counter.id) == "l" * 380
    all_of.set_label(counter.id, "ü")
    all_of.append_label(counter.id, " 127.0.0.1")
    assert all_of.label(counter.id) == "? 127.0.0.1"
    all_of.set_key(counter.id, b"new")
    assert all_of.key(counter.id)[:4] == b"newk"


def test_ids_can_be_set_later() -> None:
    all_of = counters()
    all_of.allocate(1, b"", "", now_ms=0)
    all_of.set_registration_id(0, -5)
    all_of.set_owner_id(0, 6)
    all_of.set_reference_id(0, 7)
    assert (all_of.registration_id(0), all_of.owner_id(0), all_of.reference_id(0)) == (-5, 6, 7)
    assert all_of.values.read(8, 24) == struct.pack("<qqq", -5, 6, 7)


def test_a_value_is_read_written_added_to_and_raised() -> None:
    counter = counters().allocate(1, b"", "", now_ms=0)
    counter.set(5)
    assert (counter.get(), counter.get_acquire()) == (5, 5)
    counter.set_release(-6)
    assert (counter.increment(), counter.increment_release(), counter.get()) == (-6, -5, -4)
    assert (counter.add(10), counter.add_release(-3), counter.get()) == (-4, 6, 3)
    assert not counter.propose_max(3)
    assert counter.propose_max(4)
    assert not counter.propose_max_release(2)
    assert counter.propose_max_release(9)
    assert counter.get() == 9
    counter.set((1 << 63) - 1)
    counter.increment_release()
    assert counter.get() == -(1 << 63), "as in Java, and no error"


def test_numbers_that_no_counter_has_are_refused() -> None:
    all_of = counters()
    for counter_id in (-1, 4, 1 << 40):
        for call in (all_of.free, all_of.label, all_of.value, all_of.state, all_of.counter, all_of.key):
            with pytest.raises(UsageError, match="0 to 3"):
                call(counter_id)
    with pytest.raises(UsageError, match="not in use"):
        all_of.free(0)
    assert isinstance(all_of.counter(3), AtomicCounter)


def test_a_label_length_from_outside_is_held_against_the_room() -> None:
    all_of = counters()
    all_of.allocate(1, b"", "abc", now_ms=0)
    for length in (-1, 381, (1 << 31) - 1, -(1 << 31)):
        all_of.metadata.put_i32(128, length)
        assert len(all_of.label(0)) in (0, 380)
        all_of.append_label(0, "x")


def test_metadata_and_values_must_have_room_for_as_many() -> None:
    with pytest.raises(CorruptData, match="metadata"):
        Counters(Memory.allocate(512), Memory.allocate(256))


def test_what_others_write_over_the_metadata_does_not_change_which_counters_are_in_use() -> None:
    all_of = counters(2)
    first, second = (all_of.allocate(1, b"", "", now_ms=0) for _ in range(2))
    all_of.metadata.put_i32(0, 0)
    all_of.metadata.put_i32(512, -1)
    first.close(10)
    second.close(10)
    all_of.metadata.put_i64(8, NOT_FREE)
    all_of.metadata.put_i64(512 + 8, 0)
    with pytest.raises(LimitExceeded):
        all_of.allocate(1, b"", "", now_ms=1_009)
    assert [all_of.allocate(1, b"", "", now_ms=1_010).id for _ in range(2)] == [0, 1]


def test_a_java_drivers_counters_come_out_as_they_are(golden_archive: Callable[[str], Path]) -> None:
    folder = next(golden_archive("transport/aeron-dir").rglob("cnc.dat")).parent
    cnc = CncMemory.map(folder, writable=False)
    theirs = list(parse_counters(cnc.counters_metadata.view(), cnc.counters_values.view()))
    assert len(theirs) > 80
    all_of = counters(len(theirs))
    for counter in theirs:
        ids = {"owner_id": counter.owner_id, "reference_id": counter.reference_id}
        made = all_of.allocate(
            counter.type_id,
            counter.key,
            counter.label,
            registration_id=counter.registration_id,
            value=counter.value,
            now_ms=0,
            **ids,
        )
        assert made.id == counter.counter_id
        if counter.state == -1:
            made.close(counter.free_for_reuse_deadline - 1000)
    for counter in theirs:
        at, end = counter.counter_id * 512, counter.counter_id * 512 + 132 + len(counter.label)
        # Behind its label a counter that was used before has what was there then.
        assert all_of.metadata.read(at, end - at) == cnc.counters_metadata.read(at, end - at)
    assert all_of.values.read(0, len(all_of.values)) == cnc.counters_values.read(0, len(all_of.values))
