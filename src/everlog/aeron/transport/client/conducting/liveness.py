"""Heartbeats between driver and client. Source: Aeron's ClientConductor, checkLiveness.

The driver writes the time into its ring buffer. The client writes it into a counter that the driver allocates on the
client's first command. From then on a :class:`~everlog.aeron.transport.client.conducting.pacemaker.Pacemaker` may write
the client's heartbeat."""

from __future__ import annotations

from everlog.aeron.transport.client.conducting.driver_proxy import DriverProxy
from everlog.aeron.transport.client.conducting.pacemaker import Pacemaker
from everlog.aeron.transport.client.counters_reader import CountersReader
from everlog.aeron.transport.client.errors import ClientTimeout, DriverTimeout
from everlog.aeron.transport.client.options import ClientOptions
from everlog.aeron.transport.format.counters import HEARTBEAT, VALUE_LENGTH
from everlog.aeron.transport.format.layouts import CounterValue, HeartbeatKey
from everlog.runtime.quiet import BUSY
from everlog.time_units import NS_PER_MS
from everlog.version import __version__

SHUT_DOWN = -1
BEATS_IN_TIMEOUT = 4
"""Least number of heartbeats within the driver's client liveness timeout. A busy machine may not run a thread for
half a second."""
_VALUE = CounterValue.field("value").offset


class Liveness:
    """Writes the client's heartbeat and checks the driver's. ``timeout_ns`` is the driver's client liveness timeout.
    Callers pass the time."""

    def __init__(
        self, proxy: DriverProxy, counters: CountersReader, options: ClientOptions, timeout_ns: int, folder: str
    ) -> None:
        self.counter_id: int | None = None
        """Id of the client's heartbeat counter; ``None`` until the driver has allocated it."""
        self.interval_ns = min(options.keep_alive_interval_ns, timeout_ns // BEATS_IN_TIMEOUT)
        """How often the heartbeat is written."""
        self.pacemaker: Pacemaker | None = None
        """The pacemaker that writes the heartbeat, set by its starter."""
        self._proxy = proxy
        self._counters = counters
        self._options = options
        self._timeout_ns = timeout_ns
        self._where = f"media driver {folder}"
        self._key = HeartbeatKey.pack(client_id=proxy.client_id)
        self._last_service_ns: int | None = None
        self._last_beat_ns = 0

    def check(self, now_ns: int, now_ms: int) -> int:
        """Write and check heartbeats when due; returns 1 if they were. Raises :class:`DriverTimeout` if the driver has
        stopped, :class:`ClientTimeout` if it has timed this client out or must have."""
        self._check_service(now_ns)
        if now_ns - self._last_beat_ns < self.interval_ns and self._last_beat_ns:
            return 0
        self.check_driver(now_ms)
        if self.counter_id is None:
            if self._proxy.has_sent:
                self._find_counter()
        elif not self._counters.matches(self.counter_id, HEARTBEAT, self._key):
            raise self.client_timeout("the client's heartbeat counter is gone")
        if self.counter_id is not None:
            self._counters.values.put_i64_release(self.counter_id * VALUE_LENGTH + _VALUE, now_ms)
            self._last_beat_ns = now_ns
        return 1

    def due_ns(self) -> int:
        """When :meth:`check` has the next heartbeat to write or to check; ``BUSY`` until the first one."""
        if self.counter_id is None or not self._last_beat_ns:
            return BUSY
        return self._last_beat_ns + self.interval_ns

    def check_driver(self, now_ms: int) -> None:
        """Raises :class:`DriverTimeout` if the driver has stopped."""
        last_ms = self._proxy.heartbeat_ms
        if last_ms == SHUT_DOWN:
            raise DriverTimeout(self._where, found="the driver was shut down", hint="connect again when one runs")
        if now_ms > last_ms + self._options.driver_timeout_ms:
            raise DriverTimeout(
                self._where,
                found=f"last heartbeat {now_ms - last_ms} ms ago",
                expected=f"one every {self._options.driver_timeout_ms} ms",
                hint="the driver was killed or gets no CPU time; connect again when one runs",
            )

    def _check_service(self, now_ns: int) -> None:
        """Raises :class:`ClientTimeout` if the heartbeat paused so long that the driver must have timed the client out.
        A pacemaker, if started, decides that."""
        last_ns, self._last_service_ns = self._last_service_ns, now_ns
        if self.pacemaker is not None:
            if self.pacemaker.lapsed or self.pacemaker.lost:
                lapsed, lost = "the client's process did not run", "the client's heartbeat counter is gone"
                raise self.client_timeout(lapsed if self.pacemaker.lapsed else lost)
        elif self.counter_id is not None and last_ns is not None and now_ns - last_ns > self._timeout_ns:
            raise self.client_timeout(f"no client heartbeat for {(now_ns - last_ns) // NS_PER_MS} ms")

    def _find_counter(self) -> None:
        """Find the heartbeat counter and add the client's name to its label."""
        self.counter_id = self._counters.find_by_key(HEARTBEAT, self._key)
        if self.counter_id is not None:
            name = f" name={self._options.client_name} version={__version__} commit=everlog"
            self._counters.append_to_label(self.counter_id, name)

    def client_timeout(self, found: str) -> ClientTimeout:
        """The error of a client that the driver has timed out."""
        return ClientTimeout(
            self._where,
            found=found,
            expected=f"a heartbeat every {self._timeout_ns // NS_PER_MS} ms",
            hint="the driver has closed the client's publications and subscriptions; connect again",
        )
