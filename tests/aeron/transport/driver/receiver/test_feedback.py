"""Delays before NAKs, compared with formulas worked out by hand."""

from __future__ import annotations

import math
import random

import pytest

from everlog.aeron.transport.driver.receiver.feedback_delay import OptimalMulticastDelayGenerator, StaticDelayGenerator
from everlog.aeron.transport.driver.receiver.loss_detector import Gap, LossDetector
from everlog.errors import UsageError

MS = 1_000_000


class Drawn(random.Random):
    """A random source with a fixed value."""

    def __init__(self, value: float) -> None:
        super().__init__(0)
        self.value = value

    def random(self) -> float:
        return self.value


def test_a_static_delay_is_always_the_same() -> None:
    delay = StaticDelayGenerator(1000, 100_000)
    assert [delay.delay_ns(), delay.retry_delay_ns(), delay.delay_ns()] == [1000, 100_000, 1000]
    assert StaticDelayGenerator(7).retry_delay_ns() == 7
    with pytest.raises(UsageError):
        StaticDelayGenerator(-1)


@pytest.mark.parametrize("group", [1, 10, 1000])
def test_a_multicast_delay_lies_between_nothing_and_the_longest_backoff(group: int) -> None:
    # With x uniform from b on over s: x = b gives ln(1) = 0, x = b + s gives (T / l) * ln(e^l) = T.
    longest = 60 * MS
    assert OptimalMulticastDelayGenerator(longest, group, Drawn(0.0)).delay_ns() == 0
    assert OptimalMulticastDelayGenerator(longest, group, Drawn(1.0)).delay_ns() == pytest.approx(longest, abs=2)
    growth = math.e * group - 1
    half = longest / (math.log(group) + 1) * math.log(0.5 * growth + 1)
    assert OptimalMulticastDelayGenerator(longest, group, Drawn(0.5)).retry_delay_ns() == pytest.approx(half, abs=2)


def test_most_multicast_delays_are_long() -> None:
    delay = OptimalMulticastDelayGenerator(10 * MS, 10, random.Random(1))
    drawn = [delay.delay_ns() for _ in range(1000)]
    assert min(drawn) >= 0
    assert max(drawn) <= 10 * MS
    assert sum(each > 5 * MS for each in drawn) > 700
    for backoff, group in ((0, 10), (10, 0)):
        with pytest.raises(UsageError):
            OptimalMulticastDelayGenerator(backoff, group, random.Random(1))


def test_a_gap_is_due_after_its_delay_and_again_after_each_retry_delay() -> None:
    detector = LossDetector(StaticDelayGenerator(10, 100))
    gap = Gap(3, 64, 96)
    seen = [detector.on_gap(gap, now) for now in (0, 9, 10, 109, 110, 150, 211)]
    assert seen == [(True, False), *[(False, due) for due in (False, True, False, True, False, True)]]


def test_a_gap_that_has_become_shorter_waits_anew() -> None:
    detector = LossDetector(StaticDelayGenerator(10))
    detector.on_gap(Gap(3, 64, 96), 0)
    assert detector.on_gap(Gap(3, 96, 64), 9) == (True, False)
    assert detector.on_gap(Gap(3, 96, 64), 19) == (False, True)


def test_without_a_delay_a_gap_is_due_at_once() -> None:
    assert LossDetector(StaticDelayGenerator(0)).on_gap(Gap(1, 0, 32), 5) == (True, True)
