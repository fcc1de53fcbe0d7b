# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""UDP in batches, with one system call for many datagrams (sendmmsg and recvmmsg on Linux). The twin
:mod:`everlog.kernel.udp_twin` documents each function."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_CheckBuffer, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.errno cimport errno
from libc.stdint cimport int32_t, int64_t, uint32_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset

from everlog.kernel._memory cimport Memory

import os

from everlog.kernel import udp_twin as _twin
from everlog.kernel.socket_address import SocketAddress as _SocketAddress

cdef extern from *:
    """
    #ifndef _GNU_SOURCE
    #define _GNU_SOURCE
    #endif
    #include <errno.h>
    #include <ifaddrs.h>
    #include <net/if.h>
    #include <netinet/in.h>
    #include <netinet/udp.h>
    #include <stdint.h>
    #include <string.h>
    #include <sys/socket.h>
    #include <sys/uio.h>

    #ifdef __linux__
    typedef struct mmsghdr everlog_message;
    #else
    typedef struct { struct msghdr msg_hdr; unsigned int msg_len; } everlog_message;
    #endif
    #define EVERLOG_BATCH 64

    #ifdef __linux__
    #ifndef UDP_SEGMENT
    #define UDP_SEGMENT 103
    #endif
    #define EVERLOG_SEGMENTS 64         /* the kernel's limit, UDP_MAX_SEGMENTS */
    #define EVERLOG_SEGMENTED 65000     /* bytes, below what one datagram may have */
    typedef union { struct cmsghdr header; char room[CMSG_SPACE(sizeof(uint16_t))]; } everlog_control;
    static void everlog_segmented(everlog_message* message, everlog_control* control, uint16_t length) {
        memset(control, 0, sizeof(*control));
        message->msg_hdr.msg_control = control;
        message->msg_hdr.msg_controllen = sizeof(control->room);
        control->header.cmsg_level = IPPROTO_UDP;
        control->header.cmsg_type = UDP_SEGMENT;
        control->header.cmsg_len = CMSG_LEN(sizeof(uint16_t));
        memcpy(CMSG_DATA(&control->header), &length, sizeof(length));
    }
    /* Whether segmentation may have caused the error: no such option, no device support, a datagram longer than the MTU. */
    static int everlog_is_of_segments(int code) {
        return code == EINVAL || code == EIO || code == EMSGSIZE || code == ENOPROTOOPT || code == EOPNOTSUPP;
    }
    #endif

    /* Sends the parts in order. Returns how many, or -1 with errno if the first was refused. On Linux, parts of equal
       length (the last may be shorter) are passed down together, and the kernel cuts them into datagrams below its
       protocol layers (UDP_SEGMENT), at a third of the cost. *segments becomes 0 if that does not work. */
    static int64_t everlog_send_parts(int fd, const char* data, int64_t start, const int64_t* ends, int64_t count,
                                      struct sockaddr_storage* to, socklen_t to_length, int* segments) {
        everlog_message messages[EVERLOG_BATCH];
        struct iovec vectors[EVERLOG_BATCH];
        int parts[EVERLOG_BATCH];
    #ifdef __linux__
        everlog_control controls[EVERLOG_BATCH];
    #endif
        int64_t done = 0;
        while (done < count) {
            int n = 0, together = 0;
            int64_t at = done, from = start;
            while (at < count && n < EVERLOG_BATCH) {
                int64_t length = ends[at] - from, end = ends[at];
                int taken = 1;
                memset(&messages[n], 0, sizeof(messages[n]));
    #ifdef __linux__
                while (*segments && at + taken < count && taken < EVERLOG_SEGMENTS) {
                    int64_t next = ends[at + taken] - end;
                    if (next > length || ends[at + taken] - from > EVERLOG_SEGMENTED) break;
                    end = ends[at + taken++];
                    if (next < length) break;
                }
                if (taken > 1) {
                    everlog_segmented(&messages[n], &controls[n], (uint16_t)length);
                    together = 1;
                }
    #endif
                vectors[n].iov_base = (void*)(data + from);
                vectors[n].iov_len = (size_t)(end - from);
                messages[n].msg_hdr.msg_iov = &vectors[n];
                messages[n].msg_hdr.msg_iovlen = 1;
                messages[n].msg_hdr.msg_name = to_length ? (void*)to : NULL;
                messages[n].msg_hdr.msg_namelen = to_length;
                parts[n++] = taken;
                at += taken;
                from = end;
            }
            int sent;
    #ifdef __linux__
            sent = sendmmsg(fd, messages, (unsigned)n, 0);
            if (sent < 0 && together && everlog_is_of_segments(errno)) {
                *segments = 0;
                continue;
            }
    #else
            (void)together; (void)segments;
            for (sent = 0; sent < n; sent++)
                if (sendmsg(fd, &messages[sent].msg_hdr, 0) < 0) break;
            if (sent == 0) sent = -1;
    #endif
            if (sent < 0) return done ? done : -1;
            for (int i = 0; i < sent; i++) done += parts[i];
            if (sent < n) break;
            start = ends[done - 1];
        }
        return done;
    }

    /* Fills the slots. Returns how many, or -1 with errno if nothing was received. */
    static int everlog_receive(int fd, everlog_message* messages, int32_t* lengths, int capacity) {
        for (int i = 0; i < capacity; i++) {
            messages[i].msg_hdr.msg_namelen = sizeof(struct sockaddr_storage);
            messages[i].msg_hdr.msg_flags = 0;
        }
        int got;
    #ifdef __linux__
        got = recvmmsg(fd, messages, (unsigned)capacity, MSG_DONTWAIT, NULL);
    #else
        for (got = 0; got < capacity; got++) {
            ssize_t length = recvmsg(fd, &messages[got].msg_hdr, MSG_DONTWAIT);
            if (length < 0) break;
            messages[got].msg_len = (unsigned)length;
        }
        if (got == 0) got = -1;
    #endif
        for (int i = 0; i < got; i++)
            lengths[i] = (messages[i].msg_hdr.msg_flags & MSG_TRUNC) ? 0 : (int32_t)messages[i].msg_len;
        return got;
    }

    static void everlog_slot(everlog_message* messages, struct iovec* vectors, struct sockaddr_storage* sources, int i,
                             char* data, int64_t slot_length) {
        vectors[i].iov_base = data + i * slot_length;
        vectors[i].iov_len = (size_t)slot_length;
        messages[i].msg_hdr.msg_iov = &vectors[i];
        messages[i].msg_hdr.msg_iovlen = 1;
        messages[i].msg_hdr.msg_name = &sources[i];
    }

    /* These two convert between SocketAddress.packed (6 or 22 bytes) and the system's form. */
    static socklen_t everlog_unpack_address(const unsigned char* packed, size_t length, struct sockaddr_storage* at) {
        memset(at, 0, sizeof(*at));
        if (length == 6) {
            struct sockaddr_in* v4 = (struct sockaddr_in*)at;
            v4->sin_family = AF_INET;
            memcpy(&v4->sin_addr, packed, 4);
            memcpy(&v4->sin_port, packed + 4, 2);
            return sizeof(*v4);
        }
        if (length != 22) return 0;
        struct sockaddr_in6* v6 = (struct sockaddr_in6*)at;
        v6->sin6_family = AF_INET6;
        memcpy(&v6->sin6_addr, packed, 16);
        memcpy(&v6->sin6_port, packed + 16, 2);
        v6->sin6_scope_id = (uint32_t)packed[18] << 24 | (uint32_t)packed[19] << 16 | (uint32_t)packed[20] << 8 | packed[21];
        return sizeof(*v6);
    }
    static int everlog_pack_address(const struct sockaddr_storage* at, unsigned char* packed) {
        if (at->ss_family == AF_INET) {
            const struct sockaddr_in* v4 = (const struct sockaddr_in*)at;
            memcpy(packed, &v4->sin_addr, 4);
            memcpy(packed + 4, &v4->sin_port, 2);
            return 6;
        }
        if (at->ss_family != AF_INET6) return 0;
        const struct sockaddr_in6* v6 = (const struct sockaddr_in6*)at;
        memcpy(packed, &v6->sin6_addr, 16);
        memcpy(packed + 16, &v6->sin6_port, 2);
        for (int i = 0; i < 4; i++) packed[18 + i] = (unsigned char)(v6->sin6_scope_id >> (24 - 8 * i));
        return 22;
    }

    static int everlog_bits(const unsigned char* bytes, int count) {
        int bits = 0;
        for (int i = 0; i < count; i++) bits += __builtin_popcount(bytes[i]);
        return bits;
    }
    /* Reads an interface's address and prefix length. Returns the address's length: 4, 16, or 0 for another family. */
    static int everlog_interface(const struct ifaddrs* row, unsigned char* address, int* prefix) {
        if (row->ifa_addr == NULL) return 0;
        if (row->ifa_addr->sa_family == AF_INET) {
            memcpy(address, &((struct sockaddr_in*)row->ifa_addr)->sin_addr, 4);
            *prefix = row->ifa_netmask == NULL ? 32
                : everlog_bits((const unsigned char*)&((struct sockaddr_in*)row->ifa_netmask)->sin_addr, 4);
            return 4;
        }
        if (row->ifa_addr->sa_family == AF_INET6) {
            memcpy(address, &((struct sockaddr_in6*)row->ifa_addr)->sin6_addr, 16);
            *prefix = row->ifa_netmask == NULL ? 128
                : everlog_bits((const unsigned char*)&((struct sockaddr_in6*)row->ifa_netmask)->sin6_addr, 16);
            return 16;
        }
        return 0;
    }
    """
    ctypedef struct everlog_message:
        pass
    cdef struct iovec:
        pass
    cdef struct ifaddrs:
        ifaddrs* ifa_next
        char* ifa_name
        unsigned int ifa_flags
    int64_t everlog_send_parts(int, const char*, int64_t, const int64_t*, int64_t, sockaddr_storage*, socklen_t,
                               int*) nogil
    int everlog_receive(int, everlog_message*, int32_t*, int) nogil
    void everlog_slot(everlog_message*, iovec*, sockaddr_storage*, int, char*, int64_t) nogil
    socklen_t everlog_unpack_address(const unsigned char*, size_t, sockaddr_storage*) nogil
    int everlog_pack_address(const sockaddr_storage*, unsigned char*) nogil
    int everlog_interface(const ifaddrs*, unsigned char*, int*) nogil
    int getifaddrs(ifaddrs**) nogil
    void freeifaddrs(ifaddrs*) nogil
    unsigned int if_nametoindex(const char*) nogil
    int EAGAIN, EWOULDBLOCK, EINTR, ECONNREFUSED, ENOBUFS

