"""What all stores of the Aeron family share: an address is a position."""

from __future__ import annotations

from everlog.aeron.frames.columns import POSITION
from everlog.aeron.frames.position import FOREVER
from everlog.core.store import Store
from everlog.errors import UsageError

MAX_DIGITS = 19
"""Of a position; Python refuses to look at thousands of them."""


class PositionalStore(Store):
    """A store whose records are found by their position, in decimal."""

    @property
    def address_columns(self) -> tuple[str, ...]:
        """The position."""
        return (POSITION.name,)

    def parse_address(self, text: str) -> int:
        """A position: a decimal number of 0 or more. Raises :class:`UsageError`."""
        if not text.isascii() or not text.isdecimal() or len(text) > MAX_DIGITS or int(text) >= FOREVER:
            raise UsageError("address", found=repr(text), expected="a position: a decimal number")
        return int(text)

    def format_address(self, address: int) -> str:
        """Decimal."""
        return str(address)
