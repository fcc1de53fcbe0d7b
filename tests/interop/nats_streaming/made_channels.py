"""NATS Streaming stores by hand, from the format's description: channels as large as a test wants, with sequences left
out, and a durable."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable
from pathlib import Path

VERSION = b"\x01\x00\x00\x00"
TIME_NS = 1_700_000_000_000_000_000
"""Message k is of k microseconds later."""


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def text(field: int, value: bytes) -> bytes:
    return varint(field << 3 | 2) + varint(len(value)) + value


def record(payload: bytes, kind: int = 0) -> bytes:
    return struct.pack("<II", kind << 24 | len(payload), zlib.crc32(payload)) + payload


def payload_of(sequence: int) -> bytes:
    return b"message %d " % sequence * (sequence % 7)


def add_messages(store: Path, channel: str, sequences: Iterable[int], slice_number: int = 1) -> None:
    """One more slice of a channel; with the first one comes what a store has besides."""
    folder = store / channel
    folder.mkdir(parents=True, exist_ok=True)
    (store / "server.dat").write_bytes(VERSION + record(text(1, b"made") + text(2, b"_STAN.discover.made")))
    (store / "clients.dat").write_bytes(VERSION)
    if not (folder / "subs.dat").exists():
        (folder / "subs.dat").write_bytes(VERSION)
    dat, idx = bytearray(VERSION), bytearray(VERSION)
    for sequence in sequences:
        data, time_ns = payload_of(sequence), TIME_NS + sequence * 1000
        message = number(1, sequence) + text(2, channel.encode())
        message += (text(4, data) if data else b"") + number(5, time_ns)
        entry = struct.pack("<QqqI", sequence, len(dat), time_ns, len(message))
        idx += entry + struct.pack("<I", zlib.crc32(entry))
        dat += record(message)
    (folder / f"msgs.{slice_number}.dat").write_bytes(dat)
    (folder / f"msgs.{slice_number}.idx").write_bytes(idx)


def add_durable(store: Path, channel: str, client: str, durable: str, sent: int, acked: Iterable[int]) -> None:
    """A durable that was sent all up to ``sent`` and acknowledged some. Record types: 1 new, 5 sent, 4 acknowledged."""
    file = store / channel / "subs.dat"
    data = file.read_bytes()
    sub = data.count(durable.encode()) + len(data) % 1000 + 1
    state = number(1, sub) + text(2, client.encode()) + text(4, b"in") + text(5, b"ack") + number(6, 16) + number(7, 30)
    data += record(state + text(8, durable.encode()) + number(10, 1), 1)
    for sequence in range(1, sent + 1):
        data += record(number(1, sub) + number(2, sequence), 5)
    for sequence in acked:
        data += record(number(1, sub) + number(2, sequence), 4)
    file.write_bytes(data)
