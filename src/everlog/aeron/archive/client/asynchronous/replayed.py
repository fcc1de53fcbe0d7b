"""The messages of a replay in asyncio programs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Self

from everlog.aeron.archive.client.connection.replay import OpenReplay
from everlog.aeron.transport.client.images.image_reader import Header
from everlog.core.batch import Batch


class AsyncReplayedMessages:
    """The messages of a replay: iterate over ``(payload, header)``, or over :meth:`batches`; other tasks run meanwhile.
    Ends when everything was replayed. Close it, or use it in a ``with`` statement.

    Iterating raises :class:`ArchiveError` if the archive can't go on, :class:`ArchiveTimeout` if the stream doesn't
    arrive in time, :class:`DataLost` if the replay ends early, :class:`SessionLost`."""

    def __init__(self, replay: OpenReplay) -> None:
        self.subscription = replay.subscription
        """The subscription that receives the replay."""
        self.replay_session_id = replay.replay_session_id
        """The replay session's id, for ``stop_replay``."""
        self._replay = replay

    async def __aiter__(self) -> AsyncIterator[tuple[bytes, Header]]:
        replay = self._replay
        while replay.waiting or not replay.read():
            while replay.waiting:
                yield replay.waiting.popleft()
            await asyncio.sleep(replay.seconds())

    async def batches(self) -> AsyncIterator[Batch]:
        """Yield whole messages in batches, which Arrow takes without a copy: ``pyarrow.record_batch(batch)``. A batch
        is valid until the next one."""
        replay = self._replay
        while (batch := replay.read_batch()) is not None or not replay.is_done:
            if batch is not None:
                yield batch
            await asyncio.sleep(replay.seconds())

    def close(self) -> None:
        """Stop receiving; the archive ends the replay."""
        self._replay.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
