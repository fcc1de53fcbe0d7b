# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""Sleeps until work arrives, without the GIL. The twin :mod:`everlog.kernel.watch_twin` documents it."""

from libc.stdint cimport int64_t
from libc.stdlib cimport calloc, free

from everlog.kernel._atomics cimport acquire_i64
from everlog.kernel._memory cimport Memory

from everlog.kernel.watch_twin import LONG_YIELD_NS as _LONG_YIELD_NS

cdef extern from "poll.h" nogil:
    struct pollfd:
        int fd
        short events
        short revents
    int poll(pollfd* fds, unsigned long count, int timeout_ms)
    short POLLIN

cdef extern from "sched.h" nogil:
    int sched_yield()

cdef extern from "time.h" nogil:
    struct timespec:
        long tv_sec
        long tv_nsec
    int clock_gettime(int clock, timespec* at)
    int nanosleep(const timespec* duration, timespec* rest)
    int CLOCK_MONOTONIC

cdef extern from *:
    """
    #include <poll.h>
    #include <time.h>
    static int everlog_poll_ns(struct pollfd* fds, unsigned long count, const struct timespec* duration) {
    #if defined(__linux__)
        return ppoll(fds, count, duration, 0);
    #else
        return poll(fds, count, (int)(duration->tv_sec * 1000 + (duration->tv_nsec + 999999) / 1000000));
    #endif
    }
    """
    int poll_ns "everlog_poll_ns"(pollfd* fds, unsigned long count, const timespec* duration) nogil

cdef enum:
    MAX_SOCKETS = 4096
    SECOND = 1000000000
    LONG_YIELD_NS = 100000

assert LONG_YIELD_NS == _LONG_YIELD_NS


cdef struct Pair:
    const char* one
    const char* other


cdef int64_t _now_ns() noexcept nogil:
    cdef timespec at
    clock_gettime(CLOCK_MONOTONIC, &at)
    return <int64_t>at.tv_sec * SECOND + at.tv_nsec


cdef const char* _word(Memory memory, int64_t offset) except NULL:
    if offset < 0 or memory.length < 8 or offset > memory.length - 8:
        raise IndexError(f"8 bytes at offset {offset} are outside a memory of {memory.length} bytes")
    if offset % 8:
        raise ValueError(f"offset {offset} is not a multiple of 8")
    return memory.data + offset


cdef struct Check:
    quiet_check is_quiet
    void* state


cdef class Condition:
    pass


cdef class Watch:
    cdef Pair* _pairs
    cdef Py_ssize_t _count
    cdef object _memories
    cdef Check* _checks
    cdef Py_ssize_t _check_count
    cdef object _conditions

    def __cinit__(self):
        self._pairs = NULL
        self._count = 0
        self._checks = NULL
        self._check_count = 0

    def __init__(self, pairs, conditions=()):
        cdef Condition condition
        pairs, conditions = tuple(pairs), tuple(conditions)
        free(self._checks)
        self._check_count = 0
        self._checks = <Check*>calloc(max(1, len(conditions)), sizeof(Check))
        if self._checks == NULL:
            raise MemoryError()
        self._conditions = conditions
        for condition in conditions:
            if condition is None or condition.check == NULL:
                raise TypeError("a condition without a check")
            self._checks[self._check_count].is_quiet = condition.check
            self._checks[self._check_count].state = condition.state
            self._check_count += 1
        free(self._pairs)
        self._count = 0
        self._pairs = <Pair*>calloc(max(1, len(pairs)), sizeof(Pair))
        if self._pairs == NULL:
            raise MemoryError()
        self._memories = pairs
        for memory, at, other, other_at in pairs:
            self._pairs[self._count].one = _word(memory, at)
            self._pairs[self._count].other = _word(other, other_at)
            self._count += 1

    def __dealloc__(self):
        free(self._pairs)
        free(self._checks)

    cdef bint _is_quiet(self, bint is_quick=False) noexcept nogil:
        cdef Py_ssize_t index
        for index in range(self._count):
            if acquire_i64(self._pairs[index].one) != acquire_i64(self._pairs[index].other):
                return False
        for index in range(self._check_count):
            if not self._checks[index].is_quiet(self._checks[index].state, is_quick):
                return False
        return True

    def back_off(self, int64_t spins, int64_t yields, int64_t min_park_ns, int64_t max_park_ns, int64_t until_ns):
        cdef int64_t turn, begun, park_ns = min_park_ns
        cdef timespec duration
        cdef bint is_quiet
        if not 0 < min_park_ns <= max_park_ns <= SECOND:
            raise ValueError(f"can't park {min_park_ns} to {max_park_ns} ns: at most 1 s")
        with nogil:
            is_quiet = self._is_quiet()
            if is_quiet:
                for turn in range(spins):
                    is_quiet = self._is_quiet(True)
                    if not is_quiet:
                        break
            if is_quiet:
                for turn in range(yields):
                    begun = _now_ns()
                    sched_yield()
                    is_quiet = self._is_quiet(True)
                    if not is_quiet or _now_ns() - begun > LONG_YIELD_NS:
                        break
            while is_quiet and _now_ns() < until_ns:
                duration.tv_sec = park_ns // SECOND
                duration.tv_nsec = park_ns % SECOND
                nanosleep(&duration, NULL)
                is_quiet = self._is_quiet(park_ns < max_park_ns // 8)
                park_ns = min(park_ns * 2, max_park_ns)
        return not is_quiet

    def park(self, int64_t park_ns, int64_t until_ns, sockets=()):
        cdef Py_ssize_t count = len(sockets)
        cdef Py_ssize_t index
        cdef pollfd* fds = NULL
        cdef timespec duration
        cdef int64_t parks = 0
        if not 0 < park_ns <= SECOND or count > MAX_SOCKETS:
            raise ValueError(f"can't park {park_ns} ns with {count} sockets: at most 1 s and {MAX_SOCKETS}")
        duration.tv_sec = park_ns // SECOND
        duration.tv_nsec = park_ns % SECOND
        if count:
            fds = <pollfd*>calloc(count, sizeof(pollfd))
            if fds == NULL:
                raise MemoryError()
        try:
            for index in range(count):
                fds[index].fd = sockets[index]
                fds[index].events = POLLIN
            with nogil:
                if count == 0 or poll(fds, count, 0) == 0:
                    while self._is_quiet() and _now_ns() < until_ns:
                        parks += 1
                        if count == 0:
                            nanosleep(&duration, NULL)
                        elif poll_ns(fds, count, &duration) != 0:
                            break
        finally:
            free(fds)
        return parks
