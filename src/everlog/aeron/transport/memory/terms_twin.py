"""Loops over the frames of a term, for the driver and its clients: send, insert, find gaps, unblock and clean.

A term is memory that holds consecutive frames, each at a multiple of 32. A frame exists once its length, its first four
bytes, is above zero: the length is written last, with release, and read first, with acquire. It is negative while a
publisher writes the frame, and zero where nothing has been written. A padding frame's length is the space it takes, but
only its header is ever sent.

Terms are shared with other processes, so every length is checked against the rest of the term: a frame that does not
fit, or is shorter than a header, counts as missing. Offsets are term offsets, multiples of 32.

Source: TermScanner, TermBlockScanner, TermRebuilder, TermGapScanner, TermGapFiller, TermUnblocker, LogBufferUnblocker,
LogBufferDescriptor (rotateLog), IpcPublication (cleanBufferTo). This is the readable twin of ``_terms.pyx``.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Final

from everlog.aeron.frames.constants import FRAME_ALIGNMENT, HEADER_LENGTH, TYPE_PADDING, align
from everlog.aeron.frames.position import wrap_int32
from everlog.aeron.layouts import DataHeader
from everlog.aeron.transport.format.layouts import LogMetaData
from everlog.errors import UsageError
from everlog.kernel.memory import Memory
from everlog.layout import Readable

INSERTED: Final = 1
PRESENT: Final = 0
INVALID: Final = -1

NO_ACTION: Final = 0
UNBLOCKED: Final = 1
UNBLOCKED_TO_END: Final = 2

TERM_COUNT: Final = 3
_TAILS: Final = LogMetaData.field("tail_0").offset
_ACTIVE_TERM_COUNT: Final = LogMetaData.field("active_term_count").offset
_DEFAULT_HEADER: Final = LogMetaData.field("default_header").offset
_TYPE: Final = DataHeader.field("type").offset
_TERM_OFFSET: Final = DataHeader.field("term_offset").offset
_TERM_ID: Final = DataHeader.field("term_id").offset


def scan_for_availability(term: Memory, offset: int, max_length: int) -> tuple[int, int]:
    """Find whole frames from ``offset`` on that fit into one datagram of at most ``max_length`` bytes. Returns their
    length in bytes, and the bytes of padding to skip after them. If the first frame is too long, the first number is
    its aligned length, negated.

    Only the header of a padding frame is sent, and it ends the scan.
    """
    limit = min(max_length, _rest(term, offset))
    available = padding = 0
    while not padding and available < limit:
        length = _frame_length(term, offset + available)
        if length <= 0:
            break
        if _is_padding(term, offset + available):
            padding = length - HEADER_LENGTH
            length = HEADER_LENGTH
        if available + length > limit:
            return (available or -length), 0
        available += length
    return available, padding


def scan_datagrams(
    term: Memory, offset: int, max_length: int, mtu: int, ends: Memory | memoryview | array[int]
) -> tuple[int, int, int, bool]:
    """Divide the frames from ``offset`` on, at most ``max_length`` bytes, into datagrams of whole frames of at most
    ``mtu`` bytes each.

    Writes the term offset at which each datagram ends to ``ends``, a buffer of int64; the first one begins at
    ``offset``. Returns the number of datagrams, at most the length of ``ends``; their total bytes; the bytes of padding
    to skip after the last one; and whether a frame fits neither into ``max_length`` nor into the MTU.
    """
    room = (ends.view() if isinstance(ends, Memory) else memoryview(ends)).cast("B").cast("q")
    limit = min(max_length, _rest(term, offset))
    count = padding = 0
    at = offset
    while count < len(room) and at - offset < limit and not padding:
        available, padding = scan_for_availability(term, at, min(mtu, limit - (at - offset)))
        if available <= 0:
            return count, at - offset, 0, available < 0
        at += available
        room[count] = at
        count += 1
    return count, at - offset, padding, False


def insert(term: Memory, term_offset: int, packet: Memory | Readable, start: int, length: int) -> int:
    """Copy a received datagram's frames, ``length`` bytes of ``packet`` from ``start`` on, to ``term_offset``. Returns
    :data:`INSERTED`. The first frame's length is written last, so that a reader sees all of the frames or none.

    Writes nothing and returns :data:`PRESENT` if a frame exists there already, or :data:`INVALID` for a datagram that
    no publisher sends: its frames' lengths do not add up to the datagram's, or a frame exceeds the term, follows
    padding, or has another place, term, session or stream than the first one implies.
    """
    data = packet.view() if isinstance(packet, Memory) else memoryview(packet).cast("B")
    if start < 0 or length < 0 or start > len(data) - length:
        raise IndexError(f"{length} bytes at {start} of a packet of {len(data)}")
    frames = bytes(data[start : start + length])
    if not _are_frames(frames, term_offset, term.length):
        return INVALID
    if term.get_i32(term_offset) != 0:
        return PRESENT
    term.write(term_offset + 8, frames[8:])
    term.put_i64_release(term_offset, int.from_bytes(frames[:8], "little", signed=True))
    return INSERTED


def _are_frames(frames: bytes, term_offset: int, term_length: int) -> bool:
    """Whether frames follow each other as in a publisher's datagram."""
    if term_offset < 0 or term_offset % FRAME_ALIGNMENT or len(frames) > term_length - term_offset:
        return False
    at, is_last = 0, False
    first = frames[_TERM_OFFSET + 4 : _TERM_ID + 4]
    while at < len(frames):
        if is_last or len(frames) - at < HEADER_LENGTH:
            return False
        header = DataHeader.unpack_from(frames, at)
        if header.frame_length < HEADER_LENGTH or header.term_offset != term_offset + at:
            return False
        if frames[at + _TERM_OFFSET + 4 : at + _TERM_ID + 4] != first:
            return False
        if header.type == TYPE_PADDING:
            is_last = True
            if align(header.frame_length) > term_length - term_offset - at:
                return False
            at += HEADER_LENGTH
        else:
            at += align(header.frame_length)
    return at == len(frames) and at > 0


