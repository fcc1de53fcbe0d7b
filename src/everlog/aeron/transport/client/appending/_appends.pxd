"""What appenders do with a log, over plain pointers and without the GIL. Twin: :mod:`everlog.aeron.transport.client.appending.publication_twin`, which
documents each function. ``docs/transport-memory-ordering.md`` lists the memory ordering.

Several short messages are written as one batch, from the last to the first: the first frame's length, which publishes them
all, is written last, so that readers on another core ask for its cache line once, and a publisher that dies leaves
what the driver can unblock."""

from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from everlog.kernel._atomics cimport acquire_i32, acquire_i64, add_i64, release_fence, release_i32, release_i64, swap_i64
from everlog.aeron.transport.memory._terms cimport (
    DATA_HEADER_FLAGS, DATA_HEADER_RESERVED_VALUE, DATA_HEADER_SESSION_ID, DATA_HEADER_STREAM_ID, DATA_HEADER_TERM_ID,
    DATA_HEADER_TERM_OFFSET, DATA_HEADER_TYPE, FLAG_BEGIN, FLAG_END, HEADER, LOG_META_DATA_ACTIVE_TERM_COUNT,
    LOG_META_DATA_IS_CONNECTED, LOG_META_DATA_TAIL_0, TYPE_PADDING, align32, copy_long, load_i32, rotate, type_of,
)

cdef extern from *:
    """
    #include <string.h>
    #include <stdint.h>
    static inline void everlog_prefetch_for_writing(const void* at) { __builtin_prefetch(at, 1, 3); }
    static inline void everlog_put_header(char* frame, uint64_t a, uint64_t b, uint64_t c, uint64_t d) {
        memcpy(frame, &a, 8); memcpy(frame + 8, &b, 8); memcpy(frame + 16, &c, 8); memcpy(frame + 24, &d, 8);
    }
    /* A payload: nothing beyond it is read or written. Short ones as a few moves that overlap. */
    static inline void everlog_put(char* to, const char* from, int64_t n) {
        if (n == 32) { memcpy(to, from, 32); return; }
        if (n > 64) { everlog_copy_long(to, from, n); return; }
        if (n >= 32) { char a[32], b[32]; memcpy(a, from, 32); memcpy(b, from + n - 32, 32); memcpy(to, a, 32); memcpy(to + n - 32, b, 32); return; }
        if (n >= 16) { char a[16], b[16]; memcpy(a, from, 16); memcpy(b, from + n - 16, 16); memcpy(to, a, 16); memcpy(to + n - 16, b, 16); return; }
        if (n >= 8) { uint64_t a, b; memcpy(&a, from, 8); memcpy(&b, from + n - 8, 8); memcpy(to, &a, 8); memcpy(to + n - 8, &b, 8); return; }
        if (n >= 4) { uint32_t a, b; memcpy(&a, from, 4); memcpy(&b, from + n - 4, 4); memcpy(to, &a, 4); memcpy(to + n - 4, &b, 4); return; }
        if (n >= 1) { char a = from[0], b = from[n / 2], c = from[n - 1]; to[0] = a; to[n / 2] = b; to[n - 1] = c; }
    }
    """
    void everlog_put(char* to, const char* data, int64_t n) noexcept nogil
    void everlog_prefetch_for_writing(const void* at) noexcept nogil
    void everlog_put_header(char* frame, uint64_t a, uint64_t b, uint64_t c, uint64_t d) noexcept nogil

cdef enum:
    NOT_CONNECTED = -1
    BACK_PRESSURED = -2
    ADMIN_ACTION = -3
    CLOSED = -4
    MAX_POSITION_EXCEEDED = -5
    # Never given to callers.
    TOO_LONG = -100
    BAD_OFFSETS = -101
    BAD_TAIL = -102

    MAX_BATCH = 64
    MAX_TURNS = 4               # to the next term, without a message appended: more only in damaged metadata
    MAX_SHORT = 512             # bytes of a frame: longer ones are written upwards
    MAX_LONG_BATCH = 65536      # bytes of longer ones that the tail is moved by at once
    PREFETCH = 4096             # bytes ahead: memory that is written downwards is not foreseen by the processor

