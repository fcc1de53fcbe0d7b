"""Endpoints on the simulated network: where they send, from whom they accept, and what they count."""

from __future__ import annotations

import itertools
import random
from array import array
from dataclasses import dataclass, field
from typing import Any

import pytest

from everlog.aeron.channel_uri import ChannelUri, InvalidChannel
from everlog.aeron.transport.media.context import ChannelFailed, EndpointCounters, MediaContext
from everlog.aeron.transport.media.image_connection import ImageConnection
from everlog.aeron.transport.media.name_resolver import TableNameResolver
from everlog.aeron.transport.media.network import SocketSettings
from everlog.aeron.transport.media.port_manager import WildcardPortManager
from everlog.aeron.transport.media.receive_channel_endpoint import MAX_DESTINATIONS, ReceiveChannelEndpoint
from everlog.aeron.transport.media.receive_destination import ReceiveDestinationTransport
from everlog.aeron.transport.media.send_channel_endpoint import SendChannelEndpoint
from everlog.aeron.transport.media.send_destinations import MAX_DYNAMIC_DESTINATIONS
from everlog.aeron.transport.media.udp_channel import UdpChannel
from everlog.aeron.transport.memory.counters_memory import AtomicCounter, Counters
from everlog.aeron.transport.protocol import wire
from everlog.kernel.memory import Memory
from everlog.kernel.udp import Datagrams, SocketAddress
from everlog.testing.network.simulated import SimulatedMachine, SimulatedNetwork, SimulatedSocket

SECOND = 1_000_000_000
TERM_LENGTH = 65536


@dataclass
class Told:
    """Records the endpoints' callbacks."""

    errors: list[str] = field(default_factory=list)
    asked: list[tuple[Any, ...]] = field(default_factory=list)
    bound: dict[int, str] = field(default_factory=dict)

    def record(self, error: BaseException | str, now_ms: int | None = None) -> None:
        self.errors.append(str(error))

    def re_resolve_endpoint(self, endpoint_text: str, endpoint: Any, address: Any) -> None:
        self.asked.append(("endpoint", endpoint_text, endpoint, address))

    def re_resolve_control(self, control_text: str, channel: Any, endpoint: Any, address: Any) -> None:
        self.asked.append(("control", control_text, channel, endpoint, address))

    def response_setup(self, response_correlation_id: int, response_session_id: int) -> None:
        self.asked.append(("response", response_correlation_id, response_session_id))


@dataclass
class Publication:
    """A sender's handling of answers."""

    session_id: int = 1
    stream_id: int = 10
    term_length: int = TERM_LENGTH
    response_correlation_id: int = -1
    time_of_last_status_message_ns: int = 0
    accepts: bool = True
    got: list[tuple[Any, ...]] = field(default_factory=list)

    def is_valid_status_message(self, message: wire.StatusMessage) -> bool:
        return self.accepts

    def on_status_message(self, message: wire.StatusMessage, source: SocketAddress, now_ns: int) -> None:
        self.got.append(("status", message, source))

    def trigger_send_setup_frame(self, message: wire.StatusMessage, source: SocketAddress, now_ns: int) -> None:
        self.got.append(("setup", message, source))

    def on_nak(self, nak: wire.Nak, now_ns: int) -> None:
        self.got.append(("nak", nak))

    def on_rtt_measurement(self, message: wire.RttMeasurement, source: SocketAddress) -> None:
        self.got.append(("rtt", message, source))

    def on_error(
        self, error: wire.ErrorFrame, source: SocketAddress, destination_registration_id: int, now_ns: int
    ) -> None:
        self.got.append(("error", error, source, destination_registration_id))


