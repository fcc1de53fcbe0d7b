"""What the encoder refuses, what it fills in, and that declared structs go through the same description."""

from __future__ import annotations

import struct
from typing import Any

import pytest

import tests
from everlog.aeron.layouts import RecordingDescriptor
from everlog.errors import UsageError
from everlog.sbe import Schema, decode_block, encode_block, parse_schema
from everlog.sbe.values import decoded_text

HEADER = (
    "<composite name='messageHeader'><type name='blockLength' primitiveType='uint16'/>"
    "<type name='templateId' primitiveType='uint16'/><type name='schemaId' primitiveType='uint16'/>"
    "<type name='version' primitiveType='uint16'/><type name='numGroups' primitiveType='uint16'/></composite>"
)


@pytest.fixture(scope="module")
def schema() -> Schema:
    return parse_schema(
        f"<messageSchema id='1' version='4'><types>{HEADER}"
        "<composite name='groupSizeEncoding'><type name='blockLength' primitiveType='uint16'/>"
        "<type name='numInGroup' primitiveType='uint8'/></composite>"
        "<composite name='text'><type name='length' primitiveType='uint8'/>"
        "<type name='varData' primitiveType='uint8' length='0' characterEncoding='US-ASCII'/></composite>"
        "<enum name='Side' encodingType='char'><validValue name='BUY'>b</validValue></enum>"
        "<set name='Flags' encodingType='uint8'><choice name='hot'>4</choice></set>"
        "<composite name='Pair'><type name='left' primitiveType='int8'/><type name='right' primitiveType='int8' "
        "offset='2'/></composite>"
        "<type name='Word' primitiveType='char' length='3'/><type name='Two' primitiveType='int16' length='2'/>"
        "<type name='Nine' primitiveType='int8' presence='constant'>9</type></types>"
        "<message name='m' id='2' blockLength='20'><field name='number' id='1' type='int32'/>"
        "<field name='maybe' id='2' type='uint16' presence='optional'/><field name='side' id='3' type='Side'/>"
        "<field name='flags' id='4' type='Flags'/><field name='word' id='5' type='Word'/>"
        "<field name='two' id='6' type='Two'/><field name='pair' id='7' type='Pair'/>"
        "<field name='nine' id='8' type='Nine'/>"
        "<group name='rows' id='9'><field name='x' id='10' type='int8'/></group>"
        "<data name='note' id='11' type='text'/></message></messageSchema>"
    )


VALUES: dict[str, Any] = {
    "number": -2,
    "side": "BUY",
    "flags": ["hot"],
    "word": "ab",
    "two": [1, -1],
    "pair": {"left": 5, "right": 6},
}


def test_bytes_are_what_the_standard_says(schema: Schema) -> None:
    made = schema.encode("m", {**VALUES, "maybe": 3, "rows": [{"x": 7}], "note": "hi"})
    assert made == (
        struct.pack("<5H", 20, 2, 1, 4, 1)
        + b"\xfe\xff\xff\xff\x03\x00b\x10ab\0\x01\0\xff\xff\x05\0\x06"
        + bytes(2)
        + b"\x01\0\x01\x07"
        + b"\x02hi"
    )


def test_what_may_be_left_out_is_null_or_empty(schema: Schema) -> None:
    decoded = schema.decode(schema.encode("m", VALUES))
    assert decoded.fields == {**VALUES, "maybe": None, "nine": 9, "rows": [], "note": ""}
    assert schema.encode("m", decoded.fields) == schema.encode("m", VALUES)