cdef enum:
    PACKED_LENGTH = 22


cdef class Datagrams:

    def __cinit__(self, int capacity=32, int64_t slot_length=65536):
        if not 1 <= capacity <= _twin.MAX_CAPACITY:
            raise ValueError(f"a batch's capacity must be 1 to {_twin.MAX_CAPACITY} datagrams, not {capacity}")
        if not 8 <= slot_length <= _twin.MAX_SLOT_LENGTH or slot_length % 8:
            raise ValueError(f"a slot's length must be a multiple of 8 from 8 to {_twin.MAX_SLOT_LENGTH}, not {slot_length}")
        self.capacity = capacity
        self.slot_length = slot_length
        self.memory = Memory.allocate(capacity * slot_length)
        self.lengths = Memory.allocate(capacity * 4)
        self.data = self.memory.data
        self.lengths_at = <int32_t*>self.lengths.data
        self.count = 0
        self._kept = {}
        self._messages = calloc(capacity, sizeof(everlog_message))
        self._vectors = calloc(capacity, sizeof(iovec))
        self._sources = <sockaddr_storage*>calloc(capacity, sizeof(sockaddr_storage))
        if self._messages == NULL or self._vectors == NULL or self._sources == NULL:
            raise MemoryError()
        cdef int i
        for i in range(capacity):
            everlog_slot(<everlog_message*>self._messages, <iovec*>self._vectors, self._sources, i, self.data, slot_length)

    def __dealloc__(self):
        free(self._messages)
        free(self._vectors)
        free(self._sources)

    def __len__(self):
        return self.count

    def length(self, int index):
        _check(self, index)
        return self.lengths_at[index]

    def read(self, int index):
        _check(self, index)
        return PyBytes_FromStringAndSize(self.data + index * self.slot_length, self.lengths_at[index])

    def view(self, int index):
        _check(self, index)
        cdef int64_t start = index * self.slot_length
        return memoryview(self.memory)[start:start + self.lengths_at[index]]

    def source(self, int index):
        cdef unsigned char packed[PACKED_LENGTH]
        _check(self, index)
        cdef int length = everlog_pack_address(&self._sources[index], packed)
        if length == 0:
            raise ValueError("the source's address is neither IPv4 nor IPv6")
        key = PyBytes_FromStringAndSize(<char*>packed, length)
        found = self._kept.get(key)
        if found is None:
            if len(self._kept) >= _twin.SOURCES_KEPT:
                self._kept.clear()
            found = self._kept[key] = _SocketAddress.from_packed(key)
        return found

    def clear(self):
        self.count = 0

    def add(self, data, source):
        cdef int index = self.count
        cdef int64_t length = len(data)
        if index == self.capacity:
            return False
        if length > self.slot_length:
            length = 0
        if length:
            self.memory.write(index * self.slot_length, data)
        fill_address(source, &self._sources[index])
        self.lengths_at[index] = <int32_t>length
        self.count = index + 1
        return True


