"""Writing data frames from the network into images' terms, compiled and in Python. Datagrams are worked out by hand;
expectations follow the real driver's PublicationImage and DataPacketDispatcher."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from everlog.aeron.transport.driver.receiver import packets_twin
from everlog.aeron.transport.driver.receiver.packets_twin import (
    CONTROL,
    END_OF_STREAM,
    NEW_CONNECTION,
    NEW_SESSION,
    NO_TIME,
)
from everlog.kernel import memory_twin, udp_twin
from everlog.kernel.udp import SocketAddress
from tests.aeron.transport.driver.receiver.receiving import (
    EOS,
    HEADER,
    INITIAL,
    REVOKED,
    SESSION,
    STREAM,
    TERM,
    WHOLE,
    data_frame,
    heartbeat,
    padding_frame,
)

SOURCE = SocketAddress("10.0.0.1", 40123)
NOW, EPOCH = 5_000_000_000, 1_700_000_000_000_000_000
KINDS = ["compiled", "twin"]


class Kernel:
    """The classes under test and those that they work on."""

    def __init__(self, kind: str) -> None:
        if kind == "twin":
            self.packets: Any = packets_twin
            self.memory: Any = memory_twin.Memory
            self.datagrams: Any = udp_twin.Datagrams
        else:
            self.packets = importlib.import_module("everlog.aeron.transport.driver.receiver._packets")
            self.memory = importlib.import_module("everlog.kernel._memory").Memory
            self.datagrams = importlib.import_module("everlog.kernel._udp").Datagrams


class Image:
    """An image at ``position`` with a window of 16 KiB, the only one of its channel."""

    def __init__(self, kernel: Kernel, position: int = 0, initial: int = INITIAL) -> None:
        self.kernel = kernel
        self.terms = [kernel.memory.allocate(TERM) for _ in range(3)]
        self.counters = kernel.memory.allocate(256)
        self.rebuilder = kernel.packets.ImageRebuilder(self.terms, initial, position, (self.counters, 128))
        self.rebuilder.over_run_threshold = position + TERM // 2
        self.rebuilder.max_window_length = 16 << 10
        self.rebuilder.hear(0, 1)
        self.sessions = kernel.packets.ImageSessions()
        self.sessions.add_stream(STREAM)
        self.sessions.put(STREAM, SESSION, self.rebuilder)

    def take(self, *datagrams: bytes, transport: int = 0) -> list[tuple[int, int]]:
        """Insert a batch. Returns its notes."""
        batch = self.kernel.datagrams(max(len(datagrams), 1))
        for data in datagrams:
            assert batch.add(data, SOURCE)
        assert self.sessions.insert(batch, transport, NOW, EPOCH) == sum(map(len, datagrams))
        return list(self.sessions.notes)

    @property
    def counts(self) -> tuple[int, int, int, int]:
        """Counts of the last batch: invalid datagrams, heartbeats, under-runs, over-runs."""
        sessions = self.sessions
        return sessions.invalid, sessions.heartbeats, sessions.under_runs, sessions.over_runs

    def written(self) -> bytes:
        """The content of all three terms."""
        return b"".join(term.read(0, TERM) for term in self.terms)


@pytest.fixture(params=KINDS)
def kernel(request: pytest.FixtureRequest) -> Kernel:
    return Kernel(request.param)


def test_a_datagram_of_several_frames_lies_in_the_term_as_it_was_sent(kernel: Kernel) -> None:
    image = Image(kernel)
    datagram = data_frame(0, b"first") + data_frame(64, b"x" * 100) + data_frame(64 + 160, b"")
    assert image.take(datagram) == []
    assert image.terms[0].read(0, TERM) == datagram + bytes(TERM - len(datagram))
    assert image.rebuilder.hwm_position == len(datagram) == 256
    assert image.counters.get_i64(128) == 256
    assert image.rebuilder.time_of_last_packet_ns == NOW
    assert image.rebuilder.time_heard(0) == NOW
    assert image.counts == (0, 0, 0, 0)


def test_a_batch_of_out_of_order_datagrams_fills_all_but_what_is_lost(kernel: Kernel) -> None:
    image = Image(kernel)
    frames = [data_frame(at, bytes([at // 96]) * 64) for at in range(0, 960, 96)]
    image.take(*(frames[i] for i in (3, 1, 9, 0, 5, 4, 8, 2, 7)))
    frames[6] = bytes(96)
    assert image.terms[0].read(0, 960) == b"".join(frames)
    assert image.rebuilder.hwm_position == 960


def test_what_is_there_is_not_written_again(kernel: Kernel) -> None:
    image = Image(kernel)
    image.take(data_frame(0, b"the first one wins"), data_frame(0, b"a forged one is late"))
    assert image.terms[0].read(32, 18) == b"the first one wins"


@pytest.mark.parametrize("terms", [0, 1, 2, 3, 1000])
def test_a_position_says_which_third_is_meant(kernel: Kernel, terms: int) -> None:
    image = Image(kernel, terms * TERM + 64)
    frame = data_frame(terms * TERM + 128, b"here")
    image.take(frame)
    assert image.terms[terms % 3].read(128, 64) == frame
    assert image.rebuilder.hwm_position == terms * TERM + 192


def test_term_ids_wrap(kernel: Kernel) -> None:
    last = 0x7FFFFFFF
    image = Image(kernel, 2 * TERM, initial=last)
    frame = data_frame(2 * TERM, b"", initial=last)
    assert HEADER.unpack_from(frame)[7] == -0x7FFFFFFF
    image.take(frame)
    assert image.terms[2].read(0, 32) == frame


def test_the_header_alone_stands_for_padding_up_to_the_end_of_the_term(kernel: Kernel) -> None:
    start = TERM - 1024
    image = Image(kernel, start)
    datagram = data_frame(start, b"last") + padding_frame(start + 64, 960)
    image.take(datagram)
    assert image.terms[0].read(start, 1024) == datagram + bytes(1024 - len(datagram))
    assert image.rebuilder.hwm_position == TERM


def test_a_heartbeat_raises_the_position_and_writes_nothing(kernel: Kernel) -> None:
    image = Image(kernel)
    assert image.take(heartbeat(4096)) == []
    assert image.counts == (0, 1, 0, 0)
    assert image.rebuilder.hwm_position == 4096
    assert image.written() == bytes(3 * TERM)


@pytest.mark.parametrize("length", [1, 8, 31])
def test_a_frame_that_is_shorter_than_its_header_is_invalid_and_takes_no_place(kernel: Kernel, length: int) -> None:
    image = Image(kernel)
    short = length.to_bytes(4, "little")
    second = data_frame(0, b"x") + short + data_frame(64, b"")[4:]
    image.take(short + data_frame(0, b"")[4:], short + data_frame(0, b"x")[4:], second)
    assert image.counts == (3, 0, 0, 0)
    assert image.written() == bytes(3 * TERM)
    image.take(data_frame(0, b"x"))
    assert image.rebuilder.hwm_position == 64


def test_what_was_consumed_is_an_under_run(kernel: Kernel) -> None:
    image = Image(kernel)
    image.rebuilder.last_sm_position = 32 << 10
    image.take(data_frame(0, b"old"), data_frame((32 << 10) - 64, b"old"))
    assert image.counts == (0, 0, 2, 0)
    assert image.written() == bytes(3 * TERM)
    assert image.rebuilder.time_of_last_packet_ns == 0


def test_only_a_heartbeat_of_more_than_a_term_ago_is_an_under_run(kernel: Kernel) -> None:
    image = Image(kernel, 3 * TERM)
    image.take(heartbeat(2 * TERM), heartbeat(2 * TERM - 32))
    assert image.counts == (0, 1, 1, 0)


def test_half_a_term_ahead_of_what_was_told_is_an_over_run(kernel: Kernel) -> None:
    image = Image(kernel)
    image.take(data_frame(TERM // 2 - 64, b"x"), data_frame(TERM // 2 - 32, b"x"), heartbeat(TERM // 2 + 32))
    assert image.counts == (0, 0, 0, 2)
    assert image.rebuilder.hwm_position == TERM // 2


def test_padding_may_go_beyond_what_was_told_because_only_its_header_is_written(kernel: Kernel) -> None:
    image = Image(kernel, TERM // 4)
    image.take(padding_frame(3 * TERM // 4 - 32, TERM // 4 + 32))
    assert image.counts == (0, 0, 0, 0)
    assert image.rebuilder.hwm_position == TERM
    image = Image(kernel, TERM // 4)
    image.take(padding_frame(3 * TERM // 4, TERM // 4))
    assert image.counts == (0, 0, 0, 1)


@pytest.mark.parametrize("behind", [1, 2, 1 << 20])
def test_a_term_before_the_first_is_an_under_run(kernel: Kernel, behind: int) -> None:
    image = Image(kernel)
    image.take(data_frame(0, b"x", initial=INITIAL - behind), heartbeat(32, initial=INITIAL - behind))
    assert image.counts == (0, 0, 2, 0)
    assert image.written() == bytes(3 * TERM)


def test_the_end_of_the_stream_is_noted(kernel: Kernel) -> None:
    image = Image(kernel)
    notes = image.take(data_frame(0, b"x"), heartbeat(64, flags=WHOLE | EOS), heartbeat(64, flags=0xF0))
    assert notes == [(1, END_OF_STREAM), (2, END_OF_STREAM)]
    assert REVOKED & 0xF0


def test_a_session_that_is_not_known_is_noted_of_a_stream_that_is(kernel: Kernel) -> None:
    image = Image(kernel)
    other = data_frame(0, b"x", session=5), data_frame(0, b"x", stream=STREAM + 1)
    ended = heartbeat(0, session=6, flags=WHOLE | EOS)
    assert image.take(*other, ended, data_frame(64, b"y", session=5)) == [(0, NEW_SESSION), (3, NEW_SESSION)]
    assert image.counts == (0, 0, 0, 0)
    assert image.written() == bytes(3 * TERM)


def test_a_session_without_an_image_is_left_out(kernel: Kernel) -> None:
    image = Image(kernel)
    image.sessions.put(STREAM, 5, None)
    assert image.take(data_frame(0, b"x", session=5)) == []
    image.sessions.remove(STREAM, 5)
    assert image.take(data_frame(0, b"x", session=5)) == [(0, NEW_SESSION)]
    image.sessions.remove_stream(STREAM)
    assert image.take(data_frame(0, b"x", session=5)) == []


def test_a_transport_that_is_new_to_an_image_is_noted_until_it_is_known(kernel: Kernel) -> None:
    image = Image(kernel)
    assert image.take(data_frame(0, b"x"), data_frame(64, b"x"), transport=3) == [
        (0, NEW_CONNECTION),
        (1, NEW_CONNECTION),
    ]
    assert image.rebuilder.hwm_position == 128
    assert image.rebuilder.time_heard(3) == NO_TIME
    assert image.rebuilder.hear(3, 17)
    assert image.take(heartbeat(128), transport=3) == []
    assert image.rebuilder.time_heard(3) == NOW
    image.rebuilder.forget(3)
    assert image.take(heartbeat(128), transport=3) == [(0, NEW_CONNECTION)]
    assert image.rebuilder.time_heard(2) == NO_TIME


def test_late_data_still_shows_that_its_transport_lives(kernel: Kernel) -> None:
    image = Image(kernel, 3 * TERM)
    assert image.take(data_frame(3 * TERM - (16 << 10), b"x"), transport=1) == [(0, NEW_CONNECTION)]
    assert image.take(data_frame(3 * TERM - (16 << 10) - 32, b"x"), transport=1) == []


def test_a_rejected_image_takes_nothing(kernel: Kernel) -> None:
    image = Image(kernel)
    image.rebuilder.is_rejected = True
    assert image.take(data_frame(0, b"x"), b"\0" * 32, transport=1) == []
    assert image.rebuilder.hwm_position == 0
    assert image.rebuilder.time_of_last_packet_ns == 0


def test_frames_that_are_not_data_are_noted(kernel: Kernel) -> None:
    image = Image(kernel)
    control = [HEADER.pack(32, 0, 0, kind, 0, 0, 0, 0, 0) for kind in (2, 3, 4, 5, 6, 7, 11)]
    assert image.take(*control) == [(i, CONTROL) for i in range(7)]
    assert image.counts == (0, 0, 0, 0)


VALID = data_frame(0, b"x" * 64)
TWO = data_frame(0, b"x" * 32) + data_frame(64, b"y" * 32)


def changed(data: bytes, at: int, value: int, size: int = 4) -> bytes:
    """A datagram with one number overwritten."""
    return data[:at] + value.to_bytes(size, "little", signed=value < 0) + data[at + size :]


HOSTILE = {
    "nothing": b"",
    "a byte": b"\0",
    "eight bytes": VALID[:8],
    "a header cut off": VALID[:31],
    "no multiple of 32": VALID + b"\0",
    "cut in the payload": VALID[:64],
    "another version": changed(VALID, 4, 1, 1),
    "an unknown type": changed(VALID, 6, 8, 2),
    "a type of 12": changed(VALID, 6, 12, 2),
    "the extension type": changed(VALID, 6, 0xFFFF, 2),
    "a negative length": changed(VALID, 0, -96),
    "a length of 0 in a longer datagram": changed(VALID, 0, 0),
    "a length of 1": changed(VALID, 0, 1),
    "a length beyond the datagram": changed(VALID, 0, 128),
    "the longest length": changed(VALID, 0, 0x7FFFFFFF),
    "a length that wraps when it is aligned": changed(VALID, 0, 0x7FFFFFE1),
    "an offset that is negative": changed(VALID, 8, -32),
    "an offset behind the term": changed(VALID, 8, TERM),
    "an offset far behind the term": changed(VALID, 8, 0x7FFFFFE0),
    "an odd offset": changed(VALID, 8, 16),
    "a frame that goes over the term's end": changed(VALID, 8, TERM - 64),
    "a heartbeat behind the term": changed(heartbeat(0), 8, TERM),
    "a heartbeat at an odd place": changed(heartbeat(0), 8, 8),
    "a second frame of another place": changed(TWO, 64 + 8, 96),
    "a second frame of a negative length": changed(TWO, 64, -1),
    "a second frame of length 0": changed(TWO, 64, 0),
    "a second frame that is longer than what is left": changed(TWO, 64, 96),
    "a second frame of another type": changed(TWO, 64 + 6, 5, 2),
    "padding behind the term": changed(padding_frame(0, 64), 0, TERM + 32),
    "padding of a negative length": changed(padding_frame(0, 64), 0, -64),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_datagram_is_counted_and_writes_nothing(kernel: Kernel, what: str) -> None:
    image = Image(kernel)
    image.rebuilder.over_run_threshold = 1 << 62
    assert image.take(HOSTILE[what]) == []
    assert image.counts == (1, 0, 0, 0)
    assert image.written() == bytes(3 * TERM)
    assert image.rebuilder.hwm_position == 0


def test_a_hostile_datagram_does_not_touch_its_neighbours_in_the_batch(kernel: Kernel) -> None:
    image = Image(kernel)
    good = [data_frame(at, b"g" * 32) for at in range(0, 64 * len(HOSTILE), 64)]
    batch = [each for pair in zip(good, HOSTILE.values(), strict=True) for each in pair]
    image.take(*batch)
    assert image.counts[0] == len(HOSTILE)
    assert image.terms[0].read(0, 64 * len(good)) == b"".join(good)


def test_a_datagram_that_was_too_long_for_its_slot_is_invalid(kernel: Kernel) -> None:
    image = Image(kernel)
    batch = kernel.datagrams(2, 64)
    batch.add(VALID, SOURCE)
    batch.add(data_frame(0, b"fits"), SOURCE)
    assert image.sessions.insert(batch, 0, NOW, EPOCH) == 64
    assert image.counts == (1, 0, 0, 0)
    assert image.terms[0].read(32, 4) == b"fits"


@pytest.mark.parametrize("transport", [-1, 1024, 1 << 30])
def test_a_transport_that_cannot_be_is_refused(kernel: Kernel, transport: int) -> None:
    image = Image(kernel)
    with pytest.raises(IndexError):
        image.take(VALID, transport=transport)
    with pytest.raises(IndexError):
        image.rebuilder.hear(transport, 0)
    assert image.rebuilder.time_heard(transport) == NO_TIME
    image.rebuilder.forget(transport)


def test_the_time_of_reception_goes_into_the_first_frame_of_each_message(kernel: Kernel) -> None:
    image = Image(kernel)
    image.rebuilder.timestamp_offset = 40
    begin = data_frame(0, b"p" * 32, flags=0x80)
    middle = data_frame(64, b"q" * 32, flags=0)
    short = data_frame(128, b"r" * 15)
    image.take(begin + middle + short)
    stamp = EPOCH.to_bytes(8, "little")
    assert image.terms[0].read(0, 192) == begin[:40] + stamp + begin[48:] + middle + short


def test_the_time_of_reception_may_go_into_the_reserved_value(kernel: Kernel) -> None:
    image = Image(kernel)
    image.rebuilder.timestamp_offset = 24
    image.take(data_frame(0, b"", reserved=99) + padding_frame(32, 64))
    assert image.terms[0].get_i64(24) == EPOCH
    assert image.terms[0].read(32, 32) == padding_frame(32, 64)


@pytest.mark.parametrize("offset", [-2, 0, 16, 23, 1 << 40])
def test_the_time_of_reception_goes_nowhere_else_in_a_header(kernel: Kernel, offset: int) -> None:
    image = Image(kernel)
    with pytest.raises(ValueError, match="timestamp"):
        image.rebuilder.timestamp_offset = offset


def test_many_sessions_are_told_apart(kernel: Kernel) -> None:
    image = Image(kernel)
    sessions = [(i * 2654435761 & 0xFFFFFFFF) - (1 << 31) for i in range(1, 501)]
    rebuilders = {}
    for session in sessions:
        terms = [kernel.memory.allocate(1024) for _ in range(3)]
        rebuilder = kernel.packets.ImageRebuilder(terms, INITIAL, 0, (image.counters, 0))
        rebuilder.over_run_threshold = 512
        rebuilder.hear(0, 0)
        image.sessions.put(STREAM, session, rebuilder)
        rebuilders[session] = rebuilder, terms
    gone = set(sessions[::3])
    for session in gone:
        image.sessions.remove(STREAM, session)
    assert len(image.sessions) == 1 + len(sessions) - len(gone)
    for session in sessions:
        notes = image.take(data_frame(0, session.to_bytes(4, "little", signed=True), session=session))
        assert notes == ([(0, NEW_SESSION)] if session in gone else [])
        content = b"" if session in gone else session.to_bytes(4, "little", signed=True)
        assert rebuilders[session][1][0].read(32, 4) == content.ljust(4, b"\0")
        assert rebuilders[session][0].hwm_position == (0 if session in gone else 64)


def test_terms_that_are_none_are_refused(kernel: Kernel) -> None:
    counters = kernel.memory.allocate(64)
    for lengths in ([TERM, TERM], [TERM, TERM, 1024], [96, 96, 96], [0, 0, 0], [16, 16, 16]):
        with pytest.raises(ValueError, match="three terms"):
            kernel.packets.ImageRebuilder([kernel.memory.allocate(n) for n in lengths], 0, 0, (counters, 0))
    with pytest.raises(IndexError):
        kernel.packets.ImageRebuilder([kernel.memory.allocate(TERM)] * 3, 0, 0, (counters, 64))
