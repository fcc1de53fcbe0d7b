"""Repeating groups: entries with data of their own, older and newer writers, and wrong counts. Expected bytes are put
together by hand."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Annotated, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everlog.aeron.messages import (
    HEADER_LENGTH,
    MAX_GROUP_ENTRIES,
    Int32,
    Int64,
    Message,
    MessageCodec,
    Since,
    Text,
    block_of,
)
from everlog.errors import CorruptData, UnknownMessage, UsageError

SCHEMA_ID, VERSION = 78, 4


@dataclass(frozen=True, slots=True)
class Stop(Message):
    """An entry with a text."""

    time: Int64
    platform: Annotated[Int32, Since(3)] = -1
    name: Text = ""


@dataclass(frozen=True, slots=True)
class Car(Message):
    """An entry of numbers."""

    number: Int32


@dataclass(frozen=True, slots=True)
class Train(Message):
    """Two groups, and a text after them."""

    template_id: ClassVar[int] = 5
    number: Int32
    stops: tuple[Stop, ...]
    cars: Annotated[tuple[Car, ...], Since(4)] = ()
    line: Text = ""


CODEC = MessageCodec(SCHEMA_ID, VERSION, (Train,))
TRAIN = Train(7, (Stop(1, 2, "a"), Stop(3, 4, "bcd")), (Car(8), Car(9), Car(10)), "x")


def header(version: int = VERSION) -> bytes:
    return struct.pack("<HHHH", 4, 5, SCHEMA_ID, version)


def text(content: bytes) -> bytes:
    return struct.pack("<I", len(content)) + content


STOPS = struct.pack("<HH", 12, 2) + struct.pack("<qi", 1, 2) + text(b"a") + struct.pack("<qi", 3, 4) + text(b"bcd")
CARS = struct.pack("<HHiii", 4, 3, 8, 9, 10)
WHOLE = header() + struct.pack("<i", 7) + STOPS + CARS + text(b"x")


def test_a_group_is_its_entries_block_length_their_number_and_the_entries() -> None:
    assert CODEC.encode(TRAIN) == WHOLE
    assert CODEC.decode(WHOLE) == TRAIN
    assert CODEC.decode(memoryview(WHOLE)) == TRAIN


def test_a_group_may_be_empty() -> None:
    empty = header() + struct.pack("<i", 7) + struct.pack("<HHHH", 12, 0, 4, 0) + text(b"")
    assert CODEC.encode(Train(7, ())) == empty
    assert CODEC.decode(empty) == Train(7, ())


def test_groups_are_described_with_their_fields() -> None:
    stops, cars = block_of(Train).groups
    assert (stops.name, stops.head_size, stops.since, stops.block.size) == ("stops", 4, 0, 12)
    assert [(field.name, field.offset, field.since) for _, field in stops.block.fields()] == [
        ("time", 0, 0),
        ("platform", 8, 3),
    ]
    assert [part.name for part in stops.block.var_data] == ["name"]
    assert (cars.name, cars.since, cars.block.size) == ("cars", 4, 4)


def test_an_older_writers_entries_are_shorter_and_have_defaults() -> None:
    stops = struct.pack("<HHq", 8, 1, 5) + text(b"old")
    message = header(2) + struct.pack("<i", 7) + stops + text(b"x")
    assert CODEC.decode(message) == Train(7, (Stop(5, -1, "old"),), (), "x")


def test_a_newer_writers_entries_are_longer_and_are_stepped_over() -> None:
    stops = struct.pack("<HH", 16, 2) + struct.pack("<qii", 1, 2, 99) + text(b"a") + struct.pack("<qii", 3, 4, 99)
    message = header(9) + struct.pack("<i", 7) + stops + text(b"bcd") + CARS + text(b"x")
    assert CODEC.decode(message) == TRAIN


def test_a_codec_of_an_older_version_leaves_out_what_came_later() -> None:
    older = MessageCodec(SCHEMA_ID, 2, (Train,))
    stops = struct.pack("<HH", 8, 2) + struct.pack("<q", 1) + text(b"a") + struct.pack("<q", 3) + text(b"bcd")
    expected = header(2) + struct.pack("<i", 7) + stops + text(b"x")
    assert older.encode(TRAIN) == expected
    assert CODEC.decode(expected) == Train(7, (Stop(1, -1, "a"), Stop(3, -1, "bcd")), (), "x")


@pytest.mark.parametrize(("length", "count"), [(12, 3), (12, 0xFFFE), (0, 0xFFFE), (0xFFFF, 1), (12, 0xFFFF)])
def test_a_number_of_entries_that_leads_out_of_the_message_is_refused_before_any_is_made(
    length: int, count: int
) -> None:
    message = header() + struct.pack("<i", 7) + struct.pack("<HH", length, count) + bytes(30)
    with pytest.raises(CorruptData, match=f"{count} stops of {length} bytes") as raised:
        CODEC.decode(message)
    assert raised.value.offset == HEADER_LENGTH + 4


def test_a_number_that_stands_for_none_is_refused_even_if_there_is_room() -> None:
    message = header() + struct.pack("<i", 7) + struct.pack("<HH", 12, 0xFFFF) + bytes(0xFFFF * 16)
    with pytest.raises(CorruptData, match="at most 65534"):
        CODEC.decode(message)


def test_entries_without_a_field_of_the_first_version_are_refused() -> None:
    message = header() + struct.pack("<i", 7) + struct.pack("<HH", 0, 4) + bytes(30)
    with pytest.raises(CorruptData, match=r"Stop\.time at 0"):
        CODEC.decode(message)


def test_a_message_that_is_cut_anywhere_is_refused() -> None:
    """Also where ``cars`` would begin, as an earlier writer's line does: there is none."""
    for length in range(len(WHOLE)):
        with pytest.raises(CorruptData):
            CODEC.decode(WHOLE[:length])


def test_more_entries_than_a_group_can_number_are_not_written() -> None:
    cars = (Car(1),) * (MAX_GROUP_ENTRIES + 1)
    with pytest.raises(UsageError, match="65535 entries"):
        CODEC.encode(Train(7, (), cars))
    message = CODEC.decode(CODEC.encode(Train(7, (), cars[1:])))
    assert isinstance(message, Train)
    assert len(message.cars) == MAX_GROUP_ENTRIES


INT32, INT64 = st.integers(-(1 << 31), (1 << 31) - 1), st.integers(-(1 << 63), (1 << 63) - 1)
ASCII = st.text(st.characters(max_codepoint=127), max_size=20)
STOP, CAR = st.builds(Stop, INT64, INT32, ASCII), st.builds(Car, INT32)


@given(st.builds(Train, INT32, st.lists(STOP).map(tuple), st.lists(CAR).map(tuple), ASCII))
def test_any_groups_are_read_as_they_were_written(message: Train) -> None:
    assert CODEC.decode(CODEC.encode(message)) == message


@given(st.integers(0, len(WHOLE)), st.binary(max_size=60), st.integers(0, len(WHOLE)))
def test_no_bytes_make_it_fail_otherwise(start: int, put: bytes, end: int) -> None:
    try:
        message = CODEC.decode(WHOLE[:start] + put + WHOLE[end:])
    except (CorruptData, UnknownMessage):
        return
    assert isinstance(message, Train)
