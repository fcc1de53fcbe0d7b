"""Payload columns to typed columns, template names and JSON; what can't be decoded is told once for each kind."""

from __future__ import annotations

import gzip
import json
import math
import struct
from array import array
from itertools import accumulate
from typing import Any

import pytest

import tests
from everlog.core.batch import Batch
from everlog.core.columns import Column, ColumnData, ColumnType
from everlog.errors import UsageError
from everlog.sbe import load_schema, parse_schema
from everlog.sbe.columns import SbeColumns, to_json

GOLDEN = tests.GOLDEN / "sbe"
SCHEMA = GOLDEN / "every-feature.xml"


def batch_of(payloads: list[bytes]) -> Batch:
    offsets = memoryview(array("i", [0, *accumulate(map(len, payloads))]))
    data = ColumnData(ColumnType.BINARY, memoryview(b"".join(payloads)), offsets)
    return Batch((Column("payload", ColumnType.BINARY),), len(payloads), {"payload": data})


def golden(name: str = "little") -> list[dict[str, Any]]:
    with gzip.open(GOLDEN / f"{name}.jsonl.gz", "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def column_value(value: Any, name: str, fields: dict[str, Any]) -> Any:
    """What a typed column has for the truth's value."""
    if name in ("flags", "wideFlags", "extras"):
        bits = {"urgent": 0, "hidden": 2, "last": 7, "first": 1, "top": 31, "turbo": 3}
        return sum(1 << bits[choice] for choice in value)
    return bytes(value) if name == "digest" else value


def flat(fields: dict[str, Any], prefix: str = "sbe_") -> dict[str, Any]:
    out = {}
    for name, value in fields.items():
        if name in (
            "series",
            "cap",
            "maker",
            "fixedSide",
            "maxRpm",
            "legs",
            "levels",
            "raw",
            "comment",
            "text",
            "added",
        ):
            continue
        if isinstance(value, dict):
            out |= flat(value, f"{prefix}{name}_")
        elif name == "pair2":  # absent as a whole
            out |= {f"{prefix}pair2_left": None, f"{prefix}pair2_right": None}
        else:
            out[prefix + name] = column_value(value, name, fields)
    return out


@pytest.mark.parametrize("message", ["Everything", "Small"])
@pytest.mark.parametrize("writer", ["little", "older", "newer"])
def test_typed_columns_are_what_was_put_in_for_every_writer(message: str, writer: str) -> None:
    lines = golden(writer) + golden("little")[:4]
    decoder = SbeColumns(load_schema(SCHEMA), message)
    made = decoder.extend(
        batch_of([bytes.fromhex(line["payload"]) for line in lines]), [c.name for c in decoder.columns]
    )
    assert made.to_list("sbe_template") == [line["template"] for line in lines]
    names = [c.name for c in decoder.columns if c.name not in ("sbe", "sbe_template")]
    rows = list(zip(*(made.to_list(name) for name in names), strict=True))
    for line, row in zip(lines, rows, strict=True):
        expected = flat(line["fields"]) if line["template"] == message else dict.fromkeys(names)
        assert dict(zip(names, row, strict=True)) == expected
    for line, text in zip(lines, made.to_list("sbe"), strict=True):
        assert json.loads(text) == {"template": line["template"], **line["fields"]}


def test_types_follow_what_the_schema_says() -> None:
    decoder = SbeColumns(load_schema(SCHEMA), "Everything")
    types = {column.name: column.type for column in decoder.columns}
    assert types["sbe_time"] is ColumnType.UINT64
    assert types["sbe_signed8"] is ColumnType.INT16
    assert types["sbe_unsigned16"] is ColumnType.INT32
    assert types["sbe_unsigned32"] is ColumnType.INT64
    assert types["sbe_ratio"] is ColumnType.FLOAT32
    assert types["sbe_wide"] is ColumnType.FLOAT64
    assert types["sbe_code"] is types["sbe_side"] is types["sbe_letterPlain"] is ColumnType.UTF8
    assert types["sbe_digest"] is ColumnType.BINARY
    assert types["sbe_motor_booster_power"] is ColumnType.INT64
    assert "sbe_series" not in types
    assert [c.name for c in SbeColumns(load_schema(SCHEMA)).columns] == ["sbe_template", "sbe"]
    with pytest.raises(UsageError, match="no message 'Nothing'"):
        SbeColumns(load_schema(SCHEMA), "Nothing")


def unsigned(presence: str, *values: int, more: bytes = b"") -> tuple[SbeColumns, Batch]:
    """Signed columns are asked for of messages with one unsigned number of 64 bits each."""
    schema = parse_schema(
        "<messageSchema id='1'><types><composite name='messageHeader'><type name='blockLength' primitiveType='uint16'/>"
        "<type name='templateId' primitiveType='uint16'/><type name='schemaId' primitiveType='uint16'/>"
        "<type name='version' primitiveType='uint16'/></composite></types><message name='m' id='1'>"
        f"<field name='u' id='1' type='uint64' presence='{presence}'/></message></messageSchema>"
    )
    payloads = [struct.pack("<4HQ", 8, 1, 1, 0, value) for value in values] + ([more] if more else [])
    return SbeColumns(schema, "m", uint64=ColumnType.INT64), batch_of(payloads)


def test_unsigned_numbers_are_signed_ones_where_that_was_asked_for() -> None:
    top = 2**63 - 1
    decoder, batch = unsigned("optional", 0, top, 2**64 - 1, more=b"other")
    assert next(c.type for c in decoder.columns if c.name == "sbe_u") is ColumnType.INT64
    data = decoder.extend(batch, ["sbe_u"]).column("sbe_u")
    assert (data.type, data.values.format) == (ColumnType.INT64, "q")
    assert data.to_list(4) == [0, top, None, None]
    decoder, batch = unsigned("required", 5, top)
    assert decoder.extend(batch, ["sbe_u"]).to_list("sbe_u") == [5, top]


@pytest.mark.parametrize(("presence", "value"), [("optional", 2**63), ("required", 2**64 - 1)])
@pytest.mark.parametrize("more", [b"", b"other"])
def test_a_number_too_large_for_a_signed_column_is_refused_not_lost(presence: str, value: int, more: bytes) -> None:
    decoder, batch = unsigned(presence, 1, value, more=more)
    with pytest.raises(
        UsageError, match=rf"column sbe_u must be at most {2**63 - 1} in a signed column, not {value} .*sbeUint64"
    ):
        decoder.extend(batch, ["sbe_u"])
    assert decoder.extend(batch, ["sbe_template"]).row_count == batch.row_count  # nobody asked for it


def test_arrow_takes_the_columns_without_a_copy() -> None:
    pa = pytest.importorskip("pyarrow")
    decoder = SbeColumns(load_schema(SCHEMA), "Small")
    lines = golden()
    made = pa.record_batch(
        decoder.extend(batch_of([bytes.fromhex(x["payload"]) for x in lines]), ["sbe_e", "sbe_f", "sbe"])
    )
    assert [str(field.type) for field in made.schema] == ["binary", "int64", "double", "string"]
    expected = [line["fields"]["e"] if line["template"] == "Small" else None for line in lines]
    assert made.column("sbe_e").to_pylist() == expected


def test_what_cannot_be_decoded_is_null_and_told_once_for_each_kind() -> None:
    small = next(bytes.fromhex(line["payload"]) for line in golden() if line["template"] == "Small")
    large = next(bytes.fromhex(line["payload"]) for line in golden() if line["template"] == "Everything")
    other = struct.pack("<4H", 0, 1, 518, 0)
    unknown = struct.pack("<4H", 0, 77, 517, 0)
    payloads = [b"", small, b"abc", other, other, unknown, small[:-1], small[:-2], large[:-1], large]
    told: list[str] = []
    decoder = SbeColumns(load_schema(SCHEMA), "Small", told.append)
    batch = batch_of(payloads)
    made = decoder.extend(batch, ["sbe_template", "sbe_b", "sbe"])
    decoder.extend(batch, ["sbe"])
    assert [value is not None for value in made.to_list("sbe_b")] == [False, True] + [False] * 8
    assert [value is not None for value in made.to_list("sbe")] == [False, True] + [False] * 7 + [True]
    names = [None, "Small", None, None, None, None, "Small", "Small", "Everything", "Everything"]
    assert made.to_list("sbe_template") == names
    kinds = [line.split("; it and others of this kind")[0] for line in sorted(told)]
    assert kinds.pop(0).startswith("SBE: Everything: a payload is damaged: SBE message at offset ")
    assert kinds == [
        "SBE: Small: a payload is shorter than its block",
        "SBE: a payload is of another schema than id 517",
        "SBE: a payload is of template 77, which the schema does not have",
        "SBE: a payload is shorter than a message header of 8 bytes",
    ]
    assert made.to_list("payload") == payloads


def test_enums_without_a_name_are_their_number_or_character_and_text_keeps_its_bytes() -> None:
    schema = parse_schema(
        "<messageSchema id='1'><types><composite name='messageHeader'><type name='blockLength' primitiveType='uint16'/>"
        "<type name='templateId' primitiveType='uint16'/><type name='schemaId' primitiveType='uint16'/>"
        "<type name='version' primitiveType='uint16'/></composite>"
        "<enum name='N' encodingType='uint8'><validValue name='ONE'>1</validValue></enum>"
        "<enum name='C' encodingType='char'><validValue name='A'>a</validValue></enum>"
        "<set name='S' encodingType='uint8'><choice name='zero'>0</choice></set>"
        "<type name='T' primitiveType='char' length='3'/><type name='U' primitiveType='char' length='3' "
        "characterEncoding='UTF-8' presence='optional'/></types>"
        "<message name='m' id='1'><field name='n' id='1' type='N'/><field name='c' id='2' type='C'/>"
        "<field name='s' id='3' type='S'/><field name='t' id='4' type='T'/><field name='u' id='5' type='U'/>"
        "<field name='U' id='6' type='uint8'/></message></messageSchema>"
    )
    head = struct.pack("<4H", 10, 1, 1, 0)
    payloads = [
        head + b"\x01a\x01abc" + "é".encode() + b"\0\x01",
        head + b"\x02b\x82a\xe9\0" + b"\0\0\0\x02",
        head + b"\xff\0\0\0\0\0" + b"\xffab\x03",
    ]
    assert [schema.decode(payload).fields for payload in payloads] == [
        {"n": "ONE", "c": "A", "s": ["zero"], "t": "abc", "u": "é", "U": 1},
        {"n": 2, "c": "b", "s": [1, 7], "t": "a\\xe9", "u": None, "U": 2},
        {"n": None, "c": None, "s": [], "t": "", "u": "\\xffab", "U": 3},
    ]
    decoder = SbeColumns(schema, "m")
    made = decoder.extend(batch_of(payloads), [c.name for c in decoder.columns])
    assert made.to_list("sbe_n") == ["ONE", "2", None]
    assert made.to_list("sbe_c") == ["A", "b", None]
    assert made.to_list("sbe_s") == [1, 0x82, 0]
    assert made.to_list("sbe_t") == ["abc", "a\\xe9", ""]
    assert made.to_list("sbe_u") == ["é", None, "\\xffab"]
    assert made.to_list("sbe_U_2") == [1, 2, 3]  # u and U are one name to Spark


def test_enums_of_64_bits_and_a_name_for_the_null_value() -> None:
    schema = parse_schema(
        "<messageSchema id='1'><types><composite name='messageHeader'><type name='blockLength' primitiveType='uint16'/>"
        "<type name='templateId' primitiveType='uint16'/><type name='schemaId' primitiveType='uint16'/>"
        "<type name='version' primitiveType='uint16'/></composite>"
        "<enum name='W' encodingType='uint64'><validValue name='TOP'>18446744073709551614</validValue></enum>"
        "<enum name='I' encodingType='int64'><validValue name='LOW'>-9223372036854775807</validValue></enum>"
        "<enum name='N' encodingType='uint8'><validValue name='NONE'>255</validValue></enum></types>"
        "<message name='m' id='1'><field name='w' id='1' type='W'/><field name='i' id='2' type='I'/>"
        "<field name='n' id='3' type='N'/></message></messageSchema>"
    )
    head = struct.pack("<4H", 17, 1, 1, 0)
    rows = [(2**64 - 2, -(2**63) + 1, 255), (2**63, -5, 254), (2**64 - 1, -(2**63), 0)]
    payloads = [head + struct.pack("<QqB", *row) for row in rows]
    assert [tuple(schema.decode(payload).fields.values()) for payload in payloads] == [
        ("TOP", "LOW", "NONE"),
        (2**63, -5, 254),
        (None, None, 0),
    ]
    made = SbeColumns(schema, "m").extend(batch_of(payloads), ["sbe_w", "sbe_i", "sbe_n"])
    assert made.to_list("sbe_w") == ["TOP", str(2**63), None]
    assert made.to_list("sbe_i") == ["LOW", "-5", None]
    assert made.to_list("sbe_n") == ["NONE", "254", "0"]


def test_numbers_that_json_lacks_are_text() -> None:
    fields = {"a": math.nan, "b": [math.inf, {"c": -math.inf}], "d": 1.5, "e": b"\x00\xff"}
    assert to_json(fields) == '{"a": "NaN", "b": ["Infinity", {"c": "-Infinity"}], "d": 1.5, "e": "AP8="}'


def kept_by_hand(batch: Batch, mask: memoryview) -> Batch:
    payloads = [value for value, keep in zip(batch.to_list("payload"), mask.tolist(), strict=True) if keep]
    return batch_of(payloads)


@pytest.mark.parametrize("message", ["Everything", "Small"])
@pytest.mark.parametrize("writer", ["little", "older", "newer"])
def test_only_rows_of_the_message_stay_and_have_what_it_always_has(message: str, writer: str) -> None:
    lines = golden(writer) + golden("little")[:4]
    decoder = SbeColumns(load_schema(SCHEMA), message, keep_rows=kept_by_hand)
    everything = SbeColumns(load_schema(SCHEMA), message)
    payloads = [bytes.fromhex(line["payload"]) for line in lines]
    made = decoder.extend(batch_of([*payloads, b"", payloads[0][:-1]]), [c.name for c in decoder.columns])
    expected = everything.extend(batch_of(payloads), [c.name for c in everything.columns])
    own = [index for index, line in enumerate(lines) if line["template"] == message]
    assert own
    assert made.row_count == len(own)
    for column in made.schema:
        assert made.to_list(column.name) == [expected.to_list(column.name)[index] for index in own]
        assert column.nullable or made.data[column.name].null_count == 0
    nullable = {column.name for column in decoder.columns if column.nullable}
    assert "sbe_template" not in nullable
    if message == "Small":  # by its schema: all fields are required but e and h; the JSON text is never promised
        assert nullable == {"sbe_e", "sbe_h", "sbe"}
    assert all(column.nullable for column in everything.columns)


def test_without_a_column_of_it_only_rows_of_the_message_stay() -> None:
    payloads = [bytes.fromhex(line["payload"]) for line in golden()]
    decoder = SbeColumns(load_schema(SCHEMA), "Small", keep_rows=kept_by_hand)
    assert decoder.needs_payload
    made = decoder.extend(batch_of(payloads), [])
    small = [payload for payload, line in zip(payloads, golden(), strict=True) if line["template"] == "Small"]
    assert made.to_list("payload") == small
    assert [column.name for column in made.schema] == ["payload"]


def test_a_message_whose_block_is_too_short_is_left_out_and_told() -> None:
    """The block of Small has 44 bytes and ends with the optional h: 42 are what it always has, by hand."""
    small = next(bytes.fromhex(line["payload"]) for line in golden() if line["template"] == "Small")
    assert int.from_bytes(small[:2], "little") == 44
    cut = [length.to_bytes(2, "little") + small[2 : 8 + length] for length in (42, 41)]
    told: list[str] = []
    decoder = SbeColumns(load_schema(SCHEMA), "Small", told.append, keep_rows=kept_by_hand)
    for _ in range(2):
        made = decoder.extend(batch_of([small, *cut]), ["sbe_g", "sbe_h"])
        assert made.row_count == 2
        assert made.to_list("sbe_h")[1] is None
    assert [line.split(";")[0] for line in told] == ["SBE: Small: a payload is of a block shorter than 42 bytes"]
