# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""Memory shared between processes, with ordered and atomic access. The twin :mod:`everlog.kernel.memory_twin` documents
each method."""

cimport cython
from cpython.buffer cimport PyBuffer_FillInfo, PyObject_GetBuffer, PyBuffer_Release, PyBUF_SIMPLE
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.errno cimport errno
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free
from libc.string cimport memcpy, memset

from everlog.kernel._atomics cimport (
    acquire_fence, acquire_i32, acquire_i64, add_i32, add_i64, fence, release_fence, release_i32, release_i64, swap_i32, swap_i64,
    volatile_i32, volatile_i64,
)

import os

cdef extern from "sys/mman.h" nogil:
    void* mmap(void* address, size_t length, int protection, int flags, int fd, long offset)
    int munmap(void* address, size_t length)
    int madvise(void* address, size_t length, int advice)
    int PROT_NONE, PROT_READ, PROT_WRITE, MAP_SHARED, MAP_PRIVATE, MAP_ANONYMOUS, MAP_FIXED, MAP_NORESERVE
    void* MAP_FAILED

cdef extern from "unistd.h" nogil:
    long sysconf(int name)
    int _SC_PAGESIZE

cdef extern from "stdlib.h" nogil:
    int posix_memalign(void** at, size_t alignment, size_t size)

cdef enum:
    PAGE = 4096
    HUGE_PAGE = 2097152
    MADV_COLLAPSE = 25          # Linux 6.1; headers may be older


cdef void* map_file(int fd, int64_t length, int protection) noexcept nogil:
    # A long map begins at a multiple of the huge page's size: it is cut out of a longer reserved range.
    cdef char* place
    cdef char* begin
    cdef char* end
    cdef void* at
    cdef size_t whole, page
    if length < HUGE_PAGE:
        return mmap(NULL, length, protection, MAP_SHARED, fd, 0)
    page = sysconf(_SC_PAGESIZE)
    whole = (<size_t>length + page - 1) // page * page
    place = <char*>mmap(NULL, whole + HUGE_PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)
    if place == <char*>MAP_FAILED:
        return mmap(NULL, length, protection, MAP_SHARED, fd, 0)
    begin = place + (HUGE_PAGE - <size_t>place % HUGE_PAGE) % HUGE_PAGE
    end = begin + whole
    at = mmap(begin, length, protection, MAP_SHARED | MAP_FIXED, fd, 0)
    if at == MAP_FAILED:
        munmap(place, whole + HUGE_PAGE)
        return at
    if begin > place:
        munmap(place, begin - place)
    if end < place + whole + HUGE_PAGE:
        munmap(end, place + whole + HUGE_PAGE - end)
    return at


# no_gc is safe: a Memory can't be part of a cycle, as an owner has no owner itself. And it is needed: if the collector
# cleared a part's owner, the part would free memory that it does not own.
@cython.no_gc
cdef class Memory:

    def __cinit__(self):
        self.data = NULL
        self.length = 0
        self._mapped = False
        self.writable = True

    @staticmethod
    def allocate(int64_t length):
        if length < 0:
            raise ValueError(f"memory can't have {length} bytes")
        cdef Memory memory = Memory.__new__(Memory)
        cdef void* at = NULL
        if posix_memalign(&at, PAGE, length if length > 0 else PAGE) != 0:
            raise MemoryError(f"can't allocate {length} bytes")
        memset(at, 0, length if length > 0 else PAGE)
        memory.data = <char*>at
        memory.length = length
        return memory

    @staticmethod
    def map(int fd, int64_t length, *, bint writable=True):
        if length <= 0:
            raise ValueError(f"can't map {length} bytes")
        cdef int64_t size = os.fstat(fd).st_size
        if size < length:
            raise ValueError(f"can't map {length} bytes of a file of {size} bytes")
        cdef int protection = PROT_READ | PROT_WRITE if writable else PROT_READ
        cdef Memory memory = Memory.__new__(Memory)
        cdef void* at
        with nogil:
            at = map_file(fd, length, protection)
        if at == MAP_FAILED:
            raise OSError(errno, os.strerror(errno))
        memory.data = <char*>at
        memory.length = length
        memory._mapped = True
        memory.writable = writable
        return memory

    def use_huge_pages(self, int64_t offset, int64_t length):
        _check(self, offset, length)
        cdef int64_t whole = length - length % HUGE_PAGE
        cdef char* at = self.data + offset
        cdef int outcome
        if not self._mapped or whole == 0 or <size_t>at % HUGE_PAGE:
            return False
        with nogil:
            outcome = madvise(at, whole, MADV_COLLAPSE)
        return outcome == 0

    def __dealloc__(self):
        if self.data == NULL or self._owner is not None:
            return
        if self._mapped:
            munmap(self.data, self.length)
        else:
            free(self.data)

    def __len__(self):
        return self.length

    def __getbuffer__(self, Py_buffer* view, int flags):
        PyBuffer_FillInfo(view, self, self.data, self.length, 0 if self.writable else 1, flags)

    def __releasebuffer__(self, Py_buffer* view):
        pass

    def view(self):
        return memoryview(self)

    def __reduce__(self):
        raise TypeError("memory belongs to one process and can't be pickled")

    def slice(self, int64_t offset, int64_t length):
        _check(self, offset, length)
        cdef Memory part = Memory.__new__(Memory)
        part.data = self.data + offset
        part.length = length
        part._owner = self if self._owner is None else self._owner
        part.writable = self.writable
        return part

    def get_i32(self, int64_t offset):
        _check(self, offset, 4)
        cdef int32_t value
        memcpy(&value, self.data + offset, 4)
        return value

    def get_i64(self, int64_t offset):
        _check(self, offset, 8)
        cdef int64_t value
        memcpy(&value, self.data + offset, 8)
        return value

    def put_i32(self, int64_t offset, int32_t value):
        _check_write(self, offset, 4)
        memcpy(self.data + offset, &value, 4)

    def put_i64(self, int64_t offset, int64_t value):
        _check_write(self, offset, 8)
        memcpy(self.data + offset, &value, 8)

    def get_i32_acquire(self, int64_t offset):
        return acquire_i32(_atomic(self, offset, 4, False))

    def get_i64_acquire(self, int64_t offset):
        return acquire_i64(_atomic(self, offset, 8, False))

    def put_i32_release(self, int64_t offset, int32_t value):
        release_i32(_atomic(self, offset, 4, True), value)

    def put_i64_release(self, int64_t offset, int64_t value):
        release_i64(_atomic(self, offset, 8, True), value)

    def put_i32_volatile(self, int64_t offset, int32_t value):
        volatile_i32(_atomic(self, offset, 4, True), value)

    def put_i64_volatile(self, int64_t offset, int64_t value):
        volatile_i64(_atomic(self, offset, 8, True), value)

    def get_and_add_i32(self, int64_t offset, int32_t delta):
        return add_i32(_atomic(self, offset, 4, True), delta)

    def get_and_add_i64(self, int64_t offset, int64_t delta):
        return add_i64(_atomic(self, offset, 8, True), delta)

    def compare_and_set_i32(self, int64_t offset, int32_t expected, int32_t value):
        return bool(swap_i32(_atomic(self, offset, 4, True), expected, value))

    def compare_and_set_i64(self, int64_t offset, int64_t expected, int64_t value):
        return bool(swap_i64(_atomic(self, offset, 8, True), expected, value))

    @staticmethod
    def acquire_fence():
        acquire_fence()

    @staticmethod
    def release_fence():
        release_fence()

    @staticmethod
    def fence():
        fence()

    def read(self, int64_t offset, int64_t length):
        _check(self, offset, length)
        return PyBytes_FromStringAndSize(self.data + offset, length)

    def write(self, int64_t offset, data):
        cdef Py_buffer view
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        try:
            _check_write(self, offset, view.len)
            memcpy(self.data + offset, view.buf, view.len)
        finally:
            PyBuffer_Release(&view)

    def zero(self, int64_t offset, int64_t length):
        _check_write(self, offset, length)
        with nogil:
            memset(self.data + offset, 0, length)


cdef int _check(Memory memory, int64_t offset, int64_t length) except -1:
    if offset < 0 or length < 0 or offset > memory.length - length:
        raise IndexError(f"{length} bytes at offset {offset} are outside a memory of {memory.length} bytes")
    return 0


cdef int _check_write(Memory memory, int64_t offset, int64_t length) except -1:
    if not memory.writable:
        raise TypeError("this memory is read-only")
    return _check(memory, offset, length)


cdef void* _atomic(Memory memory, int64_t offset, int size, bint write) except NULL:
    if write:
        _check_write(memory, offset, size)
    else:
        _check(memory, offset, size)
    if offset & (size - 1):
        raise ValueError(f"offset {offset} is not a multiple of {size}")
    return memory.data + offset


cdef class BlockSink:
    cdef int64_t take(self, const char* block, int64_t room, int64_t most) noexcept nogil:
        return 0
