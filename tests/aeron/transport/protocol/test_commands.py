"""The control protocol: bytes by hand after the drawings of Aeron's flyweights, events that a Java driver left in the
golden ``cnc.dat``, and data that no peer sends."""

from __future__ import annotations

import random
import struct
import tarfile

import pytest

import tests
from everlog.aeron.messages import block_of
from everlog.aeron.transport.format.layouts import BroadcastTrailer, CncMetaData
from everlog.aeron.transport.memory.broadcast import TRAILER_LENGTH, BroadcastReceiver
from everlog.aeron.transport.protocol import commands as c
from everlog.aeron.transport.protocol.command_messages import DriverMessage
from everlog.errors import CorruptData, UnknownMessage, UsageError
from everlog.kernel.memory import Memory

GOLDEN = tests.GOLDEN / "aeron" / "transport"


def text(data: bytes) -> bytes:
    return struct.pack("<i", len(data)) + data


IDS = struct.pack("<qq", 11, 12)
CHANNEL = "aeron:ipc"
COMMANDS: list[tuple[DriverMessage, int, bytes]] = [
    (c.AddPublication(11, 12, -5, CHANNEL), 1, IDS + struct.pack("<i", -5) + text(b"aeron:ipc")),
    (c.RemovePublication(11, 12, 7), 2, IDS + struct.pack("<qq", 7, 0)),
    (c.RemovePublication(11, 12, 7, True), 2, IDS + struct.pack("<qq", 7, 1)),
    (c.AddExclusivePublication(11, 12, 5, CHANNEL), 3, IDS + struct.pack("<i", 5) + text(b"aeron:ipc")),
    (c.AddSubscription(11, 12, -1, 5, CHANNEL), 4, IDS + struct.pack("<qi", -1, 5) + text(b"aeron:ipc")),
    (c.RemoveSubscription(11, 12, 7), 5, IDS + struct.pack("<q", 7)),
    (c.ClientKeepalive(11, 12), 6, IDS),
    (c.AddDestination(11, 12, 7, CHANNEL), 7, IDS + struct.pack("<q", 7) + text(b"aeron:ipc")),
    (c.RemoveDestination(11, 12, 7, CHANNEL), 8, IDS + struct.pack("<q", 7) + text(b"aeron:ipc")),
    (
        c.AddCounter(11, 12, 1001, b"abcde", "label"),
        9,
        IDS + struct.pack("<i", 1001) + text(b"abcde") + bytes(3) + text(b"label"),
    ),
    (c.AddCounter(11, 12, 1001, b"", ""), 9, IDS + struct.pack("<iii", 1001, 0, 0)),
    (c.RemoveCounter(11, 12, 7), 10, IDS + struct.pack("<q", 7)),
    (c.ClientClose(11, 12), 11, IDS),
    (c.AddRcvDestination(11, 12, 7, CHANNEL), 12, IDS + struct.pack("<q", 7) + text(b"aeron:ipc")),
    (c.RemoveRcvDestination(11, 12, 7, CHANNEL), 13, IDS + struct.pack("<q", 7) + text(b"aeron:ipc")),
    (c.TerminateDriver(11, 12, b"\xff\0"), 14, IDS + text(b"\xff\0")),
    (
        c.AddStaticCounter(11, 12, 7, 1001, b"abc", "label"),
        15,
        IDS + struct.pack("<qi", 7, 1001) + text(b"abc") + bytes(1) + text(b"label"),
    ),
    (c.RejectImage(11, 12, 7, 4096, "why"), 16, IDS + struct.pack("<qq", 7, 4096) + text(b"why")),
    (c.RemoveDestinationById(11, 12, 7, 8), 17, IDS + struct.pack("<qq", 7, 8)),
    (c.GetNextAvailableSessionId(11, 12, 5), 18, IDS + struct.pack("<i", 5)),
]
V4 = bytes([10, 1, 2, 3]) + bytes(12)
V6 = bytes(15) + b"\1"
EVENTS: list[tuple[DriverMessage, int, bytes]] = [
    (c.OnError(12, 7, "no"), 0xF01, struct.pack("<qi", 12, 7) + text(b"no")),
    (
        c.OnAvailableImage(12, 77, 5, 13, 9, "/log", "10.1.2.3:4"),
        0xF02,
        struct.pack("<qiiqi", 12, 77, 5, 13, 9) + text(b"/log") + text(b"10.1.2.3:4"),
    ),
    (
        c.OnAvailableImage(12, 77, 5, 13, 9, "/logs", "aeron:ipc"),
        0xF02,
        struct.pack("<qiiqi", 12, 77, 5, 13, 9) + text(b"/logs") + bytes(3) + text(b"aeron:ipc"),
    ),
    (
        c.OnPublicationReady(12, 10, -77, 5, 9, -1, "/log"),
        0xF03,
        struct.pack("<qqiiii", 12, 10, -77, 5, 9, -1) + text(b"/log"),
    ),
    (c.OnOperationSuccess(12), 0xF04, struct.pack("<q", 12)),
    (c.OnUnavailableImage(12, 13, 5, CHANNEL), 0xF05, struct.pack("<qqi", 12, 13, 5) + text(b"aeron:ipc")),
    (
        c.OnExclusivePublicationReady(12, 10, 77, 5, 9, 3, "/log"),
        0xF06,
        struct.pack("<qqiiii", 12, 10, 77, 5, 9, 3) + text(b"/log"),
    ),
    (c.OnSubscriptionReady(12, -1), 0xF07, struct.pack("<qi", 12, -1)),
    (c.OnCounterReady(12, 9), 0xF08, struct.pack("<qi", 12, 9)),
    (c.OnUnavailableCounter(12, 9), 0xF09, struct.pack("<qi", 12, 9)),
    (c.OnClientTimeout(11), 0xF0A, struct.pack("<q", 11)),
    (c.OnStaticCounter(12, 9), 0xF0B, struct.pack("<qi", 12, 9)),
    (
        c.OnPublicationError(1, 2, 3, 4, 5, 6, ("10.1.2.3", 40123), 13, "no"),
        0xF0C,
        struct.pack("<qqiiqqHH", 1, 2, 3, 4, 5, 6, 1, 40123) + V4 + struct.pack("<i", 13) + text(b"no"),
    ),
    (
        c.OnPublicationError(1, 2, 3, 4, 5, 6, ("::1", 40123), 13, ""),
        0xF0C,
        struct.pack("<qqiiqqHH", 1, 2, 3, 4, 5, 6, 2, 40123) + V6 + struct.pack("<i", 13) + text(b""),
    ),
    (c.OnNextAvailableSessionId(12, -9), 0xF0D, struct.pack("<qi", 12, -9)),
]


