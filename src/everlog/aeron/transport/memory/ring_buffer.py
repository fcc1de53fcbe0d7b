"""The many-to-one ring buffer for clients' commands to their driver: many processes write, one reads. Source: Agrona,
ManyToOneRingBuffer and RingBufferDescriptor.

A writer claims a record by moving the tail with compare-and-set. It first writes the length as a negative number, so
that the claim of a dead writer can be recognized and skipped (:meth:`ManyToOneRingBuffer.unblock`), then the payload,
then the true length with release order, which publishes the record. The reader zeroes what it has read before it moves
the head. So all bytes after the tail are zero, and a length that is not written yet is 0.

Ordering, also on arm64: a release store orders only the writes before it. So a release fence follows the negative
length; without it, parts of the payload could become visible before the length, and an unblocker that searches for the
next record would read them as a length.

Other processes write this memory, so every length is checked against the available space, and every offset is masked,
before anything is read.
"""

from __future__ import annotations

from collections.abc import Callable

from everlog.aeron.frames.constants import align, is_power_of_two
from everlog.aeron.transport.format.layouts import RecordHeader, RingBufferTrailer
from everlog.errors import CorruptData, UsageError
from everlog.kernel.memory import Memory

HEADER_LENGTH = RecordHeader.size
RECORD_ALIGNMENT = HEADER_LENGTH
TRAILER_LENGTH = RingBufferTrailer.size
PADDING = -1
"""Type id of a record that fills the buffer up to its end."""
MIN_CAPACITY = 8
MAX_POSITION = 1 << 62
"""Limit for the tail; no driver reaches it in its lifetime."""
NO_LIMIT = 1 << 31
WHERE = "to-driver buffer"
_TYPE = RecordHeader.field("type_id").offset


