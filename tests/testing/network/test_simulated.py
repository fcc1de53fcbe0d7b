"""The simulated network does what its weather says, and the same for the same seed."""

from __future__ import annotations

import socket
from array import array

import pytest

from everlog.aeron.transport.media.network import Network, SocketSettings
from everlog.kernel.memory import Memory
from everlog.kernel.udp import Datagrams, SocketAddress
from everlog.testing.network.simulated import LinkConditions, SimulatedMachine, SimulatedNetwork, SimulatedSocket

V4 = int(socket.AF_INET)


def bound(machine: SimulatedMachine, host: str = "0.0.0.0", port: int = 0, **more: object) -> SimulatedSocket:
    settings = SocketSettings(family=V4, bind=SocketAddress(host, port), **more)  # type: ignore[arg-type]
    return machine.open_udp(settings)


def arrived(sock: SimulatedSocket) -> list[bytes]:
    batch = Datagrams(16, 2048)
    found = []
    while sock.receive(batch):
        found += [batch.read(i) for i in range(len(batch))]
    return found


def two(
    seed: int = 1, weather: LinkConditions | None = None
) -> tuple[SimulatedNetwork, SimulatedMachine, SimulatedMachine]:
    network = SimulatedNetwork(seed, weather)
    return network, network.machine("10.0.0.1"), network.machine("10.0.0.2")


def test_a_machine_is_a_network() -> None:
    network: Network = SimulatedNetwork(0).machine("10.0.0.1")
    assert network.open_udp(SocketSettings(family=V4)).local_address == SocketAddress("0.0.0.0", 32768)


def test_a_datagram_arrives_with_its_source() -> None:
    _, here, there = two()
    sender, receiver, batch = bound(here), bound(there, port=40123), Datagrams(4, 64)
    assert sender.send(b"hello", SocketAddress("10.0.0.2", 40123)) == 5
    assert receiver.receive(batch) == 1
    assert batch.read(0) == b"hello"
    assert batch.source(0) == SocketAddress("10.0.0.1", sender.local_address.port)
    memory = Memory.allocate(16)
    memory.write(0, b"0123456789abcdef")
    assert sender.send_parts(memory, 2, array("q", [4, 10]), SocketAddress("10.0.0.2", 40123)) == 2
    assert arrived(receiver) == [b"23", b"456789"]


def test_loopback_stays_on_its_machine() -> None:
    network, here, there = two(weather=LinkConditions(loss=1.0))
    mine, theirs = bound(here, port=40123), bound(there, port=40123)
    bound(here, "127.0.0.1").send(b"x", SocketAddress("127.0.0.1", 40123))
    assert (arrived(mine), arrived(theirs)) == ([b"x"], [])
    assert network.traffic.lost == 0


def test_time_and_delay_decide_when_a_datagram_arrives() -> None:
    network, here, there = two(weather=LinkConditions(delay_ns=(100, 200)))
    sender, receiver = bound(here), bound(there, port=1)
    for i in range(50):
        sender.send(bytes([i]), SocketAddress("10.0.0.2", 1))
    network.advance(99)
    assert arrived(receiver) == []
    network.advance(150)
    early = arrived(receiver)
    network.advance(200)
    assert early + arrived(receiver) == [bytes([i]) for i in range(50)]
    network.advance(10)
    assert network.now_ns == 200


def test_weather_is_as_often_as_it_says_and_the_same_for_a_seed() -> None:
    def run(seed: int) -> tuple[list[bytes], object]:
        network, here, there = two(seed, LinkConditions(loss=0.1, duplication=0.1, reordering=0.1))
        sender, receiver = bound(here), bound(there, port=1, rcvbuf_length=1 << 20)
        for i in range(2000):
            network.advance(i * 1000)
            sender.send(i.to_bytes(2, "big"), SocketAddress("10.0.0.2", 1))
        network.advance(1 << 40)
        return arrived(receiver), network.traffic

    found, traffic = run(7)
    assert run(7) == (found, traffic)
    assert run(8) != (found, traffic)
    assert 1750 < len(set(found)) < 1900  # both copies are rarely lost
    assert 100 < len(found) - len(set(found)) < 260
    assert found != sorted(found)


def test_partitions_cut_and_heal() -> None:
    network, here, there = two()
    one, other = bound(here, port=1), bound(there, port=1)
    network.partition([here], [there])
    one.send(b"lost", SocketAddress("10.0.0.2", 1))
    other.send(b"lost", SocketAddress("10.0.0.1", 1))
    assert (arrived(one), arrived(other)) == ([], [])
    assert network.traffic.cut_off == 2
    network.heal()
    network.cut(here, there)
    one.send(b"lost", SocketAddress("10.0.0.2", 1))
    other.send(b"through", SocketAddress("10.0.0.1", 1))
    assert (arrived(one), arrived(other)) == ([b"through"], [])


def test_a_group_is_heard_by_all_who_joined_it_on_the_same_machine_too() -> None:
    network, here, there = two()
    group = SocketAddress("224.0.1.1", 40456)
    members = [bound(machine, port=40456, group=group, reuse_address=True) for machine in (here, here, there)]
    stranger = bound(there, port=40456, reuse_address=True)
    bound(here).send(b"all", group)
    assert [arrived(member) for member in members] == [[b"all"]] * 3
    assert arrived(stranger) == []
    assert network.traffic.delivered == 3


def test_ports_are_taken_once_and_given_back() -> None:
    _, here, _ = two()
    first = bound(here, port=5)
    with pytest.raises(OSError, match="in use"):
        bound(here, "10.0.0.1", 5)
    with pytest.raises(OSError, match="assign"):
        bound(here, "10.0.0.2", 6)
    first.close()
    assert bound(here, "10.0.0.1", 5).local_address.port == 5
    with pytest.raises(OSError, match="descriptor"):
        first.send(b"", SocketAddress("10.0.0.2", 1))


def test_a_connected_socket_hears_only_its_peer_and_a_full_one_nobody() -> None:
    network, here, there = two()
    peer, stranger = bound(there, port=1), bound(there, port=2)
    mine = bound(here, port=3, connect=SocketAddress("10.0.0.2", 1), rcvbuf_length=100)
    assert mine.send(b"hello") == 5
    peer.send(b"a" * 60, SocketAddress("10.0.0.1", 3))
    peer.send(b"b" * 60, SocketAddress("10.0.0.1", 3))
    stranger.send(b"c", SocketAddress("10.0.0.1", 3))
    assert arrived(mine) == [b"a" * 60]
    assert network.traffic.overflowed == 1


def test_a_test_chooses_losses_and_injects_what_it_likes() -> None:
    network, here, there = two()
    network.weather.loses = lambda data, source, target: data == b"no"
    sender, receiver = bound(here), bound(there, port=1)
    for data in (b"yes", b"no", b"yes"):
        sender.send(data, SocketAddress("10.0.0.2", 1))
    network.inject(b"spoofed", SocketAddress("1.2.3.4", 5), SocketAddress("10.0.0.2", 1))
    assert arrived(receiver) == [b"yes", b"yes", b"spoofed"]


def test_a_selector_names_the_sockets_that_have_something() -> None:
    _, here, there = two()
    sockets = {port: bound(there, port=port) for port in (1, 2, 3)}
    selector = there.selector()  # type: ignore[var-annotated]
    for port, sock in sockets.items():
        selector.add(sock, port)
    bound(here).send(b"x", SocketAddress("10.0.0.2", 2))
    assert selector.ready() == [2]
    selector.remove(sockets[2])
    assert selector.ready() == []
