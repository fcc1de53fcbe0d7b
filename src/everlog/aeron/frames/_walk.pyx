# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Compiled walker; :mod:`everlog.aeron.frames.walk_twin` documents what it does and why."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy

from everlog.kernel._columns cimport (
    BLOCK_ROWS, COPY_SLACK, RowSink, Target, everlog_copy_short, everlog_copy_equal, has_room, put_span, put_span_at,
)
from everlog.kernel._crc32 cimport Crc32

from everlog.aeron.frames import constants as _frames
from everlog.aeron.frames import walk_twin as _twin
from everlog.kernel.crc32 import Crc32 as _AnyCrc32

include "everlog/aeron/_layouts.pxi"

cdef extern from *:
    """
    #include <string.h>
    #include <stdint.h>
    static inline void everlog_prefetch(const void* at) { __builtin_prefetch(at, 0, 0); }
    /* Prefetches into the second-level cache, which can wait for more lines at once than the first-level one. */
    static inline void everlog_prefetch_far(const uint8_t* at, int64_t length) {
        for (int64_t i = 0; i < length; i += 64) __builtin_prefetch(at + i, 0, 2);
    }
    static inline uint32_t everlog_load32(const void* at) {
        uint32_t v; memcpy(&v, at, 4);
    #if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
        v = __builtin_bswap32(v);
    #endif
        return v; }
    static inline uint64_t everlog_load64(const void* at) {
        uint64_t v; memcpy(&v, at, 8);
    #if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
        v = __builtin_bswap64(v);
    #endif
        return v; }
    """
    void everlog_prefetch(const void*) nogil
    void everlog_prefetch_far(const uint8_t*, int64_t) nogil
    uint32_t everlog_load32(const void*) nogil
    uint64_t everlog_load64(const void*) nogil

cdef enum:
    END = 0
    NEED_MORE = 1
    FULL = 2
    UNSET = 3
    FRAME_LENGTH = 4
    FRAME_TYPE = 5
    TERM_OFFSET = 6
    TERM_ID = 7
    STREAM_ID = 8
    CHECKSUM = 9
    INCOMPLETE = 10
    ORPHAN = 11
    TOO_LONG = 12
    PADDING_DATA = 13
    TORN = 14

    PAGE_SIZE = 4096
    HEADER = DATA_HEADER_SIZE
    TYPE_PADDING = 0
    TYPE_DATA = 1
    FLAG_BEGIN = 0x80
    FLAG_END = 0x40
    UNFRAGMENTED = 0xC0
    MAX_FRAME_LENGTH = 65536
    MAX_MESSAGE_BYTES = 67108864
    MAX_CHECKED_PADDING = 64
    FLIPPED_BITS = 16
    PREFETCH = 2048
    FAR_PREFETCH = 4096         # bytes that a run of large payloads is prefetched ahead
    MAX_PLAIN_SESSIONS = 8
    MAX_RUN_STRIDE = 128        # longest stride of a run whose payloads are copied afterwards, from the first-level cache

assert (HEADER, MAX_FRAME_LENGTH, MAX_MESSAGE_BYTES, PAGE_SIZE) == (
    _frames.HEADER_LENGTH, _frames.MAX_FRAME_LENGTH, _frames.MAX_MESSAGE_BYTES, _frames.PAGE_SIZE,
)
assert (
    END, NEED_MORE, FULL, UNSET, FRAME_LENGTH, CHECKSUM, INCOMPLETE, ORPHAN, TOO_LONG, PADDING_DATA, TORN,
) == (
    _twin.END, _twin.NEED_MORE, _twin.FULL, _twin.UNSET, _twin.FRAME_LENGTH, _twin.CHECKSUM, _twin.INCOMPLETE,
    _twin.ORPHAN, _twin.TOO_LONG, _twin.PADDING_DATA, _twin.TORN,
)