@pytest.mark.parametrize(("message", "type_id", "data"), COMMANDS, ids=lambda v: type(v).__name__)
def test_a_command_is_its_struct_and_what_follows_at_multiples_of_four(
    message: DriverMessage, type_id: int, data: bytes
) -> None:
    assert c.encode(message) == (type_id, data)
    assert c.decode_command(type_id, data) == message
    assert c.decode_command(type_id, data + b"more") == message
    assert c.correlation_id_of(data) == 12


@pytest.mark.parametrize(("message", "type_id", "data"), EVENTS, ids=lambda v: type(v).__name__)
def test_an_event_is_its_struct_and_what_follows_at_multiples_of_four(
    message: DriverMessage, type_id: int, data: bytes
) -> None:
    assert c.encode(message) == (type_id, data)
    assert c.decode_event(type_id, data) == message


def test_all_messages_of_the_protocol_are_there() -> None:
    assert {type_id for _, type_id, _ in COMMANDS} == set(range(1, 0x13))
    assert {type_id for _, type_id, _ in EVENTS} == set(range(0xF01, 0xF0E))


def test_an_old_clients_remove_publication_has_no_flags() -> None:
    assert c.decode_command(2, IDS + struct.pack("<q", 7)) == c.RemovePublication(11, 12, 7)


