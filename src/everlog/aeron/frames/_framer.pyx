# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Compiled framer; :mod:`everlog.aeron.frames.framing_twin` documents what it does and why."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytearray cimport PyByteArray_AS_STRING
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_GET_SIZE
from cpython.long cimport PyLong_CheckExact
from cpython.object cimport PyObject
from cpython.pythread cimport (
    NOWAIT_LOCK, PyThread_acquire_lock, PyThread_allocate_lock, PyThread_free_lock, PyThread_release_lock,
    PyThread_type_lock,
)
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from everlog.kernel._atomics cimport acquire_i32
from everlog.kernel._crc32 cimport Crc32
from everlog.kernel._memory cimport BlockSink

from everlog.aeron.frames import constants as _frames
from everlog.aeron.frames import framing_inputs as _inputs
from everlog.errors import UsageError

include "everlog/aeron/_layouts.pxi"

cdef extern from "<sys/types.h>" nogil:
    ctypedef long off_t
    ctypedef long ssize_t

cdef extern from "Python.h":
    ctypedef enum PyLockStatus:
        PY_LOCK_ACQUIRED
    PyLockStatus PyThread_acquire_lock_timed(PyThread_type_lock lock, long long microseconds, int intr_flag) nogil
    int PyErr_CheckSignals() except -1

cdef extern from "<unistd.h>" nogil:
    ssize_t pwrite(int fd, const void* data, size_t length, off_t offset)

