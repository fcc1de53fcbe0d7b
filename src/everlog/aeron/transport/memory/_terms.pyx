# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Loops over terms, compiled. Twin: :mod:`everlog.aeron.transport.memory.terms_twin`, which documents each function.
``docs/transport-memory-ordering.md`` lists the memory ordering."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy, memset

from everlog.kernel._atomics cimport (
    acquire_i32, acquire_i64, release_i32, release_i64, swap_i32, swap_i64,
)
from everlog.kernel._memory cimport Memory

from everlog.aeron.transport.memory import terms_twin as _twin
from everlog.errors import UsageError

cdef enum:
    NO_ACTION = 0
    UNBLOCKED = 1
    UNBLOCKED_TO_END = 2

    TERM_COUNT = 3

assert (INSERTED, PRESENT, INVALID, NO_ACTION, UNBLOCKED, UNBLOCKED_TO_END, TERM_COUNT) == (
    _twin.INSERTED, _twin.PRESENT, _twin.INVALID, _twin.NO_ACTION, _twin.UNBLOCKED, _twin.UNBLOCKED_TO_END,
    _twin.TERM_COUNT,
)


cdef struct Scan:
    int64_t available
    int64_t padding


cdef Scan scan_frames(const char* term, int64_t term_length, int64_t offset, int64_t max_length) noexcept nogil:
    cdef Scan found
    cdef int64_t limit = min(max_length, term_length - offset), length
    found.available = 0
    found.padding = 0
    while found.padding == 0 and found.available < limit:
        length = aligned_length(term, term_length, offset + found.available)
        if length == 0:
            break
        if type_of(term + offset + found.available) == TYPE_PADDING:
            found.padding = length - HEADER
            length = HEADER
        if found.available + length > limit:
            found.padding = 0
            if found.available == 0:
                found.available = -length
            break
        found.available += length
    return found


def scan_for_availability(Memory term, int64_t offset, int64_t max_length):
    check_range(term, offset, 0)
    cdef Scan found = scan_frames(term.data, term.length, offset, max_length)
    return found.available, found.padding


def scan_datagrams(Memory term, int64_t offset, int64_t max_length, int64_t mtu, ends):
    cdef Py_buffer view
    cdef Scan found
    cdef int64_t limit, at = offset, count = 0, room, padding = 0
    cdef bint blocked = False
    cdef int64_t* end
    check_range(term, offset, 0)
    PyObject_GetBuffer(ends, &view, PyBUF_WRITABLE)
    try:
        end = <int64_t*>view.buf
        room = view.len // 8
        limit = min(max_length, term.length - offset)
        with nogil:
            while count < room and at - offset < limit and padding == 0:
                found = scan_frames(term.data, term.length, at, min(mtu, limit - (at - offset)))
                if found.available <= 0:
                    blocked = found.available < 0
                    break
                padding = found.padding
                at += found.available
                memcpy(end + count, &at, 8)
                count += 1
    finally:
        PyBuffer_Release(&view)
    return count, at - offset, padding, blocked


def insert(Memory term, int64_t term_offset, packet, int64_t start, int64_t length):
    cdef Py_buffer view
    cdef int outcome
    if not term.writable:
        raise TypeError("this memory is read-only")
    PyObject_GetBuffer(packet, &view, PyBUF_SIMPLE)
    try:
        if start < 0 or length < 0 or start > view.len - length:
            raise IndexError(f"{length} bytes at {start} of a packet of {view.len}")
        outcome = insert_frames(term.data, term.length, term_offset, <const char*>view.buf + start, length)
    finally:
        PyBuffer_Release(&view)
    return outcome


