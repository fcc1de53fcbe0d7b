"""Drivers that pause, or die and are started again, in a simulated system."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

from everlog.testing.archive.script import Script
from everlog.testing.network.system import SimulatedDriver
from everlog.time_units import NS_PER_MS

SHORT_PAUSE_NS, LONG_PAUSE_NS = 300 * NS_PER_MS, 1800 * NS_PER_MS
"""A short pause is shorter than every timeout. During a long one, clients may give up their driver."""
CLIENT = {"driver_timeout_ms": 1000, "keep_alive_interval_ns": 100 * NS_PER_MS}
"""How clients in a simulated system watch their driver."""
NOTICE_NS = (1000 + 100 + 200) * NS_PER_MS
"""Within this time clients notice that their driver has died."""
LONGEST_ABSENCE_NS = 1000 * NS_PER_MS


class DriverFaults:
    """Chooses when a driver pauses, dies and comes back."""

    def __init__(self, drivers: Sequence[SimulatedDriver], generator: random.Random, script: Script) -> None:
        self.counts: Counter[str] = Counter()
        self.last_ns = 0
        """When the last fault has ended, or will."""
        self.died_ns: dict[SimulatedDriver, int] = {}
        """When each driver died last."""
        self._drivers = drivers
        self._random = generator
        self._script = script
        self._dead: dict[int, int] = {}

    def step(self, now_ns: int) -> bool:
        """Begin or end a fault, or do nothing. Returns whether one begins."""
        for index, at_ns in list(self._dead.items()):
            if now_ns >= at_ns:
                self._start(index)
        roll = self._random.random()
        if roll >= 0.0018 or now_ns < self.last_ns:
            return False
        index = self._random.randrange(len(self._drivers))
        if roll < 0.0007:
            self._kill(index, now_ns)
        else:
            self._pause(index, now_ns, SHORT_PAUSE_NS if roll < 0.0013 else LONG_PAUSE_NS)
        return True

    def _kill(self, index: int, now_ns: int) -> None:
        self._drivers[index].kill()
        self.died_ns[self._drivers[index]] = now_ns
        self._dead[index] = self.last_ns = now_ns + self._random.randrange(LONGEST_ABSENCE_NS)
        self.counts["driver deaths"] += 1
        self._script.note(f"driver {index} dies")

    def _start(self, index: int) -> None:
        del self._dead[index]
        self._drivers[index].start()
        self._script.note(f"driver {index} is started again")

    def _pause(self, index: int, now_ns: int, longest_ns: int) -> None:
        duration_ns = self._random.randrange(longest_ns // 2, longest_ns)
        self._drivers[index].pause(duration_ns)
        self.last_ns = now_ns + duration_ns
        self.counts["driver pauses"] += 1
        self._script.note(f"driver {index} pauses for {duration_ns // NS_PER_MS} ms")

    def end(self, now_ns: int) -> None:
        """End all faults."""
        for index in list(self._dead):
            self._start(index)
        for driver in self._drivers:
            driver.resume()
        self.last_ns = min(self.last_ns, now_ns)
