"""Readers of images and their twins: frames worked out by hand, given out as Aeron's images do; hostile frames."""

from __future__ import annotations

import random
from array import array
from collections.abc import Callable
from typing import Any

import pytest

from everlog.aeron.transport.client.images.actions import Action
from everlog.aeron.transport.client.images.fragment_assembler import ControlledFragmentAssembler, FragmentAssembler
from everlog.core.batch import Batch
from everlog.errors import CorruptData, UsageError
from tests.aeron.transport.client.private_log import INITIAL_TERM, SESSION, STREAM, TERM, PrivateLog, frame
from tests.aeron.transport.kernels import KERNELS, Kernel

THREE = frame(0, b"a" * 32, reserved=5) + frame(64, b"b" * 33) + frame(160, b"")
FRAGMENTS = frame(0, b"one", flags=0x80, reserved=8) + frame(64, b"-two", flags=0) + frame(128, b"-three", flags=0x40)


class Seen:
    """A handler that keeps what it was given."""

    def __init__(self, answer: Callable[[int], Any] = lambda _: None) -> None:
        self.payloads: list[bytes] = []
        self.headers: list[Any] = []
        self.answer = answer

    def __call__(self, payload: bytes, header: Any) -> Any:
        self.payloads.append(payload)
        self.headers.append(header)
        return self.answer(len(self.payloads))


@pytest.fixture(params=KERNELS)
def kernel(request: pytest.FixtureRequest) -> Kernel:
    found: Kernel = request.param
    return found


@pytest.fixture
def log(kernel: Kernel) -> PrivateLog:
    return PrivateLog.make(kernel.memory)


