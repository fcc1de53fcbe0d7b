"""How far a replay may go: to the end of a stopped recording, of what is recorded, or to the value of a counter."""

from __future__ import annotations

from typing import Protocol

from everlog.aeron.archive.service.context import ServiceContext
from everlog.aeron.archive.service.replay.refusals import refusal
from everlog.aeron.frames.constants import NULL_POSITION
from everlog.aeron.transport.client.counters_reader import CountersReader
from everlog.errors import UsageError


class ActiveRecordings(Protocol):
    """What is being recorded."""

    def recorded_position(self, recording_id: int) -> int | None:
        """The position after the last recorded byte of an active recording; ``None`` if it is not active."""


class Limit(Protocol):
    """A position that moves on until it is final."""

    def read(self) -> tuple[int, bool]:
        """The position, and whether it is final."""


class RecordedLimit:
    """The recorded position of an active recording; when it is stopped, its stop position."""

    def __init__(self, context: ServiceContext, active: ActiveRecordings, recording_id: int) -> None:
        self._context = context
        self._active = active
        self._recording_id = recording_id
        self._last = NULL_POSITION

    def read(self) -> tuple[int, bool]:
        """The position, and whether it is final."""
        position = self._active.recorded_position(self._recording_id)
        if position is not None:
            self._last = position
            return position, False
        stop = self._context.archive.catalog.recording(self._recording_id).stop_position
        return self._last if stop is None else stop, True


class CounterLimit:
    """The value of a counter of the driver, until it is freed. Raises :class:`ArchiveError` for an id without a
    counter."""

    def __init__(self, counters: CountersReader, counter_id: int) -> None:
        text = f"unable to create replay limit counter id= {counter_id} because of: "
        try:
            found = counters.get(counter_id)
        except UsageError as error:
            raise refusal("limitCounterId", text + str(error)) from error
        if found is None:
            raise refusal("limitCounterId", f"{text}it is not allocated")
        self._counters = counters
        self._counter_id = counter_id
        self._registration_id = found.registration_id
        self._last = found.value

    def read(self) -> tuple[int, bool]:
        """The value, and whether the counter is gone; then the last value that was seen counts."""
        found = self._counters.get(self._counter_id)
        if found is None or found.registration_id != self._registration_id:
            return self._last, True
        self._last = found.value
        return self._last, False
