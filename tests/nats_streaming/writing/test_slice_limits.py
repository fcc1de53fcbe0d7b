"""When a slice is full, by the original's rules."""

from __future__ import annotations

from everlog.nats_streaming.format.limits import Limits
from everlog.nats_streaming.writing.options import WriteOptions
from everlog.nats_streaming.writing.slice_limits import SliceLimits

SECOND_NS = 10**9


def test_the_defaults_are_the_servers() -> None:
    options = WriteOptions()
    assert options.limits() == Limits(1_000_000, 1_024_000_000, 0)
    assert options.slice_limits() == SliceLimits(0, 64 << 20, 0)


def test_without_any_slice_limit_a_slice_takes_a_quarter_of_the_channel() -> None:
    options = WriteOptions(max_msgs=10, max_bytes="4KB", max_age="1m", slice_max_bytes=0)
    assert options.slice_limits() == SliceLimits(2, 1024, 15 * SECOND_NS)


def test_a_derived_limit_is_at_least_one_message_one_byte_and_one_second() -> None:
    assert SliceLimits.derived(Limits(3, 3, SECOND_NS)) == SliceLimits(1, 1, SECOND_NS)
    assert SliceLimits.derived(Limits()) == SliceLimits()


def test_one_slice_limit_is_enough_to_derive_none() -> None:
    assert WriteOptions(max_msgs=10, slice_max_msgs=7, slice_max_bytes=0).slice_limits() == SliceLimits(7, 0, 0)


def test_a_slice_is_full_when_it_has_reached_a_limit() -> None:
    assert not SliceLimits().is_full(10**9, 10**15, 10**18)
    assert [SliceLimits(max_msgs=3).is_full(count, 0, 0) for count in (2, 3)] == [False, True]
    assert [SliceLimits(max_bytes=100).is_full(1, size, 0) for size in (99, 100)] == [False, True]
    assert [SliceLimits(max_age_ns=5).is_full(1, 0, age) for age in (4, 5)] == [False, True]
