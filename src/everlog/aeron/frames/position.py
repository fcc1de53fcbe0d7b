"""Positions: bytes since a stream's start, as int64, and the terms and segments that contain them. Source:
LogBufferDescriptor, AeronArchive."""

from __future__ import annotations

FOREVER = 1 << 62
"""A position after all others."""


def wrap_int32(value: int) -> int:
    """Wrap a number to a Java ``int``, as term ids do."""
    return (value + 0x80000000) % (1 << 32) - 0x80000000


def max_position(term_length: int) -> int:
    """The position at which a stream ends for good: its term ids are used up."""
    return term_length << 31


def term_id_of(position: int, initial_term_id: int, term_length: int) -> int:
    """The id of the term that contains ``position``."""
    return wrap_int32(initial_term_id + position // term_length)


def term_offset_of(position: int, term_length: int) -> int:
    """The position's offset in its term."""
    return position & (term_length - 1)


def term_start(position: int, term_length: int) -> int:
    """The position at which the term of ``position`` begins."""
    return position - term_offset_of(position, term_length)


def segment_base(start_position: int, position: int, term_length: int, segment_length: int) -> int:
    """The position of the first byte of the segment file that contains ``position``. Segments are counted from the
    start of the term in which the recording starts."""
    first = term_start(start_position, term_length)
    return first + ((position - first) & -segment_length)
