# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Prepares blocks of recordings for their replay, compiled. Twin:
:mod:`everlog.aeron.archive.service.replay.blocks_twin`, which documents it."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t
from libc.string cimport memcpy

from everlog.kernel._crc32 cimport Crc32

from everlog.aeron.archive.service.replay import blocks_twin as _twin

include "everlog/aeron/_layouts.pxi"

cdef enum:
    HEADER = DATA_HEADER_SIZE
    TYPE_PADDING = 0
    TYPE_DATA = 1
    NO_FRAME = -1
    DAMAGED = -2
    WRONG_CHECKSUM = -3


cdef inline int32_t load_i32(const uint8_t* at) noexcept nogil:
    cdef int32_t value
    memcpy(&value, at, 4)
    return value


cdef class Preparer:
    cdef int32_t session_id, stream_id
    cdef int64_t mtu_length, term_length
    cdef Crc32 crc

    def __init__(self, int32_t session_id, int32_t stream_id, int64_t mtu_length, int64_t term_length, Crc32 crc):
        self.session_id = session_id
        self.stream_id = stream_id
        self.mtu_length = mtu_length
        self.term_length = term_length
        self.crc = crc

    def prepare(self, uint8_t[::1] block not None, int64_t read, int64_t limit, int64_t term_offset, int32_t term_id):
        cdef int64_t length, follows = 0
        cdef bint has_checksums = self.crc is not None
        if read > block.shape[0]:
            raise _twin.unfit(read, block.shape[0])
        if read <= 0:
            return 0, 0
        with nogil:
            length = self.walk(&block[0], read, limit, term_offset, term_id, has_checksums, &follows)
        return length, follows

    cdef int64_t walk(
        self, uint8_t* block, int64_t read, int64_t limit, int64_t term_offset, int32_t term_id, bint has_checksums,
        int64_t* follows
    ) noexcept nogil:
        cdef int64_t at = 0, length, taken
        cdef uint16_t kind
        cdef uint8_t* frame
        while at < limit and at + HEADER <= read:
            frame = block + at
            length = load_i32(frame + DATA_HEADER_FRAME_LENGTH)
            taken = (length + 31) & ~<int64_t>31
            if length < HEADER:
                follows[0] = NO_FRAME
                return at
            if (
                load_i32(frame + DATA_HEADER_TERM_OFFSET) != term_offset + at
                or load_i32(frame + DATA_HEADER_TERM_ID) != term_id or taken > self.term_length - term_offset - at
            ):
                follows[0] = DAMAGED
                return at
            memcpy(&kind, frame + DATA_HEADER_TYPE, 2)
            if kind == TYPE_PADDING:
                follows[0] = length
                return at
            if kind != TYPE_DATA or length > self.mtu_length:
                follows[0] = DAMAGED
                return at
            if at + taken > read:
                return at
            if has_checksums and self.crc.update(0, frame + HEADER, taken - HEADER) != (
                <uint32_t>load_i32(frame + DATA_HEADER_SESSION_ID)
            ):
                follows[0] = WRONG_CHECKSUM
                return at
            memcpy(frame + DATA_HEADER_SESSION_ID, &self.session_id, 4)
            memcpy(frame + DATA_HEADER_STREAM_ID, &self.stream_id, 4)
            at += taken
        return at
