"""What the clients of a simulated system see of it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Protocol

from everlog.aeron.archive.client.values import ReplayParams
from everlog.aeron.transport.client.aeron import Aeron
from everlog.testing.archive.answers import Answers
from everlog.testing.archive.events_model import EventsModel
from everlog.testing.archive.published import Published
from everlog.testing.archive.script import Script


class SystemWorld(Protocol):
    """What a client sees of its simulation."""

    archive_address: str
    other_address: str
    control: str
    random: random.Random
    script: Script
    published: Published
    model: EventsModel
    stream_ids: Iterator[int]
    all_answers: list[Answers]
    dead: list[Aeron]
    is_calm: bool
    is_settling: bool

    @property
    def now_ns(self) -> int:
        """The system's time."""

    @property
    def is_listening(self) -> bool:
        """Whether all recording events arrive from now on."""

    def maintained(self) -> set[int]:
        """The recordings whose maintenance is under way."""

    def expect_end(self, session_id: int) -> None:
        """The client of a session has gone."""

    def bounded(self, params: ReplayParams) -> ReplayParams:
        """A replay with a counter as its limit."""