cdef class UdpSocket:

    def __init__(self, sock):
        sock.setblocking(False)
        self._socket = sock
        self._fd = sock.fileno()
        self._segments = 1
        self.local_address = _SocketAddress.of(sock.getsockname())

    @property
    def closed(self):
        return self._fd < 0

    def fileno(self):
        return self._fd

    def connect(self, address):
        self._socket.connect(address.sockaddr)

    def close(self):
        self._fd = -1
        self._socket.close()

    def send(self, data, address=None):
        cdef Py_buffer view
        cdef int64_t end, sent
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        try:
            end = view.len
            sent = _send(self, <char*>view.buf, 0, &end, 1, address)
        finally:
            PyBuffer_Release(&view)
        return end if sent == 1 else 0

    def send_parts(self, Memory memory, int64_t offset, ends, address=None, int64_t count=-1):
        cdef Py_buffer view
        cdef int64_t* bounds
        cdef int64_t total, i
        if isinstance(ends, (list, tuple)):
            total = len(ends)
            bounds = <int64_t*>malloc(total * 8 if total else 8)
            if bounds == NULL:
                raise MemoryError()
            try:
                for i in range(total):
                    bounds[i] = ends[i]
                return _send_parts(self, memory, offset, bounds, total, address, count)
            finally:
                free(bounds)
        PyObject_GetBuffer(ends, &view, PyBUF_SIMPLE)
        try:
            if view.len % 8 or <size_t>view.buf % 8:
                raise ValueError(f"ends must be int64 numbers, not {view.len} bytes")
            return _send_parts(self, memory, offset, <int64_t*>view.buf, view.len // 8, address, count)
        finally:
            PyBuffer_Release(&view)

    def receive(self, Datagrams batch):
        cdef int got, code
        cdef int fd = self._fd
        batch.count = 0
        with nogil:
            got = everlog_receive(fd, <everlog_message*>batch._messages, batch.lengths_at, batch.capacity)
            code = errno
        if got < 0:
            if _is_daily(code):
                return 0
            raise OSError(code, os.strerror(code))
        batch.count = got
        return got

    cdef int64_t send_block(self, const char* data, int64_t start, const int64_t* ends, int64_t count,
                            sockaddr_storage* address, socklen_t address_length) noexcept nogil:
        return everlog_send_parts(self._fd, data, start, ends, count, address, address_length, &self._segments)


cdef socklen_t fill_address(object address, sockaddr_storage* at) except? 0:
    cdef bytes packed = address.packed
    cdef socklen_t length = everlog_unpack_address(
        <const unsigned char*>PyBytes_AS_STRING(packed), PyBytes_GET_SIZE(packed), at)
    if length == 0:
        raise ValueError(f"a packed address must have 6 or 22 bytes, not {len(packed)}")
    return length


cdef bint _is_daily(int code) noexcept nogil:
    return code == EAGAIN or code == EWOULDBLOCK or code == EINTR or code == ECONNREFUSED or code == ENOBUFS


cdef int _check(Datagrams batch, int index) except -1:
    if index < 0 or index >= batch.count:
        raise IndexError(f"no datagram {index} in a batch of {batch.count}")
    return 0


cdef int64_t _send(UdpSocket sock, const char* data, int64_t start, const int64_t* ends, int64_t count, address) except -1:
    cdef sockaddr_storage to
    cdef socklen_t to_length = 0
    cdef int64_t sent
    cdef int code
    if address is not None:
        to_length = fill_address(address, &to)
    with nogil:
        sent = sock.send_block(data, start, ends, count, &to, to_length)
        code = errno
    if sent < 0:
        if _is_daily(code):
            return 0
        raise OSError(code, os.strerror(code))
    return sent


cdef int64_t _send_parts(UdpSocket sock, Memory memory, int64_t offset, const int64_t* ends, int64_t total, address,
                         int64_t count) except -1:
    cdef int64_t start = offset, i
    if count > total:
        raise ValueError(f"count {count} exceeds the {total} ends")
    if count >= 0:
        total = count
    for i in range(total):
        if start < 0 or ends[i] <= start or ends[i] > memory.length:
            raise ValueError(f"datagram {start}..{ends[i]} is empty or outside a memory of {memory.length} bytes")
        start = ends[i]
    if total == 0:
        return 0
    return _send(sock, memory.data, offset, ends, total, address)


def interface_rows():
    cdef ifaddrs* first
    cdef ifaddrs* row
    cdef unsigned char address[16]
    cdef int prefix = 0, length
    rows = []
    if getifaddrs(&first) != 0:
        raise OSError(errno, os.strerror(errno))
    try:
        row = first
        while row != NULL:
            length = everlog_interface(row, address, &prefix)
            if length:
                rows.append((
                    (<bytes>row.ifa_name).decode(errors="replace"), if_nametoindex(row.ifa_name),
                    row.ifa_flags & 0xFFFF, PyBytes_FromStringAndSize(<char*>address, length), prefix,
                ))
            row = row.ifa_next
    finally:
        freeifaddrs(first)
    return rows