class Rig:
    """Two machines, and the dependencies of endpoints on the first one."""

    def __init__(self) -> None:
        self.network = SimulatedNetwork(1)
        self.here = self.network.machine("10.0.0.1")
        self.there = self.network.machine("10.0.0.2", "10.0.0.3")
        self.counters = Counters(Memory.allocate(512 * 64), Memory.allocate(128 * 64))
        self.told = Told()
        names = ("invalid_packets", "short_sends", "status_messages_received", "status_messages_rejected")
        more = ("nak_messages_received", "error_frames_received", "error_frames_sent")
        self.system = EndpointCounters(**{name: self.counter(name) for name in (*names, *more)})
        self.context = MediaContext(
            network=self.here,
            counters=self.system,
            errors=self.told,
            conductor=self.told,
            append_label=lambda counter, text: self.counters.append_label(counter.id, text),
            update_bind_address=lambda counter, text: self.told.bound.update({counter.id: text}),
            sender_ports=WildcardPortManager((20000, 20003), is_sender=True),
            receiver_ports=WildcardPortManager((30000, 30003), is_sender=False),
            receiver_ids=itertools.count(77),
            epoch_ns=lambda: 123456789,
            receiver_group_tag=None,
        )

    def counter(self, label: str = "") -> AtomicCounter:
        return self.counters.allocate(1, b"", label, now_ms=0)

    def channel(self, text: str) -> UdpChannel:
        return UdpChannel.parse(text, TableNameResolver({}), interfaces=self.here.interfaces)

    def sending(self, channel: str) -> SendChannelEndpoint:
        made = SendChannelEndpoint(self.channel(channel), self.counter("snd-channel "), self.context)
        made.local_socket_address_indicator = self.counter()
        if made.udp_channel.is_multi_destination:
            made.destinations_counter = self.counter()
        made.open_channel()
        made.indicate_active()
        return made

    def receiving(self, channel: str) -> ReceiveChannelEndpoint[None]:
        made = ReceiveChannelEndpoint(self.channel(channel), None, self.counter("rcv-channel "), self.context, 0)
        made.open_channel()
        made.indicate_active()
        return made

    def peer(self, port: int, host: str = "10.0.0.2") -> SimulatedSocket:
        channel = UdpChannel.parse(f"aeron:udp?endpoint={host}:{port}", interfaces=self.there.interfaces)
        return self.there.open_udp(SocketSettings(family=channel.family, bind=channel.remote_data))


@pytest.fixture
def rig() -> Rig:
    return Rig()


def arrived(sock: SimulatedSocket) -> list[bytes]:
    batch = Datagrams(64, 2048)
    sock.receive(batch)
    return [batch.read(i) for i in range(len(batch))]


def polled(endpoint: SendChannelEndpoint, now_ns: int = 0) -> int:
    return endpoint.poll(Datagrams(64, 2048), now_ns)


def status(receiver_id: int = 5, session_id: int = 1, flags: int = 0, window: int = 4096) -> bytes:
    return wire.encode(wire.StatusMessage(session_id, 10, 0, 0, window, receiver_id, None, flags))


def at(port: int, host: str = "10.0.0.1") -> SocketAddress:
    return SocketAddress(host, port)


def test_a_publication_sends_to_its_endpoint_and_hears_its_answers(rig: Rig) -> None:
    peer, endpoint, publication = rig.peer(40123), rig.sending("aeron:udp?endpoint=10.0.0.2:40123"), Publication()
    endpoint.register(publication)
    assert endpoint.send(b"setup") == 5
    memory = Memory.allocate(64)
    memory.write(0, bytes(range(64)))
    assert endpoint.send_parts(memory, 0, array("q", [32, 64]), 2) == 2
    assert arrived(peer) == [b"setup", bytes(range(32)), bytes(range(32, 64))]
    local = at(endpoint.socket.local_address.port)
    nak = wire.Nak(1, 10, 0, 64, 128)
    rtt = wire.RttMeasurement(1, 10, 99, 0, 5, wire.RTTM_REPLY)
    error = wire.ErrorFrame(1, 10, 5, 13, "no")
    frames: list[wire.Frame] = [nak, rtt, error]
    for data in (status(), status(flags=wire.SM_SEND_SETUP), *map(wire.encode, frames)):
        peer.send(data, local)
    assert polled(endpoint) > 0
    source = at(40123, "10.0.0.2")
    assert [row[0] for row in publication.got] == ["status", "setup", "nak", "rtt", "error"]
    assert publication.got[0][2] == source
    assert publication.got[2:] == [("nak", nak), ("rtt", rtt, source), ("error", error, source, -1)]
    assert rig.system.status_messages_received.get() == 2
    assert (rig.system.nak_messages_received.get(), rig.system.error_frames_received.get()) == (1, 1)
    endpoint.unregister(publication)
    peer.send(status(), local)
    polled(endpoint)
    assert len(publication.got) == 5
    assert rig.system.invalid_packets.get() == 0


