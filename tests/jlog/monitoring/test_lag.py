"""How far subscribers are behind. The numbers are worked out by hand, or are those of the real library."""

from __future__ import annotations

import pytest

import tests
from everlog.jlog.format.checkpoints import Checkpoint, read_checkpoints
from everlog.jlog.format.names import checkpoint_name
from everlog.jlog.monitoring.lag import Lag, LagMemory, measure_lags
from everlog.jlog.reading.journal import Journal
from everlog.jlog.store import JlogStore
from everlog.testing.storage.memory import MemoryStorage
from everlog.time_units import NS_PER_S as NS

GOLDEN = tests.GOLDEN / "jlog"
NOW = 2000
"""Seconds since 1970, in the journals made here."""
NAMES = ["basic", "basic_drained", "broken_base", "lz4", "null_provider", "safety_safe", "precommit_materialized"]


@pytest.fixture(autouse=True)
def stopped_clock(monkeypatch):
    monkeypatch.setattr("time.time_ns", lambda: NOW * NS)


@pytest.fixture
def small(make):
    """Six messages: 10, 20, 30 bytes at 0, 26, 62 of segment 0 (108 bytes); 0, 100 bytes at 0, 16 of segment 1 (132);
    4 bytes in segment 2 (20). One each second from 1000 on."""
    sizes = [[10, 20, 30], [0, 100], [4]]
    time = iter(range(1000, 1006))
    return {
        f"{log:08x}": b"".join(make.message(b"x" * size, next(time)) for size in group)
        for log, group in enumerate(sizes)
    }


PLACES = [
    # checkpoint, messages, bytes, seconds
    ((0, 0), 6, 260, 1000),
    ((0, 1), 5, 234, 999),
    ((0, 2), 4, 198, 998),
    ((0, 3), 3, 152, 997),
    ((1, 0), 3, 152, 997),
    ((1, 1), 2, 136, 996),
    ((1, 2), 1, 20, 995),
    ((2, 0), 1, 20, 995),
    ((2, 1), 0, 0, 0),
    ((2, 9), 0, 0, 0),
    ((0, 9), 3, 152, 997),
]


def subscribed(make, files, places):
    checkpoints = {
        checkpoint_name(f"s{at}"): log.to_bytes(4, "little") + marker.to_bytes(4, "little")
        for at, (log, marker) in enumerate(places)
    }
    return make.folder({**files, **checkpoints})


def lags(storage):
    """(messages, bytes, seconds) by subscriber, as ``info`` gives them."""
    found = JlogStore.open(storage, {}).info()["subscribers"]
    assert all(s["lag"] == s["lag_messages"] for s in found)
    return {s["name"]: (s["lag_messages"], s["lag_bytes"], s["lag_seconds"]) for s in found}


@pytest.mark.parametrize(
    "indexes",
    [
        {},
        {"00000000.idx": (0, 26, 62, 0), "00000001.idx": (0, 16, 0), "00000002.idx": (0,)},
        {"00000000.idx": (0, 26, 62), "00000001.idx": (0, 16)},
        {"00000000.idx": (0,), "00000001.idx": (0,)},
        {"00000000.idx": (0, 26)},
        {"00000000.idx": (0, 27, 62, 0), "00000001.idx": (0, 999)},
        {"00000000.idx": (0, 20, 62, 0), "00000001.idx": (3, 16), "00000002.idx": (0, 0)},
    ],
    ids=["none", "closed", "open", "first only", "two", "shifted", "wrong"],
)
def test_lags_are_the_messages_bytes_and_seconds_worked_out_by_hand_whatever_the_indexes_say(make, small, indexes):
    storage = subscribed(make, small, [place for place, *_ in PLACES])
    storage.files |= {name: make.index(*offsets) for name, offsets in indexes.items()}
    assert lags(storage) == {f"s{at}": tuple(lag) for at, (_, *lag) in enumerate(PLACES)}


def test_what_is_behind_a_message_does_not_depend_on_who_asks(make, small):
    for at, (place, *lag) in enumerate(PLACES):
        assert lags(subscribed(make, small, [place])) == {"s0": tuple(lag)}, at


