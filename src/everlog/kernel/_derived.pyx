# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Columns made of columns, compiled; :mod:`everlog.kernel.derived_twin` says what each does."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from everlog.kernel._buffers cimport Buffer, new_buffer, view_of
from everlog.kernel._crc32 cimport Crc32
from everlog.kernel._decimals cimport put_decimal

cdef bytes _TWO_DIGITS = b"".join(b"%02d" % pair for pair in range(100))
cdef const char* TWO_DIGITS = _TWO_DIGITS
cdef Crc32 _ieee = Crc32()


def decimal_text(const int64_t[::1] values, int64_t count):
    """Each number as decimal text: offsets and UTF-8 bytes."""
    cdef Buffer offsets = new_buffer(4 * (count + 1))
    cdef Buffer text = new_buffer(20 * count + 32)
    cdef int32_t* ends = <int32_t*>offsets.data
    cdef char* out = text.data
    cdef char head[24]
    cdef int head_length = 0
    cdef int64_t i, used = 0
    cdef uint64_t value, high, head_value = 0
    cdef uint32_t low
    memset(head, 0, 24)
    ends[0] = 0
    with nogil:
        for i in range(count):
            value = <uint64_t>values[i]
            if values[i] < 0:
                out[used] = c'-'
                used += 1
                value = 0 - value
            high = value // 10000
            if high == 0:
                used += put_decimal(value, out + used)
            else:
                # Numbers of rows in a row differ in their last digits mostly.
                if high != head_value:
                    head_value = high
                    head_length = put_decimal(high, head)
                low = <uint32_t>(value - high * 10000)
                memcpy(out + used, head, 20)
                used += head_length
                memcpy(out + used, TWO_DIGITS + 2 * (low // 100), 2)
                memcpy(out + used + 2, TWO_DIGITS + 2 * (low % 100), 2)
                used += 4
            ends[i + 1] = <int32_t>used
    return view_of(offsets, 4 * (count + 1), "i"), view_of(text, used, "B")


cdef inline int hex_digits(uint64_t value, char* out) noexcept nogil:
    cdef int width = 8, i
    while width < 16 and value >> (4 * width):
        width += 1
    for i in range(width):
        out[i] = b"0123456789abcdef"[(value >> (4 * (width - 1 - i))) & 15]
    return width


def hex_pair_text(const int64_t[::1] high, const int64_t[::1] low, int64_t count):
    """Each pair as ``%08x:%08x``: offsets and UTF-8 bytes."""
    cdef Buffer offsets = new_buffer(4 * (count + 1))
    cdef Buffer text = new_buffer(33 * count + 64)
    cdef int32_t* ends = <int32_t*>offsets.data
    cdef char* out = text.data
    cdef int64_t i, used = 0
    ends[0] = 0
    with nogil:
        for i in range(count):
            used += hex_digits(<uint64_t>high[i], out + used)
            out[used] = c':'
            used += 1
            used += hex_digits(<uint64_t>low[i], out + used)
            ends[i + 1] = <int32_t>used
    return view_of(offsets, 4 * (count + 1), "i"), view_of(text, used, "B")


def repeated_text(bytes text, int64_t count):
    """The same text ``count`` times: offsets and bytes."""
    cdef int64_t length = len(text), i
    cdef const char* source = text
    if length * count > 0x7FFFFFFF:
        raise OverflowError(f"{count} times {length} bytes do not fit one column")
    cdef Buffer offsets = new_buffer(4 * (count + 1))
    cdef Buffer data = new_buffer(length * count)
    cdef int32_t* ends = <int32_t*>offsets.data
    ends[0] = 0
    for i in range(count):
        memcpy(data.data + i * length, source, length)
        ends[i + 1] = <int32_t>((i + 1) * length)
    return view_of(offsets, 4 * (count + 1), "i"), view_of(data, length * count, "B")


def floor_divide(const int64_t[::1] values, int64_t divisor, int64_t count):
    """Each 64-bit number divided, rounded down."""
    cdef Buffer out = new_buffer(8 * count)
    cdef int64_t* result = <int64_t*>out.data
    cdef int64_t i, quotient
    if divisor <= 0:
        raise ValueError("divisor must be positive")
    with nogil:
        for i in range(count):
            quotient = values[i] // divisor
            if values[i] < 0 and quotient * divisor != values[i]:
                quotient -= 1
            result[i] = quotient
    return view_of(out, 8 * count, "q")


def multiply(const int64_t[::1] values, int64_t factor, int64_t count):
    """Each 64-bit number times ``factor``, wrapped to 64 bits."""
    cdef Buffer out = new_buffer(8 * count)
    cdef uint64_t* result = <uint64_t*>out.data
    cdef int64_t i
    with nogil:
        for i in range(count):
            result[i] = <uint64_t>values[i] * <uint64_t>factor
    return view_of(out, 8 * count, "q")


def crc32_of_values(const int32_t[::1] offsets, const uint8_t[::1] values, int64_t count):
    """CRC-32 (zlib's) of each byte string, as 64-bit numbers."""
    cdef Buffer out = new_buffer(8 * count)
    cdef int64_t* result = <int64_t*>out.data
    cdef const uint8_t* data = &values[0] if values.shape[0] else NULL
    cdef int64_t i
    with nogil:
        for i in range(count):
            result[i] = _ieee.update(0, data + offsets[i], offsets[i + 1] - offsets[i])
    return view_of(out, 8 * count, "q")
