"""The reasons why a walker stops. ``_walk.pyx`` has the same numbers."""

from __future__ import annotations

MORE = 0
"""The next record is not whole in the buffer; it needs ``needed`` bytes from ``at`` on."""
FULL = 1
"""The sink has no room for the next record."""
ZEROS = 2
"""The header is all zeros: padding."""
BAD_CRC = 3
"""The payload's checksum differs from the header's."""
BAD_MESSAGE = 4
"""The payload is not a message, or its sequence is 0 or above 2^63 - 1."""
TOO_LARGE = 5
"""The header's size exceeds the limit."""
OUT_OF_ORDER = 6
"""The sequence, or in an index the offset, is not above the previous one."""
BREAK = 7
"""Index only: bytes lie between the entry's record and the previous one."""

NO_BOUND = 1 << 63
"""The value of ``below_sequence`` without an upper bound: above every sequence."""
