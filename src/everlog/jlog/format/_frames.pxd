# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Plausibility of headers for the compiled loops; :mod:`everlog.jlog.format.framing` documents the rules."""

from libc.stdint cimport int64_t, uint8_t, uint32_t
from libc.string cimport memcpy

include "everlog/jlog/_layouts.pxi"

cdef enum:
    PLAIN = -1
    NULL_PROVIDER = 0
    LZ4 = 1
    MICROSECONDS = 1000000
    MAX_MESSAGE_BYTES = 1073676288
    LZ4_MAX_EXPANSION = 255
    NULL_EMPTY_BYTES = 16384


cdef inline uint32_t u32_at(const uint8_t* p) noexcept nogil:
    cdef uint32_t value
    memcpy(&value, p, 4)
    return value


cdef inline int64_t stored_length(const uint8_t* header, uint32_t magic, int provider) noexcept nogil:
    """Bytes of stored payload after a complete header; -1 if it is not plausible."""
    cdef int64_t length = u32_at(header + JLOG_HEADER_LENGTH)
    cdef int64_t stored
    if (u32_at(header + JLOG_HEADER_MAGIC) != magic or length > MAX_MESSAGE_BYTES
            or u32_at(header + JLOG_HEADER_TV_USEC) >= MICROSECONDS):
        return -1
    if magic == 0 and u32_at(header + JLOG_HEADER_TV_SEC) == 0:
        return -1
    if provider == PLAIN:
        return length
    stored = u32_at(header + JLOG_COMPRESSED_HEADER_STORED_LENGTH)
    if stored > MAX_MESSAGE_BYTES:
        return -1
    if provider == NULL_PROVIDER:
        if stored != length and not (length == 0 and stored == NULL_EMPTY_BYTES):
            return -1
    elif provider == LZ4:
        if stored < 1 or stored > length + length // 255 + 16 or length > stored * LZ4_MAX_EXPANSION:
            return -1
    return stored
