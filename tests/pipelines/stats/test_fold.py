"""What tasks fold records into: expected numbers are worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from everlog.jlog.family import JLOG
from everlog.nats_streaming.family import NATS_STREAMING
from everlog.pipelines.stats.fold import (
    NO_LEAST,
    NO_MOST,
    TOTALS,
    Buckets,
    Counts,
    Gap,
    Groups,
    Records,
    StreamFold,
    decode,
    encode,
)

S = 10**9


def records(*rows):
    """Rows of address, time in seconds or None, length."""
    addresses, times, lengths = zip(*rows, strict=True)
    return Records(
        addresses=np.array(addresses, np.int64),
        lengths=np.array(lengths, np.int64),
        times=np.array([0 if time is None else round(time * S) for time in times], np.int64),
        timed=np.array([time is not None for time in times]),
    )


def fold(**more):
    return StreamFold(by_time=Buckets(60 * S), by_position=Buckets(4096), **more)


def totals(buckets):
    keys, columns = buckets.totals.rows()
    names = [dict(zip(TOTALS, row, strict=True)) for row in zip(*(c.tolist() for c in columns), strict=True)]
    return dict(zip((keys * buckets.width).tolist(), names, strict=True))


def counts(found):
    return list(zip(*(column.tolist() for column in found.rows()), strict=True))


def test_values_below_1024_are_exact_and_others_lose_less_than_a_five_hundredth():
    values = np.array([0, 1, 1023, 1024, 1025, 1026, 2047, 4099, 10**9 + 7, 2**62 + 1, 2**63 - 1], np.int64)
    found = decode(encode(values))
    assert found[:4].tolist() == [0, 1, 1023, 1024]
    assert found[4:8].tolist() == [1024, 1026, 2046, 4096], "steps of 2 from 1024 on, of 8 from 4096 on"
    assert (found <= values).all()
    assert ((values - found) / np.maximum(values, 1) < 1 / 500).all()
    assert encode(values).max() < 2**17


def test_groups_add_up_what_comes_in_any_order_and_again(monkeypatch):
    monkeypatch.setattr("everlog.pipelines.stats.fold.WAITING_ROWS", 3)
    groups = Groups(np.add, np.minimum)
    for keys, values in (([5, 1, 5], [1, 2, 3]), ([1], [0]), ([9, 1], [7, 8]), ([], [])):
        column = np.array(values, np.int64)
        groups.add(np.array(keys, np.int64), column, column)
    keys, (sums, least) = groups.rows()
    assert (keys.tolist(), sums.tolist(), least.tolist()) == ([1, 5, 9], [10, 4, 7], [0, 1, 7])


def test_counts_tell_values_of_each_bucket():
    found = Counts()
    found.add(np.array([3, 3, -1, 3], np.int64), np.array([100, 7, 100, 100], np.int64))
    found.add(np.array([3], np.int64), np.array([7], np.int64))
    assert counts(found) == [(-1, 100, 1), (3, 7, 2), (3, 100, 2)]


def test_a_minute_has_its_records_sizes_and_times_between_them_across_batches():
    one = fold()
    one.add(records((1, 0, 10), (2, 1, 30)))
    one.add(records((3, 4, 20), (4, 61, 5)))
    first, second = totals(one.by_time)[0], totals(one.by_time)[60 * S]
    assert (first["records"], first["bytes"], first["smallest"], first["largest"]) == (3, 60, 10, 30)
    assert (first["first_ns"], first["last_ns"]) == (0, 4 * S)
    assert (first["shortest_ns"], first["longest_ns"]) == (1 * S, 3 * S)
    assert (second["records"], second["shortest_ns"], second["longest_ns"]) == (1, 57 * S, 57 * S)
    assert counts(one.by_time.sizes) == [(0, 10, 1), (0, 20, 1), (0, 30, 1), (1, 5, 1)]
    assert [(bucket, count) for bucket, _, count in counts(one.by_time.intervals)] == [(0, 1), (0, 1), (1, 1)]


def test_a_first_record_alone_has_no_time_between():
    one = fold()
    one.add(records((1, 30, 10)))
    assert totals(one.by_time)[0]["shortest_ns"] == NO_LEAST
    assert totals(one.by_time)[0]["longest_ns"] == NO_MOST
    assert counts(one.by_time.intervals) == []


def test_a_clock_set_back_is_counted_and_is_no_interval():
    one = fold()
    one.add(records((1, 30, 1), (2, 20, 1), (3, 21, 1)))
    assert totals(one.by_time)[0]["backwards"] == 1
    assert totals(one.by_time)[0]["longest_ns"] == S


def test_records_without_a_time_go_by_their_addresses():
    one = fold()
    one.add(records((0, None, 7), (4095, None, 8), (4096, 5, 9), (8192, None, 1)))
    by_position = totals(one.by_position)
    assert {start: row["records"] for start, row in by_position.items()} == {0: 2, 8192: 1}
    assert by_position[0]["first_ns"] == NO_LEAST
    assert totals(one.by_time)[0]["records"] == 1


def test_a_range_of_times_leaves_records_out_but_not_those_without_one():
    one = fold(start_ns=10 * S, end_ns=20 * S)
    one.add(records((1, 9, 1), (2, 10, 2), (3, None, 4), (4, 20, 8)))
    assert totals(one.by_time)[0]["bytes"] == 2
    assert totals(one.by_position)[0]["bytes"] == 4


@pytest.mark.parametrize("cuts", [[], [500], [900], [999], [1000], [1001], [300, 1000, 1005]])
def test_a_time_between_records_counts_where_both_are_in_the_range_however_batches_are_cut(cuts):
    one = fold(start_ns=1000 * S, end_ns=1008 * S)
    rows = [(second, second, 1) for second in range(1010)]
    for start, end in zip([0, *cuts], [*cuts, 1010], strict=True):
        one.add(records(*rows[start:end]))
    (row,) = totals(one.by_time).values()
    assert (row["records"], row["shortest_ns"], row["longest_ns"]) == (8, S, S)
    assert [count for _, _, count in counts(one.by_time.intervals)] == [7]
    assert one.ends_ns == (None, None)


@pytest.mark.parametrize("cut", range(1, 6))
def test_a_clock_that_leaves_the_range_for_a_record_makes_no_interval_over_it(cut):
    one = fold(start_ns=10 * S)
    rows = [(0, 10, 1), (1, 11, 1), (2, 3, 1), (3, 14, 1), (4, None, 1), (5, 16, 1)]
    one.add(records(*rows[:cut]))
    one.add(records(*rows[cut:]))
    (row,) = totals(one.by_time).values()
    assert (row["records"], row["shortest_ns"], row["longest_ns"], row["backwards"]) == (4, S, 2 * S, 0)
    assert one.ends_ns == (10 * S, 16 * S)


def test_missing_sequences_are_found_inside_and_between_batches():
    one = fold(missing=NATS_STREAMING.missing_between)
    one.add(records((1, 0, 1), (2, 0, 1), (5, 3, 1)))
    one.add(records((6, 4, 1)))
    one.add(records((8, 5, 1)))
    assert one.gaps == [Gap(2, 5, 2, 0, 3 * S), Gap(6, 8, 1, 4 * S, 5 * S)]


@pytest.mark.parametrize(
    ("before", "after", "missing"),
    [
        ((3, 7), (3, 8), 0),
        ((3, 7), (3, 10), 2),
        ((3, 7), (4, 1), 0),
        ((3, 7), (4, 3), 2),
        ((3, 7), (9, 1), 0),  # the logs between may have been empty
    ],
)
def test_markers_follow_each_other_in_a_log_and_begin_at_1(before, after, missing):
    assert JLOG.missing_between(before[0] << 32 | before[1], after[0] << 32 | after[1]) == missing


def test_gaps_beyond_the_limit_are_counted(monkeypatch):
    monkeypatch.setattr("everlog.pipelines.stats.fold.MAX_GAPS", 2)
    one = fold(missing=NATS_STREAMING.missing_between)
    one.add(records(*((number, 0, 1) for number in range(0, 20, 2))))
    assert (len(one.gaps), one.gap_count) == (2, 9)


def test_hostile_times_and_positions_fall_into_the_last_bucket():
    one = StreamFold(by_time=Buckets(1), by_position=Buckets(1))
    one.add(records((2**63 - 1, None, 1), (0, -(2**62) / S, 1), (1, 2**62 / S, 1)))
    assert sum(row["records"] for row in totals(one.by_time).values()) == 2
    assert sum(row["records"] for row in totals(one.by_position).values()) == 1
