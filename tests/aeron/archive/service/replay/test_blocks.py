"""The compiled preparer of blocks and its twin, on frames laid by hand."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from everlog.aeron.archive.service.replay import _blocks, blocks_twin
from everlog.aeron.archive.service.replay.blocks_twin import DAMAGED, NO_FRAME, WRONG_CHECKSUM
from everlog.errors import UsageError
from everlog.kernel import _crc32, crc32_twin
from tests.aeron.frames.framed_messages import INITIAL_TERM, MTU, TERM, frame, padding

OWN_SESSION, OWN_STREAM = -12345, 77
KERNELS = [
    pytest.param((blocks_twin.Preparer, crc32_twin.Crc32), id="twin"),
    pytest.param((_blocks.Preparer, _crc32.Crc32), id="compiled"),
]


@pytest.fixture(params=KERNELS)
def kernel(request: pytest.FixtureRequest) -> Any:
    return request.param


def prepared(kernel: Any, data: bytes, limit: int | None = None, offset: int = 0, **other: Any) -> tuple[Any, bytes]:
    preparer = kernel[0](OWN_SESSION, OWN_STREAM, MTU, TERM, other.get("crc"))
    block = memoryview(bytearray(data))
    read = other.get("read", len(data))
    found = preparer.prepare(block, read, len(data) if limit is None else limit, offset, INITIAL_TERM)
    return found, bytes(block)


def own(position: int, payload: bytes) -> bytes:
    return frame(position, payload, session=OWN_SESSION, stream=OWN_STREAM)


def test_frames_get_the_ids_of_the_publication(kernel: Any) -> None:
    data = frame(64, b"one") + frame(128, b"") + frame(160, b"x" * 33)
    expected = own(64, b"one") + own(128, b"") + own(160, b"x" * 33)
    assert prepared(kernel, data, offset=64) == ((len(data), 0), expected)


def test_a_frame_that_is_not_whole_is_left(kernel: Any) -> None:
    data = frame(0, b"one") + frame(64, b"x" * 100)
    assert prepared(kernel, data, read=64 + 31) == ((64, 0), own(0, b"one") + data[64:])
    assert prepared(kernel, data, read=len(data) - 1) == ((64, 0), own(0, b"one") + data[64:])
    assert prepared(kernel, data, read=20) == ((0, 0), data)
    assert prepared(kernel, data, read=0) == ((0, 0), data)


def test_a_frame_that_begins_before_the_limit_is_whole(kernel: Any) -> None:
    data = frame(0, b"one") + frame(64, b"two") + frame(128, b"three")
    assert prepared(kernel, data, 65)[0] == (128, 0)
    assert prepared(kernel, data, 64)[0] == (64, 0)
    assert prepared(kernel, data, 0)[0] == (0, 0)


def test_padding_follows_with_its_length(kernel: Any) -> None:
    data = frame(TERM - 128, b"last") + padding(TERM - 64)
    assert prepared(kernel, data, offset=TERM - 128)[0] == (64, 64)
    assert prepared(kernel, data, 64, offset=TERM - 128)[0] == (64, 0)


@pytest.mark.parametrize("length", [0, -1, 31, -(1 << 31)])
def test_a_length_that_no_frame_has(kernel: Any, length: int) -> None:
    data = frame(0, b"one") + frame(64, b"two", length=length)
    assert prepared(kernel, data) == ((64, NO_FRAME), own(0, b"one") + data[64:])


@pytest.mark.parametrize(
    "other", [{"term_offset": 96}, {"term_id": INITIAL_TERM + 1}, {"kind": 2}, {"length": MTU + 1}, {"length": TERM}]
)
def test_a_frame_that_can_not_be_there(kernel: Any, other: dict[str, int]) -> None:
    data = frame(0, b"one") + frame(64, b"x" * 400, **other)
    assert prepared(kernel, data) == ((64, DAMAGED), own(0, b"one") + data[64:])


def test_a_frame_beyond_its_terms_end(kernel: Any) -> None:
    data = frame(TERM - 64, b"x" * 64)
    assert prepared(kernel, data, offset=TERM - 64)[0] == (0, DAMAGED)
    data = frame(TERM - 64, b"", kind=0, length=96)
    assert prepared(kernel, data, offset=TERM - 64)[0] == (0, DAMAGED)
    data = frame(TERM - 64, b"", kind=0, length=(1 << 31) - 1)
    assert prepared(kernel, data, offset=TERM - 64)[0] == (0, DAMAGED)


@pytest.mark.parametrize("polynomial", [crc32_twin.IEEE, crc32_twin.CASTAGNOLI])
def test_checksums_are_compared_before_the_ids_are_set(kernel: Any, polynomial: int) -> None:
    crc = kernel[1](polynomial)

    def with_checksum(position: int, payload: bytes) -> bytes:
        checksum = crc32_twin.Crc32(polynomial).checksum(payload + bytes(-len(payload) % 32))
        return frame(position, payload, session=struct.unpack("<i", struct.pack("<I", checksum))[0])

    data = with_checksum(0, b"one") + with_checksum(64, b"x" * 64) + padding(160)
    assert prepared(kernel, data, crc=crc) == ((160, TERM - 160), own(0, b"one") + own(64, b"x" * 64) + padding(160))
    torn = bytearray(data)
    torn[100] ^= 1
    assert prepared(kernel, bytes(torn), crc=crc) == ((64, WRONG_CHECKSUM), own(0, b"one") + bytes(torn[64:]))
    torn = bytearray(data)
    torn[60] ^= 1  # behind the payload
    assert prepared(kernel, bytes(torn), crc=crc)[0] == (0, WRONG_CHECKSUM)


def test_more_bytes_than_the_block_has_are_refused(kernel: Any) -> None:
    with pytest.raises(UsageError, match="33 bytes read"):
        prepared(kernel, bytes(32), read=33)