def scan_for_gap(term: Memory, offset: int, limit: int) -> tuple[int, int]:
    """Find the first gap. Returns the end of the contiguous frames from ``offset`` on, and the missing bytes from there
    to the next frame or ``limit``: 0 if the frames reach ``limit``."""
    limit = min(limit, offset + _rest(term, offset))
    at = offset
    while True:
        length = _frame_length(term, at) if at <= term.length - HEADER_LENGTH else 0
        if length <= 0:
            break
        at += length
        if at >= limit:
            break
    gap = at
    if at < limit:
        at += HEADER_LENGTH
        while at < limit and term.get_i32_acquire(at) == 0:
            at += HEADER_LENGTH
    return gap, at - gap


def scan_block(term: Memory, offset: int, limit: int) -> int:
    """Return the end of the whole frames from ``offset`` on, at most ``limit``. A padding frame ends the block before
    it; at ``offset``, it is a block of its own, however long."""
    limit = min(limit, offset + _rest(term, offset))
    at = offset
    while at < limit:
        length = _frame_length(term, at)
        if length <= 0:
            break
        if _is_padding(term, at):
            if at == offset:
                at += length
            break
        if at + length > limit:
            break
        at += length
    return at


def try_fill_gap(metadata: Memory, term: Memory, term_id: int, gap_offset: int, gap_length: int) -> bool:
    """Fill a gap with padding. Returns false if a frame has arrived there."""
    _check_range(term, gap_offset, gap_length)
    at = gap_offset + gap_length - FRAME_ALIGNMENT
    while at >= gap_offset:
        if term.get_i32(at) != 0:
            return False
        at -= FRAME_ALIGNMENT
    _put_padding(metadata, term, gap_offset, term_id, gap_length)
    return True


def unblock_term(metadata: Memory, term: Memory, blocked_offset: int, tail_offset: int, term_id: int) -> int:
    """Turn a frame that its publisher claimed and did not finish into padding.

    A negative length is that of the claim. Otherwise the claim extends to the next frame, or to the term's end if the
    tail is there (:data:`UNBLOCKED_TO_END`). Does nothing (:data:`NO_ACTION`) if the frame is complete or the claim's
    end can't be determined.
    """
    _check_range(term, blocked_offset, FRAME_ALIGNMENT)
    length = term.get_i32_acquire(blocked_offset)
    if length < 0:
        if align(-length) > term.length - blocked_offset or -length < HEADER_LENGTH:
            return NO_ACTION
        _put_padding(metadata, term, blocked_offset, term_id, -length)
        return UNBLOCKED
    if length > 0:
        return NO_ACTION
    at = blocked_offset + FRAME_ALIGNMENT
    while at < min(tail_offset, term.length):
        if term.get_i32_acquire(at) != 0:
            # Its publisher may have written the frames before it since they were checked.
            if _is_zero(term, blocked_offset, at):
                _put_padding(metadata, term, blocked_offset, term_id, at - blocked_offset)
                return UNBLOCKED
            return NO_ACTION
        at += FRAME_ALIGNMENT
    if at == term.length and term.get_i32_acquire(blocked_offset) == 0:
        _put_padding(metadata, term, blocked_offset, term_id, at - blocked_offset)
        return UNBLOCKED_TO_END
    return NO_ACTION