cdef inline int64_t align32(int64_t length) noexcept nogil:
    return (length + 31) & ~<int64_t>31


cdef inline int64_t length_of(const uint8_t* frame) noexcept nogil:
    return <int32_t>everlog_load32(frame + DATA_HEADER_FRAME_LENGTH)


cdef inline int type_of(const uint8_t* frame) noexcept nogil:
    return frame[DATA_HEADER_TYPE] | frame[DATA_HEADER_TYPE + 1] << 8


cdef inline int shorter_lengths(int64_t length, int64_t* found) noexcept nogil:
    """The aligned lengths, of at least a header, that ``length`` has with one bit cleared."""
    cdef int64_t bits = length & 0xFFFF, low, shorter
    cdef int count = 0
    while bits:
        low = bits & -bits
        bits ^= low
        shorter = align32(length - low)
        if HEADER <= shorter < align32(length) and (count == 0 or found[count - 1] != shorter):
            found[count] = shorter
            count += 1
    return count


cdef inline bint holds_shorter(
    const uint8_t* frame, const int64_t* shorter, int count, uint64_t expected
) noexcept nogil:
    """Whether something like a header lies where the frame would end with a shorter length, so that it needs a check."""
    cdef int i
    for i in range(count):
        if everlog_load64(frame + shorter[i] + DATA_HEADER_STREAM_ID) == expected:
            return True
    return False


cdef struct Run:
    const uint8_t* data
    uint64_t word           # length, version, flags and type of each header
    uint64_t expected       # stream id and term id of each header
    int64_t in_term         # term offset of ``data``
    int64_t stride          # from header to header
    int64_t last            # last offset at which a header of the run may begin
    int64_t distance        # prefetch distance
    const int64_t* shorter
    int shorter_count


cdef int find_run(const Run* run, int64_t at, int64_t room, const uint8_t** found) noexcept nogil:
    """Count the frames from ``at`` on, up to ``room``, that are each followed by a header equal except for its term
    offset. The loop does nothing else, so that the processor need not wait for one header to find the next.
    """
    cdef const uint8_t* frame = run.data + at
    cdef const uint8_t* last = run.data + run.last
    cdef int64_t stride = run.stride, distance = run.distance, n
    cdef uint64_t word = run.word, expected = run.expected
    cdef uint32_t term_offset = <uint32_t>(run.in_term + at + stride)
    cdef int i = 0, count = 0
    for n in range(room):
        found[n] = frame
        frame += stride
        if (
            frame > last
            or everlog_load64(frame) != word
            or everlog_load64(frame + DATA_HEADER_STREAM_ID) != expected
            or everlog_load32(frame + DATA_HEADER_TERM_OFFSET) != term_offset
        ):
            break
        everlog_prefetch(frame + distance)
        term_offset += <uint32_t>stride
        count += 1
    if run.shorter_count:
        for i in range(count):
            if holds_shorter(found[i], run.shorter, run.shorter_count, expected):
                return i
    return count


cdef int copy_run(
    const Run* run, int64_t at, int64_t room, const uint8_t** found, char* out, int64_t payload, uint8_t* headers
) noexcept nogil:
    """``find_run`` for large payloads: copies them to ``out`` while they stream in, before anything else in the frame is
    read, and the headers to ``headers``, as reading them again later would wait for memory again. The copy of a frame
    that does not belong to the run is overwritten.
    """
    cdef const uint8_t* frame = run.data + at
    cdef const uint8_t* next_at
    cdef const uint8_t* last = run.data + run.last
    cdef uint64_t word = run.word, expected = run.expected
    cdef int64_t stride = run.stride, n
    cdef uint32_t term_offset = <uint32_t>(run.in_term + at + stride)
    cdef int count = 0
    for n in range(room):
        next_at = frame + stride
        if (
            next_at > last
            or everlog_load64(next_at) != word
            or everlog_load64(next_at + DATA_HEADER_STREAM_ID) != expected
            or everlog_load32(next_at + DATA_HEADER_TERM_OFFSET) != term_offset
        ):
            break
        everlog_prefetch_far(next_at + FAR_PREFETCH, stride)
        memcpy(headers, frame, HEADER)
        everlog_copy_equal(out, frame + HEADER, payload)
        if run.shorter_count and holds_shorter(frame, run.shorter, run.shorter_count, expected):
            break
        out += payload
        found[n] = headers
        headers += HEADER
        frame = next_at
        term_offset += <uint32_t>stride
        count += 1
    return count


