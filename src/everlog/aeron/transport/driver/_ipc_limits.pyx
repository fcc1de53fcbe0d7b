# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Limits and cleaning of IPC publications, one short call for all of them. Twin:
:mod:`everlog.aeron.transport.driver.ipc_limits_twin`, which says what each does, and why.

Pointers into shared memory are taken once, checked against the memory's length; the ``Memory`` objects behind them are
held as long. Cleaning runs without the GIL, since it may be of a whole term."""

from libc.stdint cimport int32_t, int64_t, uint32_t
from libc.stdlib cimport free, realloc
from libc.string cimport memset

from everlog.kernel._atomics cimport acquire_i32, acquire_i64, release_i64
from everlog.kernel._memory cimport Memory

from everlog.aeron.frames import MAX_TERM_LENGTH, MIN_TERM_LENGTH, is_power_of_two
from everlog.aeron.transport.driver.ipc_limits_twin import IpcTerms as IpcTerms
from everlog.errors import CorruptData

include "../../_layouts.pxi"

cdef enum:
    TERM_COUNT = 3
    FRAME_ALIGNMENT = 32
    LENGTH_SIZE = 8
    CLEAN_WITH_GIL = 4096

cdef int64_t MAX_POSITION = <int64_t>1 << 62


cdef int64_t* _number(Memory memory, int64_t offset) except NULL:
    """A number's place. Raises as atomic access to it does."""
    memory.get_i64_acquire(offset)
    return <int64_t*>(memory.data + offset)


