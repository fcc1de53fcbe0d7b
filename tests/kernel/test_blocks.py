"""Blocks of SBE messages into columns: the compiled module and its twin, against values worked out here."""

from __future__ import annotations

import struct
from array import array
from itertools import accumulate
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everlog.fields import Field
from everlog.kernel import _blocks, blocks_twin
from everlog.kernel.blocks_twin import CUT, NO_TEMPLATE, OTHER_SCHEMA, READY, SHORT

KERNELS = [blocks_twin, _blocks]
HEADER = tuple(Field(2 * i, "H", name=name) for i, name in enumerate(("length", "template", "schema", "version")))
BIG_HEADER = tuple(Field(2 * i, "H", big_endian=True) for i in range(4))
SCHEMA = 9


@pytest.fixture(params=KERNELS, ids=lambda module: module.__name__.rsplit(".", 1)[1])
def kernel(request: pytest.FixtureRequest) -> ModuleType:
    return request.param


def message(
    block: bytes, template: int = 1, schema: int = SCHEMA, version: int = 0, length: int | None = None
) -> bytes:
    return struct.pack("<4H", len(block) if length is None else length, template, schema, version) + block


def blocks(kernel: ModuleType, *payloads: bytes, header: tuple[Field, ...] = HEADER, header_size: int = 8) -> Any:
    offsets = memoryview(array("i", [0, *accumulate(map(len, payloads))]))
    return kernel.Blocks(offsets, memoryview(b"".join(payloads)), len(payloads), header, header_size, SCHEMA)


def rows(taken: Any, count: int) -> list[Any]:
    values, offsets, validity, nulls = taken
    ends = None if offsets is None else offsets.tolist()
    out = values.tolist() if ends is None else [bytes(values[ends[i] : ends[i + 1]]) for i in range(count)]
    assert (validity is None) == (nulls == 0)
    if validity is not None:
        out = [value if validity[i >> 3] >> (i & 7) & 1 else None for i, value in enumerate(out)]
    assert out.count(None) == nulls
    assert len(out) == count
    return out


def test_headers_tell_what_each_payload_is(kernel: ModuleType) -> None:
    made = blocks(kernel, message(b"ab"), b"", message(b"")[:7], message(b"", schema=8), message(b"ab", 5, length=3))
    assert made.statuses.tolist() == [READY, SHORT, SHORT, OTHER_SCHEMA, CUT]
    assert made.templates.tolist() == [1, NO_TEMPLATE, NO_TEMPLATE, NO_TEMPLATE, 5]


def test_payloads_of_one_header_are_told_apart_from_the_first_that_has_another(kernel: ModuleType) -> None:
    same = [message(b"abcd", 3, version=2)] * 5
    number = Field(2, "H", since=2)
    made = blocks(kernel, *same)
    assert (made.common, made.whole(3, 4), made.whole(3, 5).tolist(), made.whole(4, 0).tolist()) == (
        *(3, None),
        *([0] * 5, [0] * 5),
    )
    assert rows(made.numbers([(3, number)], "i"), 5) == [int.from_bytes(b"cd", "little")] * 5
    assert rows(made.numbers([(3, number)], "q"), 5) == [int.from_bytes(b"cd", "little")] * 5
    assert rows(made.texts([(3, Field(1, "s", 3))], to_nul=False), 5) == [b"bcd"] * 5
    assert (made.statuses.tolist(), made.templates.tolist()) == ([READY] * 5, [3] * 5)
    for other, status, template in (
        (message(b"abcd", 3, version=1), READY, 3),
        (message(b"abcdef", 3, version=2), READY, 3),
        (message(b"abcd", 2, version=2), READY, 2),
        (same[0][:-1], CUT, 3),
        (same[0][:-5], SHORT, NO_TEMPLATE),
        (message(b"abcd", 3, 8, 2), OTHER_SCHEMA, NO_TEMPLATE),
    ):
        made = blocks(kernel, *same, other, *same)
        assert made.statuses.tolist() == [READY] * 5 + [status] + [READY] * 5
        assert made.templates.tolist() == [3] * 5 + [template] + [3] * 5
        assert made.common == (3 if (status, template) == (READY, 3) else NO_TEMPLATE)
        has_it = status == READY and template == 3 and other[6] == 2
        expected = [int.from_bytes(b"cd", "little")] * 11
        assert rows(made.numbers([(3, number)], "i"), 11) == [
            *expected[:5],
            expected[5] if has_it else None,
            *expected[6:],
        ]
        whole = made.whole(3, 4)
        chosen = status == READY and template == 3
        assert whole is None if chosen else whole.tolist() == [1] * 5 + [0] + [1] * 5


