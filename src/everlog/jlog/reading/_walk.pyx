# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Compiled message walker; :mod:`everlog.jlog.reading.walk_twin` documents it."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memcpy

from everlog.kernel._columns cimport BLOCK_ROWS, COPY_SLACK, RowSink, Target, has_room, put_span

from everlog.jlog.format import framing, layouts
from everlog.jlog.reading import walk_twin

include "everlog/jlog/_layouts.pxi"

from everlog.jlog.format._frames cimport (
    LZ4, LZ4_MAX_EXPANSION, MAX_MESSAGE_BYTES, MICROSECONDS, NULL_EMPTY_BYTES, NULL_PROVIDER, PLAIN, stored_length, u32_at,
)

cdef enum:
    MORE = 0
    FULL = 1
    END = 2
    STOP = 3
    FAULT = 4
    SUSPECT = 5
    TIMESTAMP_NS = 0
    LOG = 1
    MARKER = 2
    OFFSET = 3
    LONGEST_WATCHED = 65536     # bytes of the longest payload that is copied and searched in one pass

assert (MORE, FULL, END, STOP, FAULT, SUSPECT) == (
    walk_twin.MORE, walk_twin.FULL, walk_twin.END, walk_twin.STOP, walk_twin.FAULT, walk_twin.SUSPECT)
assert (TIMESTAMP_NS, LOG, MARKER, OFFSET) == (
    walk_twin.TIMESTAMP_NS, walk_twin.LOG, walk_twin.MARKER, walk_twin.OFFSET)
