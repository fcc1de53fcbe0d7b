"""A subscriber for asyncio. Same as :class:`everlog.jlog.subscribing.subscriber.Subscriber`, with file access in
threads.

All decisions are made by :class:`everlog.jlog.subscribing.subscription.Subscription`. Cancelling a call loses nothing:
messages that its thread has read are returned by the next call.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from types import TracebackType
from typing import Self

from everlog.core.batch import Batch
from everlog.core.columns import MAX_BATCH_BYTES, MAX_BATCH_ROWS
from everlog.core.report import Fault
from everlog.errors import UsageError
from everlog.jlog.format.addresses import Address
from everlog.jlog.format.message import Message
from everlog.jlog.monitoring.lag import Lag
from everlog.jlog.options import StartPlace
from everlog.jlog.subscribing.backoff import Backoff
from everlog.jlog.subscribing.subscription import Place, Subscription
from everlog.jlog.writing.opening import JournalPath


class _Opening:
    """A subscription that a thread is opening, and the number of tasks waiting for it."""

    def __init__(self, make: Callable[[], Subscription]) -> None:
        self.future = asyncio.ensure_future(asyncio.to_thread(make))
        self.waiting_count = 0


class AsyncSubscriber:
    """A subscriber of a journal, opened and closed by ``async with``, or opened by ``await subscriber.open()``.

    Arguments and errors are those of :class:`everlog.jlog.subscribing.subscriber.Subscriber`. One task reads at a time.
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
        self._make = partial(
            Subscription, journal, name, create=create, checkpoint_every=checkpoint_every, sync=sync, on_fault=on_fault
        )
        self._subscription: Subscription | None = None
        self._opening: _Opening | None = None

    async def open(self) -> Self:
        """Open the subscriber if it is not open. Concurrent calls share one opening, which continues until the last of
        them is cancelled. Raises :class:`Closed` after :meth:`close`."""
        if self._subscription is None:
            opening = self._opening
            if opening is None:
                opening = self._opening = _Opening(self._make)
            opening.waiting_count += 1
            try:
                self._subscription = await asyncio.shield(opening.future)
            except BaseException as error:
                is_last = opening.waiting_count == 1 or not isinstance(error, asyncio.CancelledError)
                if is_last and self._opening is opening and self._subscription is None:
                    self._opening = None
                    opening.future.add_done_callback(_close_opened)
                raise
            finally:
                opening.waiting_count -= 1
        self._opened.check_open()
        return self

    @property
    def _opened(self) -> Subscription:
        if self._subscription is None:
            raise UsageError(
                "subscriber",
                found="not open",
                hint="use 'async with' or 'await subscriber.open()'",
                message="subscriber is not open",
            )
        return self._subscription

    def __aiter__(self) -> AsyncIterator[Message]:
        """The messages available now, one by one. A later loop continues after the last message given."""
        self._opened.check_open()
        return self._give(None)

    def follow(self, timeout_s: float | None = None) -> AsyncIterator[Message]:
        """See :meth:`everlog.jlog.subscribing.subscriber.Subscriber.follow`. Cancelling the task ends it too."""
        self._opened.check_open()
        return self._give(Backoff(timeout_s))

    async def _give(self, backoff: Backoff | None) -> AsyncIterator[Message]:
        subscription = self._opened
        while True:
            if subscription.finish_given():
                await asyncio.to_thread(subscription.write_done)
            for message in subscription.waiting:
                subscription.last = message
                yield message
                if subscription.finish_given():
                    await asyncio.to_thread(subscription.write_done)
            if await asyncio.to_thread(subscription.read_messages):
                if backoff is not None:
                    backoff.reset()
            elif backoff is None or subscription.is_closed:
                return
            else:
                delay_s = backoff.next_delay(time.monotonic())
                if delay_s is None:
                    return
                await asyncio.sleep(delay_s)

    async def read_batch(
        self,
        max_rows: int = MAX_BATCH_ROWS,
        max_bytes: int = MAX_BATCH_BYTES,
        columns: Sequence[str] | None = None,
    ) -> Batch | None:
        """The next messages as columns; ``None`` if there are none. See
        :meth:`everlog.jlog.subscribing.subscriber.Subscriber.read_batch`."""
        subscription = self._opened
        batch = await asyncio.to_thread(subscription.read_ahead, max_rows, max_bytes, columns)
        subscription.mark_given(batch)
        return batch

    async def read_payloads(self, max_rows: int = MAX_BATCH_ROWS) -> list[bytes]:
        """Read the payloads of up to ``max_rows`` messages; an empty list if there are none."""
        batch = await self.read_batch(max_rows, columns=("payload",))
        return [] if batch is None else batch.to_list("payload")

    async def checkpoint(self, place: Place | None = None) -> None:
        """See :meth:`everlog.jlog.subscribing.subscriber.Subscriber.checkpoint`. The default is the last message given
        at the time of the call."""
        subscription = self._opened
        await asyncio.to_thread(subscription.checkpoint, subscription.position if place is None else place)

    async def seek(self, place: Place) -> None:
        """Continue after a message or an address. The checkpoint is unchanged."""
        await asyncio.to_thread(self._opened.seek, place)

    async def lag(self) -> Lag:
        """The backlog after the last message given."""
        return await asyncio.to_thread(self._opened.lag)

    @property
    def position(self) -> Address:
        """The address of the last message given."""
        return self._opened.position

    async def close(self, *, is_clean: bool = True) -> None:
        """See :meth:`everlog.jlog.subscribing.subscriber.Subscriber.close`. ``is_clean=False`` writes no checkpoint."""
        if self._subscription is not None:
            await asyncio.shield(asyncio.to_thread(self._subscription.close, is_clean=is_clean))

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close(is_clean=kind is None)


def _close_opened(opening: asyncio.Future[Subscription]) -> None:
    """Close a subscription whose ``open`` was cancelled by every task."""
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close(is_clean=False)
