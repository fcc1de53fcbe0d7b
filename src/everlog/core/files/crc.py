"""CRC-32 (IEEE) of a part of a file, to recognise its contents later. Holes cost a calculation instead of a read.

The calculation: a CRC is the remainder of a polynomial division over GF(2), so appended zeros multiply the remainder by
a power of x.
"""

from __future__ import annotations

import zlib
from functools import cache

from everlog.core.files.storage import ReadableFile
from everlog.core.files.zeros import nonzero_blocks

_POLYNOMIAL = 0xEDB88320
_ONE = 1 << 31
_ALL = 0xFFFFFFFF


def crc32_of(file: ReadableFile, start: int, end: int) -> int:
    """CRC-32 of the bytes from ``start`` up to ``end``; bytes beyond the end of a file that was cut count as zeros."""
    crc, done = 0, start
    for at, block in nonzero_blocks(file, start, end):
        crc = zlib.crc32(block, crc32_of_zeros(crc, at - done))
        done = at + len(block)
    return crc32_of_zeros(crc, end - done)


def crc32_of_zeros(crc: int, count: int) -> int:
    """Extend ``crc`` by ``count`` zero bytes."""
    factor, power = _ONE, 3  # 2^3 bits are a byte
    while count > 0:
        if count & 1:
            factor = _product(_power_of_two(power), factor)
        count >>= 1
        power += 1
    return _product(factor, crc ^ _ALL) ^ _ALL


@cache
def _power_of_two(exponent: int) -> int:
    """x^(2^exponent), modulo the polynomial."""
    if exponent == 0:
        return _ONE >> 1
    root = _power_of_two(exponent - 1)
    return _product(root, root)


def _product(a: int, b: int) -> int:
    """The product of two polynomials, modulo the CRC's; the highest bit is the coefficient of x^0."""
    product, bit = 0, _ONE
    while bit:
        if a & bit:
            product ^= b
        bit >>= 1
        b = b >> 1 ^ _POLYNOMIAL if b & 1 else b >> 1
    return product
