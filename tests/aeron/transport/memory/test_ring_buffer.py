"""The many-to-one ring buffer: bytes by hand after Agrona's drawing of a record, wrap, full, claims that were never
finished, many processes at once, and bytes that no writer writes."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import random
import struct
from pathlib import Path

import pytest

from everlog.aeron.transport.memory.ring_buffer import MAX_POSITION, PADDING, TRAILER_LENGTH, ManyToOneRingBuffer
from everlog.errors import CorruptData, UsageError
from everlog.kernel import _memory
from everlog.kernel.memory import Memory

CAPACITY = 128
TAIL, HEAD_CACHE, HEAD, CORRELATION, HEARTBEAT = (CAPACITY + at for at in (128, 256, 384, 512, 640))


def ring(capacity: int = CAPACITY) -> tuple[Memory, ManyToOneRingBuffer]:
    memory = Memory.allocate(capacity + TRAILER_LENGTH)
    return memory, ManyToOneRingBuffer(memory)


def read_all(buffer: ManyToOneRingBuffer) -> list[tuple[int, bytes]]:
    found: list[tuple[int, bytes]] = []
    while buffer.read(lambda type_id, data: found.append((type_id, data))):
        pass
    return found


def test_a_record_is_its_length_its_type_and_its_payload_at_multiples_of_eight() -> None:
    memory, buffer = ring()
    assert buffer.write(7, b"abc")
    assert buffer.write(9, b"")
    assert memory.read(0, 24) == struct.pack("<ii3s5xii", 11, 7, b"abc", 8, 9)
    assert memory.get_i64(TAIL) == 24 == buffer.producer_position == buffer.size
    assert read_all(buffer) == [(7, b"abc"), (9, b"")]
    assert memory.read(0, 24) == bytes(24), "what was read is zeroed"
    assert memory.get_i64(HEAD) == 24 == buffer.consumer_position
    assert buffer.size == 0
    assert buffer.max_message_length == 16


def test_a_record_that_does_not_fit_before_the_end_begins_at_the_start_behind_padding() -> None:
    memory, buffer = ring()
    for _ in range(5):
        assert buffer.write(1, bytes(16))
    assert memory.get_i64(TAIL) == 120
    assert read_all(buffer) == [(1, bytes(16))] * 5
    assert buffer.write(2, b"x" * 9)
    assert memory.read(120, 8) == struct.pack("<ii", 8, PADDING)
    assert memory.read(0, 17) == struct.pack("<ii", 17, 2) + b"x" * 9
    assert memory.get_i64(TAIL) == 120 + 8 + 24
    assert read_all(buffer) == []
    assert memory.get_i64(HEAD) == 128, "one call ends where the buffer does"
    assert read_all(buffer) == [(2, b"x" * 9)]


def test_a_full_buffer_takes_no_more_until_something_was_read() -> None:
    memory, buffer = ring()
    for number in range(8):
        assert buffer.write(1 + number, bytes(8))
    assert not buffer.write(9, b"")
    assert memory.get_i64(TAIL) == 128
    assert buffer.read(lambda *_: None, 1) == 1
    assert buffer.write(9, bytes(8))
    assert not buffer.write(10, b"")
    assert [type_id for type_id, _ in read_all(buffer)] == [2, 3, 4, 5, 6, 7, 8, 9]


def test_the_end_is_padded_even_when_the_record_does_not_fit_at_the_start_yet() -> None:
    memory, buffer = ring()
    assert all(buffer.write(1, bytes(16)) for _ in range(5))
    assert buffer.read(lambda *_: None, 1) == 1  # 24 bytes at the start are free, 8 before the end
    assert buffer.write(2, bytes(8))
    assert memory.get_i64(TAIL) == 128 + 16
    memory, buffer = ring()
    assert all(buffer.write(1, bytes(8)) for _ in range(7))  # up to 112
    assert buffer.read(lambda *_: None, 1) == 1  # 16 bytes at the start are free, 16 before the end
    assert not buffer.write(3, bytes(16)), "24 bytes fit nowhere"
    assert memory.get_i64(TAIL) == 128
    assert memory.read(112, 8) == struct.pack("<ii", 16, PADDING)
    assert buffer.write(4, bytes(8)), "16 do, at the start"


def test_correlation_ids_count_on_and_the_heartbeat_is_what_was_written() -> None:
    memory, buffer = ring()
    assert [buffer.next_correlation_id() for _ in range(3)] == [0, 1, 2]
    buffer.consumer_heartbeat = 1_700_000_000_000
    assert memory.get_i64(HEARTBEAT) == 1_700_000_000_000 == buffer.consumer_heartbeat
    assert memory.get_i64(CORRELATION) == 3


def test_wrong_types_and_lengths_are_refused_and_leave_nothing() -> None:
    memory, buffer = ring()
    for type_id, data in ((0, b""), (-1, b""), (1, bytes(17))):
        with pytest.raises(UsageError):
            buffer.write(type_id, data)
    assert memory.read(0, len(memory)) == bytes(len(memory))
    for length in (0, 100, TRAILER_LENGTH, TRAILER_LENGTH + 4, TRAILER_LENGTH + 24):
        with pytest.raises(CorruptData, match="to-driver buffer"):
            ManyToOneRingBuffer(Memory.allocate(length))


def test_an_error_of_the_handler_counts_its_record_as_read() -> None:
    _, buffer = ring()
    assert buffer.write(1, b"a")
    assert buffer.write(2, b"b")

    def fail(type_id: int, data: bytes) -> None:
        raise ValueError(type_id)

    with pytest.raises(ValueError, match="1"):
        buffer.read(fail)
    assert read_all(buffer) == [(2, b"b")]


def test_a_claim_whose_writer_died_behind_its_length_is_skipped() -> None:
    memory, buffer = ring()
    memory.put_i64(TAIL, 24)
    memory.put_i32(0, -20)
    assert buffer.write(5, b"next")
    assert read_all(buffer) == []
    assert buffer.unblock()
    assert read_all(buffer) == [(5, b"next")]
    assert not buffer.unblock()


def test_a_claim_whose_writer_died_at_once_is_skipped_up_to_the_next_record() -> None:
    memory, buffer = ring()
    memory.put_i64(TAIL, 40)
    assert not buffer.unblock(), "nobody can tell yet how long it is"
    assert buffer.write(5, b"next")
    assert buffer.unblock()
    assert memory.read(0, 8) == struct.pack("<ii", 40, PADDING)
    assert read_all(buffer) == [(5, b"next")]


def test_a_claim_at_the_end_is_skipped_up_to_the_end() -> None:
    memory, buffer = ring()
    for at in (TAIL, HEAD, HEAD_CACHE):
        memory.put_i64(at, 112)
    memory.put_i64(TAIL, 128)
    memory.put_i32(112, -9)
    assert buffer.unblock()
    assert read_all(buffer) == []
    assert memory.get_i64(HEAD) == 128


def test_what_is_readable_is_not_unblocked() -> None:
    _memory, buffer = ring()
    assert not buffer.unblock()
    assert buffer.write(5, b"x")
    assert not buffer.unblock()
    assert read_all(buffer) == [(5, b"x")]


@pytest.mark.parametrize("length", [1, 7, 121, 136, 1 << 30, (1 << 31) - 1])
def test_a_length_that_cannot_be_is_told_once_and_what_was_claimed_is_skipped(length: int) -> None:
    memory, buffer = ring()
    assert buffer.write(1, bytes(8))
    assert buffer.write(2, bytes(16))
    assert buffer.write(3, b"")
    memory.put_i32(16, length)
    found: list[int] = []
    with pytest.raises(CorruptData) as caught:
        buffer.read(lambda type_id, _: found.append(type_id))
    assert found == [1]
    assert caught.value.offset == 16
    assert str(length) in str(caught.value)
    assert memory.get_i64(HEAD) == memory.get_i64(TAIL) == 48
    assert memory.read(0, 128) == bytes(128)
    assert buffer.write(4, b"on")
    assert read_all(buffer) == [(4, b"on")]


@pytest.mark.parametrize("tail", [-8, -(1 << 63), MAX_POSITION + 8, (1 << 63) - 1, 4])
def test_a_tail_that_cannot_be_is_an_error_for_who_writes(tail: int) -> None:
    memory, buffer = ring()
    memory.put_i64(TAIL, tail)
    with pytest.raises(CorruptData, match="tail"):
        buffer.write(1, b"")


@pytest.mark.parametrize("seed", range(40))
def test_random_bytes_in_all_of_the_memory_never_lead_outside_of_it(seed: int) -> None:
    draw = random.Random(seed)
    memory, buffer = ring(256)
    size = len(memory)
    for _ in range(60):
        step = draw.randrange(8)
        if step == 0:
            memory.write(0, draw.randbytes(size))
        elif step == 1:
            memory.write(draw.randrange(size - 8), draw.randbytes(8))
        elif step == 2:
            memory.put_i64(256 + draw.choice([128, 256, 384]), draw.choice([0, -1, 3, 1 << 62, -(1 << 63), 260]))
        elif step == 3:
            memory.put_i32(draw.randrange(64) * 4, draw.choice([0, -1, 1, 8, 9, -(1 << 31), (1 << 31) - 1, 300]))
        with contextlib.suppress(CorruptData):
            buffer.write(1 + draw.randrange(9), draw.randbytes(draw.randrange(33)))
        with contextlib.suppress(CorruptData):
            buffer.read(lambda type_id, data: None, draw.randrange(4))
        buffer.unblock()
        assert 0 <= buffer.size <= 256


def _write_many(path: str, writer: int, count: int) -> None:
    fd = os.open(path, os.O_RDWR)
    buffer = ManyToOneRingBuffer(_memory.Memory.map(fd, os.fstat(fd).st_size))
    os.close(fd)
    sent = 0
    while sent < count:
        payload = struct.pack("<ii", writer, sent) * (1 + sent % 7)
        if buffer.write(1 + writer, payload):
            sent += 1
        else:
            os.sched_yield()


def test_many_processes_write_and_nothing_is_lost_or_torn(tmp_path: Path) -> None:
    path, writers, count = tmp_path / "ring", 3, 4_000
    path.write_bytes(bytes(4096 + TRAILER_LENGTH))
    fd = os.open(path, os.O_RDWR)
    buffer = ManyToOneRingBuffer(_memory.Memory.map(fd, 4096 + TRAILER_LENGTH))
    os.close(fd)
    context = multiprocessing.get_context("spawn")
    running = [context.Process(target=_write_many, args=(str(path), number, count)) for number in range(writers)]
    for process in running:
        process.start()
    next_of = [0] * writers

    def check(type_id: int, data: bytes) -> None:
        writer, number = struct.unpack_from("<ii", data)
        assert type_id == 1 + writer
        assert number == next_of[writer]
        assert data == struct.pack("<ii", writer, number) * (1 + number % 7)
        next_of[writer] += 1

    while sum(next_of) < writers * count:
        if not buffer.read(check):
            assert all(process.is_alive() or process.exitcode == 0 for process in running)
            os.sched_yield()
    for process in running:
        process.join(20)
    assert next_of == [count] * writers
    assert buffer.size == 0
