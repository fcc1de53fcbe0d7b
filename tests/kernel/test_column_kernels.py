"""The sink of rows, compiled and its twin, where no walker is needed to show what it does."""

from __future__ import annotations

from types import ModuleType

import pytest

from everlog.kernel import _columns, columns_twin
from everlog.kernel.sources import Bytes, Null


@pytest.fixture(params=[columns_twin, _columns], ids=lambda module: module.__name__.rsplit(".", 1)[1])
def kernel(request: pytest.FixtureRequest) -> ModuleType:
    return request.param


@pytest.mark.parametrize("code", ["B", "q"])
def test_an_always_null_column_has_no_valid_row(kernel: ModuleType, code: str) -> None:
    count, taken = kernel.RowSink([("a", code, Null())], 10, 100).take()
    _, offsets, validity, null_count = taken["a"]
    assert (count, null_count, bytes(validity)) == (0, 0, b"")
    assert (offsets is None) == (code == "q")


def test_a_first_row_is_taken_however_large_it_is(kernel: ModuleType) -> None:
    sink = kernel.RowSink([("payload", "B", Bytes(0))], 10, 100)
    assert sink.has_room(5000)
    assert not sink.has_room(2**31)
