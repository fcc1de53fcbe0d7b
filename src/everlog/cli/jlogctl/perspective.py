"""A subscriber's perspective: its checkpoint, and the messages it gets next. The original moves the checkpoint when it
shows this, and may delete segments; here nothing changes."""

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
    """A subscriber's place and its next messages, from ``first`` to ``last``. If ``count`` is 0, both are the place
    where it is."""

    subscriber: str
    checkpoint: Address
    last_write: Address
    first: Address
    last: Address
    count: int

    def text(self) -> str:
        """The lines that the original prints."""
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
        """The perspective as an object for JSON."""
        return {
            "subscriber": shown(self.subscriber),
            "checkpoint": str(self.checkpoint),
            "last_write": str(self.last_write),
            "next_first": str(self.first) if self.count else None,
            "next_last": str(self.last) if self.count else None,
            "next_count": self.count,
        }


def perspective(journal: Journal, subscriber: str, checkpoint: Address) -> Perspective:
    """The perspective of a subscriber at a checkpoint. Raises :class:`StoreUnavailable` if a segment can't be read."""
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
    """The last finished message, moved to the segment that has the next one, and that segment's last message."""
    # The segment to write may not exist before its first message.
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
    """The number of a segment's last message, counting lost ones; 0 without messages. Raises :class:`StoreUnavailable`
    if the segment can't be read."""
    number = bisect_left(journal.segments, log, key=lambda segment: segment.log)
    segment = journal.segments[number] if number < len(journal.segments) else None
    if segment is None or segment.log != log or not segment.byte_count:
        return 0
    summary = summarize_segments(replace(journal, segments=[Segment(log, segment.byte_count)]), budget=None)[0]
    if summary.following is None:
        raise StoreUnavailable(segment_name(log), found="unreadable", message=f"can't read segment {segment_name(log)}")
    return summary.following - 1
