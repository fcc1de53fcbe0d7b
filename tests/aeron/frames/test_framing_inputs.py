"""What a framer takes and refuses: payloads, columns, blocks, positions."""

from __future__ import annotations

import array
import ctypes
from collections.abc import Callable
from typing import Any

import pytest

from everlog.errors import CorruptData, UsageError
from tests.aeron.frames.framed_messages import TERM, frame

WRONG: dict[str, tuple[bytes, str]] = {
    "zeros": (bytes(64), "type 0|frame_length 0"),
    "negative": (frame(64, b"abc", length=-35), "frame_length -35"),
    "shorter than a header": (frame(64, b"abc", length=31), "frame_length 31"),
    "past the block": (frame(64, b"abc", length=65), "frame_length 65"),
    "longer than any frame": (frame(64, bytes(65_536), length=65_537), "frame_length 65537"),
    "largest": (frame(64, b"abc", length=2**31 - 1), "frame_length 2147483647"),
    "type": (frame(64, b"abc", kind=2), "frame type 2"),
    "type's high byte": (frame(64, b"abc", kind=257), "frame type 257"),
    "term offset": (frame(64, b"abc", term_offset=96), "term_offset 96"),
    "term id": (frame(64, b"abc", term_id=8), "term_id 8"),
    "stream": (frame(64, b"abc", stream=-1001), "stream_id -1001"),
    "session": (frame(64, b"abc", session=99), "session_id 99"),
    "half a header": (frame(64, b"")[:31], "31 bytes"),
    "one byte": (b"\x20", "1 bytes"),
    "padding past the term": (frame(64, b"", kind=0, length=TERM - 63), f"frame_length {TERM - 63}"),
    "padding partly there": (frame(64, b"", kind=0, length=128) + bytes(32), "frame_length 128"),
    "padding of another session": (frame(64, b"", kind=0, length=TERM - 64, session=1), "session_id 1"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_frame_of_a_block_is_told_and_nothing_is_taken(framer_of: Callable[..., Any], case: str) -> None:
    wrong, text = WRONG[case]
    framer = framer_of()
    framer.begin(0, TERM)
    with pytest.raises(CorruptData, match=f"block at offset 64: ({text}); expected"):
        framer.frame_block(frame(0, b"good") + wrong)
    assert (framer.length, framer.position, framer.is_full) == (0, 0, False)
    assert framer.frame_block(frame(0, b"good")) == 64
    with pytest.raises(CorruptData) as error:
        framer.frame_block(wrong)
    assert error.value.offset == 0
    assert bytes(framer.view()) == frame(0, b"good")
    assert framer.frame(b"good")
    assert bytes(framer.view()) == frame(0, b"good") + frame(64, b"good")


def test_a_data_frame_of_a_block_may_not_reach_past_the_term(framer_of: Callable[..., Any]) -> None:
    framer = framer_of()
    framer.begin(TERM - 32, 2 * TERM)
    with pytest.raises(CorruptData, match="frame_length 33; expected 32 to 32"):
        framer.frame_block(frame(TERM - 32, b"a"))


@pytest.mark.parametrize(
    "payload",
    [
        bytearray(b"abcd"),
        memoryview(b"abcd"),
        array.array("i", [0x64636261]),
        (ctypes.c_char * 4).from_buffer_copy(b"abcd"),
        memoryview(b"abcd").cast("B", (2, 2)),
        memoryview(b"xabcdx")[1:5],
    ],
)
def test_payloads_are_anything_with_a_contiguous_buffer(framer_of: Callable[..., Any], payload: Any) -> None:
    framer = framer_of()
    framer.begin(0, TERM)
    assert framer.frame(payload)
    assert framer.frame_many((b"abcd", payload, b"abcd"), 1) == 2
    assert framer.frame_column(payload, array.array("i", [0, 1, 4]), 0, 2) == 2
    assert bytes(framer.view()) == b"".join(
        frame(64 * i, data) for i, data in enumerate([b"abcd", b"abcd", b"abcd", b"a", b"bcd"])
    )


@pytest.mark.parametrize("payload", ["text", None, 7, memoryview(b"abcd")[::2], [1], 1.5, bytes(8193)])
def test_what_is_no_message_is_refused_and_changes_nothing(framer_of: Callable[..., Any], payload: Any) -> None:
    framer = framer_of()
    framer.begin(0, TERM)
    with pytest.raises(UsageError, match=r"^message must be "):
        framer.frame(payload)
    with pytest.raises(UsageError, match=r"^message must be "):
        framer.frame_many([b"a", payload], 1)
    assert framer.length == 0
    assert framer.frame_many([b"a", payload, b"b"], 0) == 1  # what is before it is taken
    assert bytes(framer.view()) == frame(0, b"a")


@pytest.mark.parametrize("value", [1 << 63, -(1 << 63) - 1, 1 << 200, None, "1", 1.0])
def test_a_reserved_value_that_is_no_int64_is_refused(framer_of: Callable[..., Any], value: Any) -> None:
    framer = framer_of()
    framer.begin(0, TERM)
    with pytest.raises(UsageError, match=r"^reserved value must be "):
        framer.frame(b"a", value)
    with pytest.raises(UsageError, match=r"^reserved value must be "):
        framer.frame_many([b"a"], 0, [value])
    with pytest.raises(UsageError, match=r"^reserved value must be "):
        framer.frame_column(b"a", array.array("i", [0, 1]), 0, 1, (value,))
    assert framer.length == 0
    assert framer.frame_many([b"a", b"b"], 0, [5, value]) == 1
    assert bytes(framer.view()) == frame(0, b"a", reserved=5)


@pytest.mark.parametrize(
    "values",
    [
        [1],
        (1,),
        array.array("q", [1]),
        array.array("Q", [1, 2]),
        array.array("i", [1, 2]),
        array.array("d", [1, 2]),
        bytes(16),
        memoryview(array.array("q", [1, 2, 3, 4]))[::2],
        5,
        "ab",
        iter([1, 2]),
        memoryview(bytes(32)).cast("q", (2, 2)),
    ],
)
def test_reserved_values_that_do_not_fit_the_messages_are_refused(framer_of: Callable[..., Any], values: Any) -> None:
    framer = framer_of()
    framer.begin(0, TERM)
    with pytest.raises(UsageError, match=r"^reserved_values (must be|has) "):
        framer.frame_many([b"a", b"b"], 0, values)
    with pytest.raises(UsageError, match=r"^reserved_values (must be|has) "):
        framer.frame_column(b"ab", array.array("i", [0, 1, 2]), 1, 2, values)
    assert framer.length == 0


def test_reserved_values_are_at_the_places_of_their_messages(framer_of: Callable[..., Any]) -> None:
    expected = frame(0, b"b", reserved=-2) + frame(64, b"c", reserved=2**62)
    values = [1, -2, 2**62]
    for given in (values, (*values, 4), array.array("q", values), (ctypes.c_int64 * 3)(*values)):
        framer = framer_of()
        framer.begin(0, TERM)
        assert framer.frame_many([b"a", b"b", b"c"], 1, given) == 2
        assert bytes(framer.view()) == expected
        framer.begin(0, TERM)
        assert framer.frame_column(b"abc", array.array("q", [0, 1, 2, 3]), 1, 3, given) == 2
        assert bytes(framer.view()) == expected


@pytest.mark.parametrize("code", ["i", "q"])
def test_offsets_and_reserved_values_need_not_be_aligned(framer_of: Callable[..., Any], code: Any) -> None:
    framer = framer_of()
    framer.begin(0, TERM)
    offsets = memoryview(b"x" + array.array(code, [0, 1, 3]).tobytes())[1:].cast(code)
    values = memoryview(b"x" + array.array("q", [5, -6]).tobytes())[1:].cast("q")
    assert framer.frame_column(b"abc", offsets, 0, 2, values) == 2
    assert bytes(framer.view()) == frame(0, b"a", reserved=5) + frame(64, b"bc", reserved=-6)


@pytest.mark.parametrize("code", ["i", "q"])
@pytest.mark.parametrize("offsets", [[0, 1, 0], [0, 1, 5], [0, 1, -1], [0, 1, -(2**31)], [0, 1, 2**31 - 1]])
def test_offsets_that_go_back_or_past_the_data_end_the_call_and_raise_in_the_next(
    framer_of: Callable[..., Any], code: str, offsets: list[int]
) -> None:
    framer = framer_of()
    framer.begin(0, TERM)
    values = array.array(code, offsets)
    assert framer.frame_column(b"abcd", values, 0, 2) == 1
    found = f"^offsets must be ascending and within 0 to 4, not 1 to {offsets[2]} for message 1"
    with pytest.raises(UsageError, match=found):
        framer.frame_column(b"abcd", values, 1, 2)
    assert bytes(framer.view()) == frame(0, b"a")
    with pytest.raises(UsageError, match=r"^offsets must be ascending.*not -1 to 1"):
        framer.frame_column(b"abcd", array.array(code, [-1, 1]), 0, 1)


@pytest.mark.parametrize(
    ("offsets", "start", "stop", "where"),
    [
        (array.array("i", [0, 1]), 0, 2, "stop"),
        (array.array("i", [0, 1]), 0, 1 << 80, "stop"),
        (array.array("i", [0, 1]), 0, -1, "stop"),
        (array.array("i", []), 0, 1, "stop"),
        (array.array("i", [0, 1]), -1, 1, "start"),
        (array.array("i", [0, 1]), 2, 1, "start"),
        (array.array("i", [0, 1]), None, 1, "start"),
        (array.array("I", [0, 1]), 0, 1, "offsets"),
        (array.array("h", [0, 1]), 0, 1, "offsets"),
        ([0, 1], 0, 1, "offsets"),
        (None, 0, 1, "offsets"),
        (memoryview(array.array("i", [0, 1, 2, 3]))[::2], 0, 1, "offsets"),
        (bytes(8), 0, 1, "offsets"),
    ],
)
def test_a_column_without_the_offsets_that_are_asked_for_is_refused(
    framer_of: Callable[..., Any], offsets: Any, start: Any, stop: Any, where: str
) -> None:
    framer = framer_of()
    framer.begin(0, TERM)
    with pytest.raises(UsageError, match=f"^{where} must be "):
        framer.frame_column(b"a", offsets, start, stop)
    assert framer.length == 0


def test_what_has_no_contiguous_buffer_is_no_column_and_no_block(framer_of: Callable[..., Any]) -> None:
    framer = framer_of()
    framer.begin(0, TERM)
    for data in ("text", None, memoryview(bytes(64))[::2], 5):
        with pytest.raises(UsageError, match=r"^data must be "):
            framer.frame_column(data, array.array("i", [0, 1]), 0, 1)
        with pytest.raises(UsageError, match=r"^block must be "):
            framer.frame_block(data)


def test_an_empty_column_and_an_empty_list_give_nothing(framer_of: Callable[..., Any]) -> None:
    framer = framer_of()
    framer.begin(0, TERM)
    assert framer.frame_many([], 0) == 0
    assert framer.frame_many([b"a"], 1) == 0
    assert framer.frame_column(b"", array.array("i", [0]), 0, 0) == 0
    assert framer.frame_column(b"", array.array("i", []), 0, 0) == 0
    assert framer.frame_column(b"", array.array("i", [0, 0, 0]), 0, 2) == 2
    assert bytes(framer.view()) == frame(0, b"") + frame(32, b"")


@pytest.mark.parametrize("payloads", ["ab", b"ab", None, {b"a": 1}, iter([b"a"]), 5])
def test_only_lists_and_tuples_are_many_messages(framer_of: Callable[..., Any], payloads: Any) -> None:
    framer = framer_of()
    framer.begin(0, TERM)
    with pytest.raises(UsageError, match=r"^payloads must be "):
        framer.frame_many(payloads, 0)


@pytest.mark.parametrize("start", [-1, 2, 1 << 70, None, 0.0])
def test_messages_start_within_their_list(framer_of: Callable[..., Any], start: Any) -> None:
    framer = framer_of()
    framer.begin(0, TERM)
    with pytest.raises(UsageError, match=r"^start must be "):
        framer.frame_many([b"a"], start)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("initial_term_id", 1 << 31),
        ("initial_term_id", -(1 << 31) - 1),
        ("session_id", 1 << 99),
        ("stream_id", "1"),
        ("term_length", 32 << 10),
        ("term_length", 2 << 30),
        ("term_length", (64 << 10) + 1),
        ("term_length", 1 << 200),
        ("term_length", 65536.0),
        ("mtu_length", 32),
        ("mtu_length", 65),
        ("mtu_length", 0),
        ("mtu_length", -1408),
        ("mtu_length", (8 << 10) + 32),
        ("mtu_length", 1 << 64),
        ("checksum", "CRC-32"),
        ("checksum", None),
        ("capacity", 0),
        ("capacity", -1),
        ("capacity", 1 << 80),
        ("capacity", None),
    ],
)
def test_a_framer_is_not_made_for_what_aeron_would_refuse(framer_of: Callable[..., Any], name: str, value: Any) -> None:
    with pytest.raises(UsageError, match=f"^{name} must be "):
        framer_of(**{name: value})


