"""Walkers in plain Python: the specification of ``_walk.pyx``, used if that is not built.

A :class:`RecordWalker` walks the records of a ``.dat`` file, an :class:`IndexWalker` those of an ``.idx`` file. Each
reads only ``data[start:end]``, stops before the first record that it can't accept, and returns the reason, a number of
:mod:`everlog.nats_streaming.reading.walk_status`; ``at`` is then that record's offset in ``data``. The caller decides
how to handle damage."""

from __future__ import annotations

from everlog.kernel.columns_twin import RowSink
from everlog.kernel.crc32_twin import Crc32
from everlog.layout import Readable
from everlog.nats_streaming.format.layouts import MAX_RECORD_BYTES, RECORD_OVERHEAD, IndexRecord, RecordHeader
from everlog.nats_streaming.format.protobuf import LENGTH, VARINT, BadMessage, fields
from everlog.nats_streaming.reading.walk_status import (
    BAD_CRC,
    BAD_MESSAGE,
    BREAK,
    FULL,
    MORE,
    NO_BOUND,
    OUT_OF_ORDER,
    TOO_LARGE,
    ZEROS,
)

TIMESTAMP, LENGTH_OF_DATA, SEQUENCE, SLICE, OFFSET, SIZE = range(6)
"""Computed numbers of a row: nanoseconds since 1970, bytes of the data, sequence, slice number, offset of the
record's header in the file, bytes of the record's payload (the whole protobuf message)."""
DATA, SUBJECT, REPLY = range(3)
"""Byte spans of a row; an absent field is an empty span."""

HEADER_BYTES = RecordHeader.size
_WIRE_TYPES = {1: VARINT, 2: LENGTH, 3: LENGTH, 4: LENGTH, 5: VARINT}
_CHECKED_BYTES = IndexRecord.crc.offset  # type: ignore[attr-defined]
_MAX_OFFSET = 1 << 62


def parse_message(data: Readable, start: int, end: int) -> tuple[int, int, list[tuple[int, int]]] | None:
    """Return sequence, timestamp and the spans of data, subject and reply; ``None`` if the bytes are not a message."""
    sequence = timestamp = 0
    spans = [(start, start)] * 3
    try:
        for number, wire, first, second in fields(data, start, end):
            if wire != _WIRE_TYPES.get(number, wire):
                return None
            if number == 1:
                sequence = first
            elif number == 5:
                timestamp = first
            elif number in (2, 3, 4):
                spans[(SUBJECT, REPLY, DATA)[number - 2]] = (first, second)
    except BadMessage:
        return None
    if not 0 < sequence < 1 << 63:
        return None
    return sequence, timestamp - (1 << 64) if timestamp >> 63 else timestamp, spans


