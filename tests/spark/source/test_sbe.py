"""Options ``sbeSchema`` and ``sbeMessage`` in a real session, over messages that sbe-tool's code wrote."""

from __future__ import annotations

import gzip
import json
from decimal import Decimal

import pytest
from pyspark.errors import PythonException

import everlog.spark
import tests
from everlog.aeron import archive
from everlog.aeron.layouts import DataHeader
from everlog.errors import UsageError
from everlog.pipelines.scan.options import parse_options

GOLDEN = tests.GOLDEN / "sbe"
SCHEMA = GOLDEN / "every-feature.xml"


def messages():
    with gzip.open(GOLDEN / "little.jsonl.gz", "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


@pytest.fixture
def store(toy):
    payloads = [bytes.fromhex(line["payload"]) for line in messages()] + [b"plain"]
    return toy("sbe", {"s": [(n, n, "t", payload) for n, payload in enumerate(payloads)]})


def read(spark, store, **options):
    reader = spark.read.format("everlog").option("sbeSchema", str(SCHEMA))
    for name, value in options.items():
        reader = reader.option(name, value)
    return reader.load(store)


@pytest.mark.long
def test_template_and_json_text_are_added(spark, store):
    table = read(spark, store)
    assert table.dtypes[-2:] == [("sbe_template", "string"), ("sbe", "string")]
    rows = table.orderBy("number").select("sbe_template", "sbe", "payload").collect()
    assert [row.sbe_template for row in rows] == [*(line["template"] for line in messages()), None]
    for row, line in zip(rows, messages(), strict=False):
        assert json.loads(row.sbe) == {"template": line["template"], **line["fields"]}
        assert row.payload.hex() == line["payload"]
    assert rows[-1].sbe is None


def test_a_messages_block_has_typed_columns(spark, store):
    table = read(spark, store, sbeMessage="Everything")
    types = dict(table.dtypes)
    assert "sbe" not in types
    assert types["sbe_time"] == "decimal(20,0)"
    assert types["sbe_signed8"] == "smallint"
    assert types["sbe_ratio"] == "float"
    assert types["sbe_wide"] == "double"
    assert types["sbe_motor_booster_power"] == "bigint"
    rows = table.orderBy("number").collect()
    for row, line in zip(rows, messages(), strict=False):
        fields = line["fields"]
        if line["template"] != "Everything":
            assert row.sbe_time is row.sbe_code is None
            continue
        assert row.sbe_time == Decimal(fields["time"])
        assert (row.sbe_price, row.sbe_ratio, row.sbe_wide) == (fields["price"], fields["ratio"], fields["wide"])
        assert (row.sbe_side, row.sbe_code, row.sbe_latin) == (fields["side"], fields["code"], fields["latin"])
        assert list(row.sbe_digest) == fields["digest"]
        assert row.sbe_motor_booster_power == fields["motor"]["booster"]["power"]


def test_decoded_columns_are_read_without_the_payload_and_filtered_as_any(spark, store):
    table = read(spark, store, sbeMessage="Small", columns="number,sbe_a,sbe")
    assert table.columns == ["number", "sbe_a", "sbe"]
    expected = sorted(line["fields"]["a"] for line in messages() if line["template"] == "Small")
    assert [row.sbe_a for row in table.where("sbe_a is not null").orderBy("sbe_a").collect()] == expected


def test_only_records_of_the_message_come_and_its_required_fields_are_not_null(spark, store):
    table = read(spark, store, sbeMessage="Small", sbeOnly="true")
    nullable = {field.name: field.nullable for field in table.schema.fields if field.name.startswith("sbe")}
    assert nullable == {f"sbe_{name}": name in ("e", "h") for name in ("template", *"abcdefgh")}
    expected = [(n, line) for n, line in enumerate(messages()) if line["template"] == "Small"]
    rows = table.orderBy("number").collect()
    assert [row.number for row in rows] == [number for number, _ in expected]
    for row, (_, line) in zip(rows, expected, strict=True):
        assert (row.payload.hex(), row.sbe_template) == (line["payload"], "Small")
        assert {name: row[f"sbe_{name}"] for name in line["fields"]} == line["fields"]
    alone = read(spark, store, sbeMessage="Small", sbeOnly="true", columns="number")
    assert sorted(row.number for row in alone.collect()) == [number for number, _ in expected]
    assert read(spark, store, sbeMessage="Small", sbeOnly="true").count() == len(expected)
    sums = everlog.spark.aggregate(
        *(spark, store),
        by=["sbe_template"],
        values={"rows": "count", "sum": "sum(sbe_c)"},
        sbeSchema=str(SCHEMA),
        sbeMessage="Small",
        sbeOnly="true",
        family="toy",
    )
    assert [tuple(row) for row in sums.collect()] == [
        ("Small", len(expected), sum(line["fields"]["c"] for _, line in expected))
    ]


def test_unsigned_numbers_are_bigints_where_that_was_asked_for(spark, toy):
    lines = [line for line in messages() if line["fields"].get("time", 0) < 2**63]
    expected = [line["fields"]["time"] if line["template"] == "Everything" else None for line in lines]
    assert sum(value is not None for value in expected) > 10
    payloads = [bytes.fromhex(line["payload"]) for line in lines]
    store = toy("small", {"s": [(n, n, "t", payload) for n, payload in enumerate(payloads)]})
    table = read(spark, store, sbeMessage="Everything", sbeUint64="bigint", columns="number,sbe_time")
    assert dict(table.dtypes)["sbe_time"] == "bigint"
    assert [row.sbe_time for row in table.orderBy("number").collect()] == expected
    found = everlog.spark.aggregate(
        *(spark, store),
        by=["sbe_template"],
        values={"last": "max(sbe_time)"},
        sbeSchema=str(SCHEMA),
        sbeMessage="Everything",
        sbeUint64="bigint",
        family="toy",
    )
    assert dict(found.dtypes)["last"] == "bigint"
    assert {row.last for row in found.collect()} == {None, max(value for value in expected if value is not None)}


def test_a_number_beyond_a_bigint_fails_the_query_and_says_what_to_do(spark, store):
    chosen = {"sbeMessage": "Everything", "columns": "sbe_time"}
    largest = max(line["fields"].get("time", 0) for line in messages())
    assert largest > 2**63
    assert Decimal(largest) in {row.sbe_time for row in read(spark, store, **chosen).collect()}
    with pytest.raises(PythonException, match=rf"column sbe_time.*{largest}.*sbeUint64=decimal"):
        read(spark, store, **chosen, sbeUint64="bigint").collect()


def test_an_export_has_only_records_of_the_message_each_once(spark, tmp_path):
    lines = messages()
    payloads = [bytes.fromhex(line["payload"]) for line in lines]
    path, out = tmp_path / "archive", tmp_path / "out"
    chosen = {"sbeSchema": str(SCHEMA), "sbeMessage": "Small", "sbeOnly": "true"}
    expected: list[str] = []
    for turn in range(2):
        with archive.create(path, segment_length=65536, exist_ok=True) as store:
            extend = store.extend_recording(0) if turn else store.start_recording("aeron:ipc", 1, term_length=65536)
            with extend as recorder:
                for payload in payloads:
                    recorder.append(payload)
        everlog.spark.export(spark, str(path), folder=str(out), **chosen)
        expected += [line["payload"] for line in lines if line["template"] == "Small"]
        rows = spark.read.parquet(str(out)).orderBy("position").collect()
        assert [row.payload.hex() for row in rows] == expected
        assert all(row.sbe_template == "Small" and row.sbe_a is not None for row in rows)


@pytest.mark.long
def test_times_of_an_aeron_recording_come_out_of_its_messages(spark, tmp_path):
    payloads = [bytes.fromhex(line["payload"]) for line in messages()]
    segment = bytearray()
    for payload in payloads:
        length = DataHeader.size + len(payload)
        head = {"frame_length": length, "flags": 0xC0, "type": 1, "term_offset": len(segment), "session_id": 5}
        frame = DataHeader.pack(**head, stream_id=10, term_id=1) + payload
        segment += frame.ljust((length + 31) & ~31, b"\0")
    folder = tmp_path / "archive"
    folder.mkdir()
    (folder / "0-0.rec").write_bytes(segment.ljust(1 << 16, b"\0"))
    options = {"sbeSchema": str(SCHEMA), "timestampFrom": "sbe:time", "columns": "position,timestamp_ns,sbe_template"}
    rows = spark.read.format("everlog").options(**options).load(str(folder)).orderBy("position").collect()
    times = [line["fields"].get("time") for line in messages()]
    assert [row.timestamp_ns for row in rows] == [None if t is None or t >= 2**63 else t for t in times]
    assert [row.sbe_template for row in rows] == [line["template"] for line in messages()]


def test_options_are_checked_where_the_query_is_planned(tmp_path):
    with pytest.raises(UsageError, match="sbeMessage needs sbeSchema"):
        parse_options({"path": "/a", "sbeMessage": "Small"})
    with pytest.raises(UsageError, match="sbeOnly needs sbeMessage"):
        parse_options({"path": "/a", "sbeSchema": str(SCHEMA), "sbeOnly": "true"})
    with pytest.raises(UsageError, match="sbeUint64 needs sbeMessage"):
        parse_options({"path": "/a", "sbeSchema": str(SCHEMA), "sbeUint64": "bigint"})
    with pytest.raises(UsageError, match="sbeUint64 must be 'decimal' or 'bigint', not 'long'"):
        parse_options({"path": "/a", "sbeSchema": str(SCHEMA), "sbeMessage": "Small", "sbeUint64": "long"})
    wrong = tmp_path / "wrong.xml"
    wrong.write_text("<a/>")
    with pytest.raises(UsageError, match="expected <messageSchema>"):
        parse_options({"path": "/a", "sbeSchema": str(wrong)})
    with pytest.raises(UsageError, match="a frame may be a fragment"):
        parse_options({"path": "/a", "sbeSchema": str(SCHEMA), "level": "frame"})
    scan = parse_options({"path": "/a", "sbeSchema": str(SCHEMA), "timestampFrom": "sbe:time:ns"})
    assert scan.family_options == {"timestamp_from": "sbe:time:ns", "sbe_schema": scan.sbe_schema}
