from libc.stdint cimport int64_t, uint8_t, uint32_t

cdef class Crc32:
    cdef readonly uint32_t polynomial
    cdef uint32_t table[16][256]
    # Extends a checksum (0 to begin with) by more bytes.
    cdef uint32_t update(self, uint32_t checksum, const uint8_t* data, int64_t length) noexcept nogil
