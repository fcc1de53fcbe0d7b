"""Stores that grow: a NATS Streaming channel made by hand from the format's description, and helpers to follow any."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

VERSION = b"\x01\x00\x00\x00"


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def field(number: int, value: int | bytes) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


class Channel:
    """A channel's folder; ``append`` writes a record and its index entry, as a server does, ``roll`` begins a slice."""

    def __init__(self, store: Path, name: str, first: int = 1) -> None:
        self.name = name
        self.folder = store / name
        self.folder.mkdir(parents=True)
        (self.folder / "subs.dat").write_bytes(VERSION)
        self.sequence = first
        self.slice = 0
        self.roll()

    def roll(self) -> None:
        self.slice += 1
        self.dat, self.idx = (self.folder / f"msgs.{self.slice}.{kind}" for kind in ("dat", "idx"))
        self.dat.write_bytes(VERSION)
        self.idx.write_bytes(VERSION)

    def parts(self, data: bytes) -> tuple[bytes, bytes]:
        """The next message's record and index entry."""
        time_ns = 1_700_000_000_000_000_000 + self.sequence
        body = field(1, self.sequence) + field(2, self.name.encode()) + field(4, data) + field(5, time_ns)
        record = struct.pack("<II", len(body), zlib.crc32(body)) + body
        head = struct.pack("<QqqI", self.sequence, self.dat.stat().st_size, time_ns, len(body))
        return record, head + struct.pack("<I", zlib.crc32(head))

    def append(self, data: bytes) -> int:
        """The message's sequence."""
        record, entry = self.parts(data)
        with self.dat.open("ab") as file:
            file.write(record)
        with self.idx.open("ab") as file:
            file.write(entry)
        self.sequence += 1
        return self.sequence - 1


def make_nats(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "server.dat").write_bytes(VERSION)
    (folder / "clients.dat").write_bytes(VERSION)
    return folder
