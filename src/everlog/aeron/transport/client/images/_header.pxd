from libc.stdint cimport int32_t, int64_t

cdef class Header:
    cdef char data[32]
    cdef readonly int64_t position
    cdef int64_t _length
    cdef readonly int32_t initial_term_id
    cdef int _shift
