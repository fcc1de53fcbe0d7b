"""Drivers and clients on a simulated network: what is published arrives whole, once and in order, whatever the network
does; and ends, deaths and returns are noticed. Terms are of 64 KiB, mtus of 1408."""

from __future__ import annotations

import random
import struct
import zlib
from collections.abc import Sequence
from typing import Any

import pytest

from everlog.aeron.transport.client.images.fragment_assembler import FragmentAssembler
from everlog.aeron.transport.driver.system_counters import SystemCounter
from everlog.testing.network.simulated import LinkConditions
from everlog.testing.network.system import SimulatedDriver, TransportSystem
from everlog.time_units import NS_PER_MS as MS
from everlog.time_units import NS_PER_S as SECOND
from everlog.time_units import NS_PER_US as US

HERE, THERE, ELSEWHERE = "10.0.0.1", "10.0.0.2", "10.0.0.3"
CHANNEL = f"aeron:udp?endpoint={THERE}:4000"
STREAM = 10
CALM = LinkConditions()
STORM = LinkConditions(loss=0.1, duplication=0.1, reordering=0.1, delay_ns=(10 * US, 300 * US))
MAX_MESSAGE = 8192
"""An eighth of a term, the longest message."""


def message(index: int, generator: random.Random, longest: int) -> bytes:
    """A number, its publisher's, bytes, and the CRC of all."""
    body = struct.pack("<I", index) + generator.randbytes(generator.randrange(longest - 7))
    return body + struct.pack("<I", zlib.crc32(body))


class Reader:
    """Polls a subscription and keeps whole messages by session."""

    def __init__(self, subscription: Any) -> None:
        self.subscription = subscription
        self.messages: dict[int, list[bytes]] = {}
        self._assembler = FragmentAssembler(self._on_message)

    def _on_message(self, payload: bytes, header: Any) -> None:
        self.messages.setdefault(header.session_id, []).append(payload)

    def poll(self) -> None:
        self.subscription.poll(self._assembler, 100)

    @property
    def count(self) -> int:
        return sum(map(len, self.messages.values()))

    def check(self, session_id: int, count: int, first: int = 0) -> None:
        """All are there, once, in order, and as they were."""
        messages = self.messages.get(session_id, [])
        for data in messages:
            assert zlib.crc32(data[:-4]) == struct.unpack("<I", data[-4:])[0]
        assert [struct.unpack_from("<I", data)[0] for data in messages] == list(range(first, first + count))


def publish(
    system: TransportSystem,
    publications: Sequence[Any],
    readers: Sequence[Reader],
    count: int,
    *,
    longest: int = MAX_MESSAGE,
    first: int = 0,
    publications_per_reader: int | None = None,
) -> None:
    """So many messages of each publication, as fast as it takes them, until each reader has all of them."""
    generator = random.Random(system.seed)
    wanted = (len(publications) if publications_per_reader is None else publications_per_reader) * count
    before = [reader.count for reader in readers]
    next_of = [first] * len(publications)
    waiting = [message(first, generator, longest) for _ in publications]

    def is_done() -> bool:
        for at, publication in enumerate(publications):
            while next_of[at] < first + count and publication.offer(waiting[at]) > 0:
                next_of[at] += 1
                waiting[at] = message(next_of[at], generator, longest)
        for reader in readers:
            reader.poll()
        return all(reader.count - old >= wanted for reader, old in zip(readers, before, strict=True))

    system.run_until(is_done)


def two(seed: int = 1, weather: LinkConditions | None = None, **settings: Any) -> tuple[TransportSystem, Any, Any]:
    """A system with a client at each of two drivers."""
    system = TransportSystem(seed, weather)
    here, there = system.driver(HERE, **settings), system.driver(THERE, **settings)
    return system, here.client(), there.client()


def connected(system: TransportSystem, *publications: Any) -> None:
    system.run_until(lambda: all(publication.is_connected for publication in publications))


def no_errors(system: TransportSystem) -> bool:
    return [driver.errors() for driver in system.drivers] == [[] for _ in system.drivers]


