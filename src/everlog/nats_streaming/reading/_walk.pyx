# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Compiled walkers, documented in :mod:`everlog.nats_streaming.reading.walk_twin`. They walk without the GIL."""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from everlog.kernel._columns cimport BLOCK_ROWS, Block, RowSink, has_room, put_span
from everlog.kernel._crc32 cimport Crc32

from everlog.nats_streaming.format import layouts as _layouts
from everlog.nats_streaming.reading import walk_status as _status

include "everlog/nats_streaming/_layouts.pxi"

cdef enum:
    MORE = 0
    FULL = 1
    ZEROS = 2
    BAD_CRC = 3
    BAD_MESSAGE = 4
    TOO_LARGE = 5
    OUT_OF_ORDER = 6
    BREAK = 7
    GO_ON = -1
    MAX_RECORD_BYTES = 67174400
    RECORD_OVERHEAD = 40

assert (MORE, FULL, ZEROS, BAD_CRC) == (_status.MORE, _status.FULL, _status.ZEROS, _status.BAD_CRC)
assert (BAD_MESSAGE, TOO_LARGE) == (_status.BAD_MESSAGE, _status.TOO_LARGE)
assert (OUT_OF_ORDER, BREAK) == (_status.OUT_OF_ORDER, _status.BREAK)
assert (MAX_RECORD_BYTES, RECORD_OVERHEAD) == (_layouts.MAX_RECORD_BYTES, _layouts.RECORD_OVERHEAD)

cdef uint64_t NO_BOUND = 0x8000000000000000
cdef int64_t MAX_OFFSET = <int64_t>1 << 62


cdef struct Parsed:
    uint64_t sequence
    int64_t timestamp
    const uint8_t* span[3]      # data, subject, reply
    int64_t length[3]


cdef inline int read_varint(const uint8_t** at, const uint8_t* end, uint64_t* value) noexcept nogil:
    cdef const uint8_t* p = at[0]
    cdef uint64_t result = 0
    cdef int shift = 0
    while p < end and shift < 70:
        result |= (<uint64_t>(p[0] & 0x7F)) << shift
        if p[0] < 0x80:
            at[0] = p + 1
            value[0] = result
            return 0
        p += 1
        shift += 7
    return -1


cdef int parse_message(const uint8_t* p, const uint8_t* end, Parsed* out) noexcept nogil:
    """Return 0, or -1 if the bytes are not a message."""
    cdef uint64_t tag, number, value
    cdef int wire, k
    out.sequence = 0
    out.timestamp = 0
    for k in range(3):
        out.span[k] = p
        out.length[k] = 0
    while p < end:
        if read_varint(&p, end, &tag) != 0:
            return -1
        number = tag >> 3
        wire = <int>(tag & 7)
        if number == 0 or number >= (<uint64_t>1 << 29):
            return -1
        if wire == 0:
            if 2 <= number <= 4:
                return -1
            if read_varint(&p, end, &value) != 0:
                return -1
            if number == 1:
                out.sequence = value
            elif number == 5:
                out.timestamp = <int64_t>value
            continue
        if wire == 2:
            if number == 1 or number == 5:
                return -1
            if read_varint(&p, end, &value) != 0:
                return -1
        elif wire == 1 or wire == 5:
            if number <= 5:
                return -1
            value = 8 if wire == 1 else 4
        else:
            return -1
        if value > <uint64_t>(end - p):
            return -1
        if 2 <= number <= 4:
            k = 1 if number == 2 else (2 if number == 3 else 0)
            out.span[k] = p
            out.length[k] = <int64_t>value
        p += value
    if out.sequence == 0 or out.sequence >> 63:
        return -1
    return 0