@pytest.mark.parametrize("size", [4, 11])
def test_headers_that_are_shorter_and_longer_than_8_bytes(kernel: ModuleType, size: int) -> None:
    """What is behind the four fields is the header's, too, and may differ."""
    header = tuple(Field(i, "B") for i in range(4))
    payloads = [bytes((2, 1, SCHEMA, 0)) + bytes((i % 2,)) * (size - 4) + b"ab" for i in range(6)]
    made = blocks(kernel, *payloads, payloads[0][:-1], header=header, header_size=size)
    assert made.statuses.tolist() == [READY] * 6 + [CUT]
    assert rows(made.numbers([(1, Field(1, "b"))], "h"), 7) == [98] * 6 + [None]


@pytest.mark.parametrize(
    ("code", "out", "data", "value"),
    [
        ("b", "h", b"\xfe", -2),
        ("B", "h", b"\xfe", 254),
        ("h", "h", b"\xfe\xff", -2),
        ("H", "i", b"\xfe\xff", 65534),
        ("i", "i", b"\xfe\xff\xff\xff", -2),
        ("I", "q", b"\xfe\xff\xff\xff", 2**32 - 2),
        ("q", "q", b"\xfe" + b"\xff" * 7, -2),
        ("Q", "Q", b"\xfe" + b"\xff" * 7, 2**64 - 2),
        ("Q", "q", b"\x01" + b"\0" * 7, 1),
        ("b", "q", b"\xfe", -2),
        ("H", "q", b"\xfe\xff", 65534),
        ("i", "q", b"\xfe\xff\xff\xff", -2),
        ("f", "f", b"\x00\x00\x80\x3f", 1.0),
        ("d", "d", b"\0\0\0\0\0\0\xf0\xbf", -1.0),
    ],
)
@pytest.mark.parametrize("big_endian", [False, True])
def test_numbers_of_every_type_and_both_orders(
    kernel: ModuleType, code: str, out: str, data: bytes, value: float, big_endian: bool
) -> None:
    data = data[::-1] if big_endian else data
    field = Field(3, code, big_endian=big_endian)
    every = blocks(kernel, *[message(b"xyz" + data)] * 3)
    assert rows(every.numbers([(1, field)], out), 3) == [value] * 3
    mixed = blocks(kernel, message(b"xyz" + data), b"?", message(b"xyz" + data, 2))
    assert rows(mixed.numbers([(1, field)], out), 3) == [value, None, None]
    assert rows(mixed.numbers([(1, field), (2, field)], out), 3) == [value, None, value]


@pytest.mark.parametrize(
    ("code", "out", "null", "is_null", "is_none"),
    [
        ("b", "h", -128, b"\x80", b"\x7f"),
        ("B", "h", 255, b"\xff", b"\x7f"),
        ("H", "i", 65535, b"\xff\xff", b"\xff\x7f"),
        ("i", "i", -7, b"\xf9\xff\xff\xff", b"\xf8\xff\xff\xff"),
        ("I", "q", 2**32 - 1, b"\xff" * 4, b"\xfe\xff\xff\xff"),
        ("q", "q", -(2**63), b"\0" * 7 + b"\x80", b"\0" * 8),
        ("Q", "Q", 2**64 - 1, b"\xff" * 8, b"\xff" * 7 + b"\x7f"),
        ("Q", "q", 2**64 - 1, b"\xff" * 8, b"\xff" * 7 + b"\x7f"),
        ("f", "f", float("nan"), b"\x00\x00\xc0\x7f", b"\0" * 4),
        ("f", "f", 1.0, b"\x00\x00\x80\x3f", b"\0" * 4),
        ("d", "d", float("nan"), b"\x01\0\0\0\0\0\xf8\xff", b"\0" * 8),
        ("d", "d", -1.0, b"\0\0\0\0\0\0\xf0\xbf", b"\0" * 8),
    ],
)
def test_null_values_are_null_and_others_are_not(
    kernel: ModuleType, code: str, out: str, null: float, is_null: bytes, is_none: bytes
) -> None:
    field = Field(0, code, null=null)
    payloads = [message(is_none)] * 8 + [message(is_null), message(is_none)]
    for extra in ([], [b"short"]):
        found = rows(blocks(kernel, *payloads, *extra).numbers([(1, field)], out), 10 + len(extra))
        assert [i for i, value in enumerate(found) if value is None] == [8] + [10] * len(extra)


def test_an_unsigned_number_above_the_largest_signed_one_is_null_in_a_signed_column(kernel: ModuleType) -> None:
    payloads = [message(struct.pack("<Q", value)) for value in (2**63, 2**63 - 1, 0)]
    assert rows(blocks(kernel, *payloads).numbers([(1, Field(0, "Q"))], "q"), 3) == [None, 2**63 - 1, 0]


def test_a_field_of_a_later_version_or_behind_the_block_is_null(kernel: ModuleType) -> None:
    field = Field(4, "I", since=2)
    block = bytes(4) + b"\x05\0\0\0"
    payloads = [message(block, version=1), message(block, version=2), message(block[:7], version=3)]
    assert rows(blocks(kernel, *payloads).numbers([(1, field)], "q"), 3) == [None, 5, None]
    for payload in payloads[::2]:
        assert rows(blocks(kernel, payload, payload).numbers([(1, field)], "q"), 2) == [None, None]


