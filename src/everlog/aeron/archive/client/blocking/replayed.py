"""The messages of a replay."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Self

from everlog.aeron.archive.client.connection.replay import OpenReplay
from everlog.aeron.transport.client.images.image_reader import Header
from everlog.core.batch import Batch


class ReplayedMessages:
    """The messages of a replay, for one thread: iterate over ``(payload, header)``, or over :meth:`batches`. Ends when
    everything was replayed. Close it, or use it in a ``with`` statement.

    Iterating raises :class:`ArchiveError` if the archive can't go on, :class:`ArchiveTimeout` if the stream doesn't
    arrive in time, :class:`DataLost` if the replay ends early, :class:`SessionLost`."""

    def __init__(self, replay: OpenReplay) -> None:
        self.subscription = replay.subscription
        """The subscription that receives the replay."""
        self.replay_session_id = replay.replay_session_id
        """The replay session's id, for ``stop_replay``."""
        self._replay = replay

    def __iter__(self) -> Iterator[tuple[bytes, Header]]:
        replay = self._replay
        while replay.waiting or not replay.read():
            while replay.waiting:
                yield replay.waiting.popleft()
            time.sleep(replay.seconds())

    def batches(self) -> Iterator[Batch]:
        """Yield whole messages in batches, which Arrow takes without a copy: ``pyarrow.record_batch(batch)``. A batch
        is valid until the next one."""
        replay = self._replay
        while (batch := replay.read_batch()) is not None or not replay.is_done:
            if batch is not None:
                yield batch
            time.sleep(replay.seconds())

    def close(self) -> None:
        """Stop receiving; the archive ends the replay."""
        self._replay.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
