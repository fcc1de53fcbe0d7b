"""``spark.read.format("everlog")`` in a real session, against what the real systems wrote."""

from __future__ import annotations

import gzip
import json
import zlib
from pathlib import Path

import pytest

import tests

GOLDEN = tests.GOLDEN
KEY = "mykey"

COMMON = [
    ("store", "string"),
    ("family", "string"),
    ("stream", "string"),
    ("address", "string"),
    ("timestamp", "timestamp"),
    ("timestamp_ns", "bigint"),
    ("length", "bigint"),
    ("payload", "binary"),
]
AERON = [
    ("position", "bigint"),
    ("end_position", "bigint"),
    ("session_id", "int"),
    ("stream_id", "int"),
    ("term_id", "int"),
    ("term_offset", "int"),
    ("flags", "smallint"),
    ("reserved_value", "bigint"),
]
JLOG = [("log", "bigint"), ("marker", "bigint"), ("offset", "bigint")]
NATS = [("sequence", "bigint"), ("subject", "string"), ("reply", "string"), ("slice", "int"), ("offset", "bigint")]


@pytest.fixture(scope="module")
def jlog(golden):
    return str(golden("jlog/basic/log"))


@pytest.fixture(scope="module")
def nats(golden):
    return str(golden("nats_streaming/basic_sigterm"))


@pytest.fixture(scope="module")
def aeron(golden):
    return str(golden("aeron/archive-basic/archive"))


@pytest.fixture(scope="module")
def encrypted(golden):
    return str(golden("nats_streaming/encrypted_AES"))


def read(spark, path, **options):
    return spark.read.format("everlog").options(**options).load(path)


def text_of(error: BaseException) -> str:
    return f"{error}\n{getattr(error, 'desc', '')}"


def test_a_journal_is_what_its_writer_wrote(spark, jlog):
    truth = json.loads((GOLDEN / "jlog/basic/truth.json").read_text())["messages"]
    rows = read(spark, jlog).collect()
    found = {
        (r.log, r.marker, r.offset, r.length, zlib.crc32(r.payload), r.address, r.timestamp_ns, r.family) for r in rows
    }
    expected = {
        (
            m["segment"],
            m["marker"],
            m["offset"],
            m["len"],
            int(m["crc32"], 16),
            f"{m['segment']:08x}:{m['marker']:08x}",
            m["ts"][0] * 10**9 + m["ts"][1] * 1000,
            "jlog",
        )
        for m in truth
    }
    assert len(rows) == len(truth)
    assert found == expected


def test_channels_are_what_the_server_held(spark, nats):
    truth = json.loads((GOLDEN / "nats_streaming/basic_sigterm.truth.json").read_text())["channels"]
    frame = read(spark, nats, columns="stream,sequence,length,timestamp_ns,crc32")
    expected = {
        (name, m["seq"], m["len"], m["timestamp"], int(m["data_crc32"], 16))
        for name, channel in truth.items()
        for m in channel["messages"]
    }
    assert {tuple(row) for row in frame.collect()} == expected


@pytest.mark.parametrize(("level", "kind"), [("record", "messages"), ("frame", "fragments")])
def test_recordings_are_what_the_archive_replayed(spark, aeron, level, kind):
    truth = json.loads(gzip.decompress((GOLDEN / "aeron/archive-basic/truth.json.gz").read_bytes()))
    frame = read(spark, aeron, level=level, columns="stream,end_position,length,crc32")
    # A replayed row: end position, length, reserved value, flags, term id, term offset, CRC-32.
    expected = {
        (str(recording["recordingId"]), row[0], row[1], row[6])
        for recording in truth["recordings"]
        for row in recording["replay"][kind]
    }
    assert len(expected) > 10_000
    assert {tuple(row) for row in frame.collect()} == expected


def test_each_family_has_the_common_columns_and_its_own(spark, jlog, nats, aeron):
    assert read(spark, jlog).dtypes == COMMON + JLOG
    assert read(spark, nats).dtypes == COMMON + NATS
    assert read(spark, aeron).dtypes == COMMON + AERON


