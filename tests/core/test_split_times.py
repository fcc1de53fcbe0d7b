"""Which splits a range of times leaves out."""

from __future__ import annotations

import pytest

from everlog.core.splits import Split, SplitTimes, from_firsts, may_hold


@pytest.mark.parametrize(
    ("first", "last", "start", "end", "slack", "expected"),
    [
        (100, 200, None, None, 0, True),
        (100, 200, 150, 160, 0, True),
        (100, 200, 200, None, 0, True),  # last_ns may be a record's own time
        (100, 200, 201, None, 0, False),
        (100, 200, 201, None, 1, True),
        (100, 200, None, 100, 0, False),  # the end is left out
        (100, 200, None, 101, 0, True),
        (100, 200, None, 100, 1, True),
        (None, 200, 300, None, 0, False),
        (100, None, 300, None, 0, True),  # nothing says where it ends
        (None, None, 300, 400, 0, True),
        (200, 100, 150, 160, 0, True),  # a clock was set back: what lies between both may be there
    ],
)
def test_a_split_is_left_out_only_where_its_times_say_so(first, last, start, end, slack, expected):
    assert SplitTimes(first, last).may_hold(start, end, slack) is expected


def test_the_next_splits_first_time_bounds_a_split():
    assert from_firsts([5, 7, None, 9]) == [(5, 7), (7, None), (None, 9), (9, None)]
    assert from_firsts([]) == []


def test_splits_that_may_hold_records_of_the_range_are_kept():
    splits = [Split("s", i, i + 1, 1) for i in range(6)]
    times = [SplitTimes(10 * i, 10 * i + 9) for i in (0, 5, 5, 0, 5, 0)]
    assert [split.start for split in may_hold(splits, times, 50, 60, 0)] == [1, 2, 4]
    assert may_hold(splits, times, 70, 80, 0) == []
    assert may_hold(splits, times, 70, 80, 11) == [splits[1], splits[2], splits[4]]