cdef int insert_frames(
    char* term, int64_t term_length, int64_t term_offset, const char* packet, int64_t length
) noexcept nogil:
    cdef int64_t at = 0, frame_length
    cdef bint is_last = False
    if term_offset < 0 or term_offset & 31 or length <= 0 or length > term_length - term_offset:
        return INVALID
    while at < length:
        if is_last or length - at < HEADER:
            return INVALID
        frame_length = load_i32(packet + at)
        if frame_length < HEADER or load_i32(packet + at + DATA_HEADER_TERM_OFFSET) != term_offset + at:
            return INVALID
        if memcmp(packet + at + DATA_HEADER_SESSION_ID, packet + DATA_HEADER_SESSION_ID, 12) != 0:
            return INVALID
        if type_of(packet + at) == TYPE_PADDING:
            is_last = True
            if align32(frame_length) > term_length - term_offset - at:
                return INVALID
            at += HEADER
        else:
            at += align32(frame_length)
    if at != length:
        return INVALID
    if load_i32(term + term_offset) != 0:
        return PRESENT
    memcpy(term + term_offset + 8, packet + 8, length - 8)
    release_i64(term + term_offset, load_i64(packet))
    return INSERTED


def scan_for_gap(Memory term, int64_t offset, int64_t limit):
    cdef int64_t at = offset, length, gap
    check_range(term, offset, 0)
    limit = min(limit, term.length)
    with nogil:
        while True:
            length = aligned_length(term.data, term.length, at) if at <= term.length - HEADER else 0
            if length == 0:
                break
            at += length
            if at >= limit:
                break
        gap = at
        if at < limit:
            at += HEADER
            while at < limit and acquire_i32(term.data + at) == 0:
                at += HEADER
    return gap, at - gap


cdef int64_t end_of_block(const char* term, int64_t term_length, int64_t offset, int64_t limit) noexcept nogil:
    cdef int64_t at = offset, length
    limit = min(limit, term_length)
    while at < limit:
        length = aligned_length(term, term_length, at)
        if length == 0:
            break
        if type_of(term + at) == TYPE_PADDING:
            if at == offset:
                at += length
            break
        if at + length > limit:
            break
        at += length
    return at


def scan_block(Memory term, int64_t offset, int64_t limit):
    cdef int64_t end
    check_range(term, offset, 0)
    with nogil:
        end = end_of_block(term.data, term.length, offset, limit)
    return end


def try_fill_gap(Memory metadata, Memory term, int32_t term_id, int64_t gap_offset, int64_t gap_length):
    check_range(term, gap_offset, gap_length)
    cdef int64_t at = gap_offset + gap_length - 32
    while at >= gap_offset:
        if load_i32(term.data + at) != 0:
            return False
        at -= 32
    put_padding(metadata, term, gap_offset, term_id, gap_length)
    return True


def unblock_term(Memory metadata, Memory term, int64_t blocked_offset, int64_t tail_offset, int32_t term_id):
    cdef int64_t at = blocked_offset + 32, length
    check_range(term, blocked_offset, 32)
    length = acquire_i32(term.data + blocked_offset)
    if length < 0:
        if align32(-length) > term.length - blocked_offset or -length < HEADER:
            return NO_ACTION
        put_padding(metadata, term, blocked_offset, term_id, -length)
        return UNBLOCKED
    if length > 0:
        return NO_ACTION
    while at < min(tail_offset, term.length):
        if acquire_i32(term.data + at) != 0:
            if is_zero(term.data, blocked_offset, at):
                put_padding(metadata, term, blocked_offset, term_id, at - blocked_offset)
                return UNBLOCKED
            return NO_ACTION
        at += 32
    if at == term.length and acquire_i32(term.data + blocked_offset) == 0:
        put_padding(metadata, term, blocked_offset, term_id, at - blocked_offset)
        return UNBLOCKED_TO_END
    return NO_ACTION


def unblock(terms, Memory metadata, int64_t blocked_position, int64_t term_length):
    cdef int64_t count, offset, tail
    cdef int32_t active
    check_metadata(metadata, True)
    if blocked_position < 0 or blocked_position & 31:
        raise UsageError("position", found=str(blocked_position), expected="a multiple of 32")
    count = blocked_position // term_length
    offset = blocked_position % term_length
    active = acquire_i32(metadata.data + LOG_META_DATA_ACTIVE_TERM_COUNT)
    if active == count - 1 and offset == 0:
        tail = acquire_i64(metadata.data + LOG_META_DATA_TAIL_0 + 8 * index_of(active))
        rotate(metadata.data, active, <int32_t>(tail >> 32))
        return True
    tail = acquire_i64(metadata.data + LOG_META_DATA_TAIL_0 + 8 * (count % TERM_COUNT))
    outcome = unblock_term(
        metadata, terms[count % TERM_COUNT], offset, min(<int64_t><uint32_t>tail, term_length), <int32_t>(tail >> 32)
    )
    if outcome == UNBLOCKED_TO_END:
        rotate(metadata.data, <int32_t>count, <int32_t>(tail >> 32))
    return outcome != NO_ACTION