cdef class IpcLimits:
    cdef list _held
    cdef list _offsets
    cdef list _subscriber_memories
    cdef char* _terms[TERM_COUNT]
    cdef char* _metadata
    cdef int64_t _term_length
    cdef int32_t _initial_term_id
    cdef int64_t _window
    cdef int64_t _trip_gain
    cdef int64_t _trip_limit
    cdef int64_t* _position
    cdef int64_t* _limit
    cdef int64_t** _subscribers
    cdef Py_ssize_t _count
    cdef public bint is_active
    cdef readonly int64_t consumer_position
    cdef readonly int64_t clean_position

    def __cinit__(self):
        self._subscribers = NULL
        self._count = 0

    def __init__(self, log, publisher_position, publisher_limit):
        length = log.term_length
        if not (is_power_of_two(length) and MIN_TERM_LENGTH <= length <= MAX_TERM_LENGTH):
            raise CorruptData("log buffer", found=f"term length {length}", expected="a power of two, 64 KiB to 1 GiB")
        if len(log.terms) != TERM_COUNT or any(len(term) != length for term in log.terms):
            raise CorruptData("log buffer", found="other terms", expected=f"{TERM_COUNT} of {length} bytes")
        cdef Memory metadata = log.metadata
        if metadata.length < LOG_META_DATA_SIZE:
            raise CorruptData(
                "log buffer", found=f"metadata of {metadata.length} bytes", expected=f"{LOG_META_DATA_SIZE}"
            )
        cdef Memory position_memory = publisher_position[0]
        cdef Memory limit_memory = publisher_limit[0]
        self._position = _number(position_memory, publisher_position[1])
        self._limit = _number(limit_memory, publisher_limit[1])
        cdef Memory term
        cdef int index
        for index in range(TERM_COUNT):
            term = log.terms[index]
            self._terms[index] = term.data
        self._metadata = metadata.data
        self._held = [*log.terms, metadata, position_memory, limit_memory]
        self._offsets = []
        self._subscriber_memories = []
        self._term_length = length
        self._initial_term_id = log.initial_term_id
        self._window = log.window_length
        self._trip_gain = self._window >> 3
        self._trip_limit = 0
        self.is_active = True
        self.consumer_position = self.clean_position = max(self._producer_position(), 0)

    def __dealloc__(self):
        free(self._subscribers)

    @property
    def subscriber_count(self):
        return self._count

    def add_subscriber(self, Memory memory not None, int64_t offset):
        cdef int64_t* place = _number(memory, offset)
        cdef void* grown = realloc(self._subscribers, (self._count + 1) * sizeof(int64_t*))
        if grown == NULL:
            raise MemoryError()
        self._subscribers = <int64_t**>grown
        self._subscribers[self._count] = place
        self._count += 1
        self._offsets.append(offset)
        self._subscriber_memories.append(memory)

    def remove_subscriber(self, int64_t offset):
        cdef Py_ssize_t index, after
        for index in range(self._count):
            if self._offsets[index] == offset:
                for after in range(index, self._count - 1):
                    self._subscribers[after] = self._subscribers[after + 1]
                self._count -= 1
                del self._offsets[index]
                del self._subscriber_memories[index]
                return True
        return False

    def clear_subscribers(self):
        self._count = 0
        self._offsets.clear()
        self._subscriber_memories.clear()

    def producer_position(self):
        return self._producer_position()

    cdef int64_t _producer_position(self) noexcept:
        cdef uint32_t count = <uint32_t>acquire_i32(self._metadata + LOG_META_DATA_ACTIVE_TERM_COUNT)
        cdef int64_t tail = acquire_i64(self._metadata + (count % TERM_COUNT) * 8)
        cdef int64_t offset = min(tail & 0xFFFFFFFF, self._term_length)
        cdef int32_t terms = <int32_t>(<uint32_t>(tail >> 32) - <uint32_t>self._initial_term_id)
        return <int64_t>terms * self._term_length + offset

    cdef int64_t _subscriber_position(self, Py_ssize_t index) noexcept:
        return max(-MAX_POSITION, min(acquire_i64(self._subscribers[index]), MAX_POSITION))

    def join_position(self):
        cdef int64_t position = self.consumer_position
        cdef Py_ssize_t index
        for index in range(self._count):
            position = min(position, self._subscriber_position(index))
        return position

    def is_drained(self, int64_t position):
        cdef Py_ssize_t index
        for index in range(self._count):
            if self._subscriber_position(index) < position:
                return False
        return True

    def update(self):
        return self._update()

    cdef int _update(self):
        if not self.is_active:
            return 0
        release_i64(self._position, self._producer_position())
        cdef int64_t slowest, limit, position
        cdef Py_ssize_t index
        if self._count > 0:
            slowest = MAX_POSITION
            for index in range(self._count):
                position = self._subscriber_position(index)
                slowest = min(slowest, position)
                if position > self.consumer_position:
                    self.consumer_position = position
            limit = slowest + self._window
            if limit >= self._trip_limit:
                self._clean_to(slowest)
                release_i64(self._limit, limit)
                self._trip_limit = limit + self._trip_gain
                return 1
        elif self._limit[0] > self.consumer_position:
            self._trip_limit = self.consumer_position
            release_i64(self._limit, self.consumer_position)
            self._clean_to(self.consumer_position)
            return 1
        return 0

    cdef void _clean_to(self, int64_t position):
        cdef int64_t clean = self.clean_position
        position &= -<int64_t>FRAME_ALIGNMENT
        if position <= clean:
            return
        cdef int64_t offset = clean & (self._term_length - 1) & -<int64_t>FRAME_ALIGNMENT
        cdef int64_t length = min(position - clean, self._term_length - offset)
        cdef char* at = self._terms[(clean // self._term_length) % TERM_COUNT] + offset
        if length <= CLEAN_WITH_GIL:
            memset(at + LENGTH_SIZE, 0, length - LENGTH_SIZE)
        else:
            with nogil:
                memset(at + LENGTH_SIZE, 0, length - LENGTH_SIZE)
        release_i64(at, 0)
        self.clean_position = clean + length


def update_all(list publications not None):
    cdef int moved = 0
    cdef Py_ssize_t index
    for index in range(len(publications)):
        moved += (<IpcLimits?>publications[index])._update()
    return moved
