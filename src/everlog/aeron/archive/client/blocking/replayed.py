"""The messages of a replay."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Self

from everlog.aeron.archive.client.connection.idling import Idle
from everlog.aeron.archive.client.connection.inbox import Inbox
from everlog.aeron.archive.client.errors import ArchiveTimeout
from everlog.aeron.transport.client.image import Image
from everlog.aeron.transport.client.images.image_reader import FragmentAssembler, Header
from everlog.aeron.transport.client.subscription import Subscription
from everlog.core.batch import Batch
from everlog.errors import DataLost

FRAGMENT_LIMIT = 256


class OpenReplay:
    """A replay that was started, and how it ends."""

    def __init__(self, subscription: Subscription, replay_session_id: int, correlation_id: int, inbox: Inbox) -> None:
        self.subscription = subscription
        self.replay_session_id = replay_session_id
        self._correlation_id = correlation_id
        self._inbox = inbox
        self._image: Image | None = None

    def find_image(self) -> bool:
        """Whether the replayed stream has arrived."""
        if self._image is None and self.subscription.images:
            self._image = self.subscription.images[0]
        return self._image is not None

    def is_over(self) -> bool:
        """Whether everything was read. Raises the archive's error if the replay failed, and :class:`DataLost` if it
        ended early for another reason."""
        response = self._inbox.watched(self._correlation_id)
        image = self._image
        if image is not None and image.is_end_of_stream and not image.is_publication_revoked:
            return True
        if response is not None:
            raise response.error.with_traceback(None)
        if self.subscription.is_closed:
            return True
        if image is not None and image.is_closed:
            raise DataLost(
                f"replay {self.replay_session_id}", found=f"the replay ended early, at position {image.position}"
            )
        return False

    def close(self) -> None:
        """Stop receiving, which ends the replay."""
        self._inbox.unwatch(self._correlation_id)
        self.subscription.close()


class ReplayedMessages:
    """The messages of a replay, for one thread: iterate over ``(payload, header)``, or over :meth:`batches`. Ends when
    everything was replayed. Close it, or use it in a ``with`` statement.

    Iterating raises :class:`ArchiveError` if the archive can't go on, :class:`ArchiveTimeout` if the stream doesn't
    arrive in time, :class:`DataLost` if the replay ends early, and the errors of the client's ``poll``."""

    def __init__(self, replay: OpenReplay, poll: Callable[[], bool], timeout_s: float) -> None:
        self.subscription = replay.subscription
        """The subscription that receives the replay."""
        self.replay_session_id = replay.replay_session_id
        """The replay session's id, for ``stop_replay``."""
        self._replay = replay
        self._poll = poll
        self._timeout_s = timeout_s
        self._deadline = time.monotonic() + timeout_s
        self._waiting: deque[tuple[bytes, Header]] = deque()
        append = self._waiting.append
        self._assembler = FragmentAssembler(lambda payload, header: append((payload, header)))

    def __iter__(self) -> Iterator[tuple[bytes, Header]]:
        while self._waiting or self._fill():
            while self._waiting:
                yield self._waiting.popleft()

    def batches(self) -> Iterator[Batch]:
        """Yield whole messages in batches, which Arrow takes without a copy: ``pyarrow.record_batch(batch)``. A batch
        is valid until the next one."""
        idle = Idle()
        while True:
            found = self._replay.find_image()
            batch = self.subscription.poll_batch()
            if batch is not None:
                idle = Idle()
                yield batch
            elif self._rest(idle, found):
                return

    def _fill(self) -> bool:
        """Read messages; returns false at the end."""
        idle = Idle()
        while not self._waiting:
            found = self._replay.find_image()
            if not self.subscription.poll(self._assembler, FRAGMENT_LIMIT) and self._rest(idle, found):
                return False
        return True

    def _rest(self, idle: Idle, found: bool) -> bool:
        """Wait a moment. Returns whether the replay is over."""
        work_count = self._poll()
        if self._replay.is_over():
            return True
        if not found and time.monotonic() >= self._deadline:
            where = f"replay {self.replay_session_id}"
            raise ArchiveTimeout(where, found=f"the stream did not arrive within {self._timeout_s:g} s")
        time.sleep(idle.seconds(work_count))
        return False

    def close(self) -> None:
        """Stop receiving; the archive ends the replay."""
        self._replay.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