@pytest.mark.parametrize(
    ("place", "lag"),
    [((1, 7), (2, 34, 999)), ((4, 2), (1, 18, 998)), ((9, 1), (0, 0, 0)), ((5, 0), (1, 18, 998))],
)
def test_a_checkpoint_whose_segment_is_gone_waits_for_all_that_are_higher(make, place, lag):
    files = {"00000003": make.message(b"", 1001), "00000005": make.message(b"ab", 1002)}
    assert lags(subscribed(make, files, [place])) == {"s0": lag}


def test_an_empty_journal_has_no_lag(make):
    assert lags(subscribed(make, {"00000000": b""}, [(0, 0)])) == {"s0": (0, 0, 0)}
    assert lags(subscribed(make, {}, [(0, 0)])) == {"s0": (0, 0, 0)}


def test_empty_segments_are_passed_over_to_the_first_message_that_waits(make):
    files = {"00000000": make.message(b"a", 1000), "00000001": b"", "00000002": make.message(b"b", 1007)}
    assert lags(subscribed(make, files, [(0, 1), (1, 0)])) == {"s0": (1, 17, 993), "s1": (1, 17, 993)}


def test_a_torn_tail_does_not_wait_for_anybody(make):
    files = {"00000000": make.message(b"", 1000) + make.message(b"", 1001) + make.message(b"torn", 1002)[:19]}
    for index in ({}, {"00000000.idx": make.index(0, 16)}):
        storage = subscribed(make, files | index, [(0, 1), (0, 2)])
        assert lags(storage) == {"s0": (1, 35, 999), "s1": (0, 0, 0)}


def test_a_torn_tail_does_not_look_like_an_old_message_when_nothing_is_counted(make):
    files = {"00000000": make.message(b"", 1000) + make.message(b"torn", 1001)[:19], "00000000.idx": make.index(0)}
    storage = subscribed(make, files, [(0, 1)])
    checkpoints = read_checkpoints(storage, storage.names())
    assert measure_lags(Journal.read(storage), checkpoints, NOW * NS) == [Lag(None, 0, 0.0, None)]


def test_a_segment_that_begins_with_a_torn_message_has_nothing_that_waits(make):
    files = {"00000000": make.message(b"", 1000), "00000001": make.message(b"torn", 1001)[:19]}
    assert lags(subscribed(make, files, [(0, 1), (1, 0)])) == {"s0": (0, 19, 0), "s1": (0, 0, 0)}


def test_a_damaged_stretch_is_passed_over_to_the_next_message(make):
    files = {"00000000": make.message(b"a", 1000) + b"\xee" * 40 + make.message(b"bb", 1005) + make.message(b"", 1006)}
    # The stretch counts as message 2; the next one is at 57.
    assert lags(subscribed(make, files, [(0, 1), (0, 2), (0, 3)])) == {
        "s0": (2, 34, 995),
        "s1": (2, 34, 995),
        "s2": (1, 16, 994),
    }


def test_the_first_message_is_looked_for_behind_damage_at_the_start_of_the_next_segment(make):
    files = {"00000000": make.message(b"a", 1000), "00000001": b"\xee" * 40 + make.message(b"b", 1004)}
    assert lags(subscribed(make, files, [(0, 1)])) == {"s0": (1, 57, 996)}


def test_a_message_of_the_future_has_waited_for_no_time(make):
    assert lags(subscribed(make, {"00000000": make.message(b"", NOW + 50)}, [(0, 0)])) == {"s0": (1, 16, 0)}


def test_a_checkpoint_that_says_nothing_has_no_lag(make, small):
    storage = make.folder({**small, "cp.61": b"", "cp.62": b"1234567"})
    assert lags(storage) == {"a": (None, None, None), "b": (None, None, None)}


def test_compressed_messages_count_as_they_are_stored(make):
    frames = [make.stored(b"ab", 2, 1000), make.stored(b"", 0, 1001), make.stored(b"c", 1, 1002)]
    storage = subscribed(make, {"00000000": b"".join(frames)}, [(0, 0), (0, 1), (0, 2)])
    storage.files["metastore"] = make.metastore(magic=make.NULL)
    assert lags(storage) == {"s0": (3, 63, 1000), "s1": (2, 41, 999), "s2": (1, 21, 998)}


