"""How much damage may cost: what is checked in vain, in bytes.

Damage is looked at more than once: a record claims a length and its checksum is wrong, a place looks like a record and
is none. Input made for it would have every byte checked again and again. So checks are paid for: each byte of data that
reading goes past pays for a few, and when nothing is left the rest of the file is given up."""

from __future__ import annotations

_EARNED = 4
_FIRST_BYTES = 1 << 20


class Budget:
    """Bytes that may yet be checked in vain, in a file of ``size`` bytes. What the largest record needs is there from
    the beginning; the rest is earned, for ``size`` may be that of a hole."""

    __slots__ = ("_left",)

    def __init__(self, size: int, largest: int) -> None:
        self._left = _FIRST_BYTES + min(size, largest)

    @property
    def is_spent(self) -> bool:
        """Whether nothing more is to be checked."""
        return self._left < 0

    def earn(self, byte_count: int) -> None:
        """So many bytes of data were gone past."""
        self._left += _EARNED * byte_count

    def spend(self, byte_count: int) -> None:
        """So many bytes were checked in vain."""
        self._left -= byte_count