def test_columns_that_never_lack_a_value_say_so(spark, jlog, nats, aeron):
    nullable = {field.name for field in read(spark, aeron).schema if field.nullable}
    assert nullable == {"timestamp", "timestamp_ns", "session_id"}
    assert {field.name for field in read(spark, jlog).schema if field.nullable} == {"timestamp", "timestamp_ns"}
    # In a mixed table each family lacks the columns of the others; offset is a column of both of these.
    mixed = {field.name for field in read(spark, [jlog, nats]).schema if not field.nullable}
    assert mixed == {name for name, _ in COMMON if not name.startswith("timestamp")} | {"offset"}


def test_stores_of_all_families_are_one_table_with_nulls_where_a_family_lacks_a_column(spark, jlog, nats, aeron):
    frame = read(spark, [nats, jlog, aeron])
    assert frame.dtypes == COMMON + AERON + JLOG + [column for column in NATS if column not in JLOG]
    frame.createOrReplaceTempView("mixed")
    rows = spark.sql(
        """SELECT family, count(*) AS rows, count(position) AS positions, count(marker) AS markers,
                  count(sequence) AS sequences, count(offset) AS offsets FROM mixed GROUP BY family"""
    ).collect()
    by_family = {row["family"]: row for row in rows}
    assert set(by_family) == {"aeron-archive", "jlog", "nats-streaming"}
    for family, row in by_family.items():
        assert row["positions"] == (row["rows"] if family == "aeron-archive" else 0)
        assert row["markers"] == (row["rows"] if family == "jlog" else 0)
        assert row["sequences"] == (row["rows"] if family == "nats-streaming" else 0)
        assert row["offsets"] == (0 if family == "aeron-archive" else row["rows"])


def test_a_schema_of_the_user_is_honoured_for_any_subset_in_any_order(spark, jlog):
    frame = spark.read.format("everlog").schema("payload binary, crc32 bigint, marker bigint").load(jlog)
    rows = frame.collect()
    assert frame.columns == ["payload", "crc32", "marker"]
    assert all(zlib.crc32(row.payload) == row.crc32 for row in rows)
    everything = read(spark, jlog).select("payload", "marker").collect()
    assert sorted((r.marker, bytes(r.payload)) for r in rows) == sorted(
        (r.marker, bytes(r.payload)) for r in everything
    )


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ("position bigint", "column position"),
        ("marker int", "must be bigint, not int"),
        ("marker string", ", not string"),
        ("timestamp_ns bigint not null", "NOT NULL"),
    ],
)
def test_a_schema_that_does_not_fit_is_an_error_that_says_why(spark, jlog, schema, expected):
    with pytest.raises(Exception, match="UsageError") as error:
        spark.read.format("everlog").schema(schema).load(jlog).count()
    assert expected in text_of(error.value)


def test_frames_are_the_pieces_of_messages(spark, aeron):
    whole = read(spark, aeron, stream="1", columns="length").groupBy().sum("length").collect()[0][0]
    frames = read(spark, aeron, stream="1", level="frame", columns="length")
    assert frames.groupBy().sum("length").collect()[0][0] == whole
    assert frames.count() > read(spark, aeron, stream="1", columns="length").count()


def test_times_are_microseconds_in_one_column_and_nanoseconds_in_another(spark, nats):
    frame = read(spark, nats, columns="timestamp,timestamp_ns")
    wrong = frame.where("unix_micros(timestamp) != timestamp_ns div 1000").count()
    assert (frame.count(), wrong) == (109, 0)


def test_a_time_range_reads_what_a_filter_would(spark, nats):
    everything = read(spark, nats, columns="stream,sequence,timestamp_ns").collect()
    times = sorted(row.timestamp_ns for row in everything)
    begin, end = times[20], times[70]
    frame = read(spark, nats, columns="stream,sequence,timestamp_ns", startTime=str(begin), endTime=str(end))
    assert sorted(frame.collect()) == sorted(row for row in everything if begin <= row.timestamp_ns < end)


