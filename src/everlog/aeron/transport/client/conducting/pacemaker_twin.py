"""A client's heartbeat from a thread of its own, in Python: what
:mod:`everlog.aeron.transport.client.conducting._pacemaker` does, but that this thread needs the GIL, so a long call of
another one that holds it stops the heart."""

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
    """Writes the time into a client's heartbeat counter every ``interval_ns``, without the program's help: a program
    that computes for a minute in one call keeps what it has in the driver.

    It ends by itself when the counter is no longer the client's (:attr:`lost`), and when it could not beat for longer
    than ``limit_ns``, such as in a machine that slept (:attr:`lapsed`): the driver has given the client up by then.
    Raises ``IndexError`` for a counter that the memories do not have."""

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
        """Whether it would still beat."""
        return self._state == "running"

    @property
    def lapsed(self) -> bool:
        """Whether it ended because it could not beat in time."""
        return self._state == "lapsed"

    @property
    def lost(self) -> bool:
        """Whether it ended because the counter is not the client's any more."""
        return self._state == "lost"

    def beat(self) -> bool:
        """Beat once; whether it did."""
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
        """Beat until :meth:`stop`, or until it ends by itself: the body of a thread."""
        while self.beat() and not self._stopping.wait(self._interval_ns / 1e9):
            pass

    def stop(self) -> None:
        """Let :meth:`run` return, within a moment."""
        if self._state == "running":
            self._state = "stopped"
        self._stopping.set()

    def _is_ours(self) -> bool:
        allocated = self._metadata.get_i32_acquire(_STATE) == ALLOCATED
        return (
            allocated and self._metadata.get_i32(_TYPE) == HEARTBEAT and self._metadata.get_i64(_KEY) == self._client_id
        )
