"""Loops over terms and their twins: frames worked out by hand, as Aeron's scanners and unblockers treat them; hostile
lengths."""

from __future__ import annotations

import importlib
import random
import struct
from array import array
from types import ModuleType
from typing import Any

import pytest

from everlog.aeron.transport.memory import terms_twin
from everlog.errors import UsageError
from everlog.kernel import memory_twin

TERM = 64 << 10
SESSION, STREAM, TERM_ID = -5, 1001, 7
HEADER = struct.Struct("<iBBHiiiiq")


class Kernel:
    """The loops and the memory they work on."""

    def __init__(self, terms: ModuleType, memory: type[Any]) -> None:
        self.terms = terms
        self.memory = memory

    def term(self, content: bytes = b"", length: int = TERM) -> Any:
        memory = self.memory.allocate(length)
        memory.write(0, content)
        return memory

    def metadata(self, tails: tuple[int, int, int], active_count: int) -> Any:
        memory = self.memory.allocate(4096)
        for i, tail in enumerate(tails):
            memory.put_i64(8 * i, tail)
        memory.put_i32(24, active_count)
        memory.write(320, HEADER.pack(0, 0, 0xC0, 1, 0, SESSION, STREAM, TERM_ID, 0))
        return memory


def compiled() -> Kernel:
    terms = importlib.import_module("everlog.aeron.transport.memory._terms")
    return Kernel(terms, importlib.import_module("everlog.kernel._memory").Memory)


KERNELS = [pytest.param(Kernel(terms_twin, memory_twin.Memory), id="twin"), pytest.param(compiled(), id="compiled")]


@pytest.fixture(params=KERNELS)
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Kernel:
    monkeypatch.setattr(terms_twin, "Memory", request.param.memory)
    found: Kernel = request.param
    return found


def frame(offset: int, payload: bytes = b"", *, kind: int = 1, length: int | None = None, **other: int) -> bytes:
    """A frame with its padding bytes; of padding only the header."""
    size = 32 + len(payload) if length is None else length
    ids = {"session": SESSION, "stream": STREAM, "term_id": TERM_ID} | other
    header = HEADER.pack(size, 0, 0xC0, kind, offset, ids["session"], ids["stream"], ids["term_id"], 0)
    return header + payload + bytes(-len(payload) % 32)


def padding(offset: int, length: int) -> bytes:
    return frame(offset, kind=0, length=length)


THREE = frame(0, b"a" * 32) + frame(64, b"b" * 33) + frame(160, b"")
"""Frames of 64, 96 and 32 bytes."""


@pytest.mark.parametrize(
    ("max_length", "expected"),
    [(4096, (192, 0)), (192, (192, 0)), (191, (160, 0)), (100, (64, 0)), (64, (64, 0)), (63, (-64, 0)), (0, (0, 0))],
)
def test_as_many_whole_frames_as_fit_are_available(kernel: Kernel, max_length: int, expected: tuple[int, int]) -> None:
    assert kernel.terms.scan_for_availability(kernel.term(THREE), 0, max_length) == expected


def test_only_the_header_of_padding_is_available(kernel: Kernel) -> None:
    term = kernel.term(THREE + padding(192, TERM - 192))
    assert kernel.terms.scan_for_availability(term, 0, 4096) == (224, TERM - 224)
    assert kernel.terms.scan_for_availability(term, 192, 4096) == (32, TERM - 224)
    assert kernel.terms.scan_for_availability(term, 0, 200) == (192, 0)


def test_what_can_be_sent_is_cut_into_datagrams(kernel: Kernel) -> None:
    term = kernel.term(THREE + padding(192, TERM - 192))
    ends = array("q", bytes(80))
    assert kernel.terms.scan_datagrams(term, 0, TERM, 160, ends) == (2, 224, TERM - 224, False)
    assert list(ends[:2]) == [160, 224]
    assert kernel.terms.scan_datagrams(term, 0, TERM, 96, ends) == (3, 224, TERM - 224, False)
    assert list(ends[:3]) == [64, 160, 224]