cdef class RecordWalker:
    cdef RowSink sink
    cdef Crc32 crc
    cdef bint checks
    cdef public int64_t slice_number, first_sequence, last_sequence
    cdef public uint64_t below_sequence
    cdef readonly Py_ssize_t at
    cdef readonly int64_t needed, found_sequence, count, byte_count, first_found, first_timestamp, max_timestamp

    def __init__(self, RowSink sink not None, Crc32 crc, slice_number):
        self.sink = sink
        self.crc = crc
        self.checks = crc is not None
        self.slice_number = slice_number
        self.first_sequence = 0
        self.below_sequence = NO_BOUND
        self.last_sequence = 0

    def walk(self, const uint8_t[::1] data, Py_ssize_t start, Py_ssize_t end, int64_t base):
        cdef int status
        if not 0 <= start <= end <= data.shape[0]:
            raise ValueError(f"{start} to {end} is outside of {data.shape[0]} bytes")
        self.at = start
        self.needed = RECORD_HEADER_SIZE
        if end - start < RECORD_HEADER_SIZE:
            return MORE
        self.sink.prepare()
        cdef const uint8_t* begin = &data[0]
        with nogil:
            status = self._run(begin, end, base)
        return status

    cdef int _run(self, const uint8_t* data, Py_ssize_t end, int64_t base) except -2 nogil:
        cdef int status
        cdef uint32_t size
        while True:
            self.needed = RECORD_HEADER_SIZE
            if end - self.at < RECORD_HEADER_SIZE:
                status = MORE
                break
            memcpy(&size, data + self.at + RECORD_HEADER_LENGTH, 4)
            status = self._record(data, end, base, size)
            if status != GO_ON:
                break
            self.at += RECORD_HEADER_SIZE + <Py_ssize_t>size
            if self.sink.block.count == BLOCK_ROWS:
                self.sink.flush(data + end)
        self.sink.flush(data + end)
        return status

    cdef inline int _record(self, const uint8_t* data, Py_ssize_t end, int64_t base, uint32_t size) except -3 nogil:
        cdef Py_ssize_t at = self.at
        cdef const uint8_t* payload = data + at + RECORD_HEADER_SIZE
        cdef uint32_t crc
        cdef Parsed message
        cdef Block* block = &self.sink.block
        cdef int i, k
        cdef int64_t sequence, total
        memcpy(&crc, data + at + RECORD_HEADER_CRC, 4)
        if size == 0 and crc == 0:
            return ZEROS
        if size > MAX_RECORD_BYTES:
            return TOO_LARGE
        self.needed = RECORD_HEADER_SIZE + <int64_t>size
        if <Py_ssize_t>size > end - at - RECORD_HEADER_SIZE:
            return MORE
        if self.checks and self.crc.update(0, payload, size) != crc:
            return BAD_CRC
        if parse_message(payload, payload + size, &message) != 0:
            return BAD_MESSAGE
        sequence = <int64_t>message.sequence
        self.found_sequence = sequence
        if sequence < self.first_sequence or <uint64_t>sequence >= self.below_sequence:
            return GO_ON
        if sequence <= self.last_sequence:
            return OUT_OF_ORDER
        total = message.length[0] + message.length[1] + message.length[2]
        if not has_room(self.sink, total):
            return FULL
        i = block.count
        block.frame[i] = data + at
        block.value[0][i] = message.timestamp
        block.value[1][i] = message.length[0]
        block.value[2][i] = sequence
        block.value[3][i] = self.slice_number
        block.value[4][i] = base + at
        block.value[5][i] = size
        put_span(self.sink, message.span[0], message.length[0], data + end)
        for k in range(1, 3):
            block.span[k][i] = message.span[k]
            block.span_length[k][i] = message.length[k]
        block.byte_count += total
        block.count = i + 1
        if self.count == 0:
            self.first_found = sequence
            self.first_timestamp = message.timestamp
            self.max_timestamp = message.timestamp
        self.last_sequence = sequence
        if message.timestamp > self.max_timestamp:
            self.max_timestamp = message.timestamp
        self.count += 1
        self.byte_count += <int64_t>size + RECORD_OVERHEAD
        return GO_ON


cdef class IndexWalker:
    cdef RowSink sink
    cdef Crc32 crc
    cdef bint checks, gives
    cdef readonly Py_ssize_t at
    cdef public int64_t next_offset
    cdef readonly int64_t first_sequence, last_sequence, first_timestamp, max_timestamp, last_offset, last_size
    cdef readonly int64_t count, byte_count

    def __init__(self, RowSink sink, Crc32 crc):
        self.sink = sink
        self.crc = crc
        self.gives = sink is not None
        self.checks = crc is not None
        self.next_offset = FILE_VERSION_SIZE

    def walk(self, const uint8_t[::1] data, Py_ssize_t start, Py_ssize_t end):
        cdef int status
        if not 0 <= start <= end <= data.shape[0]:
            raise ValueError(f"{start} to {end} is outside of {data.shape[0]} bytes")
        self.at = start
        if end - start < INDEX_RECORD_SIZE:
            return MORE
        if self.gives:
            self.sink.prepare()
        cdef const uint8_t* begin = &data[0]
        with nogil:
            status = self._run(begin, end)
        return status

    cdef int _run(self, const uint8_t* data, Py_ssize_t end) except -2 nogil:
        cdef int status
        while True:
            if end - self.at < INDEX_RECORD_SIZE:
                status = MORE
                break
            status = self._entry(data)
            if status != GO_ON:
                break
            self.at += INDEX_RECORD_SIZE
            if self.gives and self.sink.block.count == BLOCK_ROWS:
                self.sink.flush(data + end)
        if self.gives:
            self.sink.flush(data + end)
        return status

    cdef inline int _entry(self, const uint8_t* data) noexcept nogil:
        cdef const uint8_t* entry = data + self.at
        cdef uint64_t sequence
        cdef int64_t offset, timestamp
        cdef uint32_t size, crc
        cdef int i
        memcpy(&sequence, entry + INDEX_RECORD_SEQUENCE, 8)
        memcpy(&offset, entry + INDEX_RECORD_OFFSET, 8)
        memcpy(&timestamp, entry + INDEX_RECORD_TIMESTAMP, 8)
        memcpy(&size, entry + INDEX_RECORD_LENGTH, 4)
        memcpy(&crc, entry + INDEX_RECORD_CRC, 4)
        if sequence == 0 and offset == 0 and timestamp == 0 and size == 0 and crc == 0:
            return ZEROS
        if self.checks and self.crc.update(0, entry, INDEX_RECORD_CRC) != crc:
            return BAD_CRC
        if size > MAX_RECORD_BYTES or size == 0:
            return TOO_LARGE
        if sequence >> 63 or <int64_t>sequence <= self.last_sequence:
            return OUT_OF_ORDER
        if offset < self.next_offset or offset > MAX_OFFSET:
            return OUT_OF_ORDER
        if offset != self.next_offset:
            return BREAK
        if self.gives:
            if not has_room(self.sink, 0):
                return FULL
            i = self.sink.block.count
            self.sink.block.frame[i] = entry
            self.sink.block.count = i + 1
        if self.count == 0:
            self.first_sequence = <int64_t>sequence
            self.first_timestamp = timestamp
            self.max_timestamp = timestamp
        if timestamp > self.max_timestamp:
            self.max_timestamp = timestamp
        self.last_sequence = <int64_t>sequence
        self.last_offset = offset
        self.last_size = size
        self.next_offset = offset + RECORD_HEADER_SIZE + <int64_t>size
        self.count += 1
        self.byte_count += <int64_t>size + RECORD_OVERHEAD
        return GO_ON
