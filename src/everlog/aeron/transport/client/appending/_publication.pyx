# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Appends messages to logs, compiled. Twin: :mod:`everlog.aeron.transport.client.appending.publication_twin`, which
documents each function. ``_appends.pxd`` has the work on the log itself."""

from cpython.buffer cimport PyBUF_FORMAT, PyBUF_ND, PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_GET_SIZE
from cpython.ref cimport PyObject
from libc.stdint cimport int32_t, int64_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from everlog.kernel._atomics cimport acquire_i32, acquire_i64, release_fence, release_i32
from everlog.kernel._memory cimport Memory
from everlog.aeron.transport.memory._terms cimport (
    DATA_HEADER_FLAGS, DATA_HEADER_RESERVED_VALUE, DATA_HEADER_SESSION_ID, DATA_HEADER_STREAM_ID, DATA_HEADER_TYPE,
    DATA_HEADER_VERSION, HEADER, LOG_META_DATA_IS_CONNECTED, align32, load_i32, load_i64, type_of,
)
from everlog.aeron.transport.client.appending._appends cimport (
    ADMIN_ACTION, BACK_PRESSURED, BAD_OFFSETS, BAD_TAIL, CLOSED, MAX_BATCH, MAX_POSITION_EXCEEDED, MAX_TURNS,
    NOT_CONNECTED, TOO_LONG, LogView, Part, Place, Rows, Tail, append_concurrent, append_exclusive,
    append_parts_concurrent, append_parts_exclusive, append_rows, block_length, claim_concurrent, claim_exclusive,
    move_tail, next_term, put_header, put_padding, read_tail, refusal, width_of,
)

from everlog.aeron.transport.client.appending import results as _twin
from everlog.aeron.transport.client.log_shape import LogShape

cdef extern from "Python.h":
    PyObject* PyList_GET_ITEM(object, Py_ssize_t)
    Py_ssize_t PyList_GET_SIZE(object)

assert (NOT_CONNECTED, BACK_PRESSURED, ADMIN_ACTION, CLOSED, MAX_POSITION_EXCEEDED, MAX_TURNS) == (
    _twin.NOT_CONNECTED, _twin.BACK_PRESSURED, _twin.ADMIN_ACTION, _twin.CLOSED, _twin.MAX_POSITION_EXCEEDED, _twin.MAX_TURNS,
)


cdef class BufferClaim:
    cdef Memory _term
    cdef int64_t _at
    cdef int64_t _length
    cdef object _payload

    cdef void _set(self, Memory term, int64_t at, int64_t length):
        self._term = term
        self._at = at
        self._length = length
        self._payload = None

    cdef char* _frame(self) except NULL:
        if self._term is None:
            raise _twin.no_claim()
        return self._term.data + self._at

    @property
    def is_open(self):
        return self._term is not None

    @property
    def payload(self):
        self._frame()
        if self._payload is None:
            self._payload = self._term.slice(self._at + HEADER, self._length).view()
        return self._payload

    @property
    def offset(self):
        self._frame()
        return self._at + HEADER

    @property
    def length(self):
        self._frame()
        return self._length

    @property
    def flags(self):
        return (<unsigned char*>self._frame())[DATA_HEADER_FLAGS]

    @flags.setter
    def flags(self, unsigned char value):
        self._frame()[DATA_HEADER_FLAGS] = <char>value

    @property
    def type(self):
        return type_of(self._frame())

    @type.setter
    def type(self, uint16_t value):
        memcpy(self._frame() + DATA_HEADER_TYPE, &value, 2)

    @property
    def reserved_value(self):
        return load_i64(self._frame() + DATA_HEADER_RESERVED_VALUE)

    @reserved_value.setter
    def reserved_value(self, int64_t value):
        memcpy(self._frame() + DATA_HEADER_RESERVED_VALUE, &value, 8)

    def put(self, data, int64_t at=0):
        cdef Py_buffer view
        cdef char* frame
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        try:
            frame = self._frame()  # after getting the buffer: Python code of the program may end the claim there
            if at < 0 or at > self._length - view.len:
                raise IndexError(f"{view.len} bytes at {at} of a claim of {self._length}")
            memcpy(frame + HEADER + at, view.buf, view.len)
        finally:
            PyBuffer_Release(&view)

    def commit(self):
        release_i32(self._frame(), <int32_t>(self._length + HEADER))
        self._end()

    def abort(self):
        cdef char* frame = self._frame()
        memset(frame + DATA_HEADER_TYPE, 0, 2)
        release_i32(frame, <int32_t>(self._length + HEADER))
        self._end()

    def _end(self):
        payload = self._payload
        self._term = None
        self._payload = None
        _twin.release(payload)

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if self._term is not None:
            if kind is None:
                self.commit()
            else:
                self.abort()


cdef class Appender:
    cdef LogView view
    cdef Memory term_0, term_1, term_2, metadata, limit
    cdef bint is_open
    cdef bint busy
    cdef readonly int session_id
    cdef readonly int stream_id
    cdef readonly int mtu_length
    cdef readonly int64_t max_framed_length
    cdef int64_t limit_offset

    def __init__(self, log, Memory limit not None, int64_t limit_offset):
        shape = LogShape.of(log)
        self.term_0, self.term_1, self.term_2 = log.terms
        self.metadata = log.metadata
        self.limit = limit
        self.limit_offset = limit_offset
        limit.get_i64_acquire(limit_offset)  # raises an error for a wrong offset
        for memory in (self.term_0, self.term_1, self.term_2, self.metadata):
            if not memory.writable:
                raise TypeError("this memory is read-only")
        self.session_id, self.stream_id, self.mtu_length = shape.session_id, shape.stream_id, shape.mtu_length
        self.max_framed_length = shape.max_framed_length
        self._point(shape)
        self.is_open = True

    cdef int _point(self, shape) except -1:
        cdef LogView* view = &self.view
        cdef const char* header
        view.term[0], view.term[1], view.term[2] = self.term_0.data, self.term_1.data, self.term_2.data
        view.metadata = self.metadata.data
        view.limit = self.limit.data + self.limit_offset
        view.term_length = shape.term_length
        view.max_payload = shape.max_payload_length
        view.max_message = shape.max_message_length
        view.max_position = shape.max_possible_position
        view.shift = shape.position_bits_to_shift
        view.initial_term_id = shape.initial_term_id
        data = shape.header
        header = data
        view.first_word = <uint64_t><uint32_t>load_i32(header + DATA_HEADER_VERSION) << 32
        view.session = <uint64_t><uint32_t>load_i32(header + DATA_HEADER_SESSION_ID) << 32
        view.stream = <uint32_t>load_i32(header + DATA_HEADER_STREAM_ID)
        return 0

    def close(self):
        self.is_open = False
        self.term_0 = self.term_1 = self.term_2 = self.metadata = self.limit = None

    cdef Place* _place(self) noexcept:
        return NULL

    cdef int64_t _tail_position(self) noexcept:
        cdef Tail tail
        cdef int status = read_tail(&self.view, &tail)
        if status == BAD_TAIL:
            return CLOSED
        return (<int64_t><int32_t>(<uint32_t>tail.term_id - <uint32_t>self.view.initial_term_id) << self.view.shift) + tail.offset

    @property
    def is_closed(self):
        return not self.is_open

    @property
    def is_connected(self):
        return bool(self.is_open and acquire_i32(self.view.metadata + LOG_META_DATA_IS_CONNECTED) == 1)

    @property
    def position(self):
        return self._tail_position() if self.is_open else CLOSED

    @property
    def position_limit(self):
        return acquire_i64(self.view.limit) if self.is_open else CLOSED

    @property
    def available_window(self):
        return acquire_i64(self.view.limit) - self._tail_position() if self.is_open else CLOSED

    @property
    def term_buffer_length(self):
        return self.view.term_length

    @property
    def position_bits_to_shift(self):
        return self.view.shift

    @property
    def initial_term_id(self):
        return self.view.initial_term_id

    @property
    def max_payload_length(self):
        return self.view.max_payload

    @property
    def max_message_length(self):
        return self.view.max_message

    @property
    def max_possible_position(self):
        return self.view.max_position

    def offer_parts(self, parts, int64_t reserved_value=0):
        return self.offer(b"".join(parts), reserved_value)

    cdef int64_t _append_one(self, object data, int64_t reserved) except? -1:
        # Appends a message to an open publication. Returns the new position, or a code that the caller handles.
        cdef Py_buffer view
        cdef Part part
        cdef Place* place = self._place()
        if PyBytes_CheckExact(data):
            part.data = PyBytes_AS_STRING(data)
            part.length = PyBytes_GET_SIZE(data)
            if place != NULL:
                return append_exclusive(&self.view, place, &part, reserved)
            return append_concurrent(&self.view, &part, reserved)
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        try:
            if not self.is_open or self.busy:  # getting the buffer may have run Python code
                return CLOSED
            part.data = <const char*>view.buf
            part.length = view.len
            if place != NULL:
                return append_exclusive(&self.view, place, &part, reserved)
            return append_concurrent(&self.view, &part, reserved)
        finally:
            PyBuffer_Release(&view)

    def offer_many(self, messages, Py_ssize_t start=0):
        cdef Part parts[MAX_BATCH]
        cdef int64_t status = 0, appended
        cdef Py_ssize_t at = start, size
        cdef int count, turns = 0
        cdef Place* place = self._place()
        cdef PyObject* item
        rows = messages if type(messages) is list else list(messages)
        # Check after that: a sequence's own Python code, or a thread that it lets run, may have closed this.
        if not self.is_open:
            return CLOSED
        if start < 0:
            raise _twin.wrong_start(start)
        if self.busy:
            raise _twin.in_use()
        while at < PyList_GET_SIZE(rows):
            size = PyList_GET_SIZE(rows)
            count = 0
            while count < MAX_BATCH and at + count < size:
                item = PyList_GET_ITEM(rows, at + count)
                if not PyBytes_CheckExact(<object>item):
                    break
                parts[count].data = PyBytes_AS_STRING(<object>item)
                parts[count].length = PyBytes_GET_SIZE(<object>item)
                count += 1
            if count > 0:
                if place != NULL:
                    appended = append_parts_exclusive(&self.view, place, parts, count, 0, &status)
                else:
                    appended = append_parts_concurrent(&self.view, parts, count, 0, &status)
                at += appended
                if appended < count:
                    break
                continue
            status = self._append_one(rows[at], 0)
            if status >= 0:
                at += 1
                turns = 0
            elif status != ADMIN_ACTION or turns == MAX_TURNS:
                break
            else:
                turns += 1
            if not self.is_open:
                break
        return self._outcome(at - start, status)

    def append_columns(self, data, offsets, int64_t first=0, last=None, *, int64_t reserved_value=0):
        cdef Py_buffer data_view, offsets_view
        cdef Rows rows
        cdef LogView view
        cdef int64_t status = 0, appended, count
        cdef Place* place = self._place()
        if not self.is_open:
            return CLOSED
        PyObject_GetBuffer(data, &data_view, PyBUF_SIMPLE)
        try:
            PyObject_GetBuffer(offsets, &offsets_view, PyBUF_ND | PyBUF_FORMAT)
            try:
                rows.width = width_of(&offsets_view)
                if rows.width == 0:
                    _twin.offset_width(memoryview(offsets))
                count = offsets_view.len // rows.width
                rows.last = count - 1 if last is None else last
                if not 0 <= first <= rows.last <= count - 1:
                    _twin.check_rows(first, last, count)
                rows.first = first
                rows.data = <const char*>data_view.buf
                rows.data_length = data_view.len
                rows.offsets = offsets_view.buf
                if not self.is_open:
                    return CLOSED
                if self.busy:
                    raise _twin.in_use()
                # Keeps the memory if another thread closes this during the call. An exclusive one admits no other.
                held = (self.term_0, self.term_1, self.term_2, self.metadata, self.limit)
                view = self.view
                self.busy = place != NULL
                with nogil:
                    appended = append_rows(&view, place, &rows, reserved_value, &status)
                self.busy = False
                del held
            finally:
                PyBuffer_Release(&offsets_view)
        finally:
            PyBuffer_Release(&data_view)
        if status == BAD_OFFSETS and appended == 0:
            raise _twin.bad_offsets(first)
        return self._outcome(appended, status)

    cdef object _outcome(self, int64_t appended, int64_t status):
        if appended > 0:
            return appended
        if status >= 0:
            return 0
        if status <= TOO_LONG:
            raise self._error(status)
        return status

    cdef object _error(self, int64_t status):
        if status == TOO_LONG:
            return _twin.too_long(self.view.max_message)
        return _twin.bad_tail()

    cdef int64_t _check_claim(self, int64_t length, BufferClaim claim) except -1:
        if claim._term is not None:
            raise _twin.open_claim()
        if not 0 <= length <= self.view.max_payload:
            raise _twin.bad_claim(length, self.view.max_payload)
        return align32(length + HEADER)

    cdef Memory _term(self, int index):
        return self.term_0 if index == 0 else self.term_1 if index == 1 else self.term_2


cdef class ConcurrentAppender(Appender):

    def offer(self, data, int64_t reserved_value=0):
        cdef int64_t position
        if not self.is_open:
            return CLOSED
        position = self._append_one(data, reserved_value)
        if position <= TOO_LONG:
            raise self._error(position)
        return position

    def try_claim(self, int64_t length, BufferClaim claim not None):
        cdef Tail tail
        cdef int64_t framed = self._check_claim(length, claim), offset
        if not self.is_open:
            return CLOSED
        offset = claim_concurrent(&self.view, &tail, length, framed)
        if offset < 0:
            if offset <= TOO_LONG:
                raise self._error(offset)
            return offset
        put_header(&self.view, self.view.term[tail.index] + offset, offset, length + HEADER, tail.term_id)
        claim._set(self._term(tail.index), offset, length)
        return tail.position + framed


cdef class ExclusiveAppender(Appender):
    cdef Place place

    def __init__(self, log, Memory limit not None, int64_t limit_offset):
        Appender.__init__(self, log, limit, limit_offset)
        cdef Tail tail
        if read_tail(&self.view, &tail) < 0:
            self.close()
            raise _twin.bad_tail()
        self.place.index = tail.index
        self.place.term_id = tail.term_id
        self.place.offset = tail.offset
        self.place.begin = tail.position - tail.offset

    cdef Place* _place(self) noexcept:
        return &self.place

    cdef int64_t _tail_position(self) noexcept:
        return self.place.begin + self.place.offset

    @property
    def term_id(self):
        return self.place.term_id

    @property
    def term_offset(self):
        return self.place.offset

    def offer(self, data, int64_t reserved_value=0):
        cdef int64_t position
        if not self.is_open:
            return CLOSED
        if self.busy:
            raise _twin.in_use()
        position = self._append_one(data, reserved_value)
        if position <= TOO_LONG:
            raise self._error(position)
        return position

    def try_claim(self, int64_t length, BufferClaim claim not None):
        cdef int64_t framed = self._check_claim(length, claim), offset
        if not self.is_open:
            return CLOSED
        if self.busy:
            raise _twin.in_use()
        offset = claim_exclusive(&self.view, &self.place, length, framed)
        if offset < 0:
            return offset
        put_header(&self.view, self.view.term[self.place.index] + offset, offset, length + HEADER, self.place.term_id)
        claim._set(self._term(self.place.index), offset, length)
        self.place.offset = offset + framed
        return self.place.begin + self.place.offset

    def append_padding(self, int64_t length):
        cdef int64_t framed = align32(length + HEADER), offset
        if not 0 <= length <= self.max_framed_length:
            raise _twin.bad_padding(length, self.max_framed_length)
        if not self.is_open:
            return CLOSED
        if self.busy:
            raise _twin.in_use()
        offset = claim_exclusive(&self.view, &self.place, length, framed)
        if offset < 0:
            return offset
        put_padding(&self.view, self.view.term[self.place.index], offset, length + HEADER, self.place.term_id)
        self.place.offset = offset + framed
        return self.place.begin + self.place.offset

    def append_block(self, block):
        cdef Py_buffer view
        cdef int64_t position, first, taken
        cdef char* at
        PyObject_GetBuffer(block, &view, PyBUF_SIMPLE)
        try:
            if not self.is_open:
                return CLOSED
            if self.busy:
                raise _twin.in_use()
            if self.place.offset >= self.view.term_length:
                if self.place.begin + self.view.term_length >= self.view.max_position:
                    return MAX_POSITION_EXCEEDED
                next_term(&self.view, &self.place)
            position = self.place.begin + self.place.offset
            if position >= acquire_i64(self.view.limit):
                return refusal(&self.view, position, view.len)
            taken = block_length(
                &self.view, <const char*>view.buf, view.len, self.place.offset, self.session_id, self.place.term_id
            )
            if taken < 0:
                raise _twin.bad_block(-1 - taken)
            first = load_i32(<const char*>view.buf)
            at = self.view.term[self.place.index] + self.place.offset
            move_tail(&self.view, &self.place, self.place.offset + taken)
            release_i32(at, <int32_t>-first)
            release_fence()
            memcpy(at + 4, <const char*>view.buf + 4, view.len - 4)
            release_i32(at, <int32_t>first)
        finally:
            PyBuffer_Release(&view)
        self.place.offset += taken
        return self.place.begin + self.place.offset
