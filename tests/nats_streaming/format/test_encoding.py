"""What is encoded has the bytes of the real server."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from everlog.errors import LimitExceeded
from everlog.kernel.crc32 import CASTAGNOLI, IEEE, Crc32
from everlog.nats_streaming.format.encoding import VERSION_WORD, MessageEncoder, encode_index_record, encode_record
from everlog.nats_streaming.format.layouts import MAX_TYPED_BYTES
from everlog.nats_streaming.format.messages import ClientInfo, MsgProto, ServerInfo, SubState
from everlog.nats_streaming.format.protobuf import varint


def records(data: bytes) -> list[tuple[int, bytes]]:
    """Type and payload of each record of a sound file."""
    found, at = [], 4
    while at < len(data):
        word, _ = struct.unpack_from("<II", data, at)
        length = word & 0xFFFFFF
        found.append((word >> 24, data[at + 8 : at + 8 + length]))
        at += 8 + length
    return found


@pytest.mark.parametrize(
    ("store", "polynomial"), [("basic_sigterm", IEEE), ("lim_max_msgs", IEEE), ("crc_poly_castagnoli", CASTAGNOLI)]
)
def test_slices_of_the_real_server_are_encoded_again_byte_for_byte(
    golden: Callable[[str], Path], store: str, polynomial: int
) -> None:
    crc, count = Crc32(polynomial), 0
    for dat in golden(store).glob("*/msgs.*.dat"):
        again, index = bytearray(VERSION_WORD), bytearray(VERSION_WORD)
        encoder = MessageEncoder(dat.parent.name.encode())
        for _, payload in records(dat.read_bytes()):
            message = MsgProto.parse(payload)
            index += encode_index_record(message.sequence, len(again), message.timestamp, len(payload), crc)
            encoded = message.encode()
            if not message.reply:
                assert encoder.encode(message.sequence, message.data, message.timestamp) == encoded
            again += encode_record(encoded, crc)
            count += 1
        assert bytes(again) == dat.read_bytes()
        assert bytes(index) == dat.with_suffix(".idx").read_bytes()
    assert count > 0


def test_the_other_files_of_the_real_server_are_encoded_again_byte_for_byte(golden: Callable[[str], Path]) -> None:
    root, crc = golden("basic_sigterm"), Crc32(IEEE)
    ((_, payload),) = records((root / "server.dat").read_bytes())
    assert VERSION_WORD + encode_record(ServerInfo.parse(payload).encode(), crc) == (root / "server.dat").read_bytes()
    added = [payload for kind, payload in records((root / "clients.dat").read_bytes()) if kind == 1]
    assert added
    assert [ClientInfo.parse(payload).encode() for payload in added] == added
    states = [p for subs in root.glob("*/subs.dat") for kind, p in records(subs.read_bytes()) if kind in (1, 2)]
    assert states
    assert [SubState.parse(payload).encode() for payload in states] == states


def test_a_typed_record_has_its_type_in_the_upper_byte() -> None:
    assert (
        encode_record(b"\x08\x05", Crc32(IEEE), 3)
        == struct.pack("<II", 0x03000002, zlib.crc32(b"\x08\x05")) + b"\x08\x05"
    )


def test_a_payload_that_its_header_cannot_describe_is_refused() -> None:
    encode_record(bytes(MAX_TYPED_BYTES), Crc32(IEEE), 1)
    with pytest.raises(LimitExceeded, match="16777216 bytes"):
        encode_record(bytes(MAX_TYPED_BYTES + 1), Crc32(IEEE), 1)


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (0, "00"),
        (127, "7f"),
        (128, "8001"),
        (300, "ac02"),
        (-1, "ffffffffffffffffff01"),
        (2**64 - 1, "ffffffffffffffffff01"),
    ],
)
def test_varints_are_those_of_the_protobuf_documentation(value: int, encoded: str) -> None:
    assert varint(value).hex() == encoded
