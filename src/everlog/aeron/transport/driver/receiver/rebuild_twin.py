"""Tracks how far an image is complete and how far its subscribers have read, for each image in every cycle. Python twin
of :mod:`everlog.aeron.transport.driver.receiver._rebuild`.

Subscribers' positions are counters in shared memory, which any process may have written. A position above the highest
received one is capped at it, a position that goes back is ignored, and none of them determines where anything is
written. Frame lengths are checked against the rest of the term.

Source: PublicationImage (trackRebuild, cleanBufferTo, joinPosition), LossDetector (scan), TermGapScanner.
"""

from __future__ import annotations

from collections.abc import Sequence

from everlog.aeron.frames.constants import FRAME_ALIGNMENT, HEADER_LENGTH, align, is_power_of_two
from everlog.aeron.transport.driver.subscriber_positions import SubscriberPositions
from everlog.kernel.memory import Memory

TERM_COUNT = 3
_LENGTH_SIZE = 8


class RebuildTracker(SubscriberPositions):
    """Tracks one image from ``start_position`` on. ``position`` is the counter of the position up to which the image is
    complete, as memory and offset. Raises ``ValueError`` for invalid terms.

    ``consumption_position`` is the slowest subscriber's. :meth:`track` sets ``start_position`` and ``end_position``, up
    to which the image was complete before and after the call, and ``gap_length``, the missing bytes after that.
    """

    def __init__(self, terms: Sequence[Memory], start_position: int, position: tuple[Memory, int]) -> None:
        length = terms[0].length if len(terms) == TERM_COUNT else 0
        if not is_power_of_two(length) or length < HEADER_LENGTH or any(term.length != length for term in terms):
            raise ValueError("three terms of one length, a power of two, are meant")
        if start_position < 0 or start_position % FRAME_ALIGNMENT:
            raise ValueError(f"an image from position {start_position} on")
        self._terms = tuple(terms)
        self._term_length = length
        self._memory, self._offset = position
        self._memory.put_i64_release(self._offset, start_position)
        self._clean_position = start_position
        super().__init__()
        self.consumption_position = self.start_position = self.end_position = start_position
        self.gap_length = 0

    def track(self, hwm_position: int) -> bool:
        """Advance over complete frames, within one term. Returns whether a gap precedes ``hwm_position``."""
        positions = [min(memory.get_i64_acquire(at), hwm_position) for memory, at in self._subscribers]
        if positions:
            self.consumption_position = max(self.consumption_position, min(positions) & -FRAME_ALIGNMENT)
        self.start_position = max([self.end_position, *positions]) & -FRAME_ALIGNMENT
        end = self.start_position
        self.gap_length = 0
        if end < hwm_position:
            end = self._scan(hwm_position)
        if end > self.end_position:
            self.end_position = end
            self._memory.put_i64_release(self._offset, end)
        return self.gap_length > 0

    def _scan(self, hwm_position: int) -> int:
        """Return the end of the consecutive frames, and set the length of the gap after it."""
        offset = self.start_position & (self._term_length - 1)
        term_start = self.start_position - offset
        term = self._terms[term_start // self._term_length % TERM_COUNT]
        limit = min(hwm_position - term_start, self._term_length)
        while offset < limit:
            length = term.get_i32_acquire(offset)
            if length < HEADER_LENGTH or align(length) > self._term_length - offset:
                break
            offset += align(length)
        end = offset
        if offset < limit:
            offset += HEADER_LENGTH
            while offset < limit and term.get_i32_acquire(offset) == 0:
                offset += HEADER_LENGTH
        self.gap_length = offset - end
        return term_start + end

    def highest_consumption_position(self, hwm_position: int) -> int:
        """The fastest subscriber's position."""
        return max((min(memory.get_i64_acquire(at), hwm_position) for memory, at in self._subscribers), default=0)

    def join_position(self) -> int:
        """The position at which a new subscriber starts: the slowest subscriber's, or the end of the stream."""
        positions = [memory.get_i64_acquire(at) for memory, at in self._subscribers]
        return max(min([self.end_position, *positions]), self.consumption_position)

    def is_drained(self) -> bool:
        """Whether all subscribers have read everything received."""
        return all(memory.get_i64_acquire(at) >= self.end_position for memory, at in self._subscribers)

    def clean_to(self, position: int) -> None:
        """Zero what subscribers have read, up to ``position`` or the term's end. The first 8 bytes, which have a
        frame's length, are zeroed last, so that nobody sees a frame without its rest."""
        clean = self._clean_position
        position &= -FRAME_ALIGNMENT
        if position <= clean:
            return
        offset = clean & (self._term_length - 1)
        term = self._terms[clean // self._term_length % TERM_COUNT]
        length = min(position - clean, self._term_length - offset)
        term.zero(offset + _LENGTH_SIZE, length - _LENGTH_SIZE)
        term.put_i64_release(offset, 0)
        self._clean_position = clean + length
