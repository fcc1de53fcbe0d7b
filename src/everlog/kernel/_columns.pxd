from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t
from libc.string cimport memcpy

from everlog.kernel._buffers cimport Buffer

cdef extern from *:
    """
    #include <string.h>
    #include <stdint.h>
    /* Up to 64 bytes as whole moves: both sides have 64 bytes of room. */
    static inline void everlog_copy_short(char* to, const void* from, int64_t n) {
        memcpy(to, from, 32);
        if (n > 32) memcpy(to + 32, (const char*)from + 32, 32);
    }
    typedef int64_t everlog_move __attribute__((vector_size(16), aligned(1), may_alias));
    /* For 64 bytes and more; the last move may overlap the one before. For bytes that stream in from memory, up to a few
       KiB, consecutive 16-byte moves are up to twice as fast as a call of memcpy. They are not for short lengths that
       vary, as the processor mispredicts the end of the loop. */
    static inline void everlog_copy_lines(char* to, const void* from, int64_t n) {
        const char* in = (const char*)from;
        int64_t at = 0;
        for (;;) {
            everlog_move a = *(const everlog_move*)(in + at), b = *(const everlog_move*)(in + at + 16);
            everlog_move c = *(const everlog_move*)(in + at + 32), d = *(const everlog_move*)(in + at + 48);
            *(everlog_move*)(to + at) = a;
            *(everlog_move*)(to + at + 16) = b;
            *(everlog_move*)(to + at + 32) = c;
            *(everlog_move*)(to + at + 48) = d;
            if (at == n - 64) return;
            at = at + 128 <= n ? at + 64 : n - 64;
        }
    }
    static inline void everlog_copy_span(char* to, const void* from, int64_t n) {
        if (n >= 512 && n <= 4096) everlog_copy_lines(to, from, n);
        else memcpy(to, from, (size_t)n);
    }
    /* The same, for many spans of equal length. */
    static inline void everlog_copy_equal(char* to, const void* from, int64_t n) {
        if (n >= 64 && n <= 4096) everlog_copy_lines(to, from, n);
        else memcpy(to, from, (size_t)n);
    }
    """
    void everlog_copy_short(char*, const void*, int64_t) noexcept nogil
    # Both take any length; the second is for many spans of equal length.
    void everlog_copy_span(char*, const void*, int64_t) noexcept nogil
    void everlog_copy_equal(char*, const void*, int64_t) noexcept nogil

cdef enum:
    COPY_SLACK = 64     # bytes that a short copy may write past its end
    BLOCK_ROWS = 128
    MAX_VALUES = 8
    MAX_SPANS = 4

cdef struct Block:
    # Rows that a walker has found and the sink has not yet taken.
    int count
    int64_t byte_count                          # of all spans in the block
    const uint8_t* frame[BLOCK_ROWS]            # the row's header
    int64_t* value[MAX_VALUES]                  # computed numbers, written straight into a 64-bit column
    const uint8_t* span[MAX_SPANS][BLOCK_ROWS]  # byte spans from 1 on; span 0 goes through put_span
    int64_t span_length[MAX_SPANS][BLOCK_ROWS]

cdef struct Target:
    int kind
    int source          # field offset, value index or span index
    int source_code     # struct code of a field
    bint swap
    int width           # bytes of a value in the column
    char* data
    int32_t* offsets
    int64_t used
    int64_t capacity

cdef class RowSink:
    cdef readonly int64_t row_count
    cdef readonly int64_t byte_count
    cdef readonly int64_t max_rows
    cdef readonly int64_t max_bytes
    cdef Block block
    cdef Target* targets
    cdef Target* payload    # the column of byte span 0, or NULL
    cdef Target* direct[MAX_VALUES]             # the column into which a computed number is written directly, or NULL
    cdef Target* quad[4]    # four 32-bit fields that are adjacent in the header, or NULLs
    cdef int64_t scratch[MAX_VALUES][BLOCK_ROWS]
    cdef int target_count
    cdef bint has_bytes
    cdef bint ready
    cdef list _columns
    cdef list _buffers
    cdef list _offset_buffers

    cdef int prepare(self) except -1
    cdef void point(self) noexcept nogil
    # The readable end guards copies that read a few bytes past a span.
    cdef int flush(self, const uint8_t* readable_end) except -1 nogil
    cdef int extend_last(self, int span, const uint8_t* data, int64_t length) except -1 nogil
    cdef int _grow(self, Target* target, int64_t needed) except -1 with gil

cdef inline int put_span(
    RowSink sink, const uint8_t* data, int64_t length, const uint8_t* readable_end
) except -1 nogil:
    # Copies byte span 0 of the row that is about to be added to the block, immediately, while the bytes stream in
    # after the header: a second pass over large payloads would wait for memory twice.
    if sink.payload != NULL:
        put_span_at(sink, sink.payload, sink.row_count + sink.block.count, data, length, readable_end)
    return 0

cdef inline int put_span_at(
    RowSink sink, Target* target, int64_t row, const uint8_t* data, int64_t length, const uint8_t* readable_end
) except -1 nogil:
    # The same, for callers that hold the column and the row's number themselves.
    cdef int64_t used = target.used
    if used + length + COPY_SLACK > target.capacity:
        sink._grow(target, used + length + COPY_SLACK)
    if length <= COPY_SLACK and data + COPY_SLACK <= readable_end:
        everlog_copy_short(target.data + used, data, length)
    else:
        everlog_copy_span(target.data + used, data, length)
    used += length
    target.used = used
    target.offsets[row + 1] = <int32_t>used
    return 0

cdef inline bint has_room(RowSink sink, int64_t length) noexcept nogil:
    # Whether one more row with ``length`` bytes in its spans fits after the rows of the sink and of its block.
    cdef int64_t rows = sink.row_count + sink.block.count
    if not sink.has_bytes:
        return rows < sink.max_rows
    if rows == 0:
        return length <= 0x7FFFFFFF
    return rows < sink.max_rows and sink.byte_count + sink.block.byte_count + length <= sink.max_bytes