class ManyToOneRingBuffer:
    """The ring buffer over a power of two of bytes plus a trailer of 768. Raises :class:`CorruptData` for another
    length."""

    def __init__(self, memory: Memory) -> None:
        capacity = memory.length - TRAILER_LENGTH
        if not (is_power_of_two(capacity) and capacity >= MIN_CAPACITY):
            expected = f"a power of two, {MIN_CAPACITY} or more, plus {TRAILER_LENGTH}"
            raise CorruptData(WHERE, found=f"{memory.length} bytes", expected=expected)
        self.capacity = capacity
        self.max_message_length = 0 if capacity == MIN_CAPACITY else max(HEADER_LENGTH, capacity >> 3)
        self._memory = memory
        self._mask = capacity - 1
        self._tail = capacity + RingBufferTrailer.field("tail_position").offset
        self._head_cache = capacity + RingBufferTrailer.field("head_cache_position").offset
        self._head = capacity + RingBufferTrailer.field("head_position").offset
        self._correlation = capacity + RingBufferTrailer.field("correlation_counter").offset
        self._heartbeat = capacity + RingBufferTrailer.field("consumer_heartbeat").offset

    @property
    def consumer_heartbeat(self) -> int:
        """The reader's last heartbeat, in milliseconds since 1970."""
        return self._memory.get_i64_acquire(self._heartbeat)

    @consumer_heartbeat.setter
    def consumer_heartbeat(self, now_ms: int) -> None:
        self._memory.put_i64_release(self._heartbeat, now_ms)

    @property
    def producer_position(self) -> int:
        """Bytes ever claimed."""
        return self._memory.get_i64_acquire(self._tail)

    @property
    def consumer_position(self) -> int:
        """Bytes ever read."""
        return self._memory.get_i64_acquire(self._head)

    @property
    def words(self) -> tuple[Memory, int, Memory, int]:
        """Both positions; they are equal if nothing is unread."""
        return self._memory, self._tail, self._memory, self._head

    @property
    def size(self) -> int:
        """Bytes claimed and not read yet."""
        after = self.consumer_position
        while True:
            before, tail = after, self.producer_position
            after = self.consumer_position
            if before == after:
                return min(max(tail - after, 0), self.capacity)

    def next_correlation_id(self) -> int:
        """Take a correlation id, unique among all clients and requests of this driver."""
        return self._memory.get_and_add_i64(self._correlation, 1)

    # Writing, for any number of processes at a time

    def write(self, type_id: int, data: bytes) -> bool:
        """Write a record. Returns ``False`` if the buffer is full. Raises :class:`UsageError` for a type below 1 or a
        record over ``max_message_length``, :class:`CorruptData` for an invalid tail."""
        if type_id < 1:
            raise UsageError("record type", found=str(type_id), expected="1 or more")
        if len(data) > self.max_message_length:
            expected = f"at most {self.max_message_length} bytes"
            raise UsageError("record", found=f"{len(data)} bytes", expected=expected)
        memory, length = self._memory, len(data) + HEADER_LENGTH
        at = self._claim(align(length, RECORD_ALIGNMENT))
        if at is None:
            return False
        memory.put_i32_release(at, -length)
        memory.release_fence()
        memory.write(at + HEADER_LENGTH, data)
        memory.put_i32(at + _TYPE, type_id)
        memory.put_i32_release(at, length)
        return True

    def _claim(self, required: int) -> int | None:
        """Claim bytes and return their offset. If they don't fit before the buffer's end, the rest is filled with
        padding, also if the record itself does not fit after that."""
        memory, capacity = self._memory, self.capacity
        head = memory.get_i64_acquire(self._head_cache)
        while True:
            tail = self._checked_tail()
            if required > capacity - (tail - head):
                head = memory.get_i64_acquire(self._head)
                if required > capacity - (tail - head):
                    return None
                memory.put_i64_release(self._head_cache, head)
            tail_at = tail & self._mask
            at: int | None = tail_at
            padding, claimed = 0, required
            if required > capacity - tail_at:
                padding, at = capacity - tail_at, 0
                if required > head & self._mask:
                    head = memory.get_i64_acquire(self._head)
                    if required > head & self._mask:
                        at, claimed = None, 0
                    memory.put_i64_release(self._head_cache, head)
            if memory.compare_and_set_i64(self._tail, tail, tail + claimed + padding):
                break
        if padding:
            self._pad(tail_at, padding)
        return at

    def _checked_tail(self) -> int:
        tail = self._memory.get_i64_acquire(self._tail)
        if not 0 <= tail <= MAX_POSITION or tail % RECORD_ALIGNMENT:
            expected = f"0 to {MAX_POSITION}, a multiple of {RECORD_ALIGNMENT}"
            raise CorruptData(WHERE, offset=self._tail, found=f"tail {tail}", expected=expected)
        return tail

    def _pad(self, at: int, length: int) -> None:
        memory = self._memory
        memory.put_i32_release(at, -length)
        memory.release_fence()
        memory.put_i32(at + _TYPE, PADDING)
        memory.put_i32_release(at, length)

    # Reading, for a single process

    def read(self, handler: Callable[[int, bytes], None], limit: int = NO_LIMIT) -> int:
        """Pass at most ``limit`` records, type id and payload, to ``handler``. Returns their number. One call reads up
        to the buffer's end, the next from its start. Records count as read when the call ends, also if the handler
        raises. Raises :class:`CorruptData` for an invalid record length; then everything claimed is skipped, because
        the start of the next record is unknown."""
        memory = self._memory
        head = memory.get_i64(self._head) & -RECORD_ALIGNMENT
        start = head & self._mask
        room = self.capacity - start
        done = count = 0
        try:
            while done < room and count < limit:
                at = start + done
                length = memory.get_i32_acquire(at)
                if length <= 0:
                    break
                if not HEADER_LENGTH <= length <= room - done:
                    expected = f"{HEADER_LENGTH} to {room - done}"
                    done = self._claimed_up_to(head, room)
                    raise CorruptData(WHERE, offset=at, found=f"a record of {length} bytes", expected=expected)
                done += align(length, RECORD_ALIGNMENT)
                type_id = memory.get_i32(at + _TYPE)
                if type_id != PADDING:
                    count += 1
                    handler(type_id, memory.read(at + HEADER_LENGTH, length - HEADER_LENGTH))
        finally:
            if done:
                memory.zero(start, done)
                memory.put_i64_release(self._head, _wrapped(head + done))
        return count

    def _claimed_up_to(self, head: int, room: int) -> int:
        """Bytes from the head to the tail; to the buffer's end if that is nearer or the tail is invalid."""
        claimed = self._memory.get_i64_acquire(self._tail) - head
        return room if claimed <= 0 or claimed % RECORD_ALIGNMENT else min(claimed, room)

    def unblock(self) -> bool:
        """Turn the claim at the head, whose writer seems to have died, into padding, so that reading continues after
        it. Returns whether it did. Call it if the head has not moved for long although records are waiting."""
        memory = self._memory
        head, tail = memory.get_i64_acquire(self._head), memory.get_i64_acquire(self._tail)
        if head == tail:
            return False
        at = head & self._mask & -RECORD_ALIGNMENT
        length = memory.get_i32_acquire(at)
        if length < 0:
            return self._unblocked(at, min(-length, self.capacity - at))
        if length > 0:
            return False
        # The writer died before it wrote the length: the record reaches up to the next one that has a length.
        tail_at = tail & self._mask & -RECORD_ALIGNMENT
        for next_at in range(at + RECORD_ALIGNMENT, tail_at if tail_at > at else self.capacity, RECORD_ALIGNMENT):
            if memory.get_i32_acquire(next_at):
                return self._is_zero(at, next_at) and self._unblocked(at, next_at - at)
        return False

    def _is_zero(self, start: int, end: int) -> bool:
        """Whether all lengths are still zero: a slow writer may have written one since."""
        return not any(self._memory.get_i32_acquire(at) for at in range(end - RECORD_ALIGNMENT, start - 1, -8))

    def _unblocked(self, at: int, length: int) -> bool:
        self._memory.put_i32(at + _TYPE, PADDING)
        self._memory.put_i32_release(at, length)
        return True


def _wrapped(position: int) -> int:
    """Wrap to a signed 64-bit number."""
    return (position + (1 << 63)) % (1 << 64) - (1 << 63)
