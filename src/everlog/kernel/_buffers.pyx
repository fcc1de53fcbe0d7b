# cython: language_level=3, boundscheck=False, wraparound=False
"""Memory for columns: blocks with the buffer protocol. A few freed blocks are kept for the next batch, so that a scan
does not fault fresh pages in for every batch."""

from cpython.buffer cimport PyBuffer_FillInfo
from libc.stdint cimport int64_t
from libc.stdlib cimport free
from libc.string cimport memcpy

cdef extern from "stdlib.h" nogil:
    int posix_memalign(void** at, size_t alignment, size_t size)

cdef enum:
    ALIGNMENT = 64              # Arrow's recommendation; copies of whole cache lines then touch each line once
    KEPT_BLOCKS = 24
    MIN_KEPT_BYTES = 16384
    MAX_KEPT_BYTES = 8388608

cdef char* _kept[KEPT_BLOCKS]
cdef int64_t _kept_size[KEPT_BLOCKS]
cdef int _kept_count = 0


cdef class Buffer:

    def __cinit__(self):
        self.data = NULL
        self.capacity = 0
        self.length = 0

    def __getbuffer__(self, Py_buffer* view, int flags):
        PyBuffer_FillInfo(view, self, self.data, self.length, 0, flags)

    def __releasebuffer__(self, Py_buffer* view):
        pass

    def __dealloc__(self):
        global _kept_count
        if self.data == NULL:
            return
        if MIN_KEPT_BYTES <= self.capacity <= MAX_KEPT_BYTES and _kept_count < KEPT_BLOCKS:
            _kept[_kept_count] = self.data
            _kept_size[_kept_count] = self.capacity
            _kept_count += 1
        else:
            free(self.data)


cdef char* allocate(int64_t capacity) noexcept nogil:
    cdef void* at = NULL
    return NULL if posix_memalign(&at, ALIGNMENT, capacity) != 0 else <char*>at


cdef Buffer new_buffer(int64_t capacity):
    """Make a buffer of at least ``capacity`` bytes. The first 8 bytes are zero, so that empty offsets are valid."""
    global _kept_count
    cdef Buffer buffer = Buffer.__new__(Buffer)
    cdef int i
    if capacity < 64:
        capacity = 64
    for i in range(_kept_count):
        if _kept_size[i] == capacity:
            buffer.data = _kept[i]
            _kept_count -= 1
            _kept[i] = _kept[_kept_count]
            _kept_size[i] = _kept_size[_kept_count]
            break
    else:
        buffer.data = allocate(capacity)
    if buffer.data == NULL:
        raise MemoryError(f"can't allocate {capacity} bytes for a column")
    (<int64_t*>buffer.data)[0] = 0
    buffer.capacity = capacity
    return buffer


cdef int grow_buffer(Buffer buffer, int64_t used, int64_t needed) except -1:
    """Make room for ``needed`` bytes, keeping the first ``used``. No view of the buffer may exist."""
    cdef int64_t capacity = buffer.capacity
    cdef char* data
    if needed <= capacity:
        return 0
    while capacity < needed:
        capacity *= 2
    data = allocate(capacity)
    if data == NULL:
        raise MemoryError(f"can't allocate {capacity} bytes for a column")
    memcpy(data, buffer.data, used)
    free(buffer.data)
    buffer.data = data
    buffer.capacity = capacity
    return 0


cdef object view_of(Buffer buffer, int64_t length, str code):
    """A read-only memoryview of the first ``length`` bytes, as items of ``code``."""
    buffer.length = length
    view = memoryview(buffer)
    return view if code == "B" else view.cast(code)
