"""A sender with its endpoints on a simulated network, with minimal receivers: everything published arrives once and
in order, despite loss, duplication, reordering and delay."""

from __future__ import annotations

import random
import socket
import struct
import zlib
from collections.abc import Callable

import pytest

from everlog.aeron.channel_uri import ChannelUri
from everlog.aeron.transport.driver.system_counters import SystemCounter
from everlog.aeron.transport.media.network import SocketSettings
from everlog.aeron.transport.protocol import wire
from everlog.kernel.udp import SocketAddress
from everlog.testing.network.simulated import LinkConditions, SimulatedMachine, SimulatedNetwork
from everlog.testing.network.streams import Publishing, PublishingMachine
from tests.aeron.transport.driver.sender.scripted_receiver import ScriptedReceiver

US, MS, SECOND = 1000, 1_000_000, 1_000_000_000
HERE, THERE, ELSEWHERE = "10.0.0.1", "10.0.0.2", "10.0.0.3"
PORT = 4000


def message(index: int, generator: random.Random) -> bytes:
    """A number, bytes and their CRC, of up to a full datagram."""
    body = struct.pack("<I", index) + generator.randbytes(generator.randrange(0, 1300))
    return body + struct.pack("<I", zlib.crc32(body))


def numbers(messages: list[bytes]) -> list[int]:
    """The numbers of messages; fails for a damaged one."""
    for data in messages:
        assert zlib.crc32(data[:-4]) == struct.unpack("<I", data[-4:])[0]
    return [struct.unpack_from("<I", data)[0] for data in messages]


def listen(machine: SimulatedMachine, port: int = PORT, group: str | None = None) -> ScriptedReceiver:
    """A receiver at a port of a machine, optionally in a multicast group."""
    heard = None if group is None else SocketAddress(group, port)
    bind = SocketAddress(machine.name if group is None else "0.0.0.0", port)
    settings = SocketSettings(family=socket.AF_INET, bind=bind, group=heard)
    return ScriptedReceiver(machine, machine.open_udp(settings), receiver_id=port + int(machine.name[-1]))


class World:
    """A sender's machine and others, with a clock in steps of 50 µs."""

    def __init__(self, seed: int = 1, weather: LinkConditions | None = None) -> None:
        self.network = SimulatedNetwork(seed, weather)
        self.now_ns = SECOND
        self.network.advance(self.now_ns)
        self.sending = PublishingMachine(self.network.machine(HERE), seed)
        self.receivers: list[ScriptedReceiver] = []
        self.generator = random.Random(seed)

    def step(self, step_ns: int = 50 * US) -> None:
        self.now_ns += step_ns
        self.network.advance(self.now_ns)
        self.sending.cycle(self.now_ns)
        for receiver in self.receivers:
            receiver.cycle(self.now_ns)

    def run(self, until: Callable[[], bool], timeout_ns: int = 60 * SECOND) -> None:
        end_ns = self.now_ns + timeout_ns
        while not until():
            assert self.now_ns < end_ns, f"not done after {timeout_ns} ns: {self.network.traffic}"
            self.step()

    def wait(self, duration_ns: int) -> None:
        end_ns = self.now_ns + duration_ns
        while self.now_ns < end_ns:
            self.step(MS)

    def publish(self, publishing: Publishing, count: int) -> list[bytes]:
        """Publish messages as fast as flow control allows, and wait until all reading receivers have them."""
        sent: list[bytes] = []
        waiting = message(0, self.generator)

        def is_done() -> bool:
            nonlocal waiting
            while len(sent) < count and publishing.appender.offer(waiting) > 0:
                sent.append(waiting)
                waiting = message(len(sent), self.generator)
            readers = [receiver for receiver in self.receivers if receiver.reads]
            return len(sent) == count and all(len(receiver.messages) >= count for receiver in readers)

        self.run(is_done)
        return sent


@pytest.mark.parametrize(
    ("seed", "weather"),
    [
        (1, LinkConditions()),
        (2, LinkConditions(loss=0.05)),
        (3, LinkConditions(loss=0.05, duplication=0.05, reordering=0.05, delay_ns=(20 * US, 200 * US))),
        (4, LinkConditions(loss=0.2, delay_ns=(0, MS))),
    ],
)
def test_all_messages_arrive_once_and_in_order(seed: int, weather: LinkConditions) -> None:
    world = World(seed, weather)
    publishing = world.sending.add_publication(f"aeron:udp?endpoint={THERE}:{PORT}|term-length=64k", 10)
    world.receivers.append(listen(world.network.machine(THERE)))
    sent = world.publish(publishing, 600)
    received = world.receivers[0].messages
    assert received == sent
    assert numbers(received) == list(range(600))
    # Some terms were used up, so each third of the log was used again.
    assert publishing.sender_position > 4 * 65536
    count = world.sending.surroundings.count
    assert (count(SystemCounter.RETRANSMITS_SENT) > 0) is (weather.loss > 0)
    assert (count(SystemCounter.NAK_MESSAGES_RECEIVED) > 0) is (weather.loss > 0)
    assert world.sending.surroundings.errors == []


def test_a_receiver_that_does_not_read_stops_the_publisher_and_nothing_is_lost() -> None:
    world = World()
    publishing = world.sending.add_publication(f"aeron:udp?endpoint={THERE}:{PORT}|term-length=64k", 10)
    receiver = listen(world.network.machine(THERE))
    world.receivers.append(receiver)
    receiver.reads = False
    world.run(lambda: publishing.appender.is_connected)
    count = 0
    for _ in range(2000):
        if publishing.appender.offer(message(count, world.generator)) > 0:
            count += 1
        world.step()
    world.wait(SECOND)
    assert publishing.sender_position <= 32768
    assert receiver.position == publishing.sender_position
    receiver.reads = True
    world.run(lambda: len(receiver.messages) == count)
    assert numbers(receiver.messages) == list(range(count))