@pytest.mark.parametrize("kind", ["add_publication", "add_exclusive_publication"])
@pytest.mark.parametrize(
    ("seed", "weather"),
    [
        (1, CALM),
        (2, STORM),
        (3, LinkConditions(loss=0.3, delay_ns=(0, 2 * MS))),
        (4, LinkConditions(duplication=0.5, reordering=0.5, delay_ns=(0, MS))),
    ],
)
def test_what_is_published_arrives_whole_once_and_in_order(seed: int, weather: LinkConditions, kind: str) -> None:
    system, publisher, subscriber = two(seed, weather)
    reader = Reader(subscriber.add_subscription(CHANNEL, STREAM))
    publication = getattr(publisher, kind)(CHANNEL, STREAM)
    connected(system, publication)
    publish(system, [publication], [reader], 100)
    reader.check(publication.session_id, 100)
    assert publication.position > 3 * 65536
    assert no_errors(system)
    here, there = system.drivers
    lossy = weather.loss > 0
    assert (here.count(SystemCounter.RETRANSMITS_SENT) > 0) or not lossy
    assert (there.count(SystemCounter.NAK_MESSAGES_SENT) > 0) or not lossy


def test_the_same_seed_gives_the_same_run() -> None:
    def run() -> tuple[Any, int]:
        system, publisher, subscriber = two(7, STORM)
        reader = Reader(subscriber.add_subscription(CHANNEL, STREAM))
        publication = publisher.add_publication(CHANNEL, STREAM)
        connected(system, publication)
        publish(system, [publication], [reader], 30)
        return system.network.traffic, system.now_ns

    assert run() == run()


def test_many_sessions_of_one_stream_are_kept_apart() -> None:
    system, publisher, subscriber = two(3, STORM)
    other = system.drivers[0].client()
    reader = Reader(subscriber.add_subscription(CHANNEL, STREAM))
    publications = [
        publisher.add_exclusive_publication(CHANNEL, STREAM),
        publisher.add_exclusive_publication(CHANNEL, STREAM),
        other.add_exclusive_publication(CHANNEL, STREAM),
    ]
    connected(system, *publications)
    publish(system, publications, [reader], 40)
    assert len(reader.messages) == 3
    for publication in publications:
        reader.check(publication.session_id, 40)


def test_publishers_of_two_clients_share_a_publication() -> None:
    system, publisher, subscriber = two(3, LinkConditions(loss=0.05))
    other = system.drivers[0].client()
    reader = Reader(subscriber.add_subscription(CHANNEL, STREAM))
    one, another = publisher.add_publication(CHANNEL, STREAM), other.add_publication(CHANNEL, STREAM)
    assert one.session_id == another.session_id
    connected(system, one, another)
    publish(system, [one, another], [reader], 60)
    (messages,) = reader.messages.values()
    numbers = sorted(struct.unpack_from("<I", data)[0] for data in messages)
    assert numbers == sorted([*range(60), *range(60)])


def test_a_group_and_its_slowest_member() -> None:
    system = TransportSystem(5, LinkConditions(loss=0.02))
    here, there, elsewhere = (system.driver(address) for address in (HERE, THERE, ELSEWHERE))

    def channel(driver: SimulatedDriver) -> str:
        return f"aeron:udp?endpoint=224.20.30.39:4000|interface={driver.machine.name}|fc=min,g:/2"

    readers = [Reader(driver.client().add_subscription(channel(driver), STREAM)) for driver in (there, elsewhere)]
    publication = here.client().add_publication(channel(here), STREAM)
    connected(system, publication)
    publish(system, [publication], readers, 60)
    for reader in readers:
        reader.check(publication.session_id, 60)
    # One that does not read stops all.
    for _ in range(4000):
        publication.offer(b"x" * 1000)
        readers[0].poll()
        system.step()
    assert publication.offer(b"x") == -2
    fast, slow = (reader.subscription.images[0].position for reader in readers)
    assert slow < fast <= slow + 32768
    system.run_until(lambda: (readers[1].poll(), publication.offer(b"x") > 0)[1])


