"""CUBIC congestion control of a receiver's window. Source: CubicCongestionControl,
CubicCongestionControlConfiguration; draft-rhee-tcpm-cubic-02.

t seconds after a loss at a window of W, the window in MTUs is ``0.4 * (t - K)^3 + W`` with ``K = cbrt(W * 0.2 / 0.4)``:
it grows quickly back towards W, slowly around W, then faster and faster.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from everlog.aeron.transport.driver.receiver.congestion.control import Rebuild
from everlog.errors import UsageError
from everlog.time_units import NS_PER_S

SCALING = 0.4
DECREASE = 0.2
INITIAL_WINDOW_MTUS = 10
RTT_TIMEOUT_MULTIPLE = 4
DEFAULT_RTT_NS = 100_000
MAX_RTT_NS = 60 * NS_PER_S
RTT_COUNTER, WINDOW_COUNTER = "rcv-cc-cubic-rtt", "rcv-cc-cubic-wnd"


class Indicator(Protocol):
    """A counter that publishes the control's state."""

    def set_release(self, value: int) -> None:
        """Publish a value."""

    def close(self) -> None:
        """Free the counter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CubicSettings:
    """``aeron.CubicCongestionControl.measureRtt``, ``.initialRtt`` and ``.tcpMode``. In TCP mode the window is never
    smaller than TCP's own control would choose."""

    measure_rtt: bool = False
    initial_rtt_ns: int = DEFAULT_RTT_NS
    tcp_mode: bool = False


class CubicCongestionControl:
    """Controls the window of one image. ``max_window_length`` is in bytes; a window is a whole number of MTUs, at least
    one."""

    def __init__(
        self,
        max_window_length: int,
        mtu_length: int,
        now_ns: int,
        indicators: Callable[[str], Indicator],
        settings: CubicSettings,
    ) -> None:
        if not 0 < mtu_length <= max_window_length:
            expected = f"at least one MTU ({mtu_length} bytes)"
            raise UsageError("congestion window", found=f"{max_window_length} bytes", expected=expected)
        self._settings = settings
        self._mtu = mtu_length
        self._max = max_window_length // mtu_length
        self._window = min(INITIAL_WINDOW_MTUS, self._max)
        self._before_loss = self._max
        self._k = _cubic_period(self._max)
        self.initial_window_length = self._window * mtu_length
        self.max_window_length = max_window_length
        self._window_length = self.initial_window_length
        self._rtt_ns = settings.initial_rtt_ns
        self._rtt_timeout_ns = settings.initial_rtt_ns * RTT_TIMEOUT_MULTIPLE
        self._rtt_asked_ns = 0
        self._loss_ns = self._update_ns = now_ns
        self._rtt_counter = indicators(RTT_COUNTER)
        self._window_counter = indicators(WINDOW_COUNTER)
        self._rtt_counter.set_release(0)
        self._window_counter.set_release(self._window_length)

    def on_track_rebuild(self, rebuild: Rebuild) -> tuple[int, bool]:
        """Return the new window, and whether a status message must be sent immediately."""
        now_ns = rebuild.now_ns
        if rebuild.loss_occurred:
            self._before_loss = self._window
            self._k = _cubic_period(self._window)
            self._set_window(max(1, int(self._window * (1.0 - DECREASE))))
            self._loss_ns = now_ns
            return self._window_length, True
        if self._window < self._max and self._update_ns + self._settings.initial_rtt_ns < now_ns:
            self._set_window(self._grown(now_ns))
            self._update_ns = now_ns
            return self._window_length, False
        # With the smallest window, report consumption immediately: the sender waits for it.
        return self._window_length, self._window == 1 and rebuild.consumption_position > rebuild.next_sm_position

    def _grown(self, now_ns: int) -> int:
        since_loss = (now_ns - self._loss_ns) / NS_PER_S
        window = min(self._max, self._before_loss + int(SCALING * (since_loss - self._k) ** 3))
        if self._settings.tcp_mode and window < self._before_loss:
            growth = 3.0 * DECREASE / (2.0 - DECREASE) * (since_loss / (max(self._rtt_ns, 1) / NS_PER_S))
            window = min(self._max, max(window, int(self._before_loss * (1.0 - DECREASE) + growth)))
        return max(1, window)

    def _set_window(self, window: int) -> None:
        self._window = window
        if window * self._mtu != self._window_length:
            self._window_length = window * self._mtu
            self._window_counter.set_release(self._window_length)

    def should_measure_rtt(self, now_ns: int) -> bool:
        """Whether to measure the round-trip time."""
        return self._settings.measure_rtt and self._rtt_asked_ns + self._rtt_timeout_ns < now_ns

    def on_rtt_measurement_sent(self, now_ns: int) -> None:
        """Record that a measurement was requested."""
        self._rtt_asked_ns = now_ns

    def on_rtt_measurement(self, now_ns: int, rtt_ns: int) -> None:
        """Record the sender's answer. A time of 0 or less, or above a minute (a forged or late answer), is ignored."""
        if not 0 < rtt_ns <= MAX_RTT_NS:
            return
        self._rtt_asked_ns = now_ns
        self._rtt_ns = rtt_ns
        self._rtt_counter.set_release(rtt_ns)
        self._rtt_timeout_ns = max(rtt_ns, self._settings.initial_rtt_ns) * RTT_TIMEOUT_MULTIPLE

    def close(self) -> None:
        """Free the control's counters."""
        self._rtt_counter.close()
        self._window_counter.close()


def _cubic_period(window: int) -> float:
    """Seconds from a loss until the window is as large as before."""
    return math.cbrt(window * DECREASE / SCALING)
