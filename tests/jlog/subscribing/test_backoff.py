"""How long to wait: twice as long each time, never beyond the timeout."""

from __future__ import annotations

import pytest

from everlog.errors import UsageError
from everlog.jlog.subscribing.backoff import Backoff


def test_waits_double_up_to_50_ms_and_begin_anew_when_something_came():
    backoff = Backoff()
    delays = [backoff.next_delay(0.0) for _ in range(9)]
    assert delays == pytest.approx([0.0005, 0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.05, 0.05])
    backoff.reset()
    assert backoff.next_delay(1000.0) == 0.0005


def test_a_timeout_counts_from_the_first_time_that_nothing_was_there():
    backoff = Backoff(0.01)
    assert backoff.next_delay(100.0) == 0.0005
    assert backoff.next_delay(100.005) == 0.001
    assert backoff.next_delay(100.009) == pytest.approx(0.001)  # of 2 ms only 1 is left
    assert backoff.next_delay(100.01) is None
    backoff.reset()
    assert backoff.next_delay(200.0) == 0.0005


def test_no_time_at_all_is_one_look():
    assert Backoff(0).next_delay(5.0) is None


@pytest.mark.parametrize("wrong", [-1, float("nan")])
def test_a_timeout_is_checked(wrong):
    with pytest.raises(UsageError):
        Backoff(wrong)
