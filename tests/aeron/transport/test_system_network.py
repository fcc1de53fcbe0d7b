"""Sockets of the system on the loopback interface."""

from __future__ import annotations

import os
import select
import socket
import time

import pytest

from everlog.aeron.transport.media.interfaces import NetworkInterface, system_interfaces
from everlog.aeron.transport.media.network import ASK_ALL, SocketSettings, SystemNetwork, UdpSocket
from everlog.kernel.udp import Datagrams, SocketAddress
from everlog.kernel.udp import UdpSocket as SystemSocket

V4 = int(socket.AF_INET)
NETWORK = SystemNetwork()
LOOPBACK = SocketAddress("127.0.0.1", 0)


def loopback() -> NetworkInterface:
    return next(each for each in system_interfaces() if each.is_loopback)


def arrived(sock: UdpSocket, count: int = 1) -> list[bytes]:
    assert isinstance(sock, SystemSocket)
    batch = Datagrams(16, 2048)
    found: list[bytes] = []
    end = time.monotonic() + 2
    while len(found) < count and time.monotonic() < end:
        select.select([sock.fileno()], [], [], 0.1)
        found += [batch.read(i) for i in range(sock.receive(batch))]
    return found


def test_a_group_on_the_loopback_interface_is_heard_by_all_members() -> None:
    group = SocketAddress("224.20.30.39", 40_000 + time.monotonic_ns() % 20_000)
    wildcard = SocketAddress("0.0.0.0", group.port)
    settings = SocketSettings(family=V4, bind=wildcard, group=group, interface=loopback(), reuse_address=True)
    members = [NETWORK.open_udp(settings) for _ in range(2)]
    sender = NETWORK.open_udp(SocketSettings(family=V4, interface=loopback(), ttl=3, connect=group))
    assert sender.send(b"all") == 3
    assert [arrived(member) for member in members] == [[b"all"], [b"all"]]
    for sock in (*members, sender):
        sock.close()


def test_another_group_on_the_same_port_is_not_heard() -> None:
    port = 40_000 + time.monotonic_ns() % 20_000
    groups = [SocketAddress(host, port) for host in ("224.20.30.41", "224.20.30.43")]
    wildcard = SocketAddress("0.0.0.0", port)
    members = [
        NETWORK.open_udp(
            SocketSettings(family=V4, bind=wildcard, group=group, interface=loopback(), reuse_address=True)
        )
        for group in groups
    ]
    sender = NETWORK.open_udp(SocketSettings(family=V4, interface=loopback()))
    for group in groups:
        sender.send(group.host.encode(), group)
    assert [arrived(member) for member in members] == [[b"224.20.30.41"], [b"224.20.30.43"]]
    for sock in (*members, sender):
        sock.close()


def test_a_socket_is_as_its_settings_say() -> None:
    peer = NETWORK.open_udp(SocketSettings(family=V4, bind=LOOPBACK))
    made = NETWORK.open_udp(
        SocketSettings(
            family=V4, bind=LOOPBACK, connect=peer.local_address, sndbuf_length=8192, rcvbuf_length=16384, ttl=9
        )
    )
    assert isinstance(made, SystemSocket)
    with socket.socket(fileno=socket.dup(made.fileno())) as same:
        assert same.getpeername() == peer.local_address.sockaddr
        # Linux gives twice what was asked for.
        assert same.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) in (8192, 16384)
        assert same.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) in (16384, 32768)
        assert same.getsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL) == 9
    assert os.get_blocking(made.fileno()) is False
    made.close()
    peer.close()


def test_a_port_that_is_taken_is_an_error_and_leaves_nothing_open() -> None:
    first = NETWORK.open_udp(SocketSettings(family=V4, bind=LOOPBACK))
    with pytest.raises(OSError, match="in use"):
        NETWORK.open_udp(SocketSettings(family=V4, bind=first.local_address))
    with pytest.raises(OSError, match="assign"):
        NETWORK.open_udp(SocketSettings(family=V4, bind=SocketAddress("192.0.2.77", 0)))
    first.close()


@pytest.mark.parametrize("count", [2, ASK_ALL + 3])
def test_a_selector_names_sockets_that_may_have_something(count: int) -> None:
    sockets = [NETWORK.open_udp(SocketSettings(family=V4, bind=LOOPBACK)) for _ in range(count)]
    selector = NETWORK.selector()  # type: ignore[var-annotated]
    for i, sock in enumerate(sockets):
        selector.add(sock, i)
    sockets[0].send(b"x", sockets[1].local_address)
    end = time.monotonic() + 2
    while 1 not in selector.ready() and time.monotonic() < end:
        time.sleep(0.001)
    assert selector.ready() == ([1] if count > ASK_ALL else list(range(count)))
    assert len(set(selector.numbers())) == count
    for sock in sockets:
        selector.remove(sock)
        selector.remove(sock)
        sock.close()
    assert selector.ready() == []