def rotate_log(Memory metadata, int32_t term_count, int32_t term_id):
    check_metadata(metadata, True)
    return bool(rotate(metadata.data, term_count, term_id))


cdef bint rotate(char* metadata, int32_t term_count, int32_t term_id) noexcept nogil:
    cdef int32_t next_id = <int32_t>(<uint32_t>term_id + 1)
    cdef int32_t next_count = <int32_t>(<uint32_t>term_count + 1)
    cdef int32_t expected = <int32_t>(<uint32_t>next_id - TERM_COUNT)
    cdef char* at = metadata + LOG_META_DATA_TAIL_0 + 8 * index_of(next_count)
    cdef int64_t tail
    while True:
        tail = acquire_i64(at)
        if <int32_t>(tail >> 32) != expected or swap_i64(at, tail, <int64_t>(<uint64_t><int64_t>next_id << 32)):
            break
    return swap_i32(metadata + LOG_META_DATA_ACTIVE_TERM_COUNT, term_count, next_count)


def producer_position(Memory metadata, int64_t term_length, int32_t initial_term_id):
    check_metadata(metadata)
    cdef int32_t count = acquire_i32(metadata.data + LOG_META_DATA_ACTIVE_TERM_COUNT)
    cdef int64_t tail = acquire_i64(metadata.data + LOG_META_DATA_TAIL_0 + 8 * index_of(count))
    count = <int32_t>(<uint32_t>(tail >> 32) - <uint32_t>initial_term_id)
    return count * term_length + min(<int64_t><uint32_t>tail, term_length)


def clean(Memory term, int64_t offset, int64_t length):
    if length == 0:
        return
    check_range(term, offset, length)
    if not term.writable:
        raise TypeError("this memory is read-only")
    with nogil:
        memset(term.data + offset + 8, 0, length - 8)
        release_i64(term.data + offset, 0)


cdef inline int index_of(int32_t term_count) noexcept nogil:
    # The count may be negative in a damaged log.
    cdef int index = term_count % TERM_COUNT
    return index + TERM_COUNT if index < 0 else index


cdef int put_padding(Memory metadata, Memory term, int64_t at, int32_t term_id, int64_t length) except -1:
    check_metadata(metadata)
    if not term.writable:
        raise TypeError("this memory is read-only")
    cdef char header[HEADER]
    cdef int32_t offset = <int32_t>at
    memcpy(header, metadata.data + LOG_META_DATA_DEFAULT_HEADER, HEADER)
    memset(header + DATA_HEADER_TYPE, 0, 2)
    memcpy(header + DATA_HEADER_TERM_OFFSET, &offset, 4)
    memcpy(header + DATA_HEADER_TERM_ID, &term_id, 4)
    memcpy(term.data + at + 4, header + 4, HEADER - 4)
    release_i32(term.data + at, <int32_t>length)
    return 0


cdef bint is_zero(const char* term, int64_t start, int64_t end) noexcept nogil:
    cdef int64_t at = end - 32
    while at >= start:
        if acquire_i32(term + at) != 0:
            return False
        at -= 32
    return True


cdef int check_range(Memory term, int64_t offset, int64_t length) except -1:
    if offset < 0 or length < 0 or offset > term.length - length or (offset | length | term.length) & 31:
        raise IndexError(f"{length} bytes at {offset} of a term of {term.length}, by 32")
    return 0


cdef int check_metadata(Memory metadata, bint write=False) except -1:
    if write and not metadata.writable:
        raise TypeError("this memory is read-only")
    if metadata.length < LOG_META_DATA_SIZE:
        raise IndexError(f"a log's metadata of {metadata.length} bytes")
    return 0