ctypedef int (*Copying)(const Run*, int64_t, int64_t, const uint8_t**, char*, int64_t, uint8_t*) noexcept nogil
# Not inlined: its caller has too many variables for the registers, which would make the loop a third slower.
cdef Copying copy_run_apart = copy_run


cdef inline char* room_for(RowSink sink, Target* target, int64_t count) except NULL nogil:
    """Destination of the next ``count`` bytes of a column."""
    if target.used + count + COPY_SLACK > target.capacity:
        sink._grow(target, target.used + count + COPY_SLACK)
    return target.data + target.used


cdef int add_run(
    RowSink sink, int begin, int end, int64_t position, int64_t length, int64_t stride, int64_t flags, bint copied
) except -1 nogil:
    """Add rows ``begin`` to ``end`` of the block. Their headers are equal and their frames lie ``stride`` apart, from
    ``position`` on. ``copied``: the payloads are in their column already, and the block has copies of the headers;
    otherwise the 64 bytes after each header must be readable.
    """
    cdef Target* target = sink.payload
    cdef int64_t payload = length - HEADER, count = end - begin
    cdef int64_t used, row = sink.row_count + begin
    cdef int i
    cdef char* out
    cdef int32_t* offsets
    cdef const uint8_t** frames = sink.block.frame
    for i in range(begin, end):
        sink.block.value[0][i] = position + (i - begin) * stride
        sink.block.value[1][i] = position + (i - begin + 1) * stride
        sink.block.value[2][i] = payload
        sink.block.value[3][i] = flags
    sink.block.byte_count += count * payload
    sink.block.count = end
    if target == NULL:
        return 0
    used = target.used
    offsets = target.offsets + row + 1
    out = room_for(sink, target, count * payload)
    if copied:
        pass
    elif 0 < payload <= 32:
        for i in range(count):
            everlog_copy_short(out + i * payload, frames[begin + i] + HEADER, 32)
    elif payload:
        for i in range(count):
            everlog_copy_equal(out + i * payload, frames[begin + i] + HEADER, payload)
    for i in range(count):
        offsets[i] = <int32_t>(used + (i + 1) * payload)
    target.used = used + count * payload
    return 0


cdef inline bint is_zero(const uint8_t* data, int64_t count) noexcept nogil:
    cdef int64_t i
    for i in range(count):
        if data[i]:
            return False
    return True


