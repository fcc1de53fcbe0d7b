"""UDP in batches on the loopback interface: the compiled module and its twin do the same."""

from __future__ import annotations

import itertools
import pickle
import random
import select
import socket
import sys
import time
from array import array
from types import ModuleType
from typing import Any

import pytest

from everlog.kernel import _udp, udp_twin
from everlog.kernel.memory import Memory
from everlog.kernel.socket_address import SocketAddress

KINDS = pytest.mark.parametrize("kind", [_udp, udp_twin], ids=["compiled", "twin"])
LOOPBACK = SocketAddress("127.0.0.1", 0)
SO_NO_CHECK = 11


def opened(kind: ModuleType, host: str = "127.0.0.1") -> Any:
    address = SocketAddress(host, 0)
    sock = socket.socket(address.family, socket.SOCK_DGRAM)
    sock.bind(address.sockaddr)
    return kind.UdpSocket(sock)


def received(sock: Any, batch: Any, count: int) -> list[tuple[bytes, SocketAddress]]:
    """What came, waiting up to two seconds for ``count`` datagrams."""
    found: list[tuple[bytes, SocketAddress]] = []
    end = time.monotonic() + 2
    while len(found) < count and time.monotonic() < end:
        select.select([sock.fileno()], [], [], 0.1)
        found += [(batch.read(i), batch.source(i)) for i in range(sock.receive(batch))]
    return found


@KINDS
def test_a_datagram_arrives_with_its_source(kind: ModuleType) -> None:
    sender, receiver, batch = opened(kind), opened(kind), kind.Datagrams(4)
    assert receiver.receive(batch) == 0
    assert sender.send(b"hello", receiver.local_address) == 5
    assert received(receiver, batch, 1) == [(b"hello", sender.local_address)]
    assert len(batch) == 1
    assert batch.length(0) == 5
    assert bytes(batch.view(0)) == b"hello"
    assert batch.memory.read(0, 5) == b"hello"
    assert batch.lengths.get_i32(0) == 5
    for ended in (sender, receiver):
        ended.close()
        ended.close()
        assert ended.closed
        assert ended.fileno() == -1


@KINDS
def test_parts_of_a_memory_are_a_datagram_each(kind: ModuleType) -> None:
    sender, receiver, batch = opened(kind), opened(kind), kind.Datagrams(32)
    memory = Memory.allocate(4096)
    memory.write(0, bytes(range(256)) * 16)
    ends = array("q", [64, 65, 1000])
    assert sender.send_parts(memory, 10, ends, receiver.local_address) == 3
    parts = [memory.read(10, 54), memory.read(64, 1), memory.read(65, 935)]
    assert [data for data, _ in received(receiver, batch, 3)] == parts
    assert sender.send_parts(memory, 10, [64, 65, 1000], receiver.local_address, 2) == 2
    assert [data for data, _ in received(receiver, batch, 2)] == parts[:2]
    in_memory = Memory.allocate(16)
    in_memory.put_i64(0, 11)
    in_memory.put_i64(8, 12)
    assert sender.send_parts(memory, 10, in_memory, receiver.local_address) == 2
    assert [data for data, _ in received(receiver, batch, 2)] == [b"\x0a", b"\x0b"]
    assert sender.send_parts(memory, 10, [], receiver.local_address) == 0
    sender.close()
    receiver.close()


@KINDS
def test_more_parts_than_one_call_takes_keep_their_order(kind: ModuleType) -> None:
    sender, receiver, batch = opened(kind), opened(kind), kind.Datagrams(50, 64)
    memory = Memory.allocate(8 * 150)
    for i in range(150):
        memory.put_i64(8 * i, i)
    assert sender.send_parts(memory, 0, range_ends := array("q", range(8, 8 * 151, 8)), receiver.local_address) == 150
    assert len(range_ends) == 150
    assert [int.from_bytes(data, "little") for data, _ in received(receiver, batch, 150)] == list(range(150))
    sender.close()
    receiver.close()