@pytest.fixture
def large(make):
    """Behind segment 0, which is small, one of 9 MiB without an index."""
    files = {"00000000": make.message(b"a", 1000), "00000001": make.message(bytes(9 << 20), 1001)}
    return subscribed(make, files, [(0, 0), (0, 1)])


def test_messages_are_not_known_where_counting_would_cost_too_much_but_bytes_and_seconds_are(large):
    size = (9 << 20) + 16
    assert lags(large) == {"s0": (None, size + 17, 1000), "s1": (None, size, 999)}


def test_all_are_counted_when_asked_for(large):
    found = JlogStore.open(large, {}).count_details("journal")["subscribers"]
    assert [(s["name"], s["lag"]) for s in found] == [("s0", 2), ("s1", 1)]


@pytest.mark.parametrize("case", NAMES)
def test_lags_in_golden_journals_follow_from_what_the_library_wrote(golden, truth, case):
    said = truth(case)
    sizes = {int(name, 16): file["size"] for name, file in said["files"].items() if len(name) == 8}
    expected = {}
    for name, cp in said["subscribers"].items():
        waiting = [m for m in said["messages"] if (m["segment"], m["marker"]) > (cp["log"], cp["marker"])]
        bytes_after = 0
        if waiting:
            first = waiting[0]
            bytes_after = sum(sizes[log] for log in sizes if log >= first["segment"]) - first["offset"]
        expected[name] = (len(waiting), bytes_after)
    assert expected
    assert {name: lag[:2] for name, lag in lags(golden(case)).items()} == expected


DAMAGED = sorted(
    folder.name
    for folder in GOLDEN.iterdir()
    # There a good index counts a message that is damaged.
    if folder.name.startswith("e_") and folder.name != "e_garbage_middle_idx_kept"
)


@pytest.mark.parametrize("case", DAMAGED)
def test_lags_in_damaged_journals_are_of_the_messages_that_reading_gives(golden, case):
    places = [(log, marker) for log in range(4) for marker in (0, 1, 2, 10, 25, 26, 27, 30, 40)]
    storage = golden(case)
    for at, (log, marker) in enumerate(places):
        storage.files[checkpoint_name(f"s{at}")] = log.to_bytes(4, "little") + marker.to_bytes(4, "little")
    batches = JlogStore.open(storage, {}).scan("journal", columns=["log", "marker"], on_fault=lambda _: None)
    read = [place for b in batches for place in zip(b.to_list("log"), b.to_list("marker"), strict=True)]
    assert read
    found = lags(storage)
    assert [found[f"s{at}"][0] for at in range(len(places))] == [
        sum(message > place for message in read) for place in places
    ]


def test_seconds_in_a_golden_journal_are_from_the_time_of_the_first_message_that_waits(golden, truth, monkeypatch):
    now = 1_700_000_100
    monkeypatch.setattr("time.time_ns", lambda: now * NS)
    messages = {(m["segment"], m["marker"]): m["ts"] for m in truth("basic")["messages"]}
    firsts = {"alpha": messages[0, 13], "beta": messages[1, 21], "~tail": messages[0, 31]}
    expected = {name: round(now - second - usec / 1e6, 3) for name, (second, usec) in firsts.items()}
    assert {name: lag[2] for name, lag in lags(golden("basic")).items()} == expected


class Counting(MemoryStorage):
    """Counts the files that are opened."""

    opened = 0

    def open(self, name):
        self.opened += 1
        return super().open(name)