def test_a_channels_counters_tell_where_it_is_bound(rig: Rig) -> None:
    endpoint = rig.sending("aeron:udp?endpoint=10.0.0.2:40123|control=10.0.0.1:0")
    assert endpoint.bind_address_and_port == "10.0.0.1:20000"
    assert rig.counters.label(endpoint.status_indicator_counter_id) == "snd-channel 10.0.0.1:20000"
    assert list(rig.told.bound.values()) == ["10.0.0.1:20000"]
    assert endpoint.status == 1
    assert rig.sending("aeron:udp?endpoint=10.0.0.2:40123").socket.local_address.port == 32768
    receiver = rig.receiving("aeron:udp?endpoint=10.0.0.1:0")
    assert rig.counters.label(receiver.status_indicator_counter_id) == "rcv-channel 10.0.0.1:30000"
    receiver.close()
    receiver.close()
    assert receiver.status_indicator.is_closed
    assert rig.receiving("aeron:udp?endpoint=10.0.0.1:30000").socket.local_address.port == 30000


def test_a_channel_that_the_system_refuses_says_so(rig: Rig) -> None:
    rig.receiving("aeron:udp?endpoint=10.0.0.1:40123")
    endpoint = ReceiveChannelEndpoint(
        rig.channel("aeron:udp?endpoint=10.0.0.1:40123"), None, rig.counter(), rig.context, 0
    )
    with pytest.raises(ChannelFailed, match=r"^channel error - Address already in use: aeron:udp\?endpoint="):
        endpoint.open_channel()
    assert endpoint.status == -1
    assert not endpoint.is_open
    for _ in range(4):
        rig.receiving("aeron:udp?endpoint=10.0.0.1:0")
    with pytest.raises(ChannelFailed, match="wildcard ports"):
        rig.receiving("aeron:udp?endpoint=10.0.0.1:0")


def test_life_of_a_sending_endpoint(rig: Rig) -> None:
    endpoint = rig.sending("aeron:udp?endpoint=10.0.0.2:40123|tags=9")
    endpoint.inc_ref()
    endpoint.inc_ref()
    endpoint.dec_ref()
    assert not endpoint.should_be_closed()
    endpoint.dec_ref()
    assert endpoint.should_be_closed()
    endpoint.indicate_closing()
    assert endpoint.status == 2
    assert not endpoint.should_be_closed()
    assert endpoint.matches_tag(rig.channel("aeron:udp?tags=9"))
    with pytest.raises(InvalidChannel, match="mismatched endpoint"):
        endpoint.matches_tag(rig.channel("aeron:udp?tags=9|endpoint=10.0.0.2:1"))
    endpoint.close()
    endpoint.close()
    assert not endpoint.should_be_closed()
    assert endpoint.send(b"x") == 0
    assert polled(endpoint) == 0


def test_frames_that_are_none_are_counted_and_nothing_else(rig: Rig) -> None:
    endpoint, publication = rig.sending("aeron:udp?endpoint=10.0.0.2:40123"), Publication()
    endpoint.register(publication)
    local, source = at(endpoint.socket.local_address.port), at(40123, "10.0.0.2")
    good = [
        status(),
        wire.encode(wire.Nak(1, 10, 0, 0, 64)),
        wire.encode(wire.RttMeasurement(1, 10, 9, 0, 5)),
        wire.encode(wire.ErrorFrame(1, 10, 5, 13, "message")),
        wire.encode(wire.ResponseSetup(1, 10, 3)),
        wire.encode(wire.Setup(1, 10, 0, 0, 0, TERM_LENGTH, 1408)),
        wire.heartbeat(1, 10, 0, 0),
    ]
    rng = random.Random(5)
    hostile = [b"", b"\0", bytes(7), bytes(8), b"\xff" * 64]
    for data in good:
        hostile += [data[:cut] for cut in range(len(data))]
        for _ in range(300):
            broken = bytearray(data)
            for _ in range(rng.randint(1, 4)):
                broken[rng.randrange(len(broken))] = rng.randrange(256)
            hostile.append(bytes(broken))
    hostile += [rng.randbytes(rng.randrange(200)) for _ in range(3000)]
    batch = Datagrams(64, 2048)
    for start in range(0, len(hostile), 64):
        for data in hostile[start : start + 64]:
            rig.network.inject(data, source, local)
        endpoint.poll(batch, 0)
    assert rig.system.invalid_packets.get() > 3000
    assert rig.told.errors == []
    before = len(publication.got)
    rig.network.inject(status(), source, local)
    polled(endpoint)
    assert len(publication.got) == before + 1


