"""Captures of the real system's datagrams, and what tshark says about each."""

from __future__ import annotations

import gzip
import re
import struct
from collections.abc import Iterator

import tests

GOLDEN = tests.GOLDEN / "aeron" / "wire"
_FIELD = re.compile(r"^ {8}([A-Z][A-Za-z -]*): (.*)$", re.M)


def datagrams(name: str) -> Iterator[tuple[int, bytes]]:
    """The destination port and payload of each UDP datagram of a capture (Ethernet, IPv4)."""
    data = gzip.decompress((GOLDEN / f"{name}.pcap.gz").read_bytes())
    at = 24
    while at < len(data):
        length = struct.unpack_from("<I", data, at + 8)[0]
        packet = data[at + 16 + 14 : at + 16 + length]
        udp = packet[(packet[0] & 15) * 4 :]
        yield struct.unpack_from(">H", udp, 2)[0], udp[8:]
        at += 16 + length


def dissections(name: str) -> Iterator[dict[str, str]]:
    """What tshark shows of each datagram's first frame, field by field; ``{}`` where it shows nothing."""
    text = gzip.decompress((GOLDEN / f"{name}.tshark.txt.gz").read_bytes()).decode()
    for block in re.split(r"^Frame \d+\n", text, flags=re.M)[1:]:
        frame = block.split("Aeron Protocol\n")[1]
        fields: dict[str, str] = {}
        for match in _FIELD.finditer(frame):
            fields.setdefault(match[1], match[2])
        yield fields


def signed(text: str, bits: int = 32) -> int:
    """The number in ``3623987585 (0xd801a981)``, ``Setup (5)`` or ``0x80, Setup``, as Java shows it."""
    digits = re.match(r"0x[0-9a-f]+|[0-9]+", text) or re.search(r"(?<=\()[0-9]+", text)
    assert digits is not None, text
    value = int(digits[0], 0)
    return value - (1 << bits) if value >> (bits - 1) else value
