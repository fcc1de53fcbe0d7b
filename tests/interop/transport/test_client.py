"""Our client on the real media driver and on ours, in what only a client does: refusals, destinations, counters,
rejection, life and death. What is published and read between Java and us is in ``test_transport_ipc``."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pyarrow as pa
import pytest

from everlog.aeron import Aeron
from everlog.aeron.transport.client import (
    ClientTimeout,
    DriverTimeout,
    ErrorCode,
    FragmentAssembler,
    RegistrationRefused,
)
from everlog.aeron.transport.client.options import ClientOptions
from everlog.aeron.transport.driver.child import ChildDriver
from everlog.aeron.transport.driver.media_driver import quiet
from everlog.aeron.transport.driver.settings.properties import load
from everlog.aeron.transport.protocol.commands import OnPublicationError
from tests.interop.archive.java_archive import Messages
from tests.interop.transport.java_transport import DRIVER_DEFAULTS, JavaClient, JavaDriver, expected
from tests.interop.transport.our_transport import await_that, free_port

IPC = "aeron:ipc?term-length=64k"
SIZES = (1, 31, 32, 33, 1000, 1376, 1377, 3000, 0, 8192, 64, 1408)
Connect = Callable[..., Aeron]


Driver = JavaDriver | ChildDriver
Start = Callable[..., Driver]


@pytest.fixture(params=["java", "ours"])
def start_driver(request: pytest.FixtureRequest, driver_folder: Path) -> Iterator[Start]:
    """Starts the real driver or ours with these of Aeron's properties, as often as wanted."""
    if request.param == "java":
        yield request.getfixturevalue("start_java_driver")
        return
    started: list[ChildDriver] = []

    def start(properties: Mapping[str, str] | None = None) -> ChildDriver:
        given = DRIVER_DEFAULTS | {"aeron.dir": str(driver_folder)} | dict(properties or {})
        configuration = load(given=[f"{name}={value}" for name, value in given.items()]).configuration
        started.append(ChildDriver(configuration, quiet))
        return started[-1]

    yield start
    for driver in started:
        driver.close()


@pytest.fixture
def driver(start_driver: Start) -> Driver:
    return start_driver()


@pytest.fixture
def connect(driver: Driver) -> Iterator[Connect]:
    """Connects a client of ours, as often as wanted."""
    started: list[Aeron] = []

    def connect(**options: object) -> Aeron:
        started.append(Aeron.connect(driver.dir, options=ClientOptions(**options)))
        return started[-1]

    yield connect
    for aeron in started:
        aeron.close()


def drained(aeron: Aeron, poll: Callable[[], int], count: int) -> None:
    """Polls until ``poll`` has given so many in all."""
    found = 0

    def is_done() -> bool:
        nonlocal found
        found += poll()
        return found >= count

    assert aeron.wait_until(is_done, timeout_s=20, sleep_s=0.0005)


def test_what_the_driver_refuses_is_told_in_its_words(connect: Connect) -> None:
    aeron = connect()
    for channel, code, words in (
        ("aeron:udp?endpoint=nohost.invalid:1", ErrorCode.INVALID_CHANNEL, "nohost.invalid"),
        ("aeron:ipc?term-length=70000", ErrorCode.GENERIC_ERROR, "70000"),
        ("aeron:tcp", ErrorCode.GENERIC_ERROR, "tcp"),
        ("aeron:udp?endpoint=127.0.0.1:20567|mtu=1", ErrorCode.GENERIC_ERROR, "mtu"),
    ):
        for add in (aeron.add_publication, aeron.add_exclusive_publication):
            with pytest.raises(RegistrationRefused) as caught:
                add(channel, 1)
            assert words in str(caught.value).lower() or words in str(caught.value)
            assert caught.value.error_code in (code, ErrorCode.INVALID_CHANNEL)
    with pytest.raises(RegistrationRefused, match="stream 1"):
        aeron.add_subscription("aeron:udp?endpoint=nohost.invalid:1", 1)
    publication = aeron.add_exclusive_publication("aeron:ipc", 1)
    with pytest.raises(RegistrationRefused):
        publication.remove_destination(12345)
    assert not aeron.is_closed
    assert aeron.add_publication(IPC, 1).max_message_length == 8192


