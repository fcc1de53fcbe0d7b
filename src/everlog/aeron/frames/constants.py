"""Constants of Aeron frames. Source: Aeron protocol specification; FrameDescriptor, LogBufferDescriptor."""

from __future__ import annotations

from everlog.aeron.layouts import DataHeader

HEADER_LENGTH = DataHeader.size
FRAME_ALIGNMENT = 32

TYPE_PADDING = 0
TYPE_DATA = 1

FLAG_BEGIN = 0x80
FLAG_END = 0x40
UNFRAGMENTED = FLAG_BEGIN | FLAG_END

MIN_TERM_LENGTH = 64 << 10
MAX_TERM_LENGTH = 1 << 30
MAX_SEGMENT_LENGTH = 1 << 30
MAX_FRAME_LENGTH = 65_536
"""Limit of a data frame's length: an MTU is at most 65,504 bytes. Padding frames may be as long as their term."""

MAX_MESSAGE_BYTES = 64 << 20
"""Limit of the total length of a message's frames. Aeron's own limit is 16 MiB; publishers that set flags by hand could
exceed it."""

PAGE_SIZE = 4096
NULL_POSITION = -1
NULL_TIMESTAMP = -1


def align(length: int, alignment: int = FRAME_ALIGNMENT) -> int:
    """``length`` rounded up to a multiple of ``alignment``, a power of two."""
    return (length + alignment - 1) & -alignment


def is_power_of_two(value: int) -> bool:
    """Whether ``value`` is 1, 2, 4, ..."""
    return value > 0 and value & (value - 1) == 0


def version_text(version: int) -> str:
    """Format a version number: 196864 is ``3.1.0``."""
    return f"{version >> 16 & 0xFF}.{version >> 8 & 0xFF}.{version & 0xFF}"