@KINDS
@pytest.mark.parametrize("is_refused", [False, True], ids=["segmented", "not segmented"])
@pytest.mark.parametrize(
    "lengths",
    [
        [1408] * 45 + [17],
        [1408] * 46 + [1408],
        [8192] * 9,
        [32] * 130,
        [64, 64, 32, 64, 64, 96, 96, 1, 2, 2, 1],
        [40000, 40000, 20000],
        [65507, 65507, 1],
        list(range(100, 0, -1)),
    ],
    ids=["a shorter last", "46 of a length", "more than a datagram", "more than 64", "mixed", "two", "long", "falling"],
)
def test_parts_of_one_length_are_cut_where_they_end(kind: ModuleType, lengths: list[int], is_refused: bool) -> None:
    sender, receiver, batch = opened(kind), opened(kind), kind.Datagrams(64)
    with socket.socket(fileno=socket.dup(receiver.fileno())) as same:
        same.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    if is_refused and sys.platform == "linux":
        # Without checksums the system does not cut what it is given: then it must be sent one by one.
        with socket.socket(fileno=socket.dup(sender.fileno())) as same:
            same.setsockopt(socket.SOL_SOCKET, SO_NO_CHECK, 1)
    memory = Memory.allocate(sum(lengths))
    memory.write(0, random.Random(3).randbytes(sum(lengths)))
    bounds = [0, *itertools.accumulate(lengths)]
    ends, sent = array("q", bounds[1:]), 0
    found: list[bytes] = []
    while sent < len(lengths):
        more = sender.send_parts(memory, bounds[sent], ends[sent : sent + 8], receiver.local_address)
        assert more > 0
        sent += more
        found += [data for data, _ in received(receiver, batch, more)]
    assert found == [memory.read(start, end - start) for start, end in itertools.pairwise(bounds)]
    assert sender.send_parts(memory, 0, ends, receiver.local_address) > 0
    sender.close()
    receiver.close()


@KINDS
@pytest.mark.parametrize(
    ("offset", "ends", "count"),
    [
        (0, [4097], -1),
        (0, [10, 10], -1),
        (0, [10, 9], -1),
        (-1, [10], -1),
        (100, [50], -1),
        (0, [1 << 62], -1),
        (0, [10], 2),
        (0, b"1234567", -1),
    ],
)
def test_ends_outside_the_memory_are_refused_before_anything_is_sent(
    kind: ModuleType, offset: int, ends: Any, count: int
) -> None:
    sender, receiver, batch = opened(kind), opened(kind), kind.Datagrams(4)
    with pytest.raises(ValueError):
        sender.send_parts(Memory.allocate(4096), offset, ends, receiver.local_address, count)
    assert receiver.receive(batch) == 0
    sender.close()
    receiver.close()


@KINDS
def test_a_datagram_longer_than_its_slot_has_no_length(kind: ModuleType) -> None:
    sender, receiver, batch = opened(kind), opened(kind), kind.Datagrams(4, 64)
    sender.send(b"x" * 65, receiver.local_address)
    sender.send(b"y" * 64, receiver.local_address)
    assert [data for data, _ in received(receiver, batch, 2)] == [b"", b"y" * 64]
    assert batch.add(b"z" * 65, LOOPBACK) is True
    assert batch.read(len(batch) - 1) == b""
    sender.close()
    receiver.close()


@KINDS
def test_the_longest_datagram_there_is_fits_a_slot(kind: ModuleType) -> None:
    sender, receiver, batch = opened(kind), opened(kind), kind.Datagrams(2)
    longest = random.Random(1).randbytes(65507)
    assert sender.send(longest, receiver.local_address) == 65507
    assert received(receiver, batch, 1)[0][0] == longest
    with pytest.raises(OSError, match="long"):
        sender.send(longest + b"!", receiver.local_address)
    sender.close()
    receiver.close()


@KINDS
def test_a_connected_socket_needs_no_address_and_hears_only_its_peer(kind: ModuleType) -> None:
    one, two, stranger, batch = opened(kind), opened(kind), opened(kind), kind.Datagrams(4)
    one.connect(two.local_address)
    assert one.send(b"to two") == 6
    assert received(two, batch, 1) == [(b"to two", one.local_address)]
    stranger.send(b"psst", one.local_address)
    two.send(b"answer", one.local_address)
    assert received(one, batch, 1) == [(b"answer", two.local_address)]
    memory = Memory.allocate(8)
    assert one.send_parts(memory, 0, [4, 8]) == 2
    for ended in (one, two, stranger):
        ended.close()


@KINDS
def test_a_port_that_nobody_listens_on_is_no_fault(kind: ModuleType) -> None:
    one, two, batch = opened(kind), opened(kind), kind.Datagrams(4)
    gone = two.local_address
    two.close()
    one.connect(gone)
    results = []
    for _ in range(20):
        results.append(one.send(b"anybody?"))
        assert one.receive(batch) == 0
    assert set(results) <= {0, 8}
    one.close()


@KINDS
def test_what_the_system_refuses_is_an_error(kind: ModuleType) -> None:
    sock, batch = opened(kind), kind.Datagrams(4)
    with pytest.raises(OSError, match=r"."):
        sock.send(b"x")  # not connected
    with pytest.raises(OSError, match=r"."):
        sock.send(b"x", SocketAddress("::1", 9))
    sock.close()
    with pytest.raises(OSError, match=r"."):
        sock.receive(batch)
    with pytest.raises(OSError, match=r"."):
        sock.send(b"x", LOOPBACK.with_port(9))


