"""What an archive sends without being asked: recording signals, and errors that answer no request."""

from __future__ import annotations

from collections import deque

from everlog.aeron.archive.client.options import ErrorHandler, SignalHandler
from everlog.aeron.archive.client.values import ErrorResponse
from everlog.aeron.archive.protocol.responses import RecordingSignalEvent
from everlog.errors import LimitExceeded

MAX_WAITING = 65_536
"""Signals or errors that wait for a reader. Errors beyond that replace the oldest ones."""


class SignalQueue:
    """The signals of one reader, oldest first."""

    def __init__(self) -> None:
        self._waiting: deque[RecordingSignalEvent] = deque()
        self._is_full = False

    def put(self, signal: RecordingSignalEvent) -> None:
        """Add one. A queue that is full takes no more."""
        self._is_full = self._is_full or len(self._waiting) >= MAX_WAITING
        if not self._is_full:
            self._waiting.append(signal)

    def take(self) -> RecordingSignalEvent | None:
        """The next one, if any. Raises :class:`LimitExceeded` after the last one of a queue that was full."""
        if self._waiting:
            return self._waiting.popleft()
        if self._is_full:
            raise LimitExceeded("recording signals", found="more", expected=f"at most {MAX_WAITING} unread ones")
        return None


class Inbox:
    """Delivers signals and errors to handlers and readers; outlasts a lost session."""

    def __init__(self, on_signal: SignalHandler | None, on_error: ErrorHandler | None) -> None:
        self.signal_count = 0
        """How many signals have come."""
        self.errors: deque[ErrorResponse] = deque(maxlen=MAX_WAITING)
        """Errors that no handler got."""
        self._on_signal = on_signal
        self._on_error = on_error
        self._queues: list[SignalQueue] = []
        self._watched: dict[int, ErrorResponse | None] = {}

    def put_signal(self, signal: RecordingSignalEvent) -> None:
        """Deliver a signal."""
        self.signal_count += 1
        for queue in self._queues:
            queue.put(signal)
        if self._on_signal is not None:
            self._on_signal(signal)

    def put_error(self, response: ErrorResponse) -> None:
        """Deliver an error: to the replay that watches for it, else to the handler or the waiting errors."""
        if response.correlation_id in self._watched:
            self._watched[response.correlation_id] = response
        elif self._on_error is not None:
            self._on_error(response)
        else:
            self.errors.append(response)

    def open_queue(self) -> SignalQueue:
        """A queue of the signals from now on."""
        queue = SignalQueue()
        self._queues.append(queue)
        return queue

    def close_queue(self, queue: SignalQueue) -> None:
        """Deliver no more to a queue."""
        if queue in self._queues:
            self._queues.remove(queue)

    def watch(self, correlation_id: int) -> None:
        """Keep the errors with this correlation id for :meth:`watched`."""
        self._watched.setdefault(correlation_id, None)

    def watched(self, correlation_id: int) -> ErrorResponse | None:
        """The last error with this correlation id."""
        return self._watched.get(correlation_id)

    def unwatch(self, correlation_id: int) -> None:
        """Stop keeping errors."""
        self._watched.pop(correlation_id, None)
