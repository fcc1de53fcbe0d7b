"""Hostile schemas are refused with a line number, hostile payloads with an offset; nothing crashes or loops."""

from __future__ import annotations

import contextlib
import gzip
import json
import random
import re
import struct
import time
from pathlib import Path

import pytest

import tests
from everlog.errors import CorruptData, InvalidSchema, LimitExceeded, StoreUnavailable, UnknownMessage
from everlog.sbe import Schema, load_schema, parse_schema
from everlog.sbe.xml import MAX_DEPTH, MAX_SCHEMA_BYTES

GOLDEN = tests.GOLDEN / "sbe"

HEADER_TYPE = "<composite name='messageHeader'>" + "".join(
    f"<type name='{name}' primitiveType='uint16'/>" for name in ("blockLength", "templateId", "schemaId", "version")
)
DIMENSIONS = (
    "<composite name='groupSizeEncoding'><type name='blockLength' primitiveType='uint16'/>"
    "<type name='numInGroup' primitiveType='uint32'/></composite>"
)
VAR = (
    "<composite name='var'><type name='length' primitiveType='uint32'/>"
    "<type name='varData' primitiveType='uint8' length='0'/></composite>"
)


def schema_of(body: str, types: str = "") -> Schema:
    return parse_schema(
        f"<messageSchema id='1' version='0'><types>{HEADER_TYPE}</composite>{DIMENSIONS}{VAR}{types}</types>"
        f"{body}</messageSchema>"
    )


def golden() -> tuple[Schema, list[bytes]]:
    with gzip.open(GOLDEN / "little.jsonl.gz", "rt", encoding="utf-8") as file:
        payloads = [bytes.fromhex(json.loads(line)["payload"]) for line in file]
    return load_schema(GOLDEN / "every-feature.xml"), payloads


# Schemas


@pytest.mark.parametrize(
    "text",
    [
        "<!DOCTYPE messageSchema><messageSchema id='1'/>",
        "<!DOCTYPE m [<!ENTITY a 'b'><!ENTITY c '&a;&a;'>]><messageSchema id='1' package='&c;'/>",
        "<!DOCTYPE m SYSTEM 'file:///etc/passwd'><messageSchema id='1'/>",
        "<!DOCTYPE m [<!ENTITY % x SYSTEM 'file:///etc/passwd'> %x;]><messageSchema id='1'/>",
    ],
)
def test_a_document_type_is_refused(text: str) -> None:
    with pytest.raises(InvalidSchema, match="line 1: a document type"):
        parse_schema(text)


@pytest.mark.parametrize(
    "text", ["", "hello", "<a>", "<a></b>", "\0", "<a>&b;</a>", "<?xml version='1.0' encoding='x'?><a/>"]
)
def test_what_is_no_xml_is_refused(text: str) -> None:
    with pytest.raises(InvalidSchema):
        parse_schema(text)


def test_elements_too_deep_in_each_other_are_refused() -> None:
    with pytest.raises(InvalidSchema, match=f"at most {MAX_DEPTH} deep"):
        parse_schema("<messageSchema>" + "<types>" * MAX_DEPTH + "</types>" * MAX_DEPTH + "</messageSchema>")


def test_a_schema_over_the_size_limit_is_refused(tmp_path: Path) -> None:
    large = tmp_path / "large.xml"
    large.write_bytes(b"<messageSchema>" + b" " * MAX_SCHEMA_BYTES)
    with pytest.raises(InvalidSchema, match=f"is larger than {MAX_SCHEMA_BYTES} bytes"):
        load_schema(large)
    with pytest.raises(InvalidSchema, match=f"at most {MAX_SCHEMA_BYTES}"):
        parse_schema(large.read_bytes())


def test_a_missing_schema_is_told_as_such(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="no such file"):
        load_schema(tmp_path / "none.xml")


def test_a_composite_inside_itself_is_refused() -> None:
    for inner in ("<ref name='again' type='a'/>", "<composite name='b'><ref name='again' type='a'/></composite>"):
        with pytest.raises(InvalidSchema, match="inside itself"):
            schema_of(
                "<message name='m' id='1'><field name='f' id='1' type='a'/></message>",
                f"<composite name='a'>{inner}</composite>",
            )


