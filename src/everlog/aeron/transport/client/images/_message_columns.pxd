from libc.stdint cimport int32_t, int64_t

from everlog.kernel._buffers cimport Buffer

cdef enum:
    # Why a stretch of frames ended.
    NO_MORE = 0
    FULL = 1
    ODD = 2                     # a frame that is no whole message: padding, a fragment, or damaged

cdef struct Stretch:
    # Where frames are read, and where their columns are.
    const char* term
    int64_t term_length
    int64_t offset
    int64_t begin               # position of the term's start
    char* data
    int64_t used
    int64_t capacity
    int32_t* ends               # of the next row
    int64_t* positions          # of the next row, or NULL
    int64_t* reserved_values
    int64_t rows_left

cdef int read_whole_messages(Stretch* stretch) noexcept nogil

cdef class MessageColumns:
    cdef readonly int64_t max_rows
    cdef readonly int64_t max_bytes
    cdef readonly int64_t row_count
    cdef readonly int64_t byte_count
    cdef readonly int session_id
    cdef bint busy
    cdef bint _has_positions
    cdef bint _has_reserved_values
    cdef Buffer _data
    cdef Buffer _offsets
    cdef Buffer _positions
    cdef Buffer _reserved_values

    cdef int _reset(self) except -1
    cdef int _grow_data(self, int64_t used, int64_t needed) except -1
