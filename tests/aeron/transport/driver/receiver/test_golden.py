"""A capture between two real drivers with packet loss, replayed to our receiver."""

from __future__ import annotations

from everlog.aeron.layouts import DataHeader
from everlog.aeron.transport.driver.system_counters import SystemCounter
from everlog.aeron.transport.protocol import wire
from everlog.kernel.udp import SocketAddress
from tests.aeron.transport.driver.receiver.receiving import TERM
from tests.aeron.transport.driver.receiver.receiving_driver import CHANNEL, MS, ReceivingDriver, naks
from tests.aeron.transport.protocol.pcaps import datagrams

DATA_PORT = 18301
SIZES = 1, 31, 32, 33, 1000, 1376, 1377, 3000, 0, 0
TARGET = SocketAddress("10.0.0.2", 4000)


def payload(seed: int, number: int) -> bytes:
    """The payload of a message of the captures."""
    length = SIZES[number % len(SIZES)]
    return bytes((seed * 31 + number * 7 + length + j * (1 + (number & 3))) & 0xFF for j in range(length))


class Replay:
    """Replays the whole capture datagram by datagram, while a subscriber reads."""

    def __init__(self) -> None:
        self.driver = ReceivingDriver(CHANNEL)
        self.asked: list[wire.Nak] = []
        self.asked_by_java: list[wire.Nak] = []
        self.stream = bytearray()
        self._position_id: int | None = None
        self.driver.subscribe(stream_id=1)
        for port, data in datagrams("lossy-unicast"):
            if port == DATA_PORT:
                self._take(data)
            else:
                self.asked_by_java += naks([wire.decode(data)])

    def _take(self, data: bytes) -> None:
        self.driver.network.inject(data, self.driver.source.address, TARGET)
        self.asked += naks(self.driver.step(MS // 10))
        for image in self.driver.images:
            end = self._rebuilt_position()
            while len(self.stream) < end:
                at = len(self.stream)
                length = min(end - at, TERM - at % TERM)
                self.stream += image.log.memory.terms[at // TERM % 3].read(at % TERM, length)
            self.driver.positions[0].set_release(end)

    def _rebuilt_position(self) -> int:
        counters = self.driver.counters
        if self._position_id is None:
            self._position_id = next(n for n in range(64) if counters.label(n).startswith("rcv-pos"))
        return counters.value(self._position_id)


def messages(stream: bytes) -> list[tuple[int, bytes]]:
    """Reserved value and payload of each message, concatenated."""
    found: list[tuple[int, bytes]] = []
    at, parts = 0, b""
    while at < len(stream):
        header = DataHeader.unpack_from(stream, at)
        if header.type == 1:
            parts = (b"" if header.flags & 0x80 else parts) + stream[at + 32 : at + header.frame_length]
            if header.flags & 0x40:
                found.append((header.reserved_value, parts))
        at += (header.frame_length + 31) & -32
    return found


def covers(nak: wire.Nak, other: wire.Nak) -> bool:
    """Whether NAKs request everything that the other receiver requested."""
    starts = nak.term_offset <= other.term_offset
    return nak.term_id == other.term_id and starts and other.term_offset + other.length <= nak.term_offset + nak.length


def test_all_messages_arrive_and_what_is_missing_is_asked_for_as_java_does() -> None:
    replay = Replay()
    received = messages(bytes(replay.stream))
    seed = received[0][0] >> 32
    assert [number & 0xFFFFFFFF for number, _ in received] == list(range(len(received)))
    assert [content for _, content in received] == [payload(seed, i) for i in range(len(received))]
    assert len(replay.stream) == 6 * TERM + 56384
    assert replay.asked[0] == wire.Nak(1669679053, 1, 501252775, 21824, 288) == replay.asked_by_java[0]
    # Its receiver has lost datagrams that are in the capture, so that some of its gaps are longer.
    assert len(set(replay.asked) & set(replay.asked_by_java)) == 32
    for nak in set(replay.asked):
        assert any(covers(other, nak) for other in replay.asked_by_java)
    assert replay.driver.count(SystemCounter.INVALID_PACKETS) == 0
    assert replay.driver.count(SystemCounter.FLOW_CONTROL_OVER_RUNS) == 0
