"""A replay as its subscriber reads it, without waiting."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

from everlog.aeron.archive.client.connection.idling import Idle
from everlog.aeron.archive.client.connection.inbox import Inbox
from everlog.aeron.archive.client.errors import ArchiveTimeout
from everlog.aeron.transport.client.images.image_reader import FragmentAssembler, Header
from everlog.aeron.transport.client.subscription import Subscription
from everlog.core.batch import Batch
from everlog.errors import DataLost

FRAGMENT_LIMIT = 256


class OpenReplay:
    """A replay that was started. Reading raises the archive's error if the replay fails, :class:`ArchiveTimeout` if
    the stream doesn't arrive within ``timeout_s``, :class:`DataLost` if it ends early, and the errors of ``poll``,
    which does the session's work."""

    def __init__(
        self,
        subscription: Subscription,
        ids: tuple[int, int],
        inbox: Inbox,
        poll: Callable[[], bool],
        timeout_s: float,
    ) -> None:
        """``ids`` are those of the replay session and of the request's correlation."""
        self.subscription = subscription
        self.replay_session_id, self._correlation_id = ids
        self.waiting: deque[tuple[bytes, Header]] = deque()
        """Messages that were read."""
        self.is_done = False
        """Whether everything was read."""
        self._inbox = inbox
        self._poll = poll
        self._timeout_s = timeout_s
        self._deadline = time.monotonic() + timeout_s
        self._idle = Idle()
        self._work_count = 0
        append = self.waiting.append
        self._assembler = FragmentAssembler(lambda payload, header: append((payload, header)))

    def read(self) -> bool:
        """Read some messages; returns whether that was all."""
        self._count(self.subscription.poll(self._assembler, FRAGMENT_LIMIT))
        return self.is_done

    def read_batch(self) -> Batch | None:
        """Read a batch of messages, if any have come."""
        batch = self.subscription.poll_batch()
        self._count(0 if batch is None else 1)
        return batch

    def seconds(self) -> float:
        """How long to wait before reading again."""
        return self._idle.seconds(self._work_count)

    def _count(self, read_count: int) -> None:
        self._work_count = read_count
        if not read_count:
            self._work_count = int(self._poll())
            self.is_done = self._is_over()

    def _is_over(self) -> bool:
        # An empty replay's image may have gone before the first read.
        image, where = self.subscription.last_image, f"replay {self.replay_session_id}"
        if image is not None and image.is_end_of_stream and not image.is_publication_revoked:
            return True
        response = self._inbox.watched(self._correlation_id)
        if response is not None:
            raise response.error.with_traceback(None)
        if self.subscription.is_closed:
            return True
        if image is not None and image.is_closed:
            raise DataLost(where, found=f"the replay ended early, at position {image.position}")
        if image is None and time.monotonic() >= self._deadline:
            raise ArchiveTimeout(where, found=f"the stream did not arrive within {self._timeout_s:g} s")
        return False

    def close(self) -> None:
        """Stop receiving, which ends the replay."""
        self._inbox.unwatch(self._correlation_id)
        self.subscription.close()