assert (PLAIN, NULL_PROVIDER, LZ4) == (framing.Provider.PLAIN, framing.Provider.NULL, framing.Provider.LZ4)
assert (MICROSECONDS, MAX_MESSAGE_BYTES, LZ4_MAX_EXPANSION, NULL_EMPTY_BYTES) == (
    framing.MICROSECONDS, framing.MAX_MESSAGE_BYTES, framing.LZ4_MAX_EXPANSION, layouts.NULL_EMPTY_BYTES)

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>
    #if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__)
    #define EVERLOG_CLONES __attribute__((target_clones("avx2", "default")))
    #else
    #define EVERLOG_CLONES
    #endif
    typedef uint16_t everlog_u16x16 __attribute__((vector_size(32)));
    typedef uint64_t everlog_u64x4 __attribute__((vector_size(32)));
    /* Whether p[0:n] may contain the magic; false positives are possible, false negatives are not. Wherever its four bytes are, two of
       them (the first two, or the second and third) are one of the pairs p[0:2], p[2:4], ...: so pairs are compared, whole
       registers at a time. Prefetches ahead: otherwise each header, one message apart, would be a cache miss. */
    EVERLOG_CLONES
    static int everlog_may_hold(const uint8_t* p, int64_t n, uint32_t magic) {
        const uint16_t even = (uint16_t)magic, odd = (uint16_t)(magic >> 8);
        const everlog_u16x16 evens = even - (everlog_u16x16){0}, odds = odd - (everlog_u16x16){0};
        everlog_u16x16 a, b, found = {0}, found_b = {0};
        everlog_u64x4 any;
        uint16_t pair;
        int64_t i = 0;
        for (; i + 64 <= n; i += 64) {
            __builtin_prefetch(p + i + 1024);
            memcpy(&a, p + i, 32);
            memcpy(&b, p + i + 32, 32);
            found |= (everlog_u16x16)(a == evens) | (everlog_u16x16)(a == odds);
            found_b |= (everlog_u16x16)(b == evens) | (everlog_u16x16)(b == odds);
        }
        for (; i + 32 <= n; i += 32) {
            memcpy(&a, p + i, 32);
            found |= (everlog_u16x16)(a == evens) | (everlog_u16x16)(a == odds);
        }
        any = (everlog_u64x4)(found | found_b);
        if (any[0] | any[1] | any[2] | any[3]) return 1;
        for (; i + 2 <= n; i += 2) {
            memcpy(&pair, p + i, 2);
            if (pair == even || pair == odd) return 1;
        }
        return 0;
    }
    /* Copy from[0:n], at least 64 bytes, and return what everlog_may_hold does: a second pass would cost as much as the
       copy. The last block overlaps the one before it, so that a magic across their border is seen by one of the two.
       With an odd n its pairs begin at odd offsets, and the rule above holds for those as well. */
    EVERLOG_CLONES
    static int everlog_copy_may_hold(uint8_t* to, const uint8_t* from, int64_t n, uint32_t magic) {
        const uint16_t even = (uint16_t)magic, odd = (uint16_t)(magic >> 8);
        const everlog_u16x16 evens = even - (everlog_u16x16){0}, odds = odd - (everlog_u16x16){0};
        everlog_u16x16 a, b, found = {0}, found_b = {0};
        everlog_u64x4 any;
        int64_t at = 0;
        for (;;) {
            __builtin_prefetch(from + at + 512);
            memcpy(&a, from + at, 32);
            memcpy(&b, from + at + 32, 32);
            memcpy(to + at, &a, 32);
            memcpy(to + at + 32, &b, 32);
            found |= (everlog_u16x16)(a == evens) | (everlog_u16x16)(a == odds);
            found_b |= (everlog_u16x16)(b == evens) | (everlog_u16x16)(b == odds);
            if (at == n - 64) break;
            at = at + 128 <= n ? at + 64 : n - 64;
        }
        any = (everlog_u64x4)(found | found_b);
        return (any[0] | any[1] | any[2] | any[3]) != 0;
    }
    """
    int everlog_may_hold(const uint8_t* p, int64_t n, uint32_t magic) nogil
    int everlog_copy_may_hold(uint8_t* to, const uint8_t* p, int64_t n, uint32_t magic) nogil


cdef bint holds_header(
    const uint8_t* payload, int64_t length, int64_t header_bytes, uint32_t magic, int provider, bint is_last
) noexcept nogil:
    """Whether the payload contains a plausible header with its whole message; in the last message a header is enough."""
    cdef int64_t at, stored
    for at in range(length - header_bytes + 1):
        if u32_at(payload + at) == magic:
            stored = stored_length(payload + at, magic, provider)
            if stored >= 0 and (is_last or at + header_bytes + stored <= length):
                return True
    return False


def walk_messages(
    const uint8_t[::1] data,
    int64_t start,
    int64_t end,
    bint at_end,
    int64_t base,
    uint32_t magic,
    int provider,
    int64_t log,
    int64_t marker,
    int64_t first,
    int64_t stop,
    int64_t trusted,
    RowSink sink,
):
    """Walk the messages of ``data[start:end]``; those numbered ``first`` <= marker < ``stop`` go into ``sink``."""
    cdef int64_t header_bytes = JLOG_HEADER_SIZE if provider == PLAIN else JLOG_COMPRESSED_HEADER_SIZE
    cdef int64_t at = start, after, stored, length
    cdef int status = -1, row
    cdef bint is_copied, may_hold
    cdef Target* payload
    cdef const uint8_t* bytes_
    cdef const uint8_t* header
    if not 0 <= start <= end <= data.shape[0]:
        raise IndexError(f"{start}..{end} is not inside {data.shape[0]} bytes")
    if data.shape[0] == 0:
        return at, marker, STOP if marker >= stop else END if at_end else MORE
    bytes_ = &data[0]
    sink.prepare()
    with nogil:
        while True:
            if marker >= stop:
                status = STOP
                break
            if at == end and at_end:
                status = END
                break
            if end - at < header_bytes:
                status = FAULT if at_end else MORE
                break
            header = bytes_ + at
            stored = stored_length(header, magic, provider)
            if stored < 0:
                status = FAULT
                break
            after = at + header_bytes + stored
            if after > end:
                status = FAULT if at_end else MORE
                break
            is_copied = False
            if at != trusted:
                if end - after < header_bytes:
                    if not at_end:
                        status = MORE
                        break
                    if after != end:
                        status = FAULT
                        break
                elif stored_length(bytes_ + after, magic, provider) < 0:
                    status = FAULT
                    break
                payload = sink.payload
                if stored < header_bytes:
                    may_hold = False
                elif (
                    payload != NULL
                    and 64 <= stored <= LONGEST_WATCHED
                    and marker >= first
                    and stored == u32_at(header + JLOG_HEADER_LENGTH)
                    and payload.used + stored + COPY_SLACK <= payload.capacity
                ):
                    may_hold = everlog_copy_may_hold(
                        <uint8_t*>payload.data + payload.used, header + header_bytes, stored, magic
                    )
                    is_copied = True
                else:
                    may_hold = everlog_may_hold(header + header_bytes, stored, magic)
                if may_hold and holds_header(
                    header + header_bytes, stored, header_bytes, magic, provider, after == end
                ):
                    status = SUSPECT
                    break
            if marker >= first:
                length = u32_at(header + JLOG_HEADER_LENGTH) if provider == NULL_PROVIDER else stored
                if not has_room(sink, length):
                    status = FULL
                    break
                row = sink.block.count
                sink.block.frame[row] = header
                sink.block.value[TIMESTAMP_NS][row] = (
                    <int64_t>u32_at(header + JLOG_HEADER_TV_SEC) * 1000000000
                    + <int64_t>u32_at(header + JLOG_HEADER_TV_USEC) * 1000
                )
                sink.block.value[LOG][row] = log
                sink.block.value[MARKER][row] = marker
                sink.block.value[OFFSET][row] = base + at
                if is_copied:
                    payload.used += length
                    payload.offsets[sink.row_count + row + 1] = <int32_t>payload.used
                else:
                    put_span(sink, header + header_bytes, length, bytes_ + end)
                sink.block.count = row + 1
                sink.block.byte_count += length
                if row + 1 == BLOCK_ROWS:
                    sink.flush(bytes_ + end)
            at = after
            marker += 1
        sink.flush(bytes_ + end)
    return at, marker, status