cdef struct LogView:
    # Plain pointers, valid as long as the appender, or whoever calls it, holds the memory.
    char* term[3]
    char* metadata
    const char* limit
    int64_t term_length
    int64_t max_payload
    int64_t max_message
    int64_t max_position
    int shift
    int32_t initial_term_id
    uint64_t first_word         # version, flags and type of a whole message's header, in place
    uint64_t session            # in place
    uint64_t stream


cdef struct Part:
    const char* data
    int64_t length


cdef struct Place:
    # Where an exclusive publication is: its own, nobody else writes it.
    int64_t begin               # position of the term's start
    int64_t offset
    int32_t term_id
    int index


cdef inline void put_header(const LogView* log, char* frame, int64_t offset, int64_t length, int32_t term_id) noexcept nogil:
    # Of a frame that is being written: its length is negative, and there before anything else of it.
    cdef uint64_t word
    release_i64(frame, <int64_t>(log.first_word | <uint32_t>(-<int32_t>length)))
    release_fence()
    word = log.session | <uint32_t>offset
    memcpy(frame + DATA_HEADER_TERM_OFFSET, &word, 8)
    word = <uint64_t><uint32_t>term_id << 32 | log.stream
    memcpy(frame + DATA_HEADER_STREAM_ID, &word, 8)


cdef inline void put_frame(
    const LogView* log, char* frame, int64_t offset, const Part* part, int32_t term_id, int64_t reserved
) noexcept nogil:
    # A frame after one that is not published yet: readers see it after that one, which is published with release.
    everlog_put_header(
        frame, log.first_word | <uint32_t>(part.length + HEADER), log.session | <uint32_t>offset,
        <uint64_t><uint32_t>term_id << 32 | log.stream, <uint64_t>reserved
    )
    everlog_put(frame + HEADER, part.data, part.length)


cdef inline void put_upwards(
    const LogView* log, char* term, int32_t term_id, const Part* parts, const int64_t* offsets, int count, int64_t reserved
) noexcept nogil:
    # Each frame is published as soon as it is written.
    cdef int i
    cdef char* frame
    for i in range(count):
        frame = term + offsets[i]
        put_header(log, frame, offsets[i], parts[i].length + HEADER, term_id)
        memcpy(frame + DATA_HEADER_RESERVED_VALUE, &reserved, 8)
        everlog_put(frame + HEADER, parts[i].data, parts[i].length)
        release_i32(frame, <int32_t>(parts[i].length + HEADER))


cdef inline void put_batch(
    const LogView* log, char* term, int64_t offset, int32_t term_id, const Part* parts, const int64_t* offsets, int count,
    int64_t reserved
) noexcept nogil:
    cdef int i
    cdef char* first = term + offset
    if parts[0].length > MAX_SHORT - HEADER:
        put_upwards(log, term, term_id, parts, offsets, count, reserved)
        return
    put_header(log, first, offset, parts[0].length + HEADER, term_id)
    for i in range(count - 1, 0, -1):
        put_frame(log, term + offsets[i], offsets[i], &parts[i], term_id, reserved)
    memcpy(first + DATA_HEADER_RESERVED_VALUE, &reserved, 8)
    everlog_put(first + HEADER, parts[0].data, parts[0].length)
    release_i32(first, <int32_t>(parts[0].length + HEADER))


cdef inline void put_fragments(
    const LogView* log, char* term, int64_t offset, int32_t term_id, const Part* part, int64_t reserved
) noexcept nogil:
    cdef const char* data = part.data
    cdef int64_t left = part.length, length
    cdef int flags = FLAG_BEGIN
    while left > 0:
        length = min(left, log.max_payload)
        put_header(log, term + offset, offset, length + HEADER, term_id)
        copy_long(term + offset + HEADER, data, length)
        if left <= log.max_payload:
            flags |= FLAG_END
        term[offset + DATA_HEADER_FLAGS] = <char>flags
        memcpy(term + offset + DATA_HEADER_RESERVED_VALUE, &reserved, 8)
        release_i32(term + offset, <int32_t>(length + HEADER))
        flags = 0
        offset += align32(length + HEADER)
        data += length
        left -= length


