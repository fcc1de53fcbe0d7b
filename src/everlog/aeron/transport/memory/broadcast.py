"""The broadcast buffer for a driver's events to its clients: one process writes, many read, each at its own pace. A
reader that is too slow is lapped, and notices. Source: Agrona, BroadcastTransmitter, BroadcastReceiver,
CopyBroadcastReceiver and BroadcastBufferDescriptor.

The transmitter sets the intent counter to the end of its next write before it writes, and the tail after it. A reader
copies a record and then reads the intent counter: if the record may have been overwritten, it drops the copy.

Ordering, also on arm64: a release fence keeps the writes of the record after that of the intent counter; an acquire
fence keeps the reader's check of the intent counter after its copy; the tail is written with release and read with
acquire order.
"""

from __future__ import annotations

from everlog.aeron.frames.constants import align, is_power_of_two
from everlog.aeron.transport.format.layouts import BroadcastTrailer, RecordHeader
from everlog.errors import CorruptData, DataLost, UsageError
from everlog.kernel.memory import Memory
from everlog.kernel.watch import WordPair

HEADER_LENGTH = RecordHeader.size
RECORD_ALIGNMENT = HEADER_LENGTH
TRAILER_LENGTH = BroadcastTrailer.size
PADDING = -1
"""Type id of a record that fills the buffer up to its end."""
MIN_CAPACITY = 64
MAX_POSITION = 1 << 62
"""Limit for the tail; no driver reaches it in its lifetime."""
WHERE = "to-clients buffer"
_TYPE = RecordHeader.field("type_id").offset


def _capacity_of(memory: Memory) -> int:
    capacity = memory.length - TRAILER_LENGTH
    if not (is_power_of_two(capacity) and capacity >= MIN_CAPACITY):
        expected = f"a power of two, {MIN_CAPACITY} or more, plus {TRAILER_LENGTH}"
        raise CorruptData(WHERE, found=f"{memory.length} bytes", expected=expected)
    return capacity


class BroadcastTransmitter:
    """The only writer. The memory is a power of two of bytes plus a trailer of 128. Raises :class:`CorruptData` for
    another length."""

    def __init__(self, memory: Memory) -> None:
        self.capacity = _capacity_of(memory)
        self.max_message_length = self.capacity // 8
        self._memory = memory
        self._intent = self.capacity + BroadcastTrailer.field("tail_intent_counter").offset
        self._tail = self.capacity + BroadcastTrailer.field("tail_counter").offset
        self._latest = self.capacity + BroadcastTrailer.field("latest_counter").offset
        # Kept here too, where no reader can change it.
        self._position = memory.get_i64(self._tail) & (MAX_POSITION - RECORD_ALIGNMENT)

    def transmit(self, type_id: int, data: bytes) -> None:
        """Send a record to all readers. Raises :class:`UsageError` for a type below 1 or more than
        ``max_message_length`` bytes."""
        if type_id < 1:
            raise UsageError("record type", found=str(type_id), expected="1 or more")
        if len(data) > self.max_message_length:
            expected = f"at most {self.max_message_length} bytes"
            raise UsageError("record", found=f"{len(data)} bytes", expected=expected)
        memory = self._memory
        tail = self._position
        at = tail & (self.capacity - 1)
        length = HEADER_LENGTH + len(data)
        taken = align(length, RECORD_ALIGNMENT)
        padding = self.capacity - at if self.capacity - at < taken else 0
        memory.put_i64_release(self._intent, tail + padding + taken)
        memory.release_fence()
        if padding:
            memory.put_i32(at, padding)
            memory.put_i32(at + _TYPE, PADDING)
            tail, at = tail + padding, 0
        memory.put_i32(at, length)
        memory.put_i32(at + _TYPE, type_id)
        memory.write(at + HEADER_LENGTH, data)
        memory.put_i64_release(self._latest, tail)
        memory.put_i64_release(self._tail, tail + taken)
        self._position = tail + taken


class BroadcastReceiver:
    """A reader; begins with the last record written before it was created. Raises :class:`CorruptData` if the memory's
    length is not a power of two plus 128."""

    def __init__(self, memory: Memory) -> None:
        self.capacity = _capacity_of(memory)
        self.lapped_count = 0
        """How often records were lost because the transmitter lapped this reader."""
        self._memory = memory
        self._intent = self.capacity + BroadcastTrailer.field("tail_intent_counter").offset
        self._tail = self.capacity + BroadcastTrailer.field("tail_counter").offset
        self._latest = self.capacity + BroadcastTrailer.field("latest_counter").offset
        self._next = memory.get_i64_acquire(self._latest)
        self._seen = Memory.allocate(8)

    def listen(self) -> None:
        """Make :attr:`words` differ while there are records to receive, and equal otherwise, until the next record."""
        self._seen.put_i64(0, self._next)

    @property
    def words(self) -> WordPair:
        """The transmitter's position, and this reader's at the last :meth:`listen`."""
        return self._memory, self._tail, self._seen, 0

    def receive(self) -> tuple[int, bytes] | None:
        """The next record, type id and payload; ``None`` if none is available. Raises :class:`DataLost` if records were
        overwritten before they were read; the next call continues with the newest. Raises :class:`CorruptData` for an
        invalid record; the next call continues after it."""
        memory = self._memory
        tail = memory.get_i64_acquire(self._tail)
        if tail <= self._next:
            return None
        if not self._is_valid(self._next):
            raise self._lapped()
        found = self._record(self._next, tail)
        if found is not None and found[0] == PADDING:
            found = self._record(self._next, tail)
        memory.acquire_fence()
        if found is None or not self._is_valid(found[2]):
            raise self._lapped()
        return found[0], found[1]

    def _record(self, position: int, tail: int) -> tuple[int, bytes, int] | None:
        """Read the record at a position and step over it: type, payload and position; ``None`` if it was
        overwritten."""
        memory = self._memory
        at = position & (self.capacity - 1) & -RECORD_ALIGNMENT
        length = memory.get_i32(at)
        if not HEADER_LENGTH <= length <= self.capacity - at:
            memory.acquire_fence()
            if not self._is_valid(position):
                return None
            self._next = tail
            expected = f"{HEADER_LENGTH} to {self.capacity - at} bytes"
            raise CorruptData(WHERE, offset=at, found=f"a record of {length} bytes", expected=expected)
        self._next = position + align(length, RECORD_ALIGNMENT)
        data = memory.read(at + HEADER_LENGTH, length - HEADER_LENGTH)
        return memory.get_i32(at + _TYPE), data, position

    def _is_valid(self, position: int) -> bool:
        """Whether the record at the position is not overwritten yet."""
        return position + self.capacity > self._memory.get_i64_acquire(self._intent)

    def _lapped(self) -> DataLost:
        self.lapped_count += 1
        self._next = self._memory.get_i64_acquire(self._tail)
        found = "records that were overwritten before they were read"
        hint = "the client is too slow, or its process was stopped: restart it"
        return DataLost(WHERE, found=found, expected="each record read in time", hint=hint)
