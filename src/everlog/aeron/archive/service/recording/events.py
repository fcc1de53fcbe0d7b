"""Publishes what happens to recordings on the events channel, to whoever listens. Source: RecordingEventsProxy."""

from __future__ import annotations

import threading
from collections.abc import Callable

from everlog.aeron.archive.protocol.codec import encode
from everlog.aeron.archive.protocol.recording_events import (
    RecordingProgressMessage,
    RecordingStartedMessage,
    RecordingStoppedMessage,
)
from everlog.aeron.messages import Message
from everlog.aeron.transport.client.appending.results import CLOSED, MAX_POSITION_EXCEEDED, NOT_CONNECTED
from everlog.aeron.transport.client.publication import ExclusivePublication, outcome_name
from everlog.errors import StoreUnavailable

ATTEMPTS = 3
"""How often the start and the end of a recording are offered before they are dropped."""


class RecordingEventsPublisher:
    """The events channel. A message that nobody listens for, or that finds the stream full, is dropped. A publication
    that can take no more is reported to ``on_error`` once, and recordings go on without events. The conductor's and the
    recorder's thread may share it."""

    def __init__(self, publication: ExclusivePublication, on_error: Callable[[BaseException], None]) -> None:
        self._publication = publication
        self._on_error = on_error
        self._lock = threading.Lock()
        self._is_over = False

    def started(
        self, recording_id: int, join_position: int, session_id: int, stream_id: int, channel: str, source: str
    ) -> None:
        """A recording was started or extended; ``join_position`` is that of its image."""
        self._send(
            RecordingStartedMessage(recording_id, join_position, session_id, stream_id, channel, source), ATTEMPTS
        )

    def progress(self, recording_id: int, join_position: int, position: int) -> bool:
        """Everything up to ``position`` is recorded. Returns whether the message was sent."""
        return self._send(RecordingProgressMessage(recording_id, join_position, position), 1)

    def stopped(self, recording_id: int, join_position: int, stop_position: int) -> None:
        """A recording was stopped."""
        self._send(RecordingStoppedMessage(recording_id, join_position, stop_position), ATTEMPTS)

    def _send(self, message: Message, attempts: int) -> bool:
        data = encode(message)
        with self._lock:
            return not self._is_over and self._offer(data, attempts)

    def _offer(self, data: bytes, attempts: int) -> bool:
        for _ in range(attempts):
            result = self._publication.offer(data)
            if result > 0:
                return True
            if result == NOT_CONNECTED:
                return False
            if result in (CLOSED, MAX_POSITION_EXCEEDED):
                self._is_over = True
                where, found = "recording events publication", outcome_name(result).lower().replace("_", " ")
                self._on_error(StoreUnavailable(where, found=found, hint="recordings go on without events"))
                return False
        return False

    def close(self) -> None:
        """Close the publication. A second call does nothing."""
        with self._lock:
            self._is_over = True
            self._publication.close()
