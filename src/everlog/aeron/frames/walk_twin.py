"""Walks Aeron frames into rows, in plain Python: the specification of ``_walk.pyx``, and its replacement if that was
not built.

A :class:`Walker` knows the geometry of a recording's frames; ``walk`` goes from header to header through a buffer and
adds rows to a :class:`~everlog.kernel.columns.RowSink`. Each header is checked against its position (term offset, term
id, stream id), so that bytes of a payload or of a damaged page are not mistaken for a frame.

A frame becomes a row only after the header that follows it was checked: a length damaged into a shorter or longer one
breaks the chain of headers, and the frame is then a fault, not a record.

Computed numbers of a row: 0 position of its first frame, 1 position after its last frame (aligned), 2 payload bytes,
3 flags (those of the first and last frame combined). Byte span 0 is the payload. Header fields are those of the first
frame.
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct

from everlog.aeron.frames.constants import (
    FLAG_BEGIN,
    FLAG_END,
    HEADER_LENGTH,
    MAX_FRAME_LENGTH,
    MAX_MESSAGE_BYTES,
    PAGE_SIZE,
    TYPE_DATA,
    TYPE_PADDING,
    UNFRAGMENTED,
    align,
)
from everlog.aeron.frames.position import term_id_of, term_offset_of
from everlog.kernel.columns_twin import RowSink
from everlog.kernel.crc32_twin import Crc32
from everlog.layout import Readable

POSITION, END_POSITION, LENGTH, FLAGS = range(4)
"""Indices of a row's computed numbers."""

END = 0
"""The stop position is reached, or the end of the final buffer."""
NEED_MORE = 1
"""The frame or message at ``at`` is not wholly in the buffer. ``at`` may lie after the buffer's end (padding is not
read)."""
FULL = 2
"""The sink has no room for the record at ``at``."""
UNSET = 3
"""No frame at ``at``: its length is zero."""
FRAME_LENGTH = 4
FRAME_TYPE = 5
TERM_OFFSET = 6
TERM_ID = 7
STREAM_ID = 8
CHECKSUM = 9
INCOMPLETE = 10
"""The message at ``at`` has no end; ``resume`` is the offset at which to continue."""
ORPHAN = 11
"""The frame at ``at`` belongs to a message whose beginning is missing; the next walk skips the rest of it."""
TOO_LONG = 12
"""The message at ``at`` is longer than ``MAX_MESSAGE_BYTES``."""
PADDING_DATA = 13
"""The padding frame at ``at`` is not empty: probably a data frame with a damaged type. ``resume`` is the offset at
which to continue."""

TORN = 14
"""The last frame, at ``at``, extends into an empty page: a crash cut off its write."""

MAX_CHECKED_PADDING = 64
_HEADER = Struct("<iBBHiiii")
_FLIPPED_BITS = 16


@dataclass(frozen=True, slots=True)
class Geometry:
    """The properties of a recording's frames. ``mtu_length`` is 0 if unknown. ``limit`` is the recording's end, -1 if
    unknown. ``plain_sessions`` are session ids whose frames have no checksum although the recording has checksums."""

    initial_term_id: int
    term_length: int
    stream_id: int
    mtu_length: int = 0
    limit: int = -1
    plain_sessions: tuple[int, ...] = ()


