from libc.stdint cimport int32_t, int64_t

from everlog.kernel._memory cimport Memory

cdef extern from "<sys/socket.h>" nogil:
    ctypedef unsigned int socklen_t
    cdef struct sockaddr_storage:
        pass

cdef class Datagrams:
    """See ``udp_twin.py``. Datagram ``i < count`` has ``lengths_at[i]`` bytes at ``data + i * slot_length``."""
    cdef char* data
    cdef int32_t* lengths_at
    cdef int count
    cdef readonly int capacity
    cdef readonly int64_t slot_length
    cdef readonly Memory memory
    cdef readonly Memory lengths
    cdef void* _messages
    cdef void* _vectors
    cdef sockaddr_storage* _sources
    cdef dict _kept

cdef class UdpSocket:
    """See ``udp_twin.py``."""
    cdef object _socket
    cdef int _fd
    cdef int _segments          # whether the kernel segments data for one peer into datagrams (UDP_SEGMENT)
    cdef readonly object local_address
    cdef int64_t send_block(self, const char* data, int64_t start, const int64_t* ends, int64_t count,
                            sockaddr_storage* address, socklen_t address_length) noexcept nogil

cdef socklen_t fill_address(object address, sockaddr_storage* at) except? 0
