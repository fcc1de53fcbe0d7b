"""What decides how much a receiver lets its sender send ahead. Source: CongestionControl."""

from __future__ import annotations

from typing import NamedTuple, Protocol


class Rebuild(NamedTuple):
    """What the conductor saw of an image in one of its cycles. Positions are the stream's."""

    now_ns: int
    consumption_position: int
    """Of the slowest subscriber."""
    next_sm_position: int
    """The position that the next status message reports, or that the last one reported."""
    hwm_position: int
    start_position: int
    """Up to which all was there before this cycle."""
    end_position: int
    """Up to which all is there now."""
    loss_occurred: bool


class CongestionControl(Protocol):
    """Decides on the window of one image. Lengths are bytes."""

    @property
    def initial_window_length(self) -> int:
        """With which the image begins."""

    @property
    def max_window_length(self) -> int:
        """It is never longer."""

    def on_track_rebuild(self, rebuild: Rebuild) -> tuple[int, bool]:
        """The window from now on, and whether a status message is to be sent at once."""

    def should_measure_rtt(self, now_ns: int) -> bool:
        """Whether the sender is to be asked for an answer whose time is taken."""

    def on_rtt_measurement_sent(self, now_ns: int) -> None:
        """It was asked."""

    def on_rtt_measurement(self, now_ns: int, rtt_ns: int) -> None:
        """It answered."""

    def close(self) -> None:
        """Free its counters."""