class Walker:
    """Walks one recording. With ``assemble`` a row is a whole message, else a frame. With ``crc`` it verifies each data
    frame's checksum."""

    def __init__(self, geometry: Geometry, assemble: bool, crc: Crc32 | None = None) -> None:
        self.geometry = geometry
        self.assemble = assemble
        self.crc = crc
        self.first = 0
        self.stop = 1 << 62
        self.at = 0
        self.resume = 0
        self.message_at = -1
        self.skipping = False

    def select(self, first: int, stop: int, skipping: bool) -> None:
        """Select records whose first frame is at ``first <= position < stop``. With ``skipping``, fragments before the
        first beginning of a message are skipped silently."""
        self.first, self.stop, self.skipping = first, stop, skipping

    def walk(self, data: Readable, start: int, end: int, base: int, final: bool, sink: RowSink) -> int:
        """Walk ``data[start:end]``; ``data[0]`` is at position ``base``. ``final``: nothing follows ``end``. Returns a
        status and sets ``at`` to the offset at which it stopped, ``message_at`` to the offset of a message that a fault
        cut short, or -1."""
        at = start
        self.message_at = -1
        while True:
            if base + at >= self.stop or (final and at >= end):
                return self._stopped(END, at)
            status, kind, flags, length = self._frame(data, at, end, base, final)
            if status:
                resume = self.resume
                self._stopped(status, at)
                self.resume = resume if status == PADDING_DATA else at
                return status
            after = at + align(length)
            if kind == TYPE_PADDING or base + at < self.first:
                self.skipping = self.skipping or kind != TYPE_PADDING
                at = after
                continue
            if not self.assemble or flags & UNFRAGMENTED == UNFRAGMENTED:
                if self.assemble and self._may_be_fragment(data, at, length, end, base):
                    return self._incomplete(at, after)
                if not sink.has_room(length - HEADER_LENGTH):
                    return self._stopped(FULL, at)
                self._add(sink, data, base, [(at, length, flags)])
                self.skipping = False
            elif flags & FLAG_BEGIN:
                status, after = self._message(data, at, end, base, final, sink)
                if status:
                    return status
                self.skipping = False
            elif not self.skipping:
                self.skipping = True
                return self._stopped(ORPHAN, at)
            at = after

    def find(self, data: Readable, start: int, end: int, base: int) -> int:
        """The offset of the first intact frame in ``data[start:end]``, or -1. If the buffer does not hold all of a
        frame, its header decides."""
        at = start + (-(base + start) % HEADER_LENGTH)
        while at + HEADER_LENGTH <= end:
            if self._check(data, at, base) == 0 and self._has_checksum(data, at, end):
                return at
            at += HEADER_LENGTH
        return -1

    def _stopped(self, status: int, at: int) -> int:
        self.at = self.resume = at
        return status

    def _incomplete(self, at: int, resume: int) -> int:
        self.skipping = True
        self.at, self.resume = at, resume
        return INCOMPLETE

    def _frame(self, data: Readable, at: int, end: int, base: int, final: bool) -> tuple[int, int, int, int]:
        """Status, type, flags and length of the frame at ``at``, after all checks."""
        if at + HEADER_LENGTH > end:
            return NEED_MORE, -1, 0, 0
        length, _, flags, kind, *_ = _HEADER.unpack_from(data, at)
        status = self._check(data, at, base)
        if status:
            return status, kind, flags, length
        after = at + align(length)
        if kind == TYPE_PADDING:
            checked = min(after, at + HEADER_LENGTH + MAX_CHECKED_PADDING)
            if checked > end:
                return NEED_MORE, kind, flags, length
            if any(data[at + HEADER_LENGTH : checked]):
                self.resume = after
                return PADDING_DATA, kind, flags, length
            return 0, kind, flags, length
        if after > end and self._swallows(data, at, end, base, length):
            return FRAME_LENGTH, kind, flags, length
        if after > end or (after + HEADER_LENGTH > end and not final):
            return NEED_MORE, kind, flags, length
        if self.crc is not None:
            if not self._has_checksum(data, at, end):
                return CHECKSUM, kind, flags, length
            if any(data[at + length : after]):  # the checksum includes the padding, so it does not prove the length
                return FRAME_LENGTH, kind, flags, length
        elif self._swallows(data, at, end, base, length) or self._is_cut(data, at, end, base, length):
            return FRAME_LENGTH, kind, flags, length
        elif self._is_torn(data, at, after, end, base):
            return TORN, kind, flags, length
        if 0 < self.geometry.mtu_length < length and not any(data[at + HEADER_LENGTH : after]):
            return FRAME_TYPE, kind, flags, length  # a padding frame whose type was damaged
        return 0, kind, flags, length

    def _check(self, data: Readable, at: int, base: int) -> int:
        """Status of the header at ``at``: 0 if it matches its position."""
        length, _, _, kind, term_offset, _, stream_id, term_id = _HEADER.unpack_from(data, at)
        geometry = self.geometry
        position = base + at
        expected_offset = term_offset_of(position, geometry.term_length)
        if length == 0:
            return UNSET
        if length < HEADER_LENGTH or expected_offset + align(length) > geometry.term_length:
            return FRAME_LENGTH
        if kind not in (TYPE_PADDING, TYPE_DATA):
            return FRAME_TYPE
        if kind == TYPE_DATA and length > MAX_FRAME_LENGTH:
            return FRAME_LENGTH
        if term_offset != expected_offset:
            return TERM_OFFSET
        if term_id != term_id_of(position, geometry.initial_term_id, geometry.term_length):
            return TERM_ID
        return 0 if stream_id == geometry.stream_id else STREAM_ID

    def _has_checksum(self, data: Readable, at: int, end: int) -> bool:
        """Whether the frame's checksum is right; true for padding, which has none, and for frames that end after the
        buffer."""
        length, _, _, kind, _, session_id, *_ = _HEADER.unpack_from(data, at)
        after = at + align(length)
        if self.crc is None or kind == TYPE_PADDING or after > end:
            return True
        checksum = self.crc.checksum(data, at + HEADER_LENGTH, after)
        return bool(checksum == session_id & 0xFFFFFFFF) or session_id in self.geometry.plain_sessions

    def _swallows(self, data: Readable, at: int, end: int, base: int, length: int) -> bool:
        """Whether a frame's length has one bit too many: without it, the length leads to an intact header inside."""
        for bit in range(_FLIPPED_BITS):
            shorter = align(length & ~(1 << bit))
            if not HEADER_LENGTH <= shorter < align(length) or at + shorter + HEADER_LENGTH > end:
                continue
            if self._check(data, at + shorter, base) == 0:
                return True
        return False

    def _is_cut(self, data: Readable, at: int, end: int, base: int, length: int) -> bool:
        """Whether a frame's length has one bit too few: no header follows it, but with the bit set the length leads to
        one, or to the end."""
        after = at + align(length)
        if after + HEADER_LENGTH > end or self._check(data, after, base) == 0 or self._resembles(data, after, base):
            return False
        geometry = self.geometry
        room = geometry.term_length - term_offset_of(base + at, geometry.term_length)
        longest = min(room, geometry.mtu_length or MAX_FRAME_LENGTH)
        for bit in range(_FLIPPED_BITS):
            longer = length | 1 << bit
            if align(longer) == align(length) or longer > longest:
                continue
            other = at + align(longer)
            if base + other == geometry.limit and any(data[after : after + HEADER_LENGTH]):
                return True
            if other + HEADER_LENGTH <= end and self._check(data, other, base) == 0:
                return True
        return False

    def _is_torn(self, data: Readable, at: int, after: int, end: int, base: int) -> bool:
        """Whether the last frame of a recording without a known end contains an empty page after the page of its
        header. The real archive does not start on such a frame."""
        if self.geometry.limit >= 0 or (after + HEADER_LENGTH <= end and any(data[after : after + 4])):
            return False
        page = at + PAGE_SIZE - (base + at) % PAGE_SIZE
        while page < after:
            if not any(data[page : min(page + PAGE_SIZE, after)]):
                return True
            page += PAGE_SIZE
        return False

    def _resembles(self, data: Readable, at: int, base: int) -> bool:
        """Whether at least two of three fields of a damaged header match its position."""
        _, _, _, _, term_offset, _, stream_id, term_id = _HEADER.unpack_from(data, at)
        geometry, position = self.geometry, base + at
        fits = term_offset == term_offset_of(position, geometry.term_length), stream_id == geometry.stream_id
        return bool(sum(fits) + (term_id == term_id_of(position, geometry.initial_term_id, geometry.term_length)) >= 2)

    def _may_be_fragment(self, data: Readable, at: int, length: int, end: int, base: int) -> bool:
        """Whether the end flag of the frame at ``at`` is likely wrong: the frame is as long as a fragment that is not
        the last, and a fragment follows."""
        after = at + align(length)
        if length != self.geometry.mtu_length or after + HEADER_LENGTH > end or self._check(data, after, base):
            return False
        _, _, flags, kind, *_ = _HEADER.unpack_from(data, after)
        return kind == TYPE_DATA and not flags & FLAG_BEGIN and self._may_share_message(data, at, after, base)

    def _may_share_message(self, data: Readable, at: int, after: int, base: int) -> bool:
        """Whether two consecutive frames can belong to the same message: not across terms, and not if their sessions
        differ (a message was left without its end, and the recording was extended). A checksum hides the sessions; the
        frames' flags then decide alone."""
        if term_offset_of(base + after, self.geometry.term_length) == 0:
            return False
        _, _, _, _, _, session_id, *_ = _HEADER.unpack_from(data, at)
        _, _, _, _, _, other, *_ = _HEADER.unpack_from(data, after)
        return self.crc is not None or bool(session_id == other)

    def _message(self, data: Readable, at: int, end: int, base: int, final: bool, sink: RowSink) -> tuple[int, int]:
        """Add the message whose first fragment is at ``at``. Returns a status and the offset after the message."""
        pieces: list[tuple[int, int, int]] = []
        here, total = at, 0
        while True:
            status, kind, flags, length = self._frame(data, here, end, base, final)
            if status == NEED_MORE:
                return self._stopped(NEED_MORE, at), at
            if status:
                self.message_at, resume = at, self.resume
                self._stopped(status, here)
                self.resume = resume if status == PADDING_DATA else here
                return status, here
            after = here + align(length)
            if kind == TYPE_PADDING:
                if term_offset_of(base + after, self.geometry.term_length):
                    return self._incomplete(at, here), here  # a lost part was replaced by padding
            else:
                if pieces and flags & FLAG_BEGIN:
                    before, before_length, _ = pieces[-1]
                    goes_on = before_length == self.geometry.mtu_length  # then this frame's flags are wrong
                    lost = goes_on and self.crc is None and self._may_share_message(data, before, here, base)
                    return self._incomplete(at, after if lost else here), here
                pieces.append((here, length, flags))
                total += length - HEADER_LENGTH
                if after - at > MAX_MESSAGE_BYTES:
                    self.skipping = True
                    self._stopped(TOO_LONG, at)
                    self.resume = after
                    return TOO_LONG, here
                if flags & FLAG_END:
                    break
            here = after
        if self._may_be_fragment(data, here, length, end, base):
            return self._incomplete(at, after), here
        if not sink.has_room(total):
            return self._stopped(FULL, at), at
        self._add(sink, data, base, pieces)
        return 0, after

    def _add(self, sink: RowSink, data: Readable, base: int, pieces: list[tuple[int, int, int]]) -> None:
        (first, _, first_flags), (last, last_length, last_flags) = pieces[0], pieces[-1]
        length = sum(piece[1] - HEADER_LENGTH for piece in pieces)
        values = [base + first, base + last + align(last_length), length, first_flags | last_flags]
        sink.add_row(data, first, values, [[(at + HEADER_LENGTH, at + count) for at, count, _ in pieces]])