class RecordWalker:
    """Walks the records of a ``.dat`` file and adds them to ``sink``.

    ``crc`` checks each payload; ``None`` checks none. Records with a sequence below ``first_sequence``, or from
    ``below_sequence`` on, are checked but neither added nor counted. ``last_sequence`` is that of the last added record
    (0: none yet); sequences must rise. ``count`` and ``byte_count`` cover the added records, with bytes as the server
    counts them (40 more than each payload)."""

    def __init__(self, sink: RowSink, crc: Crc32 | None, slice_number: int) -> None:
        self.sink = sink
        self.crc = crc
        self.slice_number = slice_number
        self.first_sequence = 0
        self.below_sequence = NO_BOUND
        self.last_sequence = 0
        self.at = 0
        self.needed = 0
        self.found_sequence = 0
        self.count = 0
        self.byte_count = 0
        self.first_found = 0
        self.first_timestamp = 0
        self.max_timestamp = 0

    def walk(self, data: Readable, start: int, end: int, base: int) -> int:
        """Walk ``data[start:end]``; ``base`` is the file offset of ``data[0]``."""
        if not 0 <= start <= end <= len(data):
            raise ValueError(f"{start} to {end} is outside of {len(data)} bytes")
        self.at = start
        while True:
            at = self.at
            self.needed = HEADER_BYTES
            if end - at < HEADER_BYTES:
                return MORE
            header = RecordHeader.unpack_from(data, at)
            status = self._record(data, at, end, base, header.values[0], header.values[1])
            if status >= 0:
                return status
            self.at = at + HEADER_BYTES + header.values[0]

    def _record(self, data: Readable, at: int, end: int, base: int, size: int, crc: int) -> int:
        if size == 0 and crc == 0:
            return ZEROS
        if size > MAX_RECORD_BYTES:
            return TOO_LARGE
        self.needed = HEADER_BYTES + size
        begin = at + HEADER_BYTES
        if size > end - begin:
            return MORE
        if self.crc is not None and self.crc.checksum(data, begin, begin + size) != crc:
            return BAD_CRC
        message = parse_message(data, begin, begin + size)
        if message is None:
            return BAD_MESSAGE
        sequence, timestamp, spans = message
        self.found_sequence = sequence
        if not self.first_sequence <= sequence < self.below_sequence:
            return -1
        if sequence <= self.last_sequence:
            return OUT_OF_ORDER
        if not self.sink.has_room(sum(b - a for a, b in spans)):
            return FULL
        length = spans[DATA][1] - spans[DATA][0]
        values = (timestamp, length, sequence, self.slice_number, base + at, size)
        self.sink.add_row(data, at, values, [[span] for span in spans])
        self._count(sequence, timestamp, size)
        return -1

    def _count(self, sequence: int, timestamp: int, size: int) -> None:
        if self.count == 0:
            self.first_found, self.first_timestamp, self.max_timestamp = sequence, timestamp, timestamp
        self.last_sequence = sequence
        self.max_timestamp = max(self.max_timestamp, timestamp)
        self.count += 1
        self.byte_count += size + RECORD_OVERHEAD


class IndexWalker:
    """Walks the records of an ``.idx`` file: checks them, adds up totals, and adds them to ``sink`` if given (frame
    columns: fields of :class:`IndexRecord`).

    ``next_offset`` is where the record after the last one starts in the ``.dat`` file. After :data:`BREAK` the caller
    sets it to the entry's offset and continues."""

    def __init__(self, sink: RowSink | None, crc: Crc32 | None) -> None:
        self.sink = sink
        self.crc = crc
        self.at = 0
        self.next_offset = 4
        self.first_sequence = 0
        self.last_sequence = 0
        self.first_timestamp = 0
        self.max_timestamp = 0
        self.last_offset = 0
        self.last_size = 0
        self.count = 0
        self.byte_count = 0

    def walk(self, data: Readable, start: int, end: int) -> int:
        """Walk ``data[start:end]``."""
        if not 0 <= start <= end <= len(data):
            raise ValueError(f"{start} to {end} is outside of {len(data)} bytes")
        self.at = start
        while True:
            if end - self.at < IndexRecord.size:
                return MORE
            status = self._entry(data, self.at)
            if status >= 0:
                return status
            self.at += IndexRecord.size

    def _entry(self, data: Readable, at: int) -> int:
        values = IndexRecord.unpack_from(data, at).values
        if not any(values):
            return ZEROS
        sequence, offset, timestamp, size, crc = values
        if self.crc is not None and self.crc.checksum(data, at, at + _CHECKED_BYTES) != crc:
            return BAD_CRC
        if size > MAX_RECORD_BYTES or size == 0:
            return TOO_LARGE
        if not self.last_sequence < sequence < 1 << 63 or not self.next_offset <= offset <= _MAX_OFFSET:
            return OUT_OF_ORDER
        if offset != self.next_offset:
            return BREAK
        if self.sink is not None:
            if not self.sink.has_room(0):
                return FULL
            self.sink.add_row(data, at, (), [])
        if self.count == 0:
            self.first_sequence, self.first_timestamp, self.max_timestamp = sequence, timestamp, timestamp
        self.max_timestamp = max(self.max_timestamp, timestamp)
        self.last_sequence, self.last_offset, self.last_size = sequence, offset, size
        self.next_offset = offset + HEADER_BYTES + size
        self.count += 1
        self.byte_count += size + RECORD_OVERHEAD
        return -1
