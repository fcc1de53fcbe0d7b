"""Spark's options as text, and what they become."""

from __future__ import annotations

import pytest

import tests
from everlog.core.options import option_names
from everlog.core.store import Level
from everlog.errors import UsageError
from everlog.pipelines.scan.options import FAMILY_OPTIONS, OPTION_NAMES, SCAN_OPTIONS, ScanOptions, parse_options
from everlog.stores import store_class
from everlog.testing.toy.family import TOY

TOYS = {option.spark for option in TOY.options}
ROOT_FAMILIES = ("aeron-archive", "aeron-cluster", "jlog", "nats-streaming")


def parse(**options: str) -> ScanOptions:
    return parse_options({"path": "/stores", **options})


def test_without_options_all_of_all_streams_is_read_and_damage_fails():
    assert parse() == ScanOptions(paths=("/stores",))


def test_names_of_options_have_no_case():
    assert parse(ONFAULT="Skip", StArT="7").start == "7"


@pytest.mark.parametrize(
    ("times", "start_ns", "end_ns"),
    [
        ({"startTime": "0001-01-01", "endTime": "9999-12-31"}, None, None),
        ({"startTime": "1600-01-01", "endTime": "2500-01-01T00:00:00Z"}, None, None),
        ({"endTime": "9999999999999999999"}, None, None),
        ({"endTime": "1600-01-01"}, None, -(1 << 63)),
        ({"startTime": "9999-12-31"}, (1 << 63) - 1, None),
        ({"startTime": "1969-12-31T23:59:59Z", "endTime": "2262-04-11"}, -(10**9), 9223286400 * 10**9),
    ],
)
def test_times_that_no_record_can_have_bound_nothing_or_leave_nothing(times, start_ns, end_ns):
    scan = parse(**times)
    assert (scan.start_ns, scan.end_ns) == (start_ns, end_ns)


def test_a_password_in_a_url_is_refused_whatever_is_in_it_and_a_port_is_none():
    for url in ("s3://KEY:abc/def@bucket/store", "ftp://me:12ab@host/store", "s3://KEY:1a/2@bucket"):
        with pytest.raises(UsageError, match="password") as error:
            parse_options({"path": url})
        assert url not in str(error.value)
    for url in ("hdfs://node:8020/user@corp/store", "https://host:443/a@b", "s3://bucket/a:b@c"):
        assert parse_options({"path": url}).paths == (url,)


def test_a_password_is_refused_in_any_option_and_not_repeated():
    for given in (
        {"archiveDir": "s3://KEY:sesame@bucket"},
        {"paths": "s3://KEY:sesame@bucket"},
        {"sbeSchema": "s3://:sesame@b"},
    ):
        with pytest.raises(UsageError, match=next(iter(given)).lower()) as error:
            parse(**given)
        assert "sesame" not in str(error.value)


def test_a_table_in_a_catalog_is_refused_with_what_works_instead():
    with pytest.raises(UsageError, match="CREATE TEMPORARY VIEW"):
        parse(owner="root", provider="everlog", location="file:/stores")


def test_each_option_reaches_its_field():
    given = parse(
        family="jlog",
        stream="a, b*",
        start="1",
        end="9",
        startTime="1970-01-01T00:00:01Z",
        endTime="1970-01-01T00:00:02.000000005+00:00",
        level="frame",
        columns="position,payload",
        includeAll="true",
        failOnDataLoss="false",
        onFault="skip",
        splitBytes="8m",
        partitions="3",
    )
    assert given == ScanOptions(
        paths=("/stores",),
        family="jlog",
        streams=("a", "b*"),
        start="1",
        end="9",
        start_ns=1_000_000_000,
        end_ns=2_000_000_005,
        level=Level.FRAME,
        columns=("position", "payload"),
        include_all=True,
        fail_on_data_loss=False,
        on_fault="skip",
        split_bytes=8 << 20,
        partitions=3,
    )