def reader(kernel: Kernel, log: PrivateLog, content: bytes = b"", at: int = 0) -> Any:
    """Of a log whose term at position ``at`` has that content."""
    log.terms[at // TERM % 3].write(at % TERM, content)
    log.read_position = at
    return kernel.image.ImageReader(log, log.counters, 8)


def test_a_handler_gets_payloads_and_headers(kernel: Kernel, log: PrivateLog) -> None:
    image, seen = reader(kernel, log, THREE), Seen()
    assert image.poll(seen, 2) == 2
    assert log.read_position == image.position == 160
    assert image.poll(seen) == 1
    assert image.poll(seen) == 0
    assert seen.payloads == [b"a" * 32, b"b" * 33, b""]
    assert [header.position for header in seen.headers] == [64, 160, 192]
    assert [header.reserved_value for header in seen.headers] == [5, 0, 0]
    header = seen.headers[1]
    assert (header.frame_length, header.version, header.flags, header.type) == (65, 0, 0xC0, 1)
    assert (header.term_offset, header.next_term_offset, header.term_id) == (64, 160, INITIAL_TERM)
    assert (header.session_id, header.stream_id, header.initial_term_id) == (SESSION, STREAM, INITIAL_TERM)
    assert header.position_bits_to_shift == 16


def test_what_a_handler_raises_goes_through_and_its_fragment_counts_as_read(kernel: Kernel, log: PrivateLog) -> None:
    image = reader(kernel, log, THREE)

    def fail(count: int) -> None:
        if count == 2:
            raise KeyError(count)

    with pytest.raises(KeyError):
        image.poll(Seen(fail))
    assert image.position == 160


def test_padding_is_gone_over(kernel: Kernel, log: PrivateLog) -> None:
    image = reader(kernel, log, frame(TERM - 96, b"x") + frame(TERM - 32, kind=0), TERM - 96)
    log.terms[1].write(0, frame(0, b"y", term_id=INITIAL_TERM + 1))
    seen = Seen()
    assert image.poll(seen) == 1
    assert image.position == TERM
    assert image.poll(seen) == 1
    assert seen.payloads == [b"x", b"y"]
    assert seen.headers[1].position == TERM + 64


def test_a_frame_that_is_being_written_is_not_there(kernel: Kernel, log: PrivateLog) -> None:
    image, seen = reader(kernel, log, THREE[:64] + frame(64, b"b", length=-33)), Seen()
    assert image.poll(seen) == 1
    assert image.poll(seen) == 0
    assert image.poll_columns(kernel.message_columns.MessageColumns()) == 0
    assert image.block_poll(seen, TERM) == 0


def test_a_bounded_poll_ends_at_its_position(kernel: Kernel, log: PrivateLog) -> None:
    image, seen = reader(kernel, log, THREE), Seen()
    assert image.bounded_poll(seen, 0) == 0
    assert image.bounded_poll(seen, 65) == 2
    assert image.bounded_poll(seen, 160) == 0
    assert image.bounded_controlled_poll(seen, 160) == 0
    assert image.bounded_controlled_poll(seen, 161) == 1


def test_a_controlled_poll_does_as_it_is_told(kernel: Kernel, log: PrivateLog) -> None:
    content = b"".join(frame(32 * i) for i in range(6))
    image = reader(kernel, log, content)
    positions = []

    def answer(count: int) -> Action | None:
        positions.append(log.read_position)
        return [Action.CONTINUE, Action.COMMIT, None, Action.ABORT, Action.BREAK][count - 1]

    seen = Seen(answer)
    assert image.controlled_poll(seen) == 3
    assert positions == [0, 0, 64, 64]
    assert image.position == 96
    assert image.controlled_poll(seen) == 1
    assert image.position == 128
    assert seen.headers[4].position == 128
    assert image.controlled_poll(Seen(lambda _: Action.ABORT)) == 0
    assert image.position == 128
    assert image.controlled_poll(Seen(), 1) == 1


def test_a_peek_does_not_move(kernel: Kernel, log: PrivateLog) -> None:
    content = FRAGMENTS + frame(192, b"x", flags=0x80) + frame(256, kind=0)
    image, seen = reader(kernel, log, content), Seen()
    assert image.controlled_peek(0, seen, 256) == 192
    assert seen.payloads == [b"one", b"-two", b"-three", b"x"]
    assert image.controlled_peek(0, seen, TERM) == 288
    assert image.controlled_peek(64, Seen(lambda _: Action.BREAK), TERM) == 64
    assert image.controlled_peek(128, Seen(lambda _: Action.BREAK), TERM) == 192
    assert image.controlled_peek(0, Seen(lambda _: Action.ABORT), TERM) == 0
    assert image.controlled_peek(64, seen, 64) == 64
    assert image.position == 0
    for position in (-32, 16, TERM + 32):
        with pytest.raises(UsageError):
            image.controlled_peek(position, seen, TERM)


def test_a_block_is_frames_as_they_lie(kernel: Kernel, log: PrivateLog) -> None:
    at = 2 * TERM + 64
    image, found = reader(kernel, log, THREE[:64] + frame(128, kind=0), at), []
    assert image.raw_poll(lambda *given: found.append((given[0], bytes(given[1]), *given[2:])), 96) == 64
    assert found == [(at, THREE[:64], SESSION, INITIAL_TERM)]
    assert image.block_poll(lambda *given: found.append(given), 96) == 32
    assert found[1][1:] == (SESSION, INITIAL_TERM)
    with pytest.raises(ValueError, match="released"):
        bytes(found[1][0])
    assert image.position == at + 96
    assert image.block_poll(found.append, 96) == 0
    assert image.block_poll(found.append, -1) == 0


def test_a_block_whose_handler_fails_counts_as_read(kernel: Kernel, log: PrivateLog) -> None:
    image = reader(kernel, log, THREE)
    with pytest.raises(TypeError):
        image.block_poll(lambda: None, TERM)
    assert image.position == 192


def test_an_assembler_gives_whole_messages(kernel: Kernel, log: PrivateLog) -> None:
    content = FRAGMENTS + frame(192, b"whole")
    image, seen = reader(kernel, log, content), Seen()
    assert image.poll(FragmentAssembler(seen)) == 4
    assert seen.payloads == [b"one-two-three", b"whole"]
    header = seen.headers[0]
    assert (header.frame_length, header.flags, header.term_offset) == (32 + 13, 0xC0, 0)
    assert (header.position, header.next_term_offset, header.reserved_value) == (192, 192, 8)


def test_an_assembler_drops_what_does_not_continue_a_message(kernel: Kernel, log: PrivateLog) -> None:
    content = frame(0, b"end", flags=0x40) + frame(64, b"begin", flags=0x80) + frame(128, kind=0)
    content += frame(160, b"end", flags=0x40) + frame(224, b"again", flags=0x80) + frame(288, b"!", flags=0x40)
    image, seen = reader(kernel, log, content), Seen()
    assert image.poll(FragmentAssembler(seen)) == 5
    assert seen.payloads == [b"again!"]
    image.position = 352
    log.read_position = 0
    columns = kernel.message_columns.MessageColumns()
    assert image.poll_columns(columns) == 1
    assert columns.to_list() == [b"again!"]


@pytest.mark.parametrize("kind", [FragmentAssembler, ControlledFragmentAssembler])
def test_an_assembler_puts_no_fragments_of_two_terms_together(kernel: Kernel, log: PrivateLog, kind: Any) -> None:
    seen = Seen()
    assembler = kind(seen)
    before = reader(kernel, log, frame(0, b"begin", flags=0x80))
    assert before.controlled_poll(assembler) == 1
    # The image came anew, in the next term, behind the begin of a message that lies at the same place.
    again = reader(kernel, log, frame(64, b"-end", flags=0x40, term_id=INITIAL_TERM + 1), at=TERM + 64)
    assert again.controlled_poll(assembler) == 1
    assert seen.payloads == []


def test_an_assembler_forgets_what_it_is_told_to(kernel: Kernel, log: PrivateLog) -> None:
    image, seen = reader(kernel, log, FRAGMENTS), Seen()
    assembler = FragmentAssembler(seen)
    image.poll(assembler, 2)
    assert assembler.free_session_buffer(SESSION)
    assert not assembler.free_session_buffer(SESSION)
    image.poll(assembler)
    assert seen.payloads == []
    assembler.clear()


def test_an_aborted_message_is_given_again(kernel: Kernel, log: PrivateLog) -> None:
    image = reader(kernel, log, FRAGMENTS)
    seen = Seen(lambda count: Action.ABORT if count < 3 else Action.CONTINUE)
    assembler = ControlledFragmentAssembler(seen)
    assert [image.controlled_poll(assembler) for _ in range(4)] == [2, 0, 1, 0]
    assert seen.payloads == [b"one-two-three"] * 3
    assert seen.headers[2].frame_length == 32 + 13


def test_a_bulk_poll_gives_columns(kernel: Kernel, log: PrivateLog) -> None:
    image = reader(kernel, log, THREE + frame(192, kind=0) + frame(224, b"c", reserved=-1))
    columns = kernel.message_columns.MessageColumns(reserved_values=True)
    assert image.poll_columns(columns) == 4
    assert image.position == 288
    assert bytes(columns.data) == b"a" * 32 + b"b" * 33 + b"c"
    assert columns.offsets.tolist() == [0, 32, 65, 65, 66]
    assert columns.positions.tolist() == [0, 64, 160, 224]
    assert columns.reserved_values.tolist() == [5, 0, 0, -1]
    assert columns.to_list() == [b"a" * 32, b"b" * 33, b"", b"c"]
    assert (columns.row_count, columns.byte_count, columns.session_id) == (4, 66, SESSION)
    assert image.poll_columns(columns) == 0
    assert columns.row_count == 0


def test_a_batch_keeps_its_rows(kernel: Kernel, log: PrivateLog) -> None:
    image = reader(kernel, log, THREE)
    columns = kernel.message_columns.MessageColumns(2)
    assert image.poll_columns(columns) == 2
    batch: Batch = columns.batch()
    assert image.poll_columns(columns) == 1
    assert batch.to_list("payload") == [b"a" * 32, b"b" * 33]
    assert batch.to_list("position") == [0, 64]
    assert columns.batch().to_list("payload") == [b""]


def test_full_columns_leave_the_rest_for_the_next_poll(kernel: Kernel, log: PrivateLog) -> None:
    image = reader(kernel, log, THREE)
    columns = kernel.message_columns.MessageColumns(10, 40, positions=False)
    assert image.poll_columns(columns) == 1
    assert columns.positions is None
    assert image.poll_columns(columns) == 2
    assert columns.to_list() == [b"b" * 33, b""]


def test_one_message_alone_may_be_longer_than_the_columns(kernel: Kernel, log: PrivateLog) -> None:
    image = reader(kernel, log, THREE + frame(192, b"x" * 3000, flags=0x80) + frame(3232, b"y" * 5000, flags=0x40))
    columns = kernel.message_columns.MessageColumns(10, 1)
    assert image.poll_columns(columns) == 1
    view = columns.data
    assert image.poll_columns(columns) == 2
    assert columns.to_list() == [b"b" * 33, b""]
    assert image.poll_columns(columns) == 1
    assert columns.to_list() == [b"x" * 3000 + b"y" * 5000]
    assert bytes(view) == b"a" * 32


def test_a_message_may_come_with_several_polls(kernel: Kernel, log: PrivateLog) -> None:
    image = reader(kernel, log, FRAGMENTS[:64])
    columns = kernel.message_columns.MessageColumns(reserved_values=True)
    assert image.poll_columns(columns) == 0
    assert image.position == 64
    log.terms[0].write(64, FRAGMENTS[64:128])
    assert image.poll_columns(columns) == 0
    log.terms[0].write(128, FRAGMENTS[128:] + frame(192, b"next"))
    assert image.poll_columns(columns) == 2
    assert columns.to_list() == [b"one-two-three", b"next"]
    assert columns.positions.tolist() == [0, 192]
    assert columns.reserved_values.tolist() == [8, 0]


def test_a_message_that_ends_where_the_columns_are_full_comes_next(kernel: Kernel, log: PrivateLog) -> None:
    shifted = b"".join(
        frame(32 + at, payload, flags=flags)
        for at, payload, flags in ((0, b"one", 0x80), (64, b"-two", 0), (128, b"-three", 0x40))
    )
    image = reader(kernel, log, frame(0) + shifted)
    columns = kernel.message_columns.MessageColumns(1)
    assert image.poll_columns(columns) == 1
    assert image.position == 160
    assert image.poll_columns(columns) == 1
    assert columns.to_list() == [b"one-two-three"]


def test_a_bulk_poll_goes_on_in_the_next_terms(kernel: Kernel, log: PrivateLog) -> None:
    appender = kernel.publication.ExclusiveAppender(log, log.counters, 0)
    image = reader(kernel, log)
    messages = [bytes([i % 251]) * (i % 100) for i in range(1800)]
    assert appender.offer_many(messages) == 1800
    columns = kernel.message_columns.MessageColumns()
    assert image.poll_columns(columns) == 1800
    assert columns.to_list() == messages
    assert image.position == appender.position


def test_random_messages_arrive_as_they_were_sent(kernel: Kernel) -> None:
    source = random.Random(7)
    log = PrivateLog.make(kernel.memory, mtu_length=256)
    appender = kernel.publication.ExclusiveAppender(log, log.counters, 0)
    image = kernel.image.ImageReader(log, log.counters, 8)
    columns = kernel.message_columns.MessageColumns(7, 500)
    sent: list[bytes] = []
    got: list[bytes] = []
    assembler = FragmentAssembler(lambda payload, _: got.append(payload))
    for _ in range(400):
        messages = [source.randbytes(source.choice((0, 5, 32, 100, 224, 225, 700))) for _ in range(3)]
        assert appender.offer_many(messages) == 3
        sent += messages
        columnar = source.random() < 0.5
        while image.position < appender.position:
            if columnar:
                image.poll_columns(columns)
                got += columns.to_list()
            else:
                image.poll(assembler, 5)
        for index in range(3):
            if index != image.position // TERM % 3:
                log.terms[index].zero(0, TERM)
    assert got == sent


@pytest.mark.parametrize("length", [1, 31, TERM - 31, TERM + 1, 0x7FFFFFFF])
def test_a_length_that_no_publisher_writes_is_told_of(kernel: Kernel, log: PrivateLog, length: int) -> None:
    image, seen = reader(kernel, log, THREE[:64] + frame(64, length=length)), Seen()
    columns = kernel.message_columns.MessageColumns()
    assert image.poll(seen) == 1
    log.read_position = 0
    assert image.poll_columns(columns) == 1
    assert image.position == 64
    for poll in (
        lambda: image.poll(seen),
        lambda: image.controlled_poll(seen),
        lambda: image.block_poll(seen, TERM),
        lambda: image.poll_columns(columns),
        lambda: image.controlled_peek(64, seen, TERM),
    ):
        with pytest.raises(CorruptData):
            poll()
    assert image.position == 64


@pytest.mark.parametrize("position", [-32, 7, -(1 << 63)])
def test_a_counter_that_no_reader_leaves_is_refused(kernel: Kernel, log: PrivateLog, position: int) -> None:
    image = reader(kernel, log, THREE)
    log.read_position = position
    for poll in (lambda: image.poll(Seen()), lambda: image.poll_columns(kernel.message_columns.MessageColumns())):
        with pytest.raises(CorruptData):
            poll()


def test_random_bytes_are_read_without_leaving_the_log(kernel: Kernel) -> None:
    source = random.Random(3)
    log = PrivateLog.make(kernel.memory)
    around = kernel.memory.allocate(5 * TERM)
    log.terms = [around.slice(TERM * i, TERM) for i in (1, 2, 3)]
    image = kernel.image.ImageReader(log, log.counters, 8)
    columns = kernel.message_columns.MessageColumns(50, 3000)
    for _ in range(150):
        at = TERM * source.randrange(3) + 32 * source.randrange(TERM // 32 - 100)
        for _ in range(40):
            length = source.choice((32, 33, 64, 100, TERM, -5, 0, 31))
            flags, kind = source.choice((0xC0, 0x80, 0x40, 0, 0xE0)), source.choice((0, 1, 1, 1, 5))
            place = 32 * source.randrange(100)
            around.write(TERM + at + place, frame(at, length=length, flags=flags, kind=kind)[:32])
        log.read_position = at
        for poll in (
            lambda: image.poll_columns(columns),
            lambda: image.poll(FragmentAssembler(Seen()), 20),
            lambda: image.block_poll(Seen(), 4096),
        ):
            try:
                poll()
            except (CorruptData, TypeError):
                continue
        assert at <= image.position <= 4 * TERM + TERM


def test_an_image_can_be_moved_within_its_term(kernel: Kernel, log: PrivateLog) -> None:
    image, seen = reader(kernel, log, THREE), Seen()
    assert image.join_position == 0
    image.position = 160
    assert image.poll(seen) == 1
    assert seen.payloads == [b""]
    for position in (160, TERM + 32, 193):
        with pytest.raises(UsageError):
            image.position = position
    image.position = TERM


def test_an_image_that_is_closed_keeps_what_was_known(kernel: Kernel, log: PrivateLog) -> None:
    image = reader(kernel, log, THREE)
    assert not image.is_end_of_stream
    assert image.end_of_stream_position == 0x7FFFFFFFFFFFFFFF
    log.metadata.put_i64(128, 64)
    log.metadata.put_i32(140, 2)
    image.poll(Seen(), 1)
    assert image.is_end_of_stream
    assert image.active_transport_count == 2
    assert not image.is_publication_revoked
    log.metadata.write(496, b"\x01")
    assert image.is_publication_revoked
    image.close()
    image.close()
    log.metadata.zero(0, 4096)
    log.read_position = 0
    assert (image.position, image.end_of_stream_position, image.is_publication_revoked) == (64, 64, True)
    assert image.is_closed
    assert image.active_transport_count == 0
    columns = kernel.message_columns.MessageColumns()
    assert (image.poll(Seen()), image.controlled_poll(Seen()), image.poll_columns(columns)) == (0, 0, 0)
    assert (image.block_poll(Seen(), 99), image.controlled_peek(0, Seen(), 99)) == (0, 0)
    with pytest.raises(UsageError):
        image.position = 96


def test_a_handler_may_close_its_image(kernel: Kernel, log: PrivateLog) -> None:
    image = reader(kernel, log, THREE)
    seen = Seen(lambda _: image.close())
    assert image.poll(seen) == 1
    assert seen.payloads == [b"a" * 32]
    assert log.read_position == 0


def test_what_an_image_knows_of_its_log(kernel: Kernel, log: PrivateLog) -> None:
    image = reader(kernel, log, at=96)
    assert (image.session_id, image.stream_id, image.initial_term_id) == (SESSION, STREAM, INITIAL_TERM)
    assert (image.term_buffer_length, image.position_bits_to_shift, image.mtu_length) == (TERM, 16, 1408)
    assert image.join_position == 96


@pytest.mark.parametrize(("rows", "size"), [(0, 1), (1, 0), (1 << 25, 1), (1, 1 << 31)])
def test_columns_out_of_range_are_refused(kernel: Kernel, rows: int, size: int) -> None:
    with pytest.raises(UsageError):
        kernel.message_columns.MessageColumns(rows, size)


def test_columns_of_many_short_messages(kernel: Kernel, log: PrivateLog) -> None:
    appender = kernel.publication.ExclusiveAppender(log, log.counters, 0)
    image = reader(kernel, log)
    data = bytes(range(256)) * 20
    offsets = array("i", [i * i * 5120 // 10000 for i in range(101)])
    assert appender.append_columns(data, offsets) == 100
    columns = kernel.message_columns.MessageColumns()
    assert image.poll_columns(columns) == 100
    assert columns.offsets.tolist() == offsets.tolist()
    assert bytes(columns.data) == data


def test_columns_of_messages_of_some_hundred_bytes(kernel: Kernel, log: PrivateLog) -> None:
    appender = kernel.publication.ExclusiveAppender(log, log.counters, 0)
    image = reader(kernel, log)
    payloads = [bytes((length + i) % 251 for i in range(length)) for length in (*range(250, 330, 3), 511, 512, 1024)]
    assert appender.offer_many(payloads) == len(payloads)
    columns = kernel.message_columns.MessageColumns()
    assert image.poll_columns(columns) == len(payloads)
    assert columns.to_list() == payloads