def test_a_frame_beyond_the_limit_blocks_the_sender(kernel: Kernel) -> None:
    term = kernel.term(THREE)
    ends = array("q", bytes(80))
    assert kernel.terms.scan_datagrams(term, 0, 100, 96, ends) == (1, 64, 0, True)
    assert kernel.terms.scan_datagrams(term, 0, 160, 96, ends) == (2, 160, 0, False)
    assert kernel.terms.scan_datagrams(term, 0, 0, 96, ends) == (0, 0, 0, False)
    assert kernel.terms.scan_datagrams(term, 192, 500, 96, ends) == (0, 0, 0, False)


def test_no_more_datagrams_are_cut_than_there_is_room_for(kernel: Kernel) -> None:
    ends = array("q", bytes(8))
    assert kernel.terms.scan_datagrams(kernel.term(THREE), 0, TERM, 64, ends) == (1, 64, 0, False)
    assert ends[0] == 64


@pytest.mark.parametrize("length", [1, 31, TERM + 1, TERM - 31, 0x7FFFFFFF, -64, -0x80000000])
def test_a_length_that_no_frame_has_counts_as_no_frame(kernel: Kernel, length: int) -> None:
    term = kernel.term(frame(0, b"a" * 32) + frame(64, length=length))
    assert kernel.terms.scan_for_availability(term, 0, TERM) == (64, 0)
    assert kernel.terms.scan_block(term, 0, TERM) == 64
    assert kernel.terms.scan_for_gap(term, 0, 96)[0] == 64


def test_a_datagram_is_inserted_once(kernel: Kernel) -> None:
    term = kernel.term()
    packet = b"xyz" + frame(4096, b"c" * 5) + padding(4160, 96)
    assert kernel.terms.insert(term, 4096, packet, 3, 96) == 1
    assert term.read(4096, 96) == packet[3:]
    assert term.read(0, 4096) == bytes(4096)
    assert kernel.terms.insert(term, 4096, packet, 3, 96) == 0


def test_a_datagram_can_be_in_memory(kernel: Kernel) -> None:
    term, packet = kernel.term(), kernel.term(THREE)
    assert kernel.terms.insert(term, 0, packet, 0, 192) == 1
    assert term.read(0, 192) == THREE


@pytest.mark.parametrize(
    ("offset", "packet"),
    [
        (0, b""),
        (0, THREE[:31]),
        (0, THREE[:48]),
        (0, THREE + b"x"),
        (0, THREE[:64] + frame(96)),
        (0, frame(0, b"a" * 32) + frame(64, session=3)),
        (0, frame(0, b"a" * 32) + frame(64, stream=3)),
        (0, frame(0, b"a" * 32) + frame(64, term_id=8)),
        (0, frame(0, length=31)),
        (0, frame(0, length=0)),
        (0, frame(0, length=-32)),
        (0, frame(0, length=0x7FFFFFFF)),
        (0, padding(0, TERM + 32)),
        (0, padding(0, 64) + frame(32)),
        (0, padding(0, 64) + frame(64)),
        (32, frame(0)),
        (TERM - 32, frame(TERM - 32, b"a")),
        (TERM, frame(TERM)),
        (-32, frame(-32)),
        (16, frame(16)),
    ],
)
def test_a_datagram_that_no_publisher_sends_is_not_inserted(kernel: Kernel, offset: int, packet: bytes) -> None:
    term = kernel.term()
    assert kernel.terms.insert(term, offset, packet, 0, len(packet)) == -1
    assert term.read(0, TERM) == bytes(TERM)