def test_status_messages_out_of_bounds_are_rejected_or_invalid(rig: Rig) -> None:
    endpoint, publication = rig.sending("aeron:udp?endpoint=10.0.0.2:40123"), Publication(accepts=False)
    endpoint.register(publication)
    local, source = at(endpoint.socket.local_address.port), at(40123, "10.0.0.2")
    for data in (status(), status(window=TERM_LENGTH), wire.encode(wire.Nak(1, 10, 0, 0, TERM_LENGTH + 32))):
        rig.network.inject(data, source, local)
    polled(endpoint)
    assert publication.got == []
    assert rig.system.status_messages_rejected.get() == 1
    assert rig.system.invalid_packets.get() == 2
    rig.network.inject(status(flags=wire.SM_SEND_SETUP), source, local)
    polled(endpoint)
    assert [row[0] for row in publication.got] == ["setup"]


def test_destinations_by_hand_come_and_go(rig: Rig) -> None:
    endpoint = rig.sending("aeron:udp?control-mode=manual|control=10.0.0.1:40000")
    one, two = rig.peer(1), rig.peer(2)
    assert endpoint.send(b"nobody") == 6
    uri = ChannelUri.parse("aeron:udp?endpoint=10.0.0.2:1")
    endpoint.add_destination(uri, at(1, "10.0.0.2"), 100, 0)
    endpoint.add_destination(ChannelUri.parse("aeron:udp?endpoint=two:2"), at(2, "10.0.0.2"), 101, 0)
    endpoint.add_destination(ChannelUri.parse("aeron:udp?endpoint=later:3"), None, 102, 0)
    assert endpoint.destinations_counter is not None
    assert endpoint.destinations_counter.get() == endpoint.destination_count == 3
    assert endpoint.send(b"all") == 3
    assert (arrived(one), arrived(two)) == ([b"all"], [b"all"])
    memory = Memory.allocate(64)
    assert endpoint.send_parts(memory, 0, array("q", [32, 64, 0]), 2) == 2
    assert (arrived(one), arrived(two)) == ([bytes(32)] * 2, [bytes(32)] * 2)
    endpoint.remove_destination(at(1, "10.0.0.2"))
    endpoint.remove_destination(at(1, "10.0.0.2"))
    endpoint.send(b"two only")
    assert (arrived(one), arrived(two)) == ([], [b"two only"])
    endpoint.resolution_change("two:2", at(1, "10.0.0.2"))
    endpoint.send(b"moved")
    assert (arrived(one), arrived(two)) == ([b"moved"], [])
    endpoint.remove_destination_by_id(101)
    endpoint.remove_destination_by_id(102)
    assert endpoint.destinations_counter.get() == 0


def test_an_error_names_the_destination_it_came_from(rig: Rig) -> None:
    endpoint, publication = rig.sending("aeron:udp?control-mode=manual|control=10.0.0.1:40000"), Publication()
    endpoint.register(publication)
    endpoint.add_destination(ChannelUri.parse("aeron:udp?endpoint=10.0.0.2:1"), at(1, "10.0.0.2"), 100, 0)
    endpoint.add_destination(ChannelUri.parse("aeron:udp?endpoint=10.0.0.2:2"), at(2, "10.0.0.2"), 101, 0)
    rig.network.inject(status(receiver_id=8), at(2, "10.0.0.2"), at(40000))
    # Once its id is known, another address of the same receiver is as good.
    rig.network.inject(wire.encode(wire.ErrorFrame(1, 10, 8, 13, "")), at(2, "10.0.0.3"), at(40000))
    rig.network.inject(wire.encode(wire.ErrorFrame(1, 10, 9, 13, "")), at(2, "10.0.0.2"), at(40000))
    polled(endpoint)
    assert [row[3] for row in publication.got if row[0] == "error"] == [101, -1]