def test_an_mtu_is_at_most_65504_bytes(framer_of: Callable[..., Any]) -> None:
    assert framer_of(term_length=1 << 20, mtu_length=65_504).max_payload_length == 65_472
    with pytest.raises(UsageError, match=r"mtu_length must be .* not 65536"):
        framer_of(term_length=1 << 20, mtu_length=65_536)


@pytest.mark.parametrize(
    ("position", "end", "where"),
    [
        (-32, TERM, "position"),
        (1, TERM, "position"),
        (TERM + 32, TERM, "position"),
        (1 << 70, TERM, "position"),
        (None, TERM, "position"),
        (0, TERM - 32, "end"),
        (0, -TERM, "end"),
        (0, (1 << 62) + TERM, "end"),
        (0, 1 << 90, "end"),
        (0, "x", "end"),
    ],
)
def test_frames_begin_at_multiples_of_32_and_end_at_a_terms_end(
    framer_of: Callable[..., Any], position: Any, end: Any, where: str
) -> None:
    framer = framer_of()
    framer.begin(0, TERM)
    assert framer.frame(b"a")
    with pytest.raises(UsageError, match=f"^{where} must be "):
        framer.begin(position, end)
    assert framer.length == 64  # as it was


def test_a_view_can_not_be_written_to_and_keeps_the_buffer(framer_of: Callable[..., Any]) -> None:
    framer = framer_of()
    framer.begin(0, TERM)
    assert framer.frame(b"abc")
    view = framer.view()
    assert view.readonly
    assert (view.format, view.nbytes) == ("B", 64)
    del framer
    assert bytes(view) == frame(0, b"abc")


