"""The interface of congestion controls. Source: CongestionControl."""

from __future__ import annotations

from typing import NamedTuple, Protocol


class Rebuild(NamedTuple):
    """An image's progress in one cycle of the conductor, in stream positions."""

    now_ns: int
    consumption_position: int
    """The slowest subscriber's position."""
    next_sm_position: int
    """The position in the next status message, or in the last one."""
    hwm_position: int
    start_position: int
    """The position up to which the image was complete before this cycle."""
    end_position: int
    """The position up to which the image is complete now."""
    loss_occurred: bool


class CongestionControl(Protocol):
    """Decides the window of one image. Lengths are in bytes."""

    @property
    def initial_window_length(self) -> int:
        """The image's first window."""

    @property
    def max_window_length(self) -> int:
        """The longest possible window."""

    def on_track_rebuild(self, rebuild: Rebuild) -> tuple[int, bool]:
        """Return the new window, and whether a status message must be sent immediately."""

    def should_measure_rtt(self, now_ns: int) -> bool:
        """Whether to measure the round-trip time."""

    def on_rtt_measurement_sent(self, now_ns: int) -> None:
        """Record that a measurement was requested."""

    def on_rtt_measurement(self, now_ns: int, rtt_ns: int) -> None:
        """Record the sender's answer."""

    def close(self) -> None:
        """Free the control's counters."""
