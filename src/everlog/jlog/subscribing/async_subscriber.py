"""A subscriber for asyncio: as :class:`everlog.jlog.subscribing.subscriber.Subscriber`, with its work on files in
threads.

Every decision is made by :class:`everlog.jlog.subscribing.subscription.Subscription`, as it is there. A call that is
cancelled loses nothing: what its thread has read stays to be given."""

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
from everlog.jlog.subscribing.subscription import Place, Subscription
from everlog.jlog.subscribing.waiting import Waiting
from everlog.jlog.writing.opening import JournalPath


class _Opening:
    """One that is being opened in a thread, and how many tasks wait for it."""

    def __init__(self, make: Callable[[], Subscription]) -> None:
        self.future = asyncio.ensure_future(asyncio.to_thread(make))
        self.waiting_count = 0


class AsyncSubscriber:
    """A subscriber of a journal, for ``async with``, which opens and closes it; ``await subscriber.open()`` does too.

    Arguments, meanings and errors are those of :class:`everlog.jlog.subscribing.subscriber.Subscriber`. One task at a
    time reads."""

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
        self._make = partial(
            Subscription, journal, name, create=create, checkpoint_every=checkpoint_every, sync=sync, on_fault=on_fault
        )
        self._subscription: Subscription | None = None
        self._opening: _Opening | None = None

    async def open(self) -> Self:
        """Open it, if it is not. Tasks that do so at the same time wait for the same opening; it goes on until the last
        of them is cancelled."""
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
        return self

    @property
    def _opened(self) -> Subscription:
        if self._subscription is None:
            raise UsageError("subscriber", found="one that is not open", expected="'async with', or 'await open()'")
        return self._subscription

    def __aiter__(self) -> AsyncIterator[Message]:
        """As :meth:`everlog.jlog.subscribing.subscriber.Subscriber.__iter__`."""
        self._opened.check_open()
        return self._give(None)

    def follow(self, timeout: float | None = None) -> AsyncIterator[Message]:
        """As :meth:`everlog.jlog.subscribing.subscriber.Subscriber.follow`. Cancelling the task ends it, too."""
        self._opened.check_open()
        return self._give(Waiting(timeout))

    async def _give(self, waiting: Waiting | None) -> AsyncIterator[Message]:
        subscription = self._opened
        while True:
            if subscription.ask_next():
                await asyncio.to_thread(subscription.write_done)
            for message in subscription.waiting:
                subscription.last = message
                yield message
                if subscription.ask_next():
                    await asyncio.to_thread(subscription.write_done)
            if await asyncio.to_thread(subscription.read_messages):
                if waiting is not None:
                    waiting.found()
            elif waiting is None or subscription.is_closed:
                return
            else:
                delay_s = waiting.nothing(time.monotonic())
                if delay_s is None:
                    return
                await asyncio.sleep(delay_s)

    async def read_batch(
        self,
        max_rows: int = MAX_BATCH_ROWS,
        max_bytes: int = MAX_BATCH_BYTES,
        columns: Sequence[str] | None = None,
    ) -> Batch | None:
        """As :meth:`everlog.jlog.subscribing.subscriber.Subscriber.read_batch`."""
        subscription = self._opened
        batch = await asyncio.to_thread(subscription.read_ahead, max_rows, max_bytes, columns)
        subscription.hand_out(batch)
        return batch

    async def read_payloads(self, max_rows: int = MAX_BATCH_ROWS) -> list[bytes]:
        """As :meth:`everlog.jlog.subscribing.subscriber.Subscriber.read_payloads`."""
        batch = await self.read_batch(max_rows, columns=("payload",))
        return [] if batch is None else batch.to_list("payload")

    async def checkpoint(self, place: Place | None = None) -> None:
        """As :meth:`everlog.jlog.subscribing.subscriber.Subscriber.checkpoint`; the last message given is that of the
        moment of the call."""
        subscription = self._opened
        await asyncio.to_thread(subscription.checkpoint, subscription.position if place is None else place)

    async def seek(self, place: Place) -> None:
        """As :meth:`everlog.jlog.subscribing.subscriber.Subscriber.seek`."""
        await asyncio.to_thread(self._opened.seek, place)

    async def lag(self) -> Lag:
        """As :meth:`everlog.jlog.subscribing.subscriber.Subscriber.lag`."""
        return await asyncio.to_thread(self._opened.lag)

    @property
    def position(self) -> Address:
        """As :attr:`everlog.jlog.subscribing.subscriber.Subscriber.position`."""
        return self._opened.position

    async def close(self, *, is_clean: bool = True) -> None:
        """As :meth:`everlog.jlog.subscribing.subscriber.Subscriber.close`."""
        if self._subscription is not None:
            await asyncio.shield(asyncio.to_thread(self._subscription.close, is_clean=is_clean))

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close(is_clean=kind is None)


def _close_opened(opening: asyncio.Future[Subscription]) -> None:
    """Of an ``open`` that every task has given up."""
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close(is_clean=False)
