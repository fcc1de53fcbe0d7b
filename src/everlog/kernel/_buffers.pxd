from libc.stdint cimport int64_t

cdef class Buffer:
    """A block of memory. It lives as long as a view of it exists."""
    cdef char* data
    cdef readonly int64_t capacity
    cdef int64_t length
    cdef Py_ssize_t shape

cdef Buffer new_buffer(int64_t capacity)
cdef int grow_buffer(Buffer buffer, int64_t used, int64_t needed) except -1
cdef object view_of(Buffer buffer, int64_t length, str code)
