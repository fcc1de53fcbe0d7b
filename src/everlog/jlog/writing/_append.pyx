# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Compiled appender for local files; :mod:`everlog.jlog.writing.append_twin` documents it."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_GET_SIZE
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.exc cimport PyErr_CheckSignals
from cpython.pythread cimport (
    NOWAIT_LOCK, PyThread_acquire_lock, PyThread_allocate_lock, PyThread_free_lock, PyThread_release_lock,
    PyThread_type_lock,
)
from libc.errno cimport EINTR, EIO, errno
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

import os

from everlog.jlog.writing import append_twin
from everlog.jlog.format.addresses import Address
from everlog.jlog.format.framing import Framing

include "everlog/jlog/_layouts.pxi"

from everlog.jlog.format._frames cimport MAX_MESSAGE_BYTES, MICROSECONDS, PLAIN, stored_length, u32_at

cdef enum:
    DONE = 0
    ENDED = 1
    FULL = 2
    UNKNOWN = 3
    MOVED = 4
    CHUNK_BYTES = 262144
    MAX_HEADER_BYTES = 20

assert (DONE, ENDED, FULL, UNKNOWN, MOVED) == (
    append_twin.DONE, append_twin.ENDED, append_twin.FULL, append_twin.UNKNOWN, append_twin.MOVED)
assert <int>MAX_HEADER_BYTES == <int>JLOG_COMPRESSED_HEADER_SIZE

cdef extern from "pythread.h":
    ctypedef enum PyLockStatus:
        PY_LOCK_ACQUIRED
    PyLockStatus PyThread_acquire_lock_timed(PyThread_type_lock lock, long long microseconds, int intr_flag) nogil

