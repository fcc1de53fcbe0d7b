"""Reads a journal as one of its subscribers: at-least-once delivery that resumes at the checkpoint.

The checkpoint records what the subscriber has consumed and moves only on request. A crash, an exception or an early
exit from a loop leaves it unchanged, and the messages after it are delivered again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

from everlog.core.batch import Batch
from everlog.core.columns import MAX_BATCH_BYTES, MAX_BATCH_ROWS
from everlog.core.report import Fault
from everlog.jlog.format.addresses import Address
from everlog.jlog.format.message import Message
from everlog.jlog.format.names import printable
from everlog.jlog.options import StartPlace
from everlog.jlog.subscribing.backoff import Backoff
from everlog.jlog.subscribing.subscription import Place, Subscription
from everlog.jlog.writing.opening import JournalPath

if TYPE_CHECKING:
    from everlog.jlog.monitoring.lag import Lag


class Subscriber:
    """A subscriber of a journal, open for reading.

    ``create``: ``"beginning"`` or ``"end"`` adds the subscriber there if it does not exist. Names that start with ``~``
    are session subscribers: added when opened, by default at the end, and removed by :meth:`close`.
    ``checkpoint_every``: write the checkpoint after this many consumed messages; a message is consumed when the next
    one is requested. ``sync``: checkpoints are on disk when written, as always in a journal with safety ``safe``.
    ``on_fault`` is called with damage that reading skips; by default it is logged. If it raises, the same damage is
    reported by the next read.

    One thread reads at a time; any thread may call :meth:`close`. A forked child reopens the files.

    Raises :class:`UnknownSubscriber`, :class:`SubscriberExists` (a session subscriber that is open in a process),
    :class:`NotAStore`, :class:`CorruptData`, :class:`StoreUnavailable` and :class:`UsageError`. Reading, seeking,
    checkpointing and :meth:`lag` raise :class:`Closed` after :meth:`close`.

    >>> with Subscriber("/var/spool/orders", "billing", create="beginning") as subscriber:  # doctest: +SKIP
    ...     for message in subscriber.follow():
    ...         handle(message.payload)
    ...         subscriber.checkpoint()
    """

    def __init__(
        self,
        journal: JournalPath,
        name: str | bytes,
        *,
        create: StartPlace | None = None,
        checkpoint_every: int | None = None,
        sync: bool = False,
        on_fault: Callable[[Fault], None] | None = None,
    ) -> None:
        self._open = Subscription(
            journal, name, create=create, checkpoint_every=checkpoint_every, sync=sync, on_fault=on_fault
        )

    # Messages

    def __iter__(self) -> Iterator[Message]:
        """The messages available now, one by one. A later loop continues after the last message given."""
        self._open.check_open()
        return self._give(None, None)

    def follow(self, timeout_s: float | None = None, stop: threading.Event | None = None) -> Iterator[Message]:
        """The messages available now and those to come. Ends after ``timeout_s`` seconds without a message (``None``:
        never), when ``stop`` is set (checked while nothing arrives), or on :meth:`close`."""
        self._open.check_open()
        return self._give(Backoff(timeout_s), stop)

    def _give(self, backoff: Backoff | None, stop: threading.Event | None) -> Iterator[Message]:
        subscription = self._open
        while True:
            if subscription.every is None:
                for message in subscription.waiting:
                    subscription.last = message
                    yield message
            else:
                yield from self._give_counted(subscription.every)
            if subscription.read_messages():
                if backoff is not None:
                    backoff.reset()
            elif backoff is None or subscription.is_closed or not self._sleep(backoff, stop):
                return

    def _give_counted(self, every: int) -> Iterator[Message]:
        """With ``checkpoint_every``: a message is consumed when the generator resumes after its ``yield``."""
        subscription = self._open
        if subscription.finish_given():
            subscription.write_done()
        for message in subscription.waiting:
            subscription.last = message
            yield message
            if subscription.last is not message:  # the caller sought elsewhere or read a batch since
                continue
            subscription.done = message
            subscription.done_count += 1
            if subscription.done_count >= every:
                subscription.write_done()

    def _sleep(self, backoff: Backoff, stop: threading.Event | None) -> bool:
        """Wait before the next poll. Returns False when polling is to end."""
        delay_s = backoff.next_delay(time.monotonic())
        return delay_s is not None and not (stop or self._open.closing).wait(delay_s)

    # Batches

    def read_batch(
        self,
        max_rows: int = MAX_BATCH_ROWS,
        max_bytes: int = MAX_BATCH_BYTES,
        columns: Sequence[str] | None = None,
    ) -> Batch | None:
        """The next messages as columns (``timestamp_ns``, ``length``, ``payload``, ``log``, ``marker``, ``offset``;
        ``None`` for all): at most ``max_rows``, with about ``max_bytes`` of payloads. ``None`` if no message is
        available now.

        pyarrow, polars, pandas and duckdb read it without a copy (:class:`everlog.core.batch.Batch`).
        """
        batch = self._open.read_ahead(max_rows, max_bytes, columns)
        self._open.mark_given(batch)
        return batch

    def read_payloads(self, max_rows: int = MAX_BATCH_ROWS) -> list[bytes]:
        """The payloads of the next messages; an empty list if no message is available now."""
        batch = self.read_batch(max_rows, columns=("payload",))
        return [] if batch is None else batch.to_list("payload")

    # Places

    @property
    def name(self) -> str:
        """The subscriber's name as printable text."""
        return printable(self._open.subscriber)

    @property
    def position(self) -> Address:
        """Address of the last message given; reading continues after it."""
        return self._open.position

    def seek(self, place: Place) -> None:
        """Continue after a message or an address. The checkpoint is unchanged. Number 0 of a segment is before its
        first message. Raises :class:`UsageError`."""
        self._open.seek(place)

    def checkpoint(self, place: Place | None = None) -> None:
        """Mark a message and all before it as consumed: by default the last one given, else ``place``, which may lie
        further back.

        Reading resumes after it when the subscriber is opened again. A crash leaves the old or the new checkpoint.
        Raises :class:`WriteFailed` and :class:`UsageError`.
        """
        self._open.checkpoint(place)

    def lag(self) -> Lag:
        """The backlog after the last message given. Reads the size of each segment; messages are not counted."""
        return self._open.lag()

    def close(self) -> None:
        """Close the files and end a loop in another thread. With ``checkpoint_every`` the checkpoint is written for
        consumed messages, which excludes the one just given. A session subscriber is removed. A second call does
        nothing."""
        self._open.close(is_clean=True)

    def __enter__(self) -> Self:
        self._open.check_open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close(is_clean=kind is None)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._open.storage.root!r}, {self.name!r})"
