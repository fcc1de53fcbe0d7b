"""Addresses: a segment and a message number."""

from __future__ import annotations

import re
from typing import Self

from everlog.errors import UsageError

MARKER_BITS = 32
MARKER_MASK = (1 << MARKER_BITS) - 1
"""An address is the segment number shifted by ``MARKER_BITS``, plus the message number."""

_TEXT = re.compile(r"([0-9a-fA-F]{1,8}):([0-9a-fA-F]{1,8})")


class Address(int):
    """The address of a message: its segment, and its number in the segment, from 1. An integer, so addresses compare
    and pickle; its text is that of ``jlogctl``.

    >>> str(Address.of(5, 3)), Address.of(5, 3) < Address.of(6, 1)
    ('00000005:00000003', True)
    """

    __slots__ = ()

    @classmethod
    def of(cls, log: int, marker: int) -> Self:
        """The address for a segment and a number of 32 bits each. Raises :class:`UsageError`."""
        if not 0 <= log <= MARKER_MASK or not 0 <= marker <= MARKER_MASK:
            raise UsageError("address", found=f"{log}:{marker}", expected=f"two numbers from 0 to {MARKER_MASK}")
        return cls(log << MARKER_BITS | marker)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse ``00000005:00000003``; leading zeros are optional. Raises :class:`UsageError`."""
        match = _TEXT.fullmatch(text)
        if match is None:
            raise UsageError("address", found=repr(text), expected="SEGMENT:MARKER in hex, like 00000005:00000003")
        return cls(int(match[1], 16) << MARKER_BITS | int(match[2], 16))

    @property
    def log(self) -> int:
        """The segment number."""
        return self >> MARKER_BITS

    @property
    def marker(self) -> int:
        """The message's number in its segment, from 1. A checkpoint has 0 if none of the segment is consumed."""
        return self & MARKER_MASK

    def __str__(self) -> str:
        return f"{self.log:08x}:{self.marker:08x}"

    def __repr__(self) -> str:
        return f"Address('{self}')"
