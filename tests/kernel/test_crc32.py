"""CRC-32 with any polynomial. Check values: the "check" column of the CRC catalogue, the CRC of ``123456789``."""

from __future__ import annotations

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everlog.errors import UsageError
from everlog.kernel import _crc32, crc32_twin

KERNELS = [crc32_twin.Crc32, _crc32.Crc32]


@pytest.mark.parametrize("crc", KERNELS)
@pytest.mark.parametrize(
    ("polynomial", "check"),
    [(0xEDB88320, 0xCBF43926), (0x82F63B78, 0xE3069283), (0xD419CC15, 0x87315576)],
    ids=["CRC-32/ISO-HDLC", "CRC-32/ISCSI", "CRC-32/BASE91-D"],
)
def test_the_check_value_of_the_catalogue(crc: type[crc32_twin.Crc32], polynomial: int, check: int) -> None:
    assert crc(polynomial).checksum(b"123456789") == check
    assert crc(polynomial).checksum(b"xx123456789yy", 2, 11) == check
    assert crc(polynomial).checksum(b"") == 0


@pytest.mark.parametrize("crc", KERNELS)
@pytest.mark.parametrize("polynomial", [0, -1, 2**32])
def test_a_polynomial_out_of_range_is_refused(crc: type[crc32_twin.Crc32], polynomial: int) -> None:
    with pytest.raises(UsageError, match="1 to 4294967295"):
        crc(polynomial)


@given(st.binary(max_size=200), st.integers(1, 0xFFFFFFFF))
def test_all_agree_on_any_bytes_and_polynomial(data: bytes, polynomial: int) -> None:
    assert len({crc(polynomial).checksum(data) for crc in KERNELS}) == 1
    assert all(crc().checksum(data) == zlib.crc32(data) for crc in KERNELS)
