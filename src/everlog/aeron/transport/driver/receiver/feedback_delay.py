"""Delays before a receiver sends a NAK. Source: FeedbackDelayGenerator, StaticDelayGenerator,
OptimalMulticastDelayGenerator."""

from __future__ import annotations

import math
import random
from typing import Protocol

from everlog.errors import UsageError


class FeedbackDelayGenerator(Protocol):
    """Generates delays in nanoseconds."""

    def delay_ns(self) -> int:
        """The delay before the first NAK for a gap."""

    def retry_delay_ns(self) -> int:
        """The delay before the next NAK for the same gap."""


class StaticDelayGenerator:
    """Constant delays, for unicast, where no other receiver requests the same gap."""

    def __init__(self, delay_ns: int, retry_delay_ns: int | None = None) -> None:
        for given in (delay_ns, retry_delay_ns):
            if given is not None and given < 0:
                raise UsageError("NAK delay", found=f"{given} ns", expected="0 ns or more")
        self._delay_ns = delay_ns
        self._retry_delay_ns = delay_ns if retry_delay_ns is None else retry_delay_ns

    def delay_ns(self) -> int:
        """The delay before the first NAK for a gap."""
        return self._delay_ns

    def retry_delay_ns(self) -> int:
        """The delay before the next NAK for the same gap."""
        return self._retry_delay_ns


class OptimalMulticastDelayGenerator:
    """Random delays between 0 and ``max_backoff_ns``, mostly long. So if about ``group_size`` receivers lose the same
    datagram, few of them send a NAK before they get the answer to the first one.

    Source: "Optimal Multicast Feedback" (Nonnenmacher, Biersack; INFOCOM 1998), as RFC 5740 (NORM) has it in its
    section on NACK suppression: ``T / l * ln(x * (e^l - 1) * T / l)`` with ``l = ln(group size) + 1`` and ``x``
    uniform from ``l / (T * (e^l - 1))`` on, over a span of ``l / T``.
    """

    def __init__(self, max_backoff_ns: float, group_size: float, random_source: random.Random) -> None:
        if max_backoff_ns <= 0 or group_size < 1:
            found = f"a backoff of {max_backoff_ns} ns, a group of {group_size}"
            raise UsageError("multicast NAK delay", found=found, expected="a backoff above 0 and a group of 1 or more")
        rate = math.log(group_size) + 1
        growth = math.exp(rate) - 1
        self._span = rate / max_backoff_ns
        self._base = rate / (max_backoff_ns * growth)
        self._scale = max_backoff_ns / rate
        self._factor = growth * max_backoff_ns / rate
        self._random = random_source

    def delay_ns(self) -> int:
        """A new random delay."""
        drawn = self._random.random() * self._span + self._base
        return max(0, int(self._scale * math.log(drawn * self._factor)))

    def retry_delay_ns(self) -> int:
        """A new random delay."""
        return self.delay_ns()
