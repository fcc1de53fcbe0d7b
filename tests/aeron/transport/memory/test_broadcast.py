"""The broadcast buffer: bytes by hand after Agrona's drawing of a record, wrap, readers that are too slow, bytes that
no driver writes."""

from __future__ import annotations

import contextlib
import itertools
import multiprocessing
import os
import random
import struct
from multiprocessing.synchronize import Event
from pathlib import Path

import pytest

from everlog.aeron.transport.memory.broadcast import PADDING, TRAILER_LENGTH, BroadcastReceiver, BroadcastTransmitter
from everlog.errors import CorruptData, DataLost, UsageError
from everlog.kernel import _memory
from everlog.kernel.memory import Memory

CAPACITY = 256
INTENT, TAIL, LATEST = CAPACITY, CAPACITY + 8, CAPACITY + 16


def pair() -> tuple[Memory, BroadcastTransmitter, BroadcastReceiver]:
    memory = Memory.allocate(CAPACITY + TRAILER_LENGTH)
    return memory, BroadcastTransmitter(memory), BroadcastReceiver(memory)


def read_all(receiver: BroadcastReceiver) -> list[tuple[int, bytes]]:
    return list(iter(receiver.receive, None))


def test_a_record_is_its_length_its_type_and_its_payload_and_three_counters_tell_of_it() -> None:
    memory, transmitter, receiver = pair()
    transmitter.transmit(7, b"abc")
    transmitter.transmit(8, b"")
    assert memory.read(0, 24) == struct.pack("<ii3s5xii", 11, 7, b"abc", 8, 8)
    assert [memory.get_i64(at) for at in (INTENT, TAIL, LATEST)] == [24, 24, 16]
    assert read_all(receiver) == [(7, b"abc"), (8, b"")]
    assert receiver.receive() is None


def test_two_numbers_differ_while_there_is_a_record_to_receive() -> None:
    _, transmitter, receiver = pair()

    def differ() -> bool:
        memory, at, other, other_at = receiver.words
        return memory.get_i64(at) != other.get_i64(other_at)

    receiver.listen()
    assert not differ()
    transmitter.transmit(7, b"abc")
    assert differ()
    receiver.listen()
    assert differ(), "it was not received yet"
    assert len(read_all(receiver)) == 1
    receiver.listen()
    assert not differ()


def test_a_record_that_does_not_fit_before_the_end_begins_at_the_start_behind_padding() -> None:
    memory, transmitter, receiver = pair()
    for _ in range(6):
        transmitter.transmit(1, bytes(32))
    assert len(read_all(receiver)) == 6
    assert memory.get_i64(TAIL) == 240
    transmitter.transmit(2, b"y" * 12)
    assert memory.read(240, 8) == struct.pack("<ii", 16, PADDING)
    assert memory.read(0, 20) == struct.pack("<ii", 20, 2) + b"y" * 12
    assert [memory.get_i64(at) for at in (INTENT, TAIL, LATEST)] == [280, 280, 256]
    assert read_all(receiver) == [(2, b"y" * 12)]


def test_who_comes_later_begins_with_the_last_record() -> None:
    memory, transmitter, _ = pair()
    transmitter.transmit(1, b"first")
    transmitter.transmit(2, b"last")
    assert read_all(BroadcastReceiver(memory)) == [(2, b"last")]


def test_who_is_lapped_is_told_and_goes_on_with_what_is_new() -> None:
    _, transmitter, receiver = pair()
    for number in range(20):
        transmitter.transmit(1, bytes([number]) * 8)
    with pytest.raises(DataLost, match="to-clients buffer"):
        receiver.receive()
    assert receiver.lapped_count == 1
    assert receiver.receive() is None
    transmitter.transmit(3, b"new")
    assert receiver.receive() == (3, b"new")


def test_a_record_that_is_about_to_be_overwritten_is_lost() -> None:
    memory, transmitter, receiver = pair()
    transmitter.transmit(1, bytes(8))
    memory.put_i64(INTENT, CAPACITY + 8)  # a transmitter that has begun to write over it
    with pytest.raises(DataLost):
        receiver.receive()


