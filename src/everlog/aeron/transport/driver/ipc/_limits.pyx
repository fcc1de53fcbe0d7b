# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Limits and cleaning of IPC publications, one short call for all of them. Twin:
:mod:`everlog.aeron.transport.driver.ipc.limits_twin`, which has the documentation.

Pointers into shared memory are taken once, after a check against the memory's length; their ``Memory`` objects are
kept as long. Cleaning, which may zero a whole term, and following short windows run without the GIL."""

from libc.stdint cimport int32_t, int64_t, uint32_t
from libc.stdlib cimport free, realloc
from libc.string cimport memset

from everlog.kernel._atomics cimport acquire_i32, acquire_i64, pause, release_i64
from everlog.kernel._memory cimport Memory

from everlog.aeron.frames.constants import MAX_TERM_LENGTH, MIN_TERM_LENGTH, is_power_of_two
from everlog.aeron.transport.driver.ipc import limits_twin as _twin
from everlog.aeron.transport.driver.ipc.limits_twin import IpcTerms as IpcTerms
from everlog.errors import CorruptData

include "everlog/aeron/_layouts.pxi"

cdef extern from "Python.h" nogil:
    ctypedef struct PyThreadState
    PyThreadState* PyEval_SaveThread()
    void PyEval_RestoreThread(PyThreadState*)

cdef enum:
    TERM_COUNT = 3
    FRAME_ALIGNMENT = 32
    LENGTH_SIZE = 8
    CLEAN_WITH_GIL = 4096
    CLEAN_STEP = 262144
    SHORT_WINDOW = 1048576
    MAX_FOLLOWED = 64
    MAX_LOOKS = 8000
    MAX_FOLLOWED_BYTES = 16777216

cdef int64_t MAX_POSITION = <int64_t>1 << 62

assert (CLEAN_STEP, SHORT_WINDOW, MAX_FOLLOWED, MAX_LOOKS, MAX_FOLLOWED_BYTES) == (
    _twin.CLEAN_STEP, _twin.SHORT_WINDOW, _twin.MAX_FOLLOWED, _twin.MAX_LOOKS, _twin.MAX_FOLLOWED_BYTES,
)


cdef struct Limits:
    char* terms[TERM_COUNT]
    char* metadata
    int64_t term_length
    int32_t initial_term_id
    int64_t window
    int64_t trip_gain
    int64_t trip_limit
    int64_t* position
    int64_t* limit
    int64_t** subscribers
    Py_ssize_t count
    bint is_active
    int64_t consumer_position
    int64_t clean_position


cdef int64_t producer_position(const Limits* limits) noexcept nogil:
    cdef uint32_t count = <uint32_t>acquire_i32(limits.metadata + LOG_META_DATA_ACTIVE_TERM_COUNT)
    cdef int64_t tail = acquire_i64(limits.metadata + LOG_META_DATA_TAIL_0 + (count % TERM_COUNT) * 8)
    cdef int64_t offset = min(<int64_t><uint32_t>tail, limits.term_length)
    cdef int32_t terms = <int32_t>(<uint32_t>(tail >> 32) - <uint32_t>limits.initial_term_id)
    return <int64_t>terms * limits.term_length + offset


cdef int64_t subscriber_position(const Limits* limits, Py_ssize_t index) noexcept nogil:
    return max(-MAX_POSITION, min(acquire_i64(limits.subscribers[index]), MAX_POSITION))


cdef int update(Limits* limits, bint has_gil) noexcept nogil:
    cdef int64_t slowest, limit, position, producer
    cdef Py_ssize_t index
    if not limits.is_active:
        return 0
    producer = producer_position(limits)
    release_i64(limits.position, producer)
    if limits.count > 0:
        slowest = MAX_POSITION
        for index in range(limits.count):
            position = subscriber_position(limits, index)
            slowest = min(slowest, position)
            if position > limits.consumer_position:
                limits.consumer_position = position
        limit = slowest + limits.window
        if limit >= limits.trip_limit:
            clean_to(limits, slowest, has_gil)
            release_i64(limits.limit, limit)
            limits.trip_limit = limit + limits.trip_gain
            return 1
        slowest = min(slowest, producer)
        if slowest - limits.clean_position >= CLEAN_STEP:
            clean_to(limits, slowest, has_gil)
            return 1
    elif limits.limit[0] > limits.consumer_position:
        limits.trip_limit = limits.consumer_position
        release_i64(limits.limit, limits.consumer_position)
        clean_to(limits, limits.consumer_position, has_gil)
        return 1
    return 0


cdef extern from "sched.h" nogil:
    int sched_yield()

cdef enum:
    LOOKS_BEFORE_YIELD = 16


cdef void clean_to(Limits* limits, int64_t position, bint has_gil) noexcept nogil:
    cdef int64_t clean = limits.clean_position, offset, length
    cdef PyThreadState* others
    cdef char* at
    position &= -<int64_t>FRAME_ALIGNMENT
    if position <= clean:
        return
    offset = clean & (limits.term_length - 1) & -<int64_t>FRAME_ALIGNMENT
    length = min(position - clean, limits.term_length - offset)
    at = limits.terms[(clean // limits.term_length) % TERM_COUNT] + offset
    if has_gil and length > CLEAN_WITH_GIL:
        others = PyEval_SaveThread()
        memset(at + LENGTH_SIZE, 0, length - LENGTH_SIZE)
        PyEval_RestoreThread(others)
    else:
        memset(at + LENGTH_SIZE, 0, length - LENGTH_SIZE)
    release_i64(at, 0)
    limits.clean_position = clean + length


cdef int follow(Limits** followed, int count, int64_t looks) noexcept nogil:
    cdef int64_t left = looks, turns = 0, cleaned = 0, before
    cdef int moved = 0, found, index
    while left > 0 and turns < MAX_LOOKS and cleaned <= MAX_FOLLOWED_BYTES:
        found = 0
        for index in range(count):
            before = followed[index].clean_position
            found += update(followed[index], False)
            cleaned += followed[index].clean_position - before
        moved += found
        left = looks if found else left - 1
        turns += 1
        if found == 0 and left % LOOKS_BEFORE_YIELD == 0:
            sched_yield()  # the awaited process may be waiting for this processor
        else:
            pause()
    return moved


cdef int64_t* _number(Memory memory, int64_t offset) except NULL:
    """The address of an int64. Raises the errors of an atomic access to it."""
    memory.get_i64_acquire(offset)
    return <int64_t*>(memory.data + offset)


cdef class IpcLimits:
    cdef list _held
    cdef list _offsets
    cdef list _subscriber_memories
    cdef Limits _state

    def __cinit__(self):
        self._state.subscribers = NULL
        self._state.count = 0

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
        self._state.position = _number(position_memory, publisher_position[1])
        self._state.limit = _number(limit_memory, publisher_limit[1])
        cdef Memory term
        cdef int index
        for index in range(TERM_COUNT):
            term = log.terms[index]
            self._state.terms[index] = term.data
        self._state.metadata = metadata.data
        self._held = [*log.terms, metadata, position_memory, limit_memory]
        self._offsets = []
        self._subscriber_memories = []
        self._state.term_length = length
        self._state.initial_term_id = log.initial_term_id
        self._state.window = log.window_length
        self._state.trip_gain = self._state.window >> 3
        self._state.trip_limit = 0
        self._state.is_active = True
        self._state.consumer_position = self._state.clean_position = max(producer_position(&self._state), 0)

    def __dealloc__(self):
        free(self._state.subscribers)

    @property
    def is_active(self):
        return bool(self._state.is_active)

    @is_active.setter
    def is_active(self, bint value):
        self._state.is_active = value

    @property
    def consumer_position(self):
        return self._state.consumer_position

    @property
    def clean_position(self):
        return self._state.clean_position

    @property
    def subscriber_count(self):
        return self._state.count

    def add_subscriber(self, Memory memory not None, int64_t offset):
        cdef int64_t* place = _number(memory, offset)
        cdef void* grown = realloc(self._state.subscribers, (self._state.count + 1) * sizeof(int64_t*))
        if grown == NULL:
            raise MemoryError()
        self._state.subscribers = <int64_t**>grown
        self._state.subscribers[self._state.count] = place
        self._state.count += 1
        self._offsets.append(offset)
        self._subscriber_memories.append(memory)

    def remove_subscriber(self, int64_t offset):
        cdef Py_ssize_t index, after
        for index in range(self._state.count):
            if self._offsets[index] == offset:
                for after in range(index, self._state.count - 1):
                    self._state.subscribers[after] = self._state.subscribers[after + 1]
                self._state.count -= 1
                del self._offsets[index]
                del self._subscriber_memories[index]
                return True
        return False

    def clear_subscribers(self):
        self._state.count = 0
        self._offsets.clear()
        self._subscriber_memories.clear()

    def producer_position(self):
        return producer_position(&self._state)

    def join_position(self):
        cdef int64_t position = self._state.consumer_position
        cdef Py_ssize_t index
        for index in range(self._state.count):
            position = min(position, subscriber_position(&self._state, index))
        return position

    def is_drained(self, int64_t position):
        cdef Py_ssize_t index
        for index in range(self._state.count):
            if subscriber_position(&self._state, index) < position:
                return False
        return True

    def update(self):
        return update(&self._state, True)


def update_all(list publications not None, int64_t looks=0):
    cdef Limits* followed[MAX_FOLLOWED]
    cdef IpcLimits limits
    cdef int moved = 0, count = 0
    cdef Py_ssize_t index
    for index in range(len(publications)):
        limits = <IpcLimits?>publications[index]
        if update(&limits._state, True):
            moved += 1
            if limits._state.window <= SHORT_WINDOW and count < MAX_FOLLOWED:
                followed[count] = &limits._state
                count += 1
    if count > 0 and looks > 0:
        with nogil:
            moved += follow(followed, count, looks)
    return moved
