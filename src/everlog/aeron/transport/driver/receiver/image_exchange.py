"""State of an image that the conductor's and the receiver's thread share.

One thread writes each attribute, in a single assignment of an immutable value, so the other sees either the old or the
new value. Both write ``state``; therefore only the receiver ends the ACTIVE state, except for a revoked stream.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from everlog.aeron.transport.driver.receiver.loss_detector import Gap


class ImageState(Enum):
    """The states of an image, in this order."""

    INIT = "init"
    ACTIVE = "active"
    DRAINING = "draining"
    LINGER = "linger"
    DONE = "done"


class StatusDue(NamedTuple):
    """The content of the next status message."""

    position: int
    window_length: int


class ImageExchange:
    """The shared state.

    The conductor writes ``status`` (a new object requests a status message), ``gap`` (a new object requests a NAK, or
    that the gap is filled), ``rebuild_position`` (up to which the stream is complete), ``response_session_id``,
    ``is_deadline_reset`` (which the receiver resets) and ``is_release_wanted``. The receiver writes ``is_revoked`` and
    ``is_released``. Either clears ``is_rebuilding``."""

    __slots__ = (
        "gap",
        "is_deadline_reset",
        "is_rebuilding",
        "is_release_wanted",
        "is_released",
        "is_revoked",
        "rebuild_position",
        "response_session_id",
        "state",
        "status",
        "time_of_last_state_change_ns",
    )

    def __init__(self, status: StatusDue, now_ns: int) -> None:
        self.state = ImageState.INIT
        self.time_of_last_state_change_ns = now_ns
        self.status = status
        self.rebuild_position = status.position
        self.gap: Gap | None = None
        self.response_session_id: int | None = None
        self.is_deadline_reset = False
        self.is_release_wanted = False
        self.is_released = False
        self.is_rebuilding = True
        self.is_revoked = False

    def change(self, state: ImageState, now_ns: int) -> None:
        """Enter a state."""
        self.time_of_last_state_change_ns = now_ns
        self.state = state