cdef extern from *:
    """
    #include <stdint.h>
    #include <time.h>
    /* The coarse clock, if available: a few milliseconds late, but as fast as reading a variable. */
    static inline int64_t everlog_now_ns(void) {
        struct timespec now;
    #ifdef CLOCK_MONOTONIC_COARSE
        clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    #else
        clock_gettime(CLOCK_MONOTONIC, &now);
    #endif
        return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec; }
    static inline int64_t everlog_exact_ns(void) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec; }
    """
    int64_t everlog_now_ns() nogil
    int64_t everlog_exact_ns() nogil

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>
    static inline uint64_t everlog_load64(const uint8_t* at) {
        uint64_t v; memcpy(&v, at, 8);
    #if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
        v = __builtin_bswap64(v);
    #endif
        return v; }
    /* For buffers from callers, which need not be aligned. */
    static inline int64_t everlog_int32_at(const void* values, int64_t i) {
        int32_t v; memcpy(&v, (const char*)values + 4 * i, 4); return v; }
    static inline int64_t everlog_int64_at(const void* values, int64_t i) {
        int64_t v; memcpy(&v, (const char*)values + 8 * i, 8); return v; }
    static inline void everlog_store32(uint8_t* at, uint32_t v) {
    #if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
        v = __builtin_bswap32(v);
    #endif
        memcpy(at, &v, 4); }
    static inline void everlog_store64(uint8_t* at, uint64_t v) {
    #if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
        v = __builtin_bswap64(v);
    #endif
        memcpy(at, &v, 8); }
    /* memcpy; up to 64 bytes are copied without a call, as two halves that may overlap. */
    static inline void everlog_copy(uint8_t* to, const uint8_t* from, int64_t n) {
        if (n > 64) memcpy(to, from, (size_t)n);
        else if (n >= 32) {
            uint64_t a[4], b[4];
            memcpy(a, from, 32); memcpy(b, from + n - 32, 32); memcpy(to, a, 32); memcpy(to + n - 32, b, 32);
        } else if (n >= 16) {
            uint64_t a[2], b[2];
            memcpy(a, from, 16); memcpy(b, from + n - 16, 16); memcpy(to, a, 16); memcpy(to + n - 16, b, 16);
        } else if (n >= 8) {
            uint64_t a, b;
            memcpy(&a, from, 8); memcpy(&b, from + n - 8, 8); memcpy(to, &a, 8); memcpy(to + n - 8, &b, 8);
        } else while (n-- > 0) to[n] = from[n];
    }
    /* Stores eight bytes that become visible only after everything stored earlier (release). */
    static inline void everlog_store64_release(uint8_t* to, const uint8_t* from) {
        uint64_t v; memcpy(&v, from, 8); __atomic_store_n((uint64_t*)to, v, __ATOMIC_RELEASE); }
    static inline void everlog_zero32(uint8_t* to) { memset(to, 0, 32); }
    static inline void everlog_prefetch(const void* at) { __builtin_prefetch(at, 0, 3); }
    static inline PyObject** everlog_items(PyObject* list_or_tuple) { return PySequence_Fast_ITEMS(list_or_tuple); }
    static inline Py_ssize_t everlog_count(PyObject* list_or_tuple) { return PySequence_Fast_GET_SIZE(list_or_tuple); }
    """
    void everlog_store64_release(uint8_t*, const uint8_t*) nogil
    uint64_t everlog_load64(const uint8_t*) nogil
    int64_t everlog_int32_at(const void*, int64_t) nogil
    int64_t everlog_int64_at(const void*, int64_t) nogil
    void everlog_store32(uint8_t*, uint32_t) nogil
    void everlog_store64(uint8_t*, uint64_t) nogil
    void everlog_copy(uint8_t*, const uint8_t*, int64_t) nogil
    void everlog_zero32(uint8_t*) nogil
    void everlog_prefetch(const void*) nogil
    PyObject** everlog_items(object)
    Py_ssize_t everlog_count(object)

cdef extern from "Python.h":
    long long PyLong_AsLongLongAndOverflow(object, int* overflow) except? -1

cdef enum:
    HEADER = DATA_HEADER_SIZE
    TYPE_PADDING = 0
    TYPE_DATA = 1
    FLAG_BEGIN = 0x80
    FLAG_END = 0x40
    UNFRAGMENTED = 0xC0
    MAX_FRAME_LENGTH = 65536
    PAGE = 4096
    BLOCK_BYTES = 262144        # most bytes of a log that are read before they are written: they stay in the cache
    CHUNK_BYTES = 65536         # bytes of a block that are copied before their headers are checked
    OBJECTS_AHEAD = 16          # payloads of a list that are prefetched
    FRAMES_AHEAD = 6            # headers of a log that are prefetched
    NOT_TAKEN = 0
    TAKEN = 1
    SLOW_PATH = -1
    FRAMED = -2

assert (HEADER, TYPE_PADDING, TYPE_DATA, FLAG_BEGIN, FLAG_END, UNFRAGMENTED, MAX_FRAME_LENGTH) == (
    _frames.HEADER_LENGTH, _frames.TYPE_PADDING, _frames.TYPE_DATA, _frames.FLAG_BEGIN, _frames.FLAG_END,
    _frames.UNFRAGMENTED, _frames.MAX_FRAME_LENGTH,
)


assert (SLOW_PATH, FRAMED) == (_inputs.SLOW_PATH, _inputs.FRAMED)


cdef inline int64_t align32(int64_t length) noexcept nogil:
    return (length + 31) & ~<int64_t>31


cdef inline uint64_t first_word(uint64_t kind, uint64_t flags) noexcept nogil:
    """Build a header's first word without the frame's length."""
    return kind << 8 * DATA_HEADER_TYPE | flags << 8 * DATA_HEADER_FLAGS


cdef inline void put_header(
    uint8_t* out, uint64_t first, uint64_t session_and_offset, uint64_t stream_and_term, int64_t reserved
) noexcept nogil:
    everlog_store64(out + DATA_HEADER_FRAME_LENGTH, first)
    everlog_store64(out + DATA_HEADER_TERM_OFFSET, session_and_offset)
    everlog_store64(out + DATA_HEADER_STREAM_ID, stream_and_term)
    everlog_store64(out + DATA_HEADER_RESERVED_VALUE, <uint64_t>reserved)


cdef inline void put_payload(uint8_t* out, const uint8_t* payload, int64_t length, int64_t aligned) noexcept nogil:
    """Write a payload into the frame at ``out``, whose length is ``aligned`` with its padding."""
    if length:
        everlog_zero32(out + aligned - 32)
        everlog_copy(out + HEADER, payload, length)


cdef struct Place:
    # The place of the next frame, and the limits of this term and this buffer.
    int64_t at
    int64_t last
    int64_t shift               # from ``at`` to the offset in the term
    uint64_t session
    uint64_t stream_and_term


cdef struct Wrong:
    # A message of a column that can't be framed.
    bint found
    int64_t first, last


cdef class Held:
    """The buffer of a contiguous memoryview, held as long as this object exists."""

    cdef Py_buffer view

    def __cinit__(self, memoryview):
        PyObject_GetBuffer(memoryview, &self.view, PyBUF_SIMPLE)

    def __dealloc__(self):
        PyBuffer_Release(&self.view)


cdef class Reserved:
    """Reserved values from a list or tuple, from a buffer, or 0 for all."""

    cdef object values
    cdef Held held
    cdef const void* data

    def __cinit__(self, values, Py_ssize_t count):
        self.values = None
        self.data = NULL
        if values is None:
            return
        found = _inputs.Integers.of_reserved(values, count)._values
        if isinstance(values, (list, tuple)):
            self.values = values
        else:
            self.held = Held(found)
            self.data = self.held.view.buf

    cdef int64_t at(self, Py_ssize_t index) except? -1:
        if self.data != NULL:
            return everlog_int64_at(self.data, index)
        if self.values is None:
            return 0
        return reserved_value_of(self.values[index] if index < everlog_count(self.values) else None)


cdef inline int64_t reserved_value_of(value) except? -1:
    cdef int overflow = 0
    cdef int64_t number
    if PyLong_CheckExact(value):
        number = PyLong_AsLongLongAndOverflow(value, &overflow)
        if not overflow:
            return number
    return _inputs.checked_reserved(value)


def longest_of(payloads):
    """The length of the longest payload, 0 if the sequence is empty."""
    cdef Py_ssize_t at = 0, longest = 0, length
    if type(payloads) is not list and type(payloads) is not tuple:
        return max(map(len, payloads), default=0)
    while at < everlog_count(payloads):     # read again each time: an object's __len__ may change the list
        if PyBytes_CheckExact(<object>everlog_items(payloads)[at]):
            length = PyBytes_GET_SIZE(<object>everlog_items(payloads)[at])
        else:
            length = len(payloads[at])
        if length > longest:
            longest = length
        at += 1
    return longest


cdef class Framer:
    """Frames messages into a buffer."""

    cdef readonly object framing
    cdef readonly int64_t capacity, max_message_length, max_payload_length, start_position, position, length
    cdef object buffer          # a memoryview, which keeps its bytearray from moving
    cdef uint8_t* data
    cdef int64_t term_length, end
    cdef int term_bits
    cdef uint32_t initial_term_id
    cdef uint64_t session, stream           # shifted to their places in a header's words
    cdef bint is_padded, is_checked
    cdef Crc32 crc

    def __cinit__(
        self, *, initial_term_id, term_length, mtu_length, session_id, stream_id, checksum="none", capacity=1 << 20
    ):
        framing = _inputs.Framing(
            initial_term_id=initial_term_id,
            term_length=term_length,
            mtu_length=mtu_length,
            session_id=session_id,
            stream_id=stream_id,
            checksum=checksum,
        )
        polynomial = _inputs.CHECKSUMS[checksum]
        self.framing = framing
        self.capacity = framing.capacity(capacity)
        self.max_message_length = framing.max_message_length
        self.max_payload_length = framing.max_payload_length
        self.start_position = self.position = self.length = self.end = 0
        self.term_length = term_length
        self.term_bits = term_length.bit_length() - 1
        self.initial_term_id = <uint32_t><int32_t>initial_term_id
        self.session = <uint64_t><uint32_t><int32_t>session_id << 32
        self.stream = <uint64_t><uint32_t><int32_t>stream_id
        self.is_padded = False
        self.is_checked = polynomial is not None
        if polynomial is not None:
            self.crc = Crc32(polynomial)
        memory = bytearray(self.capacity)
        self.buffer = memoryview(memory)
        self.data = <uint8_t*>PyByteArray_AS_STRING(memory)

    @property
    def is_full(self):
        """Whether :meth:`begin` must be called before the next message."""
        return self.is_stopped()

    cdef inline bint is_stopped(self) noexcept nogil:
        return self.is_padded or self.position == self.end

    def begin(self, position, end):
        """Empty the buffer; the next frame goes to ``position``, and none passes ``end``."""
        self.framing.check_range(position, end)
        self.start_position = self.position = position
        self.length = 0
        self.end = end
        self.is_padded = False

    def view(self):
        """A read-only view of the bytes framed so far, valid until the next :meth:`begin`."""
        return self.buffer[: self.length].toreadonly()

    def frame(self, payload, reserved_value=0):
        """Frame one message. Returns false if the buffer must be emptied first."""
        return self.put_object(payload, reserved_value, None, 0) == TAKEN

    def ends_in_doubt(self):
        """Whether a reader could mistake the last frame for one torn by a crash."""
        return self.in_doubt()

    cdef bint in_doubt(self) noexcept nogil:
        cdef int64_t page, at, end
        if self.is_checked or self.is_padded:
            return False
        at = self.position - min(align32(self.max_payload_length + HEADER), self.length)
        page = (at & ~<int64_t>(PAGE - 1)) + PAGE
        while page < self.position:
            at = self.length - (self.position - page)
            end = min(at + PAGE, self.length)
            while at < end and everlog_int64_at(self.data + at, 0) == 0:
                at += 8
            if at >= end:
                return True
            page += PAGE
        return False

    def pad(self):
        """Append a padding frame that is only a header. Returns false if there is no room for it."""
        cdef int64_t in_term = self.position & (self.term_length - 1)
        if self.is_stopped() or self.capacity - self.length < HEADER:
            return False
        put_header(
            self.data + self.length, first_word(TYPE_PADDING, UNFRAGMENTED) | <uint64_t>HEADER,
            self.session | <uint64_t>in_term, self.stream_and_term(), 0,
        )
        self.go_to(self.length + HEADER)
        return True

    def frame_many(self, payloads, start, reserved_values=None):
        """Frame ``payloads[start:]`` until the buffer must be emptied. Returns how many were framed."""
        cdef Reserved reserved
        cdef Py_ssize_t first, at
        cdef bint is_over = False
        _inputs.check_payloads(payloads, start)
        first = at = start
        reserved = Reserved(reserved_values, everlog_count(payloads))
        while not self.is_stopped():
            at = self.put_bytes_of(payloads, at, reserved, &is_over)
            if is_over or at >= everlog_count(payloads):
                break
            try:
                if self.put_object(payloads[at], None, reserved, at) != TAKEN:
                    break
            except UsageError:
                if at == first:
                    raise
                break
            at += 1
        return at - first

    def frame_column(self, data, offsets, start, stop, reserved_values=None):
        """Frame messages of a column until the buffer must be emptied. Returns how many were framed."""
        cdef Held column = Held(_inputs.contiguous(data, "data", is_cast=False))
        cdef Held places
        cdef Reserved reserved
        cdef int64_t first, last, at
        cdef int width
        cdef Wrong wrong
        view = _inputs.integer_view(offsets, "offsets", (4, 8))
        _inputs.check_messages(start, stop, len(view) - 1)
        places, width = Held(view), view.itemsize
        reserved = Reserved(reserved_values, stop)
        first = at = start
        last = stop
        wrong.found = False
        if reserved.values is None:
            with nogil:
                at = self.put_column(column, places, width, at, last, reserved.data, &wrong)
        else:
            at = self.put_column_with(column, places, width, at, last, reserved, &wrong)
        if wrong.found and at == first:
            _inputs.column_range(wrong.first, wrong.last, column.view.len, at)
            _inputs.check_length(wrong.last - wrong.first, self.max_message_length)
        return at - first

    def frame_block(self, block):
        """Append the frames of a log buffer's block. Returns how many bytes of it were used."""
        cdef Held source = Held(_inputs.contiguous(block, "block", is_cast=False))
        cdef int64_t taken, at = 0, aligned
        with nogil:
            taken = self.put_block(<const uint8_t*>source.view.buf, source.view.len, &at)
        if taken < 0:  # the wrong frame is at ``at`` of the block, and of its copy
            aligned = min(at + HEADER, source.view.len)
            header = bytes(self.buffer[self.length + at : self.length + aligned])
            raise self.framing.fault(header, self.position + at, at, source.view.len - at)
        return taken

    cdef inline Place place(self) noexcept nogil:
        """Prepare the fast path for whole frames without a checksum, if these are possible."""
        cdef Place place
        cdef int64_t in_term = self.position & (self.term_length - 1), at = self.length
        place.at = place.last = at
        if not self.is_checked and not self.is_stopped():
            place.last = min(self.capacity, at + self.term_length - in_term)
        place.shift = in_term - at
        place.session = self.session
        place.stream_and_term = self.stream_and_term()
        return place

    cdef inline uint64_t stream_and_term(self) noexcept nogil:
        return self.stream | <uint64_t>(self.initial_term_id + <uint32_t>(self.position >> self.term_bits)) << 32

    cdef inline void go_to(self, int64_t at) noexcept nogil:
        self.position += at - self.length
        self.length = at

    cdef Py_ssize_t put_bytes_of(self, payloads, Py_ssize_t at, Reserved reserved, bint* is_over) except -1:
        """Frame messages from ``at`` on as long as they are ``bytes`` with plain reserved values. No Python code runs
        during this. Sets ``is_over`` if a message was not taken."""
        cdef PyObject** items = everlog_items(payloads)
        cdef Py_ssize_t count = everlog_count(payloads), value_count = 0
        cdef PyObject** values = NULL
        cdef Place place = self.place()
        cdef uint8_t* data = self.data
        cdef uint8_t* out
        cdef const uint8_t* payload
        cdef uint64_t first = first_word(TYPE_DATA, UNFRAGMENTED)
        cdef int64_t longest = self.max_payload_length, length, aligned, reserved_value = 0
        cdef int overflow = 0
        if reserved.values is not None:
            values, value_count = everlog_items(reserved.values), everlog_count(reserved.values)
        while at < count:
            if not PyBytes_CheckExact(<object>items[at]):
                break
            length = PyBytes_GET_SIZE(<object>items[at])
            payload = <const uint8_t*>PyBytes_AS_STRING(<object>items[at])
            if reserved.data != NULL:
                reserved_value = everlog_int64_at(reserved.data, at)
            elif values != NULL:
                if at >= value_count or not PyLong_CheckExact(<object>values[at]):
                    break
                reserved_value = PyLong_AsLongLongAndOverflow(<object>values[at], &overflow)
                if overflow:
                    break
            aligned = align32(HEADER + length)
            if at + OBJECTS_AHEAD < count:
                everlog_prefetch(items[at + OBJECTS_AHEAD])
                everlog_prefetch(<const uint8_t*>items[at + OBJECTS_AHEAD] + 64)
            if length <= longest and place.at + aligned <= place.last:
                out = data + place.at
                put_header(
                    out, first | <uint64_t>(HEADER + length), place.session | <uint64_t>(place.at + place.shift),
                    place.stream_and_term, reserved_value,
                )
                put_payload(out, payload, length, aligned)
                place.at += aligned
            else:
                if length > self.max_message_length:
                    break
                self.go_to(place.at)
                if self.put(payload, length, reserved_value) != TAKEN:
                    is_over[0] = True
                    return at
                place = self.place()
            at += 1
        self.go_to(place.at)
        return at

    cdef int put_object(self, payload, value, Reserved reserved, Py_ssize_t index) except -1:
        """Frame any message with a reserved value, or that of its index. Python code may run until all is read."""
        cdef Py_buffer view
        cdef int64_t number
        if not PyBytes_CheckExact(payload):
            try:
                PyObject_GetBuffer(payload, &view, PyBUF_SIMPLE)
            except (TypeError, BufferError, ValueError):
                payload = _inputs.payload_bytes(payload, self.max_message_length)
            else:
                try:
                    self.check_length(view.len)
                    number = reserved_value_of(value) if reserved is None else reserved.at(index)
                    return self.put(<const uint8_t*>view.buf, view.len, number)
                finally:
                    PyBuffer_Release(&view)
        self.check_length(PyBytes_GET_SIZE(payload))
        number = reserved_value_of(value) if reserved is None else reserved.at(index)
        return self.put(<const uint8_t*>PyBytes_AS_STRING(payload), PyBytes_GET_SIZE(payload), number)

    cdef inline int check_length(self, int64_t length) except -1:
        if length > self.max_message_length:
            _inputs.check_length(length, self.max_message_length)
        return 0

    cdef inline bint find(
        self, Held column, Held places, int width, int64_t at, Wrong* found
    ) noexcept nogil:
        """Find message ``at`` of a column. Returns whether it can be framed."""
        if width == 4:
            found.first = everlog_int32_at(places.view.buf, at)
            found.last = everlog_int32_at(places.view.buf, at + 1)
        else:
            found.first = everlog_int64_at(places.view.buf, at)
            found.last = everlog_int64_at(places.view.buf, at + 1)
        found.found = (
            found.first < 0 or found.last < found.first or found.last > column.view.len
            or found.last - found.first > self.max_message_length
        )
        return not found.found

    cdef int64_t put_column(
        self, Held column, Held places, int width, int64_t at, int64_t stop, const void* reserved, Wrong* wrong
    ) noexcept nogil:
        """Frame the messages ``at`` to ``stop``. Returns the index of the first one that is wrong or was not taken."""
        cdef Place place = self.place()
        cdef Wrong found
        cdef uint8_t* data = self.data
        cdef uint8_t* out
        cdef const uint8_t* source = <const uint8_t*>column.view.buf
        cdef uint64_t first = first_word(TYPE_DATA, UNFRAGMENTED)
        cdef int64_t longest = self.max_payload_length, length, aligned, reserved_value = 0
        if self.is_stopped():
            return at
        while at < stop:
            if not self.find(column, places, width, at, &found):
                wrong[0] = found
                break
            length = found.last - found.first
            if reserved != NULL:
                reserved_value = everlog_int64_at(reserved, at)
            aligned = align32(HEADER + length)
            if length <= longest and place.at + aligned <= place.last:
                out = data + place.at
                put_header(
                    out, first | <uint64_t>(HEADER + length), place.session | <uint64_t>(place.at + place.shift),
                    place.stream_and_term, reserved_value,
                )
                put_payload(out, source + found.first, length, aligned)
                place.at += aligned
            else:
                self.go_to(place.at)
                if self.put(source + found.first, length, reserved_value) != TAKEN:
                    return at
                place = self.place()
            at += 1
        self.go_to(place.at)
        return at

    cdef int64_t put_column_with(
        self, Held column, Held places, int width, int64_t at, int64_t stop, Reserved reserved, Wrong* wrong
    ) except -1:
        """:meth:`put_column` with the reserved values of a list or tuple."""
        cdef const uint8_t* source = <const uint8_t*>column.view.buf
        cdef int64_t first = at, value
        while at < stop and not self.is_stopped():
            if not self.find(column, places, width, at, wrong):
                break
            try:
                value = reserved.at(at)
            except UsageError:
                if at == first:
                    raise
                break
            if self.put(source + wrong.first, wrong.last - wrong.first, value) != TAKEN:
                break
            at += 1
        return at

    cdef int put(self, const uint8_t* payload, int64_t length, int64_t reserved) noexcept nogil:
        """Write one message, or padding."""
        cdef int64_t in_term = self.position & (self.term_length - 1)
        cdef int64_t at = self.length       # read once: another thread must not change it midway
        cdef int64_t rest = self.term_length - in_term, room = self.capacity - at
        cdef int64_t longest = self.max_payload_length, part, aligned, framed
        cdef uint64_t stream_and_term = self.stream_and_term(), flags = FLAG_BEGIN
        cdef uint8_t* out
        if self.is_stopped():
            return NOT_TAKEN
        framed = length // longest * (HEADER + longest)
        if length % longest or length == 0:
            framed += align32(HEADER + length % longest)
        if framed > rest:
            if room >= HEADER:
                put_header(
                    self.data + at, first_word(TYPE_PADDING, UNFRAGMENTED) | <uint64_t>rest,
                    self.session | <uint64_t>in_term, stream_and_term, 0,
                )
                self.length += HEADER
                self.position += rest
                self.is_padded = True
            return NOT_TAKEN
        if framed > room:
            return NOT_TAKEN
        while True:
            part = min(length, longest)
            aligned = align32(HEADER + part)
            if part == length:
                flags |= FLAG_END
            out = self.data + at
            put_header(
                out, first_word(TYPE_DATA, flags) | <uint64_t>(HEADER + part), self.session | <uint64_t>in_term,
                stream_and_term, reserved,
            )
            put_payload(out, payload, part, aligned)
            if self.is_checked:
                self.sign(out, aligned)
            at += aligned
            in_term += aligned
            payload += part
            length -= part
            flags = 0
            if length == 0:
                break
        self.go_to(at)
        return TAKEN

    cdef inline void sign(self, uint8_t* frame, int64_t aligned) noexcept nogil:
        everlog_store32(frame + DATA_HEADER_SESSION_ID, self.crc.update(0, frame + HEADER, aligned - HEADER))

    cdef int64_t put_block(self, const uint8_t* block, int64_t given, int64_t* wrong_at) noexcept nogil:
        """Returns how many bytes were taken, or -1 with the offset of a wrong frame. Checks a copy, as the block may
        change concurrently."""
        cdef int64_t already = self.length
        cdef uint8_t* base = self.data + already
        cdef uint8_t* frame
        cdef int64_t room = self.capacity - already, copied = 0, at = 0, length, aligned
        cdef int64_t start = self.position, size = self.term_length, in_term = start & (size - 1)
        cdef int64_t first_end = self.end - start       # the end's offset in the block
        cdef int64_t most = min(room, given)
        cdef uint64_t stream_and_term = self.stream_and_term(), session = self.session, first
        cdef uint32_t kind
        cdef bint is_checked = self.is_checked
        if self.is_padded:
            return 0
        while at < given and at < first_end and room - at >= HEADER:
            wrong_at[0] = at
            if at + HEADER > copied:
                copied = copy_more(base, block, copied, min(most, at + HEADER), most)
            if given - at < HEADER:
                return -1
            frame = base + at
            first = everlog_load64(frame)
            length = <int32_t><uint32_t>first
            kind = <uint32_t>(first >> 8 * DATA_HEADER_TYPE)
            aligned = align32(length)
            if (
                kind > TYPE_DATA or length < HEADER or in_term + aligned > size
                or everlog_load64(frame + DATA_HEADER_TERM_OFFSET) != (session | <uint64_t>in_term)
                or everlog_load64(frame + DATA_HEADER_STREAM_ID) != stream_and_term
            ):
                return -1
            if kind == TYPE_PADDING:
                if aligned > given - at and given - at != HEADER:
                    return -1
                self.go_to(already + at + HEADER)
                self.position += aligned - HEADER
                self.is_padded = True
                return min(at + aligned, given)
            if length > MAX_FRAME_LENGTH or aligned > given - at:
                return -1
            if aligned > room - at:
                break
            if is_checked:
                if at + aligned > copied:
                    copied = copy_more(base, block, copied, at + aligned, most)
                self.sign(frame, aligned)
            at += aligned
            in_term += aligned
            if in_term == size:
                in_term = 0
                stream_and_term += <uint64_t>1 << 32
        if at > copied:
            memcpy(base + copied, block + copied, at - copied)
        self.go_to(already + at)
        return at

    cdef int64_t frames_at(
        self, const uint8_t* block, int64_t room, int64_t most, int64_t* taken
    ) noexcept nogil:
        """Find the published frames at ``block`` that continue this recording. Returns how many bytes are to be recorded
        and, in ``taken``, to be passed over: of padding, only the header is recorded."""
        cdef const uint8_t* frame
        cdef int64_t in_term = self.position & (self.term_length - 1), at = 0, length, aligned
        cdef uint64_t stream_and_term = self.stream_and_term(), session = self.session
        cdef uint32_t kind
        room = min(room, self.term_length - in_term)
        taken[0] = 0
        while at < room and at < most:
            frame = block + at
            length = acquire_i32(frame)
            aligned = align32(length)
            if at + FRAMES_AHEAD * aligned < room:  # messages are often of one length: their headers are in another
                everlog_prefetch(frame + FRAMES_AHEAD * aligned)  # processor's cache
            kind = <uint32_t>(everlog_load64(frame) >> 8 * DATA_HEADER_TYPE)
            if (
                length < HEADER or aligned > room - at or kind > TYPE_DATA
                or everlog_load64(frame + DATA_HEADER_TERM_OFFSET) != (session | <uint64_t>(in_term + at))
                or everlog_load64(frame + DATA_HEADER_STREAM_ID) != stream_and_term
            ):
                break
            if kind == TYPE_PADDING:
                if at == 0:
                    taken[0] = aligned
                    return HEADER
                break
            if length > MAX_FRAME_LENGTH or (at and at + aligned > most):
                break
            at += aligned
        taken[0] = at
        return at

    cdef const uint8_t* signed(self, const uint8_t* block, int64_t length) noexcept nogil:
        """Copy whole frames into the empty buffer, and give them their checksums there."""
        cdef int64_t at = 0, aligned
        memcpy(self.data, block, length)
        while at < length:
            aligned = align32(<int32_t><uint32_t>everlog_load64(self.data + at))
            if aligned < HEADER or aligned > length - at:  # the frame has changed since it was found
                break
            self.sign(self.data + at, aligned)
            at += aligned
        return self.data


