# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The header of a fragment, compiled; :mod:`everlog.aeron.transport.client.images.header_twin` documents it."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memcpy

from everlog.aeron.transport.memory._terms cimport (
    DATA_HEADER_FLAGS, DATA_HEADER_RESERVED_VALUE, DATA_HEADER_SESSION_ID, DATA_HEADER_STREAM_ID, DATA_HEADER_TERM_ID,
    DATA_HEADER_TERM_OFFSET, DATA_HEADER_VERSION, HEADER, load_i32, load_i64, type_of,
)


cdef class Header:

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