@pytest.mark.parametrize(("message", "type_id", "data"), COMMANDS + EVENTS, ids=lambda v: type(v).__name__)
def test_data_that_was_cut_is_refused(message: DriverMessage, type_id: int, data: bytes) -> None:
    decode = c.decode_event if type_id > 0xF00 else c.decode_command
    least = 24 if isinstance(message, c.RemovePublication) else len(data)
    for length in range(least):
        with pytest.raises(CorruptData, match=type(message).__name__):
            decode(type_id, data[:length])


@pytest.mark.parametrize("length", [-1, -(1 << 31), 6, (1 << 31) - 1])
def test_a_length_that_cannot_be_names_its_field(length: int) -> None:
    data = IDS + struct.pack("<i", 1001) + struct.pack("<i", length) + b"abcde"
    with pytest.raises(CorruptData, match=f"key of {length} bytes") as caught:
        c.decode_command(9, data)
    assert caught.value.offset == 20
    with pytest.raises(CorruptData, match="no label"):
        c.decode_command(9, IDS + struct.pack("<i", 1001) + text(b"abcde"))


def test_a_type_that_is_none_is_told() -> None:
    for type_id in (0, -1, 0x13, 0xF01, 1 << 30):
        with pytest.raises(UnknownMessage, match="command"):
            c.decode_command(type_id, bytes(100))
    for type_id in (0, 1, 0xF0E):
        with pytest.raises(UnknownMessage, match="event"):
            c.decode_event(type_id, bytes(100))
    with pytest.raises(CorruptData, match="address type 3"):
        c.decode_event(0xF0C, struct.pack("<qqiiqqHH", 1, 2, 3, 4, 5, 6, 3, 1) + bytes(16) + bytes(8))


def test_letters_that_are_not_ascii_do_no_harm() -> None:
    type_id, data = c.encode(c.OnError(1, 2, "für"))
    assert data.endswith(text(b"f?r"))
    assert c.decode_event(type_id, data[:-2] + b"\xfcr") == c.OnError(1, 2, "f\ufffdr")


def test_what_does_not_fit_a_field_is_refused() -> None:
    for message in (
        c.AddPublication(1 << 63, 0, 0, ""),
        c.AddPublication(0, 0, 1 << 31, ""),
        c.OnPublicationError(1, 2, 3, 4, 5, 6, ("localhost", 1), 13, ""),
    ):
        with pytest.raises(UsageError, match=type(message).__name__):
            c.encode(message)


@pytest.mark.parametrize("seed", range(20))
def test_random_bytes_are_a_message_or_are_refused(seed: int) -> None:
    draw = random.Random(seed)
    for _ in range(300):
        message, type_id, data = draw.choice(COMMANDS + EVENTS)
        mutable = bytearray(data)
        for _ in range(draw.randrange(1, 4)):
            at = draw.randrange(len(mutable))
            mutable[at : at + draw.choice([1, 4])] = draw.randbytes(draw.choice([0, 1, 4]))
            if not mutable:
                break
        decode = c.decode_event if type_id > 0xF00 else c.decode_command
        try:
            found = decode(type_id, bytes(mutable))
        except CorruptData:
            continue
        assert type(found) is type(message)


