"""Names of an export's folders, and its manifest: without Spark."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everlog.errors import CorruptData, UnsupportedVersion
from everlog.pipelines.export.manifest import (
    ExportedFile,
    ExportedStream,
    Manifest,
    Placing,
    StreamKey,
    decode,
    encode,
    missing,
    united,
)
from everlog.pipelines.export.names import folder_name, hour_name, value_of

NAMES = st.one_of(
    st.text(max_size=300),
    st.binary(max_size=300).map(lambda raw: raw.decode("utf-8", "surrogateescape")),
    st.sampled_from(
        ["", ".", "..", "/", "a/../../b", "__HIVE_DEFAULT_PARTITION__", "a=b", "%41", "x.", "y ", "~", "\0"]
    ),
)


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ("/data/archive", "store=%2Fdata%2Farchive"),
        ("orders.eu", "store=orders.eu"),
        ("..", "store=.%2E"),
        ("a=b%c", "store=a%3Db%25c"),
        ("café ½", "store=café ½"),
        ("a\tb\x7f", "store=a%09b%7F"),
        ("日本", "store=日本"),
        ("__HIVE_DEFAULT_PARTITION__", "store=%5F_HIVE_DEFAULT_PARTITION__"),
    ],
)
def test_names_are_written_as_hive_and_spark_read_them(value, name):
    assert folder_name("store", value) == name
    assert value_of(name) == value


@pytest.mark.parametrize("value", ["a\x85b", "a\xa0b", "a\xadb", "\u2028", "\udce9"])
def test_of_a_name_with_characters_that_nobody_prints_a_checksum_is_there(value):
    assert "~" in folder_name("store", value)


def test_names_that_were_written_before_are_still_turned_back():
    assert value_of("store=caf%E9") == "café"


@given(NAMES)
def test_a_name_is_ascii_where_it_is_escaped(value):
    """Whoever reads the escapes as bytes of UTF-8 reads the same as who reads them as characters."""
    from urllib.parse import unquote

    name = folder_name("store", value)
    assert unquote(name, errors="strict") == "store=" + (value_of(name) or name.removeprefix("store="))


@given(NAMES)
def test_every_name_is_one_part_of_a_path_of_bounded_length(value):
    name = folder_name("store", value)
    assert "/" not in name
    assert "\0" not in name
    assert name.startswith("store=")
    assert len(os.fsencode(name)) <= 200
    assert not name.endswith((".", " "))


@given(NAMES)
def test_a_name_is_turned_back_or_left_to_the_manifest(value):
    name = folder_name("store", value)
    assert value_of(name) == (value if "~" not in name else None)
    if value and value.isprintable() and len(value) < 60:
        assert value_of(name) == value


@given(NAMES, NAMES)
def test_different_names_have_different_folders(one, other):
    assert (folder_name("x", one) == folder_name("x", other)) == (one == other)


def test_a_long_name_keeps_its_end_and_a_checksum():
    name = folder_name("store", "/data/" + "x" * 300 + "/archive")
    assert name.split("~")[0].endswith("x" * 100 + "archive")
    assert value_of(name) is None


@pytest.mark.parametrize(
    ("hour", "name"),
    [(None, "unknown"), (0, "1970-01-01-00"), (-1, "1969-12-31-23"), (476_065, "2024-04-23-01")],
)
def test_hours_are_of_the_calendar_in_utc(hour, name):
    """476,065 hours: 19,836 days and one hour; 2024-01-01 is day 19,723, so that is day 113 of the year."""
    assert hour_name(hour) == name


def test_ranges_meet_and_gaps_are_found():
    assert united([(5, 9), (0, 3), (3, 5), (20, 20), (8, 12)]) == ((0, 12),)
    assert missing([(3, 5), (9, 12)], 0, 20) == ((0, 3), (5, 9), (12, 20))
    assert missing([(0, 100)], 10, 50) == ()
    assert missing([], 3, 7) == ((3, 7),)
    assert missing([(0, 4)], 2, 3) == ()


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=6), st.integers(0, 40), st.integers(0, 40))
def test_what_is_missing_and_what_is_there_make_up_the_whole(ranges, start, end):
    there = {n for low, high in ranges for n in range(low, high)}
    lacking = {n for low, high in missing(ranges, start, end) for n in range(low, high)}
    assert lacking == set(range(start, end)) - there


def manifest() -> Manifest:
    file = ExportedFile("store=a/stream=b/hour=unknown/part.parquet", 5, 100, 0xDEADBEEF, "0", "4096")
    stream = ExportedStream("aeron-archive", ((0, 5000),), (file,), 2, 5000, {"address": 4096, "length": 7})
    odd = StreamKey("/a\udcffb", "\u65e5\n")
    return Manifest(
        kind="parquet",
        query={"level": "record", "startTime": None},
        columns=(("address", "string"),),
        generation=3,
        streams={StreamKey("a", "b"): stream, odd: replace(stream, last=None, resume=None)},
        placing=Placing("_everlog/staging-1", (("part.parquet", file.path),)),
    )


def test_a_manifest_comes_back_as_it_was_written():
    assert decode(encode(manifest()), "x") == manifest()


def test_a_damaged_manifest_is_an_error_that_says_where():
    data = encode(manifest())
    for cut in range(0, len(data) - 3, 7):
        with pytest.raises(CorruptData, match="in the middle"):
            decode(data[:cut], "in the middle")
    for wrong in (
        b"[]",
        b"{}",
        b"null",
        data.replace(b"everlog-export", b"something"),
        data.replace(b"ranges", b"change"),
    ):
        with pytest.raises(CorruptData):
            decode(wrong, "manifest.json")
    with pytest.raises(UnsupportedVersion):
        decode(json.dumps(json.loads(data) | {"version": 2}).encode(), "manifest.json")


@pytest.mark.parametrize(
    ("wrong", "found"),
    [
        (b"{", "no valid JSON: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"),
        (b"{}", "no 'format'"),
        (b"null", "JSON of another form"),
        (b'{"format": "x"}', "format 'x'"),
        ({"kind": 5}, "5 instead of a value of type str"),
        ({"columns": [["address"]]}, "JSON of another form"),
        ({"streams": [{"store": "a"}]}, "no 'stream'"),
        ({"placing": {"staging": "/etc", "files": []}}, "the name '/etc', which leads out of the folder"),
    ],
)
def test_a_damaged_manifest_is_described_in_words(wrong: bytes | dict[str, Any], found: str):
    data = wrong if isinstance(wrong, bytes) else json.dumps(json.loads(encode(manifest())) | wrong).encode()
    with pytest.raises(CorruptData) as caught:
        decode(data, "manifest.json")
    assert str(caught.value) == (
        f"manifest.json: {found}; expected a manifest of everlog's export"
        " (the file is damaged or not everlog's: restore it, or export to another folder)"
    )


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, inner in items:
        yield from places(inner, (*path, name))


def with_value(value: Any, path: tuple[Any, ...], other: Any) -> Any:
    if not path:
        return other
    copy = value.copy()
    copy[path[0]] = with_value(value[path[0]], path[1:], other)
    return copy


@pytest.mark.parametrize("other", [5, "x", None, [], {}, True, 1.5, float("inf"), [[1, 2]], 1 << 70])
def test_a_manifest_with_another_value_anywhere_is_an_error_or_another_manifest(other):
    head = json.loads(encode(manifest()))
    for path in places(head):
        try:
            found = decode(json.dumps(with_value(head, path, other)).encode(), "manifest.json")
        except (CorruptData, UnsupportedVersion):
            continue
        assert decode(encode(found), "again") == found
        assert all(isinstance(stream.row_count, int) for stream in found.streams.values())


def test_the_names_of_a_manifest_stay_in_the_export_s_folder(tmp_path: Path):
    """A manifest that somebody changed can't make the next run move or delete files elsewhere."""
    from everlog.pipelines.export.folder import MANIFEST, ExportFolder

    victim = tmp_path / "victim"
    victim.write_text("mine")
    out = tmp_path / "out"
    with ExportFolder(str(out)) as folder:
        staging = folder.stage("1")
    (out / staging / "part").write_text("staged")
    evil = Placing(staging, (("part", "../victim"),))
    (out / MANIFEST).write_bytes(encode(replace(manifest(), placing=evil)))
    with ExportFolder(str(out)) as folder, pytest.raises(CorruptData):
        folder.load()
    assert victim.read_text() == "mine"
