"""What a channel's slices hold, and what its limits drop: decisions only, no files.

Dropping a message moves the channel's first sequence; a slice's files go when all its messages are dropped and it is
not the last slice. Source: ``stores/filestore.go`` (enforceLimits, expireMsgs, removeFirstMsg)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from everlog.nats_streaming.format.layouts import RECORD_OVERHEAD
from everlog.nats_streaming.format.limits import Limits
from everlog.nats_streaming.writing.slice_limits import SliceLimits


@dataclass(slots=True)
class SliceTotals:
    """A slice and its totals. ``dat_end`` and ``idx_end`` are where its records end. ``removed`` messages, the first
    ones, were dropped; they still count in ``count`` and ``byte_count``, which decide when the slice is full."""

    number: int
    dat: str
    idx: str
    dat_end: int
    idx_end: int
    count: int = 0
    byte_count: int = 0
    first: int = 0
    last: int = 0
    first_timestamp: int = 0
    last_timestamp: int = 0
    removed: int = 0

    @property
    def is_emptied(self) -> bool:
        """Whether all its messages were dropped."""
        return self.removed == self.count


class ChannelState:
    """The totals of a channel, from its slices in the order of their numbers. ``first`` is the first sequence that is
    not dropped: one above ``last`` if all are."""

    def __init__(self, slices: Iterable[SliceTotals], limits: Limits, slice_limits: SliceLimits) -> None:
        self.slices = list(slices)
        self._limits = limits
        self.slice_limits = slice_limits
        self.first = min((s.first for s in self.slices), default=1)
        self.last = max((s.last for s in self.slices), default=0)
        self.last_timestamp = max((s.last_timestamp for s in self.slices), default=0)
        self.count = sum(s.count for s in self.slices)
        self.byte_count = sum(s.byte_count for s in self.slices)

    def needs_slice(self, now_ns: int) -> bool:
        """Whether the next message goes into a new slice."""
        if not self.slices:
            return True
        last = self.slices[-1]
        return self.slice_limits.is_full(last.count, last.byte_count, now_ns - last.first_timestamp)

    def stored(self, sequence: int, length: int, timestamp: int) -> None:
        """Count a message of ``length`` payload bytes in the last slice."""
        piece, size = self.slices[-1], length + RECORD_OVERHEAD
        if piece.count == 0:
            piece.first, piece.first_timestamp = sequence, timestamp
        piece.last, piece.last_timestamp = sequence, timestamp
        piece.count += 1
        piece.byte_count += size
        self.last, self.last_timestamp = sequence, timestamp
        self.count += 1
        self.byte_count += size

    def exceeds_limits(self) -> bool:
        """Whether the first message has to go for the channel's count or bytes; the last message always stays."""
        limits = self._limits
        return self.count > 1 and (0 < limits.max_msgs < self.count or 0 < limits.max_bytes < self.byte_count)

    def is_expired(self, timestamp: int, now_ns: int) -> bool:
        """Whether a message of that time has reached the channel's age."""
        return 0 < self._limits.max_age_ns <= now_ns - timestamp

    @property
    def has_age_limit(self) -> bool:
        """Whether messages expire."""
        return self._limits.max_age_ns > 0

    def drop_first(self, length: int, sequence: int) -> None:
        """Drop the first message, which has ``sequence`` and ``length`` payload bytes."""
        piece = self.slices[0]
        piece.removed += 1
        self.count -= 1
        self.byte_count -= length + RECORD_OVERHEAD
        self.first = sequence + 1

    def removable(self) -> SliceTotals | None:
        """The first slice, if its files are to be deleted."""
        piece = self.slices[0] if len(self.slices) > 1 else None
        return piece if piece is not None and piece.is_emptied else None

    def slice_removed(self) -> None:
        """Forget the first slice, whose files were deleted."""
        del self.slices[0]
        self.first = max(self.first, self.slices[0].first)