@pytest.mark.parametrize("mode", ["manual", "dynamic"])
def test_several_destinations_get_the_same(mode: str) -> None:
    system = TransportSystem(6, LinkConditions(loss=0.05))
    here, there, elsewhere = (system.driver(address) for address in (HERE, THERE, ELSEWHERE))
    control = f"control={HERE}:4001|control-mode={mode}"
    publication = here.client().add_publication(f"aeron:udp?{control}|fc=min,g:/2", STREAM)
    readers = []
    for driver in (there, elsewhere):
        endpoint = f"endpoint={driver.machine.name}:4000"
        suffix = f"|{control}" if mode == "dynamic" else ""
        readers.append(Reader(driver.client().add_subscription(f"aeron:udp?{endpoint}{suffix}", STREAM)))
        if mode == "manual":
            publication.add_destination(f"aeron:udp?{endpoint}")
    connected(system, publication)
    publish(system, [publication], readers, 60)
    for reader in readers:
        reader.check(publication.session_id, 60)
    assert no_errors(system)


def test_a_spy_reads_what_is_sent() -> None:
    system, publisher, subscriber = two(7, LinkConditions(loss=0.05))
    publication = publisher.add_publication(CHANNEL, STREAM)
    readers = [
        Reader(subscriber.add_subscription(CHANNEL, STREAM)),
        Reader(publisher.add_subscription(f"aeron-spy:{CHANNEL}", STREAM)),
    ]
    connected(system, publication)
    publish(system, [publication], readers, 60)
    for reader in readers:
        reader.check(publication.session_id, 60)


def test_a_spy_alone_reads_if_it_counts_as_a_connection() -> None:
    system = TransportSystem(8)
    client = system.driver(HERE).client()
    publication = client.add_publication(f"{CHANNEL}|ssc=true", STREAM)
    reader = Reader(client.add_subscription(f"aeron-spy:{CHANNEL}", STREAM))
    connected(system, publication)
    publish(system, [publication], [reader], 60)
    reader.check(publication.session_id, 60)


def test_an_unreliable_subscription_goes_over_what_is_lost() -> None:
    system, publisher, subscriber = two(9, LinkConditions(loss=0.1))
    subscription = subscriber.add_subscription(f"{CHANNEL}|reliable=false", STREAM)
    reader = Reader(subscription)
    publication = publisher.add_publication(CHANNEL, STREAM)
    connected(system, publication)
    for index in range(400):
        data = message(index, system.random, 1000)
        system.run_until(lambda data=data: (reader.poll(), publication.offer(data) > 0)[1])  # type: ignore[misc]
    system.network.weather.loss = 0.0
    system.run_until(lambda: (reader.poll(), subscription.images[0].position == publication.position)[1])
    (messages,) = reader.messages.values()
    numbers = [struct.unpack_from("<I", data)[0] for data in messages]
    assert numbers == sorted(set(numbers))
    assert 200 < len(numbers) < 400
    there = system.drivers[1]
    assert there.count(SystemCounter.LOSS_GAP_FILLS) > 0
    assert there.count(SystemCounter.NAK_MESSAGES_SENT) == 0


def test_the_end_of_a_stream_is_heard_of() -> None:
    system, publisher, subscriber = two(10, LinkConditions(loss=0.1))
    gone: list[Any] = []
    subscription = subscriber.add_subscription(CHANNEL, STREAM, on_unavailable_image=gone.append)
    reader = Reader(subscription)
    publication = publisher.add_publication(CHANNEL, STREAM)
    connected(system, publication)
    publish(system, [publication], [reader], 20)
    session_id = publication.session_id
    (image,) = subscription.images
    publication.close()
    system.run_until(lambda: image.is_end_of_stream)
    system.run_until(lambda: len(gone) == 1, 20 * SECOND, 2 * MS)
    reader.check(session_id, 20)
    # A new one is a new image, once the channel of the old one is closed.
    system.advance(100 * MS)
    again = publisher.add_publication(CHANNEL, STREAM)
    connected(system, again)
    publish(system, [again], [reader], 20)
    reader.check(again.session_id, 20)
    assert again.session_id != session_id


