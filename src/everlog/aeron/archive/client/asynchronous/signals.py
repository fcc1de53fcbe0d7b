"""Recording signals to iterate over in asyncio programs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from typing import Self

from everlog.aeron.archive.client.connection.idling import Idle
from everlog.aeron.archive.client.connection.inbox import Inbox
from everlog.aeron.archive.client.errors import SessionLost
from everlog.aeron.archive.protocol.responses import RecordingSignalEvent
from everlog.errors import Closed


class AsyncSignalStream:
    """The recording signals since it was made. Iterating waits for the next one, and ends when the session is lost or
    closed."""

    def __init__(self, inbox: Inbox, poll: Callable[[], bool]) -> None:
        self._inbox = inbox
        self._poll = poll
        self._queue = inbox.open_queue()

    async def take(self, timeout_s: float | None = None) -> RecordingSignalEvent | None:
        """Return the next signal; ``None`` if none came in time. Raises :class:`SessionLost`, :class:`Closed`;
        :class:`LimitExceeded` if 65,536 waited."""
        idle = Idle()
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while (signal := self._queue.take()) is None:
            is_late = deadline is not None and time.monotonic() >= deadline
            work_count = self._poll()
            if is_late and not work_count:
                return self._queue.take()
            await asyncio.sleep(idle.seconds(work_count))
        return signal

    def close(self) -> None:
        """Receive no more signals."""
        self._inbox.close_queue(self._queue)

    async def __aiter__(self) -> AsyncIterator[RecordingSignalEvent]:
        try:
            while (signal := await self.take()) is not None:
                yield signal
        except (SessionLost, Closed):
            return

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
