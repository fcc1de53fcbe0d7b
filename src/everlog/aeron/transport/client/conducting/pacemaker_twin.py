"""The client's heartbeat thread in Python, the twin of :mod:`everlog.aeron.transport.client.conducting._pacemaker`.
This one needs the GIL, so a call in another thread that holds the GIL for long stops the heartbeat."""

from __future__ import annotations

import threading
import time
from typing import Literal

from everlog.aeron.transport.format.counters import ALLOCATED, HEARTBEAT
from everlog.aeron.transport.format.layouts import CounterMetaData, CounterValue, HeartbeatKey
from everlog.kernel.memory import Memory
from everlog.time_units import NS_PER_MS

_STATE = CounterMetaData.field("state").offset
_TYPE = CounterMetaData.field("type_id").offset
_KEY = CounterMetaData.field("key").offset + HeartbeatKey.field("client_id").offset
State = Literal["running", "stopped", "lapsed", "lost"]


class Pacemaker:
    """Writes the time into a client's heartbeat counter every ``interval_ns``, so that the driver doesn't time out a
    client whose program is busy for long.

    It stops when the counter no longer belongs to the client (:attr:`lost`), and after a pause of more than
    ``limit_ns``, for example a suspended machine (:attr:`lapsed`): by then the driver has timed the client out. Raises
    ``IndexError`` if the memories have no such counter."""

    def __init__(
        self, metadata: Memory, values: Memory, counter_id: int, client_id: int, interval_ns: int, limit_ns: int
    ) -> None:
        room = min(len(metadata) // CounterMetaData.size, len(values) // CounterValue.size)
        if not 0 <= counter_id < room:
            raise IndexError(f"counter {counter_id}")
        if interval_ns <= 0 or limit_ns <= 0:
            raise ValueError(f"interval {interval_ns}, limit {limit_ns}")
        self._metadata = metadata.slice(counter_id * CounterMetaData.size, CounterMetaData.size)
        self._value = values.slice(counter_id * CounterValue.size, CounterValue.size)
        self._client_id = client_id
        self._interval_ns = interval_ns
        self._limit_ns = limit_ns
        self._last_ns = time.monotonic_ns()
        self._state: State = "running"
        self._stopping = threading.Event()

    @property
    def running(self) -> bool:
        """Whether it still writes heartbeats."""
        return self._state == "running"

    @property
    def lapsed(self) -> bool:
        """Whether it stopped because of too long a pause."""
        return self._state == "lapsed"

    @property
    def lost(self) -> bool:
        """Whether it stopped because the counter no longer belongs to the client."""
        return self._state == "lost"

    def beat(self) -> bool:
        """Write one heartbeat. Returns whether it did."""
        if self._state != "running":
            return False
        now_ns = time.monotonic_ns()
        if now_ns - self._last_ns > self._limit_ns:
            self._state = "lapsed"
        elif not self._is_ours():
            self._state = "lost"
        else:
            self._last_ns = now_ns
            self._value.put_i64_release(0, time.time_ns() // NS_PER_MS)
        return self._state == "running"

    def run(self) -> None:
        """Write heartbeats until :meth:`stop`, or until it is lapsed or lost. The body of a thread."""
        while self.beat() and not self._stopping.wait(self._interval_ns / 1e9):
            pass

    def stop(self) -> None:
        """Make :meth:`run` return soon."""
        if self._state == "running":
            self._state = "stopped"
        self._stopping.set()

    def _is_ours(self) -> bool:
        allocated = self._metadata.get_i32_acquire(_STATE) == ALLOCATED
        return (
            allocated and self._metadata.get_i32(_TYPE) == HEARTBEAT and self._metadata.get_i64(_KEY) == self._client_id
        )