@KINDS
def test_ipv6_works_the_same(kind: ModuleType) -> None:
    if not socket.has_ipv6 or not any(len(row[3]) == 16 for row in kind.interface_rows()):
        pytest.skip("this machine has no IPv6 address")
    sender, receiver, batch = opened(kind, "::1"), opened(kind, "::1"), kind.Datagrams(4)
    assert sender.send(b"six", receiver.local_address) == 3
    assert received(receiver, batch, 1) == [(b"six", sender.local_address)]
    assert str(sender.local_address) == f"[0:0:0:0:0:0:0:1]:{sender.local_address.port}"
    sender.close()
    receiver.close()


@KINDS
def test_a_batch_is_filled_by_hand_too(kind: ModuleType) -> None:
    batch = kind.Datagrams(2, 64)
    there = SocketAddress("fe80::1", 40123, 7)
    assert batch.add(b"", LOOPBACK)
    assert batch.add(bytearray(b"abc"), there)
    assert not batch.add(b"full", there)
    assert [batch.read(i) for i in range(len(batch))] == [b"", b"abc"]
    assert batch.source(1) == there
    assert batch.source(1).scope == 7
    batch.clear()
    assert len(batch) == 0
    for index in (0, -1, 5):
        for what in (batch.read, batch.view, batch.length, batch.source):
            with pytest.raises(IndexError):
                what(index)


@KINDS
def test_a_batch_has_limits(kind: ModuleType) -> None:
    for capacity, slot in ((0, 64), (1025, 64), (1, 0), (1, 65537), (1, 65)):
        with pytest.raises(ValueError):
            kind.Datagrams(capacity, slot)


@KINDS
def test_sources_without_end_cost_no_memory_without_end(kind: ModuleType) -> None:
    batch = kind.Datagrams(1, 64)
    for i in range(5000):
        batch.clear()
        batch.add(b"", SocketAddress("10.0.0.1", i))
        assert batch.source(0).port == i


@KINDS
def test_the_loopback_interface_is_listed(kind: ModuleType) -> None:
    found = [row for row in kind.interface_rows() if row[3] == b"\x7f\0\0\1"]
    assert len(found) == 1
    name, index, flags, _, prefix = found[0]
    assert socket.if_nametoindex(name) == index
    assert prefix == 8
    assert flags & 0x1  # up
    assert flags & 0x8  # loopback


def test_both_see_the_same_interfaces() -> None:
    assert sorted(_udp.interface_rows()) == sorted(udp_twin.interface_rows())


def test_addresses_are_written_as_java_does() -> None:
    assert str(SocketAddress("192.168.0.1", 20000)) == "192.168.0.1:20000"
    assert str(SocketAddress("FC07::789:1:0:0:3", 54321)) == "[fc07:0:0:789:1:0:0:3]:54321"
    assert SocketAddress("fe80::1", 1, 4).host_text == "fe80:0:0:0:0:0:0:1%4"
    assert SocketAddress("FC07::789:1:0:0:3", 1).host == "fc07::789:1:0:0:3"


def test_addresses_compare_hash_and_pickle() -> None:
    one = SocketAddress("::1", 40123)
    assert one == SocketAddress("0:0:0:0:0:0:0:1", 40123)
    assert hash(one) == hash(SocketAddress("0:0:0:0:0:0:0:1", 40123))
    assert one != one.with_port(40124)
    assert pickle.loads(pickle.dumps(one)) == one
    with pytest.raises(AttributeError):
        one.port = 1
    assert one.packed == bytes(15) + b"\x01" + b"\x9c\xbb" + bytes(4)
    assert SocketAddress("127.0.0.1", 40123).packed == b"\x7f\0\0\1\x9c\xbb"


@pytest.mark.parametrize(
    ("host", "multicast", "wildcard"),
    [
        ("224.0.1.1", True, False),
        ("239.255.255.250", True, False),
        ("223.255.255.255", False, False),
        ("240.0.0.0", False, False),
        ("ff02::1", True, False),
        ("fe80::1", False, False),
        ("0.0.0.0", False, True),
        ("::", False, True),
    ],
)
def test_kinds_of_addresses(host: str, multicast: bool, wildcard: bool) -> None:
    address = SocketAddress(host, 1)
    assert (address.is_multicast, address.is_any) == (multicast, wildcard)


@pytest.mark.parametrize(("host", "port"), [("localhost", 1), ("1.2.3", 1), ("127.0.0.1", 65536), ("::1", -1), ("", 1)])
def test_what_is_no_numeric_address_is_refused(host: str, port: int) -> None:
    with pytest.raises(ValueError):
        SocketAddress(host, port)
    with pytest.raises(ValueError):
        SocketAddress.from_packed(b"12345")