@pytest.mark.smoke
def test_messages_come_as_columns_that_arrow_takes(connect: Connect) -> None:
    aeron = connect()
    subscription = aeron.add_subscription(IPC, 1)
    publication = aeron.add_exclusive_publication(IPC, 1)
    await_that(lambda: publication.is_connected, "a subscriber")
    sent = [payload for payload, _ in Messages(seed=3, sizes=SIZES, count=12)]
    publication.send_many(sent)
    batches: list[pa.RecordBatch] = []

    def poll() -> int:
        batch = subscription.poll_batch()
        if batch is None:
            return 0
        batches.append(pa.record_batch(batch))
        return int(batches[-1].num_rows)

    drained(aeron, poll, len(sent))
    table = pa.Table.from_batches(batches)
    assert table.column("payload").to_pylist() == sent
    # The last one, of 1408 bytes, is two frames: one of 1408 bytes, and one of 32 + 32.
    assert table.column("position").to_pylist()[-1] + 1408 + 64 == publication.position
    assert subscription.images[0].position == publication.position


def test_udp_destinations_come_and_go(connect: Connect) -> None:
    aeron = connect()
    sinks = [aeron.add_subscription("aeron:udp?endpoint=127.0.0.1:0", 7) for _ in range(2)]
    addresses = []
    for sink in sinks:
        await_that(lambda sink=sink: sink.resolved_endpoint is not None, "a bound socket")
        addresses.append(f"aeron:udp?endpoint={sink.resolved_endpoint}")
        assert sink.resolved_channel() == addresses[-1]
    source = aeron.add_publication("aeron:udp?control=127.0.0.1:0|control-mode=manual|term-length=64k", 7)
    first = source.add_destination(addresses[0])
    assert aeron.wait_until(lambda: bool(sinks[0].images) and source.is_connected)
    second = source.async_add_destination(addresses[1])
    assert aeron.wait_until(lambda: second.done and bool(sinks[1].images))
    assert second.result() != first
    source.send(b"to both")
    for sink in sinks:
        got: list[bytes] = []
        drained(aeron, lambda sink=sink, got=got: sink.poll(lambda payload, _: got.append(payload)), 1)
        assert got == [b"to both"]
    source.remove_destination(first)
    source.remove_destination(addresses[1])
    heard = aeron.add_subscription("aeron:udp?control-mode=manual", 8)
    another = f"aeron:udp?endpoint=127.0.0.1:{free_port()}"
    heard.add_destination(another)
    heard.remove_destination(another)


@pytest.mark.long
def test_a_rejected_image_is_told_to_its_publisher(start_driver: Start) -> None:
    driver = start_driver({"aeron.image.liveness.timeout": "1s"})
    refusals: list[OnPublicationError] = []
    aeron = Aeron.connect(driver.dir, on_publication_error=refusals.append)
    channel = f"aeron:udp?endpoint=127.0.0.1:{free_port()}|term-length=64k"
    gone: list[int] = []
    subscription = aeron.add_subscription(channel, 9, None, lambda image: gone.append(image.session_id))
    publication = aeron.add_publication(channel, 9)
    assert aeron.wait_until(lambda: bool(subscription.images) and publication.is_connected)
    subscription.images[0].reject("of no interest")
    assert aeron.wait_until(lambda: bool(refusals) and bool(gone))
    assert (refusals[0].registration_id, refusals[0].message) == (publication.registration_id, "of no interest")
    assert refusals[0].error_code == ErrorCode.IMAGE_REJECTED
    assert gone == [publication.session_id]
    aeron.close()


def test_a_spy_hears_what_is_sent_and_a_revoked_publication_ends_at_once(connect: Connect) -> None:
    aeron = connect()
    channel = f"aeron:udp?endpoint=127.0.0.1:{free_port()}|term-length=64k|ssc=true"
    ended: list[tuple[int, bool]] = []
    spy = aeron.add_subscription(
        f"aeron-spy:{channel}", 11, None, lambda image: ended.append((image.position, image.is_publication_revoked))
    )
    publication = aeron.add_exclusive_publication(channel, 11)
    assert aeron.wait_until(lambda: bool(spy.images) and publication.is_connected)
    publication.send(b"seen")
    got: list[bytes] = []
    drained(aeron, lambda: spy.poll(lambda payload, _: got.append(payload)), 1)
    assert got == [b"seen"]
    publication.revoke()
    assert aeron.wait_until(lambda: ended != [])
    assert ended == [(64, True)]


