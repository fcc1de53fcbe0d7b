# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""The client's heartbeat thread, without the GIL. Twin:
:mod:`everlog.aeron.transport.client.conducting.pacemaker_twin`, which documents it."""

from libc.stdint cimport int32_t, int64_t
from libc.string cimport memcpy

from everlog.kernel._atomics cimport acquire_i32, release_i64
from everlog.kernel._memory cimport Memory

import os

cdef extern from "poll.h" nogil:
    struct pollfd:
        int fd
        short events
        short revents
    int poll(pollfd* fds, unsigned long count, int timeout_ms)
    short POLLIN

cdef extern from "unistd.h" nogil:
    int close(int fd)
    ssize_t write(int fd, const void* data, size_t length)

cdef extern from "time.h" nogil:
    struct timespec:
        long tv_sec
        long tv_nsec
    int clock_gettime(int clock, timespec* at)
    int CLOCK_MONOTONIC
    int CLOCK_REALTIME

include "everlog/aeron/_layouts.pxi"

cdef enum:
    ALLOCATED = 1
    HEARTBEAT_TYPE = 11
    RUNNING = 0
    STOPPED = 1
    LAPSED = 2
    LOST = 3


cdef inline int64_t _now_ns(int clock) noexcept nogil:
    cdef timespec at
    clock_gettime(clock, &at)
    return <int64_t>at.tv_sec * 1000000000 + at.tv_nsec


cdef class Pacemaker:
    cdef Memory _metadata
    cdef Memory _values
    cdef char* _record
    cdef char* _value
    cdef int64_t _client_id
    cdef int64_t _interval_ns
    cdef int64_t _limit_ns
    cdef int64_t _last_ns
    cdef int _state
    cdef int _wake_reader
    cdef int _wake_writer

    def __cinit__(self):
        self._wake_reader = -1
        self._wake_writer = -1

    def __init__(
        self, Memory metadata, Memory values, int64_t counter_id, int64_t client_id, int64_t interval_ns, int64_t limit_ns
    ):
        if not 0 <= counter_id < min(metadata.length // COUNTER_META_DATA_SIZE, values.length // COUNTER_VALUE_SIZE):
            raise IndexError(f"counter {counter_id}")
        if interval_ns <= 0 or limit_ns <= 0:
            raise ValueError(f"interval {interval_ns}, limit {limit_ns}")
        self._metadata = metadata
        self._values = values
        self._record = metadata.data + counter_id * COUNTER_META_DATA_SIZE
        self._value = values.data + counter_id * COUNTER_VALUE_SIZE
        self._client_id = client_id
        self._interval_ns = interval_ns
        self._limit_ns = limit_ns
        self._last_ns = _now_ns(CLOCK_MONOTONIC)
        self._state = RUNNING
        self._wake_reader, self._wake_writer = os.pipe()  # child programs don't inherit it

    def __dealloc__(self):
        if self._wake_reader >= 0:
            close(self._wake_reader)
            close(self._wake_writer)

    @property
    def lapsed(self):
        return self._state == LAPSED

    @property
    def lost(self):
        return self._state == LOST

    @property
    def running(self):
        return self._state == RUNNING

    def beat(self):
        return self._beat() == RUNNING

    def run(self):
        cdef pollfd waiting
        cdef int milliseconds = <int>max(self._interval_ns // 1000000, 1)
        waiting.fd = self._wake_reader
        waiting.events = POLLIN
        with nogil:
            while self._state == RUNNING and self._beat() == RUNNING:
                waiting.revents = 0
                if poll(&waiting, 1, milliseconds) > 0:
                    break

    def stop(self):
        if self._state == RUNNING:
            self._state = STOPPED
        write(self._wake_writer, b"x", 1)

    cdef int _beat(self) noexcept nogil:
        cdef int64_t now_ns = _now_ns(CLOCK_MONOTONIC)
        cdef int64_t key
        cdef int32_t type_id
        if self._state != RUNNING:
            return self._state
        if now_ns - self._last_ns > self._limit_ns:
            self._state = LAPSED
            return LAPSED
        if acquire_i32(self._record + COUNTER_META_DATA_STATE) != ALLOCATED:
            self._state = LOST
            return LOST
        memcpy(&type_id, self._record + COUNTER_META_DATA_TYPE_ID, 4)
        memcpy(&key, self._record + COUNTER_META_DATA_KEY, 8)
        if type_id != HEARTBEAT_TYPE or key != self._client_id:
            self._state = LOST
            return LOST
        self._last_ns = now_ns
        release_i64(self._value, _now_ns(CLOCK_REALTIME) // 1000000)
        return RUNNING