cdef inline int64_t framed_length(const LogView* log, int64_t length) noexcept nogil:
    cdef int64_t whole, rest
    if length <= log.max_payload:
        return align32(length + HEADER)
    whole = length // log.max_payload
    rest = length % log.max_payload
    return whole * (log.max_payload + HEADER) + (align32(rest + HEADER) if rest else 0)


cdef inline void put_padding(const LogView* log, char* term, int64_t offset, int64_t length, int32_t term_id) noexcept nogil:
    put_header(log, term + offset, offset, length, term_id)
    memset(term + offset + DATA_HEADER_TYPE, 0, 2)
    release_i32(term + offset, <int32_t>length)


cdef inline int64_t refusal(const LogView* log, int64_t position, int64_t length) noexcept nogil:
    # Why nothing can be appended at the limit.
    if position + align32(length + HEADER) >= log.max_position:
        return MAX_POSITION_EXCEEDED
    if acquire_i32(log.metadata + LOG_META_DATA_IS_CONNECTED) == 1:
        return BACK_PRESSURED
    return NOT_CONNECTED


cdef inline int64_t packed_tail(int32_t term_id, int64_t offset) noexcept nogil:
    return <int64_t>(<uint64_t><uint32_t>term_id << 32 | <uint64_t>offset)


# -- exclusive


cdef inline void next_term(const LogView* log, Place* place) noexcept nogil:
    place.index = place.index + 1 if place.index < 2 else 0
    place.offset = 0
    place.term_id = <int32_t>(<uint32_t>place.term_id + 1)
    place.begin += log.term_length
    release_i64(log.metadata + LOG_META_DATA_TAIL_0 + 8 * place.index, packed_tail(place.term_id, 0))
    release_i32(
        log.metadata + LOG_META_DATA_ACTIVE_TERM_COUNT, <int32_t>(<uint32_t>place.term_id - <uint32_t>log.initial_term_id)
    )


cdef inline void move_tail(const LogView* log, const Place* place, int64_t offset) noexcept nogil:
    release_i64(log.metadata + LOG_META_DATA_TAIL_0 + 8 * place.index, packed_tail(place.term_id, offset))


cdef inline int64_t claim_exclusive(const LogView* log, Place* place, int64_t length, int64_t framed) noexcept nogil:
    # The term offset of so many bytes, or a code. The place moves only when what was claimed has been written.
    if place.begin + place.offset >= acquire_i64(log.limit):
        return refusal(log, place.begin + place.offset, length)
    move_tail(log, place, place.offset + framed)
    if place.offset + framed <= log.term_length:
        return place.offset
    if place.offset < log.term_length:
        put_padding(log, log.term[place.index], place.offset, log.term_length - place.offset, place.term_id)
    if place.begin + log.term_length >= log.max_position:
        return MAX_POSITION_EXCEEDED
    next_term(log, place)
    return ADMIN_ACTION


cdef inline int64_t append_exclusive(const LogView* log, Place* place, const Part* part, int64_t reserved) noexcept nogil:
    cdef int64_t framed, offset
    if part.length > log.max_message:
        return TOO_LONG
    framed = framed_length(log, part.length)
    offset = claim_exclusive(log, place, part.length, framed)
    if offset < 0:
        return offset
    if part.length <= log.max_payload:
        put_batch(log, log.term[place.index], offset, place.term_id, part, &offset, 1, reserved)
    else:
        put_fragments(log, log.term[place.index], offset, place.term_id, part, reserved)
    place.offset = offset + framed
    return place.begin + place.offset


cdef inline int batch_of(
    const LogView* log, const char* term, const Part* parts, int count, int64_t position, int64_t offset, int64_t* offsets, int64_t* end
) noexcept nogil:
    # How many messages from ``offset`` on, which is ``position``, fit as one batch: all short or all long, within the
    # term, each beginning below the limit.
    cdef int64_t at = offset, next_at, limit = acquire_i64(log.limit) - position + offset
    cdef int i = 0
    cdef bint is_long = parts[0].length > MAX_SHORT - HEADER
    while i < count and at < limit and parts[i].length <= log.max_payload:
        next_at = at + align32(parts[i].length + HEADER)
        if next_at > log.term_length or (parts[i].length > MAX_SHORT - HEADER) != is_long:
            break
        if is_long and i > 0 and next_at - offset > MAX_LONG_BATCH:
            break
        if not is_long:
            everlog_prefetch_for_writing(term + min(at + PREFETCH, log.term_length - 1))
        offsets[i] = at
        at = next_at
        i += 1
    end[0] = at
    return i