def test_values_that_have_no_name_are_given_by_number(schema: Schema) -> None:
    decoded = schema.decode(schema.encode("m", {**VALUES, "side": "x", "flags": [0, "hot"]}))
    assert (decoded.fields["side"], decoded.fields["flags"]) == ("x", [0, "hot"])
    assert schema.decode(schema.encode("m", {**VALUES, "side": ord("b"), "flags": 16})).fields["flags"] == ["hot"]


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"number": None}, "field number needs a value"),
        ({"number": 2**31}, "field number must be a value for i32, not 2147483648"),
        ({"number": "7"}, "field number"),
        ({"maybe": -1}, "field maybe must be a value for u"),
        ({"side": "SELL"}, "field side must be one of BUY"),
        ({"flags": ["cold"]}, "field flags must be one of hot"),
        ({"flags": [8]}, "field flags must be one of hot"),
        ({"word": "abcd"}, "field word must be at most 3 bytes, not 4 bytes"),
        ({"word": "é"}, "field word"),
        ({"two": [1]}, "field two must be 2 values, not 1 values"),
        ({"two": 5}, "field two"),
        ({"pair": 5}, "m.pair must be a mapping of values by name, not 5"),
        ({"pair": {"left": 1, "right": 2, "up": 3}}, "the schema has no up in m.pair"),
        ({"nine": 8}, "m.nine must be the constant 9, not 8"),
        ({"rows": [{"x": 1}] * 256}, "number of entries of rows 256 does not fit u8"),
        ({"rows": [{"y": 1}]}, "the schema has no y in rows"),
        ({"note": "a" * 256}, "length of note 256 does not fit u8"),
        ({"note": "é"}, "note must be characters that us-ascii can encode, not 'é'"),
        ({"note": 5}, "note must be text or bytes, not 5"),
        ({"extra": 1}, "the schema has no extra in m"),
    ],
)
def test_a_value_that_does_not_fit_is_refused(schema: Schema, change: dict[str, Any], complaint: str) -> None:
    with pytest.raises(UsageError) as caught:
        schema.encode("m", {**VALUES, **change})
    assert complaint in str(caught.value)


def test_what_utf_8_can_not_encode_is_refused_in_data_without_an_encoding() -> None:
    schema = parse_schema(
        f"<messageSchema id='1' version='4'><types>{HEADER}"
        "<composite name='bytes'><type name='length' primitiveType='uint8'/>"
        "<type name='varData' primitiveType='uint8' length='0'/></composite></types>"
        "<message name='m' id='2'><data name='note' id='1' type='bytes'/></message></messageSchema>"
    )
    assert schema.decode(schema.encode("m", {"note": "é"})).fields == {"note": "é".encode()}
    with pytest.raises(UsageError) as caught:
        schema.encode("m", {"note": "\ud800"})
    assert str(caught.value) == r"note must be characters that utf-8 can encode, not '\ud800'"


def test_a_declared_struct_and_its_texts_are_a_message_too() -> None:
    fields = {field.name: number for number, field in enumerate(RecordingDescriptor.fields)}
    texts = {"stripped_channel": "aeron:ipc", "original_channel": "aeron:ipc?alias=x", "source_identity": ""}
    made = encode_block(RecordingDescriptor.block, {**fields, **texts})
    assert made == (
        RecordingDescriptor.pack(**fields) + b"\x09\0\0\0aeron:ipc" + b"\x11\0\0\0aeron:ipc?alias=x" + b"\0\0\0\0"
    )
    assert decode_block(RecordingDescriptor.block, made, 0, len(made)) == ({**fields, **texts}, len(made))


def test_a_page_tells_of_the_limits_that_hold() -> None:
    from everlog.sbe import decode, types, xml

    page = (tests.ROOT / "docs" / "sbe.md").read_text(encoding="utf-8")
    for limit in (xml.MAX_ELEMENTS, types.MAX_MEMBERS, decode.MAX_VALUES):
        assert f"{limit:,}" in page
    assert (xml.MAX_SCHEMA_BYTES, types.MAX_BLOCK_BYTES) == (8 << 20, 1 << 20)
    assert f"{xml.MAX_DEPTH} deep" in page
    assert f"composites {types.MAX_NESTING} deep" in page


@pytest.mark.parametrize("name", ["UTF-16", "utf16", "UTF_16"])
def test_text_of_more_bytes_a_letter_says_its_byte_order_or_is_big_endian(name: str) -> None:
    assert decoded_text("hé".encode("utf-16-be"), name.lower()) == "hé"
    assert decoded_text("hé".encode("utf-16-le"), "utf-16-le") == "hé"
    for codec, mark in (("utf-16-be", b"\xfe\xff"), ("utf-16-le", b"\xff\xfe")):
        assert decoded_text(mark + "hé".encode(codec), name.lower()) == "hé"
    assert decoded_text(b"", name.lower()) == ""
    assert decoded_text("hé".encode("utf-32-be"), "utf-32") == "hé"
