# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""Compiled CRC-32 for any reflected polynomial: slicing by 16 (Kounavis and Berry, 2005). The twin is
:mod:`everlog.kernel.crc32_twin`."""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from everlog.errors import UsageError


cdef class Crc32:

    def __init__(self, polynomial=0xEDB88320):
        if not 0 < polynomial <= 0xFFFFFFFF:
            raise UsageError("CRC polynomial", found=str(polynomial), expected="1 to 4294967295")
        self.polynomial = polynomial
        cdef uint32_t value, poly = polynomial
        cdef int byte, k
        for byte in range(256):
            value = byte
            for k in range(8):
                value = (value >> 1) ^ (poly if value & 1 else 0)
            self.table[0][byte] = value
        for byte in range(256):
            for k in range(1, 16):
                value = self.table[k - 1][byte]
                self.table[k][byte] = (value >> 8) ^ self.table[0][value & 0xFF]

    cdef uint32_t update(self, uint32_t checksum, const uint8_t* data, int64_t length) noexcept nogil:
        cdef uint32_t value = ~checksum
        cdef uint32_t a, b, c, d
        while length >= 16:
            memcpy(&a, data, 4)
            memcpy(&b, data + 4, 4)
            memcpy(&c, data + 8, 4)
            memcpy(&d, data + 12, 4)
            a ^= value
            value = (
                self.table[15][a & 0xFF] ^ self.table[14][(a >> 8) & 0xFF]
                ^ self.table[13][(a >> 16) & 0xFF] ^ self.table[12][a >> 24]
                ^ self.table[11][b & 0xFF] ^ self.table[10][(b >> 8) & 0xFF]
                ^ self.table[9][(b >> 16) & 0xFF] ^ self.table[8][b >> 24]
                ^ self.table[7][c & 0xFF] ^ self.table[6][(c >> 8) & 0xFF]
                ^ self.table[5][(c >> 16) & 0xFF] ^ self.table[4][c >> 24]
                ^ self.table[3][d & 0xFF] ^ self.table[2][(d >> 8) & 0xFF]
                ^ self.table[1][(d >> 16) & 0xFF] ^ self.table[0][d >> 24]
            )
            data += 16
            length -= 16
        while length > 0:
            value = self.table[0][(value ^ data[0]) & 0xFF] ^ (value >> 8)
            data += 1
            length -= 1
        return ~value

    def checksum(self, const uint8_t[::1] data, start=0, end=None):
        """The checksum of ``data[start:end]``."""
        cdef Py_ssize_t first, last
        first, last, _ = slice(start, end).indices(data.shape[0])
        if last <= first:
            return 0
        return self.update(0, &data[first], last - first)
