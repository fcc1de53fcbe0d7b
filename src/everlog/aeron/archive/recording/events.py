"""Events of an archive, delivered to callbacks or as an iterator.

Source: aeron-archive-codecs.xml: RecordingStarted, RecordingProgress, RecordingStopped, RecordingSignalEvent.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from types import TracebackType
from typing import Self

_log = logging.getLogger("everlog.aeron.archive")


class RecordingSignal(Enum):
    """What happened to a recording."""

    START = 0
    STOP = 1
    EXTEND = 2
    REPLICATE = 3
    MERGE = 4
    SYNC = 5
    DELETE = 6
    REPLICATE_END = 7


@dataclass(frozen=True, slots=True)
class RecordingStarted:
    """A recording was started or extended."""

    recording_id: int
    start_position: int
    session_id: int
    stream_id: int
    channel: str
    source_identity: str


@dataclass(frozen=True, slots=True)
class RecordingProgress:
    """Everything up to ``position`` is recorded. An event stream keeps only the latest one of each recording."""

    recording_id: int
    start_position: int
    position: int


@dataclass(frozen=True, slots=True)
class RecordingStopped:
    """A recording was stopped."""

    recording_id: int
    start_position: int
    stop_position: int


@dataclass(frozen=True, slots=True)
class SignalEvent:
    """A recording signal; ``position`` is -1 if the signal has none."""

    recording_id: int
    position: int
    signal: RecordingSignal


Event = RecordingStarted | RecordingProgress | RecordingStopped | SignalEvent
Callback = Callable[[Event], None]


class EventStream:
    """Events for one thread, oldest first. Iterating waits for the next one and ends when the archive is closed."""

    def __init__(self, events: Events) -> None:
        self._events = events
        self._waiting: deque[Event] = deque()
        self._progress: dict[int, RecordingProgress] = {}
        self._changed = threading.Condition()
        self._is_closed = False
        events.listen(self._put)

    def _put(self, event: Event) -> None:
        with self._changed:
            if isinstance(event, RecordingProgress):
                is_new = event.recording_id not in self._progress
                self._progress[event.recording_id] = event
                if not is_new:
                    return
            self._waiting.append(event)
            self._changed.notify()

    def take(self, timeout_s: float | None = None) -> Event | None:
        """Return the next event; ``None`` if none came in time, or the archive was closed."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        with self._changed:
            while not self._waiting and not self._is_closed:
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    return None
                self._changed.wait(left)
            if not self._waiting:
                return None
            event = self._waiting.popleft()
            if isinstance(event, RecordingProgress):
                event = self._progress.pop(event.recording_id)
            return event

    def close(self) -> None:
        """Receive no more events; a waiting thread returns."""
        self._events.forget(self._put)
        self._events.forget_stream(self)
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def __iter__(self) -> Iterator[Event]:
        while (event := self.take()) is not None:
            yield event

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Events:
    """The listeners of an archive."""

    def __init__(self) -> None:
        self._callbacks: tuple[Callback, ...] = ()
        self._streams: tuple[EventStream, ...] = ()
        self._lock = threading.Lock()

    def listen(self, callback: Callback) -> None:
        """Call ``callback`` with each event, in the thread in which it happens. What it raises is logged."""
        with self._lock:
            self._callbacks += (callback,)

    def forget(self, callback: Callback) -> None:
        """Stop calling ``callback``."""
        with self._lock:
            self._callbacks = tuple(c for c in self._callbacks if c != callback)

    def stream(self) -> EventStream:
        """Return a stream of the events from now on."""
        stream = EventStream(self)
        with self._lock:
            self._streams += (stream,)
        return stream

    def forget_stream(self, stream: EventStream) -> None:
        """Stop delivering to ``stream``."""
        with self._lock:
            self._streams = tuple(s for s in self._streams if s is not stream)

    @property
    def has_listeners(self) -> bool:
        """Whether any listener would receive an event."""
        return bool(self._callbacks)

    def publish(self, event: Event) -> None:
        """Deliver an event to all listeners."""
        for callback in self._callbacks:
            try:
                callback(event)
            except Exception:
                _log.exception("a listener failed on %s", event)

    def close(self) -> None:
        """Close all streams."""
        for stream in self._streams:
            stream.close()
