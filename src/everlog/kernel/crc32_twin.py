"""CRC-32 with any reflected polynomial, in plain Python: the specification of ``_crc32.pyx``.

Initial value and final XOR are all ones, as in zlib (Rocksoft model: refin and refout are true). In reversed form,
Castagnoli's polynomial is 0x82F63B78 and zlib's 0xEDB88320.
"""

from __future__ import annotations

import zlib

from everlog.errors import UsageError
from everlog.layout import Readable

IEEE = 0xEDB88320
CASTAGNOLI = 0x82F63B78


class Crc32:
    """Computes checksums with ``polynomial``, given in reversed form (1 to 0xFFFFFFFF)."""

    def __init__(self, polynomial: int = IEEE) -> None:
        if not 0 < polynomial <= 0xFFFFFFFF:
            raise UsageError("CRC polynomial", found=str(polynomial), expected="1 to 4294967295")
        self.polynomial = polynomial
        self._table = [] if polynomial == IEEE else [_entry(byte, polynomial) for byte in range(256)]

    def checksum(self, data: Readable, start: int = 0, end: int | None = None) -> int:
        """The checksum of ``data[start:end]``."""
        view = memoryview(data)[start:end]
        if not self._table:
            return zlib.crc32(view)
        table, value = self._table, 0xFFFFFFFF
        for byte in view.tobytes():
            value = table[(value ^ byte) & 0xFF] ^ (value >> 8)
        return value ^ 0xFFFFFFFF


def _entry(value: int, polynomial: int) -> int:
    for _ in range(8):
        value = (value >> 1) ^ (polynomial if value & 1 else 0)
    return value
