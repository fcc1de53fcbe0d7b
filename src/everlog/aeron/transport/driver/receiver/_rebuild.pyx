# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Tracks how far an image is complete. Twin: :mod:`everlog.aeron.transport.driver.receiver.rebuild_twin`, which has the
documentation."""

from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memset

from everlog.kernel._atomics cimport acquire_i32, acquire_i64, release_i64
from everlog.kernel._memory cimport Memory
from everlog.aeron.transport.memory._terms cimport HEADER, aligned_length


cdef class RebuildTracker:
    cdef char* _terms[3]
    cdef int64_t _term_length
    cdef int _term_shift
    cdef int64_t* _position         # only the conductor's thread writes it
    cdef int64_t _clean_position
    cdef list _kept                 # memories of the subscribers' positions, in order
    cdef object _log
    cdef int64_t** _subscribers
    cdef int64_t* _offsets
    cdef int _count
    cdef readonly int64_t consumption_position
    cdef readonly int64_t start_position
    cdef readonly int64_t end_position
    cdef readonly int64_t gap_length

    def __cinit__(self, terms, int64_t start_position, position):
        cdef Memory memory = position[0]
        cdef Memory term
        cdef int64_t offset = position[1]
        cdef int i
        length = len(terms[0]) if len(terms) == 3 else 0
        if length < HEADER or length & (length - 1) or any(len(each) != length for each in terms):
            raise ValueError("three terms of one length, a power of two, are meant")
        if start_position < 0 or start_position % HEADER:
            raise ValueError(f"an image from position {start_position} on")
        memory.put_i64_release(offset, start_position)
        self._log = (*terms, memory)
        for i in range(3):
            term = self._log[i]
            if not term.writable:
                raise TypeError("this memory is read-only")
            self._terms[i] = term.data
        self._term_length = length
        self._term_shift = length.bit_length() - 1
        self._position = <int64_t*>(memory.data + offset)
        self._clean_position = start_position
        self._kept = []
        self.consumption_position = self.start_position = self.end_position = start_position

    def __dealloc__(self):
        free(self._subscribers)
        free(self._offsets)

    @property
    def subscriber_count(self):
        return self._count

    def add_subscriber(self, Memory memory not None, int64_t offset):
        cdef void* larger
        memory.get_i64_acquire(offset)
        larger = realloc(self._subscribers, (self._count + 1) * sizeof(int64_t*))
        if larger == NULL:
            raise MemoryError()
        self._subscribers = <int64_t**>larger
        larger = realloc(self._offsets, (self._count + 1) * sizeof(int64_t))
        if larger == NULL:
            raise MemoryError()
        self._offsets = <int64_t*>larger
        self._kept.append(memory)
        self._subscribers[self._count] = <int64_t*>(memory.data + offset)
        self._offsets[self._count] = offset
        self._count += 1

    def remove_subscriber(self, int64_t offset):
        cdef int i, j
        for i in range(self._count):
            if self._offsets[i] == offset:
                for j in range(i + 1, self._count):
                    self._offsets[j - 1] = self._offsets[j]
                    self._subscribers[j - 1] = self._subscribers[j]
                self._count -= 1
                del self._kept[i]
                return True
        return False

    def track(self, int64_t hwm_position):
        cdef int64_t slowest, fastest = self.end_position, end, position
        cdef int i
        if self._count:
            slowest = hwm_position
            for i in range(self._count):
                position = min(acquire_i64(self._subscribers[i]), hwm_position)
                slowest = min(slowest, position)
                fastest = max(fastest, position)
            self.consumption_position = max(self.consumption_position, slowest & -<int64_t>HEADER)
        self.start_position = fastest & -<int64_t>HEADER
        self.gap_length = 0
        end = self.start_position
        if end < hwm_position:
            end = self._scan(hwm_position)
        if end > self.end_position:
            self.end_position = end
            release_i64(self._position, end)
        return self.gap_length > 0

    cdef int64_t _scan(self, int64_t hwm_position) noexcept nogil:
        cdef int64_t offset = self.start_position & (self._term_length - 1)
        cdef int64_t term_start = self.start_position - offset, limit, length, end
        cdef char* term = self._terms[(term_start >> self._term_shift) % 3]
        limit = min(hwm_position - term_start, self._term_length)
        while offset < limit:
            length = aligned_length(term, self._term_length, offset)
            if length == 0:
                break
            offset += length
        end = offset
        if offset < limit:
            offset += HEADER
            while offset < limit and acquire_i32(term + offset) == 0:
                offset += HEADER
        self.gap_length = offset - end
        return term_start + end

    def highest_consumption_position(self, int64_t hwm_position):
        cdef int64_t highest = 0
        cdef int i
        for i in range(self._count):
            position = min(acquire_i64(self._subscribers[i]), hwm_position)
            highest = position if i == 0 else max(highest, <int64_t>position)
        return highest

    def join_position(self):
        cdef int64_t lowest = self.end_position
        cdef int i
        for i in range(self._count):
            lowest = min(lowest, acquire_i64(self._subscribers[i]))
        return max(lowest, self.consumption_position)

    def is_drained(self):
        cdef int i
        for i in range(self._count):
            if acquire_i64(self._subscribers[i]) < self.end_position:
                return False
        return True

    def clean_to(self, int64_t position):
        cdef int64_t clean = self._clean_position, offset, length
        cdef char* term
        position &= -<int64_t>HEADER
        if position <= clean:
            return
        offset = clean & (self._term_length - 1)
        length = min(position - clean, self._term_length - offset)
        term = self._terms[(clean >> self._term_shift) % 3]
        with nogil:
            memset(term + offset + 8, 0, length - 8)
            release_i64(term + offset, 0)
        self._clean_position = clean + length
