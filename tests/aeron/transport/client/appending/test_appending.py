"""Appenders and their twins: the log that they leave, worked out by hand from what Aeron's publications write."""

from __future__ import annotations

import struct
import threading
from array import array
from collections.abc import Sequence
from typing import Any

import pytest

from everlog.errors import CorruptData, UsageError
from tests.aeron.transport.client.private_log import INITIAL_TERM, MTU, SESSION, STREAM, TERM, PrivateLog, frame
from tests.aeron.transport.kernels import KERNELS, Kernel, compiled

NOT_CONNECTED, BACK_PRESSURED, ADMIN_ACTION, CLOSED, MAX_POSITION_EXCEEDED = -1, -2, -3, -4, -5
LONGEST = MTU - 32
KINDS = ["ConcurrentAppender", "ExclusiveAppender"]


@pytest.fixture(params=KERNELS)
def kernel(request: pytest.FixtureRequest) -> Kernel:
    found: Kernel = request.param
    return found


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def log(kernel: Kernel) -> PrivateLog:
    return PrivateLog.make(kernel.memory)


@pytest.fixture
def appender(kernel: Kernel, kind: str, log: PrivateLog) -> Any:
    return getattr(kernel.publication, kind)(log, log.counters, 0)


def exclusive(kernel: Kernel, log: PrivateLog) -> Any:
    return kernel.publication.ExclusiveAppender(log, log.counters, 0)


def test_a_message_is_one_frame(appender: Any, log: PrivateLog) -> None:
    assert appender.offer(b"hello") == 64
    assert appender.offer(b"", 5) == 96
    assert appender.offer(bytearray(b"x" * 32), reserved_value=-2) == 160
    assert appender.offer(memoryview(b"xyz")[1:]) == 224
    expected = frame(0, b"hello") + frame(64, reserved=5) + frame(96, b"x" * 32, reserved=-2) + frame(160, b"yz")
    assert log.frames(0, 256) == expected + bytes(32)
    assert log.tail(0) == (INITIAL_TERM, 224)
    assert appender.position == 224


@pytest.mark.parametrize(
    "length", [*range(70), 127, 128, 129, *range(254, 259), 319, 320, 321, 384, 1023, 1024, LONGEST]
)
def test_nothing_is_written_behind_a_payload(appender: Any, log: PrivateLog, length: int) -> None:
    payload = bytes(1 + i % 255 for i in range(length))
    assert appender.offer_many([payload, payload, payload]) == 3
    size = len(frame(0, payload))
    expected = frame(0, payload) + frame(size, payload) + frame(2 * size, payload)
    assert log.frames(0, 3 * size + 96) == expected + bytes(96)


def test_a_long_message_comes_in_fragments(appender: Any, log: PrivateLog) -> None:
    message = bytes(range(256)) * 12
    assert appender.offer(message, 9) == MTU + MTU + 352
    first, second, third = message[:LONGEST], message[LONGEST : 2 * LONGEST], message[2 * LONGEST :]
    expected = frame(0, first, flags=0x80, reserved=9) + frame(MTU, second, flags=0, reserved=9)
    assert log.frames(0, 2 * MTU + 352) == expected + frame(2 * MTU, third, flags=0x40, reserved=9)