cdef inline int64_t append_parts_exclusive(
    const LogView* log, Place* place, const Part* parts, int count, int64_t reserved, int64_t* status
) noexcept nogil:
    # How many of up to MAX_BATCH messages were appended; why no more in ``status``.
    cdef int64_t offsets[MAX_BATCH]
    cdef int64_t end
    cdef int done = 0, fit
    status[0] = 0
    while done < count:
        fit = batch_of(
            log, log.term[place.index], parts + done, count - done, place.begin + place.offset, place.offset, offsets, &end
        )
        if fit > 0:
            move_tail(log, place, end)
            put_batch(log, log.term[place.index], place.offset, place.term_id, parts + done, offsets, fit, reserved)
            place.offset = end
            done += fit
            continue
        status[0] = append_exclusive(log, place, parts + done, reserved)
        if status[0] >= 0:
            done += 1
        elif status[0] != ADMIN_ACTION:
            break
    return done


# -- concurrent


cdef struct Tail:
    int64_t raw
    int64_t offset
    int64_t position
    int32_t term_id
    int index


cdef inline int read_tail(const LogView* log, Tail* tail) noexcept nogil:
    # The active term's, or a code: another publisher is going on to the next term, or the tail is damaged.
    cdef int32_t count = acquire_i32(log.metadata + LOG_META_DATA_ACTIVE_TERM_COUNT)
    if count < 0:
        return BAD_TAIL
    tail.index = count % 3
    tail.raw = acquire_i64(log.metadata + LOG_META_DATA_TAIL_0 + 8 * tail.index)
    tail.term_id = <int32_t>(tail.raw >> 32)
    tail.offset = min(<int64_t><uint32_t>tail.raw, log.term_length)
    if count != <int32_t>(<uint32_t>tail.term_id - <uint32_t>log.initial_term_id):
        return ADMIN_ACTION
    if tail.offset & 31:
        return BAD_TAIL
    tail.position = (<int64_t>count << log.shift) + tail.offset
    return 0


cdef inline int64_t claim_concurrent(const LogView* log, Tail* tail, int64_t length, int64_t framed) noexcept nogil:
    # The term offset of so many bytes, which are this caller's alone, or a code.
    cdef int64_t status = read_tail(log, tail), raw, offset
    cdef int32_t count
    if status < 0:
        return status
    if tail.position >= acquire_i64(log.limit):
        return refusal(log, tail.position, length)
    raw = add_i64(log.metadata + LOG_META_DATA_TAIL_0 + 8 * tail.index, framed)
    offset = <int64_t><uint32_t>raw
    tail.term_id = <int32_t>(raw >> 32)
    count = <int32_t>(<uint32_t>tail.term_id - <uint32_t>log.initial_term_id)
    if offset & 31 or count < 0:
        return BAD_TAIL
    tail.offset = min(offset, log.term_length)
    tail.position = (<int64_t>count << log.shift) + tail.offset
    if offset <= log.term_length - framed:
        return offset
    if offset < log.term_length:
        put_padding(log, log.term[tail.index], offset, log.term_length - offset, tail.term_id)
    if (<int64_t>count + 1) << log.shift >= log.max_position:
        return MAX_POSITION_EXCEEDED
    rotate(log.metadata, count, tail.term_id)
    return ADMIN_ACTION


cdef inline int64_t append_concurrent(const LogView* log, const Part* part, int64_t reserved) noexcept nogil:
    cdef Tail tail
    cdef int64_t framed, offset
    if part.length > log.max_message:
        return TOO_LONG
    framed = framed_length(log, part.length)
    offset = claim_concurrent(log, &tail, part.length, framed)
    if offset < 0:
        return offset
    if part.length <= log.max_payload:
        put_batch(log, log.term[tail.index], offset, tail.term_id, part, &offset, 1, reserved)
    else:
        put_fragments(log, log.term[tail.index], offset, tail.term_id, part, reserved)
    return tail.position + framed