@pytest.fixture
def crowded(make):
    """200 segments without indexes, of two messages; 100 subscribers at 3 places."""
    frames = make.message(b"one", 1000) + make.message(b"two", 1001)
    files = {f"{log:08x}": frames for log in range(200)}
    places = [(log, 1) for log in (10, 100, 199) for _ in range(100 // 3 + 1)][:100]
    return Counting({**subscribed(make, files, places).files})


def test_a_segment_is_not_read_for_each_subscriber(crowded):
    journal = Journal.read(crowded)
    checkpoints = read_checkpoints(crowded, crowded.names())
    crowded.opened = 0
    found = measure_lags(journal, checkpoints, NOW * NS, [2] * 200)
    assert crowded.opened == 3
    assert {lag.messages for lag in found} == {2 * 189 + 1, 2 * 99 + 1, 1}


def test_what_was_measured_is_not_looked_at_again_until_it_changes(crowded, make):
    memory = LagMemory()
    journal = Journal.read(crowded)
    checkpoints = read_checkpoints(crowded, crowded.names())
    first = measure_lags(journal, checkpoints, NOW * NS, [2] * 200, memory=memory)
    crowded.opened = 0
    assert measure_lags(journal, checkpoints, NOW * NS, [2] * 200, memory=memory) == first
    assert crowded.opened == 0
    crowded.files[f"{199:08x}"] += make.message(b"three", 1002)
    grown = measure_lags(Journal.read(crowded), checkpoints, NOW * NS, [2] * 199 + [3], memory=memory)
    assert [lag.messages for lag in grown] == [lag.messages + 1 for lag in first]
    assert [lag.byte_count for lag in grown] == [lag.byte_count + 21 for lag in first]


def test_the_memory_does_not_grow_with_checkpoints_that_move(crowded):
    memory = LagMemory()
    for log in range(50):
        measure_lags(Journal.read(crowded), [Checkpoint("s", "cp.73", 8, log, 2)], NOW * NS, memory=memory)
    assert len(memory.places) == 1


def test_nothing_is_known_of_a_subscriber_whose_segment_can_not_be_read(make, small):
    storage = subscribed(make, small, [(0, 1), (1, 0)])
    journal, checkpoints = Journal.read(storage), read_checkpoints(storage, storage.names())
    del storage.files["00000000"]
    unread, behind = measure_lags(journal, checkpoints, NOW * NS, [3, 2, 1])
    assert unread == Lag(None, None, None, None)
    assert behind == Lag(3, 152, 997.0, 1003 * NS)


def test_a_segment_larger_than_the_budget_is_not_walked(make):
    frames = make.message(b"a", 1000) + make.message(b"b", 1001)
    storage = subscribed(make, {"00000000": frames}, [(0, 1)])
    journal, checkpoints = Journal.read(storage), read_checkpoints(storage, storage.names())
    assert measure_lags(journal, checkpoints, NOW * NS, [2], budget=33) == [Lag(None, None, None, None)]
    assert measure_lags(journal, checkpoints, NOW * NS, [2], budget=34) == [Lag(1, 17, 999.0, 1001 * NS)]


def test_the_budget_is_for_all_segments_together(make):
    frames = make.message(b"a", 1000) + make.message(b"b", 1001)
    storage = subscribed(make, {"00000000": frames, "00000001": frames}, [(0, 1), (1, 1)])
    journal, checkpoints = Journal.read(storage), read_checkpoints(storage, storage.names())
    known = [lag.byte_count for lag in measure_lags(journal, checkpoints, NOW * NS, [2, 2], budget=67)]
    assert known == [17 + 34, None]
    known = [lag.byte_count for lag in measure_lags(journal, checkpoints, NOW * NS, [2, 2], budget=68)]
    assert known == [17 + 34, 17]


def test_what_was_measured_without_counting_is_counted_when_it_is_asked_for(make, small):
    storage = subscribed(make, small, [(0, 1)])
    storage.files["00000000.idx"] = make.index(0, 26)  # ends before the data: it tells bytes, not messages
    journal, checkpoints = Journal.read(storage), read_checkpoints(storage, storage.names())
    memory = LagMemory()
    assert measure_lags(journal, checkpoints, NOW * NS, memory=memory) == [Lag(None, 234, 999.0, 1001 * NS)]
    assert measure_lags(journal, checkpoints, NOW * NS, [3, 2, 1], memory=memory) == [Lag(5, 234, 999.0, 1001 * NS)]
