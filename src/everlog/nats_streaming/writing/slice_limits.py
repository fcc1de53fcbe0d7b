"""When a slice is full. Source: ``stores/filestore.go`` (setSliceLimits, Store)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from everlog.nats_streaming.format.limits import Limits

DEFAULT_SLICE_BYTES = 64 << 20
SLICES_PER_CHANNEL = 4
_SECOND_NS = 10**9


@dataclass(frozen=True, slots=True)
class SliceLimits:
    """The limits of a slice; 0 means no limit. A slice that has reached one takes no further message, so it may be
    larger than ``max_bytes`` by one message."""

    max_msgs: int = 0
    max_bytes: int = 0
    max_age_ns: int = 0

    def __bool__(self) -> bool:
        return self.max_msgs > 0 or self.max_bytes > 0 or self.max_age_ns > 0

    @classmethod
    def derived(cls, limits: Limits) -> Self:
        """A quarter of each limit of the channel: at least one message, one byte, one second."""
        return cls(
            max(limits.max_msgs // SLICES_PER_CHANNEL, 1) if limits.max_msgs else 0,
            max(limits.max_bytes // SLICES_PER_CHANNEL, 1) if limits.max_bytes else 0,
            max(limits.max_age_ns // SLICES_PER_CHANNEL, _SECOND_NS) if limits.max_age_ns else 0,
        )

    def is_full(self, count: int, byte_count: int, age_ns: int) -> bool:
        """Whether a slice of ``count`` messages, the first of which is ``age_ns`` old, takes no further one."""
        return (
            0 < self.max_bytes <= byte_count
            or 0 < self.max_msgs <= count
            or (0 < self.max_age_ns <= age_ns and count > 0)
        )