def test_another_destination_is_the_first_each_time(rig: Rig) -> None:
    endpoint = rig.sending("aeron:udp?control-mode=manual|control=10.0.0.1:40000")
    order: list[int] = []
    rig.network.weather.loses = lambda data, source, target: not order.append(target.port)  # type: ignore[func-returns-value]
    peers = [rig.peer(port) for port in (1, 2, 3)]
    for port in (1, 2, 3):
        endpoint.add_destination(ChannelUri.parse(f"aeron:udp?endpoint=x:{port}"), at(port, "10.0.0.2"), port, 0)
    for _ in range(4):
        endpoint.send(b"x")
    assert order == [1, 2, 3, 2, 3, 1, 3, 1, 2, 1, 2, 3]
    assert len(peers) == 3


def test_status_messages_add_destinations_and_silence_takes_them_away(rig: Rig) -> None:
    endpoint, publication = rig.sending("aeron:udp?control-mode=dynamic|control=10.0.0.1:40000"), Publication()
    endpoint.register(publication)
    one, two = rig.peer(1), rig.peer(2)
    one.send(status(receiver_id=1), at(40000))
    two.send(status(receiver_id=2), at(40000))
    one.send(status(receiver_id=1), at(40000))
    polled(endpoint, now_ns=0)
    assert endpoint.destination_count == 2
    endpoint.send(b"both")
    assert (arrived(one), arrived(two)) == ([b"both"], [b"both"])
    one.send(status(receiver_id=1), at(40000))
    polled(endpoint, now_ns=5 * SECOND + 1)
    endpoint.send(b"one")
    assert (arrived(one), arrived(two)) == ([b"one"], [])
    assert endpoint.destinations_counter is not None
    assert endpoint.destinations_counter.get() == 1
    with pytest.raises(InvalidChannel, match="channel does not allow manual control"):
        endpoint.add_destination(ChannelUri.parse("aeron:udp?endpoint=x:1"), None, 1, 0)


def test_spoofed_status_messages_add_destinations_up_to_a_limit(rig: Rig) -> None:
    endpoint = rig.sending("aeron:udp?control-mode=dynamic|control=10.0.0.1:40000")
    for i in range(MAX_DYNAMIC_DESTINATIONS + 64):
        rig.network.inject(status(receiver_id=i), at(1 + i, "172.16.0.1"), at(40000))
        if i % 64 == 63:
            polled(endpoint)
    assert endpoint.destination_count == MAX_DYNAMIC_DESTINATIONS
    assert set(rig.told.errors) == {f"too many dynamic destinations: {endpoint.original_uri}"}


def test_a_response_goes_to_whom_it_is_told_and_to_nobody_else(rig: Rig) -> None:
    endpoint, peer = rig.sending("aeron:udp?control-mode=response|control=10.0.0.1:40000"), rig.peer(1)
    memory = Memory.allocate(32)
    assert endpoint.send(b"x") == 0
    assert endpoint.send_parts(memory, 0, array("q", [32]), 1) == 0
    assert endpoint.send(b"x", at(1, "10.0.0.2")) == 1
    assert endpoint.send_parts(memory, 0, array("q", [32]), 1, at(1, "10.0.0.2")) == 1
    assert arrived(peer) == [b"x", bytes(32)]
    publication = Publication(response_correlation_id=44)
    endpoint.register(publication)
    rig.network.inject(wire.encode(wire.ResponseSetup(1, 10, 7)), at(1, "10.0.0.2"), at(40000))
    polled(endpoint)
    assert rig.told.asked == [("response", 44, 7)]


def test_what_the_system_refuses_to_send_is_told_and_counted_as_not_sent(rig: Rig) -> None:
    endpoint = rig.sending("aeron:udp?endpoint=10.0.0.2:40123")
    assert endpoint.send(bytes(65508)) == 0
    memory = Memory.allocate(65536)
    assert endpoint.send_parts(memory, 0, array("q", [65536]), 1) == 0
    cause = "java.io.IOException: Message too long"
    assert rig.told.errors == [f"failed to send datagram to /10.0.0.2:40123, cause: {cause}"] * 2