def test_each_option_of_a_family_reaches_it():
    given = parse(
        timestampFrom="reserved_value:ms",
        checksum="crc32",
        preCommit="true",
        encryptionKeyFile="/key",
        encryptionKeyEnv="KEY",
        crcPoly="0x82F63B78",
        maxMsgs="5",
        maxBytes="1m",
        maxAge="24h",
        includeBak="true",
    )
    assert given.family_options == {
        "timestamp_from": "reserved_value:ms",
        "checksum": "crc32",
        "pre_commit": True,
        "encryption_key_file": "/key",
        "encryption_key_env": "KEY",
        "crc_poly": 0x82F63B78,
        "max_msgs": 5,
        "max_bytes": "1m",
        "max_age": "24h",
        "include_bak": True,
    }


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("1970-01-02", 86_400 * 10**9),
        ("1970-01-01 00:00:00.123456789", 123_456_789),
        ("1970-01-01T02:00:00+02:00", 0),
        ("1969-12-31T23:59:59.5Z", -500_000_000),
        ("19700101T000001,25", 1_250_000_000),
        ("1970-W01-4 00:00:00.000000001-00:30", 1800 * 10**9 + 1),
        ("1700000000000000001", 1_700_000_000_000_000_001),
    ],
)
def test_times_keep_their_nanoseconds(text, nanoseconds):
    assert parse(startTime=text).start_ns == nanoseconds


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("startTime", "yesterday"),
        ("startTime", "2024-01-01T00:00:00.1234567890"),
        ("startTime", "2024-01-01T10:30.5"),  # half a minute, not half a second
        ("startTime", "2024-01-01T10.5"),
        ("endTime", "2024-01-01.5"),
        ("endTime", "2024-01-01.10"),
        ("level", "message"),
        ("onFault", "ignore"),
        ("failOnDataLoss", "maybe"),
        ("splitBytes", "12"),
        ("splitBytes", "big"),
        ("partitions", "0"),
        ("checksum", "md5"),
        ("maxMsgs", "many"),
        ("stream", " "),
        ("stream", ", ,"),  # not all of them
        ("columns", ","),
    ],
)
def test_a_wrong_value_names_its_option(name, value):
    with pytest.raises(UsageError) as error:
        parse(**{name: value})
    assert name.lower() in str(error.value).lower()


def test_an_unknown_option_is_an_error_that_lists_the_known_ones():
    with pytest.raises(UsageError) as error:
        parse(streams="a")
    assert "unknown option streams; known: path" in str(error.value)
    assert all(name in str(error.value) for name in OPTION_NAMES)


def test_a_key_in_plain_text_is_refused_and_not_repeated():
    with pytest.raises(UsageError) as error:
        parse(encryptionKey="top-secret")
    assert "encryptionKeyFile" in str(error.value)
    assert "top-secret" not in str(error.value)


def test_every_option_is_documented():
    page = (tests.ROOT / "docs" / "spark.md").read_text()
    assert [name for name in (*SCAN_OPTIONS, *FAMILY_OPTIONS) if f"`{name}`" not in page and name not in TOYS] == []


def test_every_option_of_a_family_can_be_given():
    # Keys come in files or variables only; include_all and sbe_schema have their own; the rest is for Python.
    elsewhere = {"encryption_key", "include_all", "sbe_schema", "now_ns", "crc"}
    given = {field for name, (field, _) in FAMILY_OPTIONS.items() if name not in TOYS}
    known = set().union(*(option_names(store_class(family).options_class) for family in ROOT_FAMILIES))
    assert known - elsewhere == given


def test_several_paths_come_as_a_json_list():
    assert parse_options({"paths": '["/a", "/b"]'}).paths == ("/a", "/b")
    with pytest.raises(UsageError):
        parse_options({"paths": "/a"})
    with pytest.raises(UsageError, match="path"):
        parse_options({})


def test_a_password_in_a_url_is_refused_without_repeating_it():
    for path in ("ftp://me:sesame@host/records", "/data,sftp://me:sesame@host:22/records"):
        with pytest.raises(UsageError, match="password") as error:
            parse_options({"path": path})
        assert "sesame" not in str(error.value)
    assert parse_options({"path": "sftp://me@host:22/records"}).paths == ("sftp://me@host:22/records",)
