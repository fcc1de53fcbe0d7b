"""When to ask for what is missing. Source: LossDetector."""

from __future__ import annotations

from typing import NamedTuple

from everlog.aeron.transport.driver.receiver.feedback_delay import FeedbackDelayGenerator


class Gap(NamedTuple):
    """``length`` bytes of a term that did not arrive."""

    term_id: int
    term_offset: int
    length: int


class LossDetector:
    """Of one image: knows the gap that was seen last, and its deadline."""

    def __init__(self, delay: FeedbackDelayGenerator) -> None:
        self._delay = delay
        self._active: Gap | None = None
        self._deadline_ns = 0

    def on_gap(self, gap: Gap, now_ns: int) -> tuple[bool, bool]:
        """The first gap there is. Gives whether it is another one than before (also longer or shorter), and whether it
        is due: after a delay, then after each retry delay, for as long as it is there."""
        is_new = gap != self._active
        if is_new:
            self._active = gap
            self._deadline_ns = now_ns + self._delay.delay_ns()
        is_due = self._deadline_ns <= now_ns
        if is_due:
            self._deadline_ns = now_ns + self._delay.retry_delay_ns()
        return is_new, is_due