def test_random_datagrams_never_reach_beyond_their_term(kernel: Kernel) -> None:
    source = random.Random(11)
    around = kernel.term(length=3 * TERM)
    term = around.slice(TERM, TERM)
    for _ in range(300):
        offset = 32 * source.randrange(TERM // 32)
        packet = bytearray(frame(offset, bytes(source.randrange(200))) + frame(offset + 64, bytes(10)))
        packet[source.randrange(12)] ^= 1 << source.randrange(8)
        length = source.randrange(len(packet) + 1)
        kernel.terms.insert(term, offset, bytes(packet), 0, length)
        kernel.terms.scan_for_availability(term, offset, TERM)
        kernel.terms.scan_for_gap(term, offset, TERM)
        kernel.terms.scan_block(term, offset, TERM)
    assert around.read(0, TERM) == bytes(TERM)
    assert around.read(2 * TERM, TERM) == bytes(TERM)


def test_a_gap_lasts_until_the_next_frame_or_the_limit(kernel: Kernel) -> None:
    term = kernel.term(THREE[:64])
    assert kernel.terms.scan_for_gap(term, 0, 64) == (64, 0)
    assert kernel.terms.scan_for_gap(term, 0, 192) == (64, 128)
    term.write(160, frame(160))
    assert kernel.terms.scan_for_gap(term, 0, 192) == (64, 96)
    term.write(64, THREE[64:160])
    assert kernel.terms.scan_for_gap(term, 0, 192) == (192, 0)
    assert kernel.terms.scan_for_gap(term, TERM, TERM) == (TERM, 0)


def test_a_block_ends_before_padding_and_padding_is_a_block_of_its_own(kernel: Kernel) -> None:
    term = kernel.term(THREE + padding(192, TERM - 192))
    assert kernel.terms.scan_block(term, 0, TERM) == 192
    assert kernel.terms.scan_block(term, 0, 191) == 160
    assert kernel.terms.scan_block(term, 0, 63) == 0
    assert kernel.terms.scan_block(term, 192, 200) == TERM


def test_a_gap_is_filled_with_padding_of_the_stream(kernel: Kernel) -> None:
    metadata, term = kernel.metadata((0, 0, 0), 0), kernel.term(THREE[:64])
    term.write(160, frame(160))
    assert kernel.terms.try_fill_gap(metadata, term, 9, 64, 96)
    assert term.read(64, 32) == padding(64, 96)[:20] + struct.pack("<iq", 9, 0)
    assert term.read(96, 64) == bytes(64)
    assert not kernel.terms.try_fill_gap(metadata, term, 9, 64, 128)
    with pytest.raises(IndexError):
        kernel.terms.try_fill_gap(metadata, term, 9, TERM - 32, 64)


def test_an_unfinished_claim_becomes_padding(kernel: Kernel) -> None:
    metadata, term = kernel.metadata((0, 0, 0), 0), kernel.term(frame(0, length=-100))
    assert kernel.terms.unblock_term(metadata, term, 0, 128, TERM_ID) == 1
    assert term.read(0, 32) == padding(0, 100)


def test_a_claim_without_a_length_is_padding_up_to_the_next_frame(kernel: Kernel) -> None:
    metadata, term = kernel.metadata((0, 0, 0), 0), kernel.term(bytes(96) + frame(96))
    assert kernel.terms.unblock_term(metadata, term, 0, 128, TERM_ID) == 1
    assert term.read(0, 32) == padding(0, 96)
    assert kernel.terms.unblock_term(metadata, term, 0, 128, TERM_ID) == 0


def test_a_claim_whose_end_is_not_known_is_left_alone(kernel: Kernel) -> None:
    metadata, term = kernel.metadata((0, 0, 0), 0), kernel.term()
    assert kernel.terms.unblock_term(metadata, term, 0, 128, TERM_ID) == 0
    assert term.read(0, TERM) == bytes(TERM)


def test_a_claim_up_to_the_terms_end_is_padding_and_the_log_goes_on(kernel: Kernel) -> None:
    tails = (TERM_ID << 32 | TERM + 64, (TERM_ID - 2) << 32 | 500, (TERM_ID - 1) << 32)
    metadata = kernel.metadata(tails, 0)
    terms = [kernel.term() for _ in range(3)]
    assert kernel.terms.unblock(terms, metadata, TERM - 64, TERM)
    assert terms[0].read(TERM - 64, 32) == padding(TERM - 64, 64)
    assert metadata.get_i32(24) == 1
    assert metadata.get_i64(8) == (TERM_ID + 1) << 32


def test_a_term_that_is_full_is_left_for_the_next(kernel: Kernel) -> None:
    metadata = kernel.metadata((TERM_ID << 32 | TERM, (TERM_ID - 2) << 32, (TERM_ID - 1) << 32), 0)
    terms = [kernel.term() for _ in range(3)]
    assert kernel.terms.unblock(terms, metadata, TERM, TERM)
    assert metadata.get_i32(24) == 1
    assert metadata.get_i64(8) == (TERM_ID + 1) << 32
    with pytest.raises(UsageError):
        kernel.terms.unblock(terms, metadata, TERM + 1, TERM)


@pytest.mark.parametrize("length", [-(TERM + 1), -0x80000000, -1, -31])
def test_a_claim_that_no_publisher_makes_is_left_alone(kernel: Kernel, length: int) -> None:
    metadata, term = kernel.metadata((0, 0, 0), 0), kernel.term(frame(0, length=length))
    assert kernel.terms.unblock_term(metadata, term, 0, TERM, TERM_ID) == 0


def test_a_log_is_rotated_once_and_term_ids_wrap(kernel: Kernel) -> None:
    last = 0x7FFFFFFF
    metadata = kernel.metadata((last << 32 | TERM, (last - 2) << 32 | TERM, (last - 1) << 32 | TERM), 0)
    assert kernel.terms.rotate_log(metadata, 0, last)
    assert metadata.get_i64(8) == -0x80000000 << 32
    assert metadata.get_i32(24) == 1
    assert not kernel.terms.rotate_log(metadata, 0, last)
    assert metadata.get_i32(24) == 1


def test_a_publishers_position_is_at_most_the_end_of_its_term(kernel: Kernel) -> None:
    metadata = kernel.metadata((TERM_ID << 32 | 64, (TERM_ID + 1) << 32 | TERM + 96, 0), 0)
    assert kernel.terms.producer_position(metadata, TERM, TERM_ID) == 64
    metadata.put_i32(24, 1)
    assert kernel.terms.producer_position(metadata, TERM, TERM_ID) == 2 * TERM


def test_what_is_cleaned_is_zero_and_nothing_else(kernel: Kernel) -> None:
    term = kernel.term(b"\xff" * TERM)
    kernel.terms.clean(term, 64, 128)
    kernel.terms.clean(term, 0, 0)
    assert term.read(0, TERM) == b"\xff" * 64 + bytes(128) + b"\xff" * (TERM - 192)
    for offset, length in ((TERM, 32), (-32, 32), (0, 33), (16, 32), (0, -32)):
        with pytest.raises(IndexError):
            kernel.terms.clean(term, offset, length)


@pytest.mark.parametrize("offset", [-32, TERM + 32, 16])
def test_an_offset_outside_the_term_is_refused(kernel: Kernel, offset: int) -> None:
    term, ends = kernel.term(), array("q", bytes(8))
    with pytest.raises(IndexError):
        kernel.terms.scan_datagrams(term, offset, 64, 64, ends)
    for scan in (kernel.terms.scan_for_availability, kernel.terms.scan_for_gap, kernel.terms.scan_block):
        with pytest.raises(IndexError):
            scan(term, offset, 64)


@pytest.mark.parametrize("written", range(5))
def test_a_batch_whose_publisher_died_is_unblocked_frame_by_frame(kernel: Kernel, written: int) -> None:
    """Five frames of 64 bytes, claimed at once: the first one's length is negative, ``written`` of the others are
    there, from the last one on; behind them another publisher went on."""
    batch = frame(0, b"0" * 32, length=-64) + bytes(4 * 64)
    whole = b"".join(frame(64 * i, bytes([48 + i]) * 32) for i in range(5))
    term = kernel.term(batch[: 64 * (5 - written)] + whole[64 * (5 - written) :] + frame(320, b"next"))
    tails = (TERM_ID << 32 | 384, (TERM_ID - 2) << 32, (TERM_ID - 1) << 32)
    metadata, terms = kernel.metadata(tails, 0), [term, kernel.term(), kernel.term()]
    at, data = 0, []
    while at < 384:
        length = term.get_i32(at)
        if length <= 0:
            assert kernel.terms.unblock(terms, metadata, at, TERM)
            continue
        if term.read(at + 6, 2) == b"\x01\x00":
            data.append(at)
        at += (length + 31) & -32
    assert at == 384
    assert data == [*range(320 - 64 * written, 320, 64), 320]
