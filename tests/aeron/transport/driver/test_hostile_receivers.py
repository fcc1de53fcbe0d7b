"""Frames from attackers to a sender: random bytes, and frames that are cut, changed or invented. They are counted
and dropped, or harm only those who trust them: the stream continues, and only the stream is ever sent."""

from __future__ import annotations

import random
import zlib

import pytest

from everlog.aeron.transport.driver.system_counters import SystemCounter
from everlog.aeron.transport.format.wire_layouts import FrameHeader
from everlog.aeron.transport.protocol import wire
from everlog.kernel.udp import SocketAddress
from everlog.testing.network.streams import Publishing
from tests.aeron.transport.driver.sender.test_on_network import HERE, MS, PORT, THERE, US, World, listen, numbers

INT32, INT64 = 1 << 31, 1 << 63
INTERESTING = (0, 1, -1, 31, 32, 64, 1408, 65504, 65536, 1 << 20, INT32 - 1, -INT32, 3623987585 - (1 << 32))


def some(generator: random.Random, *, near: int = 0) -> int:
    """A number at a limit, or near a correct one."""
    return generator.choice((*INTERESTING, near, near + 32, near - 32, generator.randrange(-INT32, INT32)))


def invented(generator: random.Random, publishing: Publishing) -> bytes:
    """A frame of the right stream with arbitrary other fields."""
    publication = publishing.publication
    stream = publication.session_id, publication.stream_id
    position = publishing.sender_position
    term_id = publication.initial_term_id + position // publication.term_length
    term_id = (some(generator, near=term_id) + INT32) % (1 << 32) - INT32
    offset = max(-INT32, min(INT32 - 1, some(generator, near=position % publication.term_length)))
    length = max(-INT32, min(INT32 - 1, some(generator, near=1408)))
    receiver = generator.choice((0, 1, -INT64, generator.randrange(-INT64, INT64)))
    flags = generator.choice((0, 0x80, 0x40, 0xFF))
    frames: list[wire.Frame] = [
        wire.Nak(*stream, term_id, offset, length),
        wire.StatusMessage(*stream, term_id, offset, length, receiver, None, flags & 0xBF),
        wire.RttMeasurement(*stream, receiver, receiver, receiver, flags),
        wire.ErrorFrame(*stream, receiver, length, "x" * generator.randrange(1100)),
        wire.ResponseSetup(*stream, term_id),
        wire.Setup(*stream, term_id, term_id, offset, length, length, length, flags),
    ]
    return wire.encode(generator.choice(frames))


def changed(generator: random.Random, data: bytes) -> bytes:
    """A frame with bytes changed, removed or added."""
    kind = generator.randrange(4)
    if kind == 0:
        return data[: generator.randrange(len(data) + 1)]
    if kind == 1:
        return data + generator.randbytes(generator.randrange(1, 64))
    if kind == 2:
        header = FrameHeader.struct.pack(some(generator), 0, generator.randrange(256), generator.randrange(12))
        return header + generator.randbytes(generator.randrange(64))
    found = bytearray(data)
    for _ in range(generator.randrange(1, 4)):
        found[generator.randrange(len(found))] = generator.randrange(256)
    return bytes(found)


@pytest.mark.parametrize("seed", range(6))
def test_a_stream_survives_who_sends_rubbish_to_its_sender(seed: int) -> None:
    world, generator = World(seed), random.Random(seed)
    publishing = world.sending.add_publication(f"aeron:udp?endpoint={THERE}:{PORT}|term-length=64k", 10)
    world.receivers.append(listen(world.network.machine(THERE)))
    world.run(lambda: publishing.appender.is_connected)
    here = publishing.endpoint.socket.local_address
    source = SocketAddress(THERE, PORT)
    real_step = world.step

    def step(step_ns: int = 50 * US) -> None:
        for _ in range(generator.randrange(4)):
            data = invented(generator, publishing)
            data = data if generator.random() < 0.5 else changed(generator, data)
            world.network.inject(data, source, SocketAddress(HERE, here.port))
        real_step(step_ns)

    world.step = step  # type: ignore[method-assign]
    sent = world.publish(publishing, 3000)
    assert world.receivers[0].messages == sent
    assert numbers(sent) == list(range(3000))
    surroundings = world.sending.surroundings
    assert surroundings.errors == []
    assert surroundings.count(SystemCounter.INVALID_PACKETS) > 50


def test_only_frames_that_were_published_are_ever_sent() -> None:
    world, generator = World(9), random.Random(9)
    publishing = world.sending.add_publication(f"aeron:udp?endpoint={THERE}:{PORT}|term-length=64k", 10)
    receiver = listen(world.network.machine(THERE))
    world.receivers.append(receiver)
    sent = world.publish(publishing, 200)
    published = {zlib.crc32(data) for data in sent}
    source, here = SocketAddress(THERE, PORT), publishing.endpoint.socket.local_address
    world.receivers.clear()
    for _ in range(3000):
        world.network.inject(invented(generator, publishing), source, SocketAddress(HERE, here.port))
        world.step(MS)
        for index in range(receiver.socket.receive(receiver._batch)):
            data = receiver._batch.read(index)
            if wire.frame_type(data) == wire.TYPE_DATA and data[:4] != bytes(4):
                at = 0
                while at < len(data):
                    length = int.from_bytes(data[at : at + 4], "little")
                    assert zlib.crc32(data[at + 32 : at + length]) in published
                    at += (length + 31) & ~31
    assert world.sending.surroundings.count(SystemCounter.RETRANSMITS_SENT) > 0
    assert world.sending.surroundings.count(SystemCounter.STATUS_MESSAGES_REJECTED) > 0