@pytest.mark.parametrize("medium", ["udp", "ipc"])
def test_an_answer_comes_on_the_response_channel(connect: Connect, medium: str) -> None:
    if medium == "udp":
        request_channel = f"aeron:udp?endpoint=127.0.0.1:{free_port()}"
        response_channel = f"aeron:udp?control=127.0.0.1:{free_port()}|control-mode=response"
    else:
        request_channel, response_channel = "aeron:ipc?alias=requests", "aeron:ipc?control-mode=response"
    server, client = connect(), connect()
    requests = server.add_subscription(request_channel, 10)
    responses = client.add_subscription(response_channel, 11)
    mine = responses.registration_id
    asking = client.add_exclusive_publication(f"{request_channel}|response-correlation-id={mine}", 10)
    assert server.wait_until(lambda: bool(requests.images))
    of = requests.images[0].correlation_id
    answering = server.add_exclusive_publication(f"{response_channel}|response-correlation-id={of}", 11)
    asking.send(b"question")
    got: list[bytes] = []
    drained(server, lambda: requests.poll(lambda payload, _: got.append(payload)), 1)
    answering.send(b"answer")
    drained(client, lambda: responses.poll(lambda payload, _: got.append(payload)), 1)
    assert got == [b"question", b"answer"]


def test_session_and_static_ids_are_the_drivers(connect: Connect) -> None:
    one, two = connect(), connect(client_name="the-second")
    session_id = one.next_session_id(20)
    publication = one.add_exclusive_publication(f"{IPC}|session-id={session_id}", 20)
    assert publication.session_id == session_id
    with pytest.raises(RegistrationRefused, match=str(session_id)):
        two.add_exclusive_publication(f"{IPC}|session-id={session_id}", 20)
    mine, theirs = one.add_static_counter(1005, "ours", 99, b"k"), two.add_static_counter(1005, "ours", 99)
    assert mine.counter_id == theirs.counter_id
    mine.value = 5
    assert theirs.value == 5
    one.close()
    found = two.counters.find(1005, 99)
    assert found is not None
    assert (found.label, found.value, found.key[:1]) == ("ours", 5, b"k")
    await_that(lambda: any("name=the-second version=" in counter.label for counter in two.counters), "our name")


def test_counters_of_all_clients_are_announced(
    connect: Connect, driver: Driver, start_java_client: Callable[..., JavaClient]
) -> None:
    seen: list[tuple[str, int]] = []
    connect(
        on_available_counter=lambda _, counter_id: seen.append(("new", counter_id)),
        on_unavailable_counter=lambda _, counter_id: seen.append(("gone", counter_id)),
    )
    java = start_java_client(driver.dir)
    number = java.add_counter("c", 1001, "from-java", 7)
    java.close_one("c")
    await_that(lambda: seen[-1:] == [("gone", number)], "the counter's end")
    assert ("new", number) in seen


def test_a_java_publisher_is_read_with_every_kind_of_poll(
    connect: Connect, driver: Driver, start_java_client: Callable[..., JavaClient]
) -> None:
    aeron, java = connect(), start_java_client(driver.dir)
    subscriptions = [aeron.add_subscription(IPC, 30) for _ in range(4)]
    java.publish("p", IPC, 30)
    messages = Messages(seed=4, sizes=SIZES, count=12)
    java.offer("p", messages)
    sent = [payload for payload, _ in messages]
    polled: list[bytes] = []
    controlled: list[bytes] = []
    blocks: list[bytes] = []
    raw: list[tuple[int, int]] = []
    assembler = FragmentAssembler(lambda payload, _: polled.append(payload))
    assert aeron.wait_until(lambda: all(subscription.images for subscription in subscriptions))
    end = subscriptions[0].images[0].position

    def poll() -> bool:
        subscriptions[0].poll(assembler)
        subscriptions[1].controlled_poll(lambda payload, _: controlled.append(payload))
        subscriptions[2].block_poll(lambda block, session_id, term_id: blocks.append(bytes(block)), 1 << 16)
        subscriptions[3].raw_poll(lambda offset, block, *_: raw.append((offset, len(block))), 1 << 16)
        nonlocal end
        end = subscriptions[0].images[0].position
        return len(polled) == len(sent) and all(one.images[0].position == end for one in subscriptions)

    assert aeron.wait_until(poll, timeout_s=20)
    assert polled == sent
    assert b"".join(controlled) == b"".join(sent)
    assert sum(map(len, blocks)) == sum(length for _, length in raw) == end
    assert raw[0][0] == 0


