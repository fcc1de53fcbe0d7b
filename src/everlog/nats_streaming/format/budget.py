"""A budget, in bytes, for checks that fail: it bounds the cost of reading a damaged file.

The search for the next good record can check the same bytes many times: a damaged header claims a long payload, or
random bytes look like a record. A malicious file could make that quadratic. So each byte of progress earns a few bytes
of failed checks; when the budget is spent, the rest of the file is given up."""

from __future__ import annotations

_EARNED = 4
_FIRST_BYTES = 1 << 20


class Budget:
    """The bytes of failed checks that are still allowed in a file of ``size`` bytes.

    It starts with enough for the largest record. The rest is earned by reading data, because ``size`` may be that of a
    sparse file."""

    __slots__ = ("_left",)

    def __init__(self, size: int, largest: int) -> None:
        self._left = _FIRST_BYTES + min(size, largest)

    @property
    def is_spent(self) -> bool:
        """Whether the rest of the file must be given up."""
        return self._left < 0

    def earn(self, byte_count: int) -> None:
        """Record progress over ``byte_count`` bytes of data."""
        self._left += _EARNED * byte_count

    def spend(self, byte_count: int) -> None:
        """Record a failed check over ``byte_count`` bytes."""
        self._left -= byte_count