cdef extern from *:
    """
    #include <errno.h>
    #include <fcntl.h>
    #include <stdint.h>
    #include <string.h>
    #include <sys/mman.h>
    #include <sys/stat.h>
    #ifdef __linux__
    #include <sys/sysmacros.h>
    #endif
    #include <sys/time.h>
    #include <sys/types.h>
    #include <sys/uio.h>
    #include <time.h>
    #include <unistd.h>
    #ifdef F_OFD_SETLKW
    #define EVERLOG_SETLKW F_OFD_SETLKW
    #else
    #define EVERLOG_SETLKW F_SETLKW
    #endif
    /* Locks the whole file, as the C library does. Returns 0 or an errno. */
    static int everlog_lock(int fd, int take) {
        struct flock lock;
        memset(&lock, 0, sizeof lock);
        lock.l_type = take ? F_WRLCK : F_UNLCK;
        lock.l_whence = SEEK_SET;
        return fcntl(fd, EVERLOG_SETLKW, &lock) == 0 ? 0 : errno;
    }
    /* Writes all of head and body at an offset. Returns 0, or an errno; a part may then be written. */
    static int everlog_write(int fd, const void* head, size_t head_bytes, const void* body, size_t body_bytes, int64_t at) {
        struct iovec parts[2];
        int first = head_bytes ? 0 : 1;
        ssize_t done;
        parts[0].iov_base = (void*)head; parts[0].iov_len = head_bytes;
        parts[1].iov_base = (void*)body; parts[1].iov_len = body_bytes;
        while (parts[0].iov_len + parts[1].iov_len > 0) {
            done = pwritev(fd, parts + first, 2 - first, (off_t)at);
            if (done < 0) {
                if (errno == EINTR) continue;
                return errno;
            }
            if (done == 0) return EIO;
            at += done;
            if (!first) {
                size_t of_head = (size_t)done < parts[0].iov_len ? (size_t)done : parts[0].iov_len;
                parts[0].iov_base = (char*)parts[0].iov_base + of_head;
                parts[0].iov_len -= of_head;
                done -= (ssize_t)of_head;
                if (parts[0].iov_len == 0) first = 1;
            }
            parts[1].iov_base = (char*)parts[1].iov_base + done;
            parts[1].iov_len -= (size_t)done;
        }
        return 0;
    }
    /* Returns the bytes read, fewer only at the end of the file, or minus an errno. */
    static int64_t everlog_read(int fd, void* buffer, size_t bytes, int64_t at) {
        size_t have = 0;
        while (have < bytes) {
            ssize_t got = pread(fd, (char*)buffer + have, bytes - have, (off_t)(at + have));
            if (got < 0) {
                if (errno == EINTR) continue;
                return -(int64_t)errno;
            }
            if (got == 0) break;
            have += (size_t)got;
        }
        return (int64_t)have;
    }
    static int64_t everlog_now_us(void) {
        struct timeval now;
        gettimeofday(&now, 0);
        return (int64_t)now.tv_sec * 1000000 + now.tv_usec;
    }
    static void* everlog_map(int fd, int64_t bytes, int* error) {
        void* base = mmap(0, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (base != MAP_FAILED) return base;
        *error = errno;
        return 0;
    }
    static void everlog_unmap(void* base, int64_t bytes) { munmap(base, (size_t)bytes); }
    /* A release store: earlier stores are visible before this one. */
    static void everlog_publish(void* base, uint32_t used, uint32_t magic) {
        __atomic_store_n((uint64_t*)base, (uint64_t)magic << 32 | used, __ATOMIC_RELEASE);
    }
    /* The size, -1 with errno, or -2 if the file is unlinked. Avoids fstat: reading the times makes the next write update
       them, which costs more than the write. */
    static int64_t everlog_size(int fd) {
        struct stat status;
    #ifdef STATX_NLINK
        struct statx some;
        if (statx(fd, "", AT_EMPTY_PATH, STATX_SIZE | STATX_NLINK, &some) == 0)
            return some.stx_nlink ? (int64_t)some.stx_size : -2;
        if (errno != ENOSYS && errno != EPERM) return -1;
    #endif
        if (fstat(fd, &status) != 0) return -1;
        return status.st_nlink ? (int64_t)status.st_size : -2;
    }
    static int everlog_truncate(int fd, int64_t size) { return ftruncate(fd, (off_t)size); }
    typedef struct { dev_t device; ino_t inode; } everlog_identity;
    static int everlog_identify(int fd, everlog_identity* file) {
        struct stat status;
        if (fstat(fd, &status) != 0) return -1;
        file->device = status.st_dev;
        file->inode = status.st_ino;
        return 0;
    }
    /* Whether the path still names the file; true if unknown. Avoids reading the times: see above. */
    static int everlog_is_named(const char* path, const everlog_identity* file) {
        struct stat status;
    #ifdef STATX_INO
        struct statx some;
        if (statx(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW, STATX_INO, &some) == 0)
            return some.stx_ino == file->inode && makedev(some.stx_dev_major, some.stx_dev_minor) == file->device;
        if (errno != ENOSYS && errno != EPERM) return errno != ENOENT && errno != ENOTDIR;
    #endif
        if (lstat(path, &status) != 0) return errno != ENOENT && errno != ENOTDIR;
        return status.st_ino == file->inode && status.st_dev == file->device;
    }
    /* A counter that changes every few milliseconds. */
    static int64_t everlog_tick(void) {
        struct timespec now;
    #ifdef CLOCK_MONOTONIC_COARSE
        clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    #else
        clock_gettime(CLOCK_MONOTONIC, &now);
    #endif
        return ((int64_t)now.tv_sec * 1000000000 + now.tv_nsec) >> 22;
    }
    """
    int everlog_lock(int fd, int take) nogil
    int everlog_write(int fd, const void* head, size_t head_bytes, const void* body, size_t body_bytes, int64_t at) nogil
    int64_t everlog_read(int fd, void* buffer, size_t bytes, int64_t at) nogil
    int64_t everlog_now_us() nogil
    void* everlog_map(int fd, int64_t bytes, int* error) nogil
    void everlog_unmap(void* base, int64_t bytes) nogil
    void everlog_publish(void* base, uint32_t used, uint32_t magic) nogil
    int64_t everlog_size(int fd) nogil
    int everlog_truncate(int fd, int64_t size) nogil
    ctypedef struct everlog_identity:
        pass
    int everlog_identify(int fd, everlog_identity* file) nogil
    int everlog_is_named(const char* path, const everlog_identity* file) nogil
    int64_t everlog_tick() nogil