def test_silent_peers_are_looked_up_anew(rig: Rig) -> None:
    endpoint = rig.sending("aeron:udp?endpoint=10.0.0.2:40123")
    publication = Publication(time_of_last_status_message_ns=10 * SECOND)
    endpoint.register(publication)
    endpoint.check_for_re_resolution(15 * SECOND)
    assert rig.told.asked == []
    endpoint.check_for_re_resolution(15 * SECOND + 1)
    endpoint.check_for_re_resolution(16 * SECOND)
    assert rig.told.asked == [("endpoint", "10.0.0.2:40123", endpoint, at(40123, "10.0.0.2"))]
    peer = rig.peer(40123, "10.0.0.3")
    endpoint.resolution_change("10.0.0.2:40123", at(40123, "10.0.0.3"))
    endpoint.send(b"moved")
    assert arrived(peer) == [b"moved"]
    with pytest.raises(ChannelFailed, match="re-resolve endpoint channel error"):
        endpoint.resolution_change("10.0.0.2:40123", at(40123, "::1"))
    assert endpoint.status == -1
    manual = rig.sending("aeron:udp?control-mode=manual|control=10.0.0.1:40000")
    manual.add_destination(ChannelUri.parse("aeron:udp?endpoint=a:1"), at(1, "10.0.0.2"), 100, 0)
    rig.told.asked.clear()
    manual.check_for_re_resolution(5 * SECOND)
    manual.check_for_re_resolution(6 * SECOND)
    manual.check_for_re_resolution(7 * SECOND)
    assert rig.told.asked == [("endpoint", "a:1", manual, at(1, "10.0.0.2"))]


def test_a_group_is_sent_to_and_its_control_address_heard(rig: Rig) -> None:
    endpoint, publication = rig.sending("aeron:udp?endpoint=224.10.9.9:40123|interface=10.0.0.1|ttl=3"), Publication()
    endpoint.register(publication)
    receiver = rig.receiving("aeron:udp?endpoint=224.10.9.9:40123|interface=10.0.0.1")
    assert endpoint.multicast_ttl == 3
    assert receiver.is_multicast()
    endpoint.send(b"data")
    batch = Datagrams(4, 2048)
    assert receiver.receive(batch) == 1
    assert batch.read(0) == b"data"
    control = receiver.channel_of().remote_control
    assert control == at(40123, "224.10.9.10")
    connection = ImageConnection(control, 0)
    receiver.send_status_message([connection], 1, 10, 0, 0, 4096, 0, 0)
    polled(endpoint)
    assert publication.got[0][:2] == ("status", wire.StatusMessage(1, 10, 0, 0, 4096, receiver.receiver_id))
    endpoint.close()
    assert arrived_nothing(rig.here)


def arrived_nothing(machine: SimulatedMachine) -> bool:
    return not machine.sockets_at(at(40123, "224.10.9.10"))


def test_time_stamps_go_into_the_first_message_of_each_datagram(rig: Rig) -> None:
    endpoint = rig.sending("aeron:udp?endpoint=10.0.0.2:40123|channel-snd-ts-offset=8")
    reserved = rig.sending("aeron:udp?endpoint=10.0.0.2:40123|channel-snd-ts-offset=reserved")
    memory = Memory.allocate(256)

    def frame(offset: int, length: int, flags: int = 0xC0, kind: int = 1) -> None:
        memory.zero(offset, 64)
        memory.put_i32(offset, length)
        memory.write(offset + 4, bytes([0, flags, kind, 0]))

    frame(0, 64)
    frame(64, 64, flags=0x40)
    frame(128, 64, kind=0)
    frame(192, 48)
    endpoint.send_parts(memory, 0, array("q", [64, 128, 192, 256]), 4)
    assert [memory.get_i64(at + 40) for at in (0, 64, 128, 192)] == [123456789, 0, 0, 123456789]
    frame(192, 47)
    endpoint.send_parts(memory, 192, array("q", [256]), 1)
    assert memory.get_i64(232) == 0
    endpoint.send_parts(memory, 0, array("q", [44]), 1)
    frame(0, 64)
    endpoint.send_parts(memory, 0, array("q", [44]), 1)
    assert memory.get_i64(40) == 0  # too short for the time
    reserved.send_parts(memory, 0, array("q", [32]), 1)
    assert memory.get_i64(24) == 123456789


@pytest.mark.parametrize("offset", [16, 32, 40, 64])
def test_a_time_stamp_never_goes_into_the_message_behind_the_first(rig: Rig, offset: int) -> None:
    endpoint = rig.sending(f"aeron:udp?endpoint=10.0.0.2:40123|channel-snd-ts-offset={offset}")
    memory = Memory.allocate(256)
    for at in range(0, 256, 64):
        memory.write(at, bytes([48, 0, 0, 0, 0, 0xC0, 1, 0]) + bytes(range(24)) + b"x" * 16)
    before = memory.read(0, 256)
    endpoint.send_parts(memory, 0, array("q", [256]), 1)
    assert memory.read(0, 256) == before