def test_a_call_that_keeps_the_interpreter_does_not_cost_the_client_its_life(
    start_driver: Start,
) -> None:
    driver = start_driver({"aeron.client.liveness.timeout": "1s", "aeron.timer.interval": "100ms"})
    with Aeron.connect(driver.dir, keep_alive_interval_ns=100_000_000) as aeron:
        subscription, publication = aeron.add_subscription(IPC, 1), aeron.add_publication(IPC, 1)
        await_that(lambda: any(counter.type_id == 11 and counter.value for counter in aeron.counters), "a heartbeat")
        time.sleep(0.2)
        ctypes.PyDLL(None).usleep(1_700_000)  # with the GIL
        publication.send(b"alive")
        got: list[bytes] = []
        drained(aeron, lambda: subscription.poll(lambda payload, _: got.append(payload)), 1)
        assert got == [b"alive"]


@pytest.mark.long
def test_a_client_that_was_stopped_for_too_long_is_told_so(start_driver: Start) -> None:
    driver = start_driver({"aeron.client.liveness.timeout": "1s", "aeron.timer.interval": "100ms"})
    program = """if True:
        import sys, time
        from everlog.aeron import Aeron
        aeron = Aeron.connect(sys.argv[1], keep_alive_interval_ns=100_000_000, on_error=lambda error: None)
        publication = aeron.add_publication("aeron:ipc?term-length=64k", 1)
        print("ready", flush=True)
        while publication.offer(b"x") != -4:
            time.sleep(0.01)
        print(type(aeron.failure).__name__, flush=True)
    """
    with subprocess.Popen([sys.executable, "-c", program, str(driver.dir)], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        time.sleep(0.3)
        os.kill(child.pid, signal.SIGSTOP)
        time.sleep(1.7)
        os.kill(child.pid, signal.SIGCONT)
        assert child.stdout.readline() == f"{ClientTimeout.__name__}\n"
        assert child.wait(30) == 0


def test_a_killed_driver_is_an_error_in_time(start_driver: Start) -> None:
    driver = start_driver()
    errors: list[BaseException] = []
    with Aeron.connect(driver.dir, driver_timeout_ms=1500, on_error=errors.append) as aeron:
        subscription = aeron.add_subscription(IPC, 1)
        publication = aeron.add_publication(IPC, 1)
        driver.kill()
        began = time.monotonic()
        await_that(lambda: bool(errors), "the error", 10)
        assert time.monotonic() - began < 4
        assert aeron.is_closed
        assert [type(error) for error in errors] == [DriverTimeout]
        assert publication.offer(b"x") == -4
        with pytest.raises(DriverTimeout, match=r"last heartbeat [0-9]+ ms ago"):
            subscription.poll(lambda payload, header: None)
    with pytest.raises(DriverTimeout, match=r"no media driver runs in .*last heartbeat"):
        Aeron.connect(driver.dir, driver_timeout_ms=100)


def test_a_driver_that_ends_says_so(start_driver: Start) -> None:
    driver = start_driver({"aeron.dir.delete.on.shutdown": "false"})
    with Aeron.connect(driver.dir, on_error=lambda error: None) as aeron:
        publication = aeron.add_publication(IPC, 1)
        driver.close()
        await_that(lambda: aeron.is_closed, "the end", 5)
        with pytest.raises(DriverTimeout, match="shut down"):
            publication.send(b"x")


def test_a_java_subscriber_hears_messages_of_all_ways_to_publish(
    connect: Connect, driver: Driver, start_java_client: Callable[..., JavaClient]
) -> None:
    aeron, java = connect(), start_java_client(driver.dir)
    java.subscribe("s", IPC, 40)
    for seed, exclusive in ((1, True), (2, False)):
        add = aeron.add_exclusive_publication if exclusive else aeron.add_publication
        with add(IPC, 40) as publication:
            messages = Messages(seed=seed, sizes=SIZES, count=12)
            await_that(lambda publication=publication: publication.is_connected, "Java")
            for payload, reserved in messages:
                half = len(payload) // 2
                parts = (payload[:half], memoryview(payload)[half:])
                await_that(
                    lambda publication=publication, parts=parts, reserved=reserved: (
                        publication.offer_parts(parts, reserved) > 0
                    ),
                    "room",
                )
            assert java.poll("s", 12) == expected(messages)
