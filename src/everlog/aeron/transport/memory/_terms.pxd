from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from everlog.kernel._atomics cimport acquire_i32

include "everlog/aeron/_layouts.pxi"

cdef extern from *:
    """
    #include <string.h>
    #include <stdint.h>
    #if defined(__x86_64__) && defined(__GNUC__)
    /* Payloads of some hundred bytes, into or out of memory that is in no cache: the C library's copy is made for lengths
       that vary more, and a fifth slower here. */
    typedef long long everlog_v32 __attribute__((vector_size(32), aligned(1), may_alias));
    __attribute__((target("avx2"), unused))
    static void everlog_copy_by_32(char* to, const char* from, int64_t n) {
        everlog_v32 last = *(const everlog_v32*)(from + n - 32);
        int64_t i = 0;
        for (; i + 128 <= n; i += 128) {
            everlog_v32 a = *(const everlog_v32*)(from + i), b = *(const everlog_v32*)(from + i + 32);
            everlog_v32 c = *(const everlog_v32*)(from + i + 64), d = *(const everlog_v32*)(from + i + 96);
            *(everlog_v32*)(to + i) = a; *(everlog_v32*)(to + i + 32) = b;
            *(everlog_v32*)(to + i + 64) = c; *(everlog_v32*)(to + i + 96) = d;
        }
        for (; i + 32 <= n; i += 32) *(everlog_v32*)(to + i) = *(const everlog_v32*)(from + i);
        *(everlog_v32*)(to + n - 32) = last;
    }
    /* Copies whole cache lines, if the processor can: memory after a term's tail is in no cache, and a line that is
       written whole need not be fetched first. */
    typedef long long everlog_v64 __attribute__((vector_size(64), aligned(1), may_alias));
    __attribute__((target("avx512f"), unused))
    static void everlog_copy_by_64(char* to, const char* from, int64_t n) {
        everlog_v64 first = *(const everlog_v64*)from, last = *(const everlog_v64*)(from + n - 64);
        int64_t i = 64 - (int64_t)((uintptr_t)to & 63);
        *(everlog_v64*)to = first;
        for (; i + 128 <= n; i += 128) {
            everlog_v64 a = *(const everlog_v64*)(from + i), b = *(const everlog_v64*)(from + i + 64);
            *(everlog_v64*)(to + i) = a; *(everlog_v64*)(to + i + 64) = b;
        }
        for (; i + 64 <= n; i += 64) *(everlog_v64*)(to + i) = *(const everlog_v64*)(from + i);
        *(everlog_v64*)(to + n - 64) = last;
    }
    static inline void everlog_copy_long(char* to, const char* from, int64_t n) {
        if (n >= 256 && n <= 4096 && __builtin_cpu_supports("avx512f")) { everlog_copy_by_64(to, from, n); return; }
        if (n >= 64 && n <= 4096 && __builtin_cpu_supports("avx2")) everlog_copy_by_32(to, from, n);
        else memcpy(to, from, (size_t)n);
    }
    #else
    static inline void everlog_copy_long(char* to, const char* from, int64_t n) { memcpy(to, from, (size_t)n); }
    #endif
    """
    # Any length; the two do not overlap.
    void copy_long "everlog_copy_long"(char* to, const char* data, int64_t n) noexcept nogil

cdef enum:
    HEADER = DATA_HEADER_SIZE
    TYPE_PADDING = 0
    TYPE_DATA = 1
    FLAG_BEGIN = 0x80
    FLAG_END = 0x40
    UNFRAGMENTED = 0xC0
    INVALID = -1
    PRESENT = 0
    INSERTED = 1

cdef inline int64_t align32(int64_t length) noexcept nogil:
    return (length + 31) & ~<int64_t>31

cdef inline int32_t load_i32(const void* at) noexcept nogil:
    cdef int32_t value
    memcpy(&value, at, 4)
    return value

cdef inline int64_t load_i64(const void* at) noexcept nogil:
    cdef int64_t value
    memcpy(&value, at, 8)
    return value

cdef inline int type_of(const char* frame) noexcept nogil:
    return (<uint8_t>frame[DATA_HEADER_TYPE]) | (<uint8_t>frame[DATA_HEADER_TYPE + 1]) << 8

cdef inline int64_t aligned_length(const char* term, int64_t term_length, int64_t at) noexcept nogil:
    # The aligned length of the frame at an offset inside the term; 0 if there is none, or if it can't be one. An
    # acquire: later loads see the whole frame as its publisher wrote it.
    cdef int64_t length = acquire_i32(term + at), aligned = align32(length)
    return aligned if length >= HEADER and aligned <= term_length - at else 0

cdef int64_t end_of_block(const char* term, int64_t term_length, int64_t offset, int64_t limit) noexcept nogil
cdef int insert_frames(
    char* term, int64_t term_length, int64_t term_offset, const char* packet, int64_t length
) noexcept nogil
cdef bint rotate(char* metadata, int32_t term_count, int32_t term_id) noexcept nogil
