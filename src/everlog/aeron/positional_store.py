"""The common part of the Aeron family's stores: an address is a position."""

from __future__ import annotations

from everlog.aeron.frames.columns import POSITION
from everlog.aeron.frames.position import FOREVER
from everlog.core.store import Store
from everlog.errors import UsageError

MAX_DIGITS = 19
"""Most digits of a position. Python refuses to parse thousands."""


class PositionalStore(Store):
    """A store whose records are addressed by their decimal position."""

    @property
    def address_columns(self) -> tuple[str, ...]:
        """The position's column."""
        return (POSITION.name,)

    def parse_address(self, text: str) -> int:
        """Parse a position: a decimal number, 0 or more. Raises :class:`UsageError`."""
        if not text.isascii() or not text.isdecimal() or len(text) > MAX_DIGITS or int(text) >= FOREVER:
            raise UsageError("address", found=repr(text), expected="a position, a decimal number")
        return int(text)

    def format_address(self, address: int) -> str:
        """Format a position in decimal."""
        return str(address)
