"""Formats numbers as decimal text, for writers of text columns."""

from libc.stdint cimport uint64_t
from libc.string cimport memcpy

cdef enum:
    MAX_DIGITS = 20


cdef inline int put_decimal(uint64_t value, char* out) noexcept nogil:
    # Writes up to MAX_DIGITS digits. Returns how many.
    cdef char digits[MAX_DIGITS]
    cdef int at = MAX_DIGITS
    while True:
        at -= 1
        digits[at] = <char>(c'0' + value % 10)
        value = value // 10
        if value == 0:
            break
    memcpy(out, &digits[at], MAX_DIGITS - at)
    return MAX_DIGITS - at