def test_a_receiver_answers_the_senders_of_an_image(rig: Rig) -> None:
    endpoint, peer = rig.receiving("aeron:udp?endpoint=10.0.0.1:40123|gtag=-5"), rig.peer(7)
    there = at(7, "10.0.0.2")
    connections = [ImageConnection(there, 0)]
    endpoint.send_status_message(connections, 1, 10, 3, 64, 4096, wire.SM_EOS, 0)
    endpoint.send_nak(connections, 1, 10, 3, 64, 128, 0)
    endpoint.send_rtt_measurement(connections, 1, 10, 99, 2, True, 0)
    endpoint.send_rtt_measurement_to(0, there, 1, 10, 98, 3, False)
    endpoint.send_response_setup(connections, 1, 10, 44, 0)
    endpoint.send_error(connections, 1, 10, 12, "no", 0)
    endpoint.send_setup_eliciting_status_message(0, there, 1, 10)
    assert [wire.decode(data) for data in arrived(peer)] == [
        wire.StatusMessage(1, 10, 3, 64, 4096, 77, -5, wire.SM_EOS),
        wire.Nak(1, 10, 3, 64, 128),
        wire.RttMeasurement(1, 10, 99, 2, 77, wire.RTTM_REPLY),
        wire.RttMeasurement(1, 10, 98, 3, 77, 0),
        wire.ResponseSetup(1, 10, 44),
        wire.ErrorFrame(1, 10, 77, 12, "no", -5),
        wire.StatusMessage(1, 10, 0, 0, 0, 77, -5, wire.SM_SEND_SETUP),
    ]
    assert rig.system.error_frames_sent.get() == 1
    assert rig.system.short_sends.get() == 0
    endpoint.close()
    endpoint.send_nak(connections, 1, 10, 3, 64, 128, 0)
    assert rig.system.short_sends.get() == 1


def destination(rig: Rig, endpoint: ReceiveChannelEndpoint[None], channel: str) -> ReceiveDestinationTransport:
    parsed = UdpChannel.parse(channel, TableNameResolver({}), True, rig.here.interfaces)
    made = ReceiveDestinationTransport(parsed, rig.context, rig.counter(), endpoint.buffer_lengths, 0)
    made.open_channel(endpoint.status_indicator)
    made.indicate_active()
    return made


def test_a_subscription_has_several_sources(rig: Rig) -> None:
    endpoint = rig.receiving("aeron:udp?control-mode=manual|so-rcvbuf=4k")
    assert not endpoint.is_open
    assert endpoint.transports() == []
    assert not endpoint.has_destination(0)
    first = destination(rig, endpoint, "aeron:udp?endpoint=10.0.0.1:40001")
    second = destination(rig, endpoint, "aeron:udp?endpoint=10.0.0.1:40002|control=10.0.0.2:9")
    assert (endpoint.add_destination(first), endpoint.add_destination(second)) == (0, 1)
    assert endpoint.transports() == [(0, first), (1, second)]
    assert first.socket_rcvbuf_length == 4096
    assert rig.told.bound[first.local_socket_address_indicator.id] == "10.0.0.1:40001"
    assert endpoint.explicit_control_address(0) is None
    assert endpoint.explicit_control_address(1) == at(9, "10.0.0.2")
    endpoint.update_control_address(1, at(10, "10.0.0.2"))
    assert endpoint.explicit_control_address(1) == at(10, "10.0.0.2")
    assert endpoint.destination_index(rig.channel("aeron:udp?endpoint=10.0.0.1:40001")) == 0
    assert endpoint.destination_index(rig.channel("aeron:udp?endpoint=10.0.0.1:40003")) == -1
    peers = [rig.peer(1), rig.peer(2)]
    connections = [ImageConnection(at(1, "10.0.0.2"), 0), ImageConnection(at(2, "10.0.0.2"), 2 * SECOND)]
    endpoint.send_nak(connections, 1, 10, 0, 0, 32, SECOND)
    assert [len(arrived(peer)) for peer in peers] == [1, 1]
    endpoint.send_nak(connections, 1, 10, 0, 0, 32, 6 * SECOND)  # the first is silent
    assert [len(arrived(peer)) for peer in peers] == [0, 1]
    endpoint.remove_destination(0)
    assert endpoint.add_destination(first) == 0
    endpoint.remove_destination(1)
    endpoint.send_nak(connections, 1, 10, 0, 0, 32, 6 * SECOND)
    endpoint.send_setup_eliciting_status_message(1, at(2, "10.0.0.2"), 1, 10)
    assert [len(arrived(peer)) for peer in peers] == [0, 0]
    assert rig.system.short_sends.get() == 0
    for index in (1, 2, -1):
        with pytest.raises(IndexError):
            endpoint.destination(index)
    endpoint.close()
    assert first.local_socket_address_indicator.is_closed


