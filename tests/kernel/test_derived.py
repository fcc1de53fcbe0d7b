"""Columns made of columns, compiled and their twins: each against values worked out here, and against each other."""

from __future__ import annotations

import zlib
from array import array
from itertools import pairwise
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everlog.kernel import _derived, derived_twin

KERNELS = [derived_twin, _derived]

INT64 = st.integers(-(2**63), 2**63 - 1)


def numbers(*values: int) -> memoryview:
    return memoryview(array("q", values))


def texts(pair: tuple[memoryview, memoryview], count: int) -> list[str]:
    offsets, data = pair
    ends = offsets.tolist()
    assert len(ends) == count + 1
    assert ends[0] == 0
    return [bytes(data[a:b]).decode() for a, b in pairwise(ends)]


@pytest.fixture(params=KERNELS, ids=lambda module: module.__name__.rsplit(".", 1)[1])
def kernel(request: pytest.FixtureRequest) -> ModuleType:
    return request.param


def test_numbers_become_decimal_text(kernel: ModuleType) -> None:
    made = kernel.decimal_text(numbers(0, -1, 4096, 2**63 - 1, -(2**63)), 5)
    assert texts(made, 5) == ["0", "-1", "4096", "9223372036854775807", "-9223372036854775808"]


def test_numbers_in_a_row_become_text_each_by_itself(kernel: ModuleType) -> None:
    starts = [0, 9_990, 10_000, 123_450_000, 2**63 - 40_000, -2, -10_002, -(2**63)]
    values = [start + step for start in starts for step in (0, 1, 9, 64, 9_999, 10_000, 9_999)]
    assert texts(kernel.decimal_text(numbers(*values), len(values)), len(values)) == [str(value) for value in values]


def test_pairs_become_the_hex_text_that_jlogctl_prints(kernel: ModuleType) -> None:
    made = kernel.hex_pair_text(numbers(5, 0, 2**32 - 1), numbers(3, 0, 0xABCDEF), 3)
    assert texts(made, 3) == ["00000005:00000003", "00000000:00000000", "ffffffff:00abcdef"]


def test_the_same_text_is_repeated(kernel: ModuleType) -> None:
    assert texts(kernel.repeated_text("é".encode(), 3), 3) == ["é", "é", "é"]
    assert texts(kernel.repeated_text(b"", 2), 2) == ["", ""]


def test_division_rounds_down_for_negative_times_too(kernel: ModuleType) -> None:
    assert kernel.floor_divide(numbers(1999, -1, -1000, -1001, 0), 1000, 5).tolist() == [1, -1, -1, -2, 0]


def test_products_wrap_to_64_bits(kernel: ModuleType) -> None:
    assert kernel.multiply(numbers(3, -2, 2**62), 1000, 3).tolist() == [3000, -2000, 0]


def test_each_value_gets_its_own_crc(kernel: ModuleType) -> None:
    values = memoryview(b"123456789a")
    offsets = memoryview(array("i", [0, 9, 9, 10]))
    assert kernel.crc32_of_values(offsets, values, 3).tolist() == [0xCBF43926, 0, 0xE8B7BE43]


def test_a_kernel_takes_no_more_values_than_there_are_rows(kernel: ModuleType) -> None:
    assert texts(kernel.decimal_text(numbers(1, 2, 3), 2), 2) == ["1", "2"]
    assert texts(kernel.decimal_text(numbers(), 0), 0) == []


NAMES = {1: b"Buy", 2: b"Sell", 200: "Ärger".encode(), -1: b"Unknown", 70_000: b"L" * 100, 2**63 - 1: b""}


def named(kernel: ModuleType, values: list[int], others: int, present: list[bool] | None = None) -> list[str | None]:
    bits = None
    if present is not None:
        bits = memoryview(
            sum(there << i for i, there in enumerate(present)).to_bytes((len(present) + 7) // 8, "little")
        )
    data, offsets, validity, nulls = kernel.named_text(numbers(*values), bits, NAMES, others, len(values))
    found = texts((offsets, data), len(values))
    there = [validity is None or bool(validity[i >> 3] >> (i & 7) & 1) for i in range(len(values))]
    assert there.count(False) == nulls
    assert (validity is None) == (nulls == 0)
    assert all(is_there or not text for text, is_there in zip(found, there, strict=True))
    return [text if is_there else None for text, is_there in zip(found, there, strict=True)]


def test_numbers_become_their_names(kernel: ModuleType) -> None:
    known = named(kernel, [2, 1, 200, -1, 70_000, 2**63 - 1], derived_twin.AS_NULL)
    assert known == ["Sell", "Buy", "Ärger", "Unknown", "L" * 100, ""]


@pytest.mark.parametrize(
    ("others", "expected"),
    [
        (derived_twin.AS_NULL, [None, None, None, None, None]),
        (derived_twin.AS_NUMBER, ["65", "233", "300", "-2", "-9223372036854775808"]),
        (derived_twin.AS_UNSIGNED, ["65", "233", "300", "18446744073709551614", "9223372036854775808"]),
        (derived_twin.AS_CHARACTER, ["A", "é", "300", "-2", "-9223372036854775808"]),
    ],
)
def test_a_number_without_a_name_becomes_what_was_asked_for(
    kernel: ModuleType, others: int, expected: list[str | None]
) -> None:
    assert named(kernel, [65, 233, 300, -2, -(2**63)], others) == expected


def test_nulls_have_no_names(kernel: ModuleType) -> None:
    present = [True, False, True, False, True, True, True, True, False, True]
    found = named(kernel, [1, 1, 2, 7, 7, 1, 1, 1, 2, 2], derived_twin.AS_NUMBER, present)
    assert found == ["Buy", None, "Sell", None, "7", "Buy", "Buy", "Buy", None, "Sell"]
    assert named(kernel, [], derived_twin.AS_NUMBER) == []


@given(st.lists(INT64 | st.sampled_from(sorted(NAMES)), max_size=50), st.integers(0, 3), st.data())
def test_both_kernels_give_any_numbers_the_same_names(values: list[int], others: int, data: st.DataObject) -> None:
    present = data.draw(st.none() | st.lists(st.booleans(), min_size=len(values), max_size=len(values)))
    assert named(_derived, values, others, present) == named(derived_twin, values, others, present)


def test_many_long_names_have_room(kernel: ModuleType) -> None:
    assert named(kernel, [70_000] * 20_000, derived_twin.AS_NULL) == ["L" * 100] * 20_000


@given(st.lists(INT64, max_size=50))
def test_both_kernels_agree_on_any_numbers(values: list[int]) -> None:
    column, count = numbers(*values), len(values)
    for name, args in (("decimal_text", ()), ("floor_divide", (1000,)), ("multiply", (1_000_000,))):
        results = []
        for kernel in KERNELS:
            made = getattr(kernel, name)(column, *args, count)
            results.append([bytes(part) for part in made] if isinstance(made, tuple) else bytes(made))
        assert results[0] == results[1], name


@given(st.lists(st.binary(max_size=70), max_size=20))
def test_crcs_equal_zlibs_for_any_bytes(items: list[bytes]) -> None:
    offsets = array("i", [0])
    for item in items:
        offsets.append(offsets[-1] + len(item))
    for kernel in KERNELS:
        made = kernel.crc32_of_values(memoryview(offsets), memoryview(b"".join(items)), len(items))
        assert made.tolist() == [zlib.crc32(item) for item in items]
