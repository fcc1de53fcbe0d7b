"""The sliding window: what is consumed goes, what is not stays, and it never outgrows its limit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everlog.core.files.window import Window
from everlog.errors import LimitExceeded

DATA = bytes(i * 7 & 255 for i in range(1000))


def reader(data: bytes = DATA):
    def read_into(address: int, buffer: memoryview) -> int:
        part = data[address : address + len(buffer)]
        buffer[: len(part)] = part
        return len(part)

    return read_into


@given(st.integers(64, 300), st.lists(st.integers(0, 80), min_size=1), st.integers(0, 900))
def test_every_byte_comes_once_and_in_order(chunk: int, steps: list[int], start: int) -> None:
    window = Window(reader(), start, len(DATA), chunk_bytes=chunk)
    out = bytearray()
    turn = 0
    while True:
        step = min(steps[turn % len(steps)], window.filled - window.at)
        turn += 1
        out += window.buffer[window.at : window.at + step]
        window.at += step
        if not window.refill() and window.at_end:
            break
    out += window.buffer[window.at : window.filled]
    assert bytes(out) == DATA[start:]


def test_a_frame_larger_than_the_window_makes_it_grow() -> None:
    window = Window(reader(), 0, len(DATA), chunk_bytes=64)
    while window.filled < 500:
        assert window.refill()
    assert window.buffer[:500] == DATA[:500]


def test_a_frame_over_the_limit_is_refused_and_not_read() -> None:
    window = Window(reader(), 0, len(DATA), chunk_bytes=64, max_bytes=128)
    window.refill()
    window.refill()
    with pytest.raises(LimitExceeded, match="at most 128"):
        window.refill()


def test_a_stream_that_ends_early_ends_the_window() -> None:
    window = Window(reader(DATA[:100]), 0, len(DATA), chunk_bytes=512)
    assert window.refill()
    assert window.filled == 100
    assert not window.refill()
    assert window.at_end


def test_seeking_outside_the_buffer_reads_anew() -> None:
    window = Window(reader(), 0, len(DATA), chunk_bytes=64)
    window.refill()
    window.seek(700)
    window.refill()
    assert window.buffer[window.at : window.at + 10] == DATA[700:710]
    window.seek(705)
    assert window.address == 705
    assert window.buffer[window.at] == DATA[705]


def test_a_buffer_that_grew_for_one_frame_is_given_back_where_reading_goes_on_elsewhere() -> None:
    asked: list[int] = []

    def read_into(address: int, buffer: memoryview) -> int:
        asked.append(len(buffer))
        return reader(bytes(100_000))(address, buffer)

    window = Window(read_into, 0, 100_000, chunk_bytes=100)
    while len(window.buffer) < 10_000:
        window.refill()
    window.seek(50_000)
    window.refill()
    assert asked[-1] == 100


def test_skipping_never_goes_back_nor_beyond_the_end() -> None:
    window = Window(reader(), 64, len(DATA), chunk_bytes=100)
    window.refill()
    for target, alignment, reached in ((70, 32, 64), (100, 32, 96), (90, 1, 96), (500, 32, 480), (5000, 32, 1000)):
        window.skip_to(target, alignment)
        assert window.address == reached
    assert not window.refill()