def test_a_field_is_not_taken_from_bytes_behind_a_shorter_block(kernel: ModuleType) -> None:
    payload = message(b"\x01\0\0\0" + b"\xee" * 8, length=4)
    assert rows(blocks(kernel, payload).numbers([(1, Field(4, "I"))], "q"), 1) == [None]


def test_texts_end_at_their_first_nul(kernel: ModuleType) -> None:
    field = Field(1, "s", 4)
    payloads = [message(b"-" + text) for text in (b"abcd", b"ab\0d", b"\0bcd")] + [b""]
    assert rows(blocks(kernel, *payloads).texts([(1, field)], to_nul=True), 4) == [b"abcd", b"ab", b"", None]
    assert rows(blocks(kernel, *payloads).texts([(1, field)], to_nul=False), 4) == [b"abcd", b"ab\0d", b"\0bcd", None]
    field.null = 0
    assert rows(blocks(kernel, *payloads[1:3]).texts([(1, field)], to_nul=True), 2) == [b"ab", None]


def test_headers_of_big_endian_numbers_are_read(kernel: ModuleType) -> None:
    payload = struct.pack(">4H", 2, 700, SCHEMA, 3) + b"\x01\x02"
    made = blocks(kernel, payload, header=BIG_HEADER)
    assert made.templates.tolist() == [700]
    assert rows(made.numbers([(700, Field(0, "h", big_endian=True, since=3))], "h"), 1) == [0x0102]


def test_no_payloads_make_empty_columns(kernel: ModuleType) -> None:
    made = blocks(kernel)
    assert (made.templates.tolist(), made.statuses.tolist()) == ([], [])
    assert rows(made.numbers([(1, Field(0, "q"))], "q"), 0) == []
    assert rows(made.texts([(1, Field(0, "s", 4))], to_nul=True), 0) == []
    assert rows(blocks(kernel, b"", b"").numbers([], "q"), 2) == [None, None]


@pytest.mark.parametrize("offsets", [[-1, 2], [0, 3], [0, 2, 1], [0]])
def test_offsets_that_lead_outside_are_refused(kernel: ModuleType, offsets: list[int]) -> None:
    with pytest.raises(ValueError, match="offsets"):
        kernel.Blocks(memoryview(array("i", offsets)), memoryview(b"ab"), max(len(offsets) - 1, 1), HEADER, 8, SCHEMA)


def test_a_field_that_does_not_fit_its_column_is_refused(kernel: ModuleType) -> None:
    for code, out in (("q", "i"), ("Q", "d"), ("f", "d"), ("s", "h"), ("H", "h")):
        with pytest.raises(ValueError, match="does not fit"):
            blocks(kernel, b"").numbers([(1, Field(0, code))], out)
    with pytest.raises(ValueError, match="does not fit"):
        blocks(kernel, b"").numbers([(1, Field(0, "q", 2))], "q")
    with pytest.raises(ValueError, match="header"):
        blocks(kernel, b"", header=(Field(6, "I"), *HEADER[1:]))


PAYLOAD = st.one_of(
    st.binary(max_size=30),
    st.builds(
        message,
        st.binary(max_size=20),
        st.integers(1, 2),
        st.sampled_from([SCHEMA, SCHEMA, 3]),
        st.integers(0, 3),
        st.one_of(st.none(), st.integers(0, 30)),
    ),
)


RUNS = st.lists(st.builds(lambda payload, count: [payload] * count, PAYLOAD, st.integers(1, 4)), max_size=12)


@given(
    RUNS,
    st.sampled_from("bBhHiIqQfd"),
    st.integers(0, 12),
    st.integers(0, 3),
    st.booleans(),
    st.sampled_from([None, 0, 1]),
)
def test_both_kernels_agree_on_any_payloads(
    runs: list[list[bytes]], code: str, offset: int, since: int, big_endian: bool, null: int | None
) -> None:
    payloads = [payload for run in runs for payload in run]
    field = Field(offset, code, big_endian=big_endian, since=since, null=null)
    out = {"b": "h", "B": "h", "h": "h", "H": "i", "i": "i", "I": "q", "q": "q"}.get(code, code)
    results = []
    for kernel in KERNELS:
        made = blocks(kernel, *payloads)
        numbers = [rows(made.numbers(picks, out), len(payloads)) for picks in ([(1, field)], [(1, field), (2, field)])]
        text = Field(offset, "s", 5, since=since, null=null)
        texts = [rows(made.texts([(1, text)], to_nul=flag), len(payloads)) for flag in (True, False)]
        whole = made.whole(1, offset)
        common = made.common, None if whole is None else whole.tolist()
        results.append(repr((common, made.statuses.tolist(), made.templates.tolist(), numbers, texts)))
    assert results[0] == results[1]
