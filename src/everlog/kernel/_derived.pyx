# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Computes columns from other columns, compiled; :mod:`everlog.kernel.derived_twin` documents each function."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset

from everlog.kernel._buffers cimport Buffer, grow_buffer, new_buffer, view_of
from everlog.kernel._crc32 cimport Crc32
from everlog.kernel._decimals cimport put_decimal

from everlog.kernel import derived_twin as _twin

cdef enum:
    AS_NULL = 0
    AS_NUMBER = 1
    AS_UNSIGNED = 2
    AS_CHARACTER = 3
    SMALL = 256                 # numbers below have their names in a table
    NAME_ROOM = 64              # names up to this length are copied by moves of this size
    OTHER_BYTES = 21            # longest text of a number without a name: a sign and 20 digits

assert (AS_NULL, AS_NUMBER, AS_UNSIGNED, AS_CHARACTER) == (
    _twin.AS_NULL, _twin.AS_NUMBER, _twin.AS_UNSIGNED, _twin.AS_CHARACTER
)

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
                # Consecutive rows' numbers mostly differ only in their last digits.
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
        raise OverflowError(f"{count} times {length} bytes do not fit in one column")
    cdef Buffer offsets = new_buffer(4 * (count + 1))
    cdef Buffer data = new_buffer(length * count)
    cdef int32_t* ends = <int32_t*>offsets.data
    ends[0] = 0
    for i in range(count):
        memcpy(data.data + i * length, source, length)
        ends[i + 1] = <int32_t>((i + 1) * length)
    return view_of(offsets, 4 * (count + 1), "i"), view_of(data, length * count, "B")


cdef struct Name:
    int64_t number
    const char* text
    int64_t length


cdef class Names:
    # Sorted by number; small numbers' names are also in a table.
    cdef Name* names
    cdef Name* small[SMALL]
    cdef int64_t count
    cdef int64_t longest
    cdef list kept              # the texts, each padded for a move of NAME_ROOM bytes

    def __cinit__(self, names):
        cdef int64_t i
        self.kept = []
        self.count, self.longest = len(names), OTHER_BYTES
        self.names = <Name*>calloc(max(self.count, 1), sizeof(Name))
        if self.names == NULL:
            raise MemoryError()
        for i, number in enumerate(sorted(names)):
            text = <bytes?>names[number]
            self.kept.append(text.ljust(NAME_ROOM, b"\0"))
            self.names[i].number = number
            self.names[i].text = <const char*><bytes>self.kept[i]
            self.names[i].length = len(text)
            self.longest = max(self.longest, self.names[i].length)
            if 0 <= self.names[i].number < SMALL:
                self.small[self.names[i].number] = &self.names[i]

    def __dealloc__(self):
        free(self.names)

    cdef const Name* find(self, int64_t number) noexcept nogil:
        cdef int64_t low = 0, high = self.count, middle
        if 0 <= number < SMALL:
            return self.small[number]
        while low < high:
            middle = (low + high) // 2
            if self.names[middle].number < number:
                low = middle + 1
            else:
                high = middle
        return &self.names[low] if low < self.count and self.names[low].number == number else NULL


cdef inline int put_other(int64_t value, int others, char* out) noexcept nogil:
    if others == AS_CHARACTER and 0 <= value < 128:
        out[0] = <char>value
        return 1
    if others == AS_CHARACTER and 128 <= value < 256:
        out[0], out[1] = <char>(0xC0 | value >> 6), <char>(0x80 | value & 0x3F)
        return 2
    if value >= 0 or others == AS_UNSIGNED:
        return put_decimal(<uint64_t>value, out)
    out[0] = c'-'
    return 1 + put_decimal(0 - <uint64_t>value, out + 1)


def named_text(const int64_t[::1] values, const uint8_t[::1] validity, names, int others, int64_t count):
    cdef Names table = Names(names)
    cdef Buffer offsets = new_buffer(4 * (count + 1))
    cdef Buffer bits = new_buffer((count + 7) // 8)
    cdef Buffer text = new_buffer(min(count, 4096) * table.longest + NAME_ROOM)
    cdef int32_t* ends = <int32_t*>offsets.data
    cdef const Name* name
    cdef char* out = text.data
    cdef int64_t i, used = 0, room = text.capacity, nulls = 0
    cdef bint all_there = validity is None
    if values.shape[0] < count or (not all_there and validity.shape[0] < (count + 7) // 8):
        raise ValueError("fewer values than rows")
    memset(bits.data, 0, (count + 7) // 8)
    ends[0] = 0
    with nogil:
        for i in range(count):
            if used + table.longest + NAME_ROOM > room:
                if used + table.longest > 0x7FFFFFFF:
                    with gil:
                        raise OverflowError(f"the names of {count} rows do not fit in one column")
                with gil:
                    grow_buffer(text, used, 2 * room + table.longest + NAME_ROOM)
                out, room = text.data, text.capacity
            if all_there or validity[i >> 3] >> (i & 7) & 1:
                name = table.find(values[i])
                if name != NULL:
                    if name.length <= NAME_ROOM:
                        memcpy(out + used, name.text, NAME_ROOM)
                    else:
                        memcpy(out + used, name.text, name.length)
                    used += name.length
                elif others != AS_NULL:
                    used += put_other(values[i], others, out + used)
                else:
                    ends[i + 1] = <int32_t>used
                    nulls += 1
                    continue
                bits.data[i >> 3] |= <char>(1 << (i & 7))
            else:
                nulls += 1
            ends[i + 1] = <int32_t>used
    there = view_of(bits, (count + 7) // 8, "B") if nulls else None
    return view_of(text, used, "B"), view_of(offsets, 4 * (count + 1), "i"), there, nulls


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
