"""Writes a NATS Streaming channel that grows as under a server, from the format's description: for tests of code that
follows stores. It writes messages, but no subscriptions."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

VERSION = b"\x01\x00\x00\x00"
FIRST_TIME_NS = 1_700_000_000_000_000_000
"""A message's time is this plus its sequence."""


def make_store(folder: Path) -> Path:
    """Create the folder of a store without channels."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "server.dat").write_bytes(VERSION)
    (folder / "clients.dat").write_bytes(VERSION)
    return folder


class Channel:
    """A new channel in a store's folder. ``append`` writes a record and then its index entry, as a server does;
    ``roll`` begins a new slice."""

    def __init__(self, store: Path, name: str, first: int = 1) -> None:
        self.name = name
        self.folder = store / name
        self.folder.mkdir(parents=True)
        (self.folder / "subs.dat").write_bytes(VERSION)
        self.sequence = first
        self.slice = 0
        self.roll()

    def roll(self) -> None:
        """Begin a new slice."""
        self.slice += 1
        self.dat, self.idx = (self.folder / f"msgs.{self.slice}.{kind}" for kind in ("dat", "idx"))
        self.dat.write_bytes(VERSION)
        self.idx.write_bytes(VERSION)

    def parts(self, data: bytes) -> tuple[bytes, bytes]:
        """Return the next message's record and index entry."""
        time_ns = FIRST_TIME_NS + self.sequence
        body = _field(1, self.sequence) + _field(2, self.name.encode()) + _field(4, data) + _field(5, time_ns)
        record = struct.pack("<II", len(body), zlib.crc32(body)) + body
        head = struct.pack("<QqqI", self.sequence, self.dat.stat().st_size, time_ns, len(body))
        return record, head + struct.pack("<I", zlib.crc32(head))

    def append(self, data: bytes) -> int:
        """Write the next message; return its sequence."""
        record, entry = self.parts(data)
        with self.dat.open("ab") as file:
            file.write(record)
        with self.idx.open("ab") as file:
            file.write(entry)
        self.sequence += 1
        return self.sequence - 1


def _field(number: int, value: int | bytes) -> bytes:
    """A protobuf field."""
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])