def unblock(terms: Sequence[Memory], metadata: Memory, blocked_position: int, term_length: int) -> bool:
    """Unblock readers at ``blocked_position``, where a publisher did not finish a claim, or filled a term and did not
    rotate to the next. Returns whether anything was done."""
    if blocked_position < 0 or blocked_position % FRAME_ALIGNMENT:
        raise UsageError("position", found=str(blocked_position), expected="a multiple of 32")
    blocked_count, blocked_offset = divmod(blocked_position, term_length)
    active_count = metadata.get_i32_acquire(_ACTIVE_TERM_COUNT)
    if active_count == blocked_count - 1 and blocked_offset == 0:
        tail = metadata.get_i64_acquire(_TAILS + 8 * (active_count % TERM_COUNT))
        rotate_log(metadata, active_count, tail >> 32)
        return True
    index = blocked_count % TERM_COUNT
    tail = metadata.get_i64_acquire(_TAILS + 8 * index)
    tail_offset = min(tail & 0xFFFFFFFF, term_length)
    outcome = unblock_term(metadata, terms[index], blocked_offset, tail_offset, tail >> 32)
    if outcome == UNBLOCKED_TO_END:
        rotate_log(metadata, blocked_count, tail >> 32)
    return outcome != NO_ACTION


def rotate_log(metadata: Memory, term_count: int, term_id: int) -> bool:
    """Make the next term the active one. Returns false if another thread or process has done so. Sets the term's raw
    tail first, which still has the id of the term that used the same memory three terms before."""
    next_id = wrap_int32(term_id + 1)
    at = _TAILS + 8 * ((term_count + 1) % TERM_COUNT)
    while True:
        tail = metadata.get_i64_acquire(at)
        if tail >> 32 != wrap_int32(next_id - TERM_COUNT) or metadata.compare_and_set_i64(at, tail, next_id << 32):
            break
    return metadata.compare_and_set_i32(_ACTIVE_TERM_COUNT, term_count, wrap_int32(term_count + 1))


def producer_position(metadata: Memory, term_length: int, initial_term_id: int) -> int:
    """Return the end of the publishers' claims. A tail may be beyond its term: then it is the term's end."""
    index = metadata.get_i32_acquire(_ACTIVE_TERM_COUNT) % TERM_COUNT
    tail = metadata.get_i64_acquire(_TAILS + 8 * index)
    term_count = wrap_int32((tail >> 32) - initial_term_id)
    return term_count * term_length + min(tail & 0xFFFFFFFF, term_length)


def clean(term: Memory, offset: int, length: int) -> None:
    """Zero part of a term before the publishers' limit lets them write there. The first eight bytes are zeroed last,
    with release: a process that sees the first length as zero sees the whole part as zeros."""
    if length == 0:
        return
    _check_range(term, offset, length)
    term.zero(offset + 8, length - 8)
    term.put_i64_release(offset, 0)


def _frame_length(term: Memory, at: int) -> int:
    """The aligned length of the frame there; 0 if there is none or it can't be one."""
    length = term.get_i32_acquire(at)
    aligned = align(length)
    return aligned if length >= HEADER_LENGTH and aligned <= term.length - at else 0


def _is_padding(term: Memory, at: int) -> bool:
    return int.from_bytes(term.read(at + _TYPE, 2), "little") == TYPE_PADDING


def _put_padding(metadata: Memory, term: Memory, at: int, term_id: int, length: int) -> None:
    """Write a padding frame with the stream's header, its length last."""
    header = bytearray(metadata.read(_DEFAULT_HEADER, HEADER_LENGTH))
    header[_TYPE : _TYPE + 2] = TYPE_PADDING.to_bytes(2, "little")
    header[_TERM_OFFSET : _TERM_OFFSET + 4] = at.to_bytes(4, "little")
    header[_TERM_ID : _TERM_ID + 4] = term_id.to_bytes(4, "little", signed=True)
    term.write(at + 4, header[4:])
    term.put_i32_release(at, length)


def _is_zero(term: Memory, start: int, end: int) -> bool:
    at = end - FRAME_ALIGNMENT
    while at >= start:
        if term.get_i32_acquire(at) != 0:
            return False
        at -= FRAME_ALIGNMENT
    return True


def _rest(term: Memory, offset: int) -> int:
    """Bytes of the term after an offset."""
    _check_range(term, offset, 0)
    return term.length - offset


def _check_range(term: Memory, offset: int, length: int) -> None:
    is_aligned = (offset | length | term.length) % FRAME_ALIGNMENT == 0
    if not is_aligned or offset < 0 or length < 0 or offset > term.length - length:
        raise IndexError(f"{length} bytes at {offset} of a term of {term.length}, by {FRAME_ALIGNMENT}")
