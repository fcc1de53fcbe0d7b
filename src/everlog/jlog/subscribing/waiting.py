"""How long to wait before looking again for more: a machine without a clock.

| told | answers |
| --- | --- |
| ``found()`` | the next wait is the shortest again |
| ``nothing(now_s)`` | seconds to wait, twice as long each time; ``None`` when the timeout is over |
"""

from __future__ import annotations

from everlog.errors import UsageError

SHORTEST_S = 0.0005
LONGEST_S = 0.05


class Waiting:
    """``timeout_s``: how long nothing may come before waiting ends; ``None``: for ever. Raises :class:`UsageError`."""

    def __init__(self, timeout_s: float | None = None) -> None:
        if timeout_s is not None and not timeout_s >= 0:
            raise UsageError("timeout", found=repr(timeout_s), expected="seconds, at least 0, or None")
        self.timeout_s = timeout_s
        self._delay_s = SHORTEST_S
        self._since_s: float | None = None

    def found(self) -> None:
        """Something was there."""
        self._delay_s = SHORTEST_S
        self._since_s = None

    def nothing(self, now_s: float) -> float | None:
        """Nothing was there at ``now_s``, by any clock that does not go back."""
        if self._since_s is None:
            self._since_s = now_s
        delay_s = self._delay_s
        self._delay_s = min(2 * delay_s, LONGEST_S)
        if self.timeout_s is None:
            return delay_s
        left_s = self._since_s + self.timeout_s - now_s
        return min(delay_s, left_s) if left_s > 0 else None
