# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Prepares blocks of recordings for their replay, compiled. Twin:
:mod:`everlog.aeron.archive.service.replay.blocks_twin`, which documents it."""

from libc.stdint cimport int32_t, int64_t, uint16_t
from libc.string cimport memcpy

include "everlog/aeron/_layouts.pxi"

cdef enum:
    TYPE_PAD = 0
    ALIGNMENT = 32


cdef inline int32_t load_i32(const unsigned char* at) noexcept nogil:
    cdef int32_t value
    memcpy(&value, at, 4)
    return value


cdef int64_t prepare(
    unsigned char* block, int64_t read, int64_t limit, int32_t session_id, int32_t stream_id, int64_t* follows
) noexcept nogil:
    cdef int64_t at = 0, length, aligned
    cdef uint16_t kind
    follows[0] = 0
    while at < limit and at + DATA_HEADER_SIZE <= read:
        length = load_i32(block + at + DATA_HEADER_FRAME_LENGTH)
        if length < DATA_HEADER_SIZE:
            follows[0] = -1
            return at
        memcpy(&kind, block + at + DATA_HEADER_TYPE, 2)
        if kind == TYPE_PAD:
            follows[0] = length
            return at
        aligned = (length + ALIGNMENT - 1) & ~(<int64_t>ALIGNMENT - 1)
        if at + aligned > read:
            return at
        memcpy(block + at + DATA_HEADER_SESSION_ID, &session_id, 4)
        memcpy(block + at + DATA_HEADER_STREAM_ID, &stream_id, 4)
        at += aligned
    return at


def prepare_block(unsigned char[::1] block not None, int64_t read, int64_t limit, int32_t session_id, int32_t stream_id):
    cdef int64_t length, follows = 0
    if read > block.shape[0]:
        raise ValueError(f"read {read} bytes into a block of {block.shape[0]}")
    if read <= 0:
        return 0, 0
    with nogil:
        length = prepare(&block[0], read, limit, session_id, stream_id, &follows)
    return length, follows
