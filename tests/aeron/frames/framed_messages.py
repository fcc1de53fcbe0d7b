"""Frames made by hand, and those of golden recordings."""

from __future__ import annotations

import struct

import pytest

from everlog.aeron.frames import _framer, framing_twin

FRAMERS = [pytest.param(framing_twin.Framer, id="twin"), pytest.param(_framer.Framer, id="compiled")]


TERM, MTU, INITIAL_TERM, SESSION, STREAM = 64 << 10, 256, 7, -99, 1001


HEADER = struct.Struct("<iBBHiiiiq")


def frame(position: int, payload: bytes, **other: int) -> bytes:
    """A frame as it is to be on disk, worked out apart."""
    length = other.get("length", 32 + len(payload))
    names = {"flags": 0xC0, "kind": 1, "reserved": 0, "session": SESSION, "stream": STREAM, "version": 0} | other
    header = HEADER.pack(
        length,
        names["version"],
        names["flags"],
        names["kind"],
        other.get("term_offset", position % TERM),
        names["session"],
        names["stream"],
        other.get("term_id", INITIAL_TERM + position // TERM),
        names["reserved"],
    )
    return header + payload + bytes(-len(payload) % 32)


def padding(position: int) -> bytes:
    return frame(position, b"", kind=0, length=TERM - position % TERM)
