# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Reading images, compiled. Twin: :mod:`everlog.aeron.transport.client.image_twin`, which says what each does and why. What is
ordered with what is told in ``docs/transport-memory-ordering.md``."""

from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.ref cimport PyObject
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy

from everlog.kernel._atomics cimport acquire_i32, acquire_i64, release_i64
from everlog.kernel._buffers cimport Buffer, grow_buffer, new_buffer, view_of
from everlog.kernel._columns cimport COPY_SLACK, everlog_copy_short
from everlog.kernel._memory cimport Memory
from everlog.aeron.transport._terms cimport (
    DATA_HEADER_FLAGS, DATA_HEADER_FRAME_LENGTH, DATA_HEADER_RESERVED_VALUE, DATA_HEADER_SESSION_ID, DATA_HEADER_STREAM_ID,
    DATA_HEADER_TERM_ID, DATA_HEADER_TERM_OFFSET, DATA_HEADER_TYPE, DATA_HEADER_VERSION, FLAG_BEGIN, FLAG_END, HEADER,
    LOG_META_DATA_ACTIVE_TRANSPORT_COUNT, LOG_META_DATA_END_OF_STREAM_POSITION, LOG_META_DATA_IS_PUBLICATION_REVOKED,
    TYPE_PADDING, UNFRAGMENTED, align32, copy_long, end_of_block, load_i32, load_i64, type_of,
)

from everlog.aeron.frames import MAX_MESSAGE_BYTES as _MAX_MESSAGE_BYTES
from everlog.aeron.transport.client import actions as _shared
from everlog.aeron.transport.client import column_batch as _columns
from everlog.aeron.transport.client.actions import Action
from everlog.aeron.transport.client.fragment_assembler import FragmentAssembler
from everlog.aeron.transport.client.log_shape import LogShape

cdef extern from "Python.h":
    Py_ssize_t Py_REFCNT(object)

cdef enum:
    MAX_MESSAGE_BYTES = 67108864
    WHOLE_DATA = 0x1C0          # flags and type of a message that is one frame, as they lie behind each other

    # Why a stretch of frames ended.
    NO_MORE = 0
    FULL = 1
    ODD = 2                     # a frame that is no whole message: padding, a fragment, or damaged

cdef int64_t FOREVER = 0x7FFFFFFFFFFFFFFF

assert MAX_MESSAGE_BYTES == _MAX_MESSAGE_BYTES

cdef object ABORT = Action.ABORT
cdef object BREAK = Action.BREAK
cdef object COMMIT = Action.COMMIT


cdef class Header:
    cdef char data[32]
    cdef readonly int64_t position
    cdef int64_t _length
    cdef readonly int32_t initial_term_id
    cdef int _shift

    @property
    def frame_length(self):
        return load_i32(self.data)

    @property
    def version(self):
        return <uint8_t>self.data[DATA_HEADER_VERSION]

    @property
    def flags(self):
        return <uint8_t>self.data[DATA_HEADER_FLAGS]

    @property
    def type(self):
        return type_of(self.data)

    @property
    def term_offset(self):
        return load_i32(self.data + DATA_HEADER_TERM_OFFSET)

    @property
    def session_id(self):
        return load_i32(self.data + DATA_HEADER_SESSION_ID)

    @property
    def stream_id(self):
        return load_i32(self.data + DATA_HEADER_STREAM_ID)

    @property
    def term_id(self):
        return load_i32(self.data + DATA_HEADER_TERM_ID)

    @property
    def reserved_value(self):
        return load_i64(self.data + DATA_HEADER_RESERVED_VALUE)

    @property
    def next_term_offset(self):
        return load_i32(self.data + DATA_HEADER_TERM_OFFSET) + self._length

    @property
    def position_bits_to_shift(self):
        return self._shift

    def assembled(self, Header last not None, int64_t length):
        cdef Header whole = Header.__new__(Header)
        cdef int32_t frame_length = <int32_t>(HEADER + length)
        cdef int32_t terms = <int32_t>(
            <uint32_t>load_i32(self.data + DATA_HEADER_TERM_ID) - <uint32_t>self.initial_term_id
        )
        memcpy(whole.data, self.data, HEADER)
        memcpy(whole.data, &frame_length, 4)
        whole.data[DATA_HEADER_FLAGS] |= last.data[DATA_HEADER_FLAGS]
        whole.position = last.position
        whole.initial_term_id = self.initial_term_id
        whole._shift = self._shift
        whole._length = (
            last.position - (<int64_t>terms << self._shift) - load_i32(self.data + DATA_HEADER_TERM_OFFSET)
        )
        return whole


cdef class MessageColumns:
    cdef readonly int64_t max_rows
    cdef readonly int64_t max_bytes
    cdef readonly int64_t row_count
    cdef readonly int64_t byte_count
    cdef readonly int session_id
    cdef bint busy
    cdef bint _has_positions
    cdef bint _has_reserved_values
    cdef Buffer _data
    cdef Buffer _offsets
    cdef Buffer _positions
    cdef Buffer _reserved_values

    def __init__(self, int64_t max_rows=16384, int64_t max_bytes=4 << 20, *, bint positions=True, bint reserved_values=False):
        _columns.check_limits(max_rows, max_bytes)
        self.max_rows = max_rows
        self.max_bytes = max_bytes
        self._has_positions = positions
        self._has_reserved_values = reserved_values
        self._reset()

    cdef int _grow_data(self, int64_t used, int64_t needed) except -1:
        cdef Buffer other
        if Py_REFCNT(self._data) == 1:
            return grow_buffer(self._data, used, needed)
        other = new_buffer(needed)
        memcpy(other.data, self._data.data, used)
        self._data = other
        return 0

    cdef int _reset(self) except -1:
        # A buffer that somebody still looks at is theirs.
        self.row_count = 0
        self.byte_count = 0
        if self._data is None or Py_REFCNT(self._data) > 1:
            self._data = new_buffer(self.max_bytes + COPY_SLACK)
        if self._offsets is None or Py_REFCNT(self._offsets) > 1:
            self._offsets = new_buffer(4 * (self.max_rows + 1))
            (<int32_t*>self._offsets.data)[0] = 0
        if self._has_positions and (self._positions is None or Py_REFCNT(self._positions) > 1):
            self._positions = new_buffer(8 * self.max_rows)
        if self._has_reserved_values and (self._reserved_values is None or Py_REFCNT(self._reserved_values) > 1):
            self._reserved_values = new_buffer(8 * self.max_rows)
        return 0

    @property
    def data(self):
        return view_of(self._data, self.byte_count, "B")

    @property
    def offsets(self):
        return view_of(self._offsets, 4 * (self.row_count + 1), "i")

    @property
    def positions(self):
        return view_of(self._positions, 8 * self.row_count, "q") if self._has_positions else None

    @property
    def reserved_values(self):
        return view_of(self._reserved_values, 8 * self.row_count, "q") if self._has_reserved_values else None

    def to_list(self):
        cdef const int32_t* ends = <const int32_t*>self._offsets.data
        cdef const char* data = self._data.data
        cdef int64_t row
        return [
            PyBytes_FromStringAndSize(data + ends[row], ends[row + 1] - ends[row]) for row in range(self.row_count)
        ]

    def batch(self):
        return _columns.batch_of(self)


cdef struct Stretch:
    # Where frames are read, and where their columns are.
    const char* term
    int64_t term_length
    int64_t offset
    int64_t begin               # position of the term's start
    char* data
    int64_t used
    int64_t capacity
    int32_t* ends               # of the next row
    int64_t* positions          # of the next row, or NULL
    int64_t* reserved_values
    int64_t rows_left


cdef int read_whole_messages(Stretch* stretch) noexcept nogil:
    # Messages that are one frame, until something else comes.
    cdef const char* frame
    cdef const char* term = stretch.term
    cdef int64_t offset = stretch.offset, used = stretch.used, length, aligned, end = stretch.term_length
    cdef int64_t last_short = end - HEADER - COPY_SLACK, left = stretch.rows_left
    cdef char* data = stretch.data
    cdef int32_t* ends = stretch.ends
    cdef int64_t* positions = stretch.positions
    cdef int64_t* reserved_values = stretch.reserved_values
    cdef int outcome = NO_MORE
    while offset < end:
        frame = term + offset
        length = acquire_i32(frame)
        if length <= 0:
            break
        aligned = align32(length)
        if length < HEADER or aligned > end - offset or (<uint64_t>load_i64(frame)) >> 40 != WHOLE_DATA:
            outcome = ODD
            break
        length -= HEADER
        if left == 0 or length > stretch.capacity - used:
            outcome = FULL
            break
        if length <= COPY_SLACK and offset <= last_short:
            everlog_copy_short(data + used, frame + HEADER, length)
        else:
            copy_long(data + used, frame + HEADER, length)
        used += length
        ends[0] = <int32_t>used
        ends += 1
        if positions != NULL:
            positions[0] = stretch.begin + offset
            positions += 1
        if reserved_values != NULL:
            reserved_values[0] = load_i64(frame + DATA_HEADER_RESERVED_VALUE)
            reserved_values += 1
        left -= 1
        offset += aligned
    stretch.offset = offset
    stretch.used = used
    stretch.ends = ends
    stretch.positions = positions
    stretch.reserved_values = reserved_values
    stretch.rows_left = left
    return outcome


cdef class ImageReader:
    cdef Memory term_0, term_1, term_2, metadata, counter
    cdef char* _at              # of the counter of its position
    cdef bint is_open
    cdef bint busy
    cdef readonly int64_t term_buffer_length
    cdef readonly int position_bits_to_shift
    cdef readonly int mtu_length
    cdef readonly int initial_term_id
    cdef readonly int session_id
    cdef readonly int stream_id
    cdef readonly int64_t join_position
    cdef int64_t final_position
    cdef int64_t final_end_of_stream
    cdef bint final_revoked
    cdef Header header
    # The fragments of a message whose last one has not come, for poll_columns.
    cdef Buffer pending
    cdef int64_t pending_used
    cdef int64_t pending_position
    cdef int64_t pending_reserved
    cdef int64_t pending_next   # where the next fragment must be; -1: there is no such message

    def __init__(self, log, Memory position not None, int64_t position_offset):
        shape = LogShape.of(log)
        self.term_0, self.term_1, self.term_2 = log.terms
        self.metadata = log.metadata
        if not position.writable:
            raise TypeError("this memory is read-only")
        self.join_position = position.get_i64_acquire(position_offset)
        self.counter = position
        self._at = position.data + position_offset
        self.term_buffer_length = shape.term_length
        self.position_bits_to_shift = shape.position_bits_to_shift
        self.mtu_length, self.initial_term_id = shape.mtu_length, shape.initial_term_id
        self.session_id, self.stream_id = shape.session_id, shape.stream_id
        self.pending_next = -1
        self.header = Header.__new__(Header)
        self.is_open = True

    def close(self):
        if self.is_open:
            self.final_position = acquire_i64(self._at)
            self.final_end_of_stream = self._end_of_stream()
            self.final_revoked = self._revoked()
            self.is_open = False
        self.term_0 = self.term_1 = self.term_2 = self.metadata = self.counter = None
        self.pending = None
        self.pending_next = -1

    cdef int64_t _end_of_stream(self) noexcept:
        return acquire_i64(self.metadata.data + LOG_META_DATA_END_OF_STREAM_POSITION)

    cdef bint _revoked(self) noexcept:
        return self.metadata.data[LOG_META_DATA_IS_PUBLICATION_REVOKED] == 1

    @property
    def is_closed(self):
        return not self.is_open

    @property
    def position(self):
        return load_i64(self._at) if self.is_open else self.final_position

    @position.setter
    def position(self, int64_t value):
        cdef int64_t current
        if not self.is_open:
            raise _shared.closed_image()
        current = self._position()
        self._check_position(value, current)
        release_i64(self._at, value)
        self.pending_next = -1

    @property
    def is_end_of_stream(self):
        return self.position >= self.end_of_stream_position

    @property
    def end_of_stream_position(self):
        return self._end_of_stream() if self.is_open else self.final_end_of_stream

    @property
    def active_transport_count(self):
        return acquire_i32(self.metadata.data + LOG_META_DATA_ACTIVE_TRANSPORT_COUNT) if self.is_open else 0

    @property
    def is_publication_revoked(self):
        return bool(self._revoked() if self.is_open else self.final_revoked)

    cdef int64_t _position(self) except -1:
        cdef int64_t position = load_i64(self._at)
        if position < 0 or position & 31:
            raise _shared.bad_counter(position)
        return position

    cdef int _check_position(self, int64_t value, int64_t current) except -1:
        cdef int64_t last = (current & -self.term_buffer_length) + self.term_buffer_length
        if not current <= value <= last or value & 31:
            raise _shared.bad_position(value, current, last)
        return 0

    cdef Memory _term(self, int64_t position):
        cdef int index = (position >> self.position_bits_to_shift) % 3
        return self.term_0 if index == 0 else self.term_1 if index == 1 else self.term_2

    cdef int64_t _length_at(self, const char* term, int64_t offset, bint is_first) except -1:
        # The frame's length, or 0. A damaged one is told of when it is the first of a poll.
        cdef int64_t length = acquire_i32(term + offset)
        if length <= 0:
            return 0
        if length < HEADER or align32(length) > self.term_buffer_length - offset:
            if is_first:
                raise _shared.bad_frame(offset, length, self.term_buffer_length - offset)
            return 0
        return length

    cdef Header _header(self, const char* frame, int64_t position):
        # The one of the fragment before, unless the handler kept it.
        cdef Header header = self.header
        if Py_REFCNT(header) > 2:
            header = Header.__new__(Header)
            self.header = header
        memcpy(header.data, frame, HEADER)
        header._length = align32(load_i32(header.data))
        header.position = position
        header.initial_term_id = self.initial_term_id
        header._shift = self.position_bits_to_shift
        return header

    def poll(self, handler, int64_t fragment_limit=10):
        return self._poll(handler, FOREVER, fragment_limit)

    def bounded_poll(self, handler, int64_t limit_position, int64_t fragment_limit=10):
        return self._poll(handler, limit_position, fragment_limit)

    cdef int64_t _poll(self, handler, int64_t limit_position, int64_t fragment_limit) except -1:
        cdef int64_t read = 0, begin, offset, limit, position, length
        cdef Memory term
        cdef const char* frame
        cdef Header header
        if not self.is_open:
            return 0
        if self.busy:
            raise _shared.read_in_use()
        position = self._position()
        if position >= limit_position:
            return 0
        offset = position & (self.term_buffer_length - 1)
        begin = position - offset
        limit = min(self.term_buffer_length, limit_position - begin)
        term = self._term(position)  # lives on if the handler closes the image
        assembler = whole = None
        if type(handler) is FragmentAssembler:
            assembler, whole = handler, handler.handler
        try:
            while read < fragment_limit and offset < limit and self.is_open:
                length = self._length_at(term.data, offset, begin + offset == position)
                if length == 0:
                    break
                frame = term.data + offset
                offset += align32(length)
                if type_of(frame) == TYPE_PADDING:
                    continue
                read += 1
                header = self._header(frame, begin + offset)
                if assembler is None:
                    handler(PyBytes_FromStringAndSize(frame + HEADER, length - HEADER), header)
                elif header.data[DATA_HEADER_FLAGS] & UNFRAGMENTED == UNFRAGMENTED:
                    whole(PyBytes_FromStringAndSize(frame + HEADER, length - HEADER), header)
                else:
                    assembler.add(PyBytes_FromStringAndSize(frame + HEADER, length - HEADER), header)
        finally:
            if begin + offset > position and self.is_open:
                release_i64(self._at, begin + offset)
                self.pending_next = -1
        return read

    def controlled_poll(self, handler, int64_t fragment_limit=10):
        return self._controlled_poll(handler, FOREVER, fragment_limit)

    def bounded_controlled_poll(self, handler, int64_t limit_position, int64_t fragment_limit=10):
        return self._controlled_poll(handler, limit_position, fragment_limit)

    cdef int64_t _controlled_poll(self, handler, int64_t limit_position, int64_t fragment_limit) except -1:
        cdef int64_t read = 0, begin, offset, limit, position, length
        cdef Memory term
        cdef const char* frame
        if not self.is_open:
            return 0
        if self.busy:
            raise _shared.read_in_use()
        position = self._position()
        if position >= limit_position:
            return 0
        offset = position & (self.term_buffer_length - 1)
        begin = position - offset
        limit = min(self.term_buffer_length, limit_position - begin)
        term = self._term(position)
        try:
            while read < fragment_limit and offset < limit and self.is_open:
                length = self._length_at(term.data, offset, begin + offset == position)
                if length == 0:
                    break
                frame = term.data + offset
                offset += align32(length)
                if type_of(frame) == TYPE_PADDING:
                    continue
                read += 1
                action = handler(
                    PyBytes_FromStringAndSize(frame + HEADER, length - HEADER), self._header(frame, begin + offset)
                )
                if action is ABORT:
                    read -= 1
                    offset -= align32(length)
                    break
                if action is BREAK:
                    break
                if action is COMMIT and self.is_open:
                    position = begin + offset
                    release_i64(self._at, position)
        finally:
            if begin + offset > position and self.is_open:
                release_i64(self._at, begin + offset)
            self.pending_next = -1
        return read

    def controlled_peek(self, int64_t initial_position, handler, int64_t limit_position):
        cdef int64_t begin, offset, limit, position = initial_position, length
        cdef Memory term
        cdef const char* frame
        if not self.is_open:
            return 0
        self._check_position(initial_position, self._position())
        if initial_position >= limit_position:
            return initial_position
        offset = initial_position & (self.term_buffer_length - 1)
        begin = initial_position - offset
        limit = min(self.term_buffer_length, limit_position - begin)
        term = self._term(initial_position)
        while offset < limit and self.is_open:
            length = self._length_at(term.data, offset, begin + offset == initial_position)
            if length == 0:
                break
            frame = term.data + offset
            offset += align32(length)
            if type_of(frame) == TYPE_PADDING:
                position = begin + offset
                continue
            action = handler(
                PyBytes_FromStringAndSize(frame + HEADER, length - HEADER), self._header(frame, begin + offset)
            )
            if action is ABORT:
                break
            if frame[DATA_HEADER_FLAGS] & FLAG_END:
                position = begin + offset
            if action is BREAK:
                break
        return position

    def block_poll(self, handler, int64_t block_length_limit):
        return self._block_poll(handler, block_length_limit, False)

    def raw_poll(self, handler, int64_t block_length_limit):
        return self._block_poll(handler, block_length_limit, True)

    cdef int64_t _block_poll(self, handler, int64_t block_length_limit, bint is_raw) except -1:
        cdef int64_t position, offset, length, file_offset
        cdef Memory term
        if not self.is_open:
            return 0
        if self.busy:
            raise _shared.read_in_use()
        position = self._position()
        offset = position & (self.term_buffer_length - 1)
        term = self._term(position)
        if block_length_limit < 0:
            return 0
        length = end_of_block(
            term.data, self.term_buffer_length, offset, min(self.term_buffer_length, offset + min(block_length_limit, 1 << 30))
        ) - offset
        if length == 0:
            self._length_at(term.data, offset, True)
            return 0
        term_id = load_i32(term.data + offset + DATA_HEADER_TERM_ID)
        block = term.slice(offset, length).view()
        try:
            if is_raw:
                file_offset = ((position >> self.position_bits_to_shift) % 3) * self.term_buffer_length + offset
                handler(file_offset, block, self.session_id, term_id)
            else:
                handler(block, self.session_id, term_id)
        finally:
            _shared.release(block)
            if self.is_open:
                release_i64(self._at, position + length)
                self.pending_next = -1
        return length

    def poll_columns(self, MessageColumns columns not None):
        cdef int64_t position, offset
        cdef Memory term
        cdef Stretch stretch
        cdef int outcome
        if self.busy or columns.busy:
            raise _shared.read_in_use()
        columns._reset()
        if not self.is_open:
            return 0
        columns.session_id = self.session_id
        position = self._position()
        stretch.term_length = self.term_buffer_length
        stretch.data = columns._data.data
        stretch.used = 0
        stretch.capacity = columns.max_bytes
        stretch.ends = <int32_t*>columns._offsets.data + 1
        stretch.positions = <int64_t*>columns._positions.data if columns._has_positions else NULL
        stretch.reserved_values = <int64_t*>columns._reserved_values.data if columns._has_reserved_values else NULL
        stretch.rows_left = columns.max_rows
        self.busy = columns.busy = True
        try:
            while True:
                stretch.offset = position & (self.term_buffer_length - 1)
                stretch.begin = position - stretch.offset
                term = self._term(position)
                if term is None:  # closed by another thread meanwhile
                    break
                stretch.term = term.data
                if acquire_i32(stretch.term + stretch.offset) <= 0:
                    break
                with nogil:
                    outcome = read_whole_messages(&stretch)
                position = stretch.begin + stretch.offset
                if outcome == FULL and stretch.rows_left == columns.max_rows:
                    # One message alone that is longer than the buffer.
                    stretch.capacity = load_i32(stretch.term + stretch.offset) - HEADER
                    columns._grow_data(stretch.used, stretch.capacity + COPY_SLACK)
                    stretch.data = columns._data.data
                elif outcome == FULL:
                    break
                elif outcome == ODD:
                    offset = self._read_odd(columns, &stretch)
                    if offset == 0:
                        break
                    position += offset
                elif stretch.offset < self.term_buffer_length:
                    break
        finally:
            self.busy = columns.busy = False
            columns.row_count = columns.max_rows - stretch.rows_left
            columns.byte_count = stretch.used
            if self.is_open and position > load_i64(self._at):
                release_i64(self._at, position)
        return columns.row_count

    cdef int64_t _read_odd(self, MessageColumns columns, Stretch* stretch) except -1:
        # Padding or a fragment; gives what it takes, 0 where there is no room for the message, or it is damaged.
        cdef const char* frame = stretch.term + stretch.offset
        cdef bint is_first = stretch.rows_left == columns.max_rows
        cdef int64_t length = self._length_at(stretch.term, stretch.offset, is_first), payload, whole
        cdef int flags
        cdef int64_t position = stretch.begin + stretch.offset
        if length == 0 or type_of(frame) == TYPE_PADDING:
            return align32(length)
        payload = length - HEADER
        flags = <uint8_t>frame[DATA_HEADER_FLAGS]
        if flags & FLAG_BEGIN:
            self.pending_used = 0
            self.pending_position = position
            self.pending_reserved = load_i64(frame + DATA_HEADER_RESERVED_VALUE)
        elif self.pending_next != position:
            self.pending_next = -1
            return align32(length)
        whole = self.pending_used + payload
        if whole > MAX_MESSAGE_BYTES:
            self.pending_next = -1
            raise _shared.too_long(MAX_MESSAGE_BYTES)
        if flags & FLAG_END and (stretch.rows_left == 0 or whole > stretch.capacity - stretch.used):
            if not is_first:
                self.pending_next = -1 if flags & FLAG_BEGIN else self.pending_next
                return 0
            stretch.capacity = whole
            columns._grow_data(stretch.used, whole + COPY_SLACK)
            stretch.data = columns._data.data
        if self.pending is None:
            self.pending = new_buffer(max(payload, 1 << 16))
        grow_buffer(self.pending, self.pending_used, whole)
        memcpy(self.pending.data + self.pending_used, frame + HEADER, payload)
        self.pending_used = whole
        self.pending_next = position + align32(length)
        if flags & FLAG_END:
            self._put_pending(stretch)
        return align32(length)

    cdef void _put_pending(self, Stretch* stretch) noexcept:
        memcpy(stretch.data + stretch.used, self.pending.data, self.pending_used)
        stretch.used += self.pending_used
        stretch.ends[0] = <int32_t>stretch.used
        stretch.ends += 1
        if stretch.positions != NULL:
            stretch.positions[0] = self.pending_position
            stretch.positions += 1
        if stretch.reserved_values != NULL:
            stretch.reserved_values[0] = self.pending_reserved
            stretch.reserved_values += 1
        stretch.rows_left -= 1
        self.pending_next = -1
        if self.pending_used > 1 << 20:
            self.pending = None  # long messages are rare
        self.pending_used = 0
