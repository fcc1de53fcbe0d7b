"""Declared layouts refuse holes and overlaps, and read and write what they say."""

from __future__ import annotations

import pytest

from everlog.errors import FileChanged
from everlog.layout import Layout, LayoutError, fixed_bytes, gap, i64, u8, u16, u32


class Sample(Layout, size=16, source="made up for this test"):
    """A sample."""

    kind: int = u8(0, "what it is")
    _free: bytes = gap(1, 1)
    port: int = u16(2)
    name: bytes = fixed_bytes(4, 4)
    time: int = i64(8)


class Network(Layout, size=4, source="made up for this test", big_endian=True):
    """Big-endian."""

    value: int = u32(0)


def test_a_class_attribute_is_the_field_and_an_instance_attribute_the_value() -> None:
    assert (Sample.port.offset, Sample.port.size, Sample.port.type_name) == (2, 2, "u16")
    data = b"\xff" + bytes([7, 0xEE, 1, 2]) + b"abcd" + (-5).to_bytes(8, "little", signed=True)
    row = Sample.unpack_from(data, 1)
    assert (row.kind, row.port, row.name, row.time) == (7, 0x0201, b"abcd", -5)
    assert row.as_dict() == {"kind": 7, "port": 513, "name": b"abcd", "time": -5}


def test_packing_writes_zero_where_nothing_is_said() -> None:
    assert Sample.pack(port=1) == bytes([0, 0, 1, 0]) + bytes(12)
    assert Network.pack(value=1) == b"\0\0\0\1"
    assert Network.unpack_from(b"\0\0\1\0").value == 256


def test_a_field_that_is_not_declared_is_refused() -> None:
    with pytest.raises(LayoutError, match="no field colour"):
        Sample.pack(colour=1)


def test_too_few_bytes_are_an_error() -> None:
    with pytest.raises(FileChanged, match="cut short: 15 bytes, expected 16 bytes"):
        Sample.unpack_from(bytes(15))


def test_a_hole_fails_when_the_class_is_made() -> None:
    with pytest.raises(LayoutError, match="hole, it starts at 4, the field before it ends at 2"):

        class _Hole(Layout, size=8, source=""):
            a: int = u16(0)
            b: int = u32(4)


def test_an_overlap_fails_when_the_class_is_made() -> None:
    with pytest.raises(LayoutError, match="overlap"):

        class _Overlap(Layout, size=6, source=""):
            a: int = u32(0)
            b: int = u32(2)


def test_a_wrong_size_fails_when_the_class_is_made() -> None:
    with pytest.raises(LayoutError, match="the fields end at 4, but size is 8"):

        class _Short(Layout, size=8, source=""):
            a: int = u32(0)


@pytest.fixture(autouse=True, scope="module")
def forget_test_layouts():
    yield
    Layout.registry[:] = [layout for layout in Layout.registry if layout.__module__ != __name__]
