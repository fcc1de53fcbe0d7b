"""How a client waits: it yields a few times, then sleeps longer and longer."""

from __future__ import annotations

SPINS = 20
FIRST_SLEEP_S = 50e-6
LAST_SLEEP_S = 1e-3


class Idle:
    """Seconds to sleep between polls."""

    def __init__(self) -> None:
        self._spins = 0
        self._sleep_s = FIRST_SLEEP_S

    def seconds(self, work_count: int) -> float:
        """How long to sleep after a poll that did ``work_count`` things."""
        if work_count:
            self._spins, self._sleep_s = 0, FIRST_SLEEP_S
            return 0.0
        self._spins += 1
        if self._spins <= SPINS:
            return 0.0
        self._sleep_s = min(self._sleep_s * 2, LAST_SLEEP_S)
        return self._sleep_s