def test_composites_that_double_at_each_step_are_cut_off() -> None:
    types = "<composite name='c0'><type name='x' primitiveType='int8'/></composite>" + "".join(
        f"<composite name='c{i}'>" + "".join(f"<ref name='r{k}' type='c{i - 1}'/>" for k in range(9)) + "</composite>"
        for i in range(1, 12)
    )
    with pytest.raises(InvalidSchema, match=r"too many fields|blocks of"):
        schema_of("<message name='m' id='1'><field name='f' id='1' type='c11'/></message>", types)


def test_a_schema_takes_time_by_its_length_not_by_its_square() -> None:
    members = "".join(f"<type name='a{i}' primitiveType='uint8'/>" for i in range(20_000))
    values = "".join(f"<validValue name='v{i}'>{i}</validValue>" for i in range(5_000))
    fields = "".join(f"<field name='e{i}' id='1' type='e'/>" for i in range(5_000))
    began = time.monotonic()
    schema = schema_of(
        f"<message name='m' id='1'><field name='c' id='1' type='c'/>{fields}</message>",
        f"<composite name='c'>{members}</composite><enum name='e' encodingType='uint16'>{values}</enum>",
    )
    assert time.monotonic() - began < 15
    assert schema.message("m").block.size == 30_000


def test_constants_of_a_large_enum_take_time_by_their_number_not_by_its_square() -> None:
    values = "".join(f"<validValue name='v{i}'>{i}</validValue>" for i in range(20_000))
    values += "<validValue name='v7'>30000</validValue>"
    fields = "".join(
        f"<field name='e{i}' id='1' type='e' presence='constant' valueRef='e.v{i}'/>" for i in range(20_000)
    )
    began = time.monotonic()
    schema = schema_of(
        f"<message name='m' id='1'><field name='c' id='1' type='uint16' presence='constant' valueRef='e.v7'/>{fields}"
        "</message>",
        f"<enum name='e' encodingType='uint16'>{values}</enum>",
    )
    assert time.monotonic() - began < 15
    first, *constants = schema.message("m").block.members
    assert first.value == 7, "of two values of a name the first"
    assert [constant.value for constant in constants] == [f"v{i}" for i in range(20_000)]


def field(name: str, kind: str = "int8", more: str = "") -> str:
    return f"<field name='{name}' id='{ord(name)}' type='{kind}' {more}/>"


@pytest.mark.parametrize(
    ("inside", "found"),
    [
        (field("f", "no"), "type 'no'"),
        (field("f", more="presence='odd'"), "presence 'odd'"),
        (field("f") + field("f"), "a second f"),
        (field("f", "int32") + field("g", more="offset='3'"), "offset 3"),
        ("<data name='d' id='1' type='var'/>" + field("f"), "after groups or data"),
        ("<data name='d' id='1' type='int8'/>", "type int8"),
        ("<group name='g' id='1' dimensionType='var'/>", "composite var"),
        (field("f", more="presence='constant'"), "constant f without a value"),
        (f"<group name='g' id='1' blockLength='3'>{field('f', 'int32')}</group>", "blockLength 3"),
    ],
)
def test_a_wrong_message_is_refused_with_what_is_wrong(inside: str, found: str) -> None:
    with pytest.raises(InvalidSchema, match=r"schema line 1: .*; expected ") as caught:
        schema_of(f"<message name='m' id='1'>{inside}</message>")
    assert found in str(caught.value)


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("<message name='m'/>", "without id"),
        ("<message name='m' id='x'/>", "id='x'"),
        ("<message name='m' id='1'/><message name='n' id='1'/>", "a second message n or id 1"),
        ("<message name='m' id='1' blockLength='99999999'/>", "blockLength 99999999"),
    ],
)
def test_wrong_messages_are_refused_with_what_is_wrong(body: str, found: str) -> None:
    with pytest.raises(InvalidSchema, match=r"schema line 1: .*; expected ") as caught:
        schema_of(body)
    assert found in str(caught.value)


