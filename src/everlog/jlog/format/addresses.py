"""Addresses: which message of which segment."""

from __future__ import annotations

import re
from typing import Self

from everlog.errors import UsageError

MARKER_BITS = 32
MARKER_MASK = (1 << MARKER_BITS) - 1
"""An address is the segment's number above ``MARKER_BITS`` bits of the message's number."""

_TEXT = re.compile(r"([0-9a-fA-F]{1,8}):([0-9a-fA-F]{1,8})")


class Address(int):
    """Where a message is: its segment, and its number there, from 1. It is an integer, so addresses order and pickle
    well; its text is what ``jlogctl`` prints.

    >>> str(Address.of(5, 3)), Address.of(5, 3) < Address.of(6, 1)
    ('00000005:00000003', True)
    """

    __slots__ = ()

    @classmethod
    def of(cls, log: int, marker: int) -> Self:
        """Segment and number, each of 32 bits. Raises :class:`UsageError`."""
        if not 0 <= log <= MARKER_MASK or not 0 <= marker <= MARKER_MASK:
            raise UsageError("address", found=f"{log}:{marker}", expected=f"two numbers of 0..{MARKER_MASK}")
        return cls(log << MARKER_BITS | marker)

    @classmethod
    def parse(cls, text: str) -> Self:
        """``00000005:00000003``; leading zeros may be left out. Raises :class:`UsageError`."""
        match = _TEXT.fullmatch(text)
        if match is None:
            raise UsageError("address", found=repr(text), expected="SEGMENT:MARKER in hex, such as 00000005:00000003")
        return cls(int(match[1], 16) << MARKER_BITS | int(match[2], 16))

    @property
    def log(self) -> int:
        """The segment."""
        return self >> MARKER_BITS

    @property
    def marker(self) -> int:
        """The message's number in its segment, from 1; in a checkpoint 0: none of it."""
        return self & MARKER_MASK

    def __str__(self) -> str:
        return f"{self.log:08x}:{self.marker:08x}"

    def __repr__(self) -> str:
        return f"Address('{self}')"