cdef class Walker:
    cdef readonly object geometry
    cdef readonly bint assemble
    cdef readonly int64_t first, stop, at, resume, message_at
    cdef public bint skipping
    cdef int64_t initial_term_id, term_length, mtu_length, limit
    cdef int term_bits
    cdef uint32_t stream_id
    cdef int32_t plain_sessions[MAX_PLAIN_SESSIONS]
    cdef int plain_count
    cdef uint8_t headers[BLOCK_ROWS * HEADER]   # of a block's rows whose payloads were copied
    cdef bint checked
    cdef Crc32 crc
    # The buffer of the walk in progress.
    cdef const uint8_t* data
    cdef int64_t end, base
    cdef bint final

    def __init__(self, geometry, bint assemble, crc=None):
        length = geometry.term_length
        if length < 32 or length & (length - 1):
            raise ValueError(f"term length {length} is not a power of two")
        self.geometry = geometry
        self.assemble = assemble
        self.initial_term_id = geometry.initial_term_id
        self.term_length = length
        self.term_bits = length.bit_length() - 1
        self.stream_id = <uint32_t>(<int64_t>geometry.stream_id & 0xFFFFFFFF)
        self.mtu_length = geometry.mtu_length
        self.limit = geometry.limit
        self.plain_count = 0
        for session_id in geometry.plain_sessions[:MAX_PLAIN_SESSIONS]:
            self.plain_sessions[self.plain_count] = session_id
            self.plain_count += 1
        self.checked = crc is not None
        if crc is not None:
            self.crc = crc if isinstance(crc, Crc32) else Crc32(crc.polynomial)
        self.first = 0
        self.stop = <int64_t>1 << 62
        self.at = self.resume = 0
        self.message_at = -1
        self.skipping = False

    def select(self, int64_t first, int64_t stop, bint skipping):
        """Select records whose first frame is at ``first <= position < stop``."""
        self.first = first
        self.stop = stop
        self.skipping = skipping

    def walk(self, const uint8_t[::1] data, int64_t start, int64_t end, int64_t base, bint final, RowSink sink):
        """Walk ``data[start:end]``; ``data[0]`` is at position ``base``. Returns a status."""
        cdef int status
        if start < 0 or end > data.shape[0] or start > end:
            raise ValueError(f"range {start} to {end} is outside a buffer of {data.shape[0]} bytes")
        self.data = &data[0] if data.shape[0] else NULL
        self.end = end
        self.base = base
        self.final = final
        self.message_at = -1
        sink.prepare()
        with nogil:
            status = self.run(start, sink)
            sink.flush(self.data + end)
        self.data = NULL
        return status

    def find(self, const uint8_t[::1] data, int64_t start, int64_t end, int64_t base):
        """The offset of the first intact frame in ``data[start:end]``, or -1."""
        cdef int64_t at, found = -1
        if start < 0 or end > data.shape[0]:
            raise ValueError(f"range {start} to {end} is outside a buffer of {data.shape[0]} bytes")
        if end - start < HEADER:
            return -1
        self.data = &data[0]
        self.end = end
        self.base = base
        with nogil:
            at = start + (-(base + start) & 31)
            while at + HEADER <= end:
                if length_of(self.data + at) >= HEADER and self.check(at) == 0 and self.has_checksum(at):
                    found = at
                    break
                at += HEADER
        self.data = NULL
        return found

    cdef int stopped(self, int status, int64_t at) noexcept nogil:
        self.at = at
        self.resume = at
        return status

    cdef int incomplete(self, int64_t at, int64_t resume) noexcept nogil:
        self.skipping = True
        self.at = at
        self.resume = resume
        return INCOMPLETE

    cdef int run(self, int64_t start, RowSink sink) except -1 nogil:
        cdef const uint8_t* data = self.data
        cdef const uint8_t* frame
        cdef int64_t at = start, end = self.end, length, next_at, resume
        cdef int64_t stop_at = self.stop - self.base
        cdef int64_t first_at = self.first - self.base
        cdef int status, flags, n
        while True:
            if not self.checked and at >= first_at:
                at = self.plain(at, min(end, stop_at), sink)
            if at >= stop_at or (self.final and at >= end):
                return self.stopped(END, at)
            status = self.frame(at)
            if status:
                resume = self.resume
                self.stopped(status, at)
                if status == PADDING_DATA:
                    self.resume = resume
                return status
            frame = data + at
            length = length_of(frame)
            next_at = at + align32(length)
            if type_of(frame) == TYPE_PADDING or at < first_at:
                self.skipping = self.skipping or type_of(frame) != TYPE_PADDING
                at = next_at
                continue
            flags = frame[DATA_HEADER_FLAGS]
            if not self.assemble or flags & UNFRAGMENTED == UNFRAGMENTED:
                if self.assemble and self.may_be_fragment(at, length):
                    return self.incomplete(at, next_at)
                if not has_room(sink, length - HEADER):
                    return self.stopped(FULL, at)
                put_span(sink, frame + HEADER, length - HEADER, data + end)
                n = sink.block.count
                sink.block.frame[n] = frame
                sink.block.value[0][n] = self.base + at
                sink.block.value[1][n] = self.base + next_at
                sink.block.value[2][n] = length - HEADER
                sink.block.value[3][n] = flags
                sink.block.byte_count += length - HEADER
                sink.block.count = n + 1
                if n + 1 == BLOCK_ROWS:
                    sink.flush(data + end)
                self.skipping = False
            elif flags & FLAG_BEGIN:
                status = self.message(at, sink)
                if status:
                    return status
                next_at = self.resume
                self.skipping = False
            elif not self.skipping:
                self.skipping = True
                return self.stopped(ORPHAN, at)
            at = next_at

    cdef int64_t plain(self, int64_t at, int64_t stop_at, RowSink sink) except -1 nogil:
        """Handle the common case of ``run`` in one tight loop: intact whole messages, each followed by another data
        frame of the same term. Returns the offset of the first other frame, without judging it.
        """
        cdef const uint8_t* data = self.data
        cdef const uint8_t* readable_end = data + self.end
        cdef const uint8_t* frame = data + at
        cdef Target* payload_column = sink.payload
        cdef int64_t base = self.base
        cdef int64_t term_end = min(self.term_end_of(at), self.end)
        cdef int64_t last = term_end - HEADER           # last offset at which a readable header may begin
        cdef int64_t in_term = base - (base + at & ~(self.term_length - 1))     # term offset of ``data``
        cdef uint64_t expected = self.expected_at(at), word, next_word
        cdef uint32_t longest = self.mtu_length - 1 if self.mtu_length else MAX_FRAME_LENGTH
        cdef int64_t next_at, ahead, length = 0, stride = 0, distance = 0, first = at
        cdef int64_t shorter[FLIPPED_BITS]              # where a frame would end if its length had one bit less
        cdef int shorter_count = 0, i
        cdef int64_t row = sink.row_count + sink.block.count, max_rows = sink.max_rows, room
        cdef int64_t byte_room = sink.max_bytes - sink.byte_count - sink.block.byte_count
        cdef int n = sink.block.count, count
        cdef char* out
        cdef Run run
        if at + HEADER > self.end or self.check(at) != 0:
            return at
        word = everlog_load64(frame)                    # length, version, flags, type
        while at < stop_at and row < max_rows:
            # The header was checked as the successor of the last frame; here: data, whole message, usual length.
            if (word >> 48) != TYPE_DATA or (word >> 40) & UNFRAGMENTED != UNFRAGMENTED:
                break
            if <uint32_t>word != length:
                length = <uint32_t>word
                if length > longest:
                    break
                stride = align32(length)
                distance = PREFETCH if payload_column != NULL else max(<int64_t>PREFETCH * 2, 8 * stride)
                shorter_count = shorter_lengths(length, shorter)
            else:
                # Headers often repeat except for their term offset; runs of them need fewer checks.
                room = min(<int64_t>BLOCK_ROWS - n, max_rows - row)
                if payload_column != NULL and room * (length - HEADER) > byte_room:
                    room = byte_room // (length - HEADER)
                out = NULL
                if payload_column != NULL and stride > MAX_RUN_STRIDE:
                    out = room_for(sink, payload_column, room * (length - HEADER))
                run.data, run.expected, run.word, run.stride = data, expected, word, stride
                run.last = min(term_end - stride, stop_at + stride - 1)
                run.in_term, run.distance = in_term, distance
                run.shorter, run.shorter_count = shorter, shorter_count
                if out == NULL:
                    count = find_run(&run, at, room, sink.block.frame + n)
                else:
                    count = copy_run_apart(
                        &run, at, room, sink.block.frame + n, out, length - HEADER, self.headers + HEADER * n
                    )
                if count:
                    add_run(sink, n, n + count, base + at, length, stride, (word >> 40) & 0xFF, out != NULL)
                    n += count
                    row += count
                    at += count * stride
                    byte_room -= count * (length - HEADER)
                    if n == BLOCK_ROWS:
                        sink.flush(readable_end)
                        n = 0
                    continue
            next_at = at + stride
            if next_at > last:
                break
            frame = data + next_at
            next_word = everlog_load64(frame)
            if (
                everlog_load64(frame + DATA_HEADER_STREAM_ID) != expected
                or everlog_load32(frame + DATA_HEADER_TERM_OFFSET) != <uint32_t>(next_at + in_term)
                or <uint32_t>next_word - HEADER > <uint32_t>(MAX_FRAME_LENGTH - HEADER)
                or next_at + align32(<uint32_t>next_word) > term_end
            ):
                break
            everlog_prefetch(frame + distance)
            if shorter_count and holds_shorter(data + at, shorter, shorter_count, expected):
                break
            if payload_column != NULL:
                if length - HEADER > byte_room:
                    break
                byte_room -= length - HEADER
                for ahead in range(distance + 64, distance + stride, 64):
                    everlog_prefetch(frame + ahead)
                put_span_at(sink, payload_column, row, data + at + HEADER, length - HEADER, readable_end)
            sink.block.frame[n] = data + at
            sink.block.value[0][n] = base + at
            sink.block.value[1][n] = base + next_at
            sink.block.value[2][n] = length - HEADER
            sink.block.value[3][n] = (word >> 40) & 0xFF
            sink.block.byte_count += length - HEADER
            n += 1
            row += 1
            sink.block.count = n
            if n == BLOCK_ROWS:
                sink.flush(readable_end)
                n = 0
            word = next_word
            at = next_at
        if at != first:
            self.skipping = False
        return at

    cdef inline int64_t term_end_of(self, int64_t at) noexcept nogil:
        return (((self.base + at) >> self.term_bits) + 1 << self.term_bits) - self.base

    cdef inline uint64_t expected_at(self, int64_t at) noexcept nogil:
        """Stream id and term id, in the header's byte layout, of a frame at ``at``."""
        cdef uint32_t term_id = <uint32_t>(self.initial_term_id + ((self.base + at) >> self.term_bits))
        return <uint64_t>self.stream_id | <uint64_t>term_id << 32

    cdef int frame(self, int64_t at) noexcept nogil:
        """Status of the frame at ``at``, after all checks."""
        cdef const uint8_t* frame = self.data + at
        cdef int64_t length, next_at, checked
        cdef int status
        if at + HEADER > self.end:
            return NEED_MORE
        status = self.check(at)
        if status:
            return status
        length = length_of(frame)
        next_at = at + align32(length)
        if type_of(frame) == TYPE_PADDING:
            checked = min(next_at, at + HEADER + MAX_CHECKED_PADDING)
            if checked > self.end:
                return NEED_MORE
            if not is_zero(frame + HEADER, checked - at - HEADER):
                self.resume = next_at
                return PADDING_DATA
            return 0
        if next_at > self.end and self.swallows(at, length):
            return FRAME_LENGTH
        if next_at > self.end or (next_at + HEADER > self.end and not self.final):
            return NEED_MORE
        if next_at + PREFETCH <= self.end:
            everlog_prefetch(self.data + next_at)
        if self.checked:
            if not self.has_checksum(at):
                return CHECKSUM
            if not is_zero(frame + length, next_at - at - length):
                return FRAME_LENGTH
        elif self.swallows(at, length) or self.is_cut(at, length):
            return FRAME_LENGTH
        elif self.is_torn(at, next_at):
            return TORN
        if 0 < self.mtu_length < length and is_zero(frame + HEADER, next_at - at - HEADER):
            return FRAME_TYPE
        return 0

    cdef int check(self, int64_t at) noexcept nogil:
        """Status of the header at ``at``: 0 if it matches its position."""
        cdef const uint8_t* frame = self.data + at
        cdef int64_t length = length_of(frame)
        cdef int64_t term_offset = (self.base + at) & (self.term_length - 1)
        cdef int kind = type_of(frame)
        cdef uint64_t ids
        if length == 0:
            return UNSET
        if length < HEADER or term_offset + align32(length) > self.term_length:
            return FRAME_LENGTH
        if kind != TYPE_PADDING and kind != TYPE_DATA:
            return FRAME_TYPE
        if kind == TYPE_DATA and length > MAX_FRAME_LENGTH:
            return FRAME_LENGTH
        if everlog_load32(frame + DATA_HEADER_TERM_OFFSET) != <uint32_t>term_offset:
            return TERM_OFFSET
        ids = everlog_load64(frame + DATA_HEADER_STREAM_ID) ^ self.expected_at(at)
        if ids >> 32:
            return TERM_ID
        return STREAM_ID if ids else 0

    cdef bint has_checksum(self, int64_t at) noexcept nogil:
        """Whether the frame's checksum is right; true for padding, and for frames that end after the buffer."""
        cdef const uint8_t* frame = self.data + at
        cdef int64_t next_at = at + align32(length_of(frame))
        cdef uint32_t session_id
        cdef int i
        if not self.checked or type_of(frame) == TYPE_PADDING or next_at > self.end:
            return True
        session_id = everlog_load32(frame + DATA_HEADER_SESSION_ID)
        if self.crc.update(0, frame + HEADER, next_at - at - HEADER) == session_id:
            return True
        for i in range(self.plain_count):
            if <uint32_t>self.plain_sessions[i] == session_id:
                return True
        return False

    cdef bint swallows(self, int64_t at, int64_t length) noexcept nogil:
        """Whether a frame's length has one bit too many."""
        cdef int64_t shorter[FLIPPED_BITS]
        cdef int i
        for i in range(shorter_lengths(length, shorter)):
            if at + shorter[i] + HEADER <= self.end and self.check(at + shorter[i]) == 0:
                return True
        return False

    cdef bint is_cut(self, int64_t at, int64_t length) noexcept nogil:
        """Whether a frame's length has one bit too few."""
        cdef int64_t next_at = at + align32(length), longer, other, longest
        cdef int bit
        if next_at + HEADER > self.end or self.check(next_at) == 0 or self.resembles(next_at):
            return False
        longest = min(self.term_end_of(at) - at, self.mtu_length if self.mtu_length else <int64_t>MAX_FRAME_LENGTH)
        for bit in range(FLIPPED_BITS):
            longer = length | <int64_t>1 << bit
            if align32(longer) == align32(length) or longer > longest:
                continue
            other = at + align32(longer)
            if self.base + other == self.limit and not is_zero(self.data + next_at, HEADER):
                return True
            if other + HEADER <= self.end and self.check(other) == 0:
                return True
        return False

    cdef bint is_torn(self, int64_t at, int64_t next_at) noexcept nogil:
        """Whether the last frame of a recording without a known end contains an empty page."""
        cdef int64_t page
        if self.limit >= 0 or (next_at + HEADER <= self.end and everlog_load32(self.data + next_at)):
            return False
        page = at + PAGE_SIZE - ((self.base + at) & (PAGE_SIZE - 1))
        while page < next_at:
            if is_zero(self.data + page, min(<int64_t>PAGE_SIZE, next_at - page)):
                return True
            page += PAGE_SIZE
        return False

    cdef bint resembles(self, int64_t at) noexcept nogil:
        """Whether at least two of three fields of a damaged header match its position."""
        cdef const uint8_t* frame = self.data + at
        cdef uint64_t ids = everlog_load64(frame + DATA_HEADER_STREAM_ID) ^ self.expected_at(at)
        cdef int fits = (ids >> 32 == 0) + (<uint32_t>ids == 0)
        if everlog_load32(frame + DATA_HEADER_TERM_OFFSET) == <uint32_t>((self.base + at) & (self.term_length - 1)):
            fits += 1
        return fits >= 2

    cdef bint may_be_fragment(self, int64_t at, int64_t length) noexcept nogil:
        """Whether the end flag of the frame at ``at`` is likely wrong."""
        cdef int64_t next_at = at + align32(length)
        cdef const uint8_t* frame = self.data + next_at
        if length != self.mtu_length or next_at + HEADER > self.end or self.check(next_at):
            return False
        if type_of(frame) != TYPE_DATA or frame[DATA_HEADER_FLAGS] & FLAG_BEGIN:
            return False
        return self.may_share_message(at, next_at)

    cdef bint may_share_message(self, int64_t at, int64_t next_at) noexcept nogil:
        """Whether two consecutive frames can belong to the same message."""
        if (self.base + next_at) & (self.term_length - 1) == 0:
            return False
        return self.checked or (
            everlog_load32(self.data + at + DATA_HEADER_SESSION_ID)
            == everlog_load32(self.data + next_at + DATA_HEADER_SESSION_ID)
        )

    cdef int message(self, int64_t at, RowSink sink) except -1 nogil:
        """Add the message whose first fragment is at ``at``. Returns 0 and sets ``resume`` to its end, or a status."""
        cdef const uint8_t* data = self.data
        cdef const uint8_t* frame
        cdef int64_t here = at, total = 0, length = 0, next_at, resume
        cdef int64_t before = 0, before_at = 0      # length and place of the fragment before this one
        cdef int status, flags, n
        cdef bint lost
        while True:
            status = self.frame(here)
            if status == NEED_MORE:
                return self.stopped(NEED_MORE, at)
            if status:
                self.message_at = at
                resume = self.resume
                self.stopped(status, here)
                if status == PADDING_DATA:
                    self.resume = resume
                return status
            frame = data + here
            length = length_of(frame)
            flags = frame[DATA_HEADER_FLAGS]
            next_at = here + align32(length)
            if type_of(frame) == TYPE_PADDING:
                if (self.base + next_at) & (self.term_length - 1):
                    return self.incomplete(at, here)
            else:
                if before and flags & FLAG_BEGIN:
                    lost = before == self.mtu_length and not self.checked and self.may_share_message(before_at, here)
                    return self.incomplete(at, next_at if lost else here)
                before, before_at = length, here
                total += length - HEADER
                if next_at - at > MAX_MESSAGE_BYTES:
                    self.skipping = True
                    self.at = at
                    self.resume = next_at
                    return TOO_LONG
                if flags & FLAG_END:
                    break
            here = next_at
        if self.may_be_fragment(here, length):
            return self.incomplete(at, next_at)
        if not has_room(sink, total):
            return self.stopped(FULL, at)
        frame = data + at
        n = sink.block.count
        sink.block.frame[n] = frame
        sink.block.value[0][n] = self.base + at
        sink.block.value[1][n] = self.base + next_at
        sink.block.value[2][n] = total
        sink.block.value[3][n] = flags | frame[DATA_HEADER_FLAGS]
        put_span(sink, frame + HEADER, length_of(frame) - HEADER, data + self.end)
        sink.block.byte_count += length_of(frame) - HEADER
        sink.block.count = n + 1
        while True:
            at += align32(length_of(data + at))
            if at >= next_at:
                break
            if type_of(data + at) == TYPE_DATA:
                sink.extend_last(0, data + at + HEADER, length_of(data + at) - HEADER)
        if sink.block.count == BLOCK_ROWS:
            sink.flush(data + self.end)
        self.resume = next_at
        return 0