@pytest.mark.parametrize(
    ("types", "found"),
    [
        ("<type name='t' primitiveType='int9'/>", "primitiveType 'int9'"),
        ("<type name='t' primitiveType='int8' length='-1'/>", "length='-1'"),
        ("<type name='t' primitiveType='uint8' length='2000000'/>", "length 2000000"),
        ("<type name='t' primitiveType='int8' presence='optional' nullValue='128'/>", "value '128'"),
        ("<type name='t' primitiveType='char' length='4' characterEncoding='zlib_codec'/>", "'zlib_codec'"),
        ("<enum name='t' encodingType='float'/>", "floating-point"),
        ("<enum name='t' encodingType='uint8'><validValue name='a'>256</validValue></enum>", "value '256'"),
        ("<set name='t' encodingType='int8'/>", "a set of int8"),
        ("<set name='t' encodingType='uint8'><choice name='a'>8</choice></set>", "bit 8"),
    ],
)
def test_a_wrong_type_is_refused_with_what_is_wrong(types: str, found: str) -> None:
    with pytest.raises(InvalidSchema) as caught:
        schema_of("<message name='m' id='1'><field name='f' id='1' type='t'/></message>", types)
    assert found in str(caught.value)


def test_includes_are_refused_unless_they_are_asked_for_and_then_stay_in_the_folder(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    main, beside = tmp_path / "in" / "main.xml", tmp_path / "in" / "types.xml"
    text = (
        "<messageSchema xmlns:xi='http://www.w3.org/2001/XInclude' id='1'><xi:include href='{}'/>"
        "<message name='m' id='1'><field name='f' id='1' type='int8'/></message></messageSchema>"
    )
    main.write_text(text.format("types.xml"))
    beside.write_text(f"<types>{HEADER_TYPE}</composite></types>")
    with pytest.raises(InvalidSchema, match=r"main.xml line 1: an include"):
        load_schema(main)
    assert list(load_schema(main, allow_includes=True).messages) == ["m"]
    (tmp_path / "types.xml").write_text(beside.read_text())
    for elsewhere in ("../types.xml", str(tmp_path / "types.xml"), "file:types.xml", "..", "%2e%2e"):
        main.write_text(text.format(elsewhere))
        with pytest.raises(InvalidSchema, match="a file in the same folder"):
            load_schema(main, allow_includes=True)
    main.write_text(text.format("main.xml"))
    with pytest.raises(InvalidSchema, match=r"too many includes|deep"):
        load_schema(main, allow_includes=True)


def test_mutated_schemas_are_refused_or_decode_without_a_crash() -> None:
    _, payloads = golden()
    text = (GOLDEN / "every-feature.xml").read_bytes()
    words = [match.span() for match in re.finditer(rb"[\w-]+", text)]
    others = (
        b"int8",
        b"uint64",
        b"optional",
        b"constant",
        b"Motor",
        b"Flags",
        b"-1",
        b"99999",
        b"ref",
        b"group",
        b"data",
    )
    draw = random.Random(11)
    refused = 0
    for _ in range(400):
        mutated = bytearray(text)
        for start, end in sorted(draw.sample(words, draw.choice((1, 2, 4))), reverse=True):
            mutated[start:end] = draw.choice((*others, text[slice(*draw.choice(words))]))
        try:
            schema = parse_schema(bytes(mutated))
        except InvalidSchema:
            refused += 1
            continue
        for payload in payloads[:4]:
            with contextlib.suppress(CorruptData):
                schema.decode(payload)
    assert 100 < refused < 400


# Payloads


def test_payloads_cut_at_every_byte_are_refused_or_whole() -> None:
    schema, payloads = golden()
    for payload in payloads[:9]:
        whole = schema.decode(payload)
        for length in range(len(payload)):
            with pytest.raises(CorruptData) as caught:
                schema.decode(payload[:length])
            assert caught.value.offset is not None
            assert 0 <= caught.value.offset <= length
        assert schema.decode(payload + b"\xff\xff") == whole


def test_flipped_bits_never_crash() -> None:
    schema, payloads = golden()
    draw = random.Random(7)
    outcomes = set()
    for payload in payloads[2:8]:
        for _ in range(300):
            broken = bytearray(payload)
            for _ in range(draw.choice((1, 1, 8))):
                broken[draw.randrange(len(broken))] ^= 1 << draw.randrange(8)
            try:
                outcomes.add(type(schema.decode(broken)).__name__)
            except CorruptData as error:
                outcomes.add(type(error).__name__)
    assert {"DecodedMessage", "CorruptData", "UnknownMessage"} <= outcomes


def head(block_length: int, template: int = 1, schema: int = 1, version: int = 0) -> bytes:
    return struct.pack("<4H", block_length, template, schema, version)


def test_a_group_of_more_entries_than_there_are_bytes_is_refused_where_it_begins() -> None:
    schema = schema_of(
        "<message name='m' id='1'><group name='g' id='1'><field name='a' id='2' type='int32'/></group></message>"
    )
    with pytest.raises(CorruptData, match="4294967295 entries of 4 bytes in group g") as caught:
        schema.decode(head(0) + struct.pack("<HI", 4, 2**32 - 1) + bytes(400))
    assert caught.value.offset == 8
    assert schema.decode(head(0) + struct.pack("<HI", 6, 2) + bytes(12)).fields == {"g": [{"a": 0}, {"a": 0}]}


@pytest.mark.long
def test_entries_without_bytes_end_at_a_limit() -> None:
    schema = schema_of("<message name='m' id='1'><group name='g' id='1'/></message>")
    payload = head(0) + struct.pack("<HI", 0, 2**32 - 1)
    with pytest.raises(LimitExceeded, match="too many values"):
        schema.decode(payload)
    nested = schema_of("<message name='m' id='1'><group name='g' id='1'><group name='h' id='2'/></group></message>")
    with pytest.raises(CorruptData, match="entries of 0 bytes"):
        nested.decode(head(0) + struct.pack("<HI", 0, 2**32 - 1) + bytes(100))


def test_variable_data_longer_than_what_is_left_is_refused_where_it_begins() -> None:
    schema = schema_of("<message name='m' id='1'><data name='d' id='1' type='var'/></message>")
    with pytest.raises(CorruptData, match="d of 4294967295 bytes; expected at most 3") as caught:
        schema.decode(head(0) + struct.pack("<I", 2**32 - 1) + b"abc")
    assert caught.value.offset == 12
    assert schema.decode(head(0) + struct.pack("<I", 3) + b"abc").fields == {"d": b"abc"}


def test_a_block_longer_than_the_payload_is_refused() -> None:
    schema = schema_of("<message name='m' id='1'><field name='a' id='1' type='int32'/></message>")
    with pytest.raises(CorruptData, match="4 bytes; expected a block of 5 bytes"):
        schema.decode(head(5) + bytes(4))


def test_messages_that_the_schema_does_not_know_are_told_apart() -> None:
    schema = schema_of("<message name='m' id='1'/>")
    with pytest.raises(UnknownMessage, match="schema id 2; expected schema id 1"):
        schema.decode(head(0, schema=2))
    with pytest.raises(UnknownMessage, match="template id 7"):
        schema.decode(head(0, 7))
    for at in (-1, 1, 9):
        with pytest.raises(CorruptData, match="a message header of 8 bytes"):
            schema.decode(head(0), at)


def test_a_constant_with_an_offset_moves_what_is_behind_it() -> None:
    """Message.computeAndValidateOffsets of sbe-tool: a field begins at its offset, also one that takes no bytes."""
    schema = schema_of(
        "<message name='m' id='1'><field name='a' id='1' type='int32'/><field name='c' id='2' type='nine' offset='8'/>"
        "<field name='b' id='3' type='int16'/></message>",
        "<type name='nine' primitiveType='uint8' presence='constant'>9</type>",
    )
    assert schema.message("m").block.size == 10
    assert schema.decode(head(10) + struct.pack("<i4xh", 1, 2)).fields == {"a": 1, "c": 9, "b": 2}
    with pytest.raises(InvalidSchema, match="offset 4 of b"):
        schema_of(
            "<message name='m' id='1'><field name='c' id='2' type='nine' offset='8'/><field name='b' id='3' "
            "offset='4' type='int16'/></message>",
            "<type name='nine' primitiveType='uint8' presence='constant'>9</type>",
        )


def test_a_field_is_never_read_from_behind_a_shorter_block() -> None:
    schema = schema_of(
        "<message name='m' id='1'><field name='a' id='1' type='int16'/><field name='b' id='2' type='int32'/>"
        "<data name='d' id='3' type='var'/></message>"
    )
    decoded = schema.decode(head(5) + b"\x01\0" + b"\xee\xee\xee" + struct.pack("<I", 2) + b"xy")
    assert decoded.fields == {"a": 1, "b": None, "d": b"xy"}