def test_time_from_the_reserved_value(spark, aeron):
    frame = read(spark, aeron, stream="0", columns="timestamp_ns,reserved_value", timestampFrom="reserved_value:us")
    assert frame.where("timestamp_ns != reserved_value * 1000").count() == 0
    assert frame.where("timestamp_ns is null").count() == 0


def test_a_damaged_journal_fails_the_query_or_gives_its_intact_records(spark, golden):
    path = str(golden("jlog/e_garbage_middle_idx_kept/before"))
    with pytest.raises(Exception, match="CorruptData") as error:
        read(spark, path).collect()
    text = text_of(error.value)
    assert "at offset" in text
    assert path in text
    assert "onFault=skip" in text
    assert read(spark, path, onFault="skip").count() == 59


@pytest.mark.parametrize("how", ["file", "env"])
def test_a_key_opens_an_encrypted_store_and_shows_nowhere(spark, encrypted, tmp_path, capfd, how):
    truth = json.loads((GOLDEN / "nats_streaming/encrypted_AES.truth.json").read_text())["plain_messages"]
    options = {"encryptionKeyEnv": "EVERLOG_TEST_KEY"}
    if how == "file":
        (tmp_path / "key").write_text(KEY)
        options = {"encryptionKeyFile": str(tmp_path / "key")}
    frame = read(spark, encrypted, columns="sequence,length,crc32,payload", **options)
    messages = truth["enc.ch"] if isinstance(truth, dict) else truth
    found = sorted((row.sequence, row.length, zlib.crc32(row.payload)) for row in frame.collect())
    assert found == sorted((m["seq"], m["len"], int(m["data_crc32"], 16)) for m in messages)
    frame.explain("extended")
    shown = capfd.readouterr()
    assert "RelationV2" in shown.out
    assert KEY not in shown.out + shown.err
    assert KEY not in frame._jdf.queryExecution().toString()


def test_a_key_as_a_plain_option_is_refused_without_repeating_it(spark, encrypted):
    with pytest.raises(Exception, match="encryptionKeyFile") as error:
        read(spark, encrypted, encryptionKey="not-to-be-shown")
    assert "not-to-be-shown" not in text_of(error.value)


def test_a_wrong_key_is_refused_without_repeating_it(spark, encrypted, tmp_path):
    (tmp_path / "wrong").write_text("not-to-be-shown")
    with pytest.raises(Exception, match=r"KeyRefused|CorruptData") as error:
        read(spark, encrypted, encryptionKeyFile=str(tmp_path / "wrong")).collect()
    assert "not-to-be-shown" not in text_of(error.value)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"header": "true"}, "unknown option header"),
        ({"preCommit": "true", "family": "nats-streaming"}, "option preCommit"),
        ({"level": "byte"}, "must be 'record' or 'frame', not 'byte'"),
        ({"stream": "nothing"}, "UnknownStream"),
        ({"columns": "postion"}, "postion"),
    ],
)
def test_a_wrong_option_is_an_error_that_says_why(spark, nats, options, expected):
    with pytest.raises(Exception, match=r"everlog\.errors") as error:
        read(spark, nats, **options).count()
    assert expected in text_of(error.value)


def test_a_folder_of_stores_and_many_partitions_give_each_record_once(spark, golden, jlog, nats):
    root = str(Path(jlog).parents[2])
    assert read(spark, root, stream="*", onFault="skip").count() > 0
    for partitions in ("1", "5"):
        frame = read(spark, [jlog, nats], columns="store,stream,address", partitions=partitions)
        assert frame.rdd.getNumPartitions() == min(int(partitions), 8)
        assert frame.count() == frame.distinct().count() == 90 + 109


def test_toy_stores_with_nulls_and_their_own_family(spark, toy):
    path = toy("store", {"s": [(1, None, "a", b"x"), (2, 5_000, None, b"")]})
    rows = spark.read.format("everlog").option("columns", "number,timestamp_ns,topic,payload").load(path).collect()
    assert [tuple(r) for r in rows] == [(1, None, "a", b"x"), (2, 5000, None, b"")]


def test_nothing_to_read_is_an_empty_table(spark, toy):
    path = toy("store", {"s": []})
    assert spark.read.format("everlog").load(path).collect() == []
