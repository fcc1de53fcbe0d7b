"""A driver that says what no driver says: the client goes on, or ends with a clear error; it touches nothing that is
not its own."""

from __future__ import annotations

import contextlib
import random

import pytest

from everlog.aeron import Aeron
from everlog.aeron.transport.format.layouts import CounterMetaData, RingBufferTrailer
from everlog.aeron.transport.protocol.commands import (
    DriverMessage,
    OnAvailableImage,
    OnClientTimeout,
    OnCounterReady,
    OnError,
    OnExclusivePublicationReady,
    OnNextAvailableSessionId,
    OnOperationSuccess,
    OnPublicationError,
    OnPublicationReady,
    OnStaticCounter,
    OnSubscriptionReady,
    OnUnavailableCounter,
    OnUnavailableImage,
    encode,
)
from everlog.errors import CorruptData, EverlogError
from tests.aeron.transport.client.scripted_driver import SESSION_ID, ScriptedDriver

IDS = (0, 1, 2, 3, 4, 5, 6, -1, 1 << 40, -(1 << 63))
COUNTERS = (0, 1, 2, -1, 63, 64, 1 << 30, -(1 << 31))


def any_event(chance: random.Random) -> DriverMessage:
    """One whose numbers are often those that count."""
    one, two, counter = chance.choice(IDS), chance.choice(IDS), chance.choice(COUNTERS)
    log = chance.choice(("log", "", "gone", "x" * 300))
    kinds: tuple[DriverMessage, ...] = (
        OnError(one, chance.choice((0, 1, 4, 11, 99, -5)), "words"),
        OnAvailableImage(one, SESSION_ID, 10, two, counter, log, "somewhere"),
        OnUnavailableImage(one, two, 10, "aeron:ipc"),
        OnPublicationReady(one, two, SESSION_ID, 10, counter, counter, log),
        OnExclusivePublicationReady(one, two, SESSION_ID, 10, counter, counter, log),
        OnSubscriptionReady(one, counter),
        OnCounterReady(one, counter),
        OnStaticCounter(one, counter),
        OnUnavailableCounter(one, counter),
        OnOperationSuccess(one),
        OnNextAvailableSessionId(one, counter),
        OnPublicationError(one, two, 1, 2, 3, 4, ("127.0.0.1", 5), 13, "no"),
        OnClientTimeout(chance.choice((99, 98, -1))),
    )
    return chance.choice(kinds)


def use(aeron: Aeron, chance: random.Random, held: list[object]) -> None:
    """Whatever a program does."""
    ask = (
        lambda: aeron.async_add_publication("aeron:ipc", 10),
        lambda: aeron.async_add_exclusive_publication("aeron:ipc", 10),
        lambda: aeron.async_add_subscription("aeron:ipc", 10),
        lambda: aeron.async_add_counter(1001, "x"),
        lambda: aeron.async_add_static_counter(1001, "x", 1),
    )
    held.append(chance.choice(ask)())
    registration = chance.choice(held)
    if getattr(registration, "done", False):
        thing = registration.result()  # type: ignore[attr-defined]
        for name in ("channel_status", "local_socket_addresses", "is_connected", "images", "value"):
            getattr(thing, name, None)
        if hasattr(thing, "poll"):
            thing.poll(lambda payload, header: None)
            thing.poll_batch()
        if hasattr(thing, "offer"):
            thing.offer(b"x")
        if chance.random() < 0.3:
            thing.close()


@pytest.mark.parametrize("seed", range(40))
def test_events_that_make_no_sense_do_no_harm(seed: int) -> None:
    chance = random.Random(seed)
    driver = ScriptedDriver()
    driver.add_log("log", 10)
    for _ in range(3):
        driver.add_counter(4, value=chance.choice((0, 64, 63, -1, 1 << 40)))
    errors: list[BaseException] = []
    aeron = driver.client(on_error=errors.append)
    held: list[object] = []
    for _ in range(100):
        with contextlib.suppress(EverlogError):
            use(aeron, chance, held)
        driver.heard()
        type_id, data = encode(any_event(chance))
        if chance.random() < 0.3:
            damaged = bytearray(data)
            damaged[chance.randrange(len(damaged))] ^= 1 << chance.randrange(8)
            data = bytes(damaged[: chance.randrange(len(damaged) + 1)])
        driver.broadcast.transmit(type_id, data)
        aeron.do_work()
        driver.pass_ms(chance.choice((0, 1, 300)))
    assert all(isinstance(error, EverlogError) for error in errors)
    aeron.close()


@pytest.mark.parametrize("seed", range(40))
def test_a_buffer_of_rubbish_ends_the_client_or_leaves_it_alone(seed: int) -> None:
    chance = random.Random(seed)
    driver = ScriptedDriver()
    errors: list[BaseException] = []
    aeron = driver.client(on_error=errors.append)
    memory = driver.memory.to_clients
    for _ in range(20):
        memory.write(8 * chance.randrange(512), chance.randbytes(8))
        if chance.random() < 0.3:
            # The trailer: intent, tail and latest.
            memory.write(4096 + 8 * chance.randrange(3), chance.randrange(1 << 16).to_bytes(8, "little"))
        aeron.do_work()
    assert all(isinstance(error, EverlogError) for error in errors)


@pytest.mark.parametrize("tail", [3, -8, (1 << 63) - 8])
def test_a_damaged_command_buffer_ends_the_client_and_nobody_who_closes(tail: int) -> None:
    driver = ScriptedDriver()
    driver.grant_all()
    errors: list[BaseException] = []
    aeron = driver.client(on_error=errors.append)
    publication, other = aeron.add_publication("aeron:ipc", 10), aeron.add_publication("aeron:ipc", 11)
    driver.memory.to_driver.put_i64(4096 + RingBufferTrailer.field("tail_position").offset, tail)
    publication.close()
    assert not aeron.is_closed
    aeron.do_work()
    assert isinstance(aeron.failure, CorruptData)
    assert errors == [aeron.failure]
    assert other.is_closed
    aeron.close()
    with pytest.raises(CorruptData, match=f"tail {tail}"):
        aeron.add_publication("aeron:ipc", 10)


@pytest.mark.parametrize("seed", range(20))
def test_counters_of_rubbish_are_read_as_far_as_they_go(seed: int) -> None:
    chance = random.Random(seed)
    driver = ScriptedDriver()
    for number in range(20):
        driver.add_counter(chance.choice((0, 4, 7, 11, 14)), chance.randbytes(112), "label", number)
    metadata = driver.memory.counters_metadata
    for _ in range(30):
        at = chance.randrange(20) * CounterMetaData.size
        field = CounterMetaData.field(chance.choice(("type_id", "label_length", "state")))
        metadata.write(at + field.offset, chance.choice((chance.randbytes(4), b"\1\0\0\0", b"\xff\xff\xff\xff")))
    aeron = driver.client()
    counters = aeron.counters
    assert len(list(counters)) <= 20
    assert isinstance(counters.local_socket_addresses(1), list)
    for counter_id in range(20):
        counters.append_to_label(counter_id, "x" * 500)
    assert metadata.get_i32(20 * CounterMetaData.size) == 0
    aeron.async_add_counter(1001, "x")
    aeron.do_work()
