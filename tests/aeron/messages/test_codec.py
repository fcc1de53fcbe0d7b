"""The codec of SBE messages: older and newer writers, and bytes that lie. Expected bytes are put together by hand."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import Annotated, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everlog.aeron.messages import (
    HEADER_LENGTH,
    MAX_DATA_BYTES,
    Bytes,
    Flag,
    Int32,
    Int64,
    Message,
    MessageCodec,
    Number,
    Since,
    Text,
    block_of,
)
from everlog.errors import CorruptData, UnknownMessage, UsageError

SCHEMA_ID, VERSION = 77, 5


class Colour(IntEnum):
    RED = 0
    BLUE = 7


@dataclass(frozen=True, slots=True)
class Order(Message):
    """What version 0 had, then fields and texts of the versions 2, 3 and 5."""

    template_id: ClassVar[int] = 9
    number: Int64
    colour: Annotated[Colour, Number("i", kind=Colour)]
    urgent: Flag
    weight: Annotated[Int32, Since(2)] = -1
    price: Annotated[Int64, Since(5)] = -2
    name: Text = ""
    note: Annotated[Text, Since(3)] = "none"
    secret: Annotated[Bytes, Since(5)] = b"none"


@dataclass(frozen=True, slots=True)
class Bare(Message):
    """Data without a text."""

    template_id: ClassVar[int] = 10
    number: Int32
    blob: Bytes


CODEC = MessageCodec(SCHEMA_ID, VERSION, (Order, Bare))
BLOCK_0 = struct.pack("<qii", -3, 7, 1)
BLOCK_2 = BLOCK_0 + struct.pack("<i", 40)
BLOCK_5 = BLOCK_2 + struct.pack("<q", 50)


def header(length: int, version: int = VERSION, template: int = 9, schema: int = SCHEMA_ID) -> bytes:
    return struct.pack("<HHHH", length, template, schema, version)


def data(content: bytes) -> bytes:
    return struct.pack("<I", len(content)) + content


WHOLE = header(28) + BLOCK_5 + data(b"bolt") + data(b"soon") + data(b"\x00\xff")
ORDER = Order(-3, Colour.BLUE, True, 40, 50, "bolt", "soon", b"\x00\xff")


def test_a_message_is_its_header_its_block_and_its_data() -> None:
    assert CODEC.encode(ORDER) == WHOLE
    assert CODEC.decode(WHOLE) == ORDER
    assert CODEC.decode(memoryview(WHOLE)) == ORDER


def test_offsets_follow_from_the_order_of_declaration() -> None:
    block = block_of(Order)
    assert block.size == 28
    assert [(field.name, field.offset, field.since) for _, field in block.fields()] == [
        ("number", 0, 0),
        ("colour", 8, 0),
        ("urgent", 12, 0),
        ("weight", 16, 2),
        ("price", 20, 5),
    ]
    assert [(part.name, part.encoding, part.since) for part in block.var_data] == [
        ("name", "ascii", 0),
        ("note", "ascii", 3),
        ("secret", None, 5),
    ]


# Writers of other versions


@pytest.mark.parametrize(
    ("version", "block", "texts", "expected"),
    [
        (0, BLOCK_0, (b"bolt",), Order(-3, Colour.BLUE, True, name="bolt")),
        (1, BLOCK_0, (b"bolt",), Order(-3, Colour.BLUE, True, name="bolt")),
        (2, BLOCK_2, (b"bolt",), Order(-3, Colour.BLUE, True, 40, name="bolt")),
        (3, BLOCK_2, (b"bolt", b"soon"), Order(-3, Colour.BLUE, True, 40, name="bolt", note="soon")),
        (4, BLOCK_2, (b"bolt", b""), Order(-3, Colour.BLUE, True, 40, name="bolt", note="")),
    ],
)
def test_what_an_older_writer_lacks_gets_its_default(
    version: int, block: bytes, texts: tuple[bytes, ...], expected: Order
) -> None:
    message = header(len(block), version) + block + b"".join(data(text) for text in texts)
    assert CODEC.decode(message) == expected


def test_a_version_that_says_more_than_its_block_has_is_read_as_far_as_the_block_goes() -> None:
    """The block's own length counts, as for Aeron's decoders: there are writers that set a version of their own."""
    assert CODEC.decode(header(20) + BLOCK_2 + data(b"bolt") + data(b"x") + data(b"y")) == Order(
        -3, Colour.BLUE, True, 40, -2, "bolt", "x", b"y"
    )


def test_a_block_that_ends_within_a_field_does_not_have_that_field() -> None:
    block = BLOCK_2 + b"\x01\x02\x03"
    assert CODEC.decode(header(len(block)) + block + data(b"bolt")) == Order(
        -3, Colour.BLUE, True, 40, -2, "bolt", "none", b"none"
    )


def test_bytes_of_a_field_that_the_version_did_not_have_are_not_that_field() -> None:
    assert CODEC.decode(header(28, 1) + BLOCK_5 + data(b"bolt")) == Order(-3, Colour.BLUE, True, name="bolt")


def test_texts_that_are_not_there_get_their_defaults_even_in_the_newest_version() -> None:
    assert CODEC.decode(header(28) + BLOCK_5 + data(b"bolt")) == Order(-3, Colour.BLUE, True, 40, 50, "bolt")


def test_what_a_newer_writer_appended_is_skipped() -> None:
    block = BLOCK_5 + b"a longer block"
    message = header(len(block), 60_000) + block + data(b"bolt") + data(b"soon") + data(b"\x00\xff") + data(b"text")
    assert CODEC.decode(message) == ORDER


# Lies


@pytest.mark.parametrize("length", range(HEADER_LENGTH))
def test_a_header_that_is_cut_is_refused(length: int) -> None:
    with pytest.raises(CorruptData, match="header of 8 bytes"):
        CODEC.decode(WHOLE[:length])


def test_a_block_that_leads_out_of_the_message_is_refused() -> None:
    with pytest.raises(CorruptData, match="a block of 65535 bytes"):
        CODEC.decode(header(65_535) + BLOCK_5)


def test_a_block_without_a_field_of_the_first_version_is_refused() -> None:
    with pytest.raises(CorruptData, match=r"Order\.urgent at 12"):
        CODEC.decode(header(12) + BLOCK_0[:12] + data(b"bolt"))


@pytest.mark.parametrize("length", [3, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFF])
def test_a_text_that_leads_out_of_the_message_is_refused(length: int) -> None:
    with pytest.raises(CorruptData, match=f"name of {length} bytes"):
        CODEC.decode(header(28) + BLOCK_5 + struct.pack("<I", length) + b"ab")


def test_a_length_that_is_cut_is_refused() -> None:
    with pytest.raises(CorruptData, match="the length of name"):
        CODEC.decode(header(28) + BLOCK_5 + b"\x01\x00")


def test_the_first_text_is_never_left_out() -> None:
    with pytest.raises(CorruptData, match="the length of name"):
        CODEC.decode(header(28) + BLOCK_5)


def test_another_schema_and_an_unknown_template_are_told_apart_from_damage() -> None:
    with pytest.raises(UnknownMessage, match="schema id 78"):
        CODEC.decode(header(28, schema=78) + BLOCK_5)
    with pytest.raises(UnknownMessage, match="template id 11"):
        CODEC.decode(header(4, template=11) + b"1234")


def test_a_number_that_no_enumeration_has_is_refused() -> None:
    block = struct.pack("<qii", 1, 6, 0)
    with pytest.raises(CorruptData, match="colour 6") as raised:
        CODEC.decode(header(16, 0) + block + data(b""))
    assert raised.value.offset == HEADER_LENGTH + 8


def test_bytes_that_are_not_ascii_are_replaced_and_do_not_end_the_reader() -> None:
    message = CODEC.decode(header(28) + BLOCK_5 + data(b"b\xc3\xa4d") + data(b"") + data(b"\xc3\xa4"))
    assert isinstance(message, Order)
    assert (message.name, message.secret) == ("b\ufffd\ufffdd", b"\xc3\xa4")


# What can't be written


def test_a_number_that_does_not_fit_its_field_is_refused() -> None:
    with pytest.raises(UsageError, match="can't encode"):
        CODEC.encode(Bare(1 << 31, b""))


def test_characters_that_are_not_ascii_are_written_as_question_marks() -> None:
    encoded = CODEC.encode(Order(1, Colour.RED, False, name="bäd"))
    assert data(b"b?d") in encoded


def test_data_over_the_limit_is_refused() -> None:
    class Huge(bytes):
        def __len__(self) -> int:
            return MAX_DATA_BYTES + 1

    with pytest.raises(UsageError, match=f"{MAX_DATA_BYTES + 1} bytes"):
        CODEC.encode(Bare(1, Huge()))


INT32, INT64 = st.integers(-(1 << 31), (1 << 31) - 1), st.integers(-(1 << 63), (1 << 63) - 1)
ASCII = st.text(st.characters(max_codepoint=127))


@given(
    st.builds(Order, INT64, st.sampled_from(Colour), st.booleans(), INT32, INT64, ASCII, ASCII, st.binary(max_size=200))
)
def test_any_message_is_read_as_it_was_written(message: Order) -> None:
    assert CODEC.decode(CODEC.encode(message)) == message


@given(st.integers(0, len(WHOLE)), st.binary(max_size=60), st.integers(0, len(WHOLE)))
def test_no_bytes_make_it_fail_otherwise(start: int, put: bytes, end: int) -> None:
    try:
        message = CODEC.decode(WHOLE[:start] + put + WHOLE[end:])
    except (CorruptData, UnknownMessage):
        return
    assert isinstance(message, (Order, Bare))