def test_the_longest_message_is_an_eighth_of_a_term(appender: Any) -> None:
    assert appender.max_message_length == TERM // 8
    assert appender.offer(bytes(TERM // 8)) > 0
    with pytest.raises(UsageError):
        appender.offer(bytes(TERM // 8 + 1))
    with pytest.raises(UsageError):
        appender.offer_many([bytes(TERM // 8 + 1)])
    assert appender.offer_many([b"", bytes(TERM // 8 + 1)]) == 1


def test_parts_are_one_message(appender: Any, log: PrivateLog) -> None:
    assert appender.offer_parts([b"he", bytearray(b"ll"), memoryview(b"o")], 3) == 64
    assert log.frames(0, 64) == frame(0, b"hello", reserved=3)


def test_messages_of_all_kinds_can_be_appended_with_one_call(appender: Any, log: PrivateLog) -> None:
    messages = [b"a", bytearray(b"b" * 40), b"", bytes(3000), memoryview(b"c"), b"d"]
    assert appender.offer_many(messages, 1) == 5
    expected = frame(0, b"b" * 40) + frame(96) + frame(128, bytes(LONGEST), flags=0x80)
    expected += frame(1536, bytes(LONGEST), flags=0) + frame(2944, bytes(248), flags=0x40)
    expected += frame(3232, b"c") + frame(3296, b"d")
    assert log.frames(0, 3360) == expected
    assert appender.offer_many(tuple(messages), 6) == 0
    assert appender.offer_many([]) == 0
    with pytest.raises(UsageError):
        appender.offer_many(messages, -1)


@pytest.mark.parametrize("code", ["i", "q"])
def test_rows_of_a_column_are_messages(appender: Any, log: PrivateLog, code: str) -> None:
    offsets = array(code, [0, 1, 1, 6, 10])
    assert appender.append_columns(b"ahelloxxxx", offsets, 0, 3, reserved_value=4) == 3
    expected = frame(0, b"a", reserved=4) + frame(64, reserved=4) + frame(96, b"hello", reserved=4)
    assert log.frames(0, 256) == expected + bytes(96)
    assert appender.append_columns(b"ahelloxxxx", offsets, 3) == 1
    assert log.frames(0, 224) == expected + frame(160, b"xxxx")


@pytest.mark.parametrize("offsets", [[0, 11], [-1, 3], [3, 1], [1 << 30, 1 << 30]])
def test_offsets_outside_of_a_column_are_refused(appender: Any, log: PrivateLog, offsets: list[int]) -> None:
    with pytest.raises(UsageError):
        appender.append_columns(b"0123456789", array("i", offsets))
    assert appender.append_columns(b"0123456789", array("i", [*range(5), *offsets])) >= 4
    assert log.frames(0, 64) == frame(0, b"0")


@pytest.mark.parametrize(("first", "last"), [(-1, 1), (0, 3), (2, 1), (3, 3)])
def test_rows_outside_of_a_column_are_refused(appender: Any, first: int, last: int) -> None:
    with pytest.raises(UsageError):
        appender.append_columns(b"ab", array("i", [0, 1, 2]), first, last)
    with pytest.raises(UsageError):
        appender.append_columns(b"ab", array("h", [0, 1, 2]))


def test_the_rest_of_a_term_becomes_padding(appender: Any, log: PrivateLog) -> None:
    assert appender.offer_many([bytes(LONGEST)] * 46) == 46
    at = 46 * MTU
    assert appender.position == at
    assert appender.offer(bytes(LONGEST)) == ADMIN_ACTION
    assert log.frames(0, TERM)[at : at + 32] == frame(at, kind=0, length=TERM - at)
    assert log.active_term_count == 1
    assert log.tail(1) == (INITIAL_TERM + 1, 0)
    assert log.tail(0) == (INITIAL_TERM, 47 * MTU)
    assert appender.offer(bytes(LONGEST)) == TERM + MTU
    assert log.frames(1, 32)[:24] == frame(0, bytes(LONGEST), term_id=INITIAL_TERM + 1)[:24]


def test_many_messages_go_on_in_the_next_terms(appender: Any, log: PrivateLog) -> None:
    assert appender.offer_many([b"x" * 32] * 2000) == 2000
    assert appender.position == 2000 * 64
    assert log.active_term_count == 1
    assert log.frames(1, 976 * 64) == b"".join(frame(64 * i, b"x" * 32, term_id=INITIAL_TERM + 1) for i in range(976))


def test_a_term_that_is_filled_exactly_has_no_padding(appender: Any, log: PrivateLog) -> None:
    assert appender.offer_many([b"x" * 32] * 1024) == 1024
    assert log.active_term_count == 0
    assert appender.offer(b"y") == ADMIN_ACTION
    assert log.frames(0, TERM)[-64:] == frame(TERM - 64, b"x" * 32)


def test_a_fourth_term_begins_where_the_first_was(appender: Any, log: PrivateLog) -> None:
    assert appender.offer_many([b"x" * 32] * 3072) == 3072
    log.terms[0].zero(0, TERM)
    assert appender.offer_many([b"y" * 32]) == 1
    assert log.active_term_count == 3
    assert log.tail(0) == (INITIAL_TERM + 3, 64)
    assert log.frames(0, 64) == frame(0, b"y" * 32, term_id=INITIAL_TERM + 3)


def test_term_ids_wrap(kernel: Kernel, kind: str) -> None:
    log = PrivateLog.make(kernel.memory, initial_term_id=0x7FFFFFFF)
    appender = getattr(kernel.publication, kind)(log, log.counters, 0)
    assert appender.offer_many([b"x" * 32] * 1025) == 1025
    assert log.tail(1) == (-0x80000000, 64)
    assert log.frames(1, 64) == frame(0, b"x" * 32, term_id=-0x80000000)
    assert appender.position == TERM + 64


def test_a_message_may_reach_beyond_the_limit_but_none_begins_there(appender: Any, log: PrivateLog) -> None:
    log.limit = 96
    assert appender.available_window == 96
    assert appender.offer_many([b"x" * 32] * 9) == 2
    assert appender.position == 128
    assert appender.offer_many([b"x"]) == BACK_PRESSURED
    assert appender.append_columns(b"x", array("i", [0, 1])) == BACK_PRESSURED
    assert appender.offer(b"x") == BACK_PRESSURED
    log.metadata.put_i32(136, 0)
    assert appender.offer(b"x") == NOT_CONNECTED
    assert not appender.is_connected
    assert log.frames(0, 160)[128:] == bytes(32)


def test_a_batch_ends_at_the_limit(appender: Any, log: PrivateLog) -> None:
    log.limit = 64 * 100
    column = b"x" * 32 * 200
    assert appender.append_columns(column, array("i", range(0, 32 * 201, 32))) == 100
    log.limit = 64 * 150 - 1
    assert appender.append_columns(column, array("i", range(0, 32 * 201, 32)), 100) == 50


def test_long_and_short_messages_of_one_call_come_in_their_order(appender: Any, log: PrivateLog) -> None:
    payloads = [bytes([i]) * length for i, length in enumerate((600, 700, 32, 481, 480, 1000, LONGEST, 0, 900))]
    assert appender.offer_many(payloads) == len(payloads)
    expected = b""
    for payload in payloads:
        expected += frame(len(expected), payload)
    assert log.frames(0, len(expected) + 64) == expected + bytes(64)
    assert log.tail(0) == (INITIAL_TERM, len(expected))


def test_long_messages_go_on_in_the_next_term_and_end_at_the_limit(appender: Any, log: PrivateLog) -> None:
    size = len(frame(0, bytes(1000)))
    fit = TERM // size
    log.limit = TERM + 5 * size
    assert appender.offer_many([b"x" * 1000] * 100) == fit + 5
    assert appender.position == TERM + 5 * size
    assert log.tail(1) == (INITIAL_TERM + 1, 5 * size)
    assert log.frames(1, size * 5) == b"".join(frame(size * i, b"x" * 1000, term_id=INITIAL_TERM + 1) for i in range(5))


def test_the_last_term_ends_the_log(kernel: Kernel, kind: str) -> None:
    log = PrivateLog.make(kernel.memory)
    last = 0x7FFFFFFF
    log.metadata.put_i32(24, last)
    log.metadata.put_i64(8 * (last % 3), (INITIAL_TERM + last - (1 << 32)) << 32 | TERM - 64)
    appender = getattr(kernel.publication, kind)(log, log.counters, 0)
    assert appender.position == (TERM << 31) - 64
    assert appender.offer(bytes(33)) == MAX_POSITION_EXCEEDED
    assert log.frames(last % 3, TERM)[-64:-58] == struct.pack("<iBB", 64, 0, 0xC0)
    assert log.active_term_count == last
    log.limit = 0
    assert appender.offer(bytes(33)) == MAX_POSITION_EXCEEDED


def test_a_claim_is_written_in_place(kernel: Kernel, appender: Any, log: PrivateLog) -> None:
    claim = kernel.publication.BufferClaim()
    assert appender.try_claim(5, claim) == 64
    assert log.frames(0, 24) == frame(0, length=-37)[:24]
    assert (claim.length, claim.offset, claim.flags, claim.type, claim.reserved_value) == (5, 32, 0xC0, 1, 0)
    claim.payload[:2] = b"he"
    claim.put(b"llo", 2)
    claim.reserved_value = -7
    with pytest.raises(IndexError):
        claim.put(b"llo", 3)
    with pytest.raises(IndexError):
        claim.put(b"", -1)
    held = claim.payload
    claim.commit()
    assert log.frames(0, 64) == frame(0, b"hello", reserved=-7)
    with pytest.raises(ValueError, match="released"):
        held[:1] = b"j"
    with pytest.raises(UsageError):
        claim.commit()


def test_a_claim_that_is_aborted_is_padding(kernel: Kernel, appender: Any, log: PrivateLog) -> None:
    claim = kernel.publication.BufferClaim()
    appender.try_claim(40, claim)
    with pytest.raises(IndexError), claim:
        claim.put(bytes(41))
    assert log.frames(0, 96) == frame(0, bytes(40), kind=0)
    with claim:
        assert appender.try_claim(1, claim) == 160
        claim.flags = 0x80
        claim.type = 5
    assert log.frames(0, 160)[96:] == frame(96, b"\0", flags=0x80, kind=5)


def test_a_claim_that_is_open_is_not_forgotten(kernel: Kernel, appender: Any, log: PrivateLog) -> None:
    claim = kernel.publication.BufferClaim()
    appender.try_claim(1, claim)
    with pytest.raises(UsageError):
        appender.try_claim(1, claim)
    assert appender.position == 64
    claim.abort()
    assert appender.try_claim(1, claim) == 128


@pytest.mark.parametrize("length", [-1, LONGEST + 1, 1 << 40])
def test_a_claim_is_at_most_one_frame(kernel: Kernel, appender: Any, length: int) -> None:
    with pytest.raises(UsageError):
        appender.try_claim(length, kernel.publication.BufferClaim())


def test_a_closed_appender_lets_go(kernel: Kernel, appender: Any, log: PrivateLog) -> None:
    claim = kernel.publication.BufferClaim()
    appender.try_claim(1, claim)
    appender.close()
    appender.close()
    assert appender.offer(b"x") == CLOSED
    assert appender.offer_many([b"x"]) == CLOSED
    assert appender.append_columns(b"x", array("i", [0, 1])) == CLOSED
    assert appender.try_claim(1, kernel.publication.BufferClaim()) == CLOSED
    assert (appender.position, appender.position_limit, appender.available_window) == (CLOSED, CLOSED, CLOSED)
    assert appender.is_closed
    assert not appender.is_connected
    claim.put(b"y")
    claim.commit()
    assert log.frames(0, 64) == frame(0, b"y")


class Closing(Sequence[bytes]):
    """Messages that close the appender as soon as somebody looks at them."""

    def __init__(self, appender: Any) -> None:
        self.appender = appender

    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: Any) -> Any:
        self.appender.close()
        return [b"a", b"b"][index]


def test_messages_may_close_their_appender(appender: Any, log: PrivateLog) -> None:
    assert appender.offer_many(Closing(appender)) == CLOSED
    assert log.frames(0, 128) == bytes(128)
    assert log.tail(0) == (INITIAL_TERM, 0)


def test_what_an_appender_knows_of_its_log(appender: Any) -> None:
    assert (appender.session_id, appender.stream_id, appender.initial_term_id) == (SESSION, STREAM, INITIAL_TERM)
    assert (appender.term_buffer_length, appender.position_bits_to_shift) == (TERM, 16)
    assert (appender.mtu_length, appender.max_payload_length) == (MTU, LONGEST)
    assert appender.max_possible_position == TERM << 31
    assert appender.position_limit == 1 << 62
    assert appender.is_connected


def test_two_publishers_share_a_log(kernel: Kernel, log: PrivateLog) -> None:
    one, two = (kernel.publication.ConcurrentAppender(log, log.counters, 0) for _ in range(2))
    assert one.offer(b"a") == 64
    assert two.offer_many([b"b", b"c"]) == 2
    assert one.offer(b"d") == 256
    assert log.frames(0, 256) == b"".join(frame(64 * i, bytes([97 + i])) for i in range(4))


def test_a_publisher_waits_for_the_one_that_goes_on_to_the_next_term(kernel: Kernel, log: PrivateLog) -> None:
    appender = kernel.publication.ConcurrentAppender(log, log.counters, 0)
    log.metadata.put_i32(24, 1)  # its raw tail is not set yet
    assert appender.offer(b"x") == ADMIN_ACTION


def test_threads_share_a_log() -> None:
    kernel = compiled()
    log = PrivateLog.make(kernel.memory, term_length=1 << 20)
    column, offsets = bytes(32 * 400), array("i", range(0, 32 * 401, 32))

    def publish(number: int) -> None:
        appender = kernel.publication.ConcurrentAppender(log, log.counters, 0)
        row = 0
        while row < 400:
            row += appender.append_columns(column, offsets, row, min(row + 100, 400), reserved_value=number)
            appender.offer(b"", number)

    threads = [threading.Thread(target=publish, args=(number,)) for number in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    content, at, counts = log.frames(0, 1 << 20), 0, [0] * 9
    while at < 8 * (400 * 64 + 4 * 32):
        length, number = struct.unpack_from("<i20xq", content, at)
        assert length in (32, 64)
        counts[number] += 1
        at += length
    assert counts == [0] + [404] * 8


def test_an_exclusive_publisher_goes_on_where_the_log_is(kernel: Kernel, log: PrivateLog) -> None:
    exclusive(kernel, log).offer_many([b"x" * 32] * 1500)
    appender = exclusive(kernel, log)
    assert (appender.term_id, appender.term_offset, appender.position) == (INITIAL_TERM + 1, 476 * 64, 1500 * 64)
    assert appender.offer(b"y") == 1501 * 64


def test_padding_can_be_appended(kernel: Kernel, log: PrivateLog) -> None:
    appender = exclusive(kernel, log)
    assert appender.append_padding(100) == 160
    assert log.frames(0, 160) == frame(0, bytes(100), kind=0)
    for length in (-1, appender.max_framed_length + 1):
        with pytest.raises(UsageError):
            appender.append_padding(length)


def test_a_block_of_frames_is_appended_as_it_is(kernel: Kernel, log: PrivateLog) -> None:
    appender = exclusive(kernel, log)
    appender.offer(b"x")
    block = frame(64, b"a" * 50) + frame(160, flags=0x80) + frame(192, kind=0, length=TERM - 192)
    assert appender.append_block(block) == TERM
    assert log.frames(0, 224) == frame(0, b"x") + block
    assert log.tail(0) == (INITIAL_TERM, TERM)
    assert appender.append_block(frame(0, b"b", term_id=INITIAL_TERM + 1)) == TERM + 64
    log.limit = TERM
    assert appender.append_block(frame(64, b"b", term_id=INITIAL_TERM + 1)) == BACK_PRESSURED


@pytest.mark.parametrize(
    "block",
    [
        b"",
        frame(0)[:31],
        frame(32),
        frame(0, term_id=3),
        frame(0, length=31),
        frame(0, length=-32),
        frame(0, length=64),
        frame(0, b"a" * 10)[:42],
        frame(0, length=TERM + 32, kind=0),
        frame(0, kind=0, length=96) + frame(96),
        frame(0) + frame(64),
        frame(0) + frame(32, b"x")[:20],
        frame(0).replace(struct.pack("<i", SESSION), struct.pack("<i", 3)),
        frame(0).replace(struct.pack("<i", STREAM), struct.pack("<i", 3)),
    ],
)
def test_a_block_made_for_another_place_is_refused(kernel: Kernel, log: PrivateLog, block: bytes) -> None:
    appender = exclusive(kernel, log)
    with pytest.raises(UsageError):
        appender.append_block(block)
    assert log.frames(0, 256) == bytes(256)
    assert log.tail(0) == (INITIAL_TERM, 0)


@pytest.mark.parametrize(
    ("offset", "value"), [(276, TERM * 2), (276, 0), (272, 0), (272, 31), (272, 1 << 20), (272, 1409)]
)
def test_metadata_that_does_not_fit_the_log_is_refused(kernel: Kernel, kind: str, offset: int, value: int) -> None:
    log = PrivateLog.make(kernel.memory)
    log.metadata.put_i32(offset, value)
    with pytest.raises(CorruptData):
        getattr(kernel.publication, kind)(log, log.counters, 0)


def test_a_tail_that_no_publisher_leaves_is_refused(kernel: Kernel, log: PrivateLog) -> None:
    appender = kernel.publication.ConcurrentAppender(log, log.counters, 0)
    log.metadata.put_i64(0, INITIAL_TERM << 32 | 7)
    for append in (lambda: appender.offer(b"x"), lambda: appender.offer_many([b"x", b"y"])):
        with pytest.raises(CorruptData):
            append()
    with pytest.raises(CorruptData):
        exclusive(kernel, log)
    log.metadata.put_i64(0, INITIAL_TERM << 32 | 0xFFFFFFE0)
    assert appender.offer(b"x") in (ADMIN_ACTION, 64)
    log.metadata.put_i32(24, -5)
    with pytest.raises(CorruptData):
        appender.offer(b"x")
    assert log.frames(0, TERM) == bytes(TERM)


def test_memory_without_room_for_the_limit_is_refused(kernel: Kernel, kind: str, log: PrivateLog) -> None:
    with pytest.raises(IndexError):
        getattr(kernel.publication, kind)(log, kernel.memory.allocate(8), 8)