cdef inline int64_t append_parts_concurrent(
    const LogView* log, const Part* parts, int count, int64_t reserved, int64_t* status
) noexcept nogil:
    cdef int64_t offsets[MAX_BATCH]
    cdef Tail tail
    cdef int64_t end
    cdef int done = 0, turns = 0, fit
    status[0] = 0
    while done < count:
        fit = 0
        if read_tail(log, &tail) == 0:
            fit = batch_of(
                log, log.term[tail.index], parts + done, count - done, tail.position, tail.offset, offsets, &end
            )
        if fit > 1:
            # Only if nobody has claimed since: what does not fit must not be claimed.
            if swap_i64(log.metadata + LOG_META_DATA_TAIL_0 + 8 * tail.index, tail.raw, tail.raw + end - tail.offset):
                put_batch(log, log.term[tail.index], tail.offset, tail.term_id, parts + done, offsets, fit, reserved)
                done += fit
            continue
        status[0] = append_concurrent(log, parts + done, reserved)
        if status[0] >= 0:
            done += 1
            turns = 0
        elif status[0] != ADMIN_ACTION or turns == MAX_TURNS:
            break
        else:
            turns += 1
    return done


# -- columns


cdef struct Rows:
    const char* data
    int64_t data_length
    const void* offsets
    int width
    int64_t first
    int64_t last


cdef inline int width_of(const Py_buffer* offsets) noexcept nogil:
    # Of a column's offsets; 0 for what they may not be.
    if offsets.ndim != 1 or offsets.format == NULL:
        return 0
    if offsets.format[1] != 0 or offsets.format[0] not in (c"i", c"l", c"q"):
        return 0
    return offsets.itemsize if offsets.itemsize in (4, 8) else 0


cdef inline int64_t offset_at(const Rows* rows, int64_t row) noexcept nogil:
    cdef int32_t narrow
    cdef int64_t wide
    if rows.width == 4:
        memcpy(&narrow, <const char*>rows.offsets + 4 * row, 4)
        return narrow
    memcpy(&wide, <const char*>rows.offsets + 8 * row, 8)
    return wide


cdef inline int64_t append_rows(const LogView* log, Place* place, const Rows* rows, int64_t reserved, int64_t* status) noexcept nogil:
    # Without a place: as one publisher of several. How many rows were appended; why no more in ``status``.
    cdef Part parts[MAX_BATCH]
    cdef int64_t row = rows.first, start, end, appended
    cdef int count
    status[0] = 0
    while row < rows.last:
        count = 0
        start = offset_at(rows, row)
        while count < MAX_BATCH and row + count < rows.last:
            end = offset_at(rows, row + count + 1)
            if start < 0 or end < start or end > rows.data_length:
                break
            parts[count].data = rows.data + start
            parts[count].length = end - start
            start = end
            count += 1
        if count == 0:
            status[0] = BAD_OFFSETS
            break
        if place != NULL:
            appended = append_parts_exclusive(log, place, parts, count, reserved, status)
        else:
            appended = append_parts_concurrent(log, parts, count, reserved, status)
        row += appended
        if appended < count:
            break
    return row - rows.first


cdef inline int64_t block_length(
    const LogView* log, const char* block, int64_t length, int64_t term_offset, int32_t session_id, int32_t term_id
) noexcept nogil:
    # What a block of frames takes of the term; or, negative, 1 more than where in it is a frame that may not be there.
    cdef int64_t at = 0, taken, rest = log.term_length - term_offset
    while at < length:
        if length - at < HEADER:
            return -1 - at
        taken = align32(load_i32(block + at)) if load_i32(block + at) >= HEADER else 0
        if (
            taken == 0 or taken > rest - at or load_i32(block + at + DATA_HEADER_TERM_OFFSET) != term_offset + at
            or load_i32(block + at + DATA_HEADER_SESSION_ID) != session_id
            or load_i32(block + at + DATA_HEADER_STREAM_ID) != <int32_t>log.stream
            or load_i32(block + at + DATA_HEADER_TERM_ID) != term_id
        ):
            return -1 - at
        if taken > length - at:
            if type_of(block + at) == TYPE_PADDING and length - at == HEADER:
                return at + taken
            return -1 - at
        at += taken
    return at if at > 0 else -1