def test_a_payload_that_changes_later_does_not_change_what_was_framed(framer_of: Callable[..., Any]) -> None:
    framer = framer_of()
    framer.begin(0, TERM)
    payload = bytearray(b"abc")
    assert framer.frame_many([payload], 0) == 1
    payload[:] = b"xyz"
    payload += bytes(1000)  # nothing holds its buffer
    assert bytes(framer.view()) == frame(0, b"abc")


def test_an_index_that_empties_the_list_of_messages_ends_the_call(framer_of: Callable[..., Any]) -> None:
    framer = framer_of()

    class Emptying:
        def __index__(self) -> int:
            payloads.clear()
            return 3

    payloads = [b"a"] * 1000
    framer.begin(0, TERM)
    assert framer.frame_many(payloads, 0, [1, Emptying()] + [2] * 998) == 2
    assert bytes(framer.view()) == frame(0, b"a", reserved=1) + frame(64, b"a", reserved=3)


def test_an_index_that_begins_anew_is_framed_where_the_buffer_then_goes_to(framer_of: Callable[..., Any]) -> None:
    framer = framer_of()

    class Beginning:
        def __index__(self) -> int:
            framer.begin(TERM, 2 * TERM)
            return 3

    framer.begin(0, TERM)
    assert framer.frame_many([b"a", b"b", b"c"], 0, [1, Beginning(), 2]) == 3
    assert bytes(framer.view()) == frame(TERM, b"b", reserved=3) + frame(TERM + 64, b"c", reserved=2)
