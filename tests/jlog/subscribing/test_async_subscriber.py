"""The subscriber for asyncio: the same messages and checkpoints, and nothing lost by being cancelled."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Coroutine
from typing import Any

import pytest

from everlog.errors import Closed, UnknownSubscriber, UsageError
from everlog.jlog.format.addresses import Address
from everlog.jlog.subscribing import async_subscriber, subscription
from everlog.jlog.subscribing.async_subscriber import AsyncSubscriber
from everlog.jlog.subscribing.subscription import Subscription


@pytest.fixture
def ten(by_hand):
    """Ten messages, m0 to m9; subscriber x has had none."""
    by_hand.segments([b"m%d" % i for i in range(10)])
    by_hand.put_checkpoint(b"x", 0, 0)
    return by_hand


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(asyncio.wait_for(work, 30))


ALL = [b"m%d" % i for i in range(10)]


def test_a_loop_gives_all_and_checkpoints_what_it_is_told(ten):
    async def work():
        async with AsyncSubscriber(ten.path, "x") as subscriber:
            got = []
            async for message in subscriber:
                got.append(message.payload)
                if message.payload == b"m3":
                    await subscriber.checkpoint()
            assert [message.payload async for message in subscriber] == []
            return got, subscriber.position

    assert run(work()) == (ALL, Address.of(0, 10))
    assert ten.checkpoint(b"x") == (0, 4)


def test_following_waits_without_blocking_the_loop_and_ends_after_the_timeout(ten):
    async def work():
        ticks = []

        async def tick():
            while True:
                ticks.append(1)
                await asyncio.sleep(0.005)

        ticking = asyncio.create_task(tick())
        asyncio.get_running_loop().call_later(0.1, ten.append, 0, b"late")
        async with AsyncSubscriber(ten.path, "x") as subscriber:
            got = [message.payload async for message in subscriber.follow(timeout_s=0.3)]
        ticking.cancel()
        return got, len(ticks)

    got, ticks = run(work())
    assert got == [*ALL, b"late"]
    assert ticks > 10


def test_batches_payloads_seek_and_lag(ten):
    async def work():
        async with AsyncSubscriber(ten.path, "x") as subscriber:
            batch = await subscriber.read_batch(max_rows=3, columns=["marker"])
            assert batch is not None
            assert batch.to_list("marker") == [1, 2, 3]
            assert await subscriber.read_payloads(2) == [b"m3", b"m4"]
            await subscriber.seek("0:8")
            assert (await subscriber.lag()).byte_count == 36
            assert await subscriber.read_payloads() == [b"m8", b"m9"]
            assert await subscriber.read_batch() is None
            await subscriber.checkpoint("0:2")

    run(work())
    assert ten.checkpoint(b"x") == (0, 2)


@pytest.mark.parametrize(("leave", "expected"), [("break", 3), ("raise", 2), ("end", 10)])
def test_checkpoint_every_is_as_without_asyncio(ten, leave, expected):
    async def work():
        async with AsyncSubscriber(ten.path, "x", checkpoint_every=2) as subscriber:
            async for message in subscriber:
                if message.payload == b"m3" and leave == "break":
                    break
                if message.payload == b"m3" and leave == "raise":
                    raise RuntimeError

    if leave == "raise":
        with pytest.raises(RuntimeError):
            run(work())
    else:
        run(work())
    assert ten.checkpoint(b"x") == (0, expected)


def test_a_batch_whose_reading_was_cancelled_is_read_again(ten, monkeypatch):
    begun, go = threading.Event(), threading.Event()
    read_ahead = Subscription.read_ahead

    def slowly(self, *arguments):
        begun.set()
        go.wait()
        return read_ahead(self, *arguments)

    async def work():
        async with AsyncSubscriber(ten.path, "x") as subscriber:
            monkeypatch.setattr(Subscription, "read_ahead", slowly)
            reading = asyncio.create_task(subscriber.read_batch(max_rows=4))
            await asyncio.to_thread(begun.wait)
            reading.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reading
            go.set()
            monkeypatch.setattr(Subscription, "read_ahead", read_ahead)
            assert subscriber.position == Address.of(0, 0)
            await asyncio.sleep(0.05)  # the thread has read its batch, which nobody gets
            await subscriber.checkpoint()
            assert ten.checkpoint(b"x") == (0, 0)
            return await subscriber.read_payloads()

    assert run(work()) == ALL


def test_a_loop_that_was_cancelled_while_it_read_is_gone_on_with(ten, monkeypatch):
    monkeypatch.setattr(subscription, "READ_AHEAD_ROWS", 3)
    begun, go = threading.Event(), threading.Event()
    read = Subscription._read

    def slowly(self, request):
        begun.set()
        go.wait()
        return read(self, request)

    async def work():
        async with AsyncSubscriber(ten.path, "x") as subscriber:

            async def loop():
                return [message.payload async for message in subscriber]

            monkeypatch.setattr(Subscription, "_read", slowly)
            reading = asyncio.create_task(loop())
            await asyncio.to_thread(begun.wait)
            reading.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reading
            monkeypatch.setattr(Subscription, "_read", read)
            asyncio.get_running_loop().call_later(0.05, go.set)  # reading waits for the thread, the event loop does not
            again = [message.payload async for message in subscriber]
            await asyncio.sleep(0.1)
            return again + [message.payload async for message in subscriber]

    assert run(work()) == ALL


def test_cancelling_a_task_that_follows_ends_it_at_once(ten):
    async def work():
        async with AsyncSubscriber(ten.path, "x") as subscriber:
            got = []

            async def follow():
                async for message in subscriber.follow():
                    got.append(message.payload)

            task = asyncio.create_task(follow())
            while len(got) < 10:
                await asyncio.sleep(0.001)
            began = time.monotonic()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert time.monotonic() - began < 1
            ten.append(0, b"more")
            return [message.payload async for message in subscriber]

    assert run(work()) == [b"more"]


def test_opening_can_fail_and_must_come_first(ten):
    async def work():
        with pytest.raises(UnknownSubscriber):
            async with AsyncSubscriber(ten.path, "nobody"):
                pass
        subscriber = AsyncSubscriber(ten.path, "x")
        with pytest.raises(UsageError, match="not open"):
            aiter(subscriber)
        with pytest.raises(UsageError, match="not open"):
            await subscriber.read_batch()
        await subscriber.close()
        await subscriber.open()
        assert await subscriber.read_payloads(1) == [b"m0"]
        await subscriber.close()
        with pytest.raises(Closed, match=r"^subscriber is closed$"):
            subscriber.follow()
        with pytest.raises(Closed):
            await subscriber.open()
        with pytest.raises(Closed):
            await subscriber.lag()

    run(work())


def slow_opening(monkeypatch):
    """Openings wait for ``go``; what they have opened."""
    go, opened = threading.Event(), []

    def slowly(*arguments, **options):
        go.wait(20)
        opened.append(Subscription(*arguments, **options))
        return opened[-1]

    monkeypatch.setattr(async_subscriber, "Subscription", slowly)
    return go, opened


def test_tasks_that_open_it_at_the_same_time_open_it_once(ten, monkeypatch):
    go, opened = slow_opening(monkeypatch)

    async def work():
        subscriber = AsyncSubscriber(ten.path, "x")
        tasks = [asyncio.create_task(subscriber.open()) for _ in range(3)]
        await asyncio.sleep(0)
        tasks[0].cancel()  # the others wait on
        await asyncio.sleep(0)
        go.set()
        assert await asyncio.gather(*tasks[1:]) == [subscriber, subscriber]
        assert [is_open.is_closed for is_open in opened] == [False]
        assert await subscriber.read_payloads() == ALL
        await subscriber.close()
        assert [is_open.is_closed for is_open in opened] == [True]

    run(work())


def test_what_nobody_waits_for_any_more_is_closed_and_can_be_opened_again(ten, monkeypatch):
    go, opened = slow_opening(monkeypatch)

    async def work():
        subscriber = AsyncSubscriber(ten.path, "x")
        tasks = [asyncio.create_task(subscriber.open()) for _ in range(2)]
        await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        assert all(
            isinstance(got, asyncio.CancelledError) for got in await asyncio.gather(*tasks, return_exceptions=True)
        )
        go.set()
        async with subscriber:
            while len(opened) < 2 or sum(is_open.is_closed for is_open in opened) < 1:
                await asyncio.sleep(0.001)
            assert await subscriber.read_payloads() == ALL
        assert [is_open.is_closed for is_open in opened] == [True, True]

    run(work())


def test_an_opening_that_failed_for_all_who_waited_is_tried_again(ten):
    async def work():
        subscriber = AsyncSubscriber(ten.path, "y")
        got = await asyncio.gather(subscriber.open(), subscriber.open(), return_exceptions=True)
        assert [type(error) for error in got] == [UnknownSubscriber] * 2
        ten.put_checkpoint(b"y", 0, 4)
        async with subscriber:
            return await subscriber.read_payloads()

    assert run(work()) == ALL[4:]


def test_a_loop_ends_when_another_task_closes_it_and_the_checkpoint_is_of_what_was_done(ten):
    async def work():
        subscriber = await AsyncSubscriber(ten.path, "x", checkpoint_every=1).open()
        got = []
        async for message in subscriber:
            got.append(message.payload)
            if len(got) == 3:
                await subscriber.close()
        return got

    assert run(work()) == ALL[:3]
    assert ten.checkpoint(b"x") == (0, 2)


def test_a_session_ends_with_it(ten):
    async def work():
        async with AsyncSubscriber(ten.path, "~s", create="beginning") as subscriber:
            assert "cp.7e73" in ten.names()
            return [message.payload async for message in subscriber]

    assert run(work()) == ALL
    assert "cp.7e73" not in ten.names()
