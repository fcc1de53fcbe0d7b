# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Reading images, compiled. Twin: :mod:`everlog.aeron.transport.client.images.image_twin`, which
documents each function. ``docs/transport-memory-ordering.md`` lists the memory ordering."""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memcpy

from everlog.kernel._atomics cimport acquire_i32, acquire_i64, release_i64
from everlog.kernel._buffers cimport Buffer, grow_buffer, new_buffer
from everlog.kernel._columns cimport COPY_SLACK
from everlog.kernel._memory cimport BlockSink, Memory
from everlog.aeron.transport.memory._terms cimport (
    DATA_HEADER_FLAGS, DATA_HEADER_RESERVED_VALUE, DATA_HEADER_TERM_ID, FLAG_BEGIN, FLAG_END, HEADER,
    LOG_META_DATA_ACTIVE_TRANSPORT_COUNT, LOG_META_DATA_END_OF_STREAM_POSITION, LOG_META_DATA_IS_PUBLICATION_REVOKED,
    TYPE_PADDING, UNFRAGMENTED, align32, end_of_block, load_i32, load_i64, type_of,
)
from everlog.aeron.transport.client.images._header cimport Header
from everlog.aeron.transport.client.images._message_columns cimport FULL, ODD, MessageColumns, Stretch, read_whole_messages

from everlog.aeron.frames.constants import MAX_MESSAGE_BYTES as _MAX_MESSAGE_BYTES
from everlog.aeron.transport.client.images import actions as _shared
from everlog.aeron.transport.client.images.actions import Action
from everlog.aeron.transport.client.images.fragment_assembler import FragmentAssembler
from everlog.aeron.transport.client.log_shape import LogShape

cdef extern from "Python.h":
    Py_ssize_t Py_REFCNT(object)

cdef enum:
    MAX_MESSAGE_BYTES = 67108864

cdef int64_t FOREVER = 0x7FFFFFFFFFFFFFFF

assert MAX_MESSAGE_BYTES == _MAX_MESSAGE_BYTES

cdef object ABORT = Action.ABORT
cdef object BREAK = Action.BREAK
cdef object COMMIT = Action.COMMIT


cdef class ImageReader:
    cdef Memory term_0, term_1, term_2, metadata, counter
    cdef char* _at              # address of the subscriber position's counter
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
    # For poll_columns: the fragments of a message whose last one has not arrived.
    cdef Buffer pending
    cdef int64_t pending_used
    cdef int64_t pending_position
    cdef int64_t pending_reserved
    cdef int64_t pending_next   # position of the next fragment; -1 without such a message

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
        # The frame's length, or 0. A damaged length raises an error only if it is the first of a poll.
        cdef int64_t length = acquire_i32(term + offset)
        if length <= 0:
            return 0
        if length < HEADER or align32(length) > self.term_buffer_length - offset:
            if is_first:
                raise _shared.bad_frame(offset, length, self.term_buffer_length - offset)
            return 0
        return length

    cdef Header _header(self, const char* frame, int64_t position):
        # Reuses the previous fragment's header object, unless the handler kept it.
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
        term = self._term(position)  # keeps the memory if the handler closes the image
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

    def block_poll_into(self, BlockSink sink not None, int64_t most):
        cdef int64_t position, offset, taken, read = 0
        cdef Memory first = self.term_0, second = self.term_1, third = self.term_2, counter = self.counter
        cdef const char* terms[3]
        if not self.is_open:
            return 0
        if self.busy:
            raise _shared.read_in_use()
        position = self._position()
        terms[0], terms[1], terms[2] = first.data, second.data, third.data
        self.busy = True
        try:
            with nogil:
                while read < most and self.is_open:
                    offset = position & (self.term_buffer_length - 1)
                    taken = sink.take(
                        terms[(position >> self.position_bits_to_shift) % 3] + offset, self.term_buffer_length - offset,
                        most - read,
                    )
                    if taken <= 0:
                        break
                    read += taken
                    position += taken
                    release_i64(self._at, position)
        finally:
            self.busy = False
            if read:
                self.pending_next = -1
        return read

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
                if term is None:  # closed by another thread during the poll
                    break
                stretch.term = term.data
                if acquire_i32(stretch.term + stretch.offset) <= 0:
                    break
                with nogil:
                    outcome = read_whole_messages(&stretch)
                position = stretch.begin + stretch.offset
                if outcome == FULL and stretch.rows_left == columns.max_rows:
                    # The first message is longer than the buffer.
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
        # Reads padding or a fragment. Returns its bytes in the term, or 0 if it is damaged or the message does not fit.
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
