from libc.stdint cimport int64_t

cdef class Memory:
    """See ``memory_twin.py``. ``data`` stays valid as long as this object lives."""
    cdef char* data
    cdef readonly int64_t length
    cdef object _owner
    cdef bint _mapped
    cdef readonly bint writable
    cdef Py_ssize_t _shape
