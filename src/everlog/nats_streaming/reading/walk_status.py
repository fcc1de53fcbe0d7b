"""Why a walker stopped. The same numbers are in ``_walk.pyx``."""

from __future__ import annotations

MORE = 0
"""The next record is not whole in the buffer; ``needed`` bytes from ``at`` on would do."""
FULL = 1
"""The sink has no room for the next record."""
ZEROS = 2
"""A header that is all zero: padding."""
BAD_CRC = 3
"""The payload's checksum is not the header's."""
BAD_MESSAGE = 4
"""The payload is no message, or one with sequence 0 or above 2^63 - 1."""
TOO_LARGE = 5
"""The header's size is over the limit."""
OUT_OF_ORDER = 6
"""The sequence (in an index: or the offset) is not above the one before."""
BREAK = 7
"""Index only: the entry does not follow the record before at once; bytes lie between."""

NO_BOUND = 1 << 63
"""``below_sequence`` where there is no upper bound: above every sequence."""
