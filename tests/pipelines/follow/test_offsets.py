"""Offsets of live queries, and how a batch's bounds are shared out: pure functions."""

from __future__ import annotations

import json

import pytest

from everlog.core.following import Cut, CutLimit
from everlog.core.option_kinds import read_seconds
from everlog.errors import CorruptData, UnsupportedVersion, UsageError
from everlog.pipelines.follow.admission import Pending, admit
from everlog.pipelines.follow.offsets import Mark, Offset, Range, from_json, ranges, to_json
from everlog.pipelines.scan.live_options import parse_starting

OFFSET = Offset({"/b": {"z": Mark("9"), "a": Mark("7", "3")}, "/a": {"3": Mark("4096")}})


def test_an_offset_is_small_json_whose_text_does_not_depend_on_order():
    text = '{"version": 1, "stores": {"/a": {"3": "4096"}, "/b": {"a": ["3", "7"], "z": "9"}}}'
    assert json.dumps(to_json(OFFSET)) == text
    assert from_json(json.loads(text)) == OFFSET
    assert json.dumps(to_json(from_json(json.loads(text)))) == text


def test_the_offset_before_the_first_batch_says_so():
    assert to_json(Offset({}, is_initial=True)) == {"version": 1, "stores": {}, "initial": True}
    assert from_json({"version": 1, "stores": {}, "initial": True}).is_initial


@pytest.mark.parametrize(
    "data",
    [None, [], {}, {"version": "1"}, {"version": 0}, {"version": 1}, {"version": 1, "stores": {"/a": []}}]
    + [{"version": 1, "stores": {"/a": {"3": value}}} for value in (3, None, ["1"], ["1", 2], [1, 2, 3])],
)
def test_what_is_no_offset_is_refused(data):
    with pytest.raises(CorruptData):
        from_json(data)


def test_an_offset_of_a_newer_everlog_is_refused():
    with pytest.raises(UnsupportedVersion, match="version 2"):
        from_json({"version": 2, "stores": {}})


def test_a_batch_reads_what_lies_between_two_offsets():
    start = Offset({"/a": {"1": Mark("10"), "2": Mark("20"), "3": Mark("30", "25")}})
    end = Offset({"/a": {"1": Mark("11"), "2": Mark("20"), "3": Mark("30", "25"), "4": Mark("40", "32")}})
    assert list(ranges(start, end)) == [Range("/a", "1", "10", "11"), Range("/a", "4", "32", "40")]
    assert list(ranges(end, end)) == []


def test_where_a_batch_began_counts_more_than_where_the_one_before_ended():
    start = Offset({"/a": {"1": Mark("10"), "2": Mark("900")}})
    end = Offset({"/a": {"1": Mark("50", "40"), "2": Mark("30", "30"), "new": Mark("5")}})
    assert list(ranges(start, end)) == [Range("/a", "1", "40", "50"), Range("/a", "new", None, "5")]


def cut_of_tens(one: Pending, limit: CutLimit) -> Cut:
    """Records of ten bytes."""
    count = one.end - one.start
    if limit.records is not None:
        count = min(count, limit.records)
    if limit.byte_count is not None:
        count = min(count, max(limit.byte_count // 10, 1))
    return Cut(one.start + count, count, count * 10)


def taken(pending: list[Pending], **limit: int) -> dict[str, int]:
    ends = admit(pending, CutLimit(**limit), cut_of_tens)
    starts = {one.key: one.start for one in pending}
    return {key[1]: end - starts[key] for key, end in ends.items()}


PENDING = [Pending(("/a", "long"), 0, 1000), Pending(("/a", "one"), 5, 6), Pending(("/a", "two"), 7, 9)]


def test_without_a_limit_a_batch_has_all():
    assert taken(PENDING) == {"long": 1000, "one": 1, "two": 2}


def test_a_short_stream_does_not_wait_for_a_long_one_which_gets_what_others_leave():
    assert taken(PENDING, records=30) == {"long": 27, "one": 1, "two": 2}
    assert taken(PENDING, byte_count=300) == {"long": 27, "one": 1, "two": 2}
    assert taken(PENDING, records=30, byte_count=100) == {"long": 7, "one": 1, "two": 2}


def test_a_batch_never_has_more_records_than_it_may():
    many = [Pending(("/a", str(n)), 0, 50) for n in range(100)]
    for limit in (1, 2, 99, 100, 101, 250):
        assert sum(taken(many, records=limit).values()) <= limit
    assert len(taken(many, records=100)) == 100


def test_a_record_larger_than_the_bound_is_taken_alone():
    assert taken(PENDING, byte_count=3) == {"long": 1}


def test_streams_take_turns_where_a_batch_is_too_small_for_all():
    many = [Pending(("/a", str(n)), 0, 50) for n in range(5)]
    first = [next(iter(admit(many, CutLimit(records=2), cut_of_tens, turn)))[1] for turn in range(5)]
    assert sorted(first) == ["0", "1", "2", "3", "4"]


def test_nothing_pending_is_nothing_to_read():
    assert admit([], CutLimit(records=3), cut_of_tens, 7) == {}


def test_starting_offsets_are_a_word_or_stores_with_streams():
    assert parse_starting("startingOffsets", " Latest ") == "latest"
    assert parse_starting("startingOffsets", '{"/a": {"3": "64", "4": "latest"}}') == {"/a": {"3": "64", "4": "latest"}}
    offset = json.dumps(to_json(OFFSET))
    assert parse_starting("startingOffsets", offset) == {"/a": {"3": "4096"}, "/b": {"a": "7", "z": "9"}}
    for wrong in ("", "first", "[]", "7", '{"/a": "3"}', '{"/a": {"3": 64}}', "{"):
        with pytest.raises(UsageError, match="startingOffsets"):
            parse_starting("startingOffsets", wrong)


def test_seconds_have_units():
    texts = {"10": 10.0, "10s": 10.0, "500ms": 0.5, "2m": 120.0, "1h": 3600.0, " 0.5 s ": 0.5}
    assert {text: read_seconds("discoveryInterval", text) for text in texts} == texts
    for wrong in ("", "s", "-1", "ten", "1d", "1.2.3"):
        with pytest.raises(UsageError):
            read_seconds("discoveryInterval", wrong)
