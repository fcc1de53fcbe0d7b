"""What the conductor's and the receiver's thread tell each other of an image.

Each attribute is written by one of them (``state`` by both, which is why only the receiver ends ACTIVE but for a
revoked stream), in one assignment of a value that does not change later: a reader sees the old one or the new one
whole.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from everlog.aeron.transport.driver.receiver.loss_detector import Gap


class ImageState(Enum):
    """Of an image, in this order."""

    INIT = "init"
    ACTIVE = "active"
    DRAINING = "draining"
    LINGER = "linger"
    DONE = "done"


class StatusDue(NamedTuple):
    """What the next status message is to say."""

    position: int
    window_length: int


class ImageExchange:
    """Between the two. The conductor writes ``status`` (a new object: a status message is due), ``gap`` (a new object:
    it is to be asked for or filled), ``rebuild_position`` (up to which all is there), ``response_session_id``,
    ``is_deadline_reset`` (the receiver takes it back) and ``is_release_wanted``; the receiver writes ``is_revoked`` and
    ``is_released``; ``is_rebuilding`` ends with either."""

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
        """Into another state."""
        self.time_of_last_state_change_ns = now_ns
        self.state = state
