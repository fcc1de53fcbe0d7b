"""What a subscriber sees: where its checkpoint is, and which messages it gets next. The original moves the checkpoint
when it tells this, and may delete segments; here nothing changes."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, replace
from typing import Any

from everlog.cli.jlogctl.arguments import shown
from everlog.errors import StoreUnavailable
from everlog.jlog.format.addresses import Address
from everlog.jlog.format.names import segment_name
from everlog.jlog.monitoring.summary import summarize_segments
from everlog.jlog.reading.journal import Journal
from everlog.jlog.reading.segments import Segment

RULE = "-" * 20


@dataclass(frozen=True, slots=True)
class Perspective:
    """``first`` and ``last`` of the next interval are equal to where the subscriber is when it holds nothing."""

    subscriber: str
    checkpoint: Address
    last_write: Address
    first: Address
    last: Address
    count: int

    def text(self) -> str:
        """As the original prints it."""
        return "\n".join(
            (
                RULE,
                f"  Perspective of the '{shown(self.subscriber)}' subscriber",
                f"    current checkpoint: {self.checkpoint}",
                f"Last write: {self.last_write}",
                f"\t     next interval: [{self.first}, {self.last}]",
                RULE,
                "",
            )
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "subscriber": shown(self.subscriber),
            "checkpoint": str(self.checkpoint),
            "last_write": str(self.last_write),
            "next_first": str(self.first) if self.count else None,
            "next_last": str(self.last) if self.count else None,
            "next_count": self.count,
        }


def perspective(journal: Journal, subscriber: str, checkpoint: Address) -> Perspective:
    """Look from a checkpoint. Raises :class:`StoreUnavailable` for a segment that can't be read."""
    written = journal.metastore.storage_log if journal.metastore.storage_log is not None else journal.last_log or 0
    ends: dict[int, int] = {}

    def last_of(log: int) -> int:
        if log not in ends:
            ends[log] = last_marker(journal, log)
        return ends[log]

    start, last = _next(journal, checkpoint, written, last_of)
    count = max(0, last.marker - start.marker)
    first = Address.of(start.log, start.marker + 1) if count else start
    return Perspective(subscriber, checkpoint, Address.of(written, last_of(written)), first, last, count)


def _next(journal: Journal, checkpoint: Address, written: int, last_of: Any) -> tuple[Address, Address]:
    """The last message done, in the segment where the next one is, and the last one there is in that segment."""
    # The segment that is written may not be there before its first message.
    logs = sorted({segment.log for segment in journal.segments} | {written})
    at = checkpoint
    number = bisect_left(logs, at.log)
    while True:
        if number < len(logs) and at.log == logs[number]:
            last = Address.of(at.log, last_of(at.log))
            at = min(at, last)
            if at < last or at.log >= written:
                return at, last
            number += 1
        if number == len(logs) or logs[number] > written:
            return at, at
        at = Address.of(logs[number], 0)


def last_marker(journal: Journal, log: int) -> int:
    """The number of a segment's last message, lost ones counted; 0 where there is none. Raises
    :class:`StoreUnavailable`."""
    number = bisect_left(journal.segments, log, key=lambda segment: segment.log)
    segment = journal.segments[number] if number < len(journal.segments) else None
    if segment is None or segment.log != log or not segment.byte_count:
        return 0
    summary = summarize_segments(replace(journal, segments=[Segment(log, segment.byte_count)]), budget=None)[0]
    if summary.following is None:
        raise StoreUnavailable(segment_name(log), found="a segment that can't be read", expected="a readable file")
    return summary.following - 1