def test_a_revoked_stream_is_gone_at_once() -> None:
    system, publisher, subscriber = two(11)
    gone: list[Any] = []
    subscription = subscriber.add_subscription(CHANNEL, STREAM, on_unavailable_image=gone.append)
    publication = publisher.add_publication(CHANNEL, STREAM)
    connected(system, publication)
    publication.offer(b"never read")
    publication.revoke()
    start_ns = system.now_ns
    system.run_until(lambda: len(gone) == 1)
    assert system.now_ns - start_ns < 3 * SECOND
    assert gone[0].is_publication_revoked
    assert not subscription.images
    assert system.drivers[0].count(SystemCounter.PUBLICATIONS_REVOKED) == 1
    assert system.drivers[1].count(SystemCounter.PUBLICATION_IMAGES_REVOKED) == 1


def test_a_partition_that_is_short_is_survived() -> None:
    system, publisher, subscriber = two(12)
    reader = Reader(subscriber.add_subscription(CHANNEL, STREAM))
    publication = publisher.add_publication(CHANNEL, STREAM)
    connected(system, publication)
    publish(system, [publication], [reader], 20)
    machines = [[driver.machine] for driver in system.drivers]
    system.network.partition(*machines)
    for index in range(20, 25):
        assert publication.offer(message(index, system.random, 100)) > 0
    system.advance(4 * SECOND)
    system.network.heal()
    system.run_until(lambda: (reader.poll(), reader.count == 25)[1])
    reader.check(publication.session_id, 25)


def test_a_partition_that_is_long_ends_the_image_and_a_new_one_comes_behind_it() -> None:
    system, publisher, subscriber = two(13)
    images: list[Any] = []
    gone: list[Any] = []
    subscription = subscriber.add_subscription(CHANNEL, STREAM, images.append, gone.append)
    reader = Reader(subscription)
    publication = publisher.add_publication(CHANNEL, STREAM)
    connected(system, publication)
    publish(system, [publication], [reader], 20)
    system.network.partition(*[[driver.machine] for driver in system.drivers])
    system.run_until(lambda: len(gone) == 1, 30 * SECOND, 2 * MS)
    assert not publication.is_connected
    assert publication.offer(b"x") == -1
    system.network.heal()
    connected(system, publication)
    publish(system, [publication], [reader], 20, first=20)
    reader.check(publication.session_id, 40)
    assert len(images) == 2
    assert images[1].join_position > 0


def test_a_client_that_dies_is_cleared_away_and_others_are_unharmed() -> None:
    system, publisher, subscriber = two(14)
    survivor = system.drivers[0].client()
    reader = Reader(subscriber.add_subscription(CHANNEL, STREAM))
    doomed, safe = (
        publisher.add_exclusive_publication(CHANNEL, STREAM),
        survivor.add_exclusive_publication(CHANNEL, STREAM),
    )
    connected(system, doomed, safe)
    publish(system, [doomed, safe], [reader], 20)
    system.drivers[0].clients.remove(publisher)
    system.run_until(lambda: len(reader.subscription.images) == 1, 40 * SECOND, 2 * MS)
    assert system.drivers[0].count(SystemCounter.CLIENT_TIMEOUTS) == 1
    publish(system, [safe], [reader], 20, first=20, publications_per_reader=1)
    reader.check(safe.session_id, 40)


def test_a_driver_that_stops_is_noticed_by_the_other() -> None:
    system, publisher, subscriber = two(15)
    gone: list[Any] = []
    subscriber.add_subscription(CHANNEL, STREAM, on_unavailable_image=gone.append)
    publication = publisher.add_publication(CHANNEL, STREAM)
    connected(system, publication)
    here = system.drivers.pop(0)
    here.clients.clear()
    system.run_until(lambda: len(gone) == 1, 30 * SECOND, 2 * MS)