def test_a_partition_is_survived_within_the_timeout_and_noticed_behind_it() -> None:
    world = World()
    publishing = world.sending.add_publication(f"aeron:udp?endpoint={THERE}:{PORT}|term-length=64k", 10)
    there = world.network.machine(THERE)
    world.receivers.append(listen(there))
    world.publish(publishing, 50)
    world.network.partition([world.sending.surroundings.machine], [there])
    world.wait(4 * SECOND)
    assert publishing.appender.is_connected
    publishing.appender.offer(message(50, world.generator))
    world.network.heal()
    world.run(lambda: len(world.receivers[0].messages) == 51)
    world.network.partition([world.sending.surroundings.machine], [there])
    world.wait(6 * SECOND)
    assert not publishing.appender.is_connected
    assert publishing.appender.offer(b"nobody") == -1
    world.network.heal()
    world.run(lambda: publishing.appender.is_connected)


def test_destinations_that_are_added_get_the_stream_and_the_slowest_is_waited_for() -> None:
    world = World()
    uri = f"aeron:udp?control-mode=manual|control={HERE}:4001|term-length=64k|fc=min"
    publishing = world.sending.add_publication(uri, 10)
    for registration_id, name in enumerate((THERE, ELSEWHERE)):
        world.receivers.append(listen(world.network.machine(name)))
        target = SocketAddress(name, PORT)
        world.sending.proxy.add_destination(
            publishing.endpoint, ChannelUri("udp", {"endpoint": str(target)}), target, registration_id
        )
    world.run(lambda: all(receiver.setup is not None for receiver in world.receivers))
    world.wait(100 * MS)
    sent = world.publish(publishing, 200)
    assert [receiver.messages for receiver in world.receivers] == [sent, sent]
    first, second = world.receivers
    second.reads = False
    for _ in range(3000):
        publishing.appender.offer(message(0, world.generator))
        world.step()
    assert first.position == second.position == publishing.sender_position <= second.consumed + 32768
    world.sending.proxy.remove_destination_by_id(publishing.endpoint, 1)
    world.receivers.remove(second)
    world.wait(6 * SECOND)
    before = first.position
    for _ in range(300):
        publishing.appender.offer(message(0, world.generator))
        world.step()
    assert first.position > before + 65536
    assert not second.socket.has_something()


def test_receivers_that_ask_at_the_control_address_get_the_stream() -> None:
    world = World(weather=LinkConditions(loss=0.02))
    uri = f"aeron:udp?control-mode=dynamic|control={HERE}:4001|term-length=64k"
    publishing = world.sending.add_publication(uri, 10)
    control = SocketAddress(HERE, 4001)
    for name in (THERE, ELSEWHERE):
        receiver = listen(world.network.machine(name))
        world.receivers.append(receiver)
        session_id = publishing.publication.session_id
        question = wire.StatusMessage(session_id, 10, 0, 0, 0, receiver.receiver_id, None, wire.SM_SEND_SETUP)

        def has_asked(receiver: ScriptedReceiver = receiver, question: wire.StatusMessage = question) -> bool:
            if receiver.setup is None and world.now_ns % (5 * MS) == 0:
                receiver.socket.send(wire.encode(question), control)
            return receiver.setup is not None

        world.run(has_asked)
    assert publishing.endpoint.destination_count == 2
    sent = world.publish(publishing, 100)
    assert [receiver.messages for receiver in world.receivers] == [sent, sent]
    world.receivers.pop()
    world.wait(7 * SECOND)
    assert publishing.endpoint.destination_count == 1


def test_a_group_hears_the_stream_and_its_setup_says_so() -> None:
    world = World(weather=LinkConditions(loss=0.02))
    uri = f"aeron:udp?endpoint=224.20.30.39:{PORT}|interface={HERE}|term-length=64k|ttl=3|fc=min"
    publishing = world.sending.add_publication(uri, 10)
    for name in (THERE, ELSEWHERE):
        machine = world.network.machine(name)
        receiver = listen(machine, group="224.20.30.39")
        world.receivers.append(receiver)
    world.run(lambda: all(receiver.setup is not None for receiver in world.receivers))
    for receiver in world.receivers:
        assert receiver.setup is not None
        assert (receiver.setup.ttl, receiver.setup.flags) == (3, wire.SETUP_GROUP)
        receiver.source = SocketAddress("224.20.30.40", PORT)
    world.wait(100 * MS)
    sent = world.publish(publishing, 200)
    assert [receiver.messages for receiver in world.receivers] == [sent, sent]


def test_the_end_of_a_stream_is_told_and_its_publication_let_go() -> None:
    world = World()
    publishing = world.sending.add_publication(f"aeron:udp?endpoint={THERE}:{PORT}|term-length=64k", 10)
    receiver = listen(world.network.machine(THERE))
    world.receivers.append(receiver)
    world.publish(publishing, 10)
    publication = publishing.publication
    publication.dec_ref()
    for _ in range(30):
        world.wait(10 * MS)
        world.sending.time_event()
    assert receiver.heartbeats[-1] == 0xE0
    assert not publication.has_reached_end_of_life
    receiver.send_status(wire.SM_EOS)
    for _ in range(3):
        world.wait(10 * MS)
        world.sending.time_event()
    assert publication.has_reached_end_of_life
    assert publishing.endpoint.should_be_closed()
    publication.close()