cdef int failed(int error, name) except -1:
    """Raise the operating system's error."""
    raise OSError(error, os.strerror(error), name)


cdef inline void put_u32(uint8_t* p, uint32_t value) noexcept nogil:
    memcpy(p, &value, 4)


cdef inline void put_header(
    uint8_t* p, uint32_t magic, int header_bytes, int64_t time_us, int64_t length, int64_t stored
) noexcept nogil:
    put_u32(p + JLOG_HEADER_MAGIC, magic)
    put_u32(p + JLOG_HEADER_TV_SEC, <uint32_t>(time_us // MICROSECONDS))
    put_u32(p + JLOG_HEADER_TV_USEC, <uint32_t>(time_us % MICROSECONDS))
    put_u32(p + JLOG_HEADER_LENGTH, <uint32_t>length)
    if header_bytes == JLOG_COMPRESSED_HEADER_SIZE:
        put_u32(p + JLOG_COMPRESSED_HEADER_STORED_LENGTH, <uint32_t>stored)


cdef int64_t checked_time(int64_t time_us) except -1:
    if time_us < 0:
        return everlog_now_us()
    if time_us // MICROSECONDS > 0xFFFFFFFF:
        raise OverflowError(f"{time_us} microseconds since 1970")
    return time_us


cdef int check_length(int64_t stored, int64_t length) except -1:
    if stored > MAX_MESSAGE_BYTES or length > MAX_MESSAGE_BYTES:
        raise OverflowError(f"{max(length, stored)} bytes")
    return 0


cdef int check_messages(list payloads, Py_ssize_t start, list timestamps_us, list lengths) except -1:
    """Raise for any message that can't be written, before writing one."""
    cdef Py_buffer view
    cdef Py_ssize_t at
    for at in range(start, len(payloads)):
        payload = payloads[at]
        if PyBytes_CheckExact(payload):
            check_length(PyBytes_GET_SIZE(payload), -1 if lengths is None else lengths[at])
        else:
            PyObject_GetBuffer(payload, &view, PyBUF_SIMPLE)
            PyBuffer_Release(&view)
            check_length(view.len, -1 if lengths is None else lengths[at])
        if timestamps_us is not None:
            checked_time(timestamps_us[at])
    return 0


cdef class Appender:
    """Appends to one segment under its lock."""

    cdef readonly int64_t log, end, marker, limit
    cdef readonly uint64_t last
    cdef readonly Py_ssize_t kept
    cdef int fd, metastore_fd, header_bytes, provider
    cdef uint32_t magic
    cdef uint8_t* chunk
    cdef object segment, metastore
    cdef bytes path
    cdef const char* c_path
    cdef everlog_identity identity
    cdef int64_t looked_at
    cdef PyThread_type_lock mutex
    cdef bint is_retired

    def __cinit__(self, segment, metastore, int64_t log, uint32_t magic, int64_t end, int64_t marker):
        framing = Framing(magic)
        self.chunk = NULL
        self.is_retired = False
        self.mutex = PyThread_allocate_lock()
        if self.mutex == NULL:
            raise MemoryError()
        self.segment, self.metastore = segment, metastore  # kept open as long as the descriptors are used
        self.fd, self.metastore_fd = segment.fileno(), metastore.fileno()
        if everlog_identify(self.fd, &self.identity) != 0:
            failed(errno, segment.name)
        self.path = os.fsencode(segment.path)
        self.c_path = self.path
        self.looked_at = -1
        self.log, self.end, self.marker = log, end, marker
        self.magic, self.header_bytes, self.provider = magic, framing.header_bytes, int(framing.provider)
        self.last = 0
        self.kept = 0
        self.chunk = <uint8_t*>malloc(CHUNK_BYTES)
        if self.chunk == NULL:
            raise MemoryError()
        cdef int error = 0
        self.refresh(&error)
        if error:
            failed(error, metastore.name)

    def __dealloc__(self):
        free(self.chunk)
        if self.mutex != NULL:
            PyThread_free_lock(self.mutex)

    cdef int enter(self) except -1:
        """Serialise threads: a file lock does not exclude threads that share the open file."""
        if PyThread_acquire_lock(self.mutex, NOWAIT_LOCK):
            return 0
        cdef int got = 0
        while True:
            with nogil:
                got = PyThread_acquire_lock_timed(self.mutex, -1, 1) == PY_LOCK_ACQUIRED
            if got:
                return 0
            PyErr_CheckSignals()

    def retire(self):
        """Return once no thread is in ``append_inside``; later calls of it return ``None``."""
        self.enter()
        self.is_retired = True
        PyThread_release_lock(self.mutex)

    def append_inside(self, payload):
        """Append one ``bytes`` message that does not end the segment; return its address, or ``None`` if nothing was written."""
        cdef uint64_t last
        if not PyBytes_CheckExact(payload):
            return None
        self.enter()
        try:
            if self.is_retired or self.end + self.header_bytes + PyBytes_GET_SIZE(payload) >= self.limit:
                return None
            if self.append_bytes(
                <const uint8_t*>PyBytes_AS_STRING(payload), PyBytes_GET_SIZE(payload), -1, -1, True
            ) != DONE:
                return None
            last = self.last
        finally:
            PyThread_release_lock(self.mutex)
        return Address(last)

    def append(self, payload, int64_t timestamp_us=-1, int64_t length=-1):
        """Append one message; return the status and, if it was written, its address."""
        cdef Py_buffer view
        cdef int status
        PyObject_GetBuffer(payload, &view, PyBUF_SIMPLE)
        try:
            self.enter()
            try:
                status = self.append_bytes(<const uint8_t*>view.buf, view.len, timestamp_us, length, False)
                return status, self.last
            finally:
                PyThread_release_lock(self.mutex)
        finally:
            PyBuffer_Release(&view)

    cdef int append_bytes(
        self, const uint8_t* body, int64_t stored, int64_t timestamp_us, int64_t length, bint is_inside
    ) except -1:
        cdef uint8_t[MAX_HEADER_BYTES] header
        cdef int status = DONE, error = 0
        check_length(stored, length)
        put_header(header, self.magic, self.header_bytes, checked_time(timestamp_us), stored if length < 0 else length, stored)
        while True:
            with nogil:
                error = everlog_lock(self.fd, 1)
                if error == 0:
                    status = self.prepare(&error)
                    if is_inside and self.end + self.header_bytes + stored >= self.limit:
                        status = FULL
                    if status == DONE and error == 0:
                        error = everlog_write(self.fd, header, self.header_bytes, body, stored, self.end)
                        if error:
                            everlog_truncate(self.fd, self.end)
                        else:
                            status = self.wrote(self.header_bytes + stored, 1)
                    everlog_lock(self.fd, 0)
                elif error == EINTR:
                    error = -1
            if error == 0:
                return status
            if error > 0:
                failed(error, self.segment.name)
            PyErr_CheckSignals()

    def append_many(self, list payloads not None, Py_ssize_t start, list timestamps_us=None, list lengths=None):
        """Append as many of ``payloads[start:]`` as fit; return the status, their number and the last address."""
        cdef int status = DONE, error = 0
        cdef int64_t size, used = 0, stored, total, length
        cdef Py_ssize_t at, count = 0, waiting = 0
        cdef Py_buffer view
        cdef int64_t now_us = checked_time(-1), time_us
        self.kept = 0
        check_messages(payloads, start, timestamps_us, lengths)
        self.enter_locked()
        try:
            with nogil:
                status = self.prepare(&error)
            if error:
                failed(error, self.segment.name)
            if status != DONE:
                return status, 0, 0
            size = self.end  # end of the written and framed messages; `self.end` is the end of the written ones
            try:
                for at in range(start, len(payloads)):
                    time_us = now_us if timestamps_us is None else checked_time(timestamps_us[at])
                    PyObject_GetBuffer(payloads[at], &view, PyBUF_SIMPLE)
                    try:
                        stored = view.len
                        length = stored if lengths is None or lengths[at] < 0 else lengths[at]
                        check_length(stored, length)
                        total = self.header_bytes + stored
                        if used + total > CHUNK_BYTES and waiting:
                            self.put(self.chunk, used, NULL, 0)
                            self.wrote(used, waiting)
                            used = waiting = 0
                        put_header(self.chunk + used, self.magic, self.header_bytes, time_us, length, stored)
                        if total > CHUNK_BYTES:
                            self.put(self.chunk, self.header_bytes, view.buf, stored)
                            self.wrote(total, 1)
                        else:
                            memcpy(self.chunk + used + self.header_bytes, view.buf, stored)
                            used += total
                            waiting += 1
                    finally:
                        PyBuffer_Release(&view)
                    size += total
                    count += 1
                    if size >= self.limit:
                        break
                self.put(self.chunk, used, NULL, 0)
                self.wrote(used, waiting)
            except BaseException:
                self.kept = count - waiting + self.keep_whole()
                raise
            return ENDED if self.end >= self.limit else DONE, count, self.last
        finally:
            self.leave_locked()

    def append_framed(self, const uint8_t[::1] data not None, int64_t count):
        """Append ``count`` whole messages that are framed already."""
        cdef int status = DONE, error = 0
        cdef const uint8_t* bytes_ = &data[0] if data.shape[0] else NULL
        cdef int64_t length = data.shape[0]
        self.enter_locked()
        try:
            with nogil:
                status = self.prepare(&error)
                if status == DONE and error == 0:
                    error = everlog_write(self.fd, NULL, 0, bytes_, length, self.end)
                    if error:
                        self.keep_whole()
                    else:
                        status = self.wrote(length, count)
        finally:
            self.leave_locked()
        if error:
            failed(error, self.segment.name)
        return status

    cdef int enter_locked(self) except -1:
        """Like :meth:`enter`, and take the file's lock."""
        self.enter()
        try:
            self.take_lock()
        except BaseException:
            PyThread_release_lock(self.mutex)
            raise
        return 0

    cdef void leave_locked(self) noexcept:
        everlog_lock(self.fd, 0)
        PyThread_release_lock(self.mutex)

    cdef int take_lock(self) except -1:
        cdef int error
        while True:
            with nogil:
                error = everlog_lock(self.fd, 1)
            if error == 0:
                return 0
            if error != EINTR:
                failed(error, self.segment.name)
            PyErr_CheckSignals()

    cdef int put(self, const void* head, int64_t head_bytes, const void* body, int64_t body_bytes) except -1:
        cdef int error
        with nogil:
            error = everlog_write(self.fd, head, head_bytes, body, body_bytes, self.end)
        if error:
            failed(error, self.segment.name)
        return 0

    cdef int wrote(self, int64_t length, int64_t count) noexcept nogil:
        self.end += length
        self.marker += count
        self.last = <uint64_t>self.log << 32 | <uint64_t>(self.marker - 1)
        return ENDED if self.end >= self.limit else DONE

    cdef Py_ssize_t keep_whole(self) noexcept nogil:
        """After a failed write: keep its whole messages, which readers may have, and truncate the rest. Returns how many
        were kept."""
        cdef int64_t size = everlog_size(self.fd), marker = self.marker
        cdef int error = 0
        if size > self.end:
            self.follow(size, &error)
            everlog_truncate(self.fd, self.end)
        return self.marker - marker

    cdef int prepare(self, int* error) noexcept nogil:
        """Under the lock: check that this segment can be written."""
        cdef int64_t size = everlog_size(self.fd), log, tick = everlog_tick()
        if size == -2:  # deleted: it has no readers
            return MOVED
        if size < 0:
            error[0] = errno
            return UNKNOWN
        # A deleted segment may have another link. Checking its path costs a quarter of an append, so it is done once per
        # tick: deleting a segment takes no lock, so no check could be exact.
        if tick != self.looked_at:
            if not everlog_is_named(self.c_path, &self.identity):
                return MOVED
            self.looked_at = tick
        log = self.refresh(error)
        if error[0]:
            return UNKNOWN
        if log != self.log:
            return MOVED
        if size != self.end and not self.follow(size, error):
            return UNKNOWN
        return FULL if self.end >= self.limit else DONE

    cdef int64_t refresh(self, int* error) noexcept nogil:
        cdef uint8_t[JLOG_METASTORE_SIZE] head
        cdef int64_t got = everlog_read(self.metastore_fd, head, JLOG_METASTORE_SIZE, 0)
        if got != JLOG_METASTORE_SIZE:
            error[0] = <int>-got if got < 0 else EIO
            return 0
        self.limit = u32_at(head + JLOG_METASTORE_UNIT_LIMIT)
        if self.limit < 1:
            self.limit = 1
        return u32_at(head + JLOG_METASTORE_STORAGE_LOG)

    cdef bint follow(self, int64_t size, int* error) noexcept nogil:
        """Advance over whole messages of other writers. Returns False if they end before ``size``."""
        cdef int64_t at = self.end, marker = self.marker, base = at, filled = 0, stored, want
        while at < size:
            if size - at < self.header_bytes:
                break
            if at + self.header_bytes > base + filled:
                base = at
                want = size - at
                filled = everlog_read(self.fd, self.chunk, CHUNK_BYTES if want > CHUNK_BYTES else want, base)
                if filled < self.header_bytes:
                    error[0] = <int>-filled if filled < 0 else 0
                    break
            stored = stored_length(self.chunk + (at - base), self.magic, self.provider)
            if stored < 0 or at + self.header_bytes + stored > size:
                break
            at += self.header_bytes + stored
            marker += 1
        self.end, self.marker = at, marker
        return at == size


cdef class BufferAppender:
    """Appends to the pre-commit file through a map: nobody cuts the file while this writer has its lock, and its blocks are
    allocated."""

    cdef readonly int64_t used, capacity, count
    cdef int fd, header_bytes
    cdef uint32_t magic
    cdef object file
    cdef uint8_t* base

    def __cinit__(self, file, uint32_t magic, int64_t used, int64_t capacity):
        cdef int error = 0
        self.base = NULL
        self.file, self.fd = file, file.fileno()
        self.magic, self.header_bytes = magic, Framing(magic).header_bytes
        self.used, self.capacity, self.count = used, capacity, 0
        if capacity > 0:
            if everlog_size(self.fd) < JLOG_PRE_COMMIT_SIZE + capacity:
                raise ValueError(f"{file.name} has no room for {capacity} bytes")
            self.base = <uint8_t*>everlog_map(self.fd, JLOG_PRE_COMMIT_SIZE + capacity, &error)
            if self.base == NULL:
                failed(error, file.name)

    def __dealloc__(self):
        self.close()

    cpdef close(self):
        """Release the file. Nothing fits afterwards."""
        if self.base != NULL:
            everlog_unmap(self.base, JLOG_PRE_COMMIT_SIZE + self.capacity)
            self.base = NULL
            self.capacity = 0

    def append(self, payload, int64_t timestamp_us=-1, int64_t length=-1):
        """Append one message; return false if it does not fit."""
        cdef Py_buffer view
        cdef int64_t stored, total
        cdef int64_t time_us = checked_time(timestamp_us)
        cdef uint8_t* frame
        PyObject_GetBuffer(payload, &view, PyBUF_SIMPLE)
        try:
            stored = view.len
            check_length(stored, length)
            total = self.header_bytes + stored
            if self.used + total > self.capacity:
                return False
            frame = self.base + JLOG_PRE_COMMIT_SIZE + self.used
            length = stored if length < 0 else length
            # The first message's magic is stored together with the used size.
            put_header(frame, self.magic if self.used else 0, self.header_bytes, time_us, length, stored)
            memcpy(frame + self.header_bytes, view.buf, stored)
        finally:
            PyBuffer_Release(&view)
        self.used += total
        self.count += 1
        everlog_publish(self.base, <uint32_t>self.used, self.magic)
        return True

    def clear(self):
        """Mark the buffer as empty."""
        cdef uint8_t[8] head
        cdef int64_t size = everlog_size(self.fd)
        cdef int error
        memset(head, 0, 8)
        with nogil:
            error = everlog_write(self.fd, NULL, 0, head, 8 if size > 8 else size, 0)
        if error:
            failed(error, self.file.name)
        self.used, self.count = 0, 0