UDP = "aeron:udp?endpoint=localhost:1"
FLYWEIGHTS: list[DriverMessage] = [
    c.AddPublication(11, 12, -5, CHANNEL),
    c.AddExclusivePublication(11, 12, -5, CHANNEL),
    c.RemovePublication(11, 12, 7, True),
    c.AddSubscription(11, 12, -1, 5, UDP),
    c.RemoveSubscription(11, 12, 7),
    c.RemoveCounter(11, 12, 7),
    c.ClientKeepalive(11, 12),
    c.ClientClose(11, 12),
    c.AddDestination(11, 12, 7, UDP),
    c.RemoveDestination(11, 12, 7, UDP),
    c.AddRcvDestination(11, 12, 7, UDP),
    c.RemoveRcvDestination(11, 12, 7, UDP),
    c.RemoveDestinationById(11, 12, 7, 8),
    c.AddCounter(11, 12, 1001, b"abcde", "label"),
    c.AddStaticCounter(11, 12, 7, 1001, b"abc", "label"),
    c.TerminateDriver(11, 12, b"token"),
    c.RejectImage(11, 12, 7, 4096, "why"),
    c.GetNextAvailableSessionId(11, 12, 5),
    c.OnError(12, 7, "no"),
    c.OnAvailableImage(12, 77, 5, 13, 9, "/logs", "aeron:ipc"),
    c.OnPublicationReady(12, 10, -77, 5, 9, -1, "/log"),
    c.OnExclusivePublicationReady(12, 10, -77, 5, 9, -1, "/log"),
    c.OnOperationSuccess(12),
    c.OnUnavailableImage(12, 13, 5, CHANNEL),
    c.OnSubscriptionReady(12, -1),
    c.OnCounterReady(12, 9),
    c.OnUnavailableCounter(12, 9),
    c.OnClientTimeout(11),
    c.OnStaticCounter(12, 9),
    c.OnNextAvailableSessionId(12, -9),
    c.OnPublicationError(1, 2, 3, 4, 5, 6, ("10.1.2.3", 40123), 13, "no"),
    c.OnPublicationError(1, 2, 3, 4, 5, 6, ("2001:db8::1", 40123), 13, "no"),
]
"""What ``tests/interop/transport/SharedMemoryPeer.java`` makes with Aeron's own flyweights, in its order."""


def test_the_bytes_of_aerons_own_flyweights_are_ours() -> None:
    lines = (GOLDEN / "flyweights-1.51.0.txt").read_text().splitlines()
    for message, line in zip(FLYWEIGHTS, lines, strict=True):
        name, type_id, data = line.split()
        assert c.encode(message) == (int(type_id), bytes.fromhex(data)), name
        decode = c.decode_event if int(type_id) > 0xF00 else c.decode_command
        assert decode(int(type_id), bytes.fromhex(data)) == message, name


def golden_events() -> list[tuple[int, bytes]]:
    """The records that are whole in the to-clients buffer of the golden ``cnc.dat``."""
    with tarfile.open(GOLDEN / "aeron-dir.tar.gz") as tar:
        member = next(m for m in tar.getmembers() if m.name.endswith("cnc.dat"))
        file = tar.extractfile(member)
        assert file is not None
        header = CncMetaData.unpack_from(file.read(CncMetaData.size))
        file.seek(CncMetaData.size + header.to_driver_buffer_length)
        data = file.read(header.to_clients_buffer_length)
    memory = Memory.allocate(len(data))
    memory.write(0, data)
    # The buffer did not wrap: with the latest record's place set to its start, a reader begins there.
    memory.put_i64(len(data) - TRAILER_LENGTH + BroadcastTrailer.field("latest_counter").offset, 0)
    return list(iter(BroadcastReceiver(memory).receive, None))


def test_the_events_of_a_java_driver_decode_and_encode_to_the_same_bytes() -> None:
    records = golden_events()
    events = [c.decode_event(type_id, data) for type_id, data in records]
    for event, (type_id, data) in zip(events, records, strict=True):
        found = c.encode(event)
        if isinstance(event, c.OnAvailableImage):
            # Behind the first text Java leaves what its buffer held before.
            end = block_of(c.OnAvailableImage).size + 4 + len(event.log_file_name)
            data = data[:end] + bytes(-end % 4) + data[end + -end % 4 :]
        assert found == (type_id, data)
    kinds = {type(event).__name__ for event in events}
    assert kinds >= {"OnPublicationReady", "OnSubscriptionReady", "OnAvailableImage", "OnCounterReady", "OnError"}
