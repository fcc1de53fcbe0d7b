"""Decides when to send a NAK for a gap. Source: LossDetector."""

from __future__ import annotations

from typing import NamedTuple

from everlog.aeron.transport.driver.receiver.feedback_delay import FeedbackDelayGenerator


class Gap(NamedTuple):
    """``length`` missing bytes of a term."""

    term_id: int
    term_offset: int
    length: int


class LossDetector:
    """Tracks the last gap of one image, and its deadline."""

    def __init__(self, delay: FeedbackDelayGenerator) -> None:
        self._delay = delay
        self._active: Gap | None = None
        self._deadline_ns = 0

    def on_gap(self, gap: Gap, now_ns: int) -> tuple[bool, bool]:
        """Handle the image's first gap. Returns whether the gap is new (a changed length counts as new), and whether a
        NAK is due: after the delay, then after each retry delay until the gap is filled."""
        is_new = gap != self._active
        if is_new:
            self._active = gap
            self._deadline_ns = now_ns + self._delay.delay_ns()
        is_due = self._deadline_ns <= now_ns
        if is_due:
            self._deadline_ns = now_ns + self._delay.retry_delay_ns()
        return is_new, is_due
