"""Delays between polls, doubling while nothing arrives. Pure state, without a clock of its own."""

from __future__ import annotations

from everlog.errors import UsageError, WrongType

SHORTEST_S = 0.0005
LONGEST_S = 0.05


class Backoff:
    """``timeout_s``: how long nothing may arrive before polling ends; ``None`` means never. Raises
    :class:`UsageError`."""

    def __init__(self, timeout_s: float | None = None) -> None:
        if timeout_s is not None and not isinstance(timeout_s, int | float):
            raise WrongType("timeout_s", found=repr(timeout_s), expected="a number of seconds or None")
        if timeout_s is not None and not timeout_s >= 0:
            raise UsageError("timeout_s", found=repr(timeout_s), expected="at least 0, or None")
        self.timeout_s = timeout_s
        self._delay_s = SHORTEST_S
        self._since_s: float | None = None

    def reset(self) -> None:
        """Something arrived: the next delay is the shortest again."""
        self._delay_s = SHORTEST_S
        self._since_s = None

    def next_delay(self, now_s: float) -> float | None:
        """Nothing arrived by ``now_s``, on any monotonic clock. Returns the seconds to wait, or ``None`` after the
        timeout."""
        if self._since_s is None:
            self._since_s = now_s
        delay_s = self._delay_s
        self._delay_s = min(2 * delay_s, LONGEST_S)
        if self.timeout_s is None:
            return delay_s
        left_s = self._since_s + self.timeout_s - now_s
        return min(delay_s, left_s) if left_s > 0 else None
