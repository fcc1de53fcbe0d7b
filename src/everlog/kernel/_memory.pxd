from libc.stdint cimport int64_t

cdef class Memory:
    """See ``memory_twin.py``. ``data`` stays valid as long as this object lives."""
    cdef char* data
    cdef readonly int64_t length
    cdef object _owner
    cdef bint _mapped
    cdef readonly bint writable
    cdef Py_ssize_t _shape

cdef class BlockSink:
    """See ``memory_twin.py``."""
    # Takes what lies at ``block``, where ``room`` bytes may be read: up to ``most`` bytes, but at least one frame. Returns
    # how many bytes of the block it is done with, or 0 if it takes nothing.
    cdef int64_t take(self, const char* block, int64_t room, int64_t most) noexcept nogil
