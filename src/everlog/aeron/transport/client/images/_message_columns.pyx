# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Messages as columns, compiled; :mod:`everlog.aeron.transport.client.images.message_columns_twin` documents them.
``docs/transport-memory-ordering.md`` lists the memory ordering."""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.string cimport memcpy

from everlog.kernel._atomics cimport acquire_i32
from everlog.kernel._buffers cimport Buffer, grow_buffer, new_buffer, view_of
from everlog.kernel._columns cimport COPY_SLACK, everlog_copy_short
from everlog.aeron.transport.memory._terms cimport DATA_HEADER_RESERVED_VALUE, HEADER, align32, copy_long, load_i64

from everlog.aeron.transport.client.images import actions as _shared
from everlog.aeron.transport.client.images import column_batch as _columns

cdef extern from "Python.h":
    Py_ssize_t Py_REFCNT(object)

cdef enum:
    WHOLE_DATA = 0x1C0          # flags and type of a message that is one frame, as adjacent bytes


cdef class MessageColumns:

    def __init__(self, int64_t max_rows=16384, int64_t max_bytes=4 << 20, *, bint positions=True, bint reserved_values=False):
        _columns.check_limits(max_rows, max_bytes)
        self.max_rows = max_rows
        self.max_bytes = max_bytes
        self._has_positions = positions
        self._has_reserved_values = reserved_values
        self._reset()

    def clear(self):
        if self.busy:
            raise _shared.read_in_use()
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
        # Replace a buffer that still has exported views.
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


cdef int read_whole_messages(Stretch* stretch) noexcept nogil:
    # Reads messages of one frame each, up to the first other frame.
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
