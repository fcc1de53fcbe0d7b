"""The events that an archive publishes about all its recordings, if it is configured to. Source: RecordingEventsPoller,
RecordingEventsAdapter."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Self

from everlog.aeron.archive.client.connection.idling import Idle
from everlog.aeron.archive.protocol.codec import decode
from everlog.aeron.archive.protocol.recording_events import (
    RecordingProgressMessage,
    RecordingStartedMessage,
    RecordingStoppedMessage,
)
from everlog.aeron.archive.recording.events import RecordingProgress, RecordingStarted, RecordingStopped
from everlog.aeron.messages import Message
from everlog.aeron.transport.client.aeron import Aeron
from everlog.aeron.transport.client.images.image_reader import FragmentAssembler
from everlog.aeron.transport.client.subscription import Subscription
from everlog.errors import UnknownMessage

RecordingEvent = RecordingStarted | RecordingProgress | RecordingStopped
FRAGMENT_LIMIT = 64


class RecordingEvents:
    """The recording events of an archive from now on, for one thread: poll with a handler, or iterate, also in asyncio
    programs. An event that is sent while no one listens, or faster than they are read, is gone. Close it, or use it in
    a ``with`` statement.

    Polling raises :class:`CorruptData` for a message that breaks the format, and the error that ended the Aeron
    client."""

    def __init__(self, subscription: Subscription) -> None:
        self.subscription = subscription
        self._waiting: deque[RecordingEvent] = deque()
        self._assembler = FragmentAssembler(lambda data, _: self._take(data))

    @classmethod
    def subscribe(cls, aeron: Aeron, channel: str, stream_id: int = 30) -> Self:
        """Subscribe to the channel of an archive's recording events. Raises :class:`RegistrationRefused`,
        :class:`DriverTimeout`."""
        return cls(aeron.add_subscription(channel, stream_id))

    def _take(self, data: bytes) -> None:
        try:
            event = event_of(decode(data, "recording event"))
        except UnknownMessage as error:
            if (error.found or "").startswith("schema"):
                raise
            return
        if event is not None:
            self._waiting.append(event)

    def poll(self, handler: Callable[[RecordingEvent], object]) -> int:
        """Call ``handler`` with each event that has come; returns their number."""
        if not self._waiting:
            self.subscription.poll(self._assembler, FRAGMENT_LIMIT)
        count = 0
        while self._waiting:
            handler(self._waiting.popleft())
            count += 1
        return count

    def take(self, timeout_s: float | None = None) -> RecordingEvent | None:
        """Return the next event; ``None`` if none came in time, or it was closed."""
        idle = Idle()
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while not self._waiting:
            work_count = self.subscription.poll(self._assembler, FRAGMENT_LIMIT)
            if self._waiting:
                break
            if self.subscription.is_closed or (deadline is not None and time.monotonic() >= deadline):
                return None
            time.sleep(idle.seconds(work_count))
        return self._waiting.popleft()

    def __iter__(self) -> Iterator[RecordingEvent]:
        while (event := self.take()) is not None:
            yield event

    async def __aiter__(self) -> AsyncIterator[RecordingEvent]:
        idle = Idle()
        while not self.subscription.is_closed:
            work_count = self.subscription.poll(self._assembler, FRAGMENT_LIMIT)
            while self._waiting:
                yield self._waiting.popleft()
            await asyncio.sleep(idle.seconds(work_count))

    def close(self) -> None:
        """Stop receiving."""
        self.subscription.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def event_of(message: Message) -> RecordingEvent | None:
    """The event in a message; ``None`` if it is of another kind."""
    if isinstance(message, RecordingProgressMessage):
        return RecordingProgress(message.recording_id, message.start_position, message.position)
    if isinstance(message, RecordingStartedMessage):
        return RecordingStarted(
            message.recording_id,
            message.start_position,
            message.session_id,
            message.stream_id,
            message.channel,
            message.source_identity,
        )
    if isinstance(message, RecordingStoppedMessage):
        return RecordingStopped(message.recording_id, message.start_position, message.stop_position)
    return None
