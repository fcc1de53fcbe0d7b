"""Publications and subscriptions as programs use them: sending until it is accepted, polling in turn, closing while
others are at it."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from everlog.aeron import Aeron
from everlog.aeron.transport.client import (
    BackPressured,
    Closed,
    ExclusivePublication,
    Header,
    MessageColumns,
    NotConnected,
    Publication,
    Subscription,
    outcome_name,
)
from everlog.aeron.transport.client.publication import PublicationBase
from everlog.aeron.transport.memory.log_memory import LogMemory, set_active_term_count, set_is_connected
from everlog.errors import UsageError, WrongType
from everlog.kernel import PURE_PYTHON
from tests.aeron.transport.client.scripted_driver import SESSION_ID, LiveDriver, ScriptedDriver

LIMIT = 64 << 10


@pytest.fixture
def driver() -> ScriptedDriver:
    made = ScriptedDriver()
    made.grant_all()
    return made


@pytest.fixture(params=["concurrent", "exclusive"])
def add(request: pytest.FixtureRequest, driver: ScriptedDriver) -> Callable[[], Publication | ExclusivePublication]:
    aeron = driver.client()
    kind = aeron.add_publication if request.param == "concurrent" else aeron.add_exclusive_publication
    return lambda: kind("aeron:ipc", 10)


Add = Callable[[], Publication | ExclusivePublication]


def fill(publication: Publication | ExclusivePublication) -> int:
    """Offers until there is no more room; how many."""
    count = 0
    while publication.offer(bytes(992)) > 0:
        count += 1
    return count


def connect(publication: PublicationBase) -> None:
    """As if a subscriber were there."""
    assert publication.log is not None
    set_is_connected(publication.log.metadata, True)


def test_sending_gives_the_position_and_keeps_the_reserved_value(add: Add) -> None:
    publication = add()
    assert publication.send(b"x" * 33, reserved_value=7) == 96
    assert publication.log is not None
    assert publication.log.terms[0].get_i64(24) == 7


def test_a_message_that_is_not_bytes_is_a_wrong_type(add: Add) -> None:
    publication = add()
    with pytest.raises(WrongType, match="message must be bytes, not str"):
        publication.send("x")  # type: ignore[arg-type]
    with pytest.raises(WrongType, match="message must be bytes, not int") as caught:
        publication.send_many([b"x", 5])  # type: ignore[list-item]
    assert caught.value.appended in (0, 1)


def test_sending_into_the_void_says_so_in_time(add: Add) -> None:
    publication = add()
    # 64 messages of 1024 bytes with their headers are what the driver's limit allows.
    assert fill(publication) == 64
    began = time.monotonic()
    with pytest.raises(NotConnected, match=r"no subscriber within 0\.05 s"):
        publication.send(b"x", timeout_s=0.05)
    assert 0.05 <= time.monotonic() - began < 2


def test_sending_to_who_does_not_read_says_so_in_time_and_how_many_went(add: Add) -> None:
    publication = add()
    connect(publication)
    with pytest.raises(BackPressured, match=r"BACK_PRESSURED for 0\.05 s") as caught:
        publication.send_many([bytes(992)] * 70, timeout_s=0.05)
    assert caught.value.appended == 64
    assert publication.position == LIMIT


def test_sending_into_a_log_that_never_gets_to_its_next_term_ends_in_time(driver: ScriptedDriver) -> None:
    publication = driver.client().add_publication("aeron:ipc", 10)
    connect(publication)
    assert publication.log is not None
    set_active_term_count(publication.log.metadata, 3)  # the tail of that term is of the first one
    began = time.monotonic()
    with pytest.raises(BackPressured, match=r"ADMIN_ACTION for 0\.05 s"):
        publication.send(b"x", timeout_s=0.05)
    assert 0.05 <= time.monotonic() - began < 2


def test_what_can_never_be_sent_is_refused_at_once(add: Add) -> None:
    publication = add()
    with pytest.raises(UsageError):
        publication.send(bytes(publication.max_message_length + 1))


def test_sending_many_goes_over_the_ends_of_terms(driver: ScriptedDriver) -> None:
    publication = driver.client().add_exclusive_publication("aeron:ipc", 10)
    driver.counters.counter(0).set_release(3 * LIMIT)
    publication.send_many([bytes(1000)] * 100)
    # Frames of 1056 bytes: 62 fit into a term of 64 KiB.
    assert publication.position == LIMIT + 38 * 1056


def test_results_of_offers_have_names() -> None:
    assert [outcome_name(code) for code in (0, 96, -1, -2, -3, -4, -5, -6)] == [
        "NONE",
        "NONE",
        "NOT_CONNECTED",
        "BACK_PRESSURED",
        "ADMIN_ACTION",
        "CLOSED",
        "MAX_POSITION_EXCEEDED",
        "UNKNOWN",
    ]


def test_publications_and_subscriptions_say_what_they_are(add: Add, driver: ScriptedDriver) -> None:
    publication = add()
    kind = type(publication).__name__
    assert repr(publication) == f"<{kind} aeron:ipc stream 10 session {SESSION_ID}: open>"
    publication.close()
    assert repr(publication) == f"<{kind} aeron:ipc stream 10 session {SESSION_ID}: closed>"


class PolledTransport:
    """A subscription with images of logs that a test fills."""

    def __init__(self, driver: ScriptedDriver, count: int) -> None:
        aeron = driver.client()
        self.subscription: Subscription = aeron.add_subscription("aeron:ipc", 10)
        self.sources: list[ExclusivePublication] = []
        for number in range(count):
            publication = aeron.add_exclusive_publication("aeron:ipc", 10)
            self.sources.append(publication)
            name = next(name for name, log in driver.logs.items() if log is publication.log)
            driver.show_image(self.subscription.registration_id, 100 + number, name)
        aeron.do_work()
        assert len(self.subscription.images) == count


def test_images_are_polled_in_turn_so_that_none_waits_for_ever(driver: ScriptedDriver) -> None:
    heard = PolledTransport(driver, 3)
    for number, source in enumerate(heard.sources):
        source.send_many([bytes([number])] * 4)
    got: list[bytes] = []
    for _ in range(3):
        assert heard.subscription.poll(lambda payload, _: got.append(payload), 2) == 2
    assert sorted(got) == [b"\0", b"\0", b"\1", b"\1", b"\2", b"\2"]
    assert heard.subscription.poll(lambda payload, _: got.append(payload), 100) == 6
    assert heard.subscription.poll(lambda payload, _: got.append(payload), 100) == 0


def test_a_batch_is_of_one_image_and_the_next_of_another(driver: ScriptedDriver) -> None:
    heard = PolledTransport(driver, 2)
    for number, source in enumerate(heard.sources):
        source.send_many([bytes([number])] * 4)
    batches = [heard.subscription.poll_batch(), heard.subscription.poll_batch()]
    payloads = [batch.to_list("payload") for batch in batches if batch is not None]
    assert sorted(payloads) == [[b"\0"] * 4, [b"\1"] * 4]
    assert heard.subscription.poll_batch() is None
    columns = MessageColumns()
    heard.sources[0].send(b"more")
    assert heard.subscription.poll_columns(columns) == 1
    assert bytes(columns.data) == b"more"


def test_columns_are_empty_once_there_is_no_image(driver: ScriptedDriver) -> None:
    heard = PolledTransport(driver, 1)
    columns = MessageColumns()
    heard.sources[0].send(b"once")
    assert heard.subscription.poll_columns(columns) == 1
    kept = columns.data
    heard.subscription.close()
    assert heard.subscription.poll_columns(columns) == 0
    assert (columns.row_count, columns.to_list(), bytes(kept)) == (0, [], b"once")


def test_an_asyncio_loop_that_is_left_loses_no_message(driver: ScriptedDriver) -> None:
    heard = PolledTransport(driver, 1)
    (source,) = heard.sources
    long = bytes(range(256)) * 12
    source.send_many([b"1", b"2", long])

    async def read(count: int) -> list[bytes]:
        got: list[bytes] = []
        async for payload, _ in heard.subscription.messages():
            got.append(payload)
            if len(got) == count:
                break
        return got

    assert asyncio.run(read(1)) == [b"1"]
    assert asyncio.run(asyncio.wait_for(read(1), 5)) == [b"2"]
    source.send(b"4")
    assert asyncio.run(asyncio.wait_for(read(2), 5)) == [long, b"4"]


def test_an_asyncio_loop_that_is_left_amid_a_message_goes_on_with_it(driver: ScriptedDriver) -> None:
    heard = PolledTransport(driver, 1)
    long = bytes(range(256)) * 12
    heard.sources[0].send_many([b"1", long])
    source_log = heard.sources[0].log
    assert source_log is not None
    last = 64 + 2 * 1408  # of the fragments' offsets
    length = source_log.terms[0].get_i32(last)
    source_log.terms[0].put_i32(last, 0)

    async def first() -> bytes:
        async for payload, _ in heard.subscription.messages():
            return payload
        return b""

    assert asyncio.run(first()) == b"1"
    source_log.terms[0].put_i32(last, length)
    assert asyncio.run(asyncio.wait_for(first(), 5)) == long


def test_half_a_message_of_an_image_that_has_gone_is_forgotten(driver: ScriptedDriver) -> None:
    heard = PolledTransport(driver, 1)
    long = bytes(range(256)) * 12
    heard.sources[0].send_many([long, b"behind it"])
    source_log = heard.sources[0].log
    assert source_log is not None
    source_log.terms[0].put_i32(2 * 1408, 0)

    async def read() -> list[bytes]:
        got: list[bytes] = []
        async for payload, _ in heard.subscription.messages():
            got.append(payload)
        return got

    async def main() -> list[bytes]:
        reading = asyncio.create_task(read())
        await asyncio.sleep(0.05)
        (image,) = heard.subscription.images
        assert image.position == 2 * 1408
        heard.subscription.remove_image(image.correlation_id)
        heard.subscription.close()
        return await reading

    assert asyncio.run(main()) == []
    assert not heard.subscription._assembler.free_session_buffer(SESSION_ID), "it was freed before"


def test_an_asyncio_program_sends_and_reads_without_standing_still(driver: ScriptedDriver) -> None:
    heard = PolledTransport(driver, 1)
    (source,) = heard.sources
    long = bytes(range(256)) * 12
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while not heard.subscription.is_closed:
            ticks += 1
            await asyncio.sleep(0)

    async def read() -> list[bytes]:
        got: list[bytes] = []
        async for payload, header in heard.subscription.messages():
            got.append(payload)
            assert header.session_id == SESSION_ID
            if len(got) == 3:
                heard.subscription.close()
        return got

    async def main() -> list[bytes]:
        ticking, reading = asyncio.create_task(tick()), asyncio.create_task(read())
        for payload in (b"1", long, b"3"):
            await source.async_send(payload)
            await asyncio.sleep(0.002)
        await ticking
        fill(source)
        with pytest.raises(NotConnected):
            await source.async_send(bytes(2000), timeout_s=0.02)
        return await reading

    assert asyncio.run(main()) == [b"1", long, b"3"]
    assert ticks > 3


def test_an_error_of_a_handlers_goes_through_and_its_message_is_read(driver: ScriptedDriver) -> None:
    heard = PolledTransport(driver, 1)
    heard.sources[0].send_many([b"1", b"2"])

    def fail(payload: bytes, header: Header) -> None:
        raise KeyError(payload)

    with pytest.raises(KeyError, match="1"):
        heard.subscription.poll(fail)
    got: list[bytes] = []
    heard.subscription.poll(lambda payload, _: got.append(payload))
    assert got == [b"2"]


@pytest.fixture
def live(tmp_path: Path) -> Iterator[LiveDriver]:
    driver = LiveDriver(tmp_path)
    with driver:
        yield driver


@pytest.mark.skipif(PURE_PYTHON, reason="the twins in Python are not for many threads; built without a C compiler")
def test_what_is_closed_while_threads_use_it_ends_without_harm(live: LiveDriver, tmp_path: Path) -> None:
    problems: list[BaseException] = []

    def until_closed(call: Callable[[], object]) -> None:
        try:
            while not publication.is_closed or not subscription.is_closed:
                call()
        except Closed:
            pass
        except BaseException as error:
            problems.append(error)

    for number in range(8):
        with Aeron.connect(tmp_path) as aeron:
            publication = aeron.add_publication("aeron:ipc", 10)
            subscription = aeron.add_subscription("aeron:ipc", 10)
            name = str(tmp_path / str(publication.registration_id))
            position = live.scripted.show_image(subscription.registration_id, 1000 + number, name)
            limit = next(counter for counter in aeron.counters if counter.type_id == 1)
            columns = MessageColumns()
            calls: list[Callable[[], object]] = [
                lambda publication=publication: publication.offer_many([b"x" * 50] * 20),
                lambda publication=publication: publication.offer(b"x" * 50),
                lambda subscription=subscription, columns=columns: subscription.poll_columns(columns),
            ]
            threads = [threading.Thread(target=until_closed, args=(call,)) for call in calls]
            for thread in threads:
                thread.start()
            time.sleep(0.003)
        for thread in threads:
            thread.join(10)
        assert not any(thread.is_alive() for thread in threads)
        live.scripted.counters.free(limit.counter_id, 0)
        live.scripted.counters.free(position.id, 0)
    assert problems == []


def test_a_log_is_let_go_when_the_last_who_uses_it_is_closed(driver: ScriptedDriver) -> None:
    heard = PolledTransport(driver, 1)
    (name,) = driver.logs
    seen: weakref.ref[LogMemory] = weakref.ref(driver.logs.pop(name))
    heard.sources[0].close()
    gc.collect()
    assert seen() is not None
    heard.subscription.close()
    gc.collect()
    assert seen() is None
