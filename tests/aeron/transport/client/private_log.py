"""A log in private memory, with nobody else at it, as a driver makes it: what publishers and readers are tested on."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

SESSION, STREAM, INITIAL_TERM = -99, 1001, 7
HEADER = struct.Struct("<iBBHiiiiq")
FRAME = HEADER.size
TERM, MTU = 64 << 10, 1408
"""Bytes."""


@dataclass
class PrivateLog:
    """Terms and metadata, the driver's limit for publishers and a subscriber's position."""

    terms: list[Any]
    metadata: Any
    counters: Any

    @classmethod
    def make(cls, memory: type[Any], *, initial_term_id: int = INITIAL_TERM, **fields: int) -> PrivateLog:
        """Of zeroed terms, with a limit that nobody reaches; ``memory`` makes the memory."""
        length = fields.get("term_length", TERM)
        metadata = memory.allocate(4096)
        for index, term_id in enumerate((initial_term_id, initial_term_id - 2, initial_term_id - 1)):
            metadata.put_i64(8 * index, wrapped(term_id) << 32)
        metadata.put_i64(128, 0x7FFFFFFFFFFFFFFF)
        metadata.put_i32(136, fields.get("is_connected", 1))
        metadata.put_i32(264, initial_term_id)
        metadata.put_i32(268, FRAME)
        metadata.put_i32(272, fields.get("mtu_length", MTU))
        metadata.put_i32(276, length)
        metadata.put_i32(280, 4096)
        metadata.write(320, HEADER.pack(0, 0, 0xC0, 1, 0, SESSION, STREAM, initial_term_id, 0))
        counters = memory.allocate(16)
        counters.put_i64(0, 1 << 62)
        return cls([memory.allocate(length) for _ in range(3)], metadata, counters)

    @property
    def limit(self) -> int:
        """Of publishers."""
        value: int = self.counters.get_i64(0)
        return value

    @limit.setter
    def limit(self, value: int) -> None:
        self.counters.put_i64(0, value)

    @property
    def read_position(self) -> int:
        """The subscriber's."""
        value: int = self.counters.get_i64(8)
        return value

    @read_position.setter
    def read_position(self, value: int) -> None:
        self.counters.put_i64(8, value)

    def tail(self, index: int) -> tuple[int, int]:
        """Term id and bytes claimed."""
        raw = self.metadata.get_i64(8 * index)
        return raw >> 32, raw & 0xFFFFFFFF

    @property
    def active_term_count(self) -> int:
        """Terms since the first."""
        value: int = self.metadata.get_i32(24)
        return value

    def frames(self, index: int, end: int) -> bytes:
        """Bytes of a term up to ``end``."""
        found: bytes = self.terms[index].read(0, end)
        return found


def wrapped(value: int) -> int:
    """As an int32."""
    return (value + (1 << 31)) % (1 << 32) - (1 << 31)


def frame(offset: int, payload: bytes = b"", **other: int) -> bytes:
    """As it lies in a term, with its padding bytes; worked out apart."""
    names = {"flags": 0xC0, "kind": 1, "reserved": 0, "term_id": INITIAL_TERM, "length": FRAME + len(payload)} | other
    header = HEADER.pack(
        names["length"],
        0,
        names["flags"],
        names["kind"],
        offset,
        SESSION,
        STREAM,
        names["term_id"],
        names["reserved"],
    )
    return header + payload + bytes(-len(payload) % 32)
