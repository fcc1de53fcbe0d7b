"""How far a replay may go: to the end of what is recorded, and, if asked for, to the value of a counter."""

from __future__ import annotations

from typing import Protocol

from everlog.aeron.archive.recording.refusals import refusal
from everlog.aeron.archive.service.context import RecordedPositions, ServiceContext
from everlog.aeron.frames.constants import NULL_POSITION
from everlog.aeron.transport.client.counters_reader import CountersReader
from everlog.aeron.transport.format.counters import ALLOCATED, VALUE_LENGTH
from everlog.aeron.transport.format.layouts import CounterValue

_REGISTRATION = CounterValue.field("registration_id").offset


class Limit(Protocol):
    """A position that moves on until it is final."""

    def read(self) -> tuple[int, bool]:
        """The position, and whether it is final."""


class RecordedLimit:
    """The recorded position of an active recording; when it is stopped, its stop position."""

    def __init__(self, context: ServiceContext, active: RecordedPositions, recording_id: int) -> None:
        self._archive = context.archive
        self._active = active
        self._recording_id = recording_id
        self._last = NULL_POSITION
        self._was_active = True

    def read(self) -> tuple[int, bool]:
        """The position, and whether the recording is stopped. Of one whose stop position could not be written, the last
        position that was seen counts."""
        position = self._active.recorded_position(self._recording_id)
        if position is not None:
            self._last, self._was_active = position, True
        elif self._was_active:
            with self._archive.lock:
                stop = self._archive.catalog.recording(self._recording_id).stop_position
            self._last, self._was_active = self._last if stop is None else stop, False
        return self._last, not self._was_active


class CounterLimit:
    """The value of a counter of the driver, until it is freed; but never more than what is ``recorded``. Raises
    :class:`ArchiveError` for an id without a counter."""

    def __init__(self, counters: CountersReader, counter_id: int, recorded: RecordedLimit) -> None:
        problem = _problem(counters, counter_id)
        if problem is not None:
            text = f"unable to create replay limit counter id= {counter_id} because of: {problem}"
            raise refusal("limitCounterId", text)
        self._counters = counters
        self._counter_id = counter_id
        self._registration_at = counter_id * VALUE_LENGTH + _REGISTRATION
        self._registration_id = self._registration()
        self._recorded = recorded
        self._is_freed = False
        self.value = counters.value(counter_id)
        """The counter's value when it was last read."""

    def read(self) -> tuple[int, bool]:
        """The position, and whether it is final: the counter is gone, or goes beyond the end of a stopped recording."""
        self._read_counter()
        recorded, is_stopped = self._recorded.read()
        return min(self.value, recorded), self._is_freed or (is_stopped and self.value > recorded)

    def _read_counter(self) -> None:
        """Of a counter that was freed the last value is still there, until its place is used for another one."""
        if self._is_freed:
            return
        is_freed = self._counters.state(self._counter_id) != ALLOCATED
        value = self._counters.value(self._counter_id)
        is_same = self._registration() == self._registration_id  # after the value: it changes first
        if is_same:
            self.value = value
        self._is_freed = is_freed or not is_same

    def _registration(self) -> int:
        return self._counters.values.get_i64_acquire(self._registration_at)


def _problem(counters: CountersReader, counter_id: int) -> str | None:
    """Why a counter can't be a limit, in the original's words."""
    if not 0 <= counter_id < counters.capacity:
        return f"counter id {counter_id} out of range: 0 - maxCounterId={counters.capacity - 1}"
    if counters.state(counter_id) != ALLOCATED:
        return f"ERROR - Counter id is not allocated: {counter_id}"
    return None
