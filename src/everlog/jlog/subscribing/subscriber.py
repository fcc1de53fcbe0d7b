"""Reading a journal as one of its subscribers: at least once, and on from where it was when it is opened again.

What a subscriber is done with is said by its checkpoint, and the checkpoint moves only when it is told to. A crash, an
exception, or leaving a loop early leaves it where it was: the messages behind it are given again.
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
from everlog.jlog.subscribing.subscription import Place, Subscription
from everlog.jlog.subscribing.waiting import Waiting
from everlog.jlog.writing.opening import JournalPath

if TYPE_CHECKING:
    from everlog.jlog.monitoring.lag import Lag


class Subscriber:
    """A subscriber of a journal, open for reading.

    ``create``: ``"beginning"`` or ``"end"`` adds the subscriber there if there is none. Names that begin with ``~`` are
    for a session: added when opened, at the end unless ``create`` says otherwise, and removed by :meth:`close`.
    ``checkpoint_every``: so many messages done write the checkpoint; a message is done when the next one is asked for.
    ``sync``: checkpoints are on disk when written, as always in a journal with safety ``safe``. ``on_fault`` gets the
    damage that reading steps over; when it raises, the damage comes again at the next reading.

    One thread at a time reads; any thread may call :meth:`close`. In a forked child the files are opened anew.

    Raises :class:`UnknownSubscriber`, :class:`SubscriberExists` (a session that a process has open),
    :class:`NotAStore`, :class:`CorruptData`, :class:`StoreUnavailable`, :class:`UsageError`.

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
        create: str | None = None,
        checkpoint_every: int | None = None,
        sync: bool = False,
        on_fault: Callable[[Fault], None] | None = None,
    ) -> None:
        self._open = Subscription(
            journal, name, create=create, checkpoint_every=checkpoint_every, sync=sync, on_fault=on_fault
        )

    # Messages

    def __iter__(self) -> Iterator[Message]:
        """The messages there are now, one by one. A further loop goes on behind the last message given."""
        self._open.check_open()
        return self._give(None, None)

    def follow(self, timeout: float | None = None, stop: threading.Event | None = None) -> Iterator[Message]:
        """The messages there are, and those to come. Ends when none came for ``timeout`` seconds (``None``: never),
        when ``stop`` is set (looked at while nothing comes), or by :meth:`close`."""
        self._open.check_open()
        return self._give(Waiting(timeout), stop)

    def _give(self, waiting: Waiting | None, stop: threading.Event | None) -> Iterator[Message]:
        subscription = self._open
        while True:
            if subscription.every is None:
                for message in subscription.waiting:
                    subscription.last = message
                    yield message
            else:
                yield from self._give_counted(subscription.every)
            if subscription.read_messages():
                if waiting is not None:
                    waiting.found()
            elif waiting is None or subscription.is_closed or not self._sleep(waiting, stop):
                return

    def _give_counted(self, every: int) -> Iterator[Message]:
        """With ``checkpoint_every``: a message is done when the generator goes on behind its ``yield``."""
        subscription = self._open
        if subscription.ask_next():
            subscription.write_done()
        for message in subscription.waiting:
            subscription.last = message
            yield message
            if subscription.last is not message:  # sought elsewhere, or a batch was read, with the message in hand
                continue
            subscription.done = message
            subscription.done_count += 1
            if subscription.done_count >= every:
                subscription.write_done()

    def _sleep(self, waiting: Waiting, stop: threading.Event | None) -> bool:
        """Whether to look again."""
        delay_s = waiting.nothing(time.monotonic())
        return delay_s is not None and not (stop or self._open.closing).wait(delay_s)

    # Batches

    def read_batch(
        self,
        max_rows: int = MAX_BATCH_ROWS,
        max_bytes: int = MAX_BATCH_BYTES,
        columns: Sequence[str] | None = None,
    ) -> Batch | None:
        """The next messages, column by column (``timestamp_ns``, ``length``, ``payload``, ``log``, ``marker``,
        ``offset``; all for ``None``): at most ``max_rows``, with payloads of about ``max_bytes``; ``None`` when there
        are none now.

        pyarrow, polars, pandas or duckdb take it without a copy (:class:`everlog.core.batch.Batch`).
        """
        batch = self._open.read_ahead(max_rows, max_bytes, columns)
        self._open.hand_out(batch)
        return batch

    def read_payloads(self, max_rows: int = MAX_BATCH_ROWS) -> list[bytes]:
        """The payloads of the next messages; none when there are none now."""
        batch = self.read_batch(max_rows, columns=("payload",))
        return [] if batch is None else batch.to_list("payload")

    # Places

    @property
    def name(self) -> str:
        """The subscriber's name, printable."""
        return printable(self._open.subscriber)

    @property
    def position(self) -> Address:
        """Of the last message that was given; reading goes on behind it."""
        return self._open.position

    def seek(self, place: Place) -> None:
        """Go on behind a message or an address, as from a checkpoint there. The checkpoint stays. Number 0 of a segment
        is before its first message. Raises :class:`UsageError`."""
        self._open.seek(place)

    def checkpoint(self, place: Place | None = None) -> None:
        """Say that a message and all before it are done: the last one that was given, or any other, one further back
        too.

        The next one to open the subscriber begins behind it. A crash leaves the old checkpoint or the new one. Raises
        :class:`WriteFailed`, :class:`UsageError`.
        """
        self._open.checkpoint(place)

    def lag(self) -> Lag:
        """What waits behind the last message given. Looks at the size of each segment; messages are not counted."""
        return self._open.lag()

    def close(self) -> None:
        """Give the files back; a loop in another thread ends. With ``checkpoint_every`` the checkpoint is written for
        the messages that are done; the one in hand is not. A session's subscriber is removed. A second call does
        nothing."""
        self._open.close(is_clean=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close(is_clean=kind is None)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._open.storage.root!r}, {self.name!r})"