cdef inline int64_t copy_more(
    uint8_t* base, const uint8_t* block, int64_t copied, int64_t needed, int64_t most
) noexcept nogil:
    """Copy more of a block: up to ``needed`` and a chunk more, but not past ``most``. Returns how much is copied."""
    cdef int64_t upto = min(most, max(needed, copied + CHUNK_BYTES))
    memcpy(base + copied, block + copied, upto - copied)
    return upto


cdef class Tail(BlockSink):
    """The end of a recording that threads share."""

    cdef Framer framer
    cdef PyThread_type_lock mutex
    cdef public int fd
    cdef public int64_t base, end, written, acknowledged, writes_left
    cdef int64_t until_ns, window_base
    cdef Py_buffer window
    cdef bint has_window
    cdef int64_t block_bytes, block_ns, longest_ns

    def __cinit__(self, Framer framer not None):
        self.framer = framer
        self.fd = -1
        self.until_ns = 0
        self.base = self.end = self.writes_left = 0
        self.block_bytes = self.block_ns = self.longest_ns = 0
        self.has_window = False
        self.written = self.acknowledged = framer.position
        self.mutex = PyThread_allocate_lock()
        if self.mutex == NULL:
            raise MemoryError

    def __dealloc__(self):
        if self.has_window:
            PyBuffer_Release(&self.window)
        if self.mutex != NULL:
            PyThread_free_lock(self.mutex)

    def set_window(self, window, int64_t base):
        """Store frames in ``window``, which maps the file from position ``base`` on."""
        cdef Py_buffer view
        if window is not None:
            PyObject_GetBuffer(window, &view, PyBUF_WRITABLE)
        if self.has_window:
            self.has_window = False
            PyBuffer_Release(&self.window)
        if window is not None:
            self.window, self.window_base, self.has_window = view, base, True

    def acquire(self):
        """Acquire the lock."""
        cdef PyLockStatus got
        if PyThread_acquire_lock(self.mutex, NOWAIT_LOCK):
            return
        while True:
            with nogil:
                got = PyThread_acquire_lock_timed(self.mutex, -1, 1)
            if got == PY_LOCK_ACQUIRED:
                return
            PyErr_CheckSignals()

    def release(self):
        """Release the lock."""
        PyThread_release_lock(self.mutex)

    def renew(self, double seconds):
        """Keep the fast path open for ``seconds``."""
        self.until_ns = everlog_now_ns() + <int64_t>(seconds * 1e9)

    def __enter__(self):
        self.acquire()
        return self

    def __exit__(self, kind, error, trace):
        PyThread_release_lock(self.mutex)

    def append(self, payload, reserved_value=0):
        """Frame one message and write it. Returns the position after it, ``SLOW_PATH`` or ``FRAMED``."""
        cdef int64_t position = SLOW_PATH
        if self.fd < 0 or everlog_now_ns() > self.until_ns or not PyThread_acquire_lock(self.mutex, NOWAIT_LOCK):
            return SLOW_PATH
        try:
            position = self.put(payload, reserved_value)
        finally:
            if position != FRAMED:
                PyThread_release_lock(self.mutex)
        return position

    cdef int64_t put(self, payload, reserved_value) except? -1:
        cdef Framer framer = self.framer
        cdef int64_t at = framer.position - self.base, length
        cdef int fd = self.fd
        cdef ssize_t done
        if fd < 0 or framer.length or framer.is_stopped():
            return SLOW_PATH
        if framer.put_object(payload, reserved_value, None, 0) != TAKEN:
            return SLOW_PATH
        if framer.position == self.end or framer.in_doubt():
            return FRAMED
        length = framer.length
        if self.store(at + self.base - self.window_base, length):
            framer.start_position = self.written = self.acknowledged = framer.position
            framer.length = 0
            return self.written
        if self.writes_left <= 0:
            return FRAMED
        self.writes_left -= 1
        with nogil:
            done = pwrite(fd, framer.data, <size_t>length, <off_t>at)
        if done != length:
            return FRAMED
        framer.start_position = self.written = self.acknowledged = framer.position
        framer.length = 0
        return self.written

    cdef inline bint store(self, int64_t at, int64_t length):
        """Copy the framed bytes into the window if they are one frame and lie in it. The whole first word, which is
        aligned as frames are, is written last. A write that may be the first to a page can wait for the file system, so
        it releases the GIL."""
        cdef uint8_t* data = self.framer.data
        cdef uint8_t* place
        if not self.has_window or at < 0 or at > self.window.len - length:
            return False
        if align32(<int32_t><uint32_t>everlog_load64(data)) != length:
            return False
        place = <uint8_t*>self.window.buf + at
        if (at - 1) // PAGE != (at + length - 1) // PAGE:
            with nogil:
                put_frame(place, data, length)
        else:
            put_frame(place, data, length)
        return True

    def block_times(self):
        """Return what :meth:`take` has written since the last call: bytes, nanoseconds, those of the longest write."""
        found = self.block_bytes, self.block_ns, self.longest_ns
        self.block_bytes = self.block_ns = self.longest_ns = 0
        return found

    cdef int64_t take(self, const char* block, int64_t room, int64_t most) noexcept nogil:
        cdef int64_t length, taken, begun
        cdef const uint8_t* data = <const uint8_t*>block
        if self.fd < 0 or self.framer.length or self.framer.is_stopped() or everlog_now_ns() > self.until_ns:
            return 0
        most = min(most, min(self.framer.capacity, BLOCK_BYTES))
        length = self.framer.frames_at(data, min(room, self.end - self.framer.position), most, &taken)
        if length == 0:
            return 0
        if self.framer.is_checked and taken == length:
            data = self.framer.signed(data, length)
        begun = everlog_exact_ns()
        if pwrite(self.fd, data, <size_t>length, <off_t>(self.framer.position - self.base)) != length:
            return 0
        begun = everlog_exact_ns() - begun
        self.block_bytes += length
        self.block_ns += begun
        self.longest_ns = max(self.longest_ns, begun)
        self.framer.position += taken
        self.framer.start_position = self.written = self.acknowledged = self.framer.position
        return taken


cdef inline void put_frame(uint8_t* place, const uint8_t* data, int64_t length) noexcept nogil:
    everlog_copy(place + 8, data + 8, length - 8)
    everlog_store64_release(place, data)
