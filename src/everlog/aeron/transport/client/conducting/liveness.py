"""Whether driver and client live, as each tells the other. Source: Aeron's ClientConductor, checkLiveness.

The driver writes the time into its ring buffer, the client into a counter that the driver has made for it: with the
client's first command. From then on a :class:`~everlog.aeron.transport.client.conducting.pacemaker.Pacemaker` may do
the client's part."""

from __future__ import annotations

from everlog.aeron.transport.client.conducting.driver_proxy import DriverProxy
from everlog.aeron.transport.client.conducting.pacemaker import Pacemaker
from everlog.aeron.transport.client.counters_reader import CountersReader
from everlog.aeron.transport.client.errors import ClientTimeout, DriverTimeout
from everlog.aeron.transport.client.options import ClientOptions
from everlog.aeron.transport.format.counters import HEARTBEAT, VALUE_LENGTH
from everlog.aeron.transport.format.layouts import CounterValue, HeartbeatKey
from everlog.time_units import NS_PER_MS
from everlog.version import __version__

SHUT_DOWN = -1
_VALUE = CounterValue.field("value").offset


class Liveness:
    """A machine: told the time, it beats and looks. ``timeout_ns``: how long the driver waits for a client."""

    def __init__(
        self, proxy: DriverProxy, counters: CountersReader, options: ClientOptions, timeout_ns: int, folder: str
    ) -> None:
        self.counter_id: int | None = None
        """Of the client's heartbeat, once the driver has made one."""
        self.pacemaker: Pacemaker | None = None
        """Who beats in the client's place, set by who started it."""
        self._proxy = proxy
        self._counters = counters
        self._options = options
        self._timeout_ns = timeout_ns
        self._where = f"media driver {folder}"
        self._key = HeartbeatKey.pack(client_id=proxy.client_id)
        self._last_service_ns: int | None = None
        self._last_beat_ns = 0

    def check(self, now_ns: int, now_ms: int) -> int:
        """Beat and look, when it is time to; 1 if it was. Raises :class:`DriverTimeout` when the driver has gone,
        :class:`ClientTimeout` when it has given this client up, or must have."""
        self._check_service(now_ns)
        if now_ns - self._last_beat_ns < self._options.keep_alive_interval_ns and self._last_beat_ns:
            return 0
        self.check_driver(now_ms)
        if self.counter_id is None:
            if self._proxy.has_sent:
                self._begin()
        elif not self._counters.is_of(self.counter_id, HEARTBEAT, self._key):
            raise self.given_up("the client's heartbeat counter is gone")
        if self.counter_id is not None:
            self._counters.values.put_i64_release(self.counter_id * VALUE_LENGTH + _VALUE, now_ms)
            self._last_beat_ns = now_ns
        return 1

    def check_driver(self, now_ms: int) -> None:
        """Raises :class:`DriverTimeout` when the driver has gone."""
        last_ms = self._proxy.heartbeat_ms
        if last_ms == SHUT_DOWN:
            raise DriverTimeout(self._where, found="that it was shut down", expected="a running driver")
        if now_ms > last_ms + self._options.driver_timeout_ms:
            found = f"its last sign of life {now_ms - last_ms} ms ago"
            raise DriverTimeout(
                self._where,
                found=found,
                expected=f"one every {self._options.driver_timeout_ms} ms",
                hint="it was killed, or gets no processor time; connect anew when one runs",
            )

    def _check_service(self, now_ns: int) -> None:
        """Whether this was called so late that the driver must have given the client up; a pacemaker knows better."""
        last_ns, self._last_service_ns = self._last_service_ns, now_ns
        if self.pacemaker is not None:
            if self.pacemaker.lapsed or self.pacemaker.lost:
                raise self.given_up("the client's process did not run" if self.pacemaker.lapsed else "no heartbeat")
        elif self.counter_id is not None and last_ns is not None and now_ns - last_ns > self._timeout_ns:
            raise self.given_up(f"{(now_ns - last_ns) // NS_PER_MS} ms without a sign of the client")

    def _begin(self) -> None:
        """Look for the counter, and say whose it is."""
        self.counter_id = self._counters.find_by_key(HEARTBEAT, self._key)
        if self.counter_id is not None:
            name = f" name={self._options.client_name} version={__version__} commit=everlog"
            self._counters.append_to_label(self.counter_id, name)

    def given_up(self, found: str) -> ClientTimeout:
        """The error of a client that the driver does not know any more."""
        return ClientTimeout(
            self._where,
            found=found,
            expected=f"a heartbeat every {self._timeout_ns // NS_PER_MS} ms",
            hint="the driver has closed all that the client had; connect anew",
        )