def test_counters_that_others_spoil_do_not_stop_who_writes() -> None:
    memory, transmitter, receiver = pair()
    transmitter.transmit(1, b"one")
    for value in ((1 << 63) - 1, -(1 << 63), 5):
        for at in (INTENT, TAIL, LATEST):
            memory.put_i64(at, value)
        transmitter.transmit(2, b"two")
    assert [memory.get_i64(at) for at in (INTENT, TAIL, LATEST)] == [64, 64, 48]
    assert read_all(receiver) == [(1, b"one"), (2, b"two"), (2, b"two"), (2, b"two")]


def test_wrong_types_and_lengths_are_refused() -> None:
    memory, transmitter, _ = pair()
    assert transmitter.max_message_length == 32
    for type_id, data in ((0, b""), (-1, b""), (1, bytes(33))):
        with pytest.raises(UsageError):
            transmitter.transmit(type_id, data)
    assert memory.read(0, len(memory)) == bytes(len(memory))
    for length in (0, TRAILER_LENGTH, TRAILER_LENGTH + 32, TRAILER_LENGTH + 96):
        with pytest.raises(CorruptData):
            BroadcastReceiver(Memory.allocate(length))
        with pytest.raises(CorruptData):
            BroadcastTransmitter(Memory.allocate(length))


@pytest.mark.parametrize("length", [0, 7, -1, 257, -(1 << 31), (1 << 31) - 1])
def test_a_length_that_cannot_be_is_told_once_and_reading_goes_on(length: int) -> None:
    memory, transmitter, receiver = pair()
    transmitter.transmit(1, bytes(8))
    memory.put_i32(0, length)
    with pytest.raises(CorruptData, match=f"a record of {length} bytes"):
        receiver.receive()
    assert receiver.receive() is None
    transmitter.transmit(2, b"on")
    assert receiver.receive() == (2, b"on")


@pytest.mark.parametrize("seed", range(40))
def test_random_bytes_in_all_of_the_memory_never_lead_outside_of_it(seed: int) -> None:
    draw = random.Random(seed)
    memory, transmitter, receiver = pair()
    for _ in range(60):
        step = draw.randrange(5)
        if step == 0:
            memory.write(0, draw.randbytes(CAPACITY))
        elif step == 1:
            memory.put_i64(draw.choice([INTENT, TAIL, LATEST]), draw.choice([0, -1, 3, 1 << 40, -(1 << 63), 260]))
        elif step == 2:
            memory.put_i32(draw.randrange(64) * 4, draw.choice([0, -1, 1, 8, 9, -(1 << 31), (1 << 31) - 1, 300]))
        transmitter.transmit(1 + draw.randrange(9), draw.randbytes(draw.randrange(33)))
        for _ in range(3):
            with contextlib.suppress(CorruptData, DataLost):
                receiver.receive()


def _transmit_until(path: str, enough: Event) -> None:
    fd = os.open(path, os.O_RDWR)
    transmitter = BroadcastTransmitter(_memory.Memory.map(fd, os.fstat(fd).st_size))
    os.close(fd)
    for number in itertools.count():
        transmitter.transmit(1, struct.pack("<i", number) * (1 + number % 50))
        if number % 10 == 0:
            os.sched_yield()
            if enough.is_set():
                return


def test_a_reader_in_another_process_never_sees_a_torn_record(tmp_path: Path) -> None:
    path = tmp_path / "broadcast"
    path.write_bytes(bytes(4096 + TRAILER_LENGTH))
    fd = os.open(path, os.O_RDWR)
    receiver = BroadcastReceiver(_memory.Memory.map(fd, 4096 + TRAILER_LENGTH))
    os.close(fd)
    context = multiprocessing.get_context("spawn")
    enough = context.Event()
    process = context.Process(target=_transmit_until, args=(str(path), enough))
    process.start()
    last, read = -1, 0
    try:
        while read < 500:
            try:
                record = receiver.receive()
            except DataLost:
                record = None
            if record is None:
                assert process.is_alive()
                continue
            (number,) = struct.unpack_from("<i", record[1])
            assert record == (1, struct.pack("<i", number) * (1 + number % 50))
            assert number > last
            last, read = number, read + 1
    finally:
        enough.set()
        process.join(20)
    assert process.exitcode == 0
