"""Datagrams as publications send them, worked out by hand from the frame header's layout, for tests of receivers.
Terms are of 64 KiB."""

from __future__ import annotations

import struct

HEADER = struct.Struct("<iBBHiiiiq")
TERM = 64 << 10
SESSION, STREAM = -77, 1001
INITIAL = 7
DATA, PADDING = 1, 0
WHOLE = 0xC0
EOS, REVOKED = 0x20, 0x10


def term_id(position: int, initial: int = INITIAL) -> int:
    """A term id, wrapped to an int32."""
    value = (initial + position // TERM) & 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value


def data_frame(
    position: int,
    payload: bytes,
    *,
    flags: int = WHOLE,
    session: int = SESSION,
    stream: int = STREAM,
    initial: int = INITIAL,
    reserved: int = 0,
) -> bytes:
    """A frame, padded with zeros to a multiple of 32."""
    length = 32 + len(payload)
    place = position % TERM, session, stream, term_id(position, initial), reserved
    return HEADER.pack(length, 0, flags, DATA, *place) + payload + bytes(-length % 32)


def padding_frame(position: int, length: int, *, initial: int = INITIAL) -> bytes:
    """The header of a padding frame, which is all that is sent of it."""
    return HEADER.pack(length, 0, WHOLE, PADDING, position % TERM, SESSION, STREAM, term_id(position, initial), 0)


def heartbeat(position: int, *, flags: int = WHOLE, session: int = SESSION, initial: int = INITIAL) -> bytes:
    """A frame of length 0."""
    return HEADER.pack(0, 0, flags, DATA, position % TERM, session, STREAM, term_id(position, initial), 0)


def setup(
    *, active: int = INITIAL, offset: int = 0, initial: int = INITIAL, session: int = SESSION, flags: int = 0
) -> bytes:
    """A setup frame: 40 bytes, type 5."""
    fixed = struct.pack("<iBBHiiiiiiii", 40, 0, flags, 5, offset, session, STREAM, initial, active, TERM, 1408, 0)
    assert len(fixed) == 40
    return fixed