def test_a_subscription_has_not_more_sources_than_an_image_has_room_for(rig: Rig) -> None:
    endpoint = rig.receiving("aeron:udp?control-mode=manual")
    transport = destination(rig, endpoint, "aeron:udp?endpoint=10.0.0.1:40001")
    for _ in range(MAX_DESTINATIONS):
        endpoint.add_destination(transport)
    with pytest.raises(InvalidChannel, match="one more destination"):
        endpoint.add_destination(transport)
    plain = rig.receiving("aeron:udp?endpoint=10.0.0.1:40009")
    with pytest.raises(InvalidChannel, match="channel does not allow manual control"):
        plain.validate_allows_destination_control()
    with pytest.raises(IndexError):
        plain.channel_of(1)


def test_silent_control_addresses_are_looked_up_anew(rig: Rig) -> None:
    channel = "aeron:udp?endpoint=10.0.0.1:40001|control=10.0.0.2:9|tags=3"
    endpoint = rig.receiving(channel)
    endpoint.on_activity(SECOND)
    endpoint.check_for_re_resolution(6 * SECOND)
    assert rig.told.asked == []
    endpoint.check_for_re_resolution(6 * SECOND + 1)
    endpoint.check_for_re_resolution(7 * SECOND)
    assert rig.told.asked == [("control", "10.0.0.2:9", endpoint.udp_channel, endpoint, at(9, "10.0.0.2"))]
    endpoint.update_control_address(0, at(9, "10.0.0.3"))
    assert endpoint.explicit_control_address() == at(9, "10.0.0.3")
    assert endpoint.matches_tag(rig.channel("aeron:udp?tags=3|endpoint=10.0.0.1:40001|control=10.0.0.3:9"))
    manual = rig.receiving("aeron:udp?control-mode=manual")
    first = destination(rig, manual, "aeron:udp?endpoint=10.0.0.1:40005|control=10.0.0.2:8")
    manual.add_destination(first)
    manual.on_activity(SECOND, 0)
    rig.told.asked.clear()
    for now_ns in (6 * SECOND, 6 * SECOND + 1, 7 * SECOND):
        manual.check_for_re_resolution(now_ns)
    assert rig.told.asked == [("control", "10.0.0.2:8", first.udp_channel, manual, at(8, "10.0.0.2"))]


def test_who_uses_a_receiving_endpoint_is_counted(rig: Rig) -> None:
    endpoint = rig.receiving("aeron:udp?endpoint=10.0.0.1:40001")
    assert endpoint.should_be_closed()
    assert [endpoint.inc_ref_to_stream(10), endpoint.inc_ref_to_stream(10)] == [1, 2]
    assert endpoint.inc_ref_to_stream_and_session(10, 5) == 1
    assert endpoint.inc_response_ref_to_stream(11) == 1
    endpoint.inc_ref_images()
    assert endpoint.distinct_subscription_count == 2
    assert [endpoint.dec_ref_to_stream(10), endpoint.dec_ref_to_stream(10)] == [1, 0]
    assert endpoint.dec_ref_to_stream_and_session(10, 5) == 0
    assert endpoint.dec_response_ref_to_stream(11) == 0
    assert not endpoint.should_be_closed()
    endpoint.dec_ref_images()
    assert endpoint.should_be_closed()
    endpoint.indicate_closing()
    assert not endpoint.should_be_closed()
    with pytest.raises(ValueError, match="nobody"):
        endpoint.dec_ref_to_stream(10)
